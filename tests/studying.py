"""Pools of measured triplets, and simulated votes on a choice from them, for the tests of planning."""

from __future__ import annotations

import numpy as np
import polars as pl


def pool(T: int = 600, references: int = 60, names: str = "ab", seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(2, T))
    noise = {name: 0.3 + 0.3 * place for place, name in enumerate(names)}
    columns = {f"{name}_d{k}": np.exp(z[k] + s * rng.normal(size=T)) for name, s in noise.items() for k in (0, 1)}
    return pl.DataFrame({"triplet": [f"t{t}" for t in range(T)], "ref": rng.integers(0, references, T), **columns})


def judge(batch: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    p = 1 / (1 + batch["a_d1"].to_numpy() / batch["a_d0"].to_numpy())
    M = batch["votes_wanted"].to_numpy()
    return batch.with_columns(n=pl.Series(np.random.default_rng(seed).binomial(M, p)), M=pl.Series(M))

"""Simulated tables: seeded, small, with ties, groups, references and observers."""

from __future__ import annotations

import numpy as np
import polars as pl

import twoafc


def named(seed: int, triplets: int = 600, distances: str = "lognormal", references: int | None = 40) -> pl.DataFrame:
    """A distance that the votes follow and a noisy one, in two groups and several references, with M of 2, 3 and 5."""
    world = twoafc.worlds.simulate(
        "weber", triplets=triplets, votes=[2, 3, 5], references=references, distances=distances, lapse=0.05, seed=seed
    )
    noise = np.exp(0.6 * np.random.default_rng(seed).normal(size=(2, triplets)))
    return world.select(
        *(name for name in ("triplet", "ref") if name in world.columns),
        "n",
        "M",
        group=pl.Series(np.arange(triplets) % 3 == 0).replace_strict({True: "blur", False: "noise"}),
        near_d0="d0",
        near_d1="d1",
        noisy_d0=pl.col("d0") * noise[0],
        noisy_d1=pl.col("d1") * noise[1],
    )


def quadruples(seed: int, triplets: int = 400) -> pl.DataFrame:
    """Two pairs of images in each row, from 25 images."""
    image = np.random.default_rng(seed).integers(0, 25, (4, triplets)).astype(str)
    names = dict(zip(("ref0", "x0", "ref1", "x1"), np.char.add("i", image), strict=True))
    return named(seed, triplets, references=None).with_columns(**{k: pl.Series(v.tolist()) for k, v in names.items()})


def single_votes(seed: int, votes: int = 900) -> pl.DataFrame:
    """One row for each vote of 15 observers on 150 triplets, every other one shown the other way round."""
    rng = np.random.default_rng(seed)
    d0, d1 = rng.lognormal(size=(2, 150))
    t, who = np.arange(votes) % 150, rng.integers(0, 15, votes)
    choice = rng.binomial(1, twoafc.worlds.true_probability("weber", d0[t], d1[t], 0.1))
    turned = np.arange(votes) // 150 % 2 == 1
    x0, x1 = (np.array([f"{side}{k}" for k in t]) for side in "ab")
    shown = {
        "choice": np.where(turned, 1 - choice, choice),
        "ref": np.array([f"r{k % 30}" for k in t]),
        "x0": np.where(turned, x1, x0),
        "x1": np.where(turned, x0, x1),
        "observer": np.array([f"o{k}" for k in who]),
        "d0": np.where(turned, d1[t], d0[t]),
        "d1": np.where(turned, d0[t], d1[t]),
    }
    return pl.DataFrame({name: column.tolist() for name, column in shown.items()})


def pairs(seed: int, rows: int = 400) -> pl.DataFrame:
    """Pairs that people call "same" the more often the nearer they are."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=rows)
    return pl.DataFrame(
        {
            "n": rng.binomial(3, 0.02 + 0.95 / (1 + np.exp(2 * z + 0.4))),
            "M": [3] * rows,
            "group": ["blur", "noise"] * (rows // 2),
            "ref": [f"r{k % 40}" for k in range(rows)],
            "near_d": np.exp(z),
            "noisy_d": np.exp(z + 0.8 * rng.normal(size=rows)),
        }
    )

"""What several benchmarks share: votes on distances of unlike quality, and how far a fit is from the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy.special import rel_entr

from twoafc import worlds

GROUPS = ("cnn", "color", "deblur", "frameinterp", "superres", "traditional")


def noisy_votes(triplets: int, votes: int, seed: int, *, noise: Sequence[float], per_reference: int) -> pl.DataFrame:
    """Votes of Weber's world on named references, and a distance for each noise through which the world is seen."""
    frame = worlds.simulate("weber", triplets=triplets, votes=votes, seed=seed)
    rng = np.random.default_rng(seed)
    columns = {
        f"noise{place}_d{k}": frame[f"d{k}"] * np.exp(spread * rng.normal(size=triplets))
        for place, spread in enumerate(noise)
        for k in (0, 1)
    }
    row = np.arange(triplets)
    labels = {"triplet": row, "ref": row // per_reference}
    named = {name: [f"{seed}/{name}/{number:06d}" for number in numbers] for name, numbers in labels.items()}
    return pl.DataFrame({**named, "group": rng.choice(GROUPS, triplets), "n": frame["n"], "M": frame["M"], **columns})


def excess(P: np.ndarray, Q: np.ndarray) -> float:
    """Expected NLL of a vote under Q less that under the true P."""
    Q = np.clip(Q, 1e-12, 1 - 1e-12)
    return float(np.mean(rel_entr(P, Q) + rel_entr(1 - P, 1 - Q)))

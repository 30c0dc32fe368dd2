"""Channels with a known truth, and images with networks of any weights, for tests of heads."""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy.special import expit

from twoafc.arrays import FloatArray
from twoafc.estimators import Heads
from twoafc.measurement import MeasuredChannels
from twoafc.table import Triplets

LAYERS = (3, 5)
PUBLISHED = np.array([1.0, 0.5, 0.0, 1.0, 0.2, 0.0, 0.5, 1.0])
WEIGHTS = {"net": "sha256 1"}


def world(triplets: int, truth: FloatArray, *, votes: int = 5, seed: int = 0) -> tuple[MeasuredChannels, FloatArray]:
    """Make a file of channels, each triplet with two pairs of its own, and the true P of its votes."""
    rng = np.random.default_rng(seed)
    C = len(truth)
    means = rng.lognormal(sigma=0.7, size=(2 * triplets, C)) * np.geomspace(0.1, 10, C)
    F = means @ (truth / np.geomspace(0.1, 10, C))
    places = rng.permutation(2 * triplets).reshape(triplets, 2)
    P = 0.01 + 0.98 * expit(F[places[:, 0]] - F[places[:, 1]])
    frame = pl.DataFrame(
        {
            "triplet": [str(number) for number in range(triplets)],
            "ref": [f"r{number}" for number in rng.integers(30, size=triplets)],
            "n": rng.binomial(votes, P),
            "M": np.full(triplets, votes),
        }
    )
    card = {
        "data": {"fingerprint": "none"},
        "distances": {"lpips_alex": {"identity": {"variant": "lpips_alex/channels", "weights": WEIGHTS}, "made": []}},
    }
    heads = np.split(PUBLISHED / np.geomspace(0.1, 10, C), np.cumsum(LAYERS)[:-1])
    traces = np.zeros(0, dtype=np.uint64)
    file = MeasuredChannels(frame, card, traces, means.astype(np.float32), np.arange(2 * triplets), places, heads)
    return file, P


def table_of(file: MeasuredChannels) -> Triplets:
    """The table that heads are fitted to."""
    columns = {"n": file.frame["n"], "M": file.frame["M"], "ref": file.frame["ref"]}
    table = Triplets.from_frame(columns | {"d0": np.zeros(len(file.frame)), "d1": np.zeros(len(file.frame))})
    places = tuple(place[:, None].copy() for place in file.places.T)
    return Triplets(table.n, table.M, {"heads": places}, table.labels)


def settings_of(file: MeasuredChannels, **changes: object) -> Heads:
    """Settings for the channels of a file."""
    return Heads("lpips_alex", tuple(file.heads), WEIGHTS, file.means, **changes)  # type: ignore[arg-type]

"""A small world to explore: two distances, two groups, named images of one colour each, and results on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from twoafc.estimators import Density, Estimator
from twoafc.evaluation import evaluate
from twoafc.table import Pairs, Triplets

HOSTILE = '<script>document.title="stolen"</script>'
ESTIMATORS: dict[str, Estimator] = {"density": Density(sigma=0.1)}


def world(T: int, seed: int, prefix: str) -> Triplets:
    """Votes of Weber's world on named images; one of the two groups has a name that is no good."""
    rng = np.random.default_rng(seed)
    d = rng.lognormal(size=(2, T))
    M = rng.integers(2, 7, T)
    columns = {
        "triplet": [f"{prefix} {row}/é&?" for row in range(T)],
        "group": ["cnn" if row % 3 else HOSTILE for row in range(T)],
        "ref": [f"ref/{row % 20:03d}" for row in range(T)],
        "x0": [f"x0/{row:03d}" for row in range(T)],
        "x1": [f"x1/{row:03d}" for row in range(T)],
        "n": rng.binomial(M, d[0] ** 2 / (d**2).sum(axis=0)),
        "M": M,
    }
    for name, noise in (("near", 0.2), ("far", 1.0)):
        seen = d * np.exp(noise * rng.normal(size=d.shape))
        columns |= {f"{name}_d0": seen[0], f"{name}_d1": seen[1]}
    return Triplets.from_frame(columns)


def write_results(folder: Path, *, crossed: bool = False) -> Path:
    """Evaluate the world and write the results, with the training table beside them unless it is the tested one."""
    train, test = world(400, 1, "a"), world(90, 2, "b")
    tables = {"train": test} if crossed else {"train": train, "test": test}
    evaluate(**tables, estimators=ESTIMATORS).write(folder / "results")
    if not crossed:
        train.write(folder / "train.csv")
    return folder / "results"


def write_pairs(folder: Path) -> Path:
    """Evaluate "same" votes on named pairs of images, and write the results."""
    rng = np.random.default_rng(3)
    d = rng.lognormal(size=200)
    columns = {
        "pair": [f"pair {row}" for row in range(200)],
        "ref": [f"ref/{row % 20:03d}" for row in range(200)],
        "x": [f"x1/{row:03d}" for row in range(200)],
        "n": rng.binomial(5, 1 / (1 + d**2)),
        "M": [5] * 200,
        "near_d": d,
        "far_d": d * np.exp(rng.normal(size=200)),
    }
    evaluate(Pairs.from_frame(columns), folds=2).write(folder / "pairs")
    return folder / "pairs"


def write_images(folder: Path, T: int = 90) -> Path:
    """Write images of one colour, which tells the role and the number of each."""
    for role, count in (("ref", 20), ("x0", T), ("x1", T)):
        (folder / role).mkdir(parents=True)
        for row in range(count):
            Image.new("RGB", (8, 8), colour(role, row)).save(folder / role / f"{row:03d}.png")
    return folder


def colour(role: str, number: int) -> tuple[int, int, int]:
    """Colour of an image."""
    return (number, {"ref": 40, "x0": 120, "x1": 200}[role], 99)

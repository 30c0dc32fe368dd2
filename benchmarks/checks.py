"""How often the checks of directions and sides alarm wrongly, and what they notice.

Run: python -m benchmarks checks [TABLES] (about four minutes with the default, 1000)

Tables have 300 triplets with three votes. Distances that have nothing to do with the votes must not be called
similarities, even where both have something in common within references or images; similarities must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from twoafc import Triplets, check

ROWS = 300
DESIGNS: tuple[dict[str, int], ...] = (
    {},
    {"distances": 5},
    *({"references": count} for count in (100, 30, 10, 6, 4)),
    *({"images": count} for count in (60, 30, 11)),
    {"images": 11, "distances": 5},
)


def unrelated(seed: int, *, references: int = 0, images: int = 0, distances: int = 1) -> Triplets:
    """Distances that have nothing to do with the votes."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    if images:
        shown = np.array([rng.choice(images, 3, replace=False) for _ in range(ROWS)]).T
        quality = rng.normal(size=images)
        logit = quality[shown[1]] - quality[shown[2]] + rng.normal(0, 0.5, ROWS)
        columns = {name: [f"i{k}" for k in each] for name, each in zip(("ref", "x0", "x1"), shown, strict=True)}
        for k in range(distances):
            d = np.abs(rng.normal(0, 0.5, (images, images))) + np.exp(rng.normal(size=images)) / 2
            columns |= {f"{k}_d0": (d + d.T)[shown[0], shown[1]], f"{k}_d1": (d + d.T)[shown[0], shown[2]]}
    else:
        ref = np.arange(ROWS) % (references or ROWS)
        logit = rng.normal(size=ROWS) + 0.8 * rng.normal(size=ROWS)[ref]
        columns = {"ref": [f"r{k}" for k in ref]} if references else {}
        for k in range(distances):
            d0 = rng.lognormal(size=ROWS)
            ratio = rng.normal(size=ROWS) + 0.8 * rng.normal(size=ROWS)[ref]
            columns |= {f"{k}_d0": d0, f"{k}_d1": d0 * np.exp(ratio)}
    return Triplets.from_frame({"n": rng.binomial(3, expit(logit)), "M": [3] * ROWS, **columns})


def similarity(seed: int, slope: float) -> Triplets:
    """A similarity given as a distance, the stronger the steeper."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(2, ROWS))
    n = rng.binomial(3, expit(slope * (z[0] - z[1]) + rng.normal(size=ROWS)))
    return Triplets.from_frame({"n": n, "M": [3] * ROWS, "d0": np.exp(-z[0]), "d1": np.exp(-z[1])})


def main(options: Sequence[str]) -> None:
    """Print shares of tables with a finding."""
    tables = int(options[0]) if options else 1000
    print(f"unrelated distances: % of {tables} tables with a finding")
    for design in DESIGNS:
        codes = [{finding.code for finding in check(unrelated(seed, **design))} for seed in range(tables)]
        shares = [100 * np.mean([code in each for each in codes]) for code in ("direction", "side")]
        print(f"  {design or 'rows alone'!s:36} similarity {shares[0]:.1f}, preference for a side {shares[1]:.1f}")
    print(f"similarities: mean 2AFC score, and % of {tables} tables that are noticed, and warned of")
    for slope in (0.2, 0.3, 0.5):
        scores, levels = [], []
        for seed in range(tables):
            table = similarity(seed, slope)
            scores.append(50 + 100 * float(np.mean(np.sign(table.d0 - table.d1) * (table.n / 3 - 0.5))))
            levels.append({finding.level for finding in check(table) if finding.code == "direction"})
        noticed, warned = np.mean([bool(each) for each in levels]), np.mean(["warning" in each for each in levels])
        print(f"  {np.mean(scores):.1f} %: {100 * noticed:.0f}, {100 * warned:.0f}")

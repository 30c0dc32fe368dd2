"""What error bars, comparisons, ceiling, diagnostics and checks cost: six distances, 151,400 and 36,344 triplets.

Run: python -m benchmarks inference (about half a minute)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from twoafc import Density, Triplets, check, evaluate, worlds
from twoafc.inference import (
    clustering_of,
    compare,
    errors,
    estimate_ceiling,
    goodness_of_fit,
    values_of,
    values_per_row,
)

GROUPS = ("cnn", "color", "deblur", "frameinterp", "superres", "traditional")


def table(T: int, votes: int, seed: int, *, per_reference: int) -> Triplets:
    """A world seen by six distances, with groups and references."""
    frame = worlds.simulate("weber", triplets=T, votes=votes, seed=seed)
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"n": frame["n"], "M": frame["M"], "group": rng.choice(GROUPS, T)}
    columns["ref"] = [f"r{k // per_reference}" for k in range(T)]
    for k in range(6):
        seen = frame.select("d0", "d1").to_numpy().T * np.exp(0.2 * k * rng.normal(size=(2, T)))
        columns |= {f"d{k}_d0": seen[0], f"d{k}_d1": seen[1]}
    return Triplets.from_frame(columns)


def timed(label: str, work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - start
    print(f"  {label:44s}{seconds:8.2f}", flush=True)
    return found, seconds


def study(per_reference: int) -> None:
    train, test = (table(*each, per_reference=per_reference) for each in ((151_400, 2, 1), (36_344, 5, 2)))
    print(f"{per_reference} triplets per reference; seconds")
    P = {name: Density().fit(train[name]).probability(*test.distances[name]) for name in test.distances}
    values = {name: values_per_row(test[name], each) for name, each in P.items()}
    link, first = timed("what goes together", lambda: clustering_of(test))
    kept = {name: values_of(test[name], P[name], values[name], link) for name in P}
    parts = {
        "error bars of six distances, by group": lambda: [errors(v, test.codes("group"), link) for v in kept.values()],
        "15 paired comparisons by 3 measures": lambda: compare(kept, link, estimator="density"),
        "floor and ceiling": lambda: estimate_ceiling(test.n, test.M, clusters=link.rows),
        "calibration, dispersion, residuals, ...": lambda: [goodness_of_fit(test[name], P[name], link) for name in P],
    }
    total = first + sum(timed(label, work)[1] for label, work in parts.items())
    print(f"  {'in all':44s}{total:8.2f}")
    timed("(the check of both tables)", lambda: check(train, test))
    timed("(evaluate, with fits and scores on both)", lambda: evaluate(train, test))


def main() -> None:
    for per_reference in (1, 20):
        study(per_reference)


if __name__ == "__main__":
    main()

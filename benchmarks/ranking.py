"""The ranking of distances under each estimator, with error bars: whether the smoother decides it.

Run: python -m benchmarks ranking TRAIN TEST (two tables with the same distances; about a minute)

Both tables are put together and cross-validated with whole references left out, so that no estimator gains by
remembering stimuli. Error bars are standard errors clustered by reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from twoafc import Density, Network, Settings, Spline, Triplets, evaluate
from twoafc.table import read_frame

ESTIMATORS = {
    "density (paper)": Density(),
    "density (auto)": Density(sigma="auto"),
    "network (lbfgs)": Network(solver="lbfgs"),
    "spline": Spline(),
}


def clustered_error(values: np.ndarray, cluster: np.ndarray) -> float:
    """Standard error of a mean over rows that go together in clusters."""
    sums = np.bincount(cluster, values - values.mean())
    return float(np.sqrt(np.sum(sums**2) * len(sums) / (len(sums) - 1)) / len(values))


def main(options: Sequence[str]) -> None:
    frame = pl.concat([read_frame(path)[0] for path in options], how="diagonal").drop("triplet", strict=False)
    table = Triplets.from_frame(frame)
    found = evaluate(table, estimators=ESTIMATORS, settings=Settings(folds=10))
    cluster = table.codes("ref")[1]
    print(f"NLL (standard error) of {len(table)} triplets, references left out; the best first under spline")
    cells, order = {}, {}
    for (distance, estimator), part in found.triplets.group_by("distance", "estimator"):
        nll = part["nll"].to_numpy()
        cells[distance, estimator] = f"{nll.mean():.4f} ({clustered_error(nll, cluster):.4f})"
        order[distance, estimator] = nll.mean()
    print(f"{'':20s}" + "".join(f"{name:>22s}" for name in ESTIMATORS))
    for distance in sorted(table.distances, key=lambda name: order[name, "spline"]):
        places = (f"{cells[distance, name]:>18s} #{rank(order, distance, name):<2d}" for name in ESTIMATORS)
        print(f"{distance:20s}" + "".join(places))


def rank(order: dict[tuple[str, str], float], distance: str, estimator: str) -> int:
    return 1 + sum(value < order[distance, estimator] for (_, name), value in order.items() if name == estimator)

"""Whether one pair of images has one distance in all the rows that show it."""

from __future__ import annotations

import numpy as np
import polars as pl

from twoafc.table import Triplets

FEWEST = 20
ROUNDING = 1e-3
"""Of the spread of the distance: so much may one pair's distance differ from row to row."""


def unlike_pairs(table: Triplets, name: str) -> tuple[float, int] | None:
    """Give the share of repeated pairs (reference, image) with unlike distances, and how many pairs repeat.

    None where images have no names or hardly any pair repeats.

    Examples
    --------
    >>> x0, x1 = [f"a{k % 20}" for k in range(40)], [f"b{k}" for k in range(40)]
    >>> rows = {"n": [1] * 40, "M": [1] * 40, "ref": ["r"] * 40, "x0": x0, "x1": x1, "d0": range(40), "d1": range(40)}
    >>> unlike_pairs(Triplets.from_frame(rows), "distance")  # twenty pairs (r, a0), ..., each with two distances
    (1.0, 20)
    """
    labels = table.labels
    if "x0" not in labels.columns or "x1" not in labels.columns or not {"ref", "ref0"} & set(labels.columns):
        return None
    refs = ("ref0", "ref1") if "ref0" in labels.columns and "ref1" in labels.columns else ("ref", "ref")
    if not set(refs) <= set(labels.columns):
        return None
    sides = [
        pl.DataFrame({"ref": labels[ref], "x": labels[x], "d": table.distances[name][place]})
        for place, (ref, x) in enumerate(zip(refs, ("x0", "x1"), strict=True))
    ]
    frame = pl.concat(sides)
    found = frame.group_by("ref", "x").agg(times=pl.len(), width=pl.col("d").max() - pl.col("d").min())
    repeated = found.filter(pl.col("times") > 1)["width"].to_numpy()
    if len(repeated) < FEWEST:
        return None
    low, high = np.quantile(frame["d"].to_numpy(), [0.05, 0.95])
    return float((repeated > ROUNDING * (high - low)).mean()), len(repeated)

"""Counts as plain arrays of a file, and back with everything checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.counts.cells import CLUSTER_KEY, KEY, Key, cluster_lattice, gathered, widened
from twoafc.counts.lattice import Lattice
from twoafc.errors import DataError

TRIPLETS, VOTES, UNIDENTIFIED = "triplets", "votes", "unidentified votes"
"""What the rows of a table that was counted may be."""
NOTES = {
    VOTES: "single votes were merged into triplets before they were counted: votes on one triplet must be counted "
    "together, for in counts that are added they are several triplets",
    UNIDENTIFIED: "votes that nothing identifies (ref, x0, x1 or triplet) were counted as triplets with M = 1",
}

Stored = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def packed(frame: pl.DataFrame, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Columns as arrays of the narrowest whole numbers that hold them.

    Examples
    --------
    >>> packed(pl.DataFrame({"n": [1, 300]}))
    {'n': array([  1, 300], dtype=uint16)}
    """
    arrays = {}
    for column in frame.iter_columns():
        values = column.to_numpy()
        ends = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        arrays[f"{prefix}{column.name}"] = values.astype(np.result_type(*map(np.min_scalar_type, ends)))
    return arrays


def unpacked(card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[Any, ...]:
    """Take counts back, in the order of their attributes; what no counting can have given is refused."""
    missing = sorted({"distance", "per_octave", "groups", "refs_kept", "parts", "files", "rows", "atoms"} - set(card))
    if missing:
        raise DataError(f"the card of counts has no {missing[0]}")
    distance, groups, parts = card["distance"], card["groups"], card["parts"]
    if not isinstance(distance, str) or not distance:
        raise DataError("counts need the name of their distance; that of the file is not text")
    if not _names(groups) or groups != sorted(set(groups)):
        raise DataError("groups must be names in order, each once; those of the file are not")
    if not _names(parts):
        raise DataError("parts must be digests; those of the file are not")
    if not _names(card["files"]):
        raise DataError("files must be fingerprints; those of the file are not")
    if not _names(card["rows"]) or not card["rows"] or not {*card["rows"]} <= {TRIPLETS, *NOTES}:
        raise DataError(f"rows must be {TRIPLETS} or {' or '.join(NOTES)}; those of the file are not")
    try:
        lattice = Lattice(card["per_octave"])
    except ValueError as error:
        raise DataError(str(error)) from error
    atoms = _atoms(card["atoms"])
    cells = _frame(arrays, "", KEY, lattice, len(groups))
    expected = {*cells.columns}
    clusters = None
    if card["refs_kept"] is True:
        clusters = _frame(arrays, "clusters_", CLUSTER_KEY, cluster_lattice(lattice), len(groups))
        expected |= {f"clusters_{name}" for name in clusters.columns}
        wide = gathered(KEY, widened(cells, lattice, cluster_lattice(lattice)))
        if not gathered(KEY, clusters.drop("ref")).equals(wide):
            raise DataError("counts by reference must add up to those of all triplets; those of the file do not")
    foreign = sorted(set(arrays) - expected)
    if foreign:
        raise DataError(f"the file holds {foreign[0]}, which no counts have")
    told = (tuple(parts), tuple(card["files"]), tuple(card["rows"]))
    return distance, lattice, cells, tuple(groups), clusters, *told, atoms


def _atoms(given: object) -> dict[float, int]:
    pairs: list[Any] = given if isinstance(given, list) else [given]
    numbers = (isinstance(pair, list) and [type(each) for each in pair] == [float, int] for pair in pairs)
    if not all(numbers) or any(not (0 < value < np.inf and times > 0) for value, times in pairs):
        raise DataError("atoms must be values above 0, each with a number of distances; those of the file are not")
    return dict(pairs)


def _names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _frame(arrays: Mapping[str, NDArray[Any]], prefix: str, key: Key, lattice: Lattice, groups: int) -> pl.DataFrame:
    columns = {}
    kinds: dict[str, type[pl.DataType]] = {**key, "count": pl.Int64}
    for name, kind in kinds.items():
        array = arrays.get(f"{prefix}{name}")
        if array is None:
            raise DataError(f"the file has no array {prefix}{name}")
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise DataError(f"{prefix}{name} must be a row of whole numbers; that of the file is not")
        columns[name] = pl.Series(array).cast(kind, strict=False)
    if len({len(column) for column in columns.values()}) > 1 or not len(columns["count"]):
        raise DataError("the arrays of counts must have one length, at least 1; those of the file have not")
    frame = pl.DataFrame(columns)
    if sum(frame.null_count().row(0)):
        raise DataError("the numbers of counts must be of their size; some of the file are too large")
    M, n, sign = pl.col("M"), pl.col("n"), pl.col("sign")
    bin0, bin1 = pl.col("bin0"), pl.col("bin1")
    rules = {
        "count must be at least 1": pl.col("count") >= 1,
        "M must be at least 1": M >= 1,
        "n must lie in [0, M]": (n >= 0) & (n <= M),
        "group must be one of the groups": pl.col("group").is_between(0, max(groups, 1) - 1),
        "bins must lie on the lattice": bin0.is_between(0, lattice.bins - 1) & bin1.is_between(0, lattice.bins - 1),
        "sign must be that of d0 - d1": sign.is_between(-1, 1) & ((bin0 == bin1) | (sign == (bin0 - bin1).sign())),
        "d0 = d1 = 0 must have sign 0": (bin0 > 0) | (bin1 > 0) | (sign == 0),
    }
    kept = frame.select(**{rule: holds.all() for rule, holds in rules.items()}).row(0, named=True)
    for rule, holds in kept.items():
        if not holds:
            raise DataError(f"{rule}; in the file some are not")
    if not frame.equals(gathered(key, frame)):
        raise DataError("each key must stand once, in order; in the file they do not")
    return frame

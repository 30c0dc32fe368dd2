"""Counting a table in memory: the plain version, which every engine is held to."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

from twoafc.counts.atoms import commonest, crowded_of, noted_from
from twoafc.counts.cells import CLUSTER_KEY, KEY, cluster_lattice, gathered, widened
from twoafc.counts.counts import Counts
from twoafc.counts.lattice import Lattice
from twoafc.errors import DataError
from twoafc.table import Triplets


def tally(table: Triplets, lattice: Lattice | None = None, *, keep_refs: bool = False) -> Counts:
    """Count the triplets of a table with one distance.

    Parameters
    ----------
    table : Triplets
        With one distance, which is at least 0.
    lattice : Lattice, optional
        Bins of the distance.
    keep_refs : bool
        Count by reference too, for clustered error bars.

    Examples
    --------
    >>> table = Triplets.from_frame({"n": [1, 0], "M": [2, 2], "d0": [0.3, 0.1], "d1": [0.2, 0.1]})
    >>> tally(table).cells["sign"].to_list()
    [0, 1]
    """
    lattice = lattice or Lattice()
    name, (d0, d1) = next(iter(table[_only(table)].distances.items()))
    if min(d0.min(), d1.min()) < 0:
        raise DataError(f"a distance must be at least 0 to be counted; {name} has {min(d0.min(), d1.min())}")
    grouped = "group" in table.labels.columns
    groups, codes = table.codes("group") if grouped else ([], np.zeros(len(table), dtype=np.int64))
    rows = pl.DataFrame(
        {
            "group": codes,
            "bin0": lattice.index(d0),
            "bin1": lattice.index(d1),
            "sign": np.sign(d0 - d1).astype(np.int8),
            "n": table.n,
            "M": table.M,
            "count": np.ones(len(table), dtype=np.int64),
        }
    )
    clusters = None
    if keep_refs:
        wide = widened(rows, lattice, cluster_lattice(lattice))
        clusters = gathered(CLUSTER_KEY, wide.with_columns(ref=reference_digests(table.labels["ref"])))
    cells, pooled = gathered(KEY, rows), np.concatenate([d0, d1])
    some = pooled[np.isin(lattice.index(pooled), crowded_of(cells, lattice))]
    atoms = commonest(lattice, *np.unique(some, return_counts=True), noted_from(len(pooled) / 2))
    return Counts(name, lattice, cells, tuple(groups), clusters, atoms=atoms)


def _only(table: Triplets) -> str:
    if len(table.distances) != 1:
        raise ValueError(f"counts are of one distance; choose one, table[NAME], of {', '.join(table.distances)}")
    return next(iter(table.distances))


def reference_digests(refs: pl.Series) -> pl.Series:
    """Give each reference a number that is the same at every site and does not tell its name.

    Examples
    --------
    >>> reference_digests(pl.Series(["a", "b", "a"])).n_unique()
    2
    """
    names = refs.cast(pl.String)
    distinct = names.unique().to_list()
    digests = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") for name in distinct]
    return names.replace_strict(distinct, pl.Series(digests, dtype=pl.UInt64), return_dtype=pl.UInt64)

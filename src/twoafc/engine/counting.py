"""`count`: a table of any size, wherever it lies, to counts on a lattice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twoafc.counts import Counts, Lattice
from twoafc.counts.atoms import commonest, crowded_of, noted_from
from twoafc.counts.cells import CLUSTER_KEY, KEY, cluster_lattice, gathered
from twoafc.counts.table import reference_digests
from twoafc.engine.blame import blame_frame, blame_parts
from twoafc.engine.bulk import Progress
from twoafc.engine.found import Found, numbered
from twoafc.engine.parts import fingerprints, first_line
from twoafc.engine.table import Table, open_each, open_table
from twoafc.errors import DataError


def count(
    source: Any,
    *,
    distances: Sequence[str] | None = None,
    engine: str | None = None,
    lattice: Lattice | None = None,
    keep_refs: bool = False,
    progress: Progress | None = None,
) -> dict[str, Counts]:
    """Count the triplets of a table of any size on a lattice of raw distances.

    Parameters
    ----------
    source : path, pattern, list of paths, or any frame that narwhals knows
        Parquet or CSV files (s3:// and the like where the engine reads them), or a frame of polars, DuckDB, Dask,
        PySpark, pandas or arrow. Columns as those of `Triplets`; distances must be at least 0.
    distances : sequence of str, optional
        Those to count; default all.
    engine : {"polars", "duckdb", "dask", "spark"}, optional
        What reads files; default polars. A frame is counted by its own engine.
    lattice : Lattice, optional
        Bins of the distances; counts add up only on the same.
    keep_refs : bool
        Count by reference too, which clustered error bars need; as large as the table where references do not repeat.
    progress : callable(done, total, what), optional
        Told how many rows are counted; polars alone says so on the way.

    Returns
    -------
    dict of name to Counts

    Notes
    -----
    Single votes (``choice``) are merged into triplets by the engine first, where columns identify these; else each
    vote is a triplet with M = 1.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.LazyFrame({"n": [3, 0], "M": [5, 2], "ssim_d0": [0.4, 0.1], "ssim_d1": [0.2, 0.3]})
    >>> count(table)
    {'ssim': Counts(ssim: 2 triplets, 7 votes, 2 cells, 128 bins per octave)}
    """
    table = open_table(source, engine, distances, keep_refs)
    lattice = lattice or Lattice()
    try:
        rows = table.counted_in_bulk(lattice, progress) if table.in_polars else {}
        made = {}
        expected = table.rows()
        origin: dict[str, Any] = {"files": fingerprints(table.parts), "rows": (table.kind,)}
        for name, d in table.pairs.items():
            found = rows.pop(name) if name in rows else Found.of(table.counted(d, lattice))
            found = _lawful(found, table, name, lattice)
            made[name] = Counts(name, lattice, gathered(KEY, found.rows), tuple(found.groups), **origin)
            _check_all(made[name], table, expected)
            made[name] = replace(made[name], atoms=_atoms(made[name], table, d))
            if keep_refs:
                made[name] = _with_clusters(made[name], table, d)
        return made
    except (DataError, ImportError, MemoryError):
        raise
    # Engines have errors of many kinds for one fact: some part cannot be read, and here is which.
    except Exception as error:
        blame_parts(table.parts, table.columns, table.pairs)
        open_each(table.engine, table.parts, table.schemas, None)
        raise DataError(f"{table.engine} could not count {table.told}: {first_line(error)}") from error


def _lawful(found: Found, table: Table, name: str, lattice: Lattice) -> Found:
    """Refuse rows that break a rule; where there are only more votes than a packed key takes, count without packing."""
    d = table.pairs[name]
    if found.rows.is_empty():
        raise table.blamed("the table has no rows")
    if found.lawful:
        return found
    blame_parts(table.parts, table.columns, table.pairs)
    blame_frame(table.frame, table.known, table.pairs)
    found = Found.of(table.counted(d, lattice, packed=False))
    if (found.rows["bin0"] < 0).any():
        raise table.blamed(table.unlike())
    return found


def _check_all(counts: Counts, table: Table, rows: int | None) -> None:
    """Refuse counts of some rows alone: an engine may pass over files that it takes for its own notes."""
    found = counts.votes if table.holds_votes else counts.triplets
    if rows is not None and found != rows:
        raise DataError(f"{table.engine} counted {found} of the {rows} rows of {table.told}; count with another engine")


def _atoms(counts: Counts, table: Table, d: tuple[str, str]) -> dict[float, int]:
    """Look up the values that many distances share; where no bin may have one, nothing is read again."""
    bins = crowded_of(counts.cells, counts.lattice)
    if not len(bins):
        return {}
    found = table.values_within(d, bins, counts.lattice)
    return commonest(counts.lattice, found["x"], found["times"], noted_from(counts.triplets))


def _with_clusters(counts: Counts, table: Table, d: tuple[str, str]) -> Counts:
    """Count again by reference, on wide bins."""
    wide = cluster_lattice(counts.lattice)
    rows = table.counted(d, wide, refs=True)
    if (rows["bin0"] < 0).any():
        rows = table.counted(d, wide, refs=True, packed=False)
    if rows["ref"].is_null().any() or (rows["ref"] == "").any():
        blame_parts(table.parts, table.columns, table.pairs)
        raise DataError("ref must not be missing; some rows have none")
    by_ref = numbered(rows, counts.groups).with_columns(ref=reference_digests(rows["ref"]))
    return replace(counts, clusters=gathered(CLUSTER_KEY, by_ref))

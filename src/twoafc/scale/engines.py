"""`count`: a table of any size to counts, read by polars, DuckDB, Dask or Spark; and the tables that commands name.

How one row is counted: an engine reads it (`files.py`). Its distances fall into bins of the lattice (`lattice.py`), and
its bins, sign of d0 - d1, n, M, group and reference make up its cell. The cell's count grows by one: in an array if
polars reads the table (`dense.py`), otherwise by a group-by that any engine runs (`program.py`), which first merges
single votes into triplets. `Counts.table` turns each cell back into a row, with its count.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import polars as pl

from twoafc.arrays import Progress
from twoafc.errors import DataError, naming
from twoafc.files import quiet_polars, reading_csv, reading_parquet
from twoafc.scale.dense import count_densely
from twoafc.scale.files import (
    Input,
    find_parts,
    fingerprints,
    first_line,
    is_bare,
    is_parquet,
    is_remote,
    matching,
    open_frame,
    open_table,
    polars_csv,
    polars_frame,
    rows_in,
)
from twoafc.scale.lattice import TRIPLETS, UNIDENTIFIED, VOTES, Counts, Lattice
from twoafc.scale.merging import load_counts
from twoafc.scale.program import (
    Pairs,
    Tally,
    broken_choice,
    broken_counts,
    broken_distance,
    broken_name,
    collected,
    count_by_program,
    identifying,
    merged_votes,
    unlike_votes,
)
from twoafc.table import (
    LABELS,
    RESERVED_GROUPS,
    Where,
    choices_of,
    counts_of,
    finite_column,
    labels_of,
    refuse,
    row_name,
)

COUNTS = ".npz"
MOST_ROWS = 4_000_000
"""A table of more rows is counted instead of read, since it would take some gigabytes."""
ROW_BYTES = 50
"""Bytes of a row of text, roughly."""
SAMPLE = 100_000
SLICE = 1_000_000
"""Rows that are checked together."""
ROW = "\0row"


def count(
    source: Any,
    *,
    distances: Sequence[str] | None = None,
    engine: str | None = None,
    per_octave: int = 128,
    keep_refs: bool = False,
    progress: Progress | None = None,
) -> dict[str, Counts]:
    """Count the triplets of a table of any size on a lattice of raw distances.

    Parameters
    ----------
    source : path, pattern, list of paths, Triplets, or any frame that narwhals supports
        Parquet or CSV files (s3:// and the like where the engine reads them), or a frame of polars, DuckDB, Dask,
        PySpark, pandas or arrow. Columns as those of `Triplets`; distances must be at least 0.
    distances : sequence of str, optional
        Those to count; default all.
    engine : {"polars", "duckdb", "dask", "spark"}, optional
        What reads files; default polars, which alone reads CSV. A frame is counted by its own engine.
    per_octave : int
        Bins for each doubling of a distance, a power of two; counts add up only where it is the same.
    keep_refs : bool
        Count by reference, which clustered error bars need; as large as the table where references hardly repeat.
    progress : callable(done, total, what), optional
        Called with the number of rows counted; by polars alone.

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
    lattice = Lattice(per_octave)
    table = open_table(source, engine, distances, keep_refs)
    with quiet_polars(table.named):
        try:
            return _count(table, lattice, progress)
        except (DataError, ImportError, MemoryError):
            raise
        # Engines raise errors of many kinds if a part cannot be read; look for that part.
        except (Exception, pl.exceptions.PanicException) as error:
            _check_parts(table)
            for part in table.parts:
                open_frame(table.engine, [part], table.schemas, None)
            raise DataError(f"{table.engine} could not count {table.named}: {first_line(error)}") from error


def _count(table: Input, lattice: Lattice, progress: Progress | None) -> dict[str, Counts]:
    """Count every distance of a table, and check that all rows were counted."""
    rows = rows_in(table.parts) if table.parts else None
    # The quick pass is by polars, of rows that are triplets already.
    is_quick = table.engine == "polars" and not table.holds_votes
    dense = _densely(table, lattice, rows, progress) if is_quick else {}
    files, kind = fingerprints(table.parts), TRIPLETS
    if table.holds_votes:
        kind = VOTES if identifying(table.columns) else UNIDENTIFIED
    by_name = {}
    for name in table.pairs:
        tally = dense.pop(name) if name in dense else _by_program(table, name, lattice)
        if tally.cells.is_empty():
            raise table.error("the table has no rows")
        if not tally.lawful:
            _check_parts(table)
            _check_frame(table)
            raise table.error(unlike_votes(table.frame, table.columns, table.known_pairs))
        cells, groups = tally.numbered
        ends = (tally.ends[0] + 0.0, tally.ends[1] + 0.0)  # never -0.0
        counts = Counts(name, lattice, cells, tally.histogram, ends, groups, (), files, (kind,))
        by_name[name] = counts
        seen = counts.votes if table.holds_votes else counts.triplets
        # An engine may skip files that it takes for its own metadata.
        if rows is not None and seen != rows:
            raise DataError(
                f"{table.engine} counted {seen} of the {rows} rows of {table.named}; count with another engine"
            )
    return by_name


def _by_program(table: Input, name: str, lattice: Lattice) -> Tally:
    """Count one distance by the program that every engine runs."""
    by = [label for label in ("group", "ref") if label in table.columns and (table.keep_refs or label != "ref")]
    frame = merged_votes(table.frame, table.columns, table.known_pairs) if table.holds_votes else table.frame
    tally = count_by_program(frame, table.known_pairs[name], lattice, by)
    if not table.keep_refs:
        return tally
    digests = _digests(tally.cells["ref"].unique())
    number = pl.col("ref").replace_strict(digests["ref"], digests["digest"], default=None, return_dtype=pl.UInt64)
    return tally._replace(cells=tally.cells.with_columns(number))


def _densely(table: Input, lattice: Lattice, rows: int | None, progress: Progress | None) -> dict[str, Tally]:
    """Count all distances in one pass of polars; if references are kept, a first pass lists them."""
    local = [part for part in table.schemas if not is_bare(part)]
    # Sample the first, the middle and the last part with rows: days and sites differ.
    some = sorted({0, len(local) // 2, len(local) - 1}) if local else []
    frame = nw.to_native(table.frame)
    heads = [polars_frame([local[place]], table.schemas, table.columns) for place in some] or [frame]
    sample = pl.concat([head.head(SAMPLE).collect() for head in heads], how="vertical_relaxed")
    refs = None
    if table.keep_refs:
        refs = _digests(frame.select(pl.col("ref").unique()).collect(engine="streaming")["ref"])
    return count_densely(frame, sample, table.pairs, lattice, rows, progress, refs=refs)


def _digests(refs: pl.Series) -> pl.DataFrame:
    """Number references, each given once, by a digest that is the same at every site; in its order."""
    named = refs.filter(refs != "")
    digests = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") for name in named]
    return pl.DataFrame({"ref": named, "digest": pl.Series(digests, dtype=pl.UInt64)}).sort("digest")


def _check_rows(frame: pl.DataFrame, pairs: Pairs, where: Where) -> None:
    """Raise a `DataError` that names the first rule that some rows break, if they break any."""
    labels_of(frame, where)
    choices_of(frame, where) if "choice" in frame.columns else counts_of(frame, where)
    for name in (name for pair in pairs.values() for name in pair):
        values = finite_column(frame, name, where)
        rule = f"{name} must be at least 0 to be counted"
        refuse(values < 0, rule, where, lambda row, name=name, values=values: f"{name}={values[row]}")  # type: ignore[misc]


def _check_parts(table: Input) -> None:
    """Go through the local files, some rows at a time, and raise a `DataError` for the first that breaks a rule."""
    # Empty rows of a CSV file have a number too, but are left out.
    options: dict[str, Any] = {"glob": False, "row_index_name": ROW}
    for part in (part for part in table.parts if not is_remote(part)):
        parquet = is_parquet(part)
        frame = pl.scan_parquet(part, **options) if parquet else polars_csv(part, **options)
        with naming(part), reading_parquet(part) if parquet else reading_csv():
            first = 0
            while not (rows := frame.select(ROW, *table.columns).slice(first, SLICE).collect()).is_empty():
                _check_rows(rows, table.pairs, lambda row, number=rows[ROW]: row_name(number[row]))  # type: ignore[misc]
                first += len(rows)


def _check_frame(table: Input) -> None:
    """Collect the rows of a lazy frame that may break a rule, and raise a `DataError` for the first."""
    odd = broken_choice() if table.holds_votes else broken_counts()
    for name in (name for pair in table.known_pairs.values() for name in pair):
        odd = odd | broken_distance(name)
    for name in (name for name in table.columns if name in LABELS):
        odd = odd | broken_name(name, RESERVED_GROUPS if name == "group" else ())
    rows = collected(table.frame.filter(odd).select(*table.known.values()).head(1000))
    try:
        names = {name: column for column, name in table.known.items()}
        _check_rows(rows.rename(names), table.pairs, lambda row: "a row")
    except DataError as error:
        # Only some rows were collected, so their number is not known.
        raise DataError(re.sub(r" \(\d+ of \d+ rows\)$", "", str(error))) from error


# Tables as users of commands name them.


@dataclass(frozen=True)
class Source:
    """A table, in one file or several, or files of counts."""

    named: str  # as the user named it
    parts: tuple[str, ...]

    @classmethod
    def find(cls, named: str) -> Source:
        """Find the files that a path or a pattern names."""
        return cls(named, tuple((matching if named.lower().endswith(COUNTS) else find_parts)(named)))

    @property
    def holds_counts(self) -> bool:
        """Whether these are files of counts."""
        return self.parts[0].lower().endswith(COUNTS)

    def is_large(self) -> bool:
        """Whether the table should be counted rather than read; of text the number of rows is estimated."""
        if self.holds_counts or any(map(is_remote, self.parts)):
            return True
        rows = rows_in(self.parts)
        return (sum(map(os.path.getsize, self.parts)) // ROW_BYTES if rows is None else rows) > MOST_ROWS


@dataclass(frozen=True)
class Counting:
    """How tables are counted."""

    engine: str | None = None  # what reads them; None for polars
    per_octave: int | None = None  # bins for each doubling; None for those of the other files of counts, or the default
    keep_refs: bool = False

    def count(
        self, sources: Mapping[str, Source], distances: Sequence[str] | None, progress: Progress | None = None
    ) -> dict[str, dict[str, Counts]]:
        """Count tables, and load files of counts, by role (train, test)."""
        given = {"--engine": self.engine, "--per-octave": self.per_octave, "--keep-refs": self.keep_refs or None}
        idle = next((option for option, value in given.items() if value is not None), None)
        if idle and all(source.holds_counts for source in sources.values()):
            raise ValueError(f"{idle} sets how tables are counted; these are already counts: leave it out")
        loaded = {role: load_counts(source.parts) for role, source in sources.items() if source.holds_counts}
        used = [counted.lattice.per_octave for counts in loaded.values() for counted in counts.values()]
        per_octave = next(iter(used), Lattice().per_octave) if self.per_octave is None else self.per_octave
        return {
            role: loaded[role]
            if role in loaded
            else count(
                list(source.parts),
                distances=distances,
                engine=self.engine,
                per_octave=per_octave,
                keep_refs=self.keep_refs,
                progress=progress,
            )
            for role, source in sources.items()
        }

    def notes(self, sources: Mapping[str, Source], counts: Mapping[str, Mapping[str, Counts]]) -> list[str]:
        """Name the engine that the user did not choose, and mention bins of different width."""
        notes = []
        tables = [source for source in sources.values() if not source.holds_counts]
        if self.engine is None and tables:
            large = any(source.is_large() for source in tables)
            why = f", since a table of more than {MOST_ROWS:,} rows is not read" if large else ""
            notes.append(f"counted by polars{why}; --engine chooses another")
        widths = {
            role: {counted.lattice.per_octave for counted in of_role.values()} for role, of_role in counts.items()
        }
        if len(set.union(*widths.values())) > 1:
            widths_of = (f"{role} {' and '.join(map(str, sorted(numbers)))}" for role, numbers in widths.items())
            notes.append(f"counted in bins of different widths; per doubling of a distance, {', '.join(widths_of)}")
        return notes

    def engine_of(self, source: Source) -> str:
        """Return the engine that counted a source; files of counts do not say."""
        return "counted before" if source.holds_counts else self.engine or "polars"

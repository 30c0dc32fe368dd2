"""`Triplets`, the one validated table: n of M people chose x1 where a distance gives d0 and d1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from twoafc.arrays import FloatArray, IntArray
from twoafc.columns import UNNAMED, Where, choices, counts, distance, distance_names, labels_of, refuse, says_votes
from twoafc.errors import DataError
from twoafc.frames import as_frame, check_unique, read_frame, read_frames, row_name, write_frame
from twoafc.rows import Groups
from twoafc.uniform import Uniform, uniformise
from twoafc.votes import Merged, merge

Pair = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False, repr=False)
class Triplets:
    """Votes and distances, one row per triplet; read it with `Triplets.read` or `Triplets.from_frame`.

    Attributes
    ----------
    n, M : arrays of int, shape (T,)
        Of M people who judged the triplet, n found x1 closer to the reference.
    distances : mapping of name to (d0, d1), each an array of shape (T,)
        The candidate distances.
    labels : polars.DataFrame, T rows
        ``triplet`` (the row's number where the table has none) and those of group, ref, x0, x1 (quadruples: ref0, x0,
        ref1, x1) and observer that the table has.
    votes : polars.DataFrame or None
        The single votes, where the table came as votes: ``row`` (of the merged table), ``choice`` as shown,
        ``swapped`` (shown the other way round than the row says), ``observer`` where known.

    Examples
    --------
    >>> table = Triplets.from_frame({"n": [3, 0], "M": [5, 2], "ssim_d0": [0.4, 0.1], "ssim_d1": [0.2, 0.3]})
    >>> table
    Triplets(2 triplets, 7 votes, M = 2..5, distances: ssim)
    >>> table["ssim"].d0
    array([0.4, 0.1])
    """

    n: IntArray
    M: IntArray
    distances: Mapping[str, Pair]
    labels: pl.DataFrame
    votes: pl.DataFrame | None = None

    @classmethod
    def read(cls, path: str | Path) -> Triplets:
        """Read and validate a CSV or Parquet file."""
        try:
            return cls._validated(*read_frame(path))
        except DataError as error:
            raise DataError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from error

    @classmethod
    def read_parts(cls, paths: Sequence[str | Path]) -> Triplets:
        """Read and validate a table that lies in several files, CSV or Parquet, one after the other."""
        return cls.read(paths[0]) if len(paths) == 1 else cls._validated(*read_frames(paths))

    @classmethod
    def from_frame(cls, table: Any) -> Triplets:
        """Validate a pandas, polars or arrow frame, or a mapping of columns; rows count from 0 in errors."""
        return cls._validated(as_frame(table), row_name)

    @classmethod
    def _validated(cls, frame: pl.DataFrame, where: Where) -> Triplets:
        check_unique(frame.columns)
        names = distance_names(frame.columns)
        votes_given = says_votes(frame.columns)
        if not names:
            raise DataError(
                f"no distance in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; "
                f"found {', '.join(frame.columns)}"
                + (
                    "; NAME_d is a distance of pairs: see Pairs"
                    if any(c == "d" or c.endswith("_d") for c in frame.columns)
                    else ""
                )
            )
        if frame.is_empty():
            raise DataError("the table has no rows")
        labels = labels_of(frame, where)
        distances = {name: distance(frame, columns, where) for name, columns in names.items()}
        if votes_given:
            return _from_votes(choices(frame, where), distances, labels, where)
        return _frozen(cls(*counts(frame, where), distances, _identified(labels, np.arange(len(frame)))))

    def __len__(self) -> int:
        return len(self.n)

    def __repr__(self) -> str:
        low, high = (self.M.min(), self.M.max()) if len(self) else (0, 0)
        span = f"M = {low}" if low == high else f"M = {low}..{high}"
        return f"Triplets({len(self)} triplets, {self.M.sum()} votes, {span}, distances: {', '.join(self.distances)})"

    def __getitem__(self, name: str) -> Triplets:
        """Keep one distance only, so that `d0` and `d1` mean it."""
        if name not in self.distances:
            raise DataError(f"no distance {name!r} in the table; it has {', '.join(self.distances)}")
        return replace(self, distances={name: self.distances[name]})

    @property
    def d0(self) -> FloatArray:
        """Distance of x0 from its reference, shape (T,), of a table with one distance."""
        return self._only()[0]

    @property
    def d1(self) -> FloatArray:
        """Distance of x1 from its reference, shape (T,), of a table with one distance."""
        return self._only()[1]

    def _only(self) -> Pair:
        if len(self.distances) != 1:
            names = ", ".join(self.distances)
            raise ValueError(f"the table has {len(self.distances)} distances; choose one, table[NAME], of {names}")
        return next(iter(self.distances.values()))

    def codes(self, name: str) -> tuple[list[str], IntArray]:
        """Give the distinct labels of a column (group, ref, ...) in order, and the number of each row's among them."""
        column = self.labels[name]
        return column.unique().sort().to_list(), (column.rank("dense").to_numpy() - 1).astype(np.int64)

    @property
    def count(self) -> None:
        """Triplets that each row stands for: one, which needs no number (see `twoafc.rows`)."""
        return None

    @property
    def groups(self) -> Groups | None:
        """Names of the groups in order, and each row's number among them; None where the table has no groups."""
        return self.codes("group") if "group" in self.labels.columns else None

    def uniformised(self) -> tuple[Uniform, FloatArray, FloatArray]:
        """Learn the map of the distances to [0, 1] from a table with one distance, and apply it to d0 and d1."""
        return uniformise(self.d0, self.d1)

    def where(self, rows: ArrayLike) -> Triplets:
        """Keep some rows, given as a mask or as distinct indices; the votes of those rows go with them."""
        kept = np.arange(len(self))[np.asarray(rows)]
        votes = self.votes
        if votes is not None:
            place = pl.DataFrame({"row": kept, "new": np.arange(len(kept))})
            votes = votes.join(place, on="row", maintain_order="left").with_columns(row="new").drop("new")
        pairs = {name: (d0[kept], d1[kept]) for name, (d0, d1) in self.distances.items()}
        return _frozen(Triplets(self.n[kept], self.M[kept], pairs, self.labels[kept], votes))

    def mirrored(self) -> Triplets:
        """Every triplet seen the other way round: (d1, d0, M - n), with x0 and x1 changed over."""
        pairs = {name: (d1, d0) for name, (d0, d1) in self.distances.items()}
        other = {"x0": "x1", "x1": "x0", "ref0": "ref1", "ref1": "ref0"}
        labels = self.labels.rename({name: other[name] for name in self.labels.columns if name in other})
        votes = None if self.votes is None else self.votes.with_columns(~pl.col("swapped"))
        return _frozen(Triplets(self.M - self.n, self.M, pairs, labels.select(self.labels.columns), votes))

    def to_frame(self) -> pl.DataFrame:
        """Give the table as a polars frame: labels, n, M, then NAME_d0 and NAME_d1 of each distance."""
        columns: dict[str, Any] = {"n": self.n, "M": self.M}
        for name, (d0, d1) in self.distances.items():
            prefix = "" if name == UNNAMED else f"{name}_"
            columns |= {f"{prefix}d0": d0, f"{prefix}d1": d1}
        return self.labels.with_columns(**{name: pl.Series(values) for name, values in columns.items()})

    def write(self, path: str | Path) -> None:
        """Write the table as CSV or Parquet, by the ending of the name; never half a file."""
        write_frame(self.to_frame(), path)


def _from_votes(choice: IntArray, distances: Mapping[str, Pair], labels: pl.DataFrame, where: Where) -> Triplets:
    merged = merge(labels, len(choice))
    pairs = {}
    for name, (d0, d1) in distances.items():
        _check_agreement(name, d0, d1, merged, where)
        pairs[name] = (d0[merged.first], d1[merged.first])
    M = np.bincount(merged.row, minlength=len(merged.first))
    n = np.bincount(merged.row, weights=choice ^ merged.swapped, minlength=len(merged.first)).astype(np.int64)
    votes = pl.DataFrame({"row": merged.row, "choice": choice, "swapped": merged.swapped})
    if "observer" in labels.columns:
        votes = votes.with_columns(labels["observer"])
    return _frozen(Triplets(n, M, pairs, _identified(labels.drop("observer", strict=False), merged.first), votes))


def _check_agreement(name: str, d0: FloatArray, d1: FloatArray, merged: Merged, where: Where) -> None:
    """Refuse votes on one triplet that give it other distances than the first of them did."""
    lead = merged.first[merged.row]
    a, b = np.where(merged.swapped, d1, d0), np.where(merged.swapped, d0, d1)
    # Room for the rounding of a distance measured twice, near 0 too, and no more.
    room = 1e-6 * np.maximum(abs(a), abs(b)) + 1e-9 * max(abs(d0).max(), abs(d1).max())
    unlike = (abs(a - d0[lead]) > room) | (abs(b - d1[lead]) > room)
    rule = f"votes on one triplet must have the same distances ({name})"
    told = "({}, {}), row {} ({}, {})"
    refuse(unlike, rule, where, lambda row: told.format(d0[row], d1[row], lead[row], d0[lead[row]], d1[lead[row]]))


def _identified(labels: pl.DataFrame, rows: IntArray) -> pl.DataFrame:
    """Keep the labels of some rows; their numbers name the triplets where the table does not."""
    numbered = {"triplet": pl.Series(np.arange(len(rows))).cast(pl.String)}
    return pl.DataFrame(numbered | {name: labels[name].gather(rows) for name in labels.columns})


def _frozen(table: Triplets) -> Triplets:
    for array in (table.n, table.M, *(d for pair in table.distances.values() for d in pair)):
        array.flags.writeable = False
    return table

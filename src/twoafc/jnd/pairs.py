"""`Pairs`, the validated table of pairs: n of M people saw no difference where a distance gives d."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from twoafc.arrays import FloatArray, IntArray
from twoafc.columns import UNNAMED, Where, choices, counts, distance, labels_of, refuse, says_votes
from twoafc.errors import DataError
from twoafc.frames import as_frame, check_unique, read_frame, row_name, write_frame
from twoafc.jnd.names import holds_pairs, pair_names
from twoafc.triplets import Triplets
from twoafc.votes import merge

LABELS = ("pair", "group", "ref", "x", "observer")
USUAL = ("triplet", "group", "ref", "observer")
"""Labels that triplets have too."""


@dataclass(frozen=True, eq=False, repr=False)
class Pairs:
    """Votes and distances, one row per pair of images; read it with `Pairs.read` or `Pairs.from_frame`.

    Attributes
    ----------
    n, M : arrays of int, shape (T,)
        Of M people who were shown the pair, n said that the two images are the same.
    distances : mapping of name to array, shape (T,)
        The candidate distances between the two images.
    labels : polars.DataFrame, T rows
        ``pair`` (the column pair or triplet, else the row's number) and those of group, ref, x (the two images) and
        observer that the table has.
    votes : polars.DataFrame or None
        The single votes, where the table came as votes: ``row`` (of the merged table), ``choice`` (1 = same),
        ``observer`` where known.

    Examples
    --------
    >>> table = Pairs.from_frame({"n": [3, 0], "M": [3, 3], "ssim_d": [0.01, 0.3]})
    >>> table
    Pairs(2 pairs, 6 votes, M = 3, 50 % same, distances: ssim)
    >>> table["ssim"].d
    array([0.01, 0.3 ])
    """

    n: IntArray
    M: IntArray
    distances: Mapping[str, FloatArray]
    labels: pl.DataFrame
    votes: pl.DataFrame | None = None

    @classmethod
    def read(cls, path: str | Path) -> Pairs:
        """Read and validate a CSV or Parquet file."""
        try:
            return cls._validated(*read_frame(path))
        except DataError as error:
            raise DataError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from error

    @classmethod
    def from_frame(cls, table: Any) -> Pairs:
        """Validate a pandas, polars or arrow frame, or a mapping of columns; rows count from 0 in errors."""
        return cls._validated(as_frame(table), row_name)

    @classmethod
    def _validated(cls, frame: pl.DataFrame, where: Where) -> Pairs:
        check_unique(frame.columns)
        votes_given = says_votes(frame.columns)
        if not holds_pairs(frame.columns):
            raise DataError(
                f"no distance of pairs in the table; expected a column d, or NAME_d; found {', '.join(frame.columns)}"
            )
        if frame.is_empty():
            raise DataError("the table has no rows")
        labels = _labels(frame, where)
        # Twice the same column: the rule for the two distances of a triplet, of which the first is taken.
        named = pair_names(frame.columns).items()
        distances = {name: distance(frame, (column, column), where)[0] for name, column in named}
        if votes_given:
            return _from_votes(choices(frame, where), distances, labels, where)
        return _frozen(cls(*counts(frame, where), distances, _identified(labels, np.arange(len(frame)))))

    def __len__(self) -> int:
        return len(self.n)

    def __repr__(self) -> str:
        low, high = self.M.min(), self.M.max()
        span = f"M = {low}" if low == high else f"M = {low}..{high}"
        size = f"{len(self)} pairs, {self.M.sum()} votes, {span}, {100 * self.share:.0f} % same"
        return f"Pairs({size}, distances: {', '.join(self.distances)})"

    def __getitem__(self, name: str) -> Pairs:
        """Keep one distance only, so that `d` means it."""
        if name not in self.distances:
            raise DataError(f"no distance {name!r} in the table; it has {', '.join(self.distances)}")
        return replace(self, distances={name: self.distances[name]})

    @property
    def d(self) -> FloatArray:
        """Distance between the two images, shape (T,), of a table with one distance."""
        if len(self.distances) != 1:
            names = ", ".join(self.distances)
            raise ValueError(f"the table has {len(self.distances)} distances; choose one, table[NAME], of {names}")
        return next(iter(self.distances.values()))

    @property
    def share(self) -> float:
        """Share of all votes that say "same"."""
        return float(self.n.sum() / self.M.sum())

    def where(self, rows: ArrayLike) -> Pairs:
        """Keep some rows, given as a mask or as distinct indices; the votes of those rows go with them."""
        kept = np.arange(len(self))[np.asarray(rows)]
        votes = self.votes
        if votes is not None:
            place = pl.DataFrame({"row": kept, "new": np.arange(len(kept))})
            votes = votes.join(place, on="row", maintain_order="left").with_columns(row="new").drop("new")
        distances = {name: d[kept] for name, d in self.distances.items()}
        return _frozen(Pairs(self.n[kept], self.M[kept], distances, self.labels[kept], votes))

    def rows(self) -> Triplets:
        """Give labels and votes, without distances, as folds and error bars take them: "same" stands for x1."""
        votes = None if self.votes is None else self.votes.with_columns(swapped=pl.lit(False))
        return Triplets(self.n, self.M, {}, self.labels.rename({"pair": "triplet"}), votes)

    def to_frame(self) -> pl.DataFrame:
        """Give the table as a polars frame: labels, n, M, then NAME_d of each distance."""
        columns: dict[str, Any] = {"n": self.n, "M": self.M}
        columns |= {"d" if name == UNNAMED else f"{name}_d": d for name, d in self.distances.items()}
        return self.labels.with_columns(**{name: pl.Series(values) for name, values in columns.items()})

    def write(self, path: str | Path) -> None:
        """Write the table as CSV or Parquet, by the ending of the name; never half a file."""
        write_frame(self.to_frame(), path)


def _labels(frame: pl.DataFrame, where: Where) -> pl.DataFrame:
    """Take the columns that name things, as text; none may be blank."""
    if {"pair", "triplet"} <= set(frame.columns):
        raise DataError("a pair is named by the column pair or by triplet; found both")
    usual = labels_of(frame.select(name for name in USUAL if name in frame.columns), where)
    own = {name: _text(frame[name], where) for name in ("pair", "x") if name in frame.columns}
    named = {"pair" if column.name == "triplet" else column.name: column for column in usual} | own
    return pl.DataFrame({name: named[name] for name in LABELS if name in named})


def _text(column: pl.Series, where: Where) -> pl.Series:
    name = column.name
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise DataError(f"{name} must be text or numbers; the column holds {column.dtype}")
    text = column.cast(pl.String)
    blank = text.is_null() | (text == "")
    refuse(blank.to_numpy(), f"{name} must not be missing", where, lambda row: f"no {name}")
    return text


def _from_votes(choice: IntArray, distances: Mapping[str, FloatArray], labels: pl.DataFrame, where: Where) -> Pairs:
    merged = merge(_merged_by(labels), len(choice))
    for name, d in distances.items():
        _check_agreement(name, d, merged.first[merged.row], where)
    M = np.bincount(merged.row, minlength=len(merged.first))
    n = np.bincount(merged.row, weights=choice, minlength=len(merged.first)).astype(np.int64)
    votes = pl.DataFrame({"row": merged.row, "choice": choice})
    if "observer" in labels.columns:
        votes = votes.with_columns(labels["observer"])
    kept = {name: d[merged.first] for name, d in distances.items()}
    return _frozen(Pairs(n, M, kept, _identified(labels.drop("observer", strict=False), merged.first), votes))


def _check_agreement(name: str, d: FloatArray, lead: IntArray, where: Where) -> None:
    """Refuse votes on one pair that give it another distance than the first of them did."""
    # Room for the rounding of a distance measured twice, near 0 too, and no more.
    unlike = abs(d - d[lead]) > 1e-6 * np.maximum(abs(d), abs(d[lead])) + 1e-9 * abs(d).max()
    rule = f"votes on one pair must have the same distance ({name})"
    refuse(unlike, rule, where, lambda row: f"{d[row]}, row {lead[row]} {d[lead[row]]}")


def _merged_by(labels: pl.DataFrame) -> pl.DataFrame:
    """What identifies a pair: its two images in either order, else its name; groups stay apart."""
    columns = {"group": labels["group"]} if "group" in labels.columns else {}
    if {"ref", "x"} <= set(labels.columns):
        # Two items that may change places are, to the rules of votes, the two sides of a quadruple.
        nothing = pl.Series([""]).new_from_index(0, len(labels))
        return pl.DataFrame(columns | {"ref0": labels["ref"], "x0": nothing, "ref1": labels["x"], "x1": nothing})
    return pl.DataFrame(columns | {"triplet": labels["pair"]} if "pair" in labels.columns else columns)


def _identified(labels: pl.DataFrame, rows: IntArray) -> pl.DataFrame:
    """Keep the labels of some rows; their numbers name the pairs where the table does not."""
    numbered = {"pair": pl.Series(np.arange(len(rows))).cast(pl.String)}
    return pl.DataFrame(numbered | {name: labels[name].gather(rows) for name in labels.columns})


def _frozen(table: Pairs) -> Pairs:
    for array in (table.n, table.M, *table.distances.values()):
        array.flags.writeable = False
    return table

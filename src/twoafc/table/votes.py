"""`Votes`, the one table: n of M votes on each row, where a distance gives k numbers.

A row is a triplet (k = 2: n of M people found x1 closer to the reference, at distances d0 and d1; quadruples have a
reference for each) or a pair (k = 1: n of M people saw no difference between two images at the distance d).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform, uniformise
from twoafc.errors import DataError, naming
from twoafc.public import public
from twoafc.table.merging import compared_images, merge_votes
from twoafc.table.read import as_frame, check_unique, read_frames, renamed, row_name, write_frame
from twoafc.table.rules import (
    LABELS,
    PAIR_LABELS,
    UNNAMED,
    Where,
    choices_of,
    counts_of,
    distance_columns,
    finite_column,
    found_columns,
    labels_of,
    likely_columns,
    missing_votes,
    refuse,
    says_votes,
    weight_of,
)

Distances = Mapping[str, tuple[FloatArray, ...]]


@dataclass(frozen=True, eq=False, repr=False)
class Votes:
    """Votes and distances, one row per triplet or pair; made by `Triplets` or `Pairs`.

    Attributes
    ----------
    n, M : arrays of int, shape (T,)
        n of the M votes on a row are for x1 (triplets) or "same" (pairs).
    distances : mapping of name to a tuple of k arrays, each of shape (T,)
        The candidate distances: (d0, d1) for triplets, (d,) for pairs.
    labels : polars.DataFrame, T rows
        The name of each row (its number where the table has none) and those of group, ref, the images and observer
        that the table has.
    votes : polars.DataFrame or None
        The single votes, where the table came as votes: ``row`` (of the merged table), ``choice`` as shown,
        ``swapped`` (shown the other way round than the row says), ``observer`` where known.
    count : array of int, shape (T,), or None
        Triplets that each row stands for; None where it is one throughout.
    by_ref : polars.DataFrame or None
        Parts of such rows, where a row stands for triplets of several references: the number of triplets (``count``) of
        a ``row`` that have a reference (``ref``, a number). Otherwise references are among the labels.
    weight : array, shape (T,), or None
        Sampling weight of each row, the inverse of its inclusion probability; None where all are equal. Only ratios of
        weights matter.
    uniform : Uniform or None
        The map of the distances to [0, 1], where rows are counts, whose distances are means; otherwise it is learnt.
    unused : mapping of column to name
        Columns that were not used, with the name that they may stand for.
    """

    n: IntArray
    M: IntArray
    distances: Distances
    labels: pl.DataFrame
    votes: pl.DataFrame | None = None
    count: IntArray | None = None
    uniform: Uniform | None = None
    unused: Mapping[str, str] = field(default_factory=dict)
    weight: FloatArray | None = None
    by_ref: pl.DataFrame | None = None

    k: ClassVar[int]
    row: ClassVar[str]
    """What a row is called; also the column with its name."""

    def __post_init__(self) -> None:
        if self.count is not None and self.weight is not None:
            raise ValueError("rows that stand for several triplets have no weights; found count and weight")
        for array in (self.n, self.M, self.weight, *(column for d in self.distances.values() for column in d)):
            if array is not None:
                array.flags.writeable = False

    @classmethod
    def read(cls, path: str | Path, *, rename: Mapping[str, str] | None = None) -> Self:
        """Read and validate a CSV or Parquet file; `rename` gives columns other names, ``{"response": "choice"}``."""
        return cls.read_parts([path], rename=rename)

    @classmethod
    def read_parts(cls, paths: Sequence[str | Path], *, rename: Mapping[str, str] | None = None) -> Self:
        """Read and validate a table in several files, CSV or Parquet, one after the other."""
        with naming(paths[0]) if len(paths) == 1 else nullcontext():
            frame, where = read_frames(paths)
            return cls._validated(renamed(frame, rename), where)

    @classmethod
    def from_frame(cls, table: Any, *, rename: Mapping[str, str] | None = None) -> Self:
        """Validate a pandas, polars or arrow frame, or a mapping of columns; rows count from 0 in errors."""
        return cls._validated(renamed(as_frame(table), rename), row_name)

    @classmethod
    def _validated(cls, frame: pl.DataFrame, where: Where) -> Self:
        check_unique(frame.columns)
        names = distance_columns(frame.columns)
        k = len(next(iter(names.values()))) if names else 0
        if cls is Votes:
            return (Pairs if k == 1 else Triplets)._validated(frame, where)  # type: ignore[return-value]
        if k != cls.k:
            raise DataError(_no_distance(cls.k, frame.columns))
        single = says_votes(frame.columns)
        if frame.is_empty():
            raise DataError("the table has no rows")
        if cls.k == 1 and "triplet" in frame.columns:
            if "pair" in frame.columns:
                raise DataError("a pair is named by the column pair or by triplet; found both")
            frame = frame.rename({"triplet": "pair"})
        labels = labels_of(frame, where, LABELS if cls.k == 2 else PAIR_LABELS)
        distances = {
            name: tuple(finite_column(frame, column, where) for column in columns) for name, columns in names.items()
        }
        unused, weight = likely_columns(frame.columns), weight_of(frame, where)
        if single:
            merged = cls._merged(choices_of(frame, where), distances, labels, weight, where)
            return replace(merged, unused=unused)
        named = cls._named(labels, np.arange(len(frame)))
        return cls(*counts_of(frame, where), distances, named, unused=unused, weight=weight)

    @classmethod
    def _merged(
        cls, choice: IntArray, distances: Distances, labels: pl.DataFrame, weight: FloatArray | None, where: Where
    ) -> Self:
        """Merge single votes on the same row."""
        merged = merge_votes(labels, len(choice))
        if weight is not None:
            merged.require_same("weight", [weight], where, cls.row)
            weight = weight[merged.first]
        for name, d in distances.items():
            merged.require_same(f"distance{'s' * (cls.k > 1)} ({name})", d, where, cls.row)
        if "ref" in labels.columns and not compared_images(labels.columns):
            ref, first_ref = labels["ref"], labels["ref"].gather(merged.first[merged.row])
            rule = f"votes on one {cls.row} must have the same ref"
            refuse(ref.ne_missing(first_ref).to_numpy(), rule, where, lambda at: f"{ref[at]!r}, not {first_ref[at]!r}")
        votes = pl.DataFrame({"row": merged.row, "choice": choice, "swapped": merged.swapped})
        if "observer" in labels.columns:
            votes = votes.with_columns(labels["observer"])
        first = {name: tuple(column[merged.first] for column in d) for name, d in distances.items()}
        named = cls._named(labels.drop("observer", strict=False), merged.first)
        return cls(*merged.counted(choice), first, named, votes, weight=weight)

    @classmethod
    def _named(cls, labels: pl.DataFrame, rows: IntArray) -> pl.DataFrame:
        """Keep the labels of some rows; their numbers name them where the table does not."""
        numbered = {cls.row: pl.Series(np.arange(len(rows))).cast(pl.String)}
        return pl.DataFrame(numbered | {name: labels[name].gather(rows) for name in labels.columns})

    def __len__(self) -> int:
        return len(self.n)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.description})"

    @property
    def description(self) -> str:
        """Size, votes and distances of the table, in words."""
        low, high = (self.M.min(), self.M.max()) if len(self) else (0, 0)
        span = f"M = {low}" if low == high else f"M = {low}..{high}"
        weighted = "" if self.weight is None else f", weighted like {self.effective_rows:.0f}"
        same = "" if self.k == 2 else f", {100 * self.share:.0f} % same"
        size = f"{len(self)} {self.row}s{weighted}, {self.M.sum()} votes, {span}{same}"
        return f"{size}, distances: {', '.join(self.distances)}"

    def __getitem__(self, name: str) -> Self:
        """Return the table with one distance, which is then `d` (or `d0` and `d1`)."""
        if name not in self.distances:
            raise DataError(f"no distance {name!r} in the table; it has {', '.join(self.distances)}")
        return replace(self, distances={name: self.distances[name]})

    @property
    def columns(self) -> tuple[FloatArray, ...]:
        """The k columns of a table with one distance, each of shape (T,): the arguments of `probability`."""
        if len(self.distances) != 1:
            names = ", ".join(self.distances)
            raise ValueError(f"the table has {len(self.distances)} distances; choose one, table[NAME], of {names}")
        return next(iter(self.distances.values()))

    @property
    def share(self) -> float:
        """Share of all votes that are for x1 (triplets) or "same" (pairs), weighted."""
        weight = 1 if self.weight is None else self.weight
        return float((weight * self.n).sum() / (weight * self.M).sum())

    @cached_property
    def scaled_weight(self) -> FloatArray | None:
        """Sampling weights scaled so that their sum is the effective number of rows; None where there are none.

        A fit that takes them as numbers of triplets then has the effective number of triplets.
        """
        if self.weight is None:
            return None
        weight = self.weight / self.weight.max()
        return np.asarray(weight * (weight.sum() / (weight @ weight)))

    @cached_property
    def mass(self) -> FloatArray:
        """Weight of each row in sums over rows: its count, its scaled weight, or 1."""
        if self.count is not None:
            return self.count.astype(np.float64)
        return np.ones(len(self)) if self.scaled_weight is None else self.scaled_weight

    @property
    def squared_mass(self) -> FloatArray:
        """The same in sums of squares over independent triplets, of which a row has `count`."""
        return self.mass if self.scaled_weight is None else self.scaled_weight**2

    @property
    def effective_rows(self) -> float:
        """Number of rows of equal weight that give a mean the same error, (sum w)^2 / (sum w^2), after Kish."""
        return float(len(self) if self.scaled_weight is None else self.scaled_weight.sum())

    @property
    def parts(self) -> tuple[IntArray | slice, FloatArray]:
        """Row and mass of each part of the rows, the triplets of one reference: see `by_ref`; else all rows."""
        if self.by_ref is None:
            return slice(None), self.mass
        return self.by_ref["row"].to_numpy(), self.by_ref["count"].cast(pl.Float64).to_numpy()

    @property
    def references(self) -> pl.Series | None:
        """The reference of each part of the rows, where a row or part has one; None where there are none."""
        labels = self.labels if self.by_ref is None else self.by_ref
        return labels["ref"] if "ref" in labels.columns else None

    def codes(self, name: str) -> tuple[list[str], IntArray]:
        """Return the distinct labels of a column (group, ref, ...) in order, and the place of each row's among them."""
        return codes_of(self.labels[name])

    @cached_property
    def groups(self) -> tuple[list[str], IntArray] | None:
        """Names of the groups in order, and each row's number among them; None where the table has no groups."""
        return self.codes("group") if "group" in self.labels.columns else None

    def uniformised(self) -> tuple[Any, ...]:
        """Learn the map of the distances to [0, 1] from a table with one distance, and apply it to its k columns."""
        if self.uniform is not None:
            return self.uniform, *(self.uniform(d) for d in self.columns)
        # Weighted, so that the fit estimates the one to the whole population.
        return uniformise(*self.columns, weight=self.scaled_weight)

    def where(self, rows: ArrayLike) -> Self:
        """Keep some rows, given as a mask or as distinct indices; the votes of those rows are kept too."""
        kept = np.arange(len(self))[np.asarray(rows)]
        place = np.full(len(self), -1, dtype=np.int32)
        place[kept] = np.arange(len(kept))
        return replace(self.at(kept, votes=_moved(self.votes, place)), by_ref=_moved(self.by_ref, place))

    def at(self, rows: IntArray, *, votes: pl.DataFrame | None = None) -> Self:
        """Take rows by their indices, any of them several times, without parts, nor votes unless these are given."""
        distances = {name: tuple(column[rows] for column in d) for name, d in self.distances.items()}
        count = None if self.count is None else self.count[rows]
        weight = None if self.weight is None else self.weight[rows]
        n, M, labels = self.n[rows], self.M[rows], self.labels[rows]
        taken = replace(self, n=n, M=M, distances=distances, labels=labels, votes=votes, count=count, weight=weight)
        return replace(taken, by_ref=None)

    def to_frame(self) -> pl.DataFrame:
        """Return the table as a polars frame: labels, n, M, weight, and NAME_d0, NAME_d1 (NAME_d) of each distance."""
        require_single(self, "a frame")
        columns: dict[str, Any] = {"n": self.n, "M": self.M}
        if self.weight is not None:
            columns["weight"] = self.weight
        for name, d in self.distances.items():
            prefix = "" if name == UNNAMED else f"{name}_"
            columns |= {f"{prefix}{end}": column for end, column in zip(ENDS[self.k], d, strict=True)}
        return self.labels.with_columns(**{name: pl.Series(values) for name, values in columns.items()})

    def write(self, path: str | Path) -> None:
        """Write the table as CSV or Parquet, by the ending of the name; never half a file."""
        write_frame(self.to_frame(), path)


def require_single(table: Votes, what: str) -> None:
    """Raise a `DataError` if rows stand for several triplets."""
    if table.count is not None:
        raise DataError(f"{what} needs single triplets; these are counts of them: use the table that was counted")


def _moved(frame: pl.DataFrame | None, place: NDArray[np.int32]) -> pl.DataFrame | None:
    """Number the rows that votes or parts belong to anew; those of rows without a place are left out."""
    if frame is None:
        return None
    row = pl.Series(place[frame["row"].to_numpy()])
    return frame.with_columns(row=row.cast(frame["row"].dtype)).filter(row >= 0)


def codes_of(column: pl.Series) -> tuple[list[str], IntArray]:
    """Return the distinct labels of a column in order, and the place of each row's among them."""
    names = column.unique().sort()
    number = column.replace_strict(names, pl.int_range(len(names), eager=True), return_dtype=pl.Int64)
    return names.to_list(), number.to_numpy()


def numbered(labels: pl.DataFrame, columns: Sequence[str]) -> IntArray:
    """Number the names in some columns, the same name by the same number, shape (columns, T)."""
    return codes_of(pl.concat([labels[name].rename("") for name in columns]))[1].reshape(len(columns), -1)


ENDS = {1: ("d",), 2: ("d0", "d1")}


@public
class Triplets(Votes):
    """Votes on triplets or quadruples; read it with `Triplets.read` or `Triplets.from_frame`.

    Of M people who judged the triplet, n found x1 closer to the reference; each distance is (d0, d1). See `Votes`.

    Examples
    --------
    >>> table = Triplets.from_frame({"n": [3, 0], "M": [5, 2], "ssim_d0": [0.4, 0.1], "ssim_d1": [0.2, 0.3]})
    >>> table
    Triplets(2 triplets, 7 votes, M = 2..5, distances: ssim)
    >>> table["ssim"].d0
    array([0.4, 0.1])
    """

    k = 2
    row = "triplet"

    @property
    def d0(self) -> FloatArray:
        """Distance of x0 from its reference, shape (T,), of a table with one distance."""
        return self.columns[0]

    @property
    def d1(self) -> FloatArray:
        """Distance of x1 from its reference, shape (T,), of a table with one distance."""
        return self.columns[1]

    def mirrored(self) -> Triplets:
        """Return every triplet mirrored: (d1, d0, M - n), with x0 and x1 swapped."""
        distances = {name: d[::-1] for name, d in self.distances.items()}
        other = {"x0": "x1", "x1": "x0", "ref0": "ref1", "ref1": "ref0"}
        labels = self.labels.rename({name: other[name] for name in self.labels.columns if name in other})
        labels = labels.select(self.labels.columns)
        votes = None if self.votes is None else self.votes.with_columns(~pl.col("swapped"))
        return replace(self, n=self.M - self.n, distances=distances, labels=labels, votes=votes)


@public
class Pairs(Votes):
    """Votes on pairs of images; read it with `Pairs.read` or `Pairs.from_frame`.

    Of M people who were shown the pair, n said that the two images are the same; each distance is (d,). See `Votes`.

    Examples
    --------
    >>> table = Pairs.from_frame({"n": [3, 0], "M": [3, 3], "ssim_d": [0.01, 0.3]})
    >>> table
    Pairs(2 pairs, 6 votes, M = 3, 50 % same, distances: ssim)
    >>> table["ssim"].d
    array([0.01, 0.3 ])
    """

    k = 1
    row = "pair"

    @property
    def d(self) -> FloatArray:
        """Distance between the two images, shape (T,), of a table with one distance."""
        return self.columns[0]


def read_votes(paths: Sequence[str | Path], *, rename: Mapping[str, str] | None = None) -> Votes:
    """Read a table of triplets or of pairs, in one file or several, by the columns that it has."""
    return Votes.read_parts(paths, rename=rename)


def as_votes(table: Any, *, rename: Mapping[str, str] | None = None) -> Votes:
    """Return a table as it is, read it from a path, or make it from a frame or a mapping of columns.

    Examples
    --------
    >>> as_votes({"n": [1], "M": [2], "d0": [0.3], "d1": [0.2]})
    Triplets(1 triplets, 2 votes, M = 2, distances: distance)
    """
    if isinstance(table, Votes):
        return table
    read = Votes.read if isinstance(table, str | Path) else Votes.from_frame
    return read(table, rename=rename)


def _no_distance(k: int, columns: Sequence[str]) -> str:
    """Message for a table without distances, which lists missing columns of votes too."""
    votes = missing_votes(columns)
    votes = f" and no {votes} (or choice)" if votes else ""
    listed = found_columns(columns)
    if k == 1:
        return f"no distance of pairs{votes} in the table; expected a column d, or NAME_d; {listed}"
    hint = "; NAME_d is a distance of pairs: see Pairs" if any(c == "d" or c.endswith("_d") for c in columns) else ""
    images = "" if hint or not {"ref", "x0", "x1"} <= set(columns) else "; twoafc measure computes distances of images"
    return (
        f"no distance{votes} in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; {listed}{hint}{images}"
    )

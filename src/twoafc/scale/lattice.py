"""A fixed lattice of raw distances, and the counts of triplets on it, which add up exactly and are used as rows.

A cell has the bins of d0 and d1, the sign of d0 - d1, n, M, the group (and the reference where it was kept) and the
number of its triplets. A histogram of all distances on much finer bins gives the map to [0, 1] and, for each bin, the
distance at which its triplets stand: the one whose rank is the mean of theirs.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.errors import DataError, first_line, naming
from twoafc.files import read_archive, require_format, save_archive
from twoafc.public import public
from twoafc.table import Triplets

ShortArray = NDArray[np.int32]

OCTAVES = 80
"""Doublings that the bins span, half of them below 1: from 9e-13 to 1e12, so that any unit of a distance will do."""
LOWEST, HIGHEST = 2.0 ** (-OCTAVES // 2), 2.0 ** (OCTAVES // 2)
FINEST = 4096
UPPER = 1 if sys.byteorder == "little" else 0
"""Which half of a 64-bit float has its exponent and the bits of its bin; halves are quicker to work with."""


@dataclass(frozen=True)
class Lattice:
    """Bins of a distance: every octave, from one power of two to the next, has `per_octave` bins of equal width.

    A bin is the exponent of a float and the first bits of its fraction: no edge is rounded, so all engines and machines
    agree. Bin 0 has d = 0 alone, bin 1 what lies between 0 and 9e-13, the last bin 1.1e12 and more. Empty bins cost
    nothing, since counts are sparse.

    Parameters
    ----------
    per_octave : int
        Bins for each doubling of the distance, a power of two up to 4096. 128 gives a distance whose bulk spans a
        factor of 50 some 700 bins; one that varies by less (0.8 to 1, say) needs more, 512 or 1024.

    Examples
    --------
    >>> Lattice(2).index([0.0, 1e-13, 1.0, 1.4, 1.5, 2.0, 1e300, -1.0])
    array([  0,   1,  82,  82,  83,  84, 162,  -1], dtype=int32)
    """

    per_octave: int = 128

    def __post_init__(self) -> None:
        p = self.per_octave
        if isinstance(p, bool) or not isinstance(p, int) or not 1 <= p <= FINEST or p & (p - 1):
            raise ValueError(f"per_octave must be a power of two from 1 to {FINEST}; found {p}")

    @property
    def bins(self) -> int:
        """Number of bins, including the three at the ends."""
        return self.per_octave * OCTAVES + 3

    @property
    def _shift(self) -> int:
        """Number of bits of a 64-bit float after those of its bin."""
        return 53 - self.per_octave.bit_length()

    @property
    def _first(self) -> int:
        """Offset of the shifted bits of a float: those of bin i are ``_first + i``."""
        return int(np.array(LOWEST).view(np.int64) >> self._shift) - 2

    def index(self, d: ArrayLike) -> ShortArray:
        """Return the bin of each distance; -1 for what is negative or not finite."""
        d = np.asarray(d, dtype=np.float64)
        flat = np.ascontiguousarray(d).reshape(-1)
        place = flat.view(np.int32)[UPPER::2] >> np.int32(self._shift - 32)
        place -= np.int32(self._first)
        if place.size and (place.min() < 2 or place.max() >= self.bins - 1):
            place = np.where(flat > 0, np.clip(place, 1, self.bins - 1), 0).astype(np.int32)
            place[~((flat >= 0) & np.isfinite(flat))] = -1
        return place.reshape(d.shape)

    def coarsened(self, index: ShortArray, to: Lattice) -> ShortArray:
        """Return the bins of a coarser lattice that contain these bins."""
        steps = np.int32((self.per_octave // to.per_octave).bit_length() - 1)
        place = ((index - np.int32(2)) >> steps) + np.int32(2)
        if index.size and index.min() < 1:
            place = np.where(index > 0, place, index)
        return np.asarray(place, dtype=np.int32)

    @property
    def edges(self) -> FloatArray:
        """Ends of the bins, shape (bins + 1,): bin i spans edges[i] to edges[i + 1], the upper end left out."""
        spaced = (np.arange(2, self.bins, dtype=np.int64) + self._first) << self._shift
        return np.concatenate([[0.0, 0.0], spaced.view(np.float64), [np.inf]])

    def middles(self, index: IntArray | ShortArray) -> FloatArray:
        """Middle of some bins; of the last, which has no end, its lower edge."""
        edges = self.edges
        upper = edges[index + 1]
        return np.where(np.isfinite(upper), (edges[index] + upper) / 2, edges[index])


FINE = Lattice(FINEST)
"""Bins of the histogram of all distances."""

Key = Mapping[str, type[pl.DataType]]
KEY: Key = {"group": pl.Int32, "bin0": pl.Int32, "bin1": pl.Int32, "sign": pl.Int8, "n": pl.Int32, "M": pl.Int32}
REF_KEY: Key = {"ref": pl.UInt64, **KEY}
BIN_KEY: Key = {"bin": pl.Int32}
FEW_SLICES = 1000
"""Slices that rows in order are put together from; where these would be more, rows are taken one by one."""


def summed(key: Key, *frames: pl.DataFrame) -> pl.DataFrame:
    """Add up the counts of rows with the same key; each key once, in order, in columns of fixed types.

    Examples
    --------
    >>> summed({"n": pl.Int64}, pl.DataFrame({"n": [1, 0, 1], "count": [1, 1, 3]})).rows()
    [(0, 1), (1, 4)]
    """
    types: Key = {**key, "count": pl.Int64}
    rows = pl.concat(frame.select(pl.col(name).cast(kind) for name, kind in types.items()) for frame in frames)
    code = _code(rows, list(key))
    if code is None:
        return rows.group_by(list(key)).agg(pl.col("count").sum()).sort(list(key))
    # One number is sorted many times faster than several columns.
    if (code[1:] > code[:-1]).all():
        return rows
    order = np.argsort(code, kind="stable")  # next to no time where most rows are in order
    code = code[order]
    new = np.concatenate([[True], code[1:] != code[:-1]])
    if new.all():
        return _gathered(rows, order)
    count = np.add.reduceat(rows["count"].to_numpy()[order], np.flatnonzero(new))
    return _gathered(rows, order[new]).with_columns(pl.Series("count", count))


def _gathered(rows: pl.DataFrame, place: IntArray) -> pl.DataFrame:
    """Take the rows at some places: by slices where most places follow each other, which is many times quicker."""
    starts = np.flatnonzero(np.diff(place, prepend=-2) != 1)
    if len(starts) > FEW_SLICES:
        return rows[place]
    lengths = np.diff(starts, append=len(place))
    slices = (rows.slice(place[start], length) for start, length in zip(starts, lengths, strict=True))
    return pl.concat(slices).rechunk()


def _code(rows: pl.DataFrame, key: Sequence[str]) -> IntArray | None:
    """One number for each key, in the order of the keys; None if there are too many keys, or no rows."""
    if rows.is_empty():
        return None
    columns = {name: _ranks_of(rows[name]) if name == "ref" else rows[name] for name in key}
    ends = {name: (int(column.min()), int(column.max())) for name, column in columns.items()}  # type: ignore[arg-type]
    if math.prod(most - least + 1 for least, most in ends.values()) >= 2**63:
        return None
    code = np.zeros(len(rows), dtype=np.int64)
    for name, (least, most) in ends.items():
        if most > least:
            code *= most - least + 1
            code += columns[name].to_numpy()
            code -= least
    return code


def _ranks_of(refs: pl.Series) -> pl.Series:
    """Number the references in order, since their digests are too large for a code."""
    if refs.is_sorted():
        return refs.rle_id()
    distinct = refs.unique().sort()
    return refs.replace_strict(distinct, pl.int_range(len(distinct), eager=True), return_dtype=pl.Int64)


TRIPLETS, VOTES, UNIDENTIFIED = "triplets", "votes", "unidentified votes"
"""What the rows of a counted table may be."""
NOTES = {
    VOTES: "single votes were merged into triplets before they were counted: votes on one triplet must be counted "
    "together, because merging counts treats them as separate triplets",
    UNIDENTIFIED: "votes that nothing identifies (ref, x0, x1 or triplet) were counted as triplets with M = 1",
}
KIND, FORMAT = "counts", 2
"""Kind of archive that a file of counts is, and the version of its format."""
BEYOND = 0.005
"""Warn if at least this share of the distances lies beyond the ends of the lattice."""
WIDEST = 0.02
"""Warn if one bin has at least this share of the distances, a little less than the paper's kernel width."""
MOST = 200_000
"""With more cells than this, cells that lie close together become one row."""
STEPS, NORMAL_STEPS = 128, 16
"""Steps of rank, and of its normal score, within which cells are close together."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Triplets of one distance, counted; made by `twoafc.count`, added by `twoafc.scale.merge`.

    Attributes
    ----------
    distance : str
        Name of the distance.
    lattice : Lattice
        Bins of d0 and d1.
    cells : polars.DataFrame
        ``group`` (a number among `groups`), ``bin0``, ``bin1``, ``sign`` of d0 - d1, ``n``, ``M`` and ``count``, the
        number of triplets, at least 1; each key once, in order. First ``ref``, a digest of its name, where refs were
        kept.
    histogram : polars.DataFrame
        ``bin`` of the finest lattice and ``count`` of distances in it, d0 and d1 together.
    ends : tuple of two floats
        The smallest and the largest distance.
    groups : tuple of str
        Names of the groups, sorted; none where the table has no column of groups, and every ``group`` is 0 then.
    parts : tuple of str
        Digests of the counts that were added up; none if these were counted from a table.
    files : tuple of str
        Fingerprints of the files that were counted; none if these are not known.
    rows : tuple of str
        What the rows of the tables were: ``triplets``, ``votes``, or ``unidentified votes``.

    Examples
    --------
    >>> from twoafc import count
    >>> counts = count({"n": [3, 3, 0], "M": [5, 5, 2], "ssim_d0": [0.4, 0.4, 0], "ssim_d1": [0.2, 0.2, 0]})["ssim"]
    >>> counts
    Counts(ssim: 3 triplets, 12 votes, 2 cells, 128 bins per octave)
    >>> print(*counts.cells.rows(), sep=chr(10))
    (0, 0, 0, 0, 0, 2, 1)
    (0, 4942, 4814, 1, 3, 5, 2)
    >>> counts.table().count
    array([1, 2])
    """

    distance: str
    lattice: Lattice
    cells: pl.DataFrame
    histogram: pl.DataFrame
    ends: tuple[float, float]
    groups: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    rows: tuple[str, ...] = (TRIPLETS,)

    def __repr__(self) -> str:
        refs = ", refs kept" if self.refs_kept else ""
        return (
            f"Counts({self.distance}: {self.triplets} triplets, {self.votes} votes, {len(self.cells)} cells, "
            f"{self.lattice.per_octave} bins per octave{refs})"
        )

    def __len__(self) -> int:
        return self.triplets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.digest == other.digest and self.cells.equals(other.cells)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def refs_kept(self) -> bool:
        """Whether triplets were counted by reference."""
        return "ref" in self.cells.columns

    @cached_property
    def triplets(self) -> int:
        """Number of triplets counted."""
        return int(self.cells["count"].sum())

    @cached_property
    def votes(self) -> int:
        """Number of votes on them."""
        return sum(M * triplets for M, triplets in self.by_votes.items())

    @cached_property
    def by_votes(self) -> dict[int, int]:
        """Number of triplets with each M that occurs."""
        return dict(self.cells.group_by("M").agg(pl.col("count").sum()).sort("M").rows())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the counts: the same for the same votes, whatever parts they came in, with refs or without."""
        digest = hashlib.sha256(repr((self.distance, self.lattice, self.groups, self.ends)).encode())
        cells = summed(KEY, self.cells) if self.refs_kept else self.cells
        for column in (*cells.iter_columns(), *self.histogram.iter_columns()):
            digest.update(column.to_numpy().data)
        return digest.hexdigest()

    @cached_property
    def uniform(self) -> Uniform:
        """The map of the distances to [0, 1]."""
        values = FINE.middles(self.histogram["bin"].to_numpy())
        # The extremes must be exact: if distances were clipped, many share them.
        values[[0, -1]] = self.ends if len(values) > 1 else np.mean(self.ends)
        return Uniform(values, np.cumsum(self.histogram["count"].to_numpy()))

    def table(self) -> Triplets:
        """Return the counts as a table whose rows stand for `count` triplets each, at their mean ranks.

        d0 = d1 in the rows of ties, and d0 - d1 has the sign of the triplets in all others. Where there are more than
        200,000 cells, those within 1/128 of rank and 1/16 of normal score of each other become one row.
        """
        cells = self.cells
        bin0, bin1, sign, count = (cells[name].to_numpy() for name in ("bin0", "bin1", "sign", "count"))
        # Distances are at the mean ranks of their bins; two that differ within one bin, on either side of it.
        rank, spread = self._ranks
        apart = np.flatnonzero((bin0 == bin1) & (sign != 0))
        u0, u1 = rank[bin0], rank[bin1]
        u0[apart] += sign[apart] * spread[bin0[apart]]
        u1[apart] -= sign[apart] * spread[bin0[apart]]
        labels = {name: cells[name].to_numpy() for name in ("group", "n", "M")}
        by_ref = None
        if self.refs_kept or len(cells) > MOST:
            step = _steps(rank) if len(cells) > MOST else np.arange(self.lattice.bins)
            row, first = _distinct({"step0": step[bin0], "step1": step[bin1], "sign": sign, **labels})
            by_ref = self._by_ref(row) if self.refs_kept else None
            labels, sign = {name: column[first] for name, column in labels.items()}, sign[first]
            total = np.bincount(row, count)
            u0, u1 = (np.bincount(row, count * u) / total for u in (u0, u1))
            count = total
        d0, d1 = self.uniform.inverse(u0), self.uniform.inverse(u1)
        # Neighbouring ranks may give the same distance, by rounding.
        wrong = np.sign(d0 - d1) != sign
        high, low = np.maximum(d0[wrong], d1[wrong]), np.minimum(d0[wrong], d1[wrong])
        low = np.where(low == high, np.nextafter(low, 0), low)
        d0[wrong], d1[wrong] = np.where(sign[wrong] > 0, (high, low), (low, high))
        named = {"triplet": pl.Series(np.arange(len(count))).cast(pl.String)}
        if self.groups:
            named["group"] = pl.Series(self.groups).gather(labels["group"])
        if self.refs_kept and by_ref is None:
            named["ref"] = pl.repeat(str(cells["ref"][0]), len(count), eager=True)
        n, M = (labels[name].astype(np.int64) for name in ("n", "M"))
        distances, count = {self.distance: (d0, d1)}, count.astype(np.int64)
        return Triplets(n, M, distances, pl.DataFrame(named), count=count, uniform=self.uniform, by_ref=by_ref)

    def _by_ref(self, row: NDArray[Any]) -> pl.DataFrame | None:
        """Triplets of each reference in the rows of a table, given the row of each cell; None unless there are two."""
        refs = self.cells["ref"]
        if refs[0] == refs[-1]:
            return None
        # Numbered in the order of their names, as in other tables, which decides on folds.
        number = refs.unique().sort().cast(pl.String).rank("ordinal").cast(pl.Int32) - 1
        columns = {"row": pl.Series(row, dtype=pl.Int32), "ref": number.gather(_ranks_of(refs))}
        return pl.DataFrame({**columns, "count": self.cells["count"]})

    @cached_property
    def _ranks(self) -> tuple[FloatArray, FloatArray]:
        """Mean rank of the distances in each bin, and how far two that differ lie from it on average."""
        count, levels = self.histogram["count"].to_numpy(), self.uniform.levels
        bins = FINE.coarsened(self.histogram["bin"].to_numpy(), self.lattice)
        totals = np.maximum(np.bincount(bins, count, self.lattice.bins), 1)
        mean = np.bincount(bins, count * levels, self.lattice.bins) / totals
        squares = (levels - mean[bins]) ** 2 + (count / count.sum()) ** 2 / 12
        # Of two distances spread evenly over a bin the larger lies a sixth of it above the middle, on average.
        return mean, np.sqrt(np.bincount(bins, count * squares, self.lattice.bins) / totals / 3)

    @cached_property
    def widest(self) -> float:
        """Largest share of the distances in one bin, of bins in which most pairs of distances differ."""
        bins = FINE.coarsened(self.histogram["bin"].to_numpy(), self.lattice)
        totals = np.bincount(bins, self.histogram["count"].to_numpy(), self.lattice.bins)
        within = self.cells.filter(pl.col("bin0") == pl.col("bin1"))
        differ, ties = (
            np.bincount(some["bin0"], some["count"], self.lattice.bins)
            for some in (within.filter(pl.col("sign") != 0), within.filter(sign=0))
        )
        return float((totals * (differ > ties)).max() / totals.sum())

    @property
    def beyond(self) -> float:
        """Share of the distances that are so small or large that the lattice has one bin for them."""
        outside = self.histogram.filter(pl.col("bin").is_in([1, FINE.bins - 1]))["count"].sum()
        return float(outside / (2 * self.triplets))

    @property
    def vote_notes(self) -> list[str]:
        """Notes on the votes that were counted."""
        return [NOTES[kind] for kind in self.rows if kind in NOTES]

    @property
    def bin_notes(self) -> list[str]:
        """Notes on the bins: how wide they are, and a warning if that is too wide."""
        per_octave, widest = self.lattice.per_octave, self.widest
        notes = [
            f"{self.distance}: counted in bins, {per_octave} for each doubling of the distance; "
            f"no bin of several values contains more than {100 * widest:.3g} % of the distances"
        ]
        if self.beyond >= BEYOND:
            notes.append(
                f"warning: {self.distance}: {self.beyond:.1%} of the distances lie below {LOWEST:.0e} or above "
                f"{HIGHEST:.0e}; all of these share a bin, so multiply the distance by a constant"
            )
        elif widest >= WIDEST:
            wanted = per_octave * 2 ** math.ceil(math.log2(max(2.0, widest / WIDEST)))
            remedy = "more bins do not help: subtract from the distance what all values have in common"
            if wanted <= FINEST:
                remedy = f"count again with --per-octave {wanted}"
            notes.append(f"warning: {self.distance}: one bin contains {widest:.0%} of the distances; {remedy}")
        return notes

    def coarser(self) -> Counts:
        """Return the counts that the lattice with half as many bins would have given.

        Examples
        --------
        >>> from twoafc import count
        >>> counts = count({"n": [1, 1], "M": [2, 2], "d0": [0.404, 0.405], "d1": [0.2, 0.2]})["distance"]
        >>> len(counts.cells), len(counts.coarser().cells)
        (2, 1)
        """
        lattice = Lattice(self.lattice.per_octave // 2)
        bins = {name: pl.Series(self.lattice.coarsened(self.cells[name].to_numpy(), lattice)) for name in BINS}
        cells = summed(REF_KEY if self.refs_kept else KEY, self.cells.with_columns(**bins))
        return replace(self, lattice=lattice, cells=cells, parts=())

    def save(self, path: str | Path) -> None:
        """Write the counts as .npz; a crash leaves the old file or none."""
        save_archive(path, KIND, *self.stored())

    @classmethod
    def load(cls, path: str | Path) -> Counts:
        """Read counts back; a file of another kind, or one that was changed, is refused with a `DataError`."""
        kind, card, arrays = read_archive(path)
        if kind != KIND:
            raise DataError(f"{path} has no counts; it is a model of kind {kind!r}")
        with naming(path):
            return cls.restore(card, arrays)

    def stored(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings as plain values, and the arrays, for a file of counts or a model fitted to them."""
        card = {
            "format": FORMAT,
            "distance": self.distance,
            "per_octave": self.lattice.per_octave,
            "ends": list(self.ends),
            "groups": list(self.groups),
            "parts": list(self.parts),
            "files": list(self.files),
            "rows": list(self.rows),
        }
        return card, _packed(self.cells) | _packed(self.histogram, "histogram_")

    @classmethod
    def restore(cls, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Counts:
        """Restore what `stored` returned; refuse what counting cannot produce."""
        require_format(card.get("format", 1), FORMAT, "the card of counts", "count again")
        try:
            low, high = card["ends"]
            counts = cls(
                card["distance"],
                Lattice(card["per_octave"]),
                _unpacked(arrays, REF_KEY if "ref" in arrays else KEY),
                _unpacked(arrays, BIN_KEY, "histogram_"),
                (low, high),
                *(tuple(card[name]) for name in ("groups", "parts", "files", "rows")),
            )
            if not counts._agree():
                raise ValueError("the cells and the histogram do not agree")
        except (KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
            raise DataError(f"the counts are damaged: {first_line(error)}") from error
        return counts

    def _agree(self) -> bool:
        """Whether each cell is lawful and occurs once, in order, and the histogram counts the same distances."""
        n, M, group = pl.col("n"), pl.col("M"), pl.col("group")
        lawful = (pl.col("count") >= 1) & (M >= 1) & (n >= 0) & (n <= M)
        lawful &= (group >= 0) & (group < max(len(self.groups), 1))
        ordered = self.cells.equals(summed(REF_KEY if self.refs_kept else KEY, self.cells))
        size = self.lattice.bins
        pooled = sum(np.bincount(self.cells[name], self.cells["count"], size) for name in BINS)
        bins = FINE.coarsened(self.histogram["bin"].to_numpy(), self.lattice)
        fits = np.array_equal(pooled, np.bincount(bins, self.histogram["count"].to_numpy(), size))
        return bool(self.cells.select(lawful.all()).item()) and ordered and fits


BINS = ("bin0", "bin1")


def _steps(rank: FloatArray) -> ShortArray:
    """Number the steps of rank and normal score that bins fall into, in order."""
    with np.errstate(divide="ignore"):
        score = np.clip(ndtri(rank), -9, 9)
    places = np.stack([np.floor(rank * STEPS), np.floor(score * NORMAL_STEPS)])
    used = rank > 0
    step = np.zeros(len(rank), dtype=np.int32)
    step[used] = np.cumsum(np.any(np.diff(places[:, used], prepend=-99), axis=0)) - 1
    return step


def _distinct(columns: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Number the combinations of values that occur; return each row's number, and one row of each combination."""
    code = _code(pl.DataFrame(columns), list(columns))
    if code is None or code.max() >= max(2**24, 4 * len(code)):
        values = np.stack(list(columns.values())) if code is None else code
        _, first, number = np.unique(values, axis=-1, return_index=True, return_inverse=True)
        return number.ravel(), first
    place = np.full(int(code.max()) + 1, -1, dtype=np.int32)
    place[code[::-1]] = np.arange(len(code), dtype=np.int32)[::-1]
    used = place >= 0
    return (np.cumsum(used, dtype=np.int32) - 1)[code], place[used]


def _packed(frame: pl.DataFrame, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Columns as arrays of the narrowest integer type that fits."""
    arrays = {}
    for column in frame.iter_columns():
        values = column.to_numpy()
        ends = map(np.min_scalar_type, (int(values.min()), int(values.max())))
        arrays[f"{prefix}{column.name}"] = values.astype(np.result_type(*ends))
    return arrays


def _unpacked(arrays: Mapping[str, NDArray[Any]], key: Key, prefix: str = "") -> pl.DataFrame:
    kinds: Key = {**key, "count": pl.Int64}
    return pl.DataFrame({name: pl.Series(arrays[f"{prefix}{name}"]).cast(kind) for name, kind in kinds.items()})

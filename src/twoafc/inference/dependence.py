"""Which rows of a table are dependent, and the variance of a mean over dependent rows.

Rows that share an image or an observer are not independent. The variance of a weighted mean is then a sum of products
over all pairs of rows that share anything: clustered by one label, multiway over several and, with images that serve in
several places (as a reference here, as x1 there), the dyadic-robust variance of Aronow, Samii and Assenova (Political
Analysis 23, 2015). Pairs that share several things are counted once, by inclusion and exclusion. References, images and
observers are samples, however few there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from math import comb
from operator import mul
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.table import CHOICES, METHODS, REFERENCES, Votes

ALONE = "triplets taken as independent"
TINY = float(np.finfo(np.float64).tiny)


class Strata(NamedTuple):
    """Groups of rows that are scored at once: the number of each row's stratum, below ``size``."""

    number: IntArray
    size: int

    def sum(self, *factors: FloatArray | IntArray | int) -> FloatArray:
        """Sum the product of arrays, shape (T,), over the rows of each stratum: shape (size,)."""
        product = np.asarray(reduce(mul, factors), dtype=np.float64)
        if self.size == 1:
            return np.asarray(product.sum(keepdims=True))
        return np.asarray(np.bincount(self.number, product, minlength=self.size), dtype=np.float64)

    def total(self, *factors: FloatArray, weight: FloatArray | IntArray | int = 1) -> FloatArray:
        """Sum the products of columns, times a weight of each row, over the rows of each stratum: shape (size, k)."""
        # Column by column, since products of whole arrays would not fit in the processor's cache.
        columns = zip(*(array.T for array in factors), strict=True)
        return np.stack([self.sum(weight, *column) for column in columns], axis=1)

    def of_rows(self, values: FloatArray) -> FloatArray:
        """Value of each row's stratum; of a single one not repeated, shape (1, ...)."""
        return values if self.size == 1 else np.take(values, self.number, axis=0)  # quicker than an index


@dataclass(frozen=True, eq=False)
class Dependence:
    """Which rows are dependent.

    ``kinds`` has the number of each row's label of each kind (ref, x0, x1, observer), shape (T,), or that of `parts`;
    equal numbers are the same image or observer, whatever the kind. Images have numbers from 0 on, observers below 0.
    Without kinds, rows are independent.
    """

    size: int  # rows, T
    kinds: tuple[IntArray, ...]
    description: str  # of the same in words
    count: IntArray | None = None  # triplets that each row stands for, with the same influence and weight each
    family: str = "references"  # or "images": what the labels are called, beside observers
    only: str = ""  # what is in every row, so that the error bars are for it alone: "this one reference"
    unknown: str = ""  # why no clusters are known: "the table has no column ref"
    sampling: FloatArray | None = None  # weight of each row, as of `twoafc.table.Votes.scaled_weight`
    parts: tuple[IntArray, IntArray] | None = None
    """Where a row stands for triplets with different labels: the row of each part, with one label of each kind, and
    the number of its triplets. Default each row is one part."""

    @cached_property
    def sharings(self) -> tuple[csr_array, ...]:
        """Sets of rows that share one label, two labels, three, ...: triplets of each row in each set, (sets, T)."""
        row, times = self.parts or (np.arange(self.size), self.times)
        labels = np.sort(np.stack(self.kinds) - min(int(labels.min()) for labels in self.kinds), axis=0)
        # The same label twice in a row (a reference shown against itself) is one thing.
        again = np.zeros(labels.shape, dtype=np.bool_)
        again[1:] = labels[1:] == labels[:-1]
        sharings = (_sharing(labels, again, number) for number in range(1, len(labels) + 1))
        return tuple(_triplets_in(sets, row[part], times[part], self.size) for part, sets in sharings)

    @cached_property
    def observers(self) -> int:
        """Number of observers; their sets come before those of images."""
        return len(np.unique(np.concatenate([labels[labels < 0] for labels in self.kinds]))) if self.kinds else 0

    @property
    def times(self) -> IntArray:
        """Triplets that each row stands for."""
        return np.ones(self.size, dtype=np.int64) if self.count is None else self.count

    @property
    def weights(self) -> FloatArray:
        """Sampling weight of each row; ones where there are none."""
        return np.ones(self.size) if self.sampling is None else self.sampling

    def shares(self, strata: Strata | None = None) -> FloatArray:
        """Weight of each triplet of a row in the mean over its stratum: its share of the sampling weights there."""
        strata = strata or self.whole
        return np.asarray(self.weights / strata.of_rows(strata.sum(self.times, self.weights)))

    @property
    def whole(self) -> Strata:
        """One stratum of all rows."""
        return Strata(np.zeros(self.size, dtype=np.int64), 1)

    def variance(self, influence: FloatArray, weight: FloatArray, strata: Strata | None = None) -> FloatArray:
        """Variance of weighted means, shape (strata, k); NaN where one set has all the weight of a stratum.

        The influence of each row on k means, shape (T, k), is weight times (value - mean). The weights sum to 1 in each
        stratum. They correct for few sets, since the mean moves with each of them; zeros leave the correction out.

        Notes
        -----
        With one kind of label the square of a set with a share s of the weight is divided by 1 - 2 s + sum of s^2,
        which is unbiased where sets have effects of their own, of whatever sizes.

        With several kinds, V_k is the sum over pairs of rows that share at least k labels, divided by 1 - q_k, where
        q_k is the same sum of the weights; H is the leave-one-label-out jackknife, which counts a pair once for each
        label that it shares, less V_2, V_3, ... The variance is the largest of these and of that of independent rows,
        since each may fall far below the truth by chance where labels are few.
        """
        if not self.kinds:
            return _one_kind(self._each_row(influence, strata), weight)
        first, *further = self._sets(np.column_stack([influence, weight]), strata)
        if not further:
            return _one_kind(first, first.sums[:, -1])[:, :-1]
        squares = [sets.total(sets.sums, sets.sums) for sets in (first, *further)]
        parts = []
        for k in range(1, len(squares) + 1):
            pairs = _sharing_at_least(k, squares)
            left = 1 - pairs[:, -1:]
            with np.errstate(divide="ignore", invalid="ignore"):
                parts.append(np.where(left > 1e-9, pairs[:, :-1] / left, np.nan))
        jackknife = self._jackknife(first) - np.nansum(parts[1:], axis=0)
        alone = _one_kind(self._each_row(influence, strata), weight)
        return np.asarray(np.fmax.reduce([*parts, jackknife, alone]), dtype=np.float64)

    def products(self, influence: FloatArray, strata: Strata | None = None) -> FloatArray:
        """Sum of products of influences over all pairs of dependent rows, shape (strata, k)."""
        return _sharing_at_least(1, [sets.total(sets.sums, sets.sums) for sets in self._sets(influence, strata)])

    def _sets(self, columns: FloatArray, strata: Strata | None) -> list[Sets]:
        """Sum columns over the sets of rows that share one label, two, ..., within strata."""
        if not self.kinds:
            return [self._each_row(columns, strata)]
        return [_sums(sharing, columns, strata or self.whole) for sharing in self.sharings]

    def _each_row(self, columns: FloatArray, strata: Strata | None) -> Sets:
        """Each triplet as a set of its own."""
        return Sets(strata or self.whole, np.arange(self.size), columns, self.times)

    def _jackknife(self, sets: Sets) -> FloatArray:
        """Variance from leaving out one label at a time, for images and for observers, summed."""
        share = sets.sums[:, -1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            # A label in every row cannot be left out: its effect is not known.
            squares = np.where(share < 1 - 1e-9, (sets.sums[:, :-1] / (1 - share)) ** 2, 0.0)
        families = self._families(sets)
        labels = np.maximum(np.bincount(families.number, minlength=families.size), 1)
        total = families.total(squares) * ((labels - 1) / labels)[:, None]
        return np.asarray(total.reshape(sets.strata.size, 2, -1).sum(axis=1))

    def _families(self, sets: Sets) -> Strata:
        """Observers and images of each stratum as strata of their own: twice its number, and one more for images."""
        return Strata(2 * sets.strata.number + (sets.number >= self.observers), 2 * sets.strata.size)

    def variance_of_mean(self, influence: FloatArray, weight: FloatArray, strata: Strata) -> FloatArray:
        """Variance of the mean of groups, shape (1, k), from influences centred within each group.

        Products are summed over pairs of rows of all groups. The correction for few sets is that of the groups' own
        variances; weights sum to 1 over all groups.
        """
        total = np.bincount(strata.number, self.times * weight, minlength=strata.size)
        own, none = influence / total[strata.number, None], np.zeros(self.size)
        corrected, uncorrected = (
            total**2 @ self.variance(own, weights, strata) for weights in (weight / total[strata.number], none)
        )
        ratio = np.divide(corrected, uncorrected, out=np.full(corrected.shape, np.nan), where=uncorrected > 0)
        ratio = np.where((uncorrected == 0) & (corrected == 0), 1.0, ratio)
        return np.asarray(self.variance(influence, none) * ratio)

    def skewness(self, influence: FloatArray, strata: Strata | None = None) -> FloatArray:
        """Skewness of weighted means, from the influence of each row on them, shape (strata, k).

        It is 0 where images recur in several places: estimated from sums over images it made intervals cover less.
        """
        if len(self.kinds) > 1:
            return np.zeros(((strata or self.whole).size, influence.shape[1]))
        (sets,) = self._sets(influence, strata)
        variance = sets.total(sets.sums, sets.sums)
        cubes = sets.total(sets.sums, sets.sums, sets.sums)
        return np.divide(cubes, variance**1.5, out=np.zeros(variance.shape), where=variance > 0)

    def units(self, weight: FloatArray, strata: Strata | None = None) -> FloatArray:
        """Effective number of independent units in each stratum, shape (strata,).

        That of labels with shares s of the weight is (sum of s)^2 / (sum of s^2), and at least 2 where there are two;
        images and observers are counted apart, and the fewer decide. Unequal sampling weights make the variance itself
        less certain: there are then at most as many units as it has degrees of freedom (Bell and McCaffrey, Survey
        Methodology 28, 2002).
        """
        units = np.asarray(self._units(weight, strata)[1].min(axis=1))
        if self.sampling is None:
            return units
        freedom, plain = (_freedom(weights, strata or self.whole) for weights in (weight, weight / self.sampling))
        return np.asarray(np.where(freedom < plain, np.clip(freedom, np.minimum(units, 2.0), units), units))

    def _units(self, weight: FloatArray, strata: Strata | None) -> tuple[FloatArray, FloatArray]:
        """Numbers of observers and images in each stratum, and how many they are in effect: shapes (strata, 2)."""
        sets = self._sets(weight[:, None], strata)[0]
        share = sets.sums[:, 0]
        columns = np.stack([share, share**2, share > 0], axis=1) * np.reshape(sets.times, (-1, 1))
        whole, squares, labels = self._families(sets).total(columns).T
        units = np.full(len(labels), np.inf)
        np.divide(whole**2, np.maximum(squares, TINY), out=units, where=labels > 0)
        units = np.where(labels > 1, np.maximum(units, 2.0), units)
        return labels.reshape(-1, 2), units.reshape(-1, 2)

    def units_by_family(self, weight: FloatArray) -> dict[str, tuple[int, float]]:
        """Number of observers, and of images or references, and how many they are in effect; only what rows share."""
        if not self.kinds:
            return {}
        labels, units = (array[0] for array in self._units(weight, None))
        named = zip(("observers", self.family), labels, units, strict=True)
        return {name: (int(number), float(effective)) for name, number, effective in named if number}

    def at(self, rows: IntArray) -> Dependence:
        """The dependence of some of the rows, single triplets, any of them several times."""
        kinds = self.kinds or (np.arange(self.size),)
        return Dependence(len(rows), tuple(labels[rows] for labels in kinds), self.description)


class Sets(NamedTuple):
    """Sums over sets of rows, within strata: the stratum and number of each set, the sums (sets, k), and how many."""

    strata: Strata
    number: IntArray
    sums: FloatArray
    times: IntArray | int = 1

    def total(self, *factors: FloatArray, weight: FloatArray | int = 1) -> FloatArray:
        """Sum the products of columns, times a weight of each set, over the sets of each stratum: shape (strata, k)."""
        return self.strata.total(*factors, weight=weight * self.times)


def _freedom(weight: FloatArray, strata: Strata) -> FloatArray:
    """Degrees of freedom of the variance of a mean of independent rows: (sum of w^2)^2 / (sum of w^4), by stratum."""
    squares, fourth = strata.total(np.stack([weight**2, weight**4], axis=1)).T
    return np.asarray(np.divide(squares**2, fourth, out=np.ones(strata.size), where=fourth > 0))


def _one_kind(sets: Sets, share: FloatArray) -> FloatArray:
    """Variance where every row belongs to one set, which has this share of the weight."""
    spread = sets.strata.of_rows(sets.total(share[:, None], share[:, None]))[:, 0]
    with np.errstate(divide="ignore"):
        factor = np.where(share < 1 - 1e-12, 1 / (1 - 2 * share + spread), np.nan)
    return sets.total(sets.sums, sets.sums, weight=factor)


def _sharing_at_least(k: int, squares: Sequence[FloatArray]) -> FloatArray:
    """Sum over pairs of rows that share k labels or more, from the squares of sets that share 1, 2, ... labels."""
    terms = [(-1) ** (m - k) * comb(m - 1, k - 1) * squares[m - 1] for m in range(k, len(squares) + 1)]
    return np.asarray(np.sum(terms, axis=0))


def _sharing(labels: IntArray, again: NDArray[np.bool_], number: int) -> tuple[IntArray, IntArray]:
    """Sets of rows that share some number of labels: a list of rows, and their sets; labels are sorted in each row."""
    rows, shared = [], []
    for places in combinations(range(len(labels)), number):
        kept = np.flatnonzero(~again[list(places)].any(axis=0))
        rows.append(kept)
        shared.append(labels[list(places)][:, kept])
    sets = np.zeros(sum(map(len, rows)), dtype=np.int64)
    for line in np.concatenate(shared, axis=1):
        # Numbered afresh for each label, so that the numbers do not outgrow their type.
        sets = distinct_numbers(sets * (int(labels.max()) + 1) + line)[1]
    return np.concatenate(rows), sets


def _sums(sharing: csr_array, columns: FloatArray, strata: Strata) -> Sets:
    """Sum columns over the triplets of each set, within strata."""
    sets = sharing.shape[0]
    if strata.size == 1:
        return Sets(Strata(np.zeros(sets, dtype=np.int64), 1), np.arange(sets), sharing @ columns)
    entries = sharing.tocoo()
    combined, place = distinct_numbers(strata.number[entries.col] * sets + entries.row)
    within = _triplets_in(place, entries.col, entries.data, sharing.shape[1])
    return Sets(Strata(combined // sets, strata.size), combined % sets, within @ columns)


def _triplets_in(sets: NDArray[Any], rows: NDArray[Any], times: NDArray[Any], size: int) -> csr_array:
    """Numbers of triplets of each row in each set, from lists of them."""
    shape = (int(sets.max(initial=-1)) + 1, size)
    return csr_array((times.astype(np.float64, copy=False), (sets, rows)), shape=shape)


def distinct_numbers(code: IntArray) -> tuple[IntArray, IntArray]:
    """Find the distinct numbers, from 0 on, in order, and the place of each among them; small ones without a sort."""
    if not len(code) or int(code.max()) > 4 * len(code):
        distinct, place = np.unique(code, return_inverse=True)
        return distinct, place
    used = np.bincount(code) > 0
    return np.flatnonzero(used), (np.cumsum(used) - 1)[code]


NOT_KEPT = "the counts keep no references"
NO_NAMES = "the table has no column ref"


def find_dependence(
    labels: pl.DataFrame,
    count: IntArray | None = None,
    sampling: FloatArray | None = None,
    by_ref: pl.DataFrame | None = None,
) -> Dependence:
    """Find which rows of a table are dependent, from its labels.

    Triplets with the same reference are. Where the other images recur too, with another reference or as one, so are all
    triplets that share any image; and where rows are one observer's, those of the same observer. A single reference, or
    observer, is no sample: the error bars are for it alone. With `count`, a row stands for several triplets of one
    reference, or of several with `by_ref`: see `twoafc.table.Votes`.
    """
    rows, parts = len(labels), None
    if by_ref is not None:
        labels, parts = by_ref, (by_ref["row"].to_numpy(), by_ref["count"].to_numpy())
    if count is not None and "ref" not in labels.columns:
        return Dependence(rows, (), f"not clustered: {NOT_KEPT}", count, unknown=NOT_KEPT)
    size = rows if count is None else int(count.sum())
    references = [name for name in REFERENCES if name in labels.columns]
    choices = [name for name in CHOICES if name in labels.columns]
    only = []  # what is in every row
    if references and size > 1 and _distinct(labels, references) == 1:
        references, only = [], ["this one reference"]
    numbers = _numbered(labels, [*references, *choices])
    named: list[str] = []
    words: list[str] = []
    if choices and _are_images(numbers, references, choices):
        named = [*references, *choices]
        images = _distinct(labels, named)
        words = [f"{', '.join(named)} ({images} images)"]
        if images <= len(named):  # all of them in every row: no two rows are independent
            named, words, only = [], [], [f"these {images} images", *only]
    elif any(labels[name].n_unique() < size for name in references):
        named = references
        words = [f"{', '.join(named)} ({_distinct(labels, named)} references)"]
    kinds = [numbers[name] for name in named]
    observers = labels["observer"].n_unique() if "observer" in labels.columns else size
    if 1 < observers < size:
        kinds.append(-1 - _numbered(labels, ["observer"])["observer"])
        words.append(f"observer ({observers} observers)")
    elif observers == 1 < size:
        only.append("this one observer")
    description = f"clustered by {' and by '.join(words)}" if words else ALONE
    if only:
        description += f"; for {' and '.join(only)} alone"
    family = "images" if set(named) & set(choices) else "references"
    unknown = "" if {*REFERENCES, *CHOICES} & {*labels.columns} else NO_NAMES
    return Dependence(rows, tuple(kinds), description, count, family, " and ".join(only), unknown, sampling, parts)


def _distinct(labels: pl.DataFrame, names: list[str]) -> int:
    """Number of different labels in some columns."""
    return pl.concat([labels[name].rename("label") for name in names]).n_unique()


def _numbered(labels: pl.DataFrame, names: list[str]) -> dict[str, IntArray]:
    """Number the labels of some columns in the order in which they come, the same text by the same number."""
    if not names:
        return {}
    labelled = pl.concat([labels[name].rename("label") for name in names])
    known = labelled.unique(maintain_order=True)
    codes = labelled.replace_strict(known, pl.int_range(len(known), eager=True), return_dtype=pl.Int64).to_numpy()
    return dict(zip(names, codes.reshape(len(names), -1), strict=True))


def _are_images(numbers: dict[str, IntArray], references: list[str], choices: list[str]) -> bool:
    """Whether the labels to choose from are images that recur: as references, or beside several of them.

    Where no references are known, in several rows. Few labels that are no references are methods.
    """
    shown = np.stack([numbers[name] for name in choices])
    if not references:
        _, times = np.unique(shown, return_counts=True)
        return int((times > 1).sum()) >= METHODS
    # Of a triplet both images belong to the one reference; of a quadruple each has its own.
    own = np.broadcast_to(np.stack([numbers[name] for name in references]), shown.shape)
    if len(np.intersect1d(own, shown[shown != own])):
        return True
    base = 1 + max(int(shown.max()), int(own.max()))
    beside = np.unique(shown * base + own) // base
    return len(np.unique(beside[1:][beside[1:] == beside[:-1]])) >= METHODS


# Votes of one observer on different images


Score = Callable[[IntArray, IntArray, IntArray, FloatArray], FloatArray]
"""Values of some triplets, one each, from their rows, n, M and P."""


@dataclass(frozen=True, eq=False)
class Ballots:
    """Single votes with their observers, arrays of shape (votes,)."""

    row: IntArray  # of the table that the vote belongs to
    chosen: BoolArray  # whether x1 of that row was
    observer: IntArray  # number

    @property
    def observers(self) -> int:
        """Number of observers."""
        return int(self.observer.max()) + 1

    def variance(self, effects: FloatArray, weight: FloatArray, rows: Dependence, strata: Strata) -> FloatArray:
        """Variance that votes of one observer on different images add to weighted means, shape (strata, k).

        The effects of each vote on the means, shape (votes, k), are those of `vote_effects`. Pairs of votes on rows
        that depend on each other have been counted already; the rest is as for `Dependence.variance`.
        """
        share, strata = self._shares(weight, strata)
        whole, mean = strata.total(share[:, None]), strata.total(effects)
        # An error of the surface that all observers share is not a difference between them.
        influence = effects - share[:, None] / whole[strata.number] * mean[strata.number]
        by_observer = self._by_observer.variance(influence, share, strata)
        each = Strata(self.observer * strata.size + strata.number, self.observers * strata.size)
        both = rows.at(self.row).products(influence, each)
        # Negative by chance only.
        return np.asarray(np.maximum(by_observer - both.reshape(self.observers, strata.size, -1).sum(axis=0), 0.0))

    def units(self, weight: FloatArray, strata: Strata) -> FloatArray:
        """Effective number of observers in each stratum, shape (strata,)."""
        return self._by_observer.units(*self._shares(weight, strata))

    @property
    def _by_observer(self) -> Dependence:
        return Dependence(len(self.row), (self.observer,), "")

    def _shares(self, weight: FloatArray, strata: Strata) -> tuple[FloatArray, Strata]:
        """Weight of each vote, from that of its row, and its stratum."""
        return weight[self.row] / np.bincount(self.row)[self.row], strata._replace(number=strata.number[self.row])


def ballots(table: Votes) -> Ballots | None:
    """Return the single votes of a table; None unless at least two observers are known."""
    votes = table.votes
    if votes is None or "observer" not in votes.columns or votes["observer"].n_unique() < 2:
        return None
    observer = votes["observer"].rank("dense").to_numpy().astype(np.int64) - 1
    chosen = votes["choice"].to_numpy().astype(np.bool_) ^ votes["swapped"].to_numpy()
    return Ballots(votes["row"].to_numpy(), chosen, observer)


def vote_effects(score: Score, ballots: Ballots, n: IntArray, M: IntArray, P: FloatArray) -> FloatArray:
    """Effect of each vote on the score of its triplet, shape (votes,): (y - P) times the score with it minus without.

    The other votes are as they were cast. A score need not be a sum over votes: this is its projection on such sums
    (Hajek), which has the covariance of triplets that share an observer.
    """
    row = ballots.row
    p = np.clip(P, 1e-9, 1 - 1e-9)
    others = n[row] - ballots.chosen
    gain = score(row, others + 1, M[row], p[row]) - score(row, others, M[row], p[row])
    return np.asarray((ballots.chosen - p[row]) * gain)

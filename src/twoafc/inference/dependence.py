"""Which rows of a table are dependent, and the variance of a mean over dependent rows.

Rows that share an image or an observer are not independent. The variance of a weighted mean is then a sum of products
over all pairs of rows that share anything: clustered by one label, multiway over several and, with images that serve in
several places (as a reference here, as x1 there), the dyadic-robust variance of Aronow, Samii and Assenova (Political
Analysis 23, 2015). Pairs that share several things are counted once, by inclusion and exclusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import FloatArray, IntArray

REFERENCES = ("ref", "ref0", "ref1")
CHOICES = ("x0", "x1", "x")
FEWEST = 6
"""Fewer things than this that recur are taken as given (two codecs, say): the error bars are for these alone."""


@dataclass(frozen=True, eq=False)
class Sharing:
    """Sets of rows that share some labels: entry k says that row ``rows[k]`` belongs to the set ``sets[k]``."""

    sign: int
    rows: IntArray
    sets: IntArray


@dataclass(frozen=True, eq=False)
class Dependence:
    """Which rows are dependent.

    Parameters
    ----------
    size : int
        Number of rows, T.
    kinds : tuple of arrays of int, each of shape (T,)
        Number of each row's label of each kind (ref, x0, x1, observer); equal numbers are the same thing, whatever the
        kind. Without any, every row stands alone.
    description : str
        The same in words.
    count : array of int, shape (T,), optional
        Triplets that each row stands for, with the same influence and weight each. Those of a row without labels are
        independent; default one.

    Examples
    --------
    >>> together = Dependence(4, (np.array([0, 0, 1, 1]),), "clustered by ref")
    >>> influence = np.array([[1.0], [1.0], [-1.0], [-1.0]]) / 4
    >>> together.variance(influence, np.full(4, 0.25))
    array([[1.]])
    """

    size: int
    kinds: tuple[IntArray, ...]
    description: str
    count: IntArray | None = None

    @cached_property
    def sharings(self) -> tuple[Sharing, ...]:
        """Rows by what they share: one label with a plus, two with a minus, three with a plus, ..."""
        if not self.kinds:
            return (self._alone,)
        labels = np.sort(np.stack(self.kinds) - min(int(labels.min()) for labels in self.kinds), axis=0)
        # The same label twice in a row (a reference shown against itself) is one thing.
        again = np.zeros(labels.shape, dtype=np.bool_)
        again[1:] = labels[1:] == labels[:-1]
        return tuple(_sharing(labels, again, count) for count in range(1, len(labels) + 1))

    @property
    def times(self) -> IntArray:
        """Triplets that each row stands for."""
        return np.ones(self.size, dtype=np.int64) if self.count is None else self.count

    def _summed(self, column: FloatArray) -> FloatArray:
        """Sum what the triplets of a row share, where rows are clustered: they are then one part of a set."""
        if self.count is None or not self.kinds:
            return column
        return (column.T * self.count).T

    @property
    def _independent(self) -> IntArray | None:
        """Number of independent triplets of each row, where rows stand for several and none are clustered."""
        return None if self.kinds else self.count

    @property
    def _alone(self) -> Sharing:
        rows = np.arange(self.size)
        return Sharing(1, rows, rows)

    def variance(
        self, influence: FloatArray, weight: FloatArray, strata: IntArray | None = None, count: int = 1
    ) -> FloatArray:
        """Variance of weighted means, from the influence of each row on them: weight times (value - mean).

        Parameters
        ----------
        influence : array, shape (T, k)
            One column for each mean.
        weight : array, shape (T,)
            Weights of the rows, which sum to 1 in each stratum. A set with a share s of the weight moves the mean with
            it: its square is divided by 1 - s, which makes the variance of a plain mean unbiased.
        strata : array of int, shape (T,), optional
            Number of each row's stratum, below `count`, for means of several groups at once.

        Returns
        -------
        array, shape (count, k)
            NaN where one set holds all the weight of a stratum.
        """
        if self._independent is not None:
            with np.errstate(divide="ignore"):
                factor = np.where(weight < 1 - 1e-12, self._independent / (1 - weight), np.nan)
            return _by_stratum(factor[:, None] * influence**2, strata, count)
        influence, weight = self._summed(influence), self._summed(weight)
        stratum = np.zeros(self.size, dtype=np.int64) if strata is None else strata
        parts = [each.sign * _squares(each, influence, weight, stratum, count) for each in self.sharings]
        total: FloatArray = np.sum(parts, axis=0)
        if len(parts) == 1:
            return total
        # A signed sum may fall below what the rows would give if each stood alone, by chance; it is not believed then.
        return np.maximum(total, _squares(self._alone, influence, weight, stratum, count))

    def own_share(self, weight: FloatArray, strata: IntArray) -> FloatArray:
        """Factor 1 / sqrt(1 - s) of each row, s the share of its stratum that its largest set holds; NaN where all."""
        largest, weight = np.zeros(self.size), self._summed(weight)
        for labels in self.kinds or (np.arange(self.size),):
            dense = _distinct_numbers(labels - labels.min())[1]
            place = _distinct_numbers(strata * (int(dense.max()) + 1) + dense)[1]
            largest = np.maximum(largest, np.bincount(place, weight)[place])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(largest < 1 - 1e-12, 1 / np.sqrt(1 - largest), np.nan)

    def skewness(self, influence: FloatArray, strata: IntArray | None = None, count: int = 1) -> FloatArray:
        """Skewness of weighted means, from the influence of each row on them, shape (count, k).

        Where rows share labels of several kinds it is that of the part which the labels bring.
        """
        stratum = np.zeros(self.size, dtype=np.int64) if strata is None else strata
        variance = self.variance(influence, np.zeros(self.size), stratum, count)
        if self._independent is not None:
            # Products, not a power, which numpy takes by way of logarithms.
            sums = _by_stratum(self._independent[:, None] * influence * influence * influence, strata, count)
            return np.divide(sums, variance**1.5, out=np.zeros(variance.shape), where=variance > 0)
        influence = self._summed(influence)
        of, of_sets = _sums(self.sharings[0], np.column_stack([influence, np.ones(self.size)]), stratum, count)
        shared = (of_sets[:, -1] > 1) | (len(self.sharings) == 1)
        cubes = [np.bincount(of, column * column * column * shared, minlength=count) for column in of_sets[:, :-1].T]
        return np.divide(np.stack(cubes, axis=1), variance**1.5, out=np.zeros(variance.shape), where=variance > 0)

    def units(self, weight: FloatArray, strata: IntArray | None = None, count: int = 1) -> FloatArray:
        """Effective number of independent units, 1 over the sum of their squared shares of the weight, shape (count,).

        Where rows share labels of several kinds, the kind with the fewest units decides.
        """
        stratum = np.zeros(self.size, dtype=np.int64) if strata is None else strata
        if self._independent is not None:
            total = _by_stratum((self._independent * weight**2)[:, None], strata, count)[:, 0]
            return np.asarray(1 / np.maximum(total, np.finfo(np.float64).tiny))
        fewest, weight = np.full(count, np.inf), self._summed(weight)
        for labels in self.kinds or (np.arange(self.size),):
            which, share = _shares(labels, weight, stratum)
            squares = np.bincount(which, share**2, minlength=count)
            fewest = np.minimum(fewest, 1 / np.maximum(squares, np.finfo(np.float64).tiny))
        return fewest

    def freedom(self, influence: FloatArray, strata: IntArray | None = None, count: int = 1) -> FloatArray:
        """Degrees of freedom of the variance, shape (count, k), from how unlike its parts are; infinite if one kind.

        Where every image is in many rows a few of them may decide the variance: their squares then have a long tail.
        And what is taken off for pairs that were counted twice leaves the noise of what it was taken from.
        """
        if len(self.sharings) == 1:
            return np.full((count, influence.shape[1]), np.inf)
        stratum = np.zeros(self.size, dtype=np.int64) if strata is None else strata
        of, sums = _sums(self.sharings[0], self._summed(influence), stratum, count)
        sets = np.maximum(np.bincount(of, minlength=count), 1)[:, None]
        squares, fourths = (
            np.stack([np.bincount(of, column**power, minlength=count) for column in sums.T], axis=1) for power in (2, 4)
        )
        # Of normal parts the fourth powers are three times the square over their number: 2 over the number is left.
        left = np.divide(fourths, squares**2, out=np.zeros(squares.shape), where=squares > 0) - 1 / sets
        whole = self.variance(influence, np.zeros(self.size), stratum, count)
        share = np.divide(whole, squares, out=np.ones(squares.shape), where=squares > 0)
        return np.minimum(share, 1.0) ** 2 * 2 / np.maximum(left, 2 / sets)

    def at(self, rows: IntArray) -> Dependence:
        """The dependence of some of the rows, any of them several times."""
        if self.count is not None:
            return Dependence(
                len(rows), tuple(labels[rows] for labels in self.kinds), self.description, self.count[rows]
            )
        kinds = self.kinds or (np.arange(self.size),)
        return Dependence(len(rows), tuple(labels[rows] for labels in kinds), self.description)


def _by_stratum(columns: FloatArray, strata: IntArray | None, count: int) -> FloatArray:
    """Sum columns over the rows of each stratum: shape (count, k)."""
    if strata is None:
        return np.asarray(columns.sum(axis=0))[None, :]
    return np.stack([np.bincount(strata, column, minlength=count) for column in columns.T], axis=1)


def _sharing(labels: IntArray, again: NDArray[np.bool_], count: int) -> Sharing:
    """Sets of rows that share `count` labels; labels are sorted within each row."""
    rows, shared = [], []
    for places in combinations(range(len(labels)), count):
        kept = np.flatnonzero(~again[list(places)].any(axis=0))
        rows.append(kept)
        shared.append(labels[list(places)][:, kept])
    sets = np.zeros(sum(map(len, rows)), dtype=np.int64)
    for line in np.concatenate(shared, axis=1):
        # Numbered afresh for each label, so that the numbers do not outgrow their type.
        sets = _distinct_numbers(sets * (int(labels.max()) + 1) + line)[1]
    return Sharing(1 if count % 2 else -1, np.concatenate(rows), sets)


def _distinct_numbers(code: IntArray) -> tuple[IntArray, IntArray]:
    """Find the distinct numbers, from 0 on, in order, and the place of each among them; small ones without a sort."""
    if not len(code) or int(code.max()) > 4 * len(code):
        distinct, place = np.unique(code, return_inverse=True)
        return distinct, place
    used = np.bincount(code) > 0
    return np.flatnonzero(used), (np.cumsum(used) - 1)[code]


def _shares(labels: IntArray, weight: FloatArray, stratum: IntArray) -> tuple[IntArray, FloatArray]:
    """Weight of each label within each stratum: the stratum, and the share."""
    dense = _distinct_numbers(labels - labels.min())[1]
    base = int(dense.max()) + 1
    combined, place = _distinct_numbers(stratum * base + dense)
    return np.asarray(combined // base, dtype=np.int64), np.asarray(np.bincount(place, weight), dtype=np.float64)


def _squares(sharing: Sharing, influence: FloatArray, weight: FloatArray, stratum: IntArray, count: int) -> FloatArray:
    """Sum over sets of the squared influence of their rows, within strata: shape (count, k)."""
    of, sums = _sums(sharing, np.column_stack([influence, weight]), stratum, count)
    share = sums[:, -1]
    with np.errstate(divide="ignore"):
        factor = np.where(share < 1 - 1e-12, 1 / (1 - share), np.nan)
    squares = sums[:, :-1] ** 2
    if count == 1:
        return np.asarray(factor @ squares)[None, :]
    return np.stack([np.bincount(of, column * factor, minlength=count) for column in squares.T], axis=1)


def _sums(sharing: Sharing, columns: FloatArray, stratum: IntArray, count: int) -> tuple[IntArray, FloatArray]:
    """Sum columns over the rows of each set, within strata: the stratum of each sum, and the sums (sets, k)."""
    rows, sets = sharing.rows, sharing.sets
    if not len(rows):
        return np.zeros(0, dtype=np.int64), np.zeros((0, columns.shape[1]))
    base = int(sets.max()) + 1
    if count == 1:
        place, of = sets, np.zeros(base, dtype=np.int64)
    else:
        combined, place = _distinct_numbers(stratum[rows] * base + sets)
        of = np.asarray(combined // base, dtype=np.int64)
    if count == 1 and len(of) == len(columns) and np.array_equal(place, rows):
        return of, columns  # every row stands alone
    return of, np.stack([np.bincount(place, column[rows], minlength=len(of)) for column in columns.T], axis=1)


NOT_KEPT = "not clustered: the counts keep no references"


def find_dependence(labels: pl.DataFrame, count: IntArray | None = None) -> Dependence:
    """Find which rows of a table are dependent, from its labels.

    Triplets with the same reference do. Where the other images recur too, with another reference or as one, so do all
    triplets that share any image; and where rows are one observer's, those of the same observer. With `count`, a row
    stands for several triplets of one reference.

    Examples
    --------
    >>> find_dependence(pl.DataFrame({"triplet": ["0", "1"], "ref": ["a", "b"]})).description
    'triplets taken as independent'
    """
    if count is not None and "ref" not in labels.columns:
        return Dependence(len(labels), (), NOT_KEPT, count)
    size = len(labels) if count is None else int(count.sum())
    references = [name for name in REFERENCES if name in labels.columns]
    choices = [name for name in CHOICES if name in labels.columns]
    few = bool(references) and _distinct(labels, references) < min(FEWEST, size)
    if few:
        references = []
    numbers = _numbered(labels, [*references, *choices])
    named: list[str] = []
    if choices and len(_recurring(numbers, references, choices)) >= FEWEST:
        named = [*references, *choices]
    elif any(labels[name].n_unique() < size for name in references):
        named = references
    kinds, words = [numbers[name] for name in named], [", ".join(named)] if named else []
    known = labels["observer"].n_unique() if "observer" in labels.columns else size
    if FEWEST <= known < size:
        kinds.append(-1 - _numbered(labels, ["observer"])["observer"])
        words.append("observer")
    description = f"clustered by {' and by '.join(words)}" if words else "triplets taken as independent"
    given = ["references"] if few else []
    given += ["observers"] if known < min(FEWEST, size) else []
    if given:
        description += f"; the few {' and '.join(given)} are taken as given"
    return Dependence(len(labels), tuple(kinds), description, count)


def _distinct(labels: pl.DataFrame, names: list[str]) -> int:
    return pl.concat([labels[name].rename("label") for name in names]).n_unique()


def _numbered(labels: pl.DataFrame, names: list[str]) -> dict[str, IntArray]:
    """Number the labels of some columns, the same text by the same number."""
    if not names:
        return {}
    labelled = pl.concat([labels[name].rename("label") for name in names])
    codes = labelled.cast(pl.Categorical).to_physical().to_numpy().astype(np.int64)
    return dict(zip(names, codes.reshape(len(names), -1), strict=True))


def _recurring(numbers: dict[str, IntArray], references: list[str], choices: list[str]) -> IntArray:
    """Numbers of images to choose from that go with several references, or are references of other rows.

    Where no references are known, those that are in several rows.
    """
    shown = np.stack([numbers[name] for name in choices])
    if not references:
        images, times = np.unique(shown, return_counts=True)
        return np.asarray(images[times > 1])
    # Of a triplet both images belong to the one reference; of a quadruple each has its own.
    own = np.broadcast_to(np.stack([numbers[name] for name in references]), shown.shape)
    base = 1 + max(int(shown.max()), int(own.max()))
    met = np.unique(shown * base + own) // base
    several = met[1:][met[1:] == met[:-1]]
    return np.union1d(several, np.intersect1d(own, shown))

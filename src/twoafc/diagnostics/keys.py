"""Keys that are equal where two rows show the same triplet: by the names of the images, or else by the distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtrc

from twoafc.diagnostics.view import View
from twoafc.table import QUADRUPLE, TRIPLET, Triplets

Keys = NDArray[np.uint64]

SAFETY, CHANCE = 5.0, 1e-3
"""Equal rows count if even this many times the accidents to expect would have given so many with this chance only."""
OTHERWISE = 0.95
"""Rank correlation from which two distances are one, and their equal values no two pieces of evidence."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A key of each side of each row: the pair of reference and x0, and of reference and x1."""

    one: Keys
    other: Keys

    @property
    def keys(self) -> Keys:
        """One key per row, the same whichever way round."""
        return mixed([np.minimum(self.one, self.other), np.maximum(self.one, self.other)])


def by_names(table: Triplets) -> Rows | None:
    """Key rows by the names of their images; None where a row does not name them all."""
    names = set(table.labels.columns)
    pairs = (QUADRUPLE[:2], QUADRUPLE[2:]) if set(QUADRUPLE) <= names else (TRIPLET[:2], TRIPLET[::2])
    if not {name for pair in pairs for name in pair} <= names:
        return None
    one, other = (mixed([hashed(table, name) for name in pair]) for pair in pairs)
    return Rows(one, other)


def by_distances(table: Triplets, names: list[str]) -> Rows:
    """Key rows by some of their distances, to the last bit."""
    # Adding zero makes one of the two zeros.
    one, other = (mixed([(table.distances[name][side] + 0.0).view(np.uint64) for name in names]) for side in (0, 1))
    return Rows(one, other)


def hashed(table: Triplets, name: str) -> Keys:
    """Hash a column of labels."""
    return table.labels[name].hash(seed=1).to_numpy()


def mixed(parts: list[Keys]) -> Keys:
    """Mix numbers into one, each by its place."""
    key = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        key = (key ^ part) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
        key *= np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(32)
    return key


def accident(view: View, rows: Rows, times: NDArray[np.int64]) -> bool:
    """Whether rows that are equal so many times need be no more than equal numbers: coarse distances have many."""
    sides = np.concatenate([rows.one, rows.other])
    equal = _equal(np.unique(sides, return_counts=True)[1])
    if _identify(view, equal):
        return False
    expected = len(rows.one) * (len(rows.one) - 1) * equal**2
    return bool(pdtrc(_pairs(times) - 1, SAFETY * expected) > CHANCE)


def accident_between(view: View, train: Rows, test: Rows, met: int) -> bool:
    """Whether so many test rows need be in the training table by no more than equal numbers."""
    (known, times), (asked, again) = (
        np.unique(np.concatenate([rows.one, rows.other]), return_counts=True) for rows in (train, test)
    )
    if _identify(view, _equal(times)):
        return False
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    equal = (np.where(known[place] == asked, times[place], 0) * again).sum() / (float(times.sum()) * again.sum())
    expected = 2 * len(train.one) * len(test.one) * float(equal) ** 2
    return bool(pdtrc(met - 1, SAFETY * expected) > CHANCE)


def _identify(view: View, equal: float) -> bool:
    """Whether equal distances mean the same pair of images: values equal in one distance are equal in all of them."""
    if equal == 0:
        return False
    fine = [
        name for name, column in view.varying.items() if _equal(np.diff(column.U.at_most, prepend=0)) <= 1.5 * equal
    ]
    return any(abs(view.side[a, b]) < OTHERWISE for a in fine for b in fine)


def _pairs(times: NDArray[np.int64]) -> float:
    return float((times * (times - 1.0)).sum() / 2)


def _equal(times: NDArray[np.int64]) -> float:
    """Chance that two of some values are equal, from how often each occurs."""
    total = float(times.sum())
    return _pairs(times) / (total * (total - 1) / 2)

"""Rows and references that occur twice, in one table or in both.

Rows are compared by the names of their images, or else by their distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import factorial

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.special import pdtrc

from twoafc.arrays import IntArray
from twoafc.diagnostics.findings import Finding, join_names, share_of
from twoafc.diagnostics.profile import Profile, profile_of
from twoafc.table import Votes, compared_images

Keys = NDArray[np.uint64]

SAFETY, P_ACCIDENT = 5.0, 1e-3
"""Equal rows are a finding if `SAFETY` times the expected number of coincidences gives as many with a probability below
`P_ACCIDENT`."""
MOST_MET = 0.05
"""Share of test rows with a reference of the training table from which this qualifies the scores."""
SAME_RANKS = 0.95  # rank correlation from which equal values of two distances are not independent evidence


def check_overlap(train: Votes, test: Votes) -> list[Finding]:
    """Find rows and references that two tables share, as `twoafc.check` does."""
    with np.errstate(all="ignore"):
        return list(shared(profile_of("train", train), profile_of("test", test)))


def shared(train: Profile, test: Profile) -> Iterator[Finding]:
    """Find rows and references that train and test share."""
    rows = list(_shared_rows(train, test))
    yield from rows
    # Names that do not identify rows do not identify references either.
    if any(finding.code == "names" for finding in rows):
        return
    for finding in _shared_references(train.table, test.table):
        # Where the triplets themselves are shared, scores are not for new ones.
        yield replace(finding, caveat="") if rows else finding


def duplicates(profile: Profile) -> Iterator[Finding]:
    """Find triplets that have several rows in one table."""
    table = profile.table
    (rows,), named = _images(table)
    # Groups may reuse names of images, and observers judge the same triplets.
    extra = [name for name in ("group", "observer") if named and name in table.labels.columns]
    keys = _hashed(pl.Series("key", _key(rows)), *table.labels.select(extra))
    _, first, group, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    repeats = len(table) - len(times)
    couples = len(table) * (len(table) - 1) / 2
    if repeats == 0 or (not named and _coincidence(profile, rows, couples, _couples(times))):
        return
    earlier = first[group]
    later = np.flatnonzero(earlier != np.arange(len(table)))
    ambiguous = _ambiguous(profile.role, table, later, table, earlier[later]) if named else None
    if ambiguous:
        yield ambiguous
        return
    n = np.where(rows[0] == rows[0][earlier], table.n, table.M - table.n)
    copies = int(((n == table.n[earlier]) & (table.M[earlier] == table.M))[later].sum())
    message = f"each {profile.table.row} must have one row; some have several"
    evidence = (
        f"{share_of(repeats, len(table))} rows repeat an earlier one by {_evidence(named)}, {copies} of them with the "
        f"same n and M; first in row {later[0]}{_example(table, later[0])}"
    )
    remedy = (
        "remove copies, and add up n and M of rows that are further votes: standard errors treat every row as a "
        f"separate {profile.table.row}"
    )
    yield Finding("duplicates", "warning", profile.role, None, message, evidence, remedy)


def _shared_rows(train: Profile, test: Profile) -> Iterator[Finding]:
    (a, b), named = _images(train.table, test.table)
    if not a:
        return
    distinct, first = np.unique(_key(a), return_index=True)
    keys = _key(b)
    index = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
    both = np.flatnonzero(distinct[index] == keys)
    couples = float(len(train.table)) * len(test.table)
    # Sides that are equal show how often values coincide between the tables; of pairs they are the rows themselves.
    between = _equal_between(*map(np.concatenate, (a, b))) if len(a) > 1 else None
    if len(both) == 0 or (not named and _coincidence(train, a, couples, len(both), between)):
        return
    ambiguous = _ambiguous("both", test.table, both, train.table, first[index[both]]) if named else None
    if ambiguous:
        yield ambiguous
        return
    noun, count = test.table.row, share_of(len(both), len(test.table))
    message = f"test {noun}s must be new; some are also in the training table"
    place = f"test row {both[0]}{_example(test.table, both[0])}"
    evidence = f"{count} test rows are in train by {_evidence(named)}; first in {place}"
    remedy = f"remove them from one of the two: scores on {noun}s that the fit has seen are too good"
    caveat = f"{count} test {noun}s are also in train: scores on what the fit has seen are too good"
    yield Finding("shared_triplets", "warning", "both", None, message, evidence, remedy, caveat)


def _shared_references(train: Votes, test: Votes) -> Iterator[Finding]:
    known, asked = (_references(table) for table in (train, test))
    if known is None or asked is None:
        return
    met = asked.filter(asked.is_in(known.implode()))
    if met.is_empty():
        return
    names = met.unique().sort().to_list()
    rows = "rows" if len(asked) == len(test) else "pairs"
    message = "train and test share references: a narrow kernel can memorise stimuli"
    count = f"{len(names)} of {asked.n_unique()} references of test are"
    evidence = f"{count} in train ({join_names(names, 3)}), in {share_of(len(met), len(asked))} {rows}"
    remedy = (
        f"the scores are for new {test.row}s of these references; for new references split by reference "
        "(one table: --folds does so)"
    )
    caveat = f"{count} also in train: scores are for new {test.row}s of these, not for new references"
    if len(met) < MOST_MET * len(asked):
        caveat = ""
    yield Finding("shared_references", "note", "both", None, message, evidence, remedy, caveat)


def _references(table: Votes) -> pl.Series | None:
    """The reference of each row, for quadruples of each pair."""
    columns = [name for name in ("ref", "ref0", "ref1") if name in table.labels.columns]
    return pl.concat([table.labels[name].alias("ref") for name in columns]) if columns else None


def _ambiguous(role: str, table: Votes, rows: IntArray, other: Votes, others: IntArray) -> Finding | None:
    """Note that most rows with the names of others have other distances than these, in either order; else None."""
    names = [name for name in table.distances if name in other.distances]
    same = np.zeros(len(rows), dtype=np.bool_)
    for name in names:
        a = np.sort([d[rows] for d in table.distances[name]], axis=0)
        b = np.sort([d[others] for d in other.distances[name]], axis=0)
        same |= (np.abs(a - b) <= 1e-3 * np.abs(a) + 1e-9).all(axis=0)
    if not names or same.mean() >= 0.5:
        return None
    message = "names of images must identify rows; rows with the same names have different distances"
    evidence = (
        f"{len(rows)} rows repeat the names of another, {100 * same.mean():.0f} % of them its distances"
        f"{_example(table, rows[0])}"
    )
    remedy = "give every image a unique name (with its folder), or check whether rows are out of order"
    return Finding("names", "note", role, None, message, evidence, remedy)


def _evidence(named: bool) -> str:
    return "their names" if named else "all of their distances"


def _example(table: Votes, row: int) -> str:
    names = [name for name in ("ref", "ref0", "x0", "ref1", "x1", "x") if name in table.labels.columns]
    return f" ({', '.join(table.labels[name][int(row)] for name in names)})" if names else ""


# Keys that are equal where two rows show the same images


Sides = tuple[Keys, ...]  # a key of each side of each row: of reference and x0, and of reference and x1


def _key(sides: Sides) -> Keys:
    """One key per row, the same for both orders of x0 and x1."""
    return _hashed(*np.sort(np.stack(sides), axis=0))


def _images(*tables: Votes) -> tuple[list[Sides], bool]:
    """Key the sides of all rows by the names of their images, if all tables have them, or else by their distances."""
    named = [compared_images(table.labels.columns) for table in tables]
    if all(named):
        labels = [[table.labels.select(names) for names in images] for table, images in zip(tables, named, strict=True)]
        return [tuple(_hashed(*side) for side in sides) for sides in labels], True
    known = [name for name in tables[0].distances if all(name in table.distances for table in tables)]
    distances = [zip(*(table.distances[name] for name in known), strict=True) for table in tables]
    return [tuple(_hashed(*side) for side in sides) for sides in distances], False


def _hashed(*columns: ArrayLike | pl.Series) -> Keys:
    """Hash the rows of some columns."""
    return pl.DataFrame({str(index): column for index, column in enumerate(columns)}).hash_rows(seed=1).to_numpy()


def _coincidence(profile: Profile, rows: Sides, couples: float, found: float, between: float | None = None) -> bool:
    """Whether so many equal rows among some couples of rows may be coincidences, as coarse distances have many.

    The probability of equal sides is that within the rows or, of rows of two tables, `between` these.
    """
    equal = _collision(np.unique(np.concatenate(rows), return_counts=True)[1])
    # Where values that are equal in one distance are equal in all, they mean the same images.
    fine = [name for name, column in profile.varying.items() if _collision(column.times) <= 1.5 * equal]
    if equal > 0 and any(abs(profile.side[a, b]) < SAME_RANKS for a in fine for b in fine):
        return False
    expected = factorial(len(rows)) * couples * (equal if between is None else between) ** len(rows)
    return bool(pdtrc(found - 1, SAFETY * expected) > P_ACCIDENT)


def _equal_between(one: Keys, other: Keys) -> float:
    """Probability that a value of one array equals one of another."""
    (known, times), (asked, again) = (np.unique(keys, return_counts=True) for keys in (one, other))
    _, i, j = np.intersect1d(known, asked, assume_unique=True, return_indices=True)
    return float(times[i] @ again[j]) / (float(len(one)) * len(other))


def _couples(times: IntArray) -> float:
    """Number of couples of equal things, from the number of times each occurs."""
    return float((times * (times - 1.0)).sum() / 2)


def _collision(times: IntArray) -> float:
    """Probability that two of some values are equal, from the number of times each occurs."""
    total = float(times.sum())
    return _couples(times) / max(total * (total - 1) / 2, 1)  # of a single value there are none

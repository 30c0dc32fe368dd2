"""A table cut into folds for cross-validation, by reference where references are known.

Quadruples have two references each, so that a few images may link all rows. Such a set is cut where few rows share a
reference, and `split_note` says how many of the rows left out share an image with the rows fitted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from twoafc.arrays import BoolArray, IntArray
from twoafc.errors import DataError
from twoafc.table.votes import Votes, codes_of, numbered

LARGEST = 0.5
"""Share of the rows above which a set of linked references is cut: too few rows would be left to fit."""
REFERENCES, CHOICES = ("ref", "ref0", "ref1"), ("x0", "x1", "x")
FEWEST = 20
"""Rows of half of the images below which images are not halved: too few to fit anything."""
METHODS = 6
"""Fewer distinct labels of x0 and x1 than this, none of them a reference, are methods (two codecs), not images."""


def _split_key(table: Votes) -> str:
    """Name the unit that stays in one fold: references, linked references of quadruples, or rows."""
    if _is_linked(table):
        return "ref0 and ref1"
    refs = table.references
    return "ref" if refs is not None and refs.min() != refs.max() else table.row


def _keys(table: Votes) -> pl.Series:
    """The reference of each row or part of a row, where references are units; else the name of each row."""
    refs = table.references
    return refs if refs is not None and _split_key(table) == "ref" else table.labels[table.row]


def _is_linked(table: Votes) -> bool:
    """Whether rows have two references."""
    return {"ref0", "ref1"} <= set(table.labels.columns)


def _graph(references: IntArray) -> Any:
    """References, linked where they share a row; `references` has shape (2, T)."""
    from scipy.sparse import csr_array  # here, since it is slow to import

    size = int(references.max()) + 1
    return csr_array((np.ones(references.shape[1]), tuple(references)), shape=(size, size))


def _linked_sets(references: IntArray) -> IntArray:
    """Number the sets of rows that are connected by shared references, first or second."""
    from scipy.sparse.csgraph import connected_components  # here, since it is slow to import

    return np.asarray(connected_components(_graph(references), directed=False)[1][references[0]], dtype=np.int64)


def repeated_units(table: Votes) -> IntArray | None:
    """Number the sets of rows (or of their parts: `Votes.by_ref`) that depend on each other; None if each is its own.

    Rows of one reference do, and quadruples of linked references. Where these link most rows, quadruples that share the
    rarer of their two references are a set.
    """
    key = _split_key(table)
    rows = len(table) if table.count is None or key == table.row else int(table.count.sum())
    if not _is_linked(table):
        keys = _keys(table)
        unit = None if keys.n_unique() == rows else codes_of(keys)[1]
    else:
        references = numbered(table.labels, ("ref0", "ref1"))
        unit = _linked_sets(references)
        if np.bincount(unit).max() > LARGEST * rows:
            rarity = np.argsort(np.argsort(np.bincount(references.ravel()), kind="stable"))
            unit = np.unique(rarity[references].min(axis=0), return_inverse=True)[1].astype(np.int64)
    return None if unit is None or unit.max() + 1 == rows else unit


def most_folds(table: Votes) -> int:
    """Number of folds that a table can be cut into: of references, or of rows."""
    return int(_keys(table).n_unique())


def assign_folds(table: Votes, folds: int, *, seed: int) -> IntArray:
    """Assign every row, or part of a row, a fold, 0..folds - 1, at random: whole references, folds of similar size.

    Linked references of quadruples stay together too, unless they link more than half of the rows or there are fewer
    sets of them than folds. Such a set is cut: pairs of references, in the order of a walk from neighbour to neighbour,
    are put into the fold that has room and most rows with the same references.

    Examples
    --------
    >>> from twoafc.table import Triplets
    >>> table = Triplets.from_frame({"n": [1] * 4, "M": [1] * 4, "d0": range(4), "d1": range(4), "ref": list("aabb")})
    >>> fold = assign_folds(table, 2, seed=0)
    >>> bool(fold[0] == fold[1] != fold[2] == fold[3])
    True
    """
    key, most = _split_key(table), most_folds(table)
    if not 2 <= folds <= most:
        what = "references" if key == "ref" else f"{table.row}s"
        raise DataError(f"folds must lie between 2 and the number of {what}, {most}; found {folds}")
    references = numbered(table.labels, ("ref0", "ref1")) if _is_linked(table) else None
    unit = codes_of(_keys(table))[1] if references is None else _linked_sets(references)
    sizes = np.bincount(unit, table.count if table.by_ref is None else table.by_ref["count"])
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(sizes))
    # The largest references first, each to the smallest fold; the shuffle decides among equals.
    order = order[np.argsort(-sizes[order], kind="stable")]
    if references is not None and (len(sizes) < folds or sizes.max() > LARGEST * sizes.sum()):
        return _cut(table, references, unit, order, folds, rng)
    fold, filled = np.empty(len(sizes), dtype=np.int64), np.zeros(folds)
    for place in order:
        fold[place] = np.argmin(filled)
        filled[fold[place]] += sizes[place]
    return fold[unit]


def _cut(
    table: Votes, references: IntArray, unit: IntArray, order: IntArray, folds: int, rng: np.random.Generator
) -> IntArray:
    """Assign folds where a set of linked references (`unit`, to be placed in this order) must be cut."""
    share, rank = len(unit) / folds, np.argsort(order)[unit]
    # Numbered at random, so that the walk begins anywhere; in order, so that ref0 and ref1 may change places.
    references = np.sort(rng.permutation(int(references.max()) + 1)[references], axis=0)
    large = np.bincount(unit)[unit] > share
    near = np.sort(_walk(references, large)[references], axis=0)
    # Parts in the order in which they are placed: sets of linked references, or pairs of those that are cut.
    parts = np.stack([rank, *np.where(large, near[::-1], -1)])
    if np.unique(parts, axis=1).shape[1] < folds:
        parts = np.stack([*parts, table.codes(table.row)[1]])
    _, first, part, sizes = np.unique(parts, axis=1, return_index=True, return_inverse=True, return_counts=True)
    fold, filled = np.empty(len(sizes), dtype=np.int64), np.zeros(folds)
    seen = np.zeros((int(references.max()) + 1, folds))
    for place, size in enumerate(sizes):
        own = references[:, first[place]]
        linked = seen[own].sum(axis=0) * np.maximum(share - filled, 0)
        awaited = len(sizes) - place <= np.count_nonzero(filled == 0)
        fold[place] = np.argmax(linked) if linked.any() and not awaited else np.argmin(filled)
        filled[fold[place]] += size
        seen[own, fold[place]] += size
    return fold[part.ravel()]


def _walk(references: IntArray, rows: BoolArray) -> IntArray:
    """Place of each reference of some rows on a breadth-first walk through its set."""
    from scipy.sparse.csgraph import breadth_first_order, connected_components  # here, since it is slow to import

    graph = _graph(references)
    place = np.full(graph.shape[0], -1, dtype=np.int64)
    _, known = connected_components(graph, directed=False)
    sets, first = np.unique(known, return_index=True)
    for start in first[np.isin(sets, known[references[0, rows]])]:
        walk = breadth_first_order(graph, start, directed=False, return_predecessors=False)
        place[walk] = np.arange(len(walk))
    return place


def split_note(table: Votes, fold: IntArray) -> str:
    """Describe a split into folds in one line: by what, and how many rows share an image with rows of other folds.

    Examples
    --------
    >>> from twoafc.table import Triplets
    >>> names = {"ref0": list("aabx"), "ref1": list("bbcy")}
    >>> table = Triplets.from_frame({"n": [1] * 4, "M": [1] * 4, "d0": range(4), "d1": range(4)} | names)
    >>> print(split_note(table, np.array([0, 0, 1, 1])))
    2-fold cross-validation, split by ref0 and ref1; references are linked: 3 of 4 left-out triplets (75 %) share an
    image with triplets that were fitted
    """
    folds, row, key = int(fold.max()) + 1, table.row, _split_key(table)
    if table.count is not None and key == row:
        return f"{folds}-fold cross-validation; folds split {row}s, not references"
    note = f"{folds}-fold cross-validation, split by {key}"
    shared = int(_shared(table, fold).sum())
    if not shared:
        return note
    cause = "references are linked" if _is_linked(table) else "images recur"
    share = f"{shared} of {len(table)} left-out {row}s ({100 * shared / len(table):.0f} %)"
    return f"{note}; {cause}: {share} share an image with {row}s that were fitted"


def unseen_rows(table: Votes, folds: int, enough: int, *, seed: int) -> list[tuple[BoolArray, BoolArray]]:
    """Rows to fit and rows to predict, several times: they share no reference nor, where images recur, any image.

    Usually these are folds of whole references. Where most rows share an image with rows of other folds, the images
    are halved at random instead, and rows whose images are all in one half predict those of the other. There are so
    many folds, or halvings, at most; none is made where `enough` rows have been predicted.
    """
    fold = assign_folds(table, folds, seed=seed)
    splits: list[tuple[BoolArray, BoolArray]] = []
    if _shared(table, fold).mean() > LARGEST:
        image = numbered(table.labels, _image_columns(table))
        rng = np.random.default_rng(seed)
        for _ in range(folds):
            half = (rng.permutation(int(image.max()) + 1) % 2)[image]
            first, second = (half == 0).all(axis=0), (half == 1).all(axis=0)
            if min(first.sum(), second.sum()) >= FEWEST:
                splits += [(first, second), (second, first)]
            if sum(int(rows.sum()) for _, rows in splits) >= enough:
                break
    if not splits:
        needed = int(np.searchsorted(np.cumsum(np.bincount(fold)), enough)) + 1
        splits = [(fold != k, fold == k) for k in range(min(folds, needed))]
    return splits


def _image_columns(table: Votes) -> tuple[str, ...]:
    return tuple(name for name in REFERENCES + CHOICES if name in table.labels.columns)


def _shared(table: Votes, fold: IntArray) -> BoolArray:
    """Whether each row has an image that rows of other folds have too."""
    columns = _image_columns(table)
    if not columns:
        return np.zeros(len(table), dtype=np.bool_)
    image = numbered(table.labels, columns)
    used = np.zeros((int(image.max()) + 1, int(fold.max()) + 1), dtype=np.bool_)
    used[image, fold] = True
    several = used.sum(axis=1) > 1
    is_choice = np.array([name in CHOICES for name in columns])
    recurring = several[image]
    names = np.unique(image[is_choice][recurring[is_choice]])
    if len(names) < METHODS and not np.isin(names, image[~is_choice]).any():
        recurring = recurring[~is_choice]
    return np.asarray(recurring.any(axis=0))


def split_rows(table: Votes, folds: int, *, seed: int) -> tuple[Votes, IntArray]:
    """Cut a table into folds; return it with the fold of every row.

    If a row stands for several triplets without a reference, each triplet is assigned a fold at random; if it stands
    for triplets of several references, each reference is. The row is then split into one row per fold.
    """
    by_ref = table.by_ref
    if table.count is None or (by_ref is None and _split_key(table) != table.row):
        return table, assign_folds(table, folds, seed=seed)
    if by_ref is None:
        counts = _drawn_counts(table.count, folds, seed=seed)
    else:
        part = assign_folds(table, folds, seed=seed) * len(table) + by_ref["row"].to_numpy()
        counts = np.bincount(part, by_ref["count"], folds * len(table)).astype(np.int64).reshape(folds, -1)
        by_ref = by_ref.with_columns(row=pl.Series((np.cumsum(counts > 0) - 1)[part], dtype=pl.Int32))
    fold, row = np.nonzero(counts)
    return replace(table.at(row), count=counts[fold, row], by_ref=by_ref), fold


def _drawn_counts(count: IntArray, folds: int, *, seed: int) -> IntArray:
    """Assign each of the triplets that rows stand for a fold: how many of each row are in each, shape (folds, T)."""
    total = int(count.sum())
    if not 2 <= folds <= total:
        raise DataError(f"folds must lie between 2 and the number of triplets, {total}; found {folds}")
    rng, left, drawn = np.random.default_rng(seed), count, []
    for rest in range(folds, 0, -1):
        drawn.append(rng.binomial(left, 1 / rest))
        left = left - drawn[-1]
    if not all(part.any() for part in drawn):
        raise DataError(f"each fold must have triplets; of {total} one of {folds} folds got none: use fewer folds")
    return np.stack(drawn)

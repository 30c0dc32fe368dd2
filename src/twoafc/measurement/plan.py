"""What has to be measured: each distinct triplet of images once or, where images recur, each distinct pair."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import IntArray
from twoafc.datasets import Dataset
from twoafc.measurement.block import Block


@dataclass(frozen=True, eq=False)
class Plan:
    """The distinct items of a data set, and where each row finds its distances among them.

    Parameters
    ----------
    data : Dataset
        What is measured.
    files : list of str
        The distinct images.
    items : array of int, shape (I, 3) or (I, 2)
        Each item's images, by their numbers in `files`: a reference and the images that are compared with it.
    places : mapping of str to (array of int, shape (T,), int)
        For ``d0`` and ``d1`` (pairs: ``d``) each row's item, and which of the item's distances it is.
    """

    data: Dataset
    files: list[str]
    items: IntArray
    places: Mapping[str, tuple[IntArray, int]]

    @property
    def kind(self) -> str:
        """What an item is called."""
        return {3: "triplets", 2: "pairs"}[self.items.shape[1]]

    @property
    def recurs(self) -> bool:
        """Whether some image is in several items, and worth keeping."""
        return len(self.files) < self.items.size

    @property
    def cached(self) -> int:
        """Bytes of decoded images that each worker keeps."""
        return 2**27 if self.recurs else 0

    @property
    def slots(self) -> int:
        """Distances that each item has."""
        return int(self.items.shape[1]) - 1

    def __len__(self) -> int:
        return len(self.items)

    def path(self, image: int) -> str:
        """Give the file of an image."""
        return os.path.join(self.data.folder, self.files[image])

    def blocks(self, size: int, wanted: Mapping[str, NDArray[np.bool_]]) -> Iterator[Block]:
        """Cut the items into blocks, and give those in which something is wanted.

        Parameters
        ----------
        size : int
            Items in a block: blocks are fixed by number, whatever was measured before.
        wanted : mapping of distance to array of bool, shape (I,)
            The items that are to be measured.
        """
        for start in range(0, len(self), size):
            piece = slice(start, start + size)
            here = {name: np.flatnonzero(mask[piece]) for name, mask in wanted.items() if mask[piece].any()}
            if here:
                numbers = np.unique(np.concatenate(list(here.values())))
                images, places = np.unique(self.items[piece][numbers], return_inverse=True)
                yield Block(
                    number=start // size,
                    items=start + numbers,
                    images=[self.path(image) for image in images],
                    places=places.reshape(len(numbers), -1),
                    wanted={name: np.searchsorted(numbers, chosen) for name, chosen in here.items()},
                )

    def rows_of(self, item: int) -> IntArray:
        """Rows that have an item."""
        order, starts = self._order
        return order[starts[item] : starts[item + 1]]

    @cached_property
    def _order(self) -> tuple[IntArray, IntArray]:
        item = np.concatenate([where for where, _ in self.places.values()])
        row = np.tile(np.arange(len(self.data)), len(self.places))
        # A row of a triplet has one item twice, for d0 and for d1.
        both = np.unique(np.stack([item, row]), axis=1)
        return both[1], np.searchsorted(both[0], np.arange(len(self) + 1))


def plan(data: Dataset) -> Plan:
    """Find the distinct items of a data set.

    A triplet shares the work on its reference between its two distances: three images go through a network, not four.
    Where pairs recur in many triplets, each pair once is less work still; quadruples and single pairs are pairs anyway.

    Examples
    --------
    >>> from pathlib import Path
    >>> files = {"ref": ["a", "b"], "x0": ["c", "d"], "x1": ["e", "f"]}
    >>> table = pl.DataFrame({"triplet": ["0", "1"], **files, "n": [1, 1], "M": [2, 2]})
    >>> found = plan(Dataset("table", Path(), tuple(files), {name: table[name] for name in files}, table))
    >>> found.kind, found.items.tolist()
    ('triplets', [[0, 2, 4], [1, 3, 5]])
    """
    every = pl.concat([data.files[role].cast(pl.String) for role in data.roles])
    files = every.unique().sort()
    codes = dict(zip(data.roles, np.split(_codes(every), len(data.roles)), strict=True))
    if not len(data):
        return Plan(data, [], np.zeros((0, 2), dtype=np.int64), {})
    pairs = np.concatenate([np.stack([codes[ref], codes[x]], axis=1) for ref, x, _ in data.pairs])
    # Sorted by reference, so that a block's pairs share most of their images.
    distinct, place = _distinct(pairs)
    if data.roles == ("ref", "x0", "x1"):
        triplets, which = _distinct(np.stack(list(codes.values()), axis=1))
        if triplets.size <= distinct.size:
            return Plan(data, files.to_list(), triplets, {"d0": (which, 0), "d1": (which, 1)})
    names = [name for _, _, name in data.pairs]
    wheres = np.split(place, len(names))
    return Plan(data, files.to_list(), distinct, {name: (where, 0) for name, where in zip(names, wheres, strict=True)})


def _codes(names: pl.Series) -> IntArray:
    return np.asarray(names.rank("dense").to_numpy() - 1, dtype=np.int64)


def _distinct(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Give the distinct rows in order, and the number of each row's among them."""
    order = np.lexsort(rows.T[::-1])
    new: NDArray[Any] = np.ones(len(rows), dtype=np.int64)
    new[1:] = (np.diff(rows[order], axis=0) != 0).any(axis=1)
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return rows[order][new.astype(bool)], place

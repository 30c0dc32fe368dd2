"""The plan of a run: which items to measure, each distinct triplet of images or, if images recur, each pair, once.

The images of the items have traces: a value is used again only if its images are the same as when it was measured.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import BoolArray, IntArray, Progress
from twoafc.datasets import Dataset
from twoafc.errors import DataError
from twoafc.images import ImageError, read_bytes, trace
from twoafc.measurement.block import Block, Size, pixels_per_call

TraceArray = NDArray[np.uint64]
FILES_AT_ONCE = 250
"""Files that a thread reads before it reports progress."""

Shard = tuple[int, int]
"""(i, n): the i-th of n shares, counted from 1."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The I distinct items of a data set with T rows, and the item of each row."""

    data: Dataset
    files: list[str]  # the distinct images
    items: IntArray  # (I, 3) or (I, 2), each item's images by their numbers in `files`, the reference first
    # For d0 and d1 (pairs: d) each row's item, shape (T,), and the slot: which of the item's distances it is.
    places: Mapping[str, tuple[IntArray, int]]

    @property
    def kind(self) -> str:
        """Triplets or pairs."""
        return {3: "triplets", 2: "pairs"}[self.items.shape[1]]

    @property
    def cache(self) -> int:
        """Bytes of decoded images that each worker keeps: 0 if no image is in several items."""
        return 2**27 if len(self.files) < self.items.size else 0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of items, and of slots (distances per item)."""
        return len(self.items), int(self.items.shape[1]) - 1

    def __len__(self) -> int:
        return len(self.items)

    def path(self, image: int) -> str:
        """Return the file of an image."""
        return os.path.join(self.data.folder, self.files[image])

    def blocks(self, size: int, wanted: Mapping[str, BoolArray]) -> Iterator[Block]:
        """Yield the wanted items of each distance, masks (I,), in blocks of `size` items of the whole plan.

        So blocks are the same whatever was measured before.
        """
        for start in range(0, len(self), size):
            piece = slice(start, start + size)
            here = {name: np.flatnonzero(mask[piece]) for name, mask in wanted.items() if mask[piece].any()}
            if here:
                numbers = np.unique(np.concatenate(list(here.values())))
                wanted_here = {name: np.searchsorted(numbers, chosen) for name, chosen in here.items()}
                yield self.block(start + numbers, wanted_here)

    def block(self, items: IntArray, wanted: Mapping[str, IntArray]) -> Block:
        """Return a block of some items, in any order."""
        images, places = np.unique(self.items[items], return_inverse=True)
        return Block(items, [self.path(image) for image in images], places.reshape(len(items), -1), wanted)

    def rows_of(self, item: int) -> IntArray:
        """Return the rows that have an item."""
        order, starts = self._order
        return order[starts[item] : starts[item + 1]]

    def named(self, items: IntArray, image: int = 0) -> str:
        """Name the triplets of some items; of a single item also the image with that number, unless it is 0."""
        names = self.data.table["triplet"]
        first, last = (str(names[int(np.min(self.rows_of(int(item))))]) for item in (items[0], items[-1]))
        if len(items) > 1:
            return f"triplets {first} to {last}"
        return f"triplet {first}" + (f" ({self.files[self.items[items[0], image]]})" if image else "")

    @cached_property
    def _order(self) -> tuple[IntArray, IntArray]:
        item = np.concatenate([where for where, _ in self.places.values()])
        row = np.tile(np.arange(len(self.data)), len(self.places))
        # A row of a triplet has one item twice, for d0 and for d1.
        both = np.unique(np.stack([item, row]), axis=1)
        return both[1], np.searchsorted(both[0], np.arange(len(self) + 1))


def plan_items(data: Dataset) -> Plan:
    """Find the distinct items of a data set.

    Measuring a triplet processes its reference once for both distances. If pairs recur in many triplets, measuring each
    pair once is less work still; quadruples and single pairs are always measured as pairs.
    """
    names = pl.concat([data.files[role].cast(pl.String) for role in data.roles])
    files = names.unique().sort().to_list()
    codes = np.asarray(names.rank("dense").to_numpy() - 1, dtype=np.int64)
    by_role = dict(zip(data.roles, np.split(codes, len(data.roles)), strict=True))
    # Sorted by reference, so that a block's pairs share most of their images.
    pairs = np.concatenate([np.stack([by_role[a], by_role[b]], axis=1) for a, b, _ in data.pairs])
    pairs, place = np.unique(pairs, axis=0, return_inverse=True)
    if data.roles == ("ref", "x0", "x1"):
        triplets, where = np.unique(np.stack(list(by_role.values()), axis=1), axis=0, return_inverse=True)
        if triplets.size <= pairs.size:
            return Plan(data, files, triplets, {"d0": (where.ravel(), 0), "d1": (where.ravel(), 1)})
    places = np.split(place.ravel(), len(data.pairs))
    return Plan(data, files, pairs, {name: (at, 0) for (_, _, name), at in zip(data.pairs, places, strict=True)})


def block_size(device: str, image: Size | None) -> int:
    """Return the default number of items in a block: as many as one call takes, fewer for large images."""
    pixels = pixels_per_call(device)
    most = pixels // 2**12
    return most if image is None else min(most, max(most // 32, pixels // (image[0] * image[1])))


def in_shard(items: int, size: int, shard: Shard | None) -> BoolArray:
    """Return which items, in blocks of some size, belong to shard (i, n): every n-th block from the i-th on."""
    i, n = shard or (1, 1)
    return np.asarray(np.arange(items) // size % min(n, items) == i - 1)


class Traces:
    """The trace (64 bits of a digest) of each image file that was measured; 0 for others."""

    def __init__(self, plan: Plan, out: Path, known: TraceArray) -> None:
        self.plan, self.out = plan, out
        self.known: TraceArray = known.copy() if len(known) else np.zeros(len(plan.files), dtype=np.uint64)

    def add(self, items: IntArray, traces: TraceArray) -> None:
        """Add traces (items, images of each) of measured items; raise if a file has changed since it was measured."""
        images, new = self.plan.items[items].ravel(), traces.ravel()
        # Twice, since one image may be in several of the items.
        for _ in range(2):
            changed = (self.known[images] != 0) & (new != 0) & (self.known[images] != new)
            if changed.any():
                self._refuse(int(images[np.argmax(changed)]))
            self.known[images[new != 0]] = new[new != 0]

    def check(self, progress: Progress | None) -> None:
        """Read every measured file again, and raise if one has changed; missing files are ignored."""
        images = np.flatnonzero(self.known)
        pieces = np.split(images, range(FILES_AT_ONCE, len(images), FILES_AT_ONCE))
        done = 0
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for piece, traces in zip(pieces, pool.map(self._read, pieces), strict=True):
                changed = (traces != 0) & (traces != self.known[piece])
                if changed.any():
                    pool.shutdown(cancel_futures=True)
                    self._refuse(int(piece[np.argmax(changed)]))
                done += len(piece)
                if progress and done:
                    progress(done, len(images), "images checked")

    def _read(self, images: IntArray) -> TraceArray:
        traces = np.zeros(len(images), dtype=np.uint64)
        for place, image in enumerate(images):
            with contextlib.suppress(ImageError):
                traces[place] = trace(read_bytes(self.plan.path(image)))
        return traces

    def _refuse(self, image: int) -> None:
        remedy = f"name another table, or remove {self.out.name} and {self.out.name}.parts"
        path = os.path.normpath(self.plan.path(image))
        raise DataError(f"all values must be of the same images; {path} has changed since it was measured; {remedy}")

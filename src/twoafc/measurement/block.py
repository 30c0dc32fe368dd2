"""One block of items: its images are decoded, sorted by size, and given to the distances in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import IntArray
from twoafc.distances import Batch
from twoafc.images import ImageError, Pixels, as_float, decode, read_bytes, trace
from twoafc.measurement.calling import Size, Tools, measured


@dataclass(frozen=True, eq=False)
class Block:
    """Some items of a plan, with all that a process needs to measure them.

    Parameters
    ----------
    number : int
        Which of the plan's blocks it is.
    items : array of int, shape (K,)
        The items' numbers in the plan.
    images : list of str
        Files of the distinct images.
    places : array of int, shape (K, 3) or (K, 2)
        Each item's images: the reference, and those compared with it.
    wanted : mapping of distance to array of int
        Which of the K items each distance is to measure.
    """

    number: int
    items: IntArray
    images: list[str]
    places: IntArray
    wanted: Mapping[str, IntArray]


class Failure(NamedTuple):
    """An item that cannot be measured: its number in the block, its image's (-1: none is to blame), and why."""

    item: int
    image: int
    reason: str


class Outcome(NamedTuple):
    """What came of a block: by distance an array (number of wanted items, slots), NaN where an item has failed.

    Of each of its images the trace of the file, 0 where it could not be read; and by distance how many values were
    rounded up to 0.
    """

    values: dict[str, NDArray[np.float64]]
    failures: list[Failure]
    traces: list[int]
    rounded: dict[str, int]


class Images(Protocol):
    """Where batches come from: arrays on the CPU, tensors on another device."""

    def batch(self, images: IntArray) -> Batch:
        """Give images of one size, by their numbers in the block, as one float batch in [0, 1]."""


class Arrays:
    """Decoded images in memory."""

    def __init__(self, pixels: Sequence[Pixels | str]) -> None:
        self.pixels = pixels

    def batch(self, images: IntArray) -> NDArray[np.float32]:
        """Give images of one size as one array in [0, 1]."""
        return np.stack([as_float(self.pixels[image]) for image in images])


class Decoder:
    """Reads images, and keeps the latest, up to so many bytes."""

    def __init__(self, most: int) -> None:
        self.most, self.kept, self.bytes = most, dict[str, tuple[Pixels, int]](), 0

    def read(self, path: str) -> tuple[Pixels | str, int]:
        """Give an image's pixels, or the reason why there are none; and its file's trace, 0 where there are none."""
        if path in self.kept:
            return self.kept[path]
        try:
            content = read_bytes(path)
            found = decode(content, path), trace(content)
        except ImageError as error:
            return error.reason, 0
        self.kept[path] = found
        self.bytes += found[0].nbytes
        while self.bytes > self.most:
            self.bytes -= self.kept.pop(next(iter(self.kept)))[0].nbytes
        return found

    def read_all(self, paths: Sequence[str]) -> tuple[list[Pixels | str], list[int]]:
        """Read images, and list what `read` gives of each."""
        both = [self.read(path) for path in paths]
        return [pixels for pixels, _ in both], [found for _, found in both]


def by_size(block: Block, found: Sequence[Size | str]) -> tuple[dict[Size, IntArray], list[Failure]]:
    """Sort items by the size of their images; those without, or of several sizes, are failures.

    Parameters
    ----------
    found : sequence
        Of each image its height and width, or the reason why it cannot be read.
    """
    members: dict[Size, list[int]] = {}
    failures = []
    for item, places in enumerate(block.places.tolist()):
        sizes = [found[image] for image in places]
        broken = next((image for image in places if isinstance(found[image], str)), None)
        unlike = next((image for image, size in zip(places, sizes, strict=True) if size != sizes[0]), None)
        if broken is not None:
            failures.append(Failure(item, broken, str(found[broken])))
        elif unlike is not None:
            (a, b), (c, d) = found[unlike], sizes[0]
            failures.append(Failure(item, unlike, f"the image has {a} x {b} pixels, its reference {c} x {d}"))
        else:
            members.setdefault(sizes[0], []).append(item)
    return {size: np.array(items) for size, items in members.items()}, failures


class Read(NamedTuple):
    """What a block is measured from.

    Of each image its height and width, or the reason why it cannot be read; its file's trace; where batches come from.
    """

    found: Sequence[Size | str]
    traces: list[int]
    images: Images


def measure_block(block: Block, read: Read, tools: Tools) -> Outcome:
    """Measure what is wanted of a block.

    Parameters
    ----------
    block : Block
        The items.
    read : Read
        Its images.
    tools : Tools
        The distances, and what they may be given.
    """
    groups, failures = by_size(block, read.found)
    values = {name: np.full((len(items), block.places.shape[1] - 1), np.nan) for name, items in block.wanted.items()}
    for size, members in groups.items():
        step = max(1, tools.pixels // (size[0] * size[1]))
        for names, chosen in _together(block.wanted, members):
            for some in np.split(chosen, range(step, len(chosen), step)):
                batches = [read.images.batch(block.places[some, role]) for role in range(block.places.shape[1])]
                for name in names:
                    found = measured(name, batches, some, tools)
                    if isinstance(found, str):
                        failures += [Failure(item, -1, found) for item in some.tolist()]
                    else:
                        values[name][np.searchsorted(block.wanted[name], some)] = found
    rounded = {name: int((known < 0).sum()) for name, known in values.items()}
    return Outcome({name: np.maximum(known, 0) for name, known in values.items()}, failures, read.traces, rounded)


def _together(wanted: Mapping[str, IntArray], members: IntArray) -> Iterator[tuple[list[str], IntArray]]:
    """Group the distances that want the same of some items, so that these are made into batches once."""
    groups: dict[bytes, tuple[list[str], IntArray]] = {}
    for name, items in wanted.items():
        chosen = np.intersect1d(items, members)
        if len(chosen):
            groups.setdefault(chosen.tobytes(), ([], chosen))[0].append(name)
    yield from groups.values()

"""One block of items: its images are decoded, sorted by size, and given to the distances in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from twoafc.distances.batches import Batch, Distance
from twoafc.images import ImageError, Pixels, as_float, read_pixels

IntArray = NDArray[np.int64]
Size = tuple[int, int]


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
    """What came of a block: by distance an array (number of wanted items, slots), NaN where an item has failed."""

    values: dict[str, NDArray[np.float64]]
    failures: list[Failure]


class Images(Protocol):
    """Where batches come from: arrays on the CPU, tensors on another device."""

    def batch(self, images: IntArray) -> Batch:
        """Give images of one size, by their numbers in the block, as one float batch in [0, 1]."""


@dataclass(frozen=True, eq=False)
class Tools:
    """What a process measures with.

    Parameters
    ----------
    distances : mapping of name to callable
        All those wanted, and perhaps more.
    pixels : int
        Pixels of an image, times images, that one role of a call may have: what bounds the memory.
    proven : set of (name, (height, width))
        Sizes of images that a distance is known to take; what it raises on those is a fault.
    """

    distances: Mapping[str, Distance]
    pixels: int
    proven: set[tuple[str, Size]]


class DistanceError(Exception):
    """A distance that raised, or gave what no distance gives, with the items of the block it was given."""

    def __init__(self, told: str, items: list[int], image: int = 0) -> None:
        super().__init__(told, items, image)
        self.told, self.items, self.image = told, items, image


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
        self.most, self.kept, self.bytes = most, dict[str, Pixels](), 0

    def read(self, path: str) -> Pixels | str:
        """Give an image's pixels, or the reason why there are none."""
        if path in self.kept:
            return self.kept[path]
        try:
            pixels = read_pixels(path)
        except ImageError as error:
            return error.reason
        self.kept[path] = pixels
        self.bytes += pixels.nbytes
        while self.bytes > self.most:
            self.bytes -= self.kept.pop(next(iter(self.kept))).nbytes
        return pixels


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


def measure_block(block: Block, found: Sequence[Size | str], images: Images, tools: Tools) -> Outcome:
    """Measure what is wanted of a block.

    Parameters
    ----------
    found : sequence
        Of each image its height and width, or the reason why it cannot be read.
    images : Images
        Where batches come from.
    tools : Tools
        The distances, and what they may be given.
    """
    groups, failures = by_size(block, found)
    values = {name: np.full((len(items), block.places.shape[1] - 1), np.nan) for name, items in block.wanted.items()}
    for size, members in groups.items():
        step = max(1, tools.pixels // (size[0] * size[1]))
        for names, chosen in _together(block.wanted, members):
            for some in np.split(chosen, range(step, len(chosen), step)):
                batches = [images.batch(block.places[some, role]) for role in range(block.places.shape[1])]
                for name in names:
                    measured = _measured(name, batches, some, tools)
                    if isinstance(measured, str):
                        failures += [Failure(item, -1, measured) for item in some.tolist()]
                    else:
                        values[name][np.searchsorted(block.wanted[name], some)] = measured
    return Outcome(values, failures)


def _together(wanted: Mapping[str, IntArray], members: IntArray) -> Iterator[tuple[list[str], IntArray]]:
    """Group the distances that want the same of some items, so that these are made into batches once."""
    groups: dict[bytes, tuple[list[str], IntArray]] = {}
    for name, items in wanted.items():
        chosen = np.intersect1d(items, members)
        if len(chosen):
            groups.setdefault(chosen.tobytes(), ([], chosen))[0].append(name)
    yield from groups.values()


def _measured(name: str, batches: list[Batch], items: IntArray, tools: Tools) -> NDArray[np.float64] | str:
    """Give a batch's distances, shape (B, slots), or the reason why the distance cannot take images of that size."""
    distance, size = tools.distances[name], (name, tuple(batches[0].shape[2:]))
    try:
        found = call(distance, batches)
    except Exception as error:
        reason = None if size in tools.proven else cannot_take(name, distance, [batch[:1] * 0 for batch in batches])
        if reason:
            return reason
        blamed = _blamed(distance, batches, items)
        raise DistanceError(f"{name} raised {type(error).__name__}: {_first_line(error)}", blamed) from error
    tools.proven.add(size)
    for number, values in enumerate(found, start=1):
        if values.shape != (len(items),):
            told = f"{name} gave shape {values.shape} for a batch of {len(items)}"
            raise DistanceError(f"a distance gives one number for each pair; {told}", items.tolist())
        wrong = ~(np.isfinite(values) & (values >= 0))
        if wrong.any():
            at = int(np.argmax(wrong))
            told = f"a distance must be finite and at least 0; {name} gave {values[at]:g}"
            raise DistanceError(told, [int(items[at])], number)
    return np.stack(found, axis=1)


def call(distance: Distance, batches: list[Batch]) -> list[NDArray[np.float64]]:
    """Give the distances of the first batch to each of the others, as numpy arrays."""
    ref, *others = batches
    if len(others) == 2 and hasattr(distance, "triplet"):
        found: Sequence[Any] = distance.triplet(ref, *others)
    else:
        found = [distance(ref, x) for x in others]
    return [np.asarray(each.detach().cpu() if hasattr(each, "detach") else each, dtype=np.float64) for each in found]


def cannot_take(name: str, distance: Distance, batches: list[Batch]) -> str | None:
    """Say why a distance cannot take images of some size, tried on black ones; None if it can."""
    try:
        call(distance, batches)
    except Exception as error:
        height, width = batches[0].shape[2:]
        return f"{name} cannot measure images of {height} x {width} pixels ({_first_line(error)})"
    return None


def _blamed(distance: Distance, batches: list[Batch], items: IntArray) -> list[int]:
    """Find the item on which a distance raises; all of them where it takes each by itself."""
    for place, item in enumerate(items.tolist()):
        try:
            call(distance, [batch[place : place + 1] for batch in batches])
        except Exception:
            return [item]
    return [int(item) for item in items]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).split("\n")[0]

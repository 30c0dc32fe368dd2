"""Measure one block: decode its images, group its items by image size, and call the distances on batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.distances import Batch, Distance, as_array
from twoafc.errors import first_line
from twoafc.images import ImageError, Pixels, as_float, decode, read_bytes, trace

Size = tuple[int, int]
"""Height and width of an image."""
Proven = frozenset[tuple[str, Size]]
"""Pairs of a distance's name and a size of images that the distance is known to take."""

NEGLIGIBLE, ROUNDING = 1e-6, 1e-4
"""Negative values down to -NEGLIGIBLE, or to this share of the median value (as in `twoafc.check_distance`), are
rounding errors, as of 1 - similarity in single precision: they count as 0."""
WRONG_SHAPE = "a distance gives one value for each image"
"""How `twoafc.distances.Own` begins its error for a result of the wrong shape."""


@dataclass(frozen=True, eq=False)
class Block:
    """K items of a plan, with all that a process needs to measure them."""

    items: IntArray  # (K,), the items' numbers in the plan
    images: list[str]  # the files of the distinct images
    places: IntArray  # (K, 3) or (K, 2), each item's images by their numbers in `images`, the reference first
    wanted: Mapping[str, IntArray]  # by distance, which of the K items to measure


class BlockFailure(NamedTuple):
    """An item that cannot be measured."""

    item: int  # its number in the block
    image: int  # the number of its faulty image, or -1
    reason: str


class Outcome(NamedTuple):
    """The result of a block."""

    values: dict[str, FloatArray]  # by distance (wanted items, slots), or (..., channels); NaN where an item failed
    failures: list[BlockFailure]
    traces: list[int]  # of each image's file, 0 if it could not be read
    rounded: dict[str, int]  # by distance, the number of values rounded up to 0


class DistanceError(Exception):
    """A distance raised an error or returned an invalid value; with the items of the block that it was given."""

    def __init__(self, message: str, items: list[int], image: int = 0) -> None:
        super().__init__(message, items, image)  # all three, so that the error can be pickled
        self.message, self.items, self.image = message, items, image


class BlockError(Exception):
    """An error with the block that a worker had, or None if the worker could not start."""

    def __init__(self, block: Block | None, error: Exception) -> None:
        super().__init__(block, error)
        self.block, self.error = block, error


# --- images -----------------------------------------------------------------------------------------------------------


class Decoded(NamedTuple):
    """The decoded images of a block."""

    sizes: list[Size | str]  # of each image, or the reason why it cannot be read
    traces: list[int]
    rows: IntArray  # of each image, its place among those of its size
    stacks: dict[Size | str, Any]  # by size, pixels (N, 3, H, W): arrays, or tensors on a device

    def on(self, device: str) -> Decoded:
        """Copy the pixels to a device; on the CPU they stay arrays."""
        if device == "cpu":
            return self
        return self._replace(stacks={size: _on_device(pixels, device) for size, pixels in self.stacks.items()})

    def batch(self, images: IntArray) -> Batch:
        """Return images of one size, by their numbers in the block, as one float batch in [0, 1]."""
        stack, rows = self.stacks[self.sizes[images[0]]], self.rows[images]
        if isinstance(stack, np.ndarray):
            return as_float(stack[rows])
        import torch

        return stack[torch.from_numpy(rows).to(stack.device)]


class Decoder:
    """Decodes images, and caches the latest, up to a number of bytes."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.cache, self.bytes = capacity, dict[str, tuple[Pixels, int]](), 0

    def read(self, path: str) -> tuple[Pixels | str, int]:
        """Return an image's pixels and its file's trace; if it cannot be read, the reason and 0."""
        if path in self.cache:
            return self.cache[path]
        try:
            content = read_bytes(path)
            entry = decode(content, path), trace(content)
        except ImageError as error:
            return error.reason, 0
        self.cache[path] = entry
        self.bytes += entry[0].nbytes
        while self.bytes > self.capacity:
            self.bytes -= self.cache.pop(next(iter(self.cache)))[0].nbytes
        return entry

    def read_all(self, paths: Sequence[str]) -> Decoded:
        """Decode the images of a block."""
        read = [self.read(path) for path in paths]
        sizes = [pixels if isinstance(pixels, str) else (pixels.shape[1], pixels.shape[2]) for pixels, _ in read]
        rows = np.zeros(len(paths), dtype=np.int64)
        by_size: dict[Size | str, list[Pixels]] = {}
        for number, (pixels, _) in enumerate(read):
            if not isinstance(pixels, str):
                alike = by_size.setdefault(sizes[number], [])
                rows[number] = len(alike)
                alike.append(pixels)
        stacks = {size: _stacked(alike) for size, alike in by_size.items()}
        return Decoded(sizes, [file_trace for _, file_trace in read], rows, stacks)


def _stacked(images: Sequence[Pixels]) -> Pixels:
    """Stack images of one size; if some have 16 bits, 8 bits become 16, which changes no value in [0, 1]."""
    if len({image.dtype for image in images}) > 1:
        images = [image if image.dtype == np.uint16 else image.astype(np.uint16) * np.uint16(257) for image in images]
    stack: Pixels = np.stack(images)  # type: ignore[assignment]
    return stack


def _on_device(pixels: Pixels, device: str) -> Any:
    """Copy pixels to a device as bytes, and scale them there."""
    import torch

    if pixels.dtype != np.uint8:
        return torch.from_numpy(as_float(pixels)).to(device)
    # A tensor, because a GPU divides by a Python number by multiplying with its rounded inverse.
    largest = torch.tensor([255.0], device=device)
    return torch.from_numpy(pixels).to(device).to(torch.float32).div_(largest)


# --- distances --------------------------------------------------------------------------------------------------------


class Measurer:
    """Measures blocks in one process; on image sizes that are `proven` an error is a fault of the distance."""

    def __init__(self, distances: Mapping[str, Distance], device: str, proven: Proven = frozenset()) -> None:
        self.distances, self.proven = distances, set(proven)
        self.pixels = pixels_per_call(device)

    def measure(self, block: Block, decoded: Decoded) -> Outcome:
        """Measure a block; raise `DistanceError` if a distance fails."""
        groups, failures = items_by_size(block, decoded.sizes)
        slots = block.places.shape[1] - 1
        shapes = {name: (len(items), slots, *self.width(name)) for name, items in block.wanted.items()}
        values = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        for name, items, batches in self._calls(block, decoded, groups):
            result = self._values(name, batches, items)
            if isinstance(result, str):
                failures += [BlockFailure(item, -1, result) for item in items.tolist()]
            else:
                values[name][np.searchsorted(block.wanted[name], items)] = result
        rounded = {name: int((known < 0).sum()) for name, known in values.items()}
        return Outcome({name: np.maximum(d, 0) for name, d in values.items()}, failures, decoded.traces, rounded)

    def _calls(
        self, block: Block, decoded: Decoded, groups: Mapping[Size, IntArray]
    ) -> Iterator[tuple[str, IntArray, list[Batch]]]:
        """Yield distances with the items and images of one call; distances share the batches."""
        for (height, width), members in groups.items():
            step = max(1, self.pixels // (height * width))
            for items in np.split(members, range(step, len(members), step)):
                batches = [decoded.batch(images) for images in block.places[items].T]
                for name, wanted in block.wanted.items():
                    here = np.isin(items, wanted)
                    if here.any():
                        yield name, items[here], batches if here.all() else [batch[here] for batch in batches]

    def width(self, name: str) -> tuple[int, ...]:
        """Return the shape of a distance's result for one pair: empty, or the number of channels."""
        return getattr(self.distances[name], "width", ())

    def _values(self, name: str, batches: list[Batch], items: IntArray) -> FloatArray | str:
        """Return a batch's distances (B, slots), or the reason why the distance does not accept its image size."""
        distance, size = self.distances[name], (name, (int(batches[0].shape[2]), int(batches[0].shape[3])))
        try:
            results = _call(distance, batches)
        except Exception as error:
            message = first_line(error)
            if message.startswith(WRONG_SHAPE):
                raise DistanceError(message, items.tolist()) from error
            black = [batch[:1] * 0 for batch in batches]
            reason = None if size in self.proven else cannot_take(name, distance, black)
            if reason and self._still_works(name, black):
                return reason
            message = f"{name} raised {type(error).__name__}: {message}"
            raise DistanceError(message, _culprits(distance, batches, items)) from error
        self.proven.add(size)
        for image, values in enumerate(results, start=1):
            _check_values(name, values, items, image, self.width(name))
        return np.stack(results, axis=1)

    def _still_works(self, name: str, black: list[Batch]) -> bool:
        """Whether a distance still accepts a size that it has accepted before; if not, the distance is broken."""
        known = next((size for other, size in self.proven if other == name), None)
        if known is None:
            return True
        again = [batch[:, :, [0] * known[0]][..., [0] * known[1]] for batch in black]  # arrays and tensors alike
        return cannot_take(name, self.distances[name], again) is None


def pixels_per_call(device: str) -> int:
    """Return the largest number of pixels of one role in a call, which limits memory."""
    return 2**19 if device == "cpu" else 2**23


def items_by_size(block: Block, sizes: Sequence[Size | str]) -> tuple[dict[Size, IntArray], list[BlockFailure]]:
    """Group items by the size of their images; items with an unreadable image or with several sizes are failures."""
    members: dict[Size, list[int]] = {}
    failures = []
    for item, places in enumerate(block.places.tolist()):
        reference = sizes[places[0]]
        unreadable = next((image for image in places if isinstance(sizes[image], str)), None)
        unlike = next((image for image in places if sizes[image] != reference), None)
        if unreadable is not None:
            failures.append(BlockFailure(item, unreadable, str(sizes[unreadable])))
        elif unlike is not None:
            (a, b), (c, d) = sizes[unlike], reference
            failures.append(BlockFailure(item, unlike, f"the image has {a} x {b} pixels, its reference {c} x {d}"))
        elif not isinstance(reference, str):
            members.setdefault(reference, []).append(item)
    return {size: np.array(items) for size, items in members.items()}, failures


def cannot_take(name: str, distance: Distance, batches: list[Batch]) -> str | None:
    """Call a distance on black images of some size; return why it does not accept them, or None."""
    try:
        _call(distance, batches)
    except Exception as error:
        height, width = batches[0].shape[2:]
        # The message of a ValueError is a sentence; other messages may mean nothing without the error's name.
        kind = "" if isinstance(error, ValueError) and str(error) else f"{type(error).__name__}: "
        return f"{name} cannot measure images of {height} x {width} pixels ({kind}{first_line(error)})"
    return None


def _call(distance: Distance, batches: list[Batch]) -> list[FloatArray]:
    """Return the distances of the first batch to each of the others, as arrays."""
    ref, *others = batches
    if len(others) == 2 and hasattr(distance, "triplet"):
        results: Sequence[Any] = distance.triplet(ref, *others)
    else:
        results = [distance(ref, x) for x in others]
    return [as_array(d).astype(np.float64) for d in results]


def _check_values(name: str, values: FloatArray, items: IntArray, image: int, width: tuple[int, ...] = ()) -> None:
    """Raise if the shape is wrong, or a value is not finite or below 0 by more than rounding."""
    if values.shape != (len(items), *width):
        message = f"{name} gave shape {values.shape} for a batch of {len(items)}"
        raise DistanceError(f"a distance gives one number for each pair; {message}", items.tolist())
    finite = np.isfinite(values)
    median = float(np.median(abs(values[finite]))) if finite.any() else 0.0
    wrong = ~(finite & (values >= -max(NEGLIGIBLE, ROUNDING * median)))
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), values.shape)
        hint = " (if that is rounding, clip it at 0)" if -100 * ROUNDING * median <= values[at] < 0 else ""
        message = f"a distance must be finite and at least 0; {name} gave {values[at]:g}{hint}"
        raise DistanceError(message, [int(items[at[0]])], image)


def most_unlike(first: FloatArray, again: FloatArray, tolerance: float) -> int | None:
    """Return where two measurements of the same images differ most; None if by no more than a tolerance."""
    change = abs(first - again)
    at = int(change.argmax())
    return at if change[at] > tolerance else None


def _culprits(distance: Distance, batches: list[Batch], items: IntArray) -> list[int]:
    """Return the first item on which a distance raises; all items if it raises on none of them alone."""
    for place, item in enumerate(items.tolist()):
        try:
            _call(distance, [batch[place : place + 1] for batch in batches])
        except Exception:
            return [item]
    return [int(item) for item in items]

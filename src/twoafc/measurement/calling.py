"""One call of a distance on a batch: what it gives, what it cannot take, and what no distance gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import IntArray
from twoafc.distances import Batch, Distance

Size = tuple[int, int]
LEAST, ROUNDING = 1e-6, 1e-4
"""Below 0 by no more than this, or than this share of the usual value (as for `twoafc.check_distance`), is rounding, as
of 1 - similarity in single precision: it counts as 0."""
SHAPE = "a distance gives one value for each image"
"""How it begins what `twoafc.distances.Own` says of a wrong result."""


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


def room(device: str) -> int:
    """Pixels that one role of a call may have: 128 images of 64 x 64 on a processor, 2048 on a GPU.

    Examples
    --------
    >>> room("cpu") // 64**2, room("cuda") // 64**2
    (128, 2048)
    """
    return 2**19 if device == "cpu" else 2**23


class DistanceError(Exception):
    """A distance that raised, or gave what no distance gives, with the items of the block it was given."""

    def __init__(self, told: str, items: list[int], image: int = 0) -> None:
        super().__init__(told, items, image)
        self.told, self.items, self.image = told, items, image


def measured(name: str, batches: list[Batch], items: IntArray, tools: Tools) -> NDArray[np.float64] | str:
    """Give a batch's distances, shape (B, slots), or the reason why the distance cannot take images of that size."""
    distance, size = tools.distances[name], (name, tuple(batches[0].shape[2:]))
    try:
        found = call(distance, batches)
    except Exception as error:
        told = _first_line(error)
        if told.startswith(SHAPE):
            raise DistanceError(told, items.tolist()) from error
        reason = None if size in tools.proven else cannot_take(name, distance, [batch[:1] * 0 for batch in batches])
        if reason and _takes_others(name, batches, tools):
            return reason
        blamed = _blamed(distance, batches, items)
        raise DistanceError(f"{name} raised {type(error).__name__}: {told}", blamed) from error
    tools.proven.add(size)
    for number, values in enumerate(found, start=1):
        if values.shape != (len(items),):
            told = f"{name} gave shape {values.shape} for a batch of {len(items)}"
            raise DistanceError(f"a distance gives one number for each pair; {told}", items.tolist())
        _check(name, values, items, number)
    return np.stack(found, axis=1)


def _check(name: str, values: NDArray[np.float64], items: IntArray, number: int) -> None:
    """Refuse what no distance gives: what is not finite, or below 0 by more than rounding."""
    finite = np.isfinite(values)
    usual = float(np.median(abs(values[finite]))) if finite.any() else 0.0
    wrong = ~(finite & (values >= -max(LEAST, ROUNDING * usual)))
    if wrong.any():
        at = int(np.argmax(wrong))
        hint = " (if that is rounding, clip it at 0)" if -100 * ROUNDING * usual <= values[at] < 0 else ""
        told = f"a distance must be finite and at least 0; {name} gave {values[at]:g}{hint}"
        raise DistanceError(told, [int(items[at])], number)


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


def _takes_others(name: str, batches: list[Batch], tools: Tools) -> bool:
    """Tell whether a distance still takes a size that it has taken; one that no longer does is broken, not unsuited."""
    known = next((size for other, size in tools.proven if other == name), None)
    if known is None:
        return True
    dot = batches[0][:1, :, :1, :1] * 0  # of the kind of the batches, and on their device
    black = np.tile(dot, (1, 1, *known)) if isinstance(dot, np.ndarray) else dot.repeat(1, 1, *known)
    return cannot_take(name, tools.distances[name], [black] * len(batches)) is None


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

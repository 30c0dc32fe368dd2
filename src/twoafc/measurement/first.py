"""The first item that can be read, measured before all others: what a distance cannot do is best known at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twoafc.distances import DISTANCES
from twoafc.images import ImageError, pixel_size
from twoafc.measurement.block import Arrays, Block, Decoder, Images, Read, measure_block
from twoafc.measurement.calling import DistanceError, Size, Tools, cannot_take
from twoafc.measurement.candidates import Candidate
from twoafc.measurement.plan import Plan
from twoafc.measurement.transport import Tensors, pack

MOST_TRIED = 1000


@dataclass(frozen=True)
class First:
    """The size of the first item's images, and the distances known to take it."""

    size: Size
    proven: frozenset[tuple[str, Size]]


def try_first(plan: Plan, chosen: Sequence[Candidate], device: str) -> First | None:
    """Measure the first item that can be read, and where a distance cannot take its size, the first of another size.

    None where none of the first thousand can be read; a distance that no size in the data suits is refused.
    """
    first: Size | None = None
    left, tried, proven = list(chosen), set[Size](), set[tuple[str, Size]]()
    refused: dict[str, tuple[str, Size]] = {}
    for item in range(len(plan)):
        if not left or (first is None and item == MOST_TRIED):
            break
        size = _size(plan, item)
        read = _read(plan, item, device) if size and size not in tried else None
        if size is None or read is None:
            continue
        first = first or size
        tried.add(size)
        for each in left:
            small = _too_small(each, size)
            reason = small or (None if hasattr(each.distance, "least") else _reason(each, plan, item, read))
            if reason:
                refused.setdefault(each.name, (reason, size))
            else:
                proven.add((each.name, size))
        left = [each for each in left if (each.name, size) not in proven]
    if first is None:
        return None
    if left:
        reason, size = refused[left[0].name]
        raise ValueError(reason + _hint(left[0].name, size))
    return First(first, frozenset(proven))


def _paths(plan: Plan, item: int) -> list[str]:
    return [plan.path(image) for image in plan.items[item]]


def _size(plan: Plan, item: int) -> Size | None:
    """Give the size of an item's images, as their headers tell it; None where they tell none, or several."""
    try:
        sizes = {pixel_size(path) for path in _paths(plan, item)}
    except ImageError:
        return None
    return sizes.pop() if len(sizes) == 1 else None


def _read(plan: Plan, item: int, device: str) -> Read | None:
    pixels, traces = Decoder(0).read_all(_paths(plan, item))
    if any(isinstance(each, str) for each in pixels):
        return None
    decoded = pack(pixels, traces, None)
    images: Images = Arrays(pixels) if device == "cpu" else Tensors(decoded, None, device)
    return Read(decoded.found, traces, images)


def _reason(candidate: Candidate, plan: Plan, item: int, read: Read) -> str | None:
    """Say why a distance cannot take an item's size; what else it does wrong is raised."""
    paths = _paths(plan, item)
    wanted = {candidate.name: np.array([0])}
    block = Block(0, np.array([item]), paths, np.arange(len(paths))[None], wanted)
    try:
        outcome = measure_block(block, read, Tools({candidate.name: candidate.distance}, 1, set()))
    except DistanceError as error:
        raise ValueError(f"{error.told}, on {' and '.join(paths)}") from error
    return next((failure.reason for failure in outcome.failures), None)


def _too_small(candidate: Candidate, size: Size) -> str | None:
    """Hold a size to what a network needs, which it says without being run."""
    least: int = getattr(candidate.distance, "least", 0)
    height, width = size
    if min(size) >= least:
        return None
    return (
        f"{candidate.name} cannot measure images of {height} x {width} pixels (at least {least} x {least} are needed)"
    )


def _hint(name: str, size: Size) -> str:
    """Name the variants of a distance that can."""
    black = [np.zeros((1, 3, *size), dtype=np.float32)] * 2
    variants = [other for other in DISTANCES if other.startswith(name) and other != name]
    able = [other for other in variants if cannot_take(other, DISTANCES[other], black) is None]
    return f"; {', '.join(able)} can" if able else ""

"""The first item that can be read, measured before all others: what a distance cannot do is best known at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twoafc.distances import DISTANCES
from twoafc.measurement.block import (
    Arrays,
    Block,
    Decoder,
    DistanceError,
    Images,
    Size,
    Tools,
    cannot_take,
    measure_block,
)
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
    """Measure the first item that can be read; None where none of the first thousand can."""
    decoder = Decoder(0)
    for item in range(min(len(plan), MOST_TRIED)):
        paths = [plan.path(image) for image in plan.items[item]]
        pixels: list[Any] = [decoder.read(path) for path in paths]
        if not any(isinstance(each, str) for each in pixels) and len({each.shape for each in pixels}) == 1:
            break
    else:
        return None
    size: Size = pixels[0].shape[1:]
    images: Images = Arrays(pixels) if device == "cpu" else Tensors(pack(pixels, None), None, device)
    block = Block(0, np.array([item]), paths, np.arange(len(paths))[None], {})
    for each in chosen:
        measured = _too_small if hasattr(each.distance, "least") else _measured
        reason = measured(each, replace(block, wanted={each.name: np.array([0])}), size, images)
        if reason:
            raise ValueError(reason + _hint(each.name, size))
    return First(size, frozenset((each.name, size) for each in chosen))


def _measured(candidate: Candidate, block: Block, size: Size, images: Images) -> str | None:
    tools = Tools({candidate.name: candidate.distance}, 1, set())
    try:
        outcome = measure_block(block, [size] * len(block.images), images, tools)
    except DistanceError as error:
        return f"{error.told}, on {' and '.join(block.images)}"
    return next((failure.reason for failure in outcome.failures), None)


def _too_small(candidate: Candidate, block: Block, size: Size, images: Images) -> str | None:
    """Hold a size to what a network needs, which it says without being run."""
    least: int = candidate.distance.least  # type: ignore[attr-defined]
    if min(size) >= least:
        return None
    height, width = size
    return (
        f"{candidate.name} cannot measure images of {height} x {width} pixels (at least {least} x {least} are needed)"
    )


def _hint(name: str, size: Size) -> str:
    """Name the variants of a distance that can."""
    black = [np.zeros((1, 3, *size), dtype=np.float32)] * 2
    variants = [other for other in DISTANCES if other.startswith(name) and other != name]
    able = [other for other in variants if cannot_take(other, DISTANCES[other], black) is None]
    return f"; {', '.join(able)} can" if able else ""

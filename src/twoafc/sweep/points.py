"""The settings that a sweep tries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from numbers import Real
from typing import Literal, NamedTuple

import numpy as np

from twoafc.estimators import Density

Parameter = Literal["sigma", "grid_size"]

PAPER = Density()
"""The paper's settings: sigma = 1/44 on 20 nodes."""
SIGMAS: tuple[float, ...] = tuple(float(f"{each:.2g}") for each in np.geomspace(0.0037, 1, 16))
GRID_SIZES = (5, 7, 10, 14, 20, 28, 40, 55, 75, 100)
"""What is swept where nothing else is asked for: the paper's ranges."""
MOST_NODES = 1000
"""Nodes along an axis, at most: memory goes with their square, and 1000 take some 160 MB for each setting at work."""


class Point(NamedTuple):
    """One setting, on the line of the parameter that moves."""

    parameter: Parameter
    settings: Density

    @property
    def value(self) -> float:
        """Value of the parameter that moves."""
        return float(getattr(self.settings, self.parameter))


def nodes_for(sigma: float) -> int:
    """Nodes along an axis that the automatic rule of `Density` gives a kernel of this width.

    Examples
    --------
    >>> nodes_for(1 / 44), nodes_for(0.5)
    (66, 20)
    """
    return max(PAPER.grid_size, ceil(1.5 / sigma))


def points(sigmas: Sequence[float] | None, grid_sizes: Sequence[int] | None, held: Density) -> list[Point]:
    """List the settings to try for every distance, in order; the paper's are among them, so that they can be marked."""
    widths = SIGMAS if sigmas is None else tuple(sigmas)
    sizes = GRID_SIZES if grid_sizes is None else tuple(grid_sizes)
    if not widths and not sizes:
        raise ValueError("there is nothing to sweep; give sigmas, grid sizes, or both")
    wrong = next((each for each in widths if not isinstance(each, Real)), None)
    if wrong is not None:
        raise ValueError(f"sigmas to sweep must be numbers; found {wrong!r}")
    large = next((each for each in (held.grid_size, *sizes) if each > MOST_NODES), None)
    if large is not None:
        raise ValueError(
            f"grid sizes to sweep must be at most {MOST_NODES}, since memory goes with their square; found {large}"
        )
    if widths:
        widths = (*widths, float(PAPER.sigma))
    if sizes:
        nodes = nodes_for(float(held.sigma))
        sizes = (*sizes, PAPER.grid_size, *((nodes,) if nodes <= max(sizes) else ()))
    moved = [Point("sigma", replace(held, sigma=float(each))) for each in widths]
    moved += [Point("grid_size", replace(held, grid_size=each)) for each in sizes]
    return in_order(moved)


def in_order(some: Sequence[Point]) -> list[Point]:
    """Put points in the order of their lines and values, each once."""
    return sorted(dict.fromkeys(some), key=lambda point: (point.parameter != "sigma", point.value))

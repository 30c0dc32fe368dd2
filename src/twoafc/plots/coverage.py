"""Where on the plane the data lie: cells without triplets, and lines of equal density."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

TIMES = {0.5: (0, (1, 1.2)), 2.0: (0, (4, 1.5))}
"""Lines of equal density, times that of an even spread over the plane, and their dashes. Even data have no lines."""
INK = "0.55"
"""A grey that shows on white as on the darkest colours of a surface."""
WIDTH = 0.05
"""Density is smoothed over this much of an axis for its lines, or they would follow the noise of the counts."""


def coverage(density: FloatArray, ax: Axes) -> Axes:
    """Hatch the cells that hold no triplet; draw lines at half (dots) and twice (dashes) the density of an even spread.

    Parameters
    ----------
    density : array, shape (G, G)
        Triplets in each cell of [0, 1]^2; row i has u0 from i / G to (i + 1) / G, column j the same of u1.
    """
    from matplotlib.patches import PathPatch

    density = np.asarray(density, dtype=np.float64)
    empty = density == 0
    if empty.any():
        hatched = PathPatch(rectangles(empty), facecolor="none", edgecolor=INK, hatch="//////", linewidth=0)
        ax.add_patch(hatched)
    if empty.all():
        return ax
    middles = (np.arange(len(density)) + 0.5) / len(density)
    even = _smoothed(density, middles) / density.mean()
    levels = [level for level in TIMES if even.min() < level < even.max()]
    if levels:
        dashes = [TIMES[level] for level in levels]
        ax.contour(middles, middles, even.T, levels=levels, colors=INK, linewidths=0.8, linestyles=dashes)
    return ax


def rectangles(cells: NDArray[np.bool_]) -> Path:
    """Outline the chosen cells of [0, 1]^2, each run of them along d1 as one rectangle, so that few are drawn."""
    from matplotlib.path import Path

    steps = np.diff(np.pad(cells, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (row, start), (_, end) = np.nonzero(steps == 1), np.nonzero(steps == -1)
    x, y = (np.stack(edges, axis=1) / len(cells) for edges in ((row, row + 1), (start, end)))
    corners = np.stack([x[:, [0, 1, 1, 0, 0]], y[:, [0, 0, 1, 1, 0]]], axis=2).reshape(-1, 2)
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(row))
    return Path(corners, codes)


def _smoothed(density: FloatArray, middles: FloatArray) -> FloatArray:
    """Average each cell with those around it, by a Gaussian that counts only what lies on the plane."""
    kernel = np.exp(-((middles[:, None] - middles) ** 2) / (2 * WIDTH**2))
    kernel /= kernel.sum(axis=1, keepdims=True)
    return np.asarray(kernel @ density @ kernel.T)

"""P over the plane of the two distances, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.plots.coverage import coverage
from twoafc.plots.panels import side_by_side
from twoafc.plots.style import COLOURS, LEAST, picture, plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = {0.25: (0.35, 0.65), 0.5: (0.75, 0.75), 0.75: (0.65, 0.35)}
"""Contours of P, and near where they bear their numbers, by which they are told apart in print without colour."""
GUESS = 12**-0.5
"""Standard error of a P that is anything between 0 and 1: the end of the scale, the same in every figure."""
ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Contours of the standard error."""
VALLEY = 0.1
"""Contours of the standard error end this far from the diagonal: it falls to 0 there, and they would crowd."""
SPECK, MARGIN = 0.2, 0.08
"""Contours smaller than this are left out; numbers stand no nearer to an edge."""


def surface(P: FloatArray, ax: Axes, *, density: FloatArray | None = None) -> Axes:
    """Draw P over the plane of uniformised distances, with the contour P = 1/2.

    Parameters
    ----------
    P : array, shape (K, K)
        Row i has u0 = i / (K - 1), column j has u1 = j / (K - 1).
    density : array, shape (G, G), optional
        Triplets in each cell of [0, 1]^2, row by row along u0. Cells with none are hatched; dots mark half, and
        dashes twice, the density of an even spread.
    """
    picture(P, ax, cmap=COLOURS, vmin=0, vmax=1)
    nodes = np.linspace(0, 1, len(P))
    levels = [level for level in LEVELS if P.min() < level < P.max()]
    if levels:
        widths = [1.0 if level == 0.5 else 0.5 for level in levels]
        lines = ax.contour(nodes, nodes, P.T, levels=levels, colors="black", linewidths=widths)
        for level in levels:
            number, at = f"{level:g}", [LEVELS[level]]
            ax.clabel(lines, levels=[level], fmt=number, fontsize=LEAST, inline_spacing=2, manual=at)
    if density is not None:
        coverage(density, ax)
    return plane(ax)


def surfaces(
    named: Mapping[str, FloatArray], *, across: int = 4, density: Mapping[str, FloatArray] | None = None
) -> Figure | None:
    """Draw several surfaces side by side under their names, so many across, with one colour bar; None of none."""
    known = density or {}
    both = {name: (P, known.get(name)) for name, P in named.items()}
    return side_by_side(both, lambda each, ax: surface(each[0], ax, density=each[1]), "P, chance of x₁", across=across)


def standard_error(se: FloatArray, ax: Axes) -> Axes:
    """Draw the standard error of P over the plane of uniformised distances, with contours that bear their numbers.

    The scale goes from 0 to that of a P of which nothing is known, 0.29, in every figure, so that figures compare; it
    widens towards 0, where differences count.

    Parameters
    ----------
    se : array, shape (K, K)
        Row i has u0 = i / (K - 1), column j has u1 = j / (K - 1); NaN, grey in the figure, where it is not known.
    """
    from matplotlib.colors import PowerNorm

    most = float(np.nanmax(se, initial=GUESS))
    picture(se, ax, cmap="Purples", norm=PowerNorm(0.5, vmin=0, vmax=most))
    for place, level in enumerate(ERRORS, start=1):
        _contour(se, level, ax, number_at=place / (len(ERRORS) + 1))
    return plane(ax)


def standard_errors(named: Mapping[str, FloatArray], *, across: int = 4) -> Figure | None:
    """Draw several standard errors side by side under their names, with one colour bar; None of none."""
    return side_by_side(named, standard_error, "standard error of P", across=across)


def _contour(se: FloatArray, level: float, ax: Axes, *, number_at: float) -> None:
    """Draw the lines of one level that are long enough to be read, and its number so far along the longest of them."""
    from matplotlib.collections import LineCollection

    nodes = np.linspace(0, 1, len(se))
    near = abs(nodes[:, None] - nodes) < VALLEY
    shown = np.ma.masked_invalid(np.where(near, np.nan, se))
    if not (shown.count() and shown.min() < level < shown.max()):
        return
    found = ax.contour(nodes, nodes, shown.T, levels=[level])
    lines = sorted((line for line in found.allsegs[0] if len(line) and np.ptp(line, axis=0).max() > SPECK), key=len)
    found.remove()
    ax.add_collection(LineCollection(lines, colors="black", linewidths=0.5))
    inside = [line[((line > MARGIN) & (line < 1 - MARGIN)).all(axis=1)] for line in lines[-1:]]
    for line in filter(len, inside):
        x, y = line[int(number_at * len(line))]
        behind = {"facecolor": "white", "linewidth": 0, "pad": 0.6}
        ax.text(x, y, f"{level:g}", fontsize=LEAST, ha="center", va="center", bbox=behind)

"""Figures of studies: how large, which triplets, and the difference as votes come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twoafc.arrays import BoolArray, FloatArray
from twoafc.plots.style import DARK, LIGHT, MARK, SMALL, tidy, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POWERS = (0.5, 0.8, 0.9, 0.95)
"""Contours of power."""
MOST_POINTS = 20_000
"""Triplets of a pool that are drawn, at most."""


def study_contour(
    T: FloatArray,
    M: FloatArray,
    values: FloatArray,
    ax: Axes,
    *,
    label: str,
    level: float,
    cost: FloatArray,
    cost_label: str = "votes",
    best: tuple[int, int] | None = None,
) -> Axes:
    """Draw power, or a standard error, over the number of triplets and the votes on each, with lines of equal cost.

    Parameters
    ----------
    T, M : arrays, shapes (I,) and (J,)
        Triplets, and votes on each.
    values, cost : arrays, shape (I, J)
    label, level : str, float
        Name of the values, and the requested one: a thick line.
    cost_label : str
        What the dashed lines count.
    best : (T, M), optional
        The chosen study, a diamond.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_xscale("log")
    levels = sorted({*POWERS, level}) if label == "power" else sorted(level * np.array([0.5, 0.7, 1.0, 1.4, 2.0]))
    inside = [contour for contour in levels if values.min() < contour < values.max()]
    if inside:
        widths = [1.8 if contour == level else 0.8 for contour in inside]
        lines = ax.contour(T, M, values.T, levels=inside, colors=DARK, linewidths=widths)
        ax.clabel(lines, fmt=lambda value: f"{value:.2g}", fontsize=SMALL, inline_spacing=2)
    steps = np.geomspace(cost.min(), cost.max(), 7)[1:-1]
    rounded = sorted({float(f"{step:.1g}") for step in steps})
    equal = ax.contour(T, M, cost.T, levels=rounded, colors=MARK, linewidths=0.7, linestyles=[(0, (4, 2))])
    ax.clabel(equal, fmt=lambda value: f"{value:,.0f}", fontsize=SMALL, inline_spacing=2)
    if best is not None:
        ax.plot(*best, "D", color=DARK, markersize=5, clip_on=False, zorder=4)
    ax.set(xlabel="triplets", ylabel="votes on each, M", yticks=[1, 2, 3, 5, 10])
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_title(f"{label} (solid), {cost_label} (dashed)")
    return tidy(ax)


def chosen_triplets(a: FloatArray, b: FloatArray, chosen: BoolArray, ax: Axes, *, names: tuple[str, str]) -> Axes:
    """Draw what two distances predict for each triplet of a pool, with those that were chosen.

    Parameters
    ----------
    a, b : arrays, shape (T,)
        Chance of x1 by each distance.
    chosen : array of bool, shape (T,)
    names : two str
        Names of the distances.
    """
    rows = np.random.default_rng(0).permutation(len(a))[:MOST_POINTS]
    ax.scatter(a[rows], b[rows], 1.5, color="0.75", linewidths=0, rasterized=True, label="pool")
    ax.scatter(a[chosen], b[chosen], 3.5, color=DARK, linewidths=0, rasterized=True, label="chosen")
    ax.axline((0, 0), slope=1, color="black", linewidth=0.5)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    verbatim(ax.set_xlabel(f"P of x1 by {names[0]}"))
    verbatim(ax.set_ylabel(f"P of x1 by {names[1]}"))
    ax.legend(fontsize=SMALL, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, markerscale=2.5)
    tidy(ax).spines[:].set_visible(True)
    return ax


def batch_intervals(
    votes: FloatArray,
    difference: FloatArray,
    low: FloatArray,
    high: FloatArray,
    ax: Axes,
    *,
    label: str,
    margin: float | None = None,
) -> Axes:
    """Draw the difference after each batch with its always-valid interval, against the votes so far.

    Parameters
    ----------
    votes, difference, low, high : arrays, shape (batches,)
    label : str
        Name of the difference.
    margin : float, optional
        The difference to detect, drawn on both sides of 0.
    """
    ax.fill_between(votes, low, high, color=LIGHT, alpha=0.5, linewidth=0)
    ax.plot(votes, difference, "o-", color=DARK, markersize=3.5, linewidth=1.1)
    ax.axhline(0, color="black", linewidth=0.7)
    for end in () if margin is None else (-margin, margin):
        ax.axhline(end, color=MARK, linewidth=0.7, linestyle=(0, (4, 2)))
    ax.set(xlabel="votes so far", ylabel=label, xlim=(0, None))
    return tidy(ax)

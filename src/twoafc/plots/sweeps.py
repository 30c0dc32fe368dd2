"""Scores against a setting of the estimator, for several distances: the paper's figures of robustness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.plots.style import DASHES, LEAST, LINES, SMALL, tidy, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SweepCurve(NamedTuple):
    """A score at each value x of a setting, with its interval from low to high; arrays of one length."""

    x: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray


def sweep(
    curves: Mapping[str, SweepCurve],
    ax: Axes,
    *,
    label: str,
    measure: str,
    chosen: float | None = None,
    automatic: Mapping[str, float] | None = None,
    logarithmic: bool = False,
) -> Axes:
    """Draw a score against a setting, one line with its band for each distance.

    Parameters
    ----------
    curves : mapping of name to SweepCurve
        In any order along x.
    label, measure : str
        Names of the axes: the setting, and the score.
    chosen : float, optional
        The paper's value, a vertical line.
    automatic : mapping of name to float, optional
        The value that each distance would choose by itself, a diamond on its line.
    logarithmic : bool
        Whether the setting is drawn on a logarithmic scale.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    unknown = [name for name in automatic or {} if name not in curves]
    if unknown:
        raise ValueError(f"automatic must name curves, {', '.join(curves)}; found {unknown[0]!r}")
    if logarithmic:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        ax.xaxis.set_minor_locator(NullLocator())
    for place, (name, curve) in enumerate(curves.items()):
        _curve(name, curve, (automatic or {}).get(name), place, ax)
    if chosen is not None:
        ax.axvline(chosen, color="0.4", linewidth=0.7, zorder=0)
        above = ("data", "axes fraction")
        ax.annotate(f"paper: {chosen:.3g}", (chosen, 1), (0, 2), above, "offset points", fontsize=LEAST, ha="center")
    if automatic:
        ax.plot([], [], "D", color="0.4", markersize=4.5, markeredgecolor="white", label="automatic")
    if curves:
        _legend(ax)
    ax.set(xlabel=label, ylabel=measure)
    return tidy(ax)


def _curve(name: str, curve: SweepCurve, automatic: float | None, place: int, ax: Axes) -> None:
    """Draw one line with its band, told from the others by colour and by dashes."""
    order = np.argsort(curve.x)
    x, value, low, high = (np.asarray(each, dtype=np.float64)[order] for each in curve)
    colour = LINES[place % len(LINES)]
    ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    ax.plot(x, value, color=colour, linestyle=DASHES[place % len(DASHES)], linewidth=1.1, label=name)
    if automatic is not None:
        warp = np.log if ax.get_xscale() == "log" else np.asarray
        at = np.interp(warp(automatic), warp(x), value)
        ax.plot(automatic, at, "D", color=colour, markersize=4.5, markeredgecolor="white", markeredgewidth=0.6)


def _legend(ax: Axes) -> None:
    """Name the lines above the figure, where they can hide nothing."""
    spacing: Any = {"handlelength": 2.4, "columnspacing": 1.2, "labelspacing": 0.3, "borderaxespad": 0.2}
    place = (0.5, 1.05)
    legend = ax.legend(loc="lower center", bbox_to_anchor=place, ncols=3, fontsize=SMALL, frameon=False, **spacing)
    for text in legend.get_texts():
        verbatim(text)

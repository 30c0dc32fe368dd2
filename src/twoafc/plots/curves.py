"""Curves P(same | d) and the votes that they were fitted to; `(values, ax) -> Axes`, and what they are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.core import uniformise
from twoafc.estimators import Fit
from twoafc.inference import share_interval
from twoafc.table import Pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 20


class Shown(NamedTuple):
    """A curve over the uniformised distance, with its standard error where it has one, and the votes behind it.

    ``P`` and ``se`` stand at ``u``; ``share``, with a 95 % interval from ``low`` to ``high``, is of the pairs around
    ``middle``; ``ticks`` are the distances at u = 0, 1/4, 1/2, 3/4 and 1.
    """

    u: FloatArray
    P: FloatArray
    se: FloatArray | None
    middle: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    ticks: FloatArray


def shown(fit: Fit, table: Pairs, *, size: int = 201) -> Shown:
    """Work out what a figure shows of a fit: the curve, and shares of "same" by distance.

    Parameters
    ----------
    table : Pairs
        With the one distance.
    """
    uniform, at = uniformise(table.d)
    u = np.linspace(0, 1, size)
    d = uniform.inverse(u)
    error = getattr(fit, "standard_error", None)
    # Pairs at one distance are at one place, and so in one bin.
    cell = np.minimum((at * BINS).astype(np.int64), BINS - 1)
    points = np.array([_point(table.where(cell == k), at[cell == k]) for k in np.unique(cell)])
    middle, share, low, high = points.T
    se, ticks = None if error is None else error(d), uniform.inverse([0, 0.25, 0.5, 0.75, 1])
    return Shown(u, fit.probability(d), se, middle, share, low, high, ticks)


def _point(table: Pairs, at: FloatArray) -> tuple[float, float, float, float]:
    """Middle of some pairs, their share of "same", and its interval from the spread between pairs."""
    share, weight = table.share, table.M / table.M.sum()
    se = np.sqrt(np.sum((weight * (table.n / table.M - share)) ** 2))
    found = share_interval(100 * share, 100 * float(se), float(1 / np.sum(weight**2)))
    ends = (found.low / 100, found.high / 100) if np.isfinite(found.low) else (share, share)
    return float(at.mean()), share, *ends


def curve(values: Shown, ax: Axes) -> Axes:
    """Draw a curve with a band of two standard errors, and shares of votes with their intervals."""
    if values.se is not None:
        band = np.clip(values.P - 2 * values.se, 0, 1), np.clip(values.P + 2 * values.se, 0, 1)
        ax.fill_between(values.u, *band, color="#998EC3", alpha=0.5, linewidth=0)
    ends = np.maximum([values.share - values.low, values.high - values.share], 0)
    ax.errorbar(values.middle, values.share, ends, fmt="o", markersize=2.5, linewidth=0.8, color="#B35806")
    ax.plot(values.u, values.P, color="#542788", linewidth=1.2)
    ax.set_xticks(np.linspace(0, 1, len(values.ticks)), [f"{d:.3g}" for d in values.ticks])
    ax.set(xlim=(0, 1), ylim=(0, 1), yticks=[0, 0.5, 1], xlabel="d (quarters of the pairs)", ylabel="P(same)")
    return ax


def curves(named: Mapping[str, Shown], *, across: int = 4) -> Figure:
    """Draw several curves side by side under their names, each on its own distance, so many across."""
    from matplotlib.figure import Figure

    across = min(len(named), across)
    down = -(-len(named) // across)
    figure = Figure(figsize=(2.6 * across + 0.4, 2.4 * down), layout="constrained")
    axes: Any = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for place, (ax, (name, values)) in enumerate(zip(axes, named.items(), strict=False)):
        curve(values, ax).set_title(name, fontsize="medium")
        ax.set_ylabel(ax.get_ylabel() if place % across == 0 else "")
    for ax in axes[len(named) :]:
        ax.set_axis_off()
    return figure

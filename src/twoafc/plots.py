"""Figures: `(values, ax) -> Axes`; they draw what they are given and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

COLOURS = "PuOr"
"""Diverging about P = 1/2, told apart by colour-blind readers and in grey print."""


def surface(P: FloatArray, ax: Axes) -> Axes:
    """Draw P over the plane of uniformised distances, with the contour P = 1/2.

    Parameters
    ----------
    P : array, shape (K, K)
        Row i has u0 = i / (K - 1), column j has u1 = j / (K - 1).
    """
    nodes = np.linspace(0, 1, len(P))
    half = 0.5 / (len(P) - 1)
    extent = (-half, 1 + half, -half, 1 + half)
    ax.imshow(P.T, origin="lower", extent=extent, cmap=COLOURS, vmin=0, vmax=1, interpolation="nearest")
    if np.ptp(P) > 0:
        ax.contour(nodes, nodes, P.T, levels=[0.25, 0.5, 0.75], colors="black", linewidths=[0.5, 1.0, 0.5])
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")
    ax.set(xlabel="$d_0$ (uniformised)", ylabel="$d_1$ (uniformised)")
    return ax


def surfaces(named: Mapping[str, FloatArray], *, across: int = 4) -> Figure:
    """Draw several surfaces side by side under their names, so many across, with one colour bar."""
    from matplotlib.figure import Figure

    across = min(len(named), across)
    down = -(-len(named) // across)
    figure = Figure(figsize=(2.3 * across + 0.9, 2.5 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for place, (ax, (name, P)) in enumerate(zip(axes, named.items(), strict=False)):
        surface(P, ax).set_title(name, fontsize="medium")
        lowest = place + across >= len(named)
        ax.tick_params(labelbottom=lowest)
        ax.set(xlabel=ax.get_xlabel() if lowest else "", ylabel=ax.get_ylabel() if place % across == 0 else "")
    for ax in axes[len(named) :]:
        ax.set_axis_off()
    shown = axes[0].images[0]
    figure.colorbar(shown, ax=list(axes), label="P, chance of $x_1$", shrink=0.9, pad=0.02)
    return figure

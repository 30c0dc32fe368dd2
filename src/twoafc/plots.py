"""Figures: `(values, ax) -> Axes`; they draw what they are given and compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
T = TypeVar("T")


class Residuals(Protocol):
    """What a residual map shows: residuals and their p-values, each of shape (G, G)."""

    @property
    def residual(self) -> FloatArray:
        """Votes for x1 beyond P."""

    @property
    def p(self) -> FloatArray:
        """Their p-values."""


class Reliable(Protocol):
    """One point of a reliability curve."""

    @property
    def P(self) -> float:
        """Mean P."""

    @property
    def share(self) -> float:
        """Share of votes for x1."""

    @property
    def low(self) -> float:
        """Lower end of its interval."""

    @property
    def high(self) -> float:
        """Upper end of its interval."""


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


def surfaces(named: Mapping[str, FloatArray], *, across: int = 4) -> Figure | None:
    """Draw several surfaces side by side under their names, so many across, with one colour bar; None of none."""
    return _side_by_side(named, surface, "P, chance of $x_1$", across=across)


def residual_map(found: Residuals, ax: Axes) -> Axes:
    """Draw what people chose beyond P over the plane of uniformised distances; dots mark cells beyond noise.

    Parameters
    ----------
    found : ResidualMap
        Of `twoafc.diagnostics.residuals`.
    """
    cells = len(found.residual)
    extent = (0, 1, 0, 1)
    shown = 100 * found.residual.T
    ax.imshow(shown, origin="lower", extent=extent, cmap=COLOURS, vmin=-20, vmax=20, interpolation="nearest")
    with np.errstate(invalid="ignore"):
        i, j = np.nonzero(found.p < 0.05)
    ax.plot((i + 0.5) / cells, (j + 0.5) / cells, "k.", markersize=4)
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal", facecolor="0.85")
    ax.set(xlabel="$d_0$ (uniformised)", ylabel="$d_1$ (uniformised)")
    return ax


def residual_maps(named: Mapping[str, Residuals], *, across: int = 4) -> Figure | None:
    """Draw several residual maps side by side under their names, so many across, with one colour bar; None of none."""
    return _side_by_side(named, residual_map, "votes for $x_1$ beyond P, %", across=across)


def reliability(bins: Sequence[Reliable], ax: Axes) -> Axes:
    """Draw the share of votes for x1 against P, with 95 % intervals.

    Parameters
    ----------
    bins : sequence of Bin
        Of `twoafc.diagnostics.calibration`.
    """
    P, share = (np.array([getattr(each, name) for each in bins]) for name in ("P", "share"))
    ends = np.array([[each.share - each.low, each.high - each.share] for each in bins]).T
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=1)
    ax.errorbar(P, share, np.nan_to_num(np.maximum(ends, 0)), fmt="o", markersize=3, linewidth=1, color="#4B2A7B")
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")
    ax.set(xlabel="P, chance of $x_1$", ylabel="share of votes for $x_1$")
    return ax


def reliabilities(named: Mapping[str, Sequence[Reliable]], *, across: int = 4) -> Figure | None:
    """Draw several reliability curves side by side under their names, so many across; None of none."""
    return _side_by_side(named, reliability, None, across=across)


def _side_by_side(
    named: Mapping[str, T], draw: Callable[[T, Axes], Axes], label: str | None, *, across: int
) -> Figure | None:
    """Draw panels under their names, with axes named at the edges only and one colour bar where they have images."""
    from matplotlib.figure import Figure

    if not named:
        return None
    across = min(len(named), across)
    down = -(-len(named) // across)
    figure = Figure(figsize=(2.3 * across + (0.9 if label else 0.3), 2.5 * down + 0.3), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for place, (ax, (name, values)) in enumerate(zip(axes, named.items(), strict=False)):
        draw(values, ax).set_title(name, fontsize="medium")
        lowest = place + across >= len(named)
        ax.tick_params(labelbottom=lowest)
        ax.set(xlabel=ax.get_xlabel() if lowest else "", ylabel=ax.get_ylabel() if place % across == 0 else "")
    for ax in axes[len(named) :]:
        ax.set_axis_off()
    if label:
        figure.colorbar(axes[0].images[0], ax=list(axes), label=label, shrink=0.9, pad=0.02)
    return figure

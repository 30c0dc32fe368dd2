"""How the votes and P agree: reliability, and residuals over the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.plots.panels import side_by_side
from twoafc.plots.style import COLOURS, DARK, UNKNOWN, plane, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def residual_map(found: Residuals, ax: Axes) -> Axes:
    """Draw what people chose beyond P over the plane of uniformised distances; dots mark cells beyond noise.

    Parameters
    ----------
    found : ResidualMap
        Of `twoafc.inference.goodness`.
    """
    cells = len(found.residual)
    extent = (0, 1, 0, 1)
    shown = 100 * found.residual.T
    ax.imshow(shown, origin="lower", extent=extent, cmap=COLOURS, vmin=-20, vmax=20, interpolation="nearest")
    with np.errstate(invalid="ignore"):
        i, j = np.nonzero(found.p < 0.05)
    ax.plot((i + 0.5) / cells, (j + 0.5) / cells, "k.", markersize=4)
    ax.set_facecolor(UNKNOWN)
    return plane(ax)


def residual_maps(named: Mapping[str, Residuals], *, across: int = 4) -> Figure | None:
    """Draw several residual maps side by side under their names, so many across, with one colour bar; None of none."""
    return side_by_side(named, residual_map, "votes for x₁ beyond P, %", across=across)


def reliability(bins: Sequence[Reliable], ax: Axes) -> Axes:
    """Draw the share of votes for x1 against P, with 95 % intervals.

    Parameters
    ----------
    bins : sequence of Bin
        Of `twoafc.inference.goodness`.
    """
    P, share = (np.array([getattr(each, name) for each in bins]) for name in ("P", "share"))
    ends = np.array([[each.share - each.low, each.high - each.share] for each in bins]).reshape(-1, 2).T
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=1)
    ax.errorbar(P, share, np.nan_to_num(np.maximum(ends, 0)), fmt="o", markersize=2.5, linewidth=0.8, color=DARK)
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")
    ax.set(xlabel="P, chance of x₁", ylabel="share of votes for x₁")
    return tidy(ax)


def reliabilities(named: Mapping[str, Sequence[Reliable]], *, across: int = 4) -> Figure | None:
    """Draw several reliability curves side by side under their names, so many across; None of none."""
    return side_by_side(named, reliability, None, across=across)

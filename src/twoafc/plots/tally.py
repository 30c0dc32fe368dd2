"""How many votes the triplets have, and how they fell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from twoafc.plots.style import LIGHT, SMALL, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = 11
"""Bars of n / M where M varies; an odd number, so that one of them stands on 1/2."""
NAMES = {"M": "M, votes of a triplet", "n": "n, votes for x₁", "share": "n / M, share of votes for x₁"}


def votes(n: NDArray[np.int64], M: NDArray[np.int64], ax: Axes, *, what: Literal["M", "n", "share"] = "M") -> Axes:
    """Draw how many triplets have each number of votes M, each n, or each share n / M.

    Parameters
    ----------
    n, M : array of int, shape (T,)
        Of M people who judged the triplet, n chose x1.
    what : {"M", "n", "share"}
        What is counted.
    """
    if what not in NAMES:
        raise ValueError(f"what must be M, n or share; found {what!r}")
    n, M = np.asarray(n), np.asarray(M)
    step = 1.0
    if what == "share":
        fixed = len(np.unique(M)) == 1
        step = 1 / int(M[0]) if fixed else 1 / (BARS - 1)
    # Rounding puts each share in the bar whose middle is nearest; of a fixed M it is on that middle.
    counted = np.bincount(np.rint({"M": M, "n": n, "share": n / M}[what] / step).astype(np.int64))
    places = np.flatnonzero(counted)
    ax.bar(places * step, counted[places], 0.85 * step, color=LIGHT, edgecolor="black", linewidth=0.4)
    if what == "share":
        ax.set_xticks([0, 0.5, 1])
    else:
        ax.locator_params(axis="x", integer=True)
    ax.set(xlabel=NAMES[what], ylabel="triplets")
    return tidy(ax)


def votes_by_M(n: NDArray[np.int64], M: NDArray[np.int64], axes: Sequence[Axes]) -> None:
    """Draw how the votes fell among the triplets of each M, one panel for each, from the least M on.

    Triplets of few votes are mostly many and those of many votes few: in one panel the latter would not be seen.

    Parameters
    ----------
    n, M : array of int, shape (T,)
        Of M people who judged the triplet, n chose x1.
    axes : sequence of Axes
        Where there are more than kinds of M, the rest stay empty; where there are fewer, the larger M are not shown.
    """
    n, M = np.asarray(n), np.asarray(M)
    kinds = np.unique(M)
    for ax, m in zip(axes, kinds, strict=False):
        counted = np.bincount(n[m == M], minlength=m + 1)
        ax.bar(range(m + 1), counted, 0.85, color=LIGHT, edgecolor="black", linewidth=0.4)
        ax.locator_params(integer=True, nbins=min(int(m) + 1, 5), axis="x")
        ax.locator_params(integer=True, nbins=3, axis="y")
        ax.set_title(f"M = {m}", fontsize=SMALL)
        ax.set(xlim=(-0.6, m + 0.6), xlabel="n")
        tidy(ax)
    for ax in axes[len(kinds) :]:
        ax.set_axis_off()

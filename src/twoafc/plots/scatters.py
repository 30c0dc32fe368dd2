"""Triplets as points, before or after uniformisation: appendix B of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.plots.style import COLOURS, plane, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEHIND = "0.8"
"""Grey behind the points, since an undecided triplet is white."""


def scatter(d0: FloatArray, d1: FloatArray, share: FloatArray, ax: Axes, *, uniform: bool = False) -> Axes:
    """Draw triplets as points in the plane of their distances, coloured by the share of votes for x1.

    The points are one picture in a drawing of lines, in few colours, so that its file stays small. They lie over one
    another in an order drawn by lot, always the same: in the table's own, its last rows would hide the others.

    Parameters
    ----------
    d0, d1 : array, shape (T,)
        Distances, raw or uniformised.
    share : array, shape (T,)
        n / M.
    uniform : bool
        Whether the distances are uniformised, and the axes therefore go from 0 to 1.
    """
    d0, d1, share = (np.asarray(values, dtype=np.float64) for values in (d0, d1, share))
    if d0.ndim != 1 or not d0.shape == d1.shape == share.shape:
        raise ValueError(f"d0, d1 and share must be of one length; found shapes {d0.shape}, {d1.shape}, {share.shape}")
    order = np.random.default_rng(0).permutation(len(d0))
    size = float(np.clip(20_000 / max(len(d0), 1), 0.6, 12))
    colours: Any = {"cmap": COLOURS, "vmin": 0, "vmax": 1}
    # Softened edges would mix each colour with all others, and make the picture five times as large.
    ax.scatter(d0[order], d1[order], size, share[order], **colours, linewidths=0, antialiased=False, rasterized=True)
    ax.set_facecolor(BEHIND)
    ax.axline((0, 0), slope=1, color="black", linewidth=0.5, zorder=3)
    if uniform:
        return plane(ax)
    top = 1.03 * max(d0.max(initial=0), d1.max(initial=0)) or 1.0
    ax.set(xlim=(0, top), ylim=(0, top), aspect="equal", xlabel="d₀", ylabel="d₁")
    ax.locator_params(nbins=4)
    tidy(ax).spines[:].set_visible(True)
    return ax

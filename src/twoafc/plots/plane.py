"""Figures over the plane of the two distances, and along the one of pairs: P and its error, triplets, residuals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twoafc.arrays import BoolArray, FloatArray
from twoafc.core import Uniform, uniformise
from twoafc.inference import ResidualMap, share_interval
from twoafc.plots.style import (
    COLOURS,
    COLUMN,
    DARK,
    LABEL,
    LIGHT,
    MARK,
    PAGE,
    SMALL,
    UNKNOWN,
    panels,
    pixels,
    side_by_side,
    tidy,
    uniform_axes,
    verbatim,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

    from twoafc.estimators import Fit
    from twoafc.table import Pairs

LEVELS = {0.25: (0.35, 0.65), 0.5: (0.75, 0.75), 0.75: (0.65, 0.35)}
"""Contours of P, and near where they are numbered, for print without colour."""
LINES_OF_P = {0.25: (0.6, "--"), 0.5: (1.0, "-"), 0.75: (0.6, "-")}
"""Width and style of each contour: in print without colour, both sides of 1/2 have the same greys."""
GUESS = 12**-0.5
"""Standard deviation of a P that is uniform in [0, 1]: the end of the scale of standard errors."""
ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Contours of the standard error."""
VALLEY = 0.1
"""Contours of the standard error end this far from the diagonal, where it falls to 0 and they would crowd."""
DENSITIES = {0.5: (0, (1, 1.2)), 2.0: (0, (4, 1.5))}
"""Contours of the density of triplets, as multiples of the mean density, and their dashes."""
INK = "0.55"
"""A grey that is visible on white and on the darkest colours of a surface."""
WIDTH = 0.05
"""The density is smoothed over this share of an axis; otherwise its contours would follow the noise."""
BEHIND = "0.8"
"""Grey behind points, since an undecided triplet is white."""
CURVE_BINS = 20
"""Points of votes along a curve, at most."""


def surface_values(function: Callable[..., Any], uniform: Uniform, size: int = 101) -> FloatArray:
    """Evaluate a function of d0 and d1, such as `probability` of a fit, over the uniformised plane.

    Row i of the array, of shape (size, size), has u0 = i / (size - 1), column j has u1 = j / (size - 1).
    """
    d0, d1 = np.meshgrid(*[uniform.inverse(np.linspace(0, 1, size))] * 2, indexing="ij")
    return np.asarray(function(d0.ravel(), d1.ravel()), dtype=np.float64).reshape(size, size)


def surface(P: FloatArray, ax: Axes, *, density: FloatArray | None = None) -> Axes:
    """Draw P over the plane of uniformised distances, with contours at 1/4 (dashed), 1/2 (thick) and 3/4.

    Parameters
    ----------
    P : array, shape (K, K)
        Row i has u0 = i / (K - 1), column j has u1 = j / (K - 1).
    density : array, shape (G, G), optional
        Triplets in each cell of [0, 1]^2, row by row along u0. Cells without any are hatched; dots mark half, and
        dashes twice, the mean density.
    """
    pixels(P, ax, cmap=COLOURS, vmin=0, vmax=1)
    nodes = np.linspace(0, 1, len(P))
    levels = [level for level in LEVELS if P.min() < level < P.max()]
    if levels:
        widths, dashes = zip(*(LINES_OF_P[level] for level in levels), strict=True)
        lines = ax.contour(nodes, nodes, P.T, levels=levels, colors="black", linewidths=widths, linestyles=dashes)
        for level in levels:
            number, at = f"{level:g}", [LEVELS[level]]
            ax.clabel(lines, levels=[level], fmt=number, fontsize=SMALL, inline_spacing=2, manual=at)
    if density is not None:
        _draw_density(np.asarray(density, dtype=np.float64), ax)
    return uniform_axes(ax)


def surfaces(
    named: Mapping[str, FloatArray], *, across: int = 5, density: Mapping[str, FloatArray] | None = None
) -> Figure | None:
    """Draw several surfaces side by side under their names, with one colour bar; None if there are none."""
    both = {name: (P, (density or {}).get(name)) for name, P in named.items()}
    return side_by_side(both, lambda pair, ax: surface(pair[0], ax, density=pair[1]), "P, chance of x1", across=across)


def _draw_density(density: FloatArray, ax: Axes) -> None:
    """Hatch the cells without triplets; draw contours at half and twice the mean density."""
    from matplotlib.patches import PathPatch

    empty = density == 0
    if empty.any():
        ax.add_patch(PathPatch(rectangles(empty), facecolor="none", edgecolor=INK, hatch="//////", linewidth=0))
    if empty.all():
        return
    middles = (np.arange(len(density)) + 0.5) / len(density)
    kernel = np.exp(-((middles[:, None] - middles) ** 2) / (2 * WIDTH**2))
    kernel /= kernel.sum(axis=1, keepdims=True)
    relative = np.asarray(kernel @ density @ kernel.T) / density.mean()
    levels = [level for level in DENSITIES if relative.min() < level < relative.max()]
    if levels:
        dashes = [DENSITIES[level] for level in levels]
        ax.contour(middles, middles, relative.T, levels=levels, colors=INK, linewidths=0.8, linestyles=dashes)


def rectangles(cells: BoolArray) -> Path:
    """Outline the chosen cells of [0, 1]^2."""
    from matplotlib.path import Path

    square: Any = Path.unit_rectangle()
    corners = (np.argwhere(cells)[:, None] + square.vertices) / len(cells)
    return Path(corners.reshape(-1, 2), np.tile(square.codes, len(corners)))


def standard_error(se: FloatArray, ax: Axes) -> Axes:
    """Draw the standard error of P over the plane of uniformised distances, with numbered contours.

    The scale is the same in every figure, from 0 to 0.29, the standard deviation of a P of which nothing is known; it
    is finer towards 0.

    Parameters
    ----------
    se : array, shape (K, K)
        Row i has u0 = i / (K - 1), column j has u1 = j / (K - 1); NaN, drawn grey, where it is unknown.
    """
    from matplotlib.colors import PowerNorm

    most = float(np.nanmax(se, initial=GUESS))
    pixels(se, ax, cmap="Purples", norm=PowerNorm(0.5, vmin=0, vmax=most))
    nodes = np.linspace(0, 1, len(se))
    shown = np.ma.masked_invalid(np.where(abs(nodes[:, None] - nodes) < VALLEY, np.nan, se))
    levels = [level for level in ERRORS if shown.count() and shown.min() < level < shown.max()]
    if levels:
        lines = ax.contour(nodes, nodes, shown.T, levels=levels, colors="black", linewidths=0.5)
        ax.clabel(lines, fmt="%g", fontsize=SMALL, inline_spacing=2)
    return uniform_axes(ax)


def standard_errors(named: Mapping[str, FloatArray], *, across: int = 5) -> Figure | None:
    """Draw several standard errors side by side under their names, with one colour bar; None if there are none."""
    return side_by_side(named, standard_error, "standard error of P", across=across)


def scatter(d0: FloatArray, d1: FloatArray, share: FloatArray, ax: Axes, *, uniform: bool = False) -> Axes:
    """Draw triplets as points in the plane of their distances, coloured by the share of votes for x1 (appendix B).

    The points are rasterised in few colours, so that the file stays small, and drawn in a fixed random order: in the
    order of the table, its last rows would hide the others.

    Parameters
    ----------
    d0, d1 : array, shape (T,)
        Distances, raw or uniformised.
    share : array, shape (T,)
        n / M.
    uniform : bool
        Whether the distances are uniformised, so that the axes go from 0 to 1.
    """
    d0, d1, share = (np.asarray(values, dtype=np.float64) for values in (d0, d1, share))
    if d0.ndim != 1 or not d0.shape == d1.shape == share.shape:
        raise ValueError(f"d0, d1 and share must be of one length; found shapes {d0.shape}, {d1.shape}, {share.shape}")
    order = np.random.default_rng(0).permutation(len(d0))
    size = float(np.clip(20_000 / max(len(d0), 1), 0.6, 12))
    colours: Any = {"cmap": COLOURS, "vmin": 0, "vmax": 1}
    # Antialiasing would mix each colour with all others, and make the file five times as large.
    ax.scatter(d0[order], d1[order], size, share[order], **colours, linewidths=0, antialiased=False, rasterized=True)
    ax.set_facecolor(BEHIND)
    ax.axline((0, 0), slope=1, color="black", linewidth=0.5, zorder=3)
    if uniform:
        return uniform_axes(ax)
    return _raw_axes(ax, 1.03 * max(d0.max(initial=0), d1.max(initial=0)) or 1.0, ticks=4)


def _raw_axes(ax: Axes, top: float, *, ticks: int) -> Axes:
    ax.set(xlim=(0, top), ylim=(0, top), aspect="equal", xlabel="d0", ylabel="d1")
    ax.locator_params(nbins=ticks)
    tidy(ax).spines[:].set_visible(True)
    return ax


def residual_map(found: ResidualMap, ax: Axes) -> Axes:
    """Draw the share of votes for x1 beyond P over the plane of uniformised distances.

    Cells with p < 0.05 have the sign of their residual, for print without colour, too.

    Parameters
    ----------
    found : ResidualMap
        Residuals and their p-values, each of shape (G, G).
    """
    colours: Any = {"cmap": COLOURS, "vmin": -20, "vmax": 20}
    ax.imshow(100 * found.residual.T, origin="lower", extent=(0, 1, 0, 1), interpolation="nearest", **colours)
    for sign, marker in ((1, "+"), (-1, "_")):
        at = (np.argwhere((found.p < 0.05) & (np.sign(found.residual) == sign)) + 0.5) / len(found.p)
        for colour, width in (("white", 2.4), ("black", 0.9)):  # seen on dark cells, too
            ax.plot(*at.T, color=colour, linestyle="", marker=marker, markersize=4.5, markeredgewidth=width)
    ax.set_facecolor(UNKNOWN)
    return uniform_axes(ax)


def residual_maps(named: Mapping[str, ResidualMap], *, across: int = 5) -> Figure | None:
    """Draw several residual maps side by side under their names, with one colour bar; None if there are none."""
    return side_by_side(named, residual_map, "votes for x1 beyond P, %", across=across)


def worked_example(steps: Any, axes: Sequence[Axes]) -> Sequence[Axes]:
    """Draw the density estimator step by step: points, kernels, density, Pr(n = j) for each j, P, log-likelihood.

    Parameters
    ----------
    steps : twoafc.reproduce.WorkedExample
        Of `twoafc.reproduce.worked_example`.
    axes : sequence of Axes
        One for each panel: M + 6, so eight for two votes per triplet.
    """
    axes = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(axes) != steps.M + 6:
        raise ValueError(f"the steps need M + 6 = {steps.M + 6} axes; found {len(axes)}")
    top = 1.1 * max(steps.d0.max(), steps.d1.max())
    _draw_points(steps.d0, steps.d1, steps, axes[0])
    axes[0].plot([0, top], [0, top], color="0.6", linewidth=0.6, zorder=1)
    _raw_axes(axes[0], top, ticks=3)
    _draw_kernels(steps, axes[1])
    pixels(steps.density, axes[2], cmap="Greys", vmin=0, vmax=steps.density.max())
    for j, ax in enumerate(axes[3 : steps.M + 4]):
        pixels(steps.conditional[j], ax, cmap="Purples", vmin=0, vmax=1)
    surface(steps.P, axes[-2])
    least = np.nanmin(steps.log_likelihood)
    pixels(steps.log_likelihood, axes[-1], cmap="Purples_r", vmin=least, vmax=0)
    for ax in axes[1:]:
        uniform_axes(ax).set(xlabel="u0", ylabel="u1")
    captions = [
        f"n of M = {steps.M} votes for x1",
        f"kernels, σ = {steps.sigma:g}",
        f"density: 0 to {steps.density.max():.1f}",
        *(f"Pr(n = {j}): 0 to 1" for j in range(steps.M + 1)),
        "P: 0 to 1",
        f"log-likelihood: −{-least:.1f} to 0",
    ]
    for place, (ax, caption) in enumerate(zip(axes, captions, strict=True)):
        ax.set_title(f"({chr(ord('a') + place)}) {caption}", fontsize=SMALL, loc="left")
    return axes


def _draw_kernels(steps: Any, ax: Axes) -> None:
    """Draw the nodes, and the points with circles of one sigma, their mirrors across the diagonal in dashes."""
    from matplotlib.patches import Circle

    i, j = np.meshgrid(np.linspace(0, 1, len(steps.P)), np.linspace(0, 1, len(steps.P)))
    ax.plot(i.ravel(), j.ravel(), "+", color="0.7", markersize=2.5, markeredgewidth=0.4, zorder=1, clip_on=False)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.6, zorder=1)
    for u0, u1 in zip(steps.u0, steps.u1, strict=True):
        ax.add_patch(Circle((u0, u1), steps.sigma, fill=False, color=DARK, linewidth=0.8))
        ax.add_patch(Circle((u1, u0), steps.sigma, fill=False, color=DARK, linewidth=0.5, linestyle=(0, (2, 2))))
    _draw_points(steps.u0, steps.u1, steps, ax)


def _draw_points(x: FloatArray, y: FloatArray, steps: Any, ax: Axes) -> None:
    """Draw triplets in the colour of n / M, with n inside."""
    colours: Any = {"cmap": COLOURS, "vmin": 0, "vmax": 1, "edgecolors": "black"}
    ax.scatter(x, y, 70, steps.n / steps.M, **colours, linewidths=0.6, zorder=3, clip_on=False)
    for x_n, y_n, n in zip(x, y, steps.n, strict=True):
        colour = "white" if n in (0, steps.M) else "black"
        ax.text(x_n, y_n, str(n), fontsize=SMALL, ha="center", va="center_baseline", color=colour)


class Curve(NamedTuple):
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


def curve_values(fit: Fit, table: Pairs) -> Curve:
    """Compute what a figure shows of a fit to pairs: the curve, and shares of "same" by distance."""
    uniform, at = uniformise(table.d)
    u = np.linspace(0, 1, 201)
    d = uniform.inverse(u)
    # Pairs at one distance are at one place, and so in one bin.
    cell = np.minimum((at * CURVE_BINS).astype(np.int64), CURVE_BINS - 1)
    points = np.array([_point(table.where(cell == k), at[cell == k]) for k in np.unique(cell)])
    middle, share, low, high = points.T
    se = fit.standard_error(d) if hasattr(fit, "standard_error") else None
    return Curve(u, fit.probability(d), se, middle, share, low, high, uniform.inverse([0, 0.25, 0.5, 0.75, 1]))


def _point(table: Pairs, at: FloatArray) -> tuple[float, float, float, float]:
    """Middle of some pairs, their share of "same", and its interval from the spread between pairs."""
    share, weight = table.share, table.M / table.M.sum()
    se = np.sqrt(np.sum((weight * (table.n / table.M - share)) ** 2))
    interval = share_interval(100 * share, 100 * float(se), float(1 / np.sum(weight**2)))
    ends = (interval.low / 100, interval.high / 100) if np.isfinite(interval.low) else (share, share)
    return float(at.mean()), share, *ends


def curve(values: Curve, ax: Axes) -> Axes:
    """Draw a curve with a band of two standard errors, and shares of votes with their intervals."""
    if values.se is not None:
        band = np.clip(values.P - 2 * values.se, 0, 1), np.clip(values.P + 2 * values.se, 0, 1)
        ax.fill_between(values.u, *band, color=LIGHT, alpha=0.5, linewidth=0)
    ends = np.maximum([values.share - values.low, values.high - values.share], 0)
    ax.errorbar(values.middle, values.share, ends, fmt="o", markersize=2.5, linewidth=0.8, color=MARK)
    ax.plot(values.u, values.P, color=DARK, linewidth=1.2)
    ax.set_xticks(np.linspace(0, 1, len(values.ticks)), [f"{d:.3g}" for d in values.ticks])
    ax.set(xlim=(0, 1), ylim=(0, 1), yticks=[0, 0.5, 1], xlabel="d (quarters of the pairs)", ylabel="P(same)")
    return tidy(ax)


def curves(named: Mapping[str, Curve]) -> Figure:
    """Draw several curves side by side under their names, each on its own distance, three in a row."""
    across = min(len(named), 3)
    figure, axes = panels(len(named), across, COLUMN if across == 1 else PAGE, 1.9)
    for place, (ax, (name, values)) in enumerate(zip(axes, named.items(), strict=True)):
        verbatim(curve(values, ax).set_title(name, fontsize=LABEL))
        ax.set_ylabel(ax.get_ylabel() if place % across == 0 else "")
    return figure

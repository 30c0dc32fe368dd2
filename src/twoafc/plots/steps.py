"""The density estimator step by step on a few points: the paper's worked example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.plots.style import COLOURS, DARK, LEAST, picture, plane, tidy
from twoafc.plots.surfaces import surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from twoafc.reproduce import WorkedExample

AROUND = 6
"""Panels but for those of the counts j, of which there are M + 1."""


def worked_example(steps: WorkedExample, axes: Sequence[Axes]) -> Sequence[Axes]:
    """Draw each step in a panel of its own: points, kernels, density, Pr(n = j) for each j, P, log-likelihood.

    Parameters
    ----------
    steps : WorkedExample
        Of `twoafc.reproduce.worked_example`.
    axes : sequence of Axes
        As many as there are panels: M + 6, so eight for two votes a triplet.
    """
    axes = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(axes) != steps.M + AROUND:
        raise ValueError(f"the steps fill M + {AROUND} = {steps.M + AROUND} axes; found {len(axes)}")
    _raw(steps, axes[0])
    _kernels(steps, axes[1])
    picture(steps.density, axes[2], cmap="Greys", vmin=0, vmax=steps.density.max())
    for j, ax in enumerate(axes[3 : steps.M + 4]):
        picture(steps.conditional[j], ax, cmap="Purples", vmin=0, vmax=1)
    surface(steps.P, axes[-2])
    picture(steps.log_likelihood, axes[-1], cmap="Purples_r", vmin=np.nanmin(steps.log_likelihood), vmax=0)
    for ax in axes[1:]:
        plane(ax).set(xlabel="u₀", ylabel="u₁")
    for ax, caption in zip(axes, captions(steps), strict=True):
        ax.set_title(caption, fontsize=LEAST, loc="left")
    return axes


def captions(steps: WorkedExample) -> list[str]:
    """Say what each panel shows, from (a) on."""
    said = [
        f"n of M = {steps.M} votes for x₁",
        f"uniformised; kernels, σ = {steps.sigma:g}",
        f"p(d₀, d₁): 0 to {steps.density.max():.1f}",
        *(f"Pr(n = {j} | d₀, d₁): 0 to 1" for j in range(steps.M + 1)),
        "P(d₀, d₁): 0 to 1",
        f"L(d₀, d₁): −{-np.nanmin(steps.log_likelihood):.1f} to 0",
    ]
    return [f"({chr(ord('a') + place)}) {text}" for place, text in enumerate(said)]


def _raw(steps: WorkedExample, ax: Axes) -> None:
    top = 1.1 * max(steps.d0.max(), steps.d1.max())
    _points(steps.d0, steps.d1, steps, ax)
    ax.plot([0, top], [0, top], color="0.6", linewidth=0.6, zorder=1)
    ax.set(xlim=(0, top), ylim=(0, top), aspect="equal", xlabel="d₀", ylabel="d₁")
    ax.locator_params(nbins=3)
    tidy(ax).spines[:].set_visible(True)


def _kernels(steps: WorkedExample, ax: Axes) -> None:
    """Draw the nodes, and the points with a circle of one sigma, their mirrors across the diagonal in dashes."""
    from matplotlib.patches import Circle

    i, j = np.meshgrid(np.linspace(0, 1, len(steps.P)), np.linspace(0, 1, len(steps.P)))
    ax.plot(i.ravel(), j.ravel(), "+", color="0.7", markersize=2.5, markeredgewidth=0.4, zorder=1, clip_on=False)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.6, zorder=1)
    for u0, u1 in zip(steps.u0, steps.u1, strict=True):
        ax.add_patch(Circle((u0, u1), steps.sigma, fill=False, color=DARK, linewidth=0.8))
        ax.add_patch(Circle((u1, u0), steps.sigma, fill=False, color=DARK, linewidth=0.5, linestyle=(0, (2, 2))))
    _points(steps.u0, steps.u1, steps, ax)


def _points(x: FloatArray, y: FloatArray, steps: WorkedExample, ax: Axes) -> None:
    """Draw triplets in the colour of n / M, with n written inside."""
    share = steps.n / steps.M
    ax.scatter(
        x, y, 70, share, cmap=COLOURS, vmin=0, vmax=1, edgecolors="black", linewidths=0.6, zorder=3, clip_on=False
    )
    for x_n, y_n, n in zip(x, y, steps.n, strict=True):
        ends = n in (0, steps.M)
        ax.text(x_n, y_n, str(n), fontsize=LEAST, ha="center", va="center_baseline", color="white" if ends else "black")

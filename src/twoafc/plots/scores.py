"""Figures of scores, votes and studies: forests, sweeps of a setting, reliability, tallies of votes, contours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.plots.style import (
    COLUMN,
    DARK,
    DASHES,
    LABEL,
    LIGHT,
    LINES,
    MARK,
    PAGE,
    SMALL,
    UNKNOWN,
    panels,
    side_by_side,
    tidy,
    unit_axes,
    verbatim,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from twoafc.inference import Bin

Reference = float | tuple[float, float]
"""What scores are compared with: a value, drawn as a line, or an interval, drawn as a band."""
APART = 0.25
"""Names above the figure that are closer than this share of its width are put at different heights."""
LONG = 30
"""Letters from which on the label of an axis has two lines."""
BARS = 11
"""Bars of n / M if M varies; an odd number, so that one of them is at 1/2."""
LEGEND_SPACING: Any = {"handlelength": 2.4, "columnspacing": 1.2, "labelspacing": 0.3, "borderaxespad": 0.2}
POWERS = (0.5, 0.8, 0.9, 0.95)
"""Contours of power."""
MOST_POINTS = 20_000
"""Triplets of a pool that are drawn, at most."""
VOTES_LABELS = {"M": "M, votes of a triplet", "n": "n, votes for x1", "share": "n / M, share of votes for x1"}


class ForestRow(NamedTuple):
    """A score with its interval, the letters that it shares with scores that do not differ from it, and its group."""

    name: str
    value: float
    low: float
    high: float
    letters: str = ""
    group: str = ""


def forest(
    rows: Sequence[ForestRow],
    ax: Axes,
    *,
    label: str,
    better: Literal["lower", "higher"] = "lower",
    reference: Mapping[str, Reference] | None = None,
) -> Axes:
    """Draw scores with their error bars, the best at the top, and each group under its name.

    Parameters
    ----------
    rows : sequence of ForestRow
        A value of NaN, of a run that diverged, comes last and has no point.
    label : str
        Name of the score.
    better : {"lower", "higher"}
        Which scores are the best.
    reference : mapping of name to float or (low, high), optional
        Values to compare with, such as a floor and a ceiling: a line, or a band.
    """
    if better not in ("lower", "higher"):
        raise ValueError(f"better must be lower or higher; found {better!r}")
    lines = _ordered(rows, better)
    for y, row in enumerate(lines):
        if not isinstance(row, ForestRow):
            continue
        if math.isfinite(row.value):
            ends = [max(row.value - row.low, 0), max(row.high - row.value, 0)]
            bar = [[end] for end in ends] if all(map(math.isfinite, ends)) else None
            ax.errorbar(row.value, y, xerr=bar, fmt="o", color=DARK, markersize=3.5, linewidth=1.1)
        if row.letters:
            right = ax.get_yaxis_transform()
            verbatim(ax.text(1.02, y, row.letters, transform=right, fontsize=SMALL, va="center"))
    for value in (reference or {}).values():
        if isinstance(value, tuple):
            ax.axvspan(*value, color=UNKNOWN, linewidth=0, zorder=0)
        else:
            ax.axvline(value, color="0.4", linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    ax.set_yticks(range(len(lines)), [line.name if isinstance(line, ForestRow) else line for line in lines])
    ax.set_ylim(max(len(lines), 1) - 0.5, -0.5)
    # Aligned right, so that it has room below long names.
    ax.set_xlabel(f"{label}{' ' if len(label) < LONG else chr(10)}({better} is better)", loc="right")
    tidy(ax).tick_params(axis="y", length=0)
    for text, line in zip(ax.get_yticklabels(), lines, strict=True):
        verbatim(text).set_fontweight("normal" if isinstance(line, ForestRow) else "bold")
    ax.spines["left"].set_visible(False)
    ax.grid(axis="y", color="0.92", linewidth=0.5)
    ax.set_axisbelow(True)
    _name_references(reference or {}, ax)
    return ax


def _ordered(rows: Sequence[ForestRow], better: str) -> list[ForestRow | str]:
    """Order rows, the best first, with each group's name above its rows; groups are in order of appearance."""
    sign = 1 if better == "lower" else -1
    lines: list[ForestRow | str] = []
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        members.sort(key=lambda row: sign * row.value if math.isfinite(row.value) else math.inf)
        lines += [group, *members] if group else members
    return lines


def _name_references(reference: Mapping[str, Reference], ax: Axes) -> None:
    """Write names above references, one line higher where the previous name is too near."""
    middles = {name: sum(value) / 2 if isinstance(value, tuple) else value for name, value in reference.items()}
    left, right = ax.get_xlim()
    previous, height = -math.inf, 0
    for name, x in sorted(middles.items(), key=lambda item: item[1]):
        height = height + 1 if x - previous < APART * (right - left) else 0
        above, lift = ("data", "axes fraction"), 2 + 1.2 * SMALL * height
        text = ax.annotate(name, (x, 1), (0, lift), above, "offset points", fontsize=SMALL, ha="center", va="bottom")
        verbatim(text)
        previous = x


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
        The value that is chosen automatically for each distance, a diamond on its line.
    logarithmic : bool
        Whether the setting has a logarithmic scale.
    """
    automatic = automatic or {}
    unknown = [name for name in automatic if name not in curves]
    if unknown:
        raise ValueError(f"automatic must name curves, {', '.join(curves)}; found {unknown[0]!r}")
    if logarithmic:
        _logarithmic(ax, "g")
    for place, (name, curve) in enumerate(curves.items()):
        _draw_curve(name, curve, automatic.get(name), place, ax)
    if chosen is not None:
        ax.axvline(chosen, color="0.4", linewidth=0.7, zorder=0)
        above = ("data", "axes fraction")
        ax.annotate(f"paper: {chosen:.3g}", (chosen, 1), (0, 2), above, "offset points", fontsize=SMALL, ha="center")
    if automatic:
        ax.plot([], [], "D", color="0.4", markersize=4.5, markeredgecolor="white", label="automatic")
    if curves:
        # Above the figure, where it hides nothing.
        at, spacing = (0.5, 1.05), LEGEND_SPACING
        legend = ax.legend(loc="lower center", bbox_to_anchor=at, ncols=3, fontsize=SMALL, frameon=False, **spacing)
        for text in legend.get_texts():
            verbatim(text)
    ax.set(xlabel=label, ylabel=measure)
    return tidy(ax)


def _logarithmic(ax: Axes, form: str) -> None:
    """Make the x axis logarithmic, with a few numbers in each decade."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:{form}}")
    ax.xaxis.set_minor_locator(NullLocator())


def _draw_curve(name: str, curve: SweepCurve, automatic: float | None, place: int, ax: Axes) -> None:
    """Draw one line with its band; lines differ in colour and dashes."""
    order = np.argsort(curve.x)
    x, value, low, high = (np.asarray(values, dtype=np.float64)[order] for values in curve)
    colour = LINES[place % len(LINES)]
    ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    ax.plot(x, value, color=colour, linestyle=DASHES[place % len(DASHES)], linewidth=1.1, label=name)
    if automatic is not None:
        scale = np.log if ax.get_xscale() == "log" else np.asarray
        at = np.interp(scale(automatic), scale(x), value)
        ax.plot(automatic, at, "D", color=colour, markersize=4.5, markeredgecolor="white", markeredgewidth=0.6)


def reliability(bins: Sequence[Bin], ax: Axes, *, of: str = "x1") -> Axes:
    """Draw the share of votes for x1 (of "same", for pairs) against P, with 95 % intervals.

    Parameters
    ----------
    bins : sequence of Bin
        Of `twoafc.inference.calibration`: the mean P, the share of votes for x1, and its interval from low to high.
    """
    P, share = (np.array([getattr(bin, name) for bin in bins]) for name in ("P", "share"))
    ends = np.array([[bin.share - bin.low, bin.high - bin.share] for bin in bins]).reshape(-1, 2).T
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=1)
    ax.errorbar(P, share, np.nan_to_num(np.maximum(ends, 0)), fmt="o", markersize=2.5, linewidth=0.8, color=DARK)
    unit_axes(ax).set(xlabel=f"P, chance of {of}", ylabel=f"share of votes for {of}")
    return tidy(ax)


def reliabilities(named: Mapping[str, Sequence[Bin]], *, across: int = 5, of: str = "x1") -> Figure | None:
    """Draw several reliability curves side by side under their names; None if there are none."""
    return side_by_side(named, partial(reliability, of=of), None, across=across)


def votes(n: IntArray, M: IntArray, ax: Axes, *, what: Literal["M", "n", "share"] = "M") -> Axes:
    """Draw how many triplets have each number of votes M, each n, or each share n / M.

    Parameters
    ----------
    n, M : array of int, shape (T,)
        Of M people who judged the triplet, n chose x1.
    what : {"M", "n", "share"}
        What is counted.
    """
    if what not in VOTES_LABELS:
        raise ValueError(f"what must be M, n or share; found {what!r}")
    n, M = np.asarray(n), np.asarray(M)
    step = 1.0
    if what == "share":
        step = 1 / int(M[0]) if len(np.unique(M)) == 1 else 1 / (BARS - 1)
    # Each share goes to the bar with the nearest centre.
    counts = np.bincount(np.rint({"M": M, "n": n, "share": n / M}[what] / step).astype(np.int64))
    places = np.flatnonzero(counts)
    ax.bar(places * step, counts[places], 0.85 * step, color=LIGHT, edgecolor="black", linewidth=0.4)
    if what == "share":
        ax.set_xticks([0, 0.5, 1])
    else:
        ax.locator_params(axis="x", integer=True)
    ax.set(xlabel=VOTES_LABELS[what], ylabel="triplets")
    return tidy(ax)


def votes_by_M(n: IntArray, M: IntArray, axes: Sequence[Axes]) -> None:
    """Draw the distribution of n for each M, one panel each, from the least M on.

    Often there are many triplets with few votes and few with many: in one panel the latter would be invisible.

    Parameters
    ----------
    n, M : array of int, shape (T,)
        Of M people who judged the triplet, n chose x1.
    axes : sequence of Axes
        Superfluous ones stay empty; if there are too few, the largest M are not shown.
    """
    n, M = np.asarray(n), np.asarray(M)
    kinds = np.unique(M)
    for ax, m in zip(axes, kinds, strict=False):
        counts = np.bincount(n[m == M], minlength=m + 1)
        ax.bar(range(m + 1), counts, 0.85, color=LIGHT, edgecolor="black", linewidth=0.4)
        ax.locator_params(integer=True, nbins=min(int(m) + 1, 5), axis="x")
        ax.locator_params(integer=True, nbins=3, axis="y")
        ax.set_title(f"M = {m}", fontsize=SMALL)
        ax.set(xlim=(-0.6, m + 0.6), xlabel="n")
        tidy(ax)
    for ax in axes[len(kinds) :]:
        ax.set_axis_off()


def functions(values: Mapping[str, tuple[FloatArray, FloatArray]]) -> Figure:
    """Draw increasing functions, d and f(d) by name, in panels of one height: the parts of a fused distance."""
    across = min(len(values), 4)
    width = COLUMN if across < 3 else PAGE
    figure, axes = panels(len(values), across, width, 1.15 * width / max(across, 2), extra=0.2)
    for (name, (d, f)), ax in zip(values.items(), axes, strict=True):
        ax.plot(d, f, color=DARK, linewidth=1.3)
        ax.set_xlim(0, float(d[-1]))
        ax.locator_params(axis="x", nbins=4)
        verbatim(tidy(ax).set_title(name, fontsize=LABEL, pad=3))
    axes[0].set_ylim(bottom=0)
    figure.supxlabel("distance", fontsize=LABEL)
    figure.supylabel("contribution (logits)", fontsize=LABEL)
    return figure


# Studies: how large, which triplets, and the difference as votes come in


def study_contour(
    T: FloatArray,
    M: FloatArray,
    values: FloatArray,
    ax: Axes,
    *,
    label: str,
    level: float,
    cost: FloatArray,
    cost_label: str,
    best: tuple[int, int] | None,
) -> Axes:
    """Draw power, or a standard error, over the number of triplets and the votes on each, with lines of equal cost.

    ``values`` and ``cost`` have shape (triplets, votes). The requested level is a thick line, the chosen study ``best``
    a diamond, and ``cost_label`` says what the dashed lines count.
    """
    _logarithmic(ax, ",.0f")
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
    ax.set_title(f"{label} (solid), {cost_label} (dashed)")
    return tidy(ax)


def chosen_triplets(a: FloatArray, b: FloatArray, chosen: BoolArray, ax: Axes, *, names: tuple[str, str]) -> Axes:
    """Draw the chances of x1 that two distances predict for each triplet of a pool, with those that were chosen."""
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
    margin: float | None,
) -> Axes:
    """Draw the difference after each batch with its always-valid interval, against the votes so far.

    ``label`` names the difference; the one to detect, ``margin``, is drawn on both sides of 0.
    """
    ax.fill_between(votes, low, high, color=LIGHT, alpha=0.5, linewidth=0)
    ax.plot(votes, difference, "o-", color=DARK, markersize=3.5, linewidth=1.1)
    ax.axhline(0, color="black", linewidth=0.7)
    for end in () if margin is None else (-margin, margin):
        ax.axhline(end, color=MARK, linewidth=0.7, linestyle=(0, (4, 2)))
    ax.set(xlabel="votes so far", ylabel=label, xlim=(0, None))
    return tidy(ax)

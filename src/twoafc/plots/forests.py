"""The table of scores as a figure: one line per distance, with its error bar."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from twoafc.plots.style import DARK, LEAST, SMALL, UNKNOWN, tidy, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Reference = float | tuple[float, float]
APART = 0.25
"""Names above the figure that are closer than this share of its width stand at different heights."""


class ForestRow(NamedTuple):
    """A score with its interval, the letters it shares with what it cannot be told from, and the block it stands in."""

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
    """Draw scores with their error bars, the best at the top; rows of one group stand together under its name.

    Parameters
    ----------
    rows : sequence of ForestRow
        A value that is not a number, of a run that diverged, comes last and has no point.
    label : str
        Name of the score.
    better : {"lower", "higher"}
        Which scores are the best.
    reference : mapping of name to float or (low, high), optional
        What the scores are held against, such as a floor and a ceiling: a line, or a band where known roughly.
    """
    if better not in ("lower", "higher"):
        raise ValueError(f"better must be lower or higher; found {better!r}")
    lines = _arranged(rows, better)
    for y, line in enumerate(lines):
        if isinstance(line, ForestRow):
            _row(line, y, ax)
    for value in (reference or {}).values():
        _reference(value, ax)
    ax.set_yticks(range(len(lines)), [line.name if isinstance(line, ForestRow) else line for line in lines])
    ax.set_ylim(max(len(lines), 1) - 0.5, -0.5)
    # From the right, so that it has room beneath the names where they are long.
    ax.set_xlabel(f"{label} ({better} is better)", loc="right")
    tidy(ax).tick_params(axis="y", length=0)
    for text, line in zip(ax.get_yticklabels(), lines, strict=True):
        verbatim(text).set_fontweight("normal" if isinstance(line, ForestRow) else "bold")
    ax.spines["left"].set_visible(False)
    ax.grid(axis="y", color="0.92", linewidth=0.5)
    ax.set_axisbelow(True)
    _name_references(reference or {}, ax)
    return ax


def _arranged(rows: Sequence[ForestRow], better: str) -> list[ForestRow | str]:
    """Order rows, the best first, and put each group's name above its own; groups come as they first appear."""
    sign = 1 if better == "lower" else -1
    lines: list[ForestRow | str] = []
    for group in dict.fromkeys(row.group for row in rows):
        lines += [group] if group else []
        held = [row for row in rows if row.group == group]
        held.sort(key=lambda row: sign * row.value if math.isfinite(row.value) else math.inf)
        lines += held
    return lines


def _row(row: ForestRow, y: int, ax: Axes) -> None:
    if math.isfinite(row.value):
        ends = [max(row.value - row.low, 0), max(row.high - row.value, 0)]
        bar = [[end] for end in ends] if all(map(math.isfinite, ends)) else None
        ax.errorbar(row.value, y, xerr=bar, fmt="o", color=DARK, markersize=3.5, linewidth=1.1)
    if row.letters:
        right = ax.get_yaxis_transform()
        verbatim(ax.text(1.02, y, row.letters, transform=right, fontsize=SMALL, va="center"))


def _reference(value: Reference, ax: Axes) -> None:
    if isinstance(value, tuple):
        ax.axvspan(*value, color=UNKNOWN, linewidth=0, zorder=0)
    else:
        ax.axvline(value, color="0.4", linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)


def _name_references(reference: Mapping[str, Reference], ax: Axes) -> None:
    """Write names above what they name, one higher than the last where it stands too near."""
    middles = {name: sum(value) / 2 if isinstance(value, tuple) else value for name, value in reference.items()}
    left, right = ax.get_xlim()
    before, height = -math.inf, 0
    for name, x in sorted(middles.items(), key=lambda each: each[1]):
        height = height + 1 if x - before < APART * (right - left) else 0
        above, lift = ("data", "axes fraction"), 2 + 1.2 * LEAST * height
        text = ax.annotate(name, (x, 1), (0, lift), above, "offset points", fontsize=LEAST, ha="center", va="bottom")
        verbatim(text)
        before = x

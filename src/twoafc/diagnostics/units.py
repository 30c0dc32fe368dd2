"""A distance in other units in the test table than in the training table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.diagnostics.finding import Finding
from twoafc.diagnostics.view import View

FACTORS = (2.0, 10.0, 100.0, 255.0, 256.0, 1000.0, 10_000.0, 65_025.0, 65_535.0, 1e6)
"""That people scale images and distances by."""
SMALL_FACTOR = 5.0
FEWEST_ROWS, FEWEST_TRAINING = 30, 100
"""Of each table, to compare their distributions; of the training table, to speak of its range."""
NEAR, SHIFTED, FAR, APART = 0.2, 0.25, 0.4, 0.9
"""Least distance of two distribution functions where a simple change reconciles them and all other distances agree;
where a usual factor does; where the others agree; where nothing else is known."""
ALIKE = SIMILAR = 0.05
OUTSIDE, FAR_OUTSIDE = 0.05, 0.25
"""Share of test values beyond the training range that is worth a note, and a warning."""


@dataclass(frozen=True)
class Change:
    """What makes test values look like training values: in words, and how far apart the two stay."""

    words: str
    usual: bool
    left: float
    small: bool = False


def units(train: View, test: View) -> list[Finding]:
    """Compare the distribution of each distance in the two tables."""
    if min(len(train.table), len(test.table)) < FEWEST_ROWS:
        return []
    shared = [name for name in test.varying if name in train.varying]
    samples = {name: (train.columns[name].quantiles, test.columns[name].quantiles) for name in shared}
    gaps = {name: gap(*pair) for name, pair in samples.items()}
    noise = 1.6 * np.sqrt(sum(1 / _weight(view) for view in (train, test)))
    found: list[Finding] = []
    for name in shared:
        others = [gaps[other] for other in shared if other != name]
        change = min(_changes(*samples[name], _weight(test)), key=_unlikely)
        # What the other distances differ by shows better than theory what is usual between these tables.
        usual = min(noise, 2 * float(np.median(others)) + 0.01) if len(others) > 1 else noise
        others_agree = bool(others) and float(np.median(others)) <= SIMILAR
        if others and not others_agree and _moved_apart(name, samples):
            # All distances differ, each by its own: other images, of which some double a distance by accident.
            change = replace(change, usual=change.usual and not change.small)
        if _jump(gaps[name] - usual, change, others_agree, usual, samples[name]):
            found.append(_told(name, gaps[name], change, others, *samples[name]))
        else:
            found += _outside(train, test, name)
    return found


def gap(a: FloatArray, b: FloatArray) -> float:
    """Kolmogorov's distance of two samples, each sorted.

    Examples
    --------
    >>> gap(np.array([1.0, 2.0]), np.array([2.0, 3.0])), gap(np.array([1.0]), np.array([2.0]))
    (0.5, 1.0)
    """
    points = np.concatenate([a, b])
    shares = [np.searchsorted(sample, points, side="right") / len(sample) for sample in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def _weight(view: View) -> float:
    """Rows, counted down where a few references give many."""
    return len(view.table) if view.unit is None else min(len(view.table), 4 * (int(view.unit.max()) + 1))


def _jump(shift: float, change: Change, others_agree: bool, noise: float, pair: tuple[FloatArray, FloatArray]) -> bool:
    reconciled = change.left <= ALIKE + noise
    if shift >= (NEAR if others_agree else SHIFTED) and reconciled and (change.usual or others_agree):
        return True
    if shift >= FAR and others_agree:
        return True
    middles = [abs(float(np.median(sample))) for sample in pair]
    return shift >= APART and max(middles) > 10 * min(middles)


def _moved_apart(name: str, samples: dict[str, tuple[FloatArray, FloatArray]]) -> bool:
    """Whether the other distances moved by other factors than this one."""
    factors = {each: np.median(b) / np.median(a) for each, (a, b) in samples.items()}
    alike = [bool(abs(factors[each] / factors[name] - 1) < 0.05) for each in factors if each != name]
    return sum(alike) < len(alike) / 2


def _unlikely(change: Change) -> float:
    """Rank changes by what they leave, the usual a little ahead; to two digits, so that the first of equals wins."""
    return round(change.left - 0.03 * change.usual, 2)


def _changes(a: FloatArray, b: FloatArray, weight: float) -> Iterator[Change]:
    """Give ways to make the sample b look like a."""
    yield from _scaled(a, b, weight)
    if a[0] >= -0.5 and b[0] >= -0.5 and max(a[-1], b[-1]) <= 1.001:
        yield Change("test holds 1 - x of the training values", True, gap(a, np.sort(1 - b)))
    yield Change("test holds -x of the training values", True, gap(a, np.sort(-b)))
    if min(a[0], b[0]) >= 0 and np.median(b) > 0:
        shapes: dict[str, Callable[[FloatArray], FloatArray]] = {"square": np.sqrt, "square root": np.square}
        for words, undo in shapes.items():
            straight = undo(b)
            factor = np.median(a) / np.median(straight)
            yield Change(
                f"test holds the {words} of the training values, up to a factor", False, gap(a, factor * straight)
            )


def _scaled(a: FloatArray, b: FloatArray, weight: float) -> Iterator[Change]:
    middle_a, middle_b = np.median(a), np.median(b)
    if middle_a * middle_b <= 0:
        return
    factor = middle_b / middle_a
    # A median is known to about 1.25 standard deviations over the root of the number of values.
    spread = float(np.diff(np.quantile(np.log(np.abs(b[b != 0])), [0.25, 0.75]))[0]) / 1.35
    room = min(0.02 + 2.5 * spread / np.sqrt(weight), 0.1)
    for usual in FACTORS:
        for known, words in ((usual, f"times {usual:g}"), (1 / usual, f"divided by {usual:g}")):
            if abs(factor / known - 1) <= room:
                yield Change(f"test is train {words}", True, gap(a, b / known), small=usual < SMALL_FACTOR)
    yield Change(f"test is train times {factor:.3g}", False, gap(a, b / factor))


def _told(name: str, before: float, change: Change, others: list[float], a: FloatArray, b: FloatArray) -> Finding:
    figures = [
        f"median {np.median(a):.3g} in train, {np.median(b):.3g} in test; the two distributions are {before:.2f} apart"
    ]
    if change.left < 0.5 * before:
        figures.append(f"{change.words}: {change.left:.2f} apart then")
    if others:
        figures.append(f"the other distances are {np.median(others):.2f} apart")
    return Finding(
        "units",
        "warning",
        "both",
        name,
        f"train and test must give {name} in the same units; they do not seem to",
        "; ".join(figures),
        "measure both with the same code, range of pixel values and version; a surface fitted on one does not serve "
        "the other",
    )


def _outside(train: View, test: View, name: str) -> list[Finding]:
    known, column = train.columns[name].U.values, test.columns[name]
    beyond = sum(int(((d < known[0]) | (d > known[-1])).sum()) for d in (column.d0, column.d1))
    share = beyond / (2 * len(test.table))
    # Of two samples of one kind, the second passes the range of the first by two parts in its number.
    if len(train.table) < FEWEST_TRAINING or share < OUTSIDE + 8 / _weight(train):
        return []
    return [
        Finding(
            "units",
            "warning" if share >= FAR_OUTSIDE else "note",
            "both",
            name,
            f"many test values of {name} lie outside of the training range, where a fit knows nothing",
            f"{100 * share:.1f} % of test values are outside of {known[0]:.3g}..{known[-1]:.3g}",
            "train on data that covers the test; beyond the range all distances count as its end",
        )
    ]

"""Values of a distance: constant, tied, negative, given twice, or in different units in train and test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.diagnostics.findings import Finding, Level, share_of
from twoafc.diagnostics.profile import Column, Profile

MIN_ROWS = 5  # fewer rows say nothing about the values of a distance
MIN_TIES, MANY_TIES, MOST_TIES = 10, 0.1, 0.25
ROUNDING = 1e-4  # relative to the largest value; values less than this below zero are rounding errors

FACTORS = (2.0, 10.0, 100.0, 255.0, 256.0, 1000.0, 10_000.0, 65_025.0, 65_535.0, 1e6)
"""Usual factors between scales of images and distances."""
SMALL_FACTOR = 5.0
MIN_ROWS_UNITS, MIN_ROWS_RANGE = 30, 100
"""Rows of each table to compare distributions; rows of the training table to compare ranges."""
GAP_SIMPLE, GAP_FACTOR, GAP_FAR, GAP_ANY = 0.2, 0.25, 0.4, 0.9
"""Least Kolmogorov distance for a finding: if a simple change reconciles the tables and all other distances agree; if a
usual factor does; if the others agree; otherwise."""
SIMILAR = 0.05  # Kolmogorov distance of distributions that count as equal
OUTSIDE, FAR_OUTSIDE = 0.05, 0.25
"""Share of test values outside the training range for a note, and for a warning."""


def values(profile: Profile) -> Iterator[Finding]:
    """Check the values of each distance: constant, negative, or the same as those of another."""
    rows = len(profile.table)
    if rows < MIN_ROWS:
        return
    earlier: dict[str, Column] = {}
    for name, column in profile.columns.items():
        if column.constant is not None:
            message = f"a distance must vary; {name} is {'nearly ' * (len(column.times) > 1)}constant"
            remedy = "measure it again and write all its digits, or leave it out"
            yield Finding("constant", "warning", profile.role, name, message, column.constant, remedy)
        smallest, largest = column.uniform.values[[0, -1]].tolist()
        if smallest < -ROUNDING * max(abs(smallest), abs(largest)):
            below = sum(int((d < 0).sum()) for d in column.d)
            message = f"a distance is at least 0; {name} has negative values"
            evidence = f"{share_of(below, profile.table.k * rows)} values are below 0, the least is {smallest:g}"
            remedy = "check that it is a distance, smaller = closer, and not a similarity, a logarithm or a difference"
            yield Finding("negative", "note", profile.role, name, message, evidence, remedy)
        twin = next((other for other in earlier if np.array_equal(column.d, earlier[other].d)), None)
        if twin is not None and column.constant is None:
            message = f"{name} and {twin} are the same distance under two names"
            remedy = "check that both were measured; leave one out"
            yield Finding("twins", "note", profile.role, name, message, f"all {rows} rows are equal", remedy)
        earlier[name] = column


def sides(profile: Profile) -> Iterator[Finding]:
    """Check d0 against d1: one of them fixed, or both equal."""
    rows = len(profile.table)
    if rows < MIN_ROWS:
        return
    for name, column in profile.varying.items():
        fixed = [side for side, d in enumerate(column.d) if np.ptp(d) == 0]
        if fixed:
            # An error at 0, else maybe a fixed standard.
            side, value = fixed[0], column.d[fixed[0]][0]
            message = f"d{side} of {name} is the same in every row"
            evidence = f"d{side} = {value:g}" + (f": x{side} is the reference itself" if value == 0 else "")
            remedy = f"check which image d{side} was measured on; leave it if x{side} is one fixed standard"
            level: Level = "warning" if value == 0 else "note"
            yield Finding("constant", level, profile.role, name, message, evidence, remedy)
        ties = int((column.d[0] == column.d[1]).sum())
        # So many that another sample of such rows would have them too.
        if ties >= MIN_TIES and ties - 2 * np.sqrt(ties) >= MANY_TIES * rows:
            message = f"{name} does not distinguish x0 from x1 in many rows: d0 = d1"
            evidence = f"{share_of(ties, rows)} rows are ties; {len(column.times)} distinct values in {2 * rows}"
            remedy = (
                "write more digits if it was rounded; a tie counts as half a choice in the 2AFC score, and P is 1/2 "
                "there"
            )
            level = "warning" if ties / rows >= MOST_TIES else "note"
            yield Finding("ties", level, profile.role, name, message, evidence, remedy)


# Units of train and test


@dataclass(frozen=True)
class Change:
    """A change that makes test values similar to training values, and the Kolmogorov distance that remains."""

    words: str
    usual: bool
    left: float
    small: bool = False


def units(train: Profile, test: Profile) -> Iterator[Finding]:
    """Compare the distribution of each distance in the two tables."""
    if min(len(train.table), len(test.table)) < MIN_ROWS_UNITS:
        return
    names = [name for name in test.varying if name in train.varying]
    samples = {name: (train.columns[name].quantiles, test.columns[name].quantiles) for name in names}
    gaps = {name: kolmogorov(*pair) for name, pair in samples.items()}
    medians = {name: (float(np.median(a)), float(np.median(b))) for name, (a, b) in samples.items()}
    factors = {name: np.divide(b, a) for name, (a, b) in medians.items()}
    sampling = 1.6 * float(np.sqrt(1 / train.effective_rows + 1 / test.effective_rows))
    for name in names:
        others = [gaps[other] for other in names if other != name]
        # The change that leaves least, usual ones a little ahead; to two digits, so that the first of equals wins.
        changes = _changes(*samples[name], test.effective_rows)
        change = min(changes, key=lambda change: round(change.left - 0.03 * change.usual, 2))
        # The other distances show better than theory how much these tables differ.
        noise = min(sampling, 2 * float(np.median(others)) + 0.01) if len(others) > 1 else sampling
        others_agree = bool(others) and float(np.median(others)) <= SIMILAR
        alike = [abs(factors[other] / factors[name] - 1) < 0.05 for other in names if other != name]
        if others and not others_agree and sum(alike) < len(alike) / 2:
            # All distances differ, each by its own factor: other images, and a factor of 2 may be chance.
            change = replace(change, usual=change.usual and not change.small)
        if _other_units(gaps[name] - noise, change, others_agree, noise, medians[name]):
            yield _units_finding(name, gaps[name], change, others, *medians[name])
        else:
            yield from _outside(train, test, name)


def kolmogorov(a: FloatArray, b: FloatArray) -> float:
    """Kolmogorov distance of two sorted samples."""
    points = np.concatenate([a, b])
    shares = [np.searchsorted(sample, points, side="right") / len(sample) for sample in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def _other_units(shift: float, change: Change, others_agree: bool, noise: float, medians: tuple[float, float]) -> bool:
    """Whether distributions that differ by so much more than noise show other units."""
    reconciled = change.left <= SIMILAR + noise
    if shift >= (GAP_SIMPLE if others_agree else GAP_FACTOR) and reconciled and (change.usual or others_agree):
        return True
    least, largest = sorted(map(abs, medians))
    return (shift >= GAP_FAR and others_agree) or (shift >= GAP_ANY and largest > 10 * least)


def _changes(a: FloatArray, b: FloatArray, rows: float) -> Iterator[Change]:
    """Candidate changes that may explain how the sample b differs from a."""
    yield from _scaled(a, b, rows)
    if a[0] >= -0.5 and b[0] >= -0.5 and max(a[-1], b[-1]) <= 1.001:
        yield Change("test values are 1 - x of the training values", True, kolmogorov(a, np.sort(1 - b)))
    yield Change("test values are -x of the training values", True, kolmogorov(a, np.sort(-b)))
    if min(a[0], b[0]) >= 0 and np.median(b) > 0:
        shapes: dict[str, Callable[[FloatArray], FloatArray]] = {"square": np.sqrt, "square root": np.square}
        for words, undo in shapes.items():
            straight = undo(b)
            factor = np.median(a) / np.median(straight)
            words = f"test values are the {words} of the training values, up to a factor"
            yield Change(words, False, kolmogorov(a, factor * straight))


def _scaled(a: FloatArray, b: FloatArray, rows: float) -> Iterator[Change]:
    median_a, median_b = np.median(a), np.median(b)
    if median_a * median_b <= 0:
        return
    factor = median_b / median_a
    # The standard error of a median is about 1.25 standard deviations over the root of the number of values.
    spread = float(np.diff(np.quantile(np.log(np.abs(b[b != 0])), [0.25, 0.75]))[0]) / 1.35
    tolerance = min(0.02 + 2.5 * spread / np.sqrt(rows), 0.1)
    for usual in FACTORS:
        for known, words in ((usual, f"times {usual:g}"), (1 / usual, f"divided by {usual:g}")):
            if abs(factor / known - 1) <= tolerance:
                yield Change(f"test is train {words}", True, kolmogorov(a, b / known), small=usual < SMALL_FACTOR)
    yield Change(f"test is train times {factor:.3g}", False, kolmogorov(a, b / factor))


def _units_finding(name: str, gap: float, change: Change, others: list[float], a: float, b: float) -> Finding:
    message = f"train and test must give {name} in the same units; they do not seem to"
    evidence = f"median {a:.3g} in train, {b:.3g} in test; Kolmogorov distance of the distributions {gap:.2f}"
    if change.left < 0.5 * gap:
        evidence += f"; {change.words}: {change.left:.2f} after this change"
    if others:
        evidence += f"; {np.median(others):.2f} for the other distances"
    remedy = (
        "measure both with the same code, version and range of pixel values; a surface fitted to one is wrong for the "
        "other"
    )
    return Finding("units", "warning", "both", name, message, evidence, remedy)


def _outside(train: Profile, test: Profile, name: str) -> Iterator[Finding]:
    known = train.columns[name].uniform.values
    low, high = known[0], known[-1]
    outside = sum(int(((d < low) | (d > high)).sum()) for d in test.columns[name].d)
    share = outside / (test.table.k * len(test.table))
    # Between samples of one kind, about 2 / rows of the second lie outside the range of the first.
    if len(train.table) >= MIN_ROWS_RANGE and share >= OUTSIDE + 8 / train.effective_rows:
        message = f"many test values of {name} lie outside the training range, where the fit has no data"
        evidence = f"{100 * share:.1f} % of test values are outside {low:.3g}..{high:.3g}"
        remedy = "train on data that covers the test; values beyond the range are treated as its end"
        yield Finding("units", "warning" if share >= FAR_OUTSIDE else "note", "both", name, message, evidence, remedy)

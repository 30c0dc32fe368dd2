"""Is A really better than B? Paired differences between distances on the same triplets.

How a p-value comes about (`compare`): the values of two distances on each row are subtracted; the mean of the
differences has a clustered standard error (`errorbars`), to which the noise of training is added (`training`) or the
spread over refits; Student's t gives p (`intervals`), and Holm's method corrects it for the number of pairs
(`corrected`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.inference.bootstrap import spread
from twoafc.inference.errorbars import Clustering, Means, Values
from twoafc.inference.intervals import LEVEL, difference_interval, holm_factors, p_text, p_value
from twoafc.inference.scores import Record
from twoafc.inference.training import combined_units, training_variance


@dataclass(frozen=True)
class Criterion:
    """How distances are compared by a measure."""

    better: int  # 1 where larger is better, else -1
    verb: str
    unit: str
    decimals: int  # in sentences; more where the interval is narrower
    same: str  # in words, of two distances with the same value on every row


def _nll(row: str) -> Criterion:
    return Criterion(-1, "explains the votes better than", f"nats per {row}", 2, f"have the same NLL on every {row}")


def _score_2afc(verb: str, what: str) -> Criterion:
    return Criterion(1, verb, f"% of votes ({what})", 1, "have the same 2AFC score on every triplet")


COMPARED = {
    2: {
        "nll": _nll("triplet"),
        "score_2afc": _score_2afc("agrees with more votes, as fitted, than", "2AFC"),
        "score_2afc_distance": _score_2afc("agrees with more votes than", "2AFC of the distance alone"),
    },
    1: {
        "nll": _nll("pair"),
        "average_precision": Criterion(
            1, "puts same pairs first better than", "% average precision", 1, "order the pairs alike"
        ),
    },
}
"""By which measures distances are compared: on triplets (2), and on pairs (1)."""


def compare(
    values: Mapping[str, Values],
    clustering: Clustering,
    *,
    estimator: str,
    measures: Mapping[str, Criterion] | None = None,
    drawn: Mapping[str, FloatArray] | None = None,
    refitted: Mapping[str, FloatArray] | None = None,
) -> list[Record]:
    """Compare all distances with each other on the same triplets.

    Parameters
    ----------
    values : mapping of distance to `Values`
        All of the same rows, fitted by the same estimator.
    measures : mapping of name to Criterion, optional
        What to compare by. Default: those of `COMPARED`.
    drawn, refitted : mapping of distance to array, shape (draws, measures), optional
        Scores on drawn tables, the same for all distances, whose spread replaces the standard error; and scores of
        surfaces fitted to drawn training tables, whose variance is added to that of the test triplets.

    Returns
    -------
    list of records
        ``a`` (the better one), ``b``, ``estimator``, ``measure``, ``df`` (of Student's t: the effective number of
        clusters less one, combined with those of training), ``difference`` (a minus b: negative for an NLL), ``se``,
        ``low``, ``high``, ``p`` (of this pair alone), and what `corrected` adds.
    """
    if not values:
        return []
    names = next(iter(values.values())).measures
    if measures is None:
        measures = COMPARED[1 if "average_precision" in names else 2]
    records: list[Record] = []
    for name, measure in measures.items():
        k = names.index(name)
        means = {name: float(_mean(each, each.columns[:, k], k, clustering)) for name, each in values.items()}
        pairs = [_better_first(pair, means, measure.better) for pair in combinations(values, 2)]
        with np.errstate(invalid="ignore"):  # an infinite NLL cannot be compared
            differences = _differences([(values[a], values[b]) for a, b in pairs], k, clustering)
            for (a, b), difference in zip(pairs, differences, strict=True):
                difference = _with_training(difference, values[a], values[b], k, clustering)
                if drawn is not None:
                    replicates = drawn[a][:, k] - drawn[b][:, k]
                    units = min(difference.units, len(replicates))
                    difference = difference._replace(se=float(spread(replicates)), units=units)
                if refitted is not None:
                    replicates = refitted[a][:, k] - refitted[b][:, k]
                    difference = difference.plus(float(spread(replicates)) ** 2, len(replicates) - 1)
                difference = _with_seeds(difference, values[a], values[b], k, clustering)
                interval, p = difference_interval(*difference), p_value(*difference)
                known = bool(np.isfinite(interval).all())
                figures = dict(zip(("difference", "se", "low", "high", "p"), (*interval, p), strict=True))
                head = {"a": a, "b": b, "estimator": estimator, "measure": name, "df": difference.units - 1}
                records.append(head | (figures if known else dict.fromkeys(figures)))
    return corrected(records, measures)


def corrected(records: Sequence[Record], measures: Mapping[str, Criterion]) -> list[Record]:
    """Correct comparisons for their number, within each estimator and measure, by Holm's method, and word them.

    The corrected interval of a pair has the level that Holm's method tests this pair at: it excludes 0 exactly where
    the corrected p-value is below 0.05. Added are ``p_holm``, ``low_holm``, ``high_holm``, ``tests`` (how many
    comparisons were corrected for), ``different`` (p_holm is below 0.05) and ``sentence``.
    """
    families: dict[tuple[str, str], list[int]] = {}
    for place, record in enumerate(records):
        families.setdefault((record["estimator"], record["measure"]), []).append(place)
    found = list(records)
    for (_, name), places in families.items():
        p = [np.nan if records[place]["p"] is None else records[place]["p"] for place in places]
        tests = int(np.isfinite(p).sum())
        for place, factor in zip(places, holm_factors(p).tolist(), strict=True):
            found[place] = _corrected(records[place], measures[name], factor, tests)
    return found


def _corrected(record: Record, measure: Criterion, factor: float, tests: int) -> Record:
    a, b, p = record["a"], record["b"], record["p"]
    if p is None:
        unknown = dict.fromkeys(("p_holm", "low_holm", "high_holm"))
        words = f"{a} and {b} cannot be compared: a mean or its error is not finite"
        return record | unknown | {"tests": tests, "different": False, "sentence": words}
    level, p = 1 - (1 - LEVEL) / factor, min(p * factor, 1.0)
    interval = difference_interval(record["difference"], record["se"], record["df"] + 1, level=level)
    return record | {
        "p_holm": p,
        "low_holm": interval.low,
        "high_holm": interval.high,
        "tests": tests,
        "different": bool(p < 1 - LEVEL),
        "sentence": sentence(measure, a, b, interval, p, tests=tests),
    }


def planned_pairs(
    names: Collection[str], baseline: str | None = None, pairs: Sequence[Sequence[str]] = ()
) -> list[tuple[str, str]]:
    """Pairs of distances that were planned: each with the baseline, and those that are named; none twice."""
    if isinstance(pairs, str) or any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
        raise ValueError(f'pairs must be a list of two names each, [("lpips", "ssim")]; got {pairs!r}')
    asked = [] if baseline is None else [(name, baseline) for name in names if name != baseline]
    asked += [(one, other) for one, other in pairs]
    for name in [*([] if baseline is None else [baseline]), *(name for pair in pairs for name in pair)]:
        if name not in names:
            raise ValueError(f"no distance {name!r} to compare; there are {', '.join(names)}")
    for one, other in asked:
        if one == other:
            raise ValueError(f"a comparison needs two different distances; got {one} twice")
    if baseline is not None and not asked:
        raise ValueError(f"a baseline needs another distance to compare with; the table has only {baseline}")
    return [*{frozenset(pair): pair for pair in asked}.values()]


def keep_planned(
    records: Sequence[Record], planned: Sequence[tuple[str, str]], measures: Mapping[str, Criterion]
) -> list[Record]:
    """Keep the comparisons that were planned, corrected for these alone; all of them where none was planned."""
    if not planned:
        return list(records)
    asked = {frozenset(pair) for pair in planned}
    return corrected([record for record in records if {record["a"], record["b"]} in asked], measures)


class Difference(NamedTuple):
    """Mean difference of two distances, its standard error, and its effective number of units."""

    mean: float
    se: float
    units: float

    def plus(self, variance: float, df: float) -> Difference:
        """Add the variance that training or seeds bring, with its degrees of freedom, to the error."""
        units = combined_units(self.se**2, self.units, variance, df)
        return Difference(self.mean, float(np.sqrt(self.se**2 + variance)), float(units))


def paired_difference(a: Values, b: Values, measure: str, clustering: Clustering) -> Difference:
    """Mean of a measure by one distance less that by another, on the same rows.

    The error includes the noise of training, where `a` or `b` has fits to halves, and the spread over seeds.
    """
    k = a.measures.index(measure)
    with np.errstate(invalid="ignore"):  # of infinite NLLs
        (difference,) = _differences([(a, b)], k, clustering)
        return _with_seeds(_with_training(difference, a, b, k, clustering), a, b, k, clustering)


def _better_first(pair: tuple[str, str], means: Mapping[str, float], better: int) -> tuple[str, str]:
    """Put the better of two distances first; those of which a mean is not finite stay."""
    ahead = better * (means[pair[1]] - means[pair[0]])
    return pair[::-1] if np.isfinite(ahead) and ahead > 0 else pair


def _mean(values: Values, columns: FloatArray, k: int, clustering: Clustering) -> FloatArray:
    """Mean of columns of measure k, with plain sums, so that means of round numbers are round."""
    weights = clustering.rows.sampling
    return np.asarray(np.average(columns, axis=0, weights=weights) / np.average(values.size(k), weights=weights))


def _means(values: Values, k: int, columns: int, clustering: Clustering) -> Means:
    """How means of some columns of measure k are taken."""
    sizes = np.broadcast_to(values.size(k)[:, None], (len(values.M), columns))
    return Means(clustering, sizes, clustering.rows.shares(), clustering.rows.whole)


def _differences(pairs: Sequence[tuple[Values, Values]], k: int, clustering: Clustering) -> list[Difference]:
    """Mean differences of pairs by measure k, with clustered standard errors over the tested rows."""
    if not pairs:
        return []
    means = _means(pairs[0][0], k, len(pairs), clustering)
    apart, effects = np.stack([a.columns[:, k] - b.columns[:, k] for a, b in pairs], axis=1), None
    if clustering.ballots is not None:
        effects = np.stack([a.vote_effects[:, k] - b.vote_effects[:, k] for a, b in pairs], axis=1)  # type: ignore[index]
    difference, units = _mean(pairs[0][0], apart, k, clustering), float(means.units()[0])
    errors = np.sqrt(means.variance(means.influence(apart), effects)[0])
    return [Difference(*estimate, units) for estimate in zip(difference.tolist(), errors.tolist(), strict=True)]


def _with_training(difference: Difference, a: Values, b: Values, k: int, clustering: Clustering) -> Difference:
    """Add the noise of training to the error of a difference; splits are paired, and one may have no fits to halves."""
    known = [values.halves for values in (a, b) if values.halves is not None]
    if not known:
        return difference
    splits = min(len(halves.apart) for halves in known)
    first, *second = (halves.apart[:splits, :, k].T for halves in known)  # one column for each split
    means, variances = _means(a, k, splits, clustering).estimate(first - sum(second))
    crossed, over_rows = all(halves.crossed for halves in known), difference.se**2
    (variance,) = training_variance(means.T, variances.T, [a.measures[k]], crossed=crossed, over_rows=over_rows)
    return difference.plus(float(variance), min(halves.df for halves in known))


def _with_seeds(difference: Difference, a: Values, b: Values, k: int, clustering: Clustering) -> Difference:
    """Add the variance of a mean over seeds to the error of a difference; the seeds of two distances are paired."""
    first, second = (np.array([_mean(each, run[:, k], k, clustering) for run in each.runs]) for each in (a, b))
    parts = [first - second] if len(first) == len(second) else [first, second]
    for part in parts:
        if len(part) > 1:
            difference = difference.plus(float(np.var(part, ddof=1)) / len(part), len(part) - 1)
    return difference


def sentence(measure: Criterion, a: str, b: str, interval: Sequence[float], p: float, *, tests: int = 1) -> str:
    """Describe a difference in one sentence that may be quoted.

    `interval` is a minus b, its standard error and two ends; like the p-value, corrected for the number of tests.

    Examples
    --------
    >>> sentence(COMPARED[2]["nll"], "lpips", "ssim", (-0.38, 0.005, -0.39, -0.37), 1e-9)
    'lpips explains the votes better than ssim: 0.38 nats per triplet, 95 % interval 0.37 to 0.39, p < 0.0001'
    >>> print(sentence(COMPARED[2]["nll"], "lpips", "dists", (-0.001, 0.002, -0.005, 0.003), 0.6, tests=3))
    lpips and dists cannot be told apart: lpips is ahead by 0.001 nats per triplet, 95 % interval -0.003 to 0.005,
    p = 0.60 (Holm)
    """
    if interval[0] == interval[1] == 0:
        return f"{a} and {b} {measure.same}"
    figures = advantage(measure, interval, p, tests=tests)
    if p < 1 - LEVEL:
        return f"{a} {measure.verb} {b}: {figures}"
    return f"{a} and {b} cannot be told apart: {a} is ahead by {figures}"


def advantage(measure: Criterion, interval: Sequence[float], p: float, *, tests: int = 1) -> str:
    """Write a difference as the advantage of the better distance, with its interval and p-value."""
    value, _, low, high = interval
    width = max((high - low) / 2, 1e-6 * abs(value))
    decimals = max(measure.decimals, round(0.45 - np.log10(width))) if width > 0 else measure.decimals + 2
    # Enough decimals to see on which side of 0 the nearer end lies.
    nearest = min(abs(low), abs(high))
    if 0 < nearest < 0.5 * 10.0**-decimals:
        decimals = min(decimals + 2, math.ceil(-math.log10(nearest)))
    signed = (measure.better * value, *sorted((measure.better * low, measure.better * high)))
    ahead, *ends = (f"{round(number, decimals) + 0.0:.{decimals}f}" for number in signed)  # no -0.00
    holm = " (Holm)" if tests > 1 else ""
    return f"{ahead} {measure.unit}, {100 * LEVEL:g} % interval {ends[0]} to {ends[1]}, {p_text(p)}{holm}"


def lettered(comparisons: Sequence[Record], means: Mapping[str, float], measure: str, *, better: int) -> dict[str, str]:
    """Letters of distances under one measure, the best first; distances that share a letter cannot be told apart.

    `comparisons` are those of one estimator, `means` the score of each distance.
    """
    # A mean that is not finite cannot be compared, and has no letter.
    names = sorted((name for name in means if np.isfinite(means[name])), key=lambda name: -better * means[name])
    pairs = [(r["a"], r["b"]) for r in comparisons if r["measure"] == measure and r["different"]]
    return compact_letters(names, pairs)


def compact_letters(names: Sequence[str], different: Collection[tuple[str, str]]) -> dict[str, str]:
    """Assign letters to names, in their order, so that two share one exactly if they are not different.

    The compact display of Piepho (Journal of Computational and Graphical Statistics 13, 2004): sets are split wherever
    two of their members differ, and those inside another are dropped.

    Examples
    --------
    >>> compact_letters(["lpips", "dists", "ssim"], [("lpips", "ssim")])
    {'lpips': 'a', 'dists': 'ab', 'ssim': 'b'}
    """
    apart = {frozenset(pair) for pair in different}
    sets = [frozenset(names)]
    for pair in filter(apart.__contains__, map(frozenset, combinations(names, 2))):
        split = [
            kept for members in sets for kept in ([members - {one} for one in pair] if pair <= members else [members])
        ]
        distinct = list(dict.fromkeys(split))
        sets = [members for members in distinct if not any(members < other for other in distinct)]
    ordered = sorted(sets, key=lambda members: sorted(map(names.index, members)))
    return {name: "".join(_letter(k) for k, members in enumerate(ordered) if name in members) for name in names}


def _letter(number: int) -> str:
    """A to z, then a2, b2, ..."""
    turn, letter = divmod(number, len(ascii_lowercase))
    return ascii_lowercase[letter] + (str(turn + 1) if turn else "")

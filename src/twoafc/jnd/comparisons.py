"""Is A really better than B? Paired differences between distances on the same pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from twoafc.inference.comparisons import Measure
from twoafc.inference.errorbars import Together, Values
from twoafc.inference.intervals import LEVEL, Interval, holm, p_value, t_interval
from twoafc.inference.letters import letters
from twoafc.jnd.drawn import spread
from twoafc.jnd.scores import ALL_MEASURES
from twoafc.scores import Record

FloatArray = NDArray[np.float64]
COMPARED = {
    "nll": Measure(-1, "explains the votes better than", "nats per pair", 2),
    "average_precision": Measure(1, "puts same pairs first better than", "% average precision", 1),
}


def compare(
    values: Mapping[str, Values],
    link: Together,
    *,
    estimator: str,
    drawn: Mapping[str, FloatArray] | None = None,
) -> list[Record]:
    """Compare all distances with each other on the same pairs.

    Parameters
    ----------
    values : mapping of distance to `Values`
        All of the same rows, fitted by the same estimator: see `twoafc.jnd.errorbars.values_of`.
    drawn : mapping of distance to array, shape (draws, measures), optional
        Scores on tables drawn anew, the same for all distances: standard errors are then their spread.

    Returns
    -------
    list of records
        ``a``, ``b``, ``estimator``, ``measure``, ``difference`` (of a minus b; a is the better one), ``se``, ``low``,
        ``high``, ``p``, ``p_holm`` (Holm's correction over the pairs of one measure), ``different``, ``sentence``.
    """
    found: list[Record] = []
    for measure, told in COMPARED.items():
        named = [_ordered(pair, values, measure, told.better) for pair in combinations(values, 2)]
        k = ALL_MEASURES.index(measure)
        with np.errstate(invalid="ignore"):  # an infinite NLL cannot be compared
            intervals = [_difference(values[a], values[b], k, link) for a, b in named]
            if drawn is not None:
                intervals = [
                    (t_interval(each.value, float(spread(drawn[a][:, [k]] - drawn[b][:, [k]])[0]), units), units)
                    for (a, b), (each, units) in zip(named, intervals, strict=True)
                ]
        p = [p_value(each.value, each.se, units) for each, units in intervals]
        for (a, b), (each, _), chance, corrected in zip(named, intervals, p, holm(p).tolist(), strict=True):
            found.append(_record(measure, (a, b), estimator, each, chance, corrected))
    return found


def _ordered(pair: tuple[str, str], values: Mapping[str, Values], measure: str, better: int) -> tuple[str, str]:
    """Put the better of two distances first."""
    one, other = (better * values[name].columns[:, ALL_MEASURES.index(measure)].mean() for name in pair)
    return pair if one >= other or not np.isfinite(one + other) else pair[::-1]


def _difference(a: Values, b: Values, k: int, link: Together) -> tuple[Interval, float]:
    """Mean difference of the k-th measure with its interval, and the number of units that it rests on."""
    apart = a.columns[:, [k]] - b.columns[:, [k]]
    weight = np.full(len(apart), 1 / len(apart))
    moved = None
    if a.moved is not None and b.moved is not None:
        moved = (a.moved[:, [k]] - b.moved[:, [k]]) / len(apart)
    mean = float(apart.mean())
    se = float(link.standard_errors((apart - mean) * weight[:, None], weight, moved)[0, 0])
    units = float(link.units(weight)[0])
    return t_interval(mean, se, units), units


def _record(measure: str, pair: tuple[str, str], estimator: str, found: Interval, p: float, p_holm: float) -> Record:
    known = bool(np.isfinite(found).all())
    ends = dict(zip(("difference", "se", "low", "high"), found if known else [None] * 4, strict=True))
    return {
        "a": pair[0],
        "b": pair[1],
        "estimator": estimator,
        "measure": measure,
        **ends,
        "p": p if known else None,
        "p_holm": p_holm if known else None,
        "different": bool(known and p_holm < 1 - LEVEL),
        "sentence": sentence(measure, pair, found, p_holm),
    }


def sentence(measure: str, pair: Sequence[str], found: Sequence[float], p_holm: float) -> str:
    """Tell a difference in one sentence that may be quoted.

    Examples
    --------
    >>> print(sentence("average_precision", ("lpips", "ssim"), (6.4, 0.5, 5.4, 7.4), 1e-9))
    lpips puts same pairs first better than ssim: 6.4 % average precision, 95 % interval 5.4 to 7.4, p < 0.0001 (Holm)
    >>> print(sentence("nll", ("lpips", "dists"), (-0.001, 0.002, -0.005, 0.003), 0.6))
    lpips and dists cannot be told apart: lpips is ahead by 0.001 nats per pair, 95 % interval -0.003 to 0.005,
    p = 0.60 (Holm)
    """
    a, b = pair
    told, (value, se, low, high) = COMPARED[measure], found
    if not np.isfinite(found).all():
        return f"{a} and {b} cannot be compared: a mean or its error is not finite"
    if value == se == 0:
        return f"{a} and {b} are the same on every pair"
    places = max(told.decimals, round(0.3 - np.log10((high - low) / 2))) if high > low else told.decimals + 2
    ends = sorted((told.better * low, told.better * high))
    ahead, least, most = (f"{each:.{places}f}" for each in (told.better * value, *ends))
    figure = "< 0.0001" if p_holm < 1e-4 else f"= {p_holm:.2g}" if p_holm < 0.1 else f"= {p_holm:.2f}"
    sure = f"{100 * LEVEL:g} % interval {least} to {most}, p {figure} (Holm)"
    if p_holm < 1 - LEVEL:
        return f"{a} {told.verb} {b}: {ahead} {told.unit}, {sure}"
    return f"{a} and {b} cannot be told apart: {a} is ahead by {ahead} {told.unit}, {sure}"


def with_letters(scores: Sequence[Record], comparisons: Sequence[Record]) -> list[Record]:
    """Give the tested scores, all pairs pooled, their letters: MEASURE_letters, within each estimator."""
    lettered = []
    for record in scores:
        told = {}
        if (record["split"], record["group"]) == ("test", "all"):
            for measure in COMPARED:
                told[f"{measure}_letters"] = _letters(record["estimator"], measure, scores, comparisons).get(
                    record["distance"]
                )
        lettered.append(record | told)
    return lettered


def _letters(estimator: str, measure: str, scores: Sequence[Record], comparisons: Sequence[Record]) -> dict[str, str]:
    """Letters of distances, the best first; distances that share a letter cannot be told apart."""
    better = COMPARED[measure].better
    shown = {
        record["distance"]: better * record[measure]
        for record in scores
        if (record["estimator"], record["split"], record["group"]) == (estimator, "test", "all")
        and record[measure] is not None
    }
    key = (estimator, measure, True)
    apart = [(r["a"], r["b"]) for r in comparisons if (r["estimator"], r["measure"], r["different"]) == key]
    return letters(sorted(shown, key=lambda name: -shown[name]), apart) if len(shown) > 1 else {}

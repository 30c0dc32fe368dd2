"""The verdict in words: which distance explains the votes best, how well and how clearly, and caveats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twoafc.diagnostics import join_names
from twoafc.inference import COMPARED, Ceiling, Goodness, Record, advantage, places, preference_matters
from twoafc.results.tables import all_diverged, explained, key_of, row_of, shown

if TYPE_CHECKING:
    from twoafc.results.result import Result


SAME = 1e-12
"""Differences of NLL below this are rounding errors."""
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def verdict(result: Result) -> list[str]:
    """State the result in a few sentences, the most important first."""
    ranked = ranking(result)
    if not ranked and _candidates(result):
        return ["No distance has a finite NLL: P is 0 or 1 where a vote says otherwise."]
    if not ranked:
        return ["No distance has a score: every run diverged."]
    best = ranked[0]
    goodness = result.goodness.get((best["distance"], best["estimator"]))
    return [
        *result.card.get("fusion", result.card.get("heads", {})).get("sentences", []),
        *_lead(best, ranked, result),
        _score(best),
        *_choices(ranked, result.ceiling),
        *_other_estimators(best, ranked),
        *([] if goodness is None else _faults(goodness)),
        *(f"Caution: {caveat}." for caveat in result.caveats),
        *dict.fromkeys(  # a fault of a distance may be found in train and in test
            f"Caution: {finding.message}{f' ({finding.table})' if finding.distance is None else ''}."
            for finding in result.findings
            if finding.level == "warning" and not finding.caveat
        ),
    ]


def _faults(goodness: Goodness) -> list[str]:
    """Report a P that is over- or underconfident, and a large preference for one side that no distance explains."""
    faults = [goodness.sentences()[0]] if goodness.calibration.is_off else []
    preference = goodness.asymmetry
    if preference is not None and preference_matters(preference):
        faults.append(str(preference["sentence"]))
    return [f"{text[0].upper()}{text[1:]}." for text in faults]


def ranking(result: Result) -> list[Record]:
    """Return the pooled test scores of every fit with a finite NLL, the best first; over seeds if there are several."""
    finite = [record for record in _candidates(result) if record["nll"] is not None and math.isfinite(record["nll"])]
    return sorted(finite, key=lambda record: float(record["nll"]))


def _candidates(result: Result) -> list[Record]:
    """Return the pooled test scores of every fit, unless all of its runs diverged."""
    fitted = {key_of(fit) for fit in result.card.get("fits", [])}
    records = [record for record in shown(result.scores) if not all_diverged(record)]
    # A row that was added beside the fits, such as the truth of a simulation, is no candidate.
    return [record for record in records if not fitted or key_of(record) in fitted]


def with_error(value: float, error: float | None) -> str:
    """Write a value and its standard error with the digits that the error allows.

    Examples
    --------
    >>> with_error(1.34821, 0.0526), with_error(73.529, 1.57), with_error(1.5, None)
    ('1.348 ± 0.053', '73.5 ± 1.6', '1.5000')
    """
    if error is None or not error > 1e-9 * abs(value):
        return f"{value:.4f}"
    digits = places(error, most=6)
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def nll_text(record: Record) -> str:
    """Write the NLL of a record with its standard error or, over seeds, its standard deviation."""
    return with_error(record["nll"], record.get("nll_se", record.get("nll_sd")))


def _lead(best: Record, ranked: Sequence[Record], result: Result) -> list[str]:
    """State the planned comparisons or, if none were planned, which distances lead."""
    tested = [record for record in result.comparisons if record["measure"] == "nll"]
    if not result.card.get("planned"):
        own = [record for record in tested if record["estimator"] == best["estimator"]]
        return [_leading(best, ranked, own, result.k)]
    baseline, sentences = result.card.get("baseline"), []
    labels = dict.fromkeys(record["estimator"] for record in tested)
    for label in labels:
        own = [record for record in tested if record["estimator"] == label]
        lead = f"{label}: " if len(labels) > 1 else ""
        if baseline:
            sentences.append(f"{lead}{_against(str(baseline), ranked, own)}")
        others = [record for record in own if baseline not in (record["a"], record["b"])]
        sentences += [f"{lead}{record['sentence']}." for record in others]
    return sentences


def _against(baseline: str, ranked: Sequence[Record], tested: Sequence[Record]) -> str:
    """Count the distances that are better and worse than the baseline."""
    kinds: dict[str, list[str]] = {"better": [], "alike": [], "worse": []}
    for name in dict.fromkeys(record["distance"] for record in ranked):
        record = next((r for r in tested if {r["a"], r["b"]} == {name, baseline}), None)
        if record is not None:
            kinds["alike" if not record["different"] else "better" if record["a"] == name else "worse"].append(name)
    parts = []
    for kind, names in kinds.items():
        verb = "explains" if len(names) == 1 else "explain"
        words = "cannot be told apart from it" if kind == "alike" else f"{verb} the votes {kind}"
        if names:
            parts.append(f"{_number(len(names))} {words} ({join_names(names, 6)})")
    return f"Against {baseline}, the baseline: {', '.join(parts)}."


def _leading(best: Record, ranked: Sequence[Record], tested: Sequence[Record], k: int) -> str:
    """Name the leading set: the distance with the lowest NLL and those that cannot be told apart from it."""
    name = best["distance"]
    order = [r["distance"] for r in ranked if r["estimator"] == best["estimator"] and r["distance"] != name]
    if not order:
        return f"{name} is the only distance, so nothing is compared."
    total = _number(1 + len(order))
    mine = {r["b"] if r["a"] == name else r["a"]: r for r in tested if name in (r["a"], r["b"])}
    if not mine:
        return f"{name} has the lowest NLL of {total} distances; differences between them were not tested."
    alike = [other for other in order if other in mine and not mine[other]["different"]]
    if not alike:
        behind = _ahead(mine[order[0]], k)
        return f"{name} explains these votes best of {total} distances: {order[0]}, the next, is behind by {behind}."
    count = f"All {total}" if len(alike) == len(order) else f"{_number(1 + len(alike)).capitalize()} of {total}"
    count = "Both" if len(order) == len(alike) == 1 else count
    others = join_names(alike, 6)
    first = f"{count} distances share the lead: {name} is nominally first, and {others} cannot be told apart from it."
    next_best = mine[alike[0]]
    if next_best["se"] is not None and max(abs(next_best["difference"]), next_best["se"]) < SAME:
        return f"{first} {name} and {alike[0]} have the same NLL."
    return f"{first} {name} is ahead of {alike[0]} by {_ahead(next_best, k)}."


def _number(number: int) -> str:
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


def _ahead(record: Record, k: int) -> str:
    """Write the advantage of the better of two distances in NLL."""
    if record["p_holm"] is None:
        return "an unknown amount (no error bar)"
    interval = [record[name] for name in ("difference", "se", "low_holm", "high_holm")]
    return advantage(COMPARED[k]["nll"], interval, record["p_holm"], tests=record["tests"])


def _score(best: Record) -> str:
    """Write the leader's score and its explained share."""
    share = explained(best.get("explained_low"), best.get("explained_high"))
    first = f"{best['distance']} has NLL {nll_text(best)} nats per {row_of(best)}, fitted by {best['estimator']}"
    if share is None:
        return f"{first}."
    if share == "worse than guessing":
        return f"{first}; {share}: its NLL lies above that of P = 1/2."
    return f"{first}; that is {share} % of what any function of a triplet could explain."


def _other_estimators(best: Record, ranked: Sequence[Record]) -> list[str]:
    firsts: dict[str, Record] = {}
    for record in ranked:
        firsts.setdefault(record["estimator"], record)
    return [
        f"Under {label} the best is {first['distance']}, with NLL {nll_text(first)}."
        for label, first in firsts.items()
        if label != best["estimator"]
    ]


def _choices(ranked: Sequence[Record], ceiling: Ceiling | None) -> list[str]:
    """Write the 2AFC scores of the bare distances, and the agreement between people."""
    best = ranked[0]
    same = [r for r in ranked if r["estimator"] == best["estimator"] and r.get("score_2afc_distance") is not None]
    if best not in same:
        return []
    first = max(same, key=lambda record: float(record["score_2afc_distance"]))
    value = with_error(best["score_2afc_distance"], best.get("score_2afc_distance_se"))
    sentence = f"Without a fit, the 2AFC score of {best['distance']} is {value} %"
    if first["distance"] != best["distance"]:
        sentence += f"; the highest is {first['score_2afc_distance']:.1f} % ({first['distance']})"
    people = None if ceiling is None or not ceiling.pairs else ceiling.human_triplets
    if people is None or not math.isfinite(people):
        return [f"{sentence}."]
    agreement = f"Two people agree on {people:.1f} % of votes"
    if first["score_2afc_distance"] > people:
        agreement += "; a distance can exceed that, since it can predict the majority"
    return [f"{sentence}.", f"{agreement}."]

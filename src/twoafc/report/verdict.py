"""The verdict in words: which distance explains the votes best, how well, how surely, and what to beware of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from twoafc.diagnostics import join_names
from twoafc.evaluation.reach import told_ceiling
from twoafc.evaluation.records import is_shown
from twoafc.inference import Ceiling, Record
from twoafc.tables import explained

Told = Mapping[str, Any]
"""The content of a scores.json."""


def verdict(told: Told) -> list[str]:
    """Tell the result in a few sentences, the most important first."""
    ranked = judged(told)
    if not ranked:
        return ["No distance has a score: every run diverged."]
    best = ranked[0]
    certain = [f"{line}." for line in sure(told, best)[:1]]
    beside = _beside(best, ranked, told["comparisons"])
    first = _best(best, ranked, tested=bool(told["comparisons"]))
    return [first, *beside, *_other_estimators(best, ranked), *_bare(ranked), *certain]


def judged(told: Told) -> list[Record]:
    """Pooled scores on tested votes of every fit that has any, the best likelihood first; of seeds their summary."""
    fitted = {(fit["distance"], fit["estimator"]) for fit in told["card"].get("fits", [])}
    scores = told["scores"]
    shown = [
        record for record in scores if is_shown(record, scores) and record["nll"] is not None and not _failed(record)
    ]
    ranked = sorted(shown, key=lambda record: float(record["nll"]))
    # A row that was added beside the fits, such as the truth of a simulation, is no candidate.
    return [record for record in ranked if not fitted or _key(record) in fitted]


def _failed(record: Record) -> bool:
    """Whether every run of it diverged."""
    return bool(record.get("diverged")) and record["diverged"] >= (record.get("runs") or 1)


def sure(told: Told, record: Record) -> list[str]:
    """Sentences on how a fit's P suits the votes that it was tested on."""
    held = told.get("goodness") or []
    return next((list(each["sentences"]) for each in held if _key(each) == _key(record)), [])


def reach(told: Told) -> Ceiling | None:
    """Floor and ceiling of the tested votes, where the results tell them."""
    found = told.get("ceiling")
    if not found:
        return None
    known: dict[str, Any] = {name: math.nan if value is None else value for name, value in found.items()}
    return Ceiling(**known)


def reach_in_words(told: Told) -> list[str]:
    """Floor, ceiling and people's agreement, one sentence each."""
    found = reach(told)
    return [] if found is None else told_ceiling(found)


def with_error(value: float, error: float | None) -> str:
    """Write a value and its standard error with the digits that the error allows.

    Examples
    --------
    >>> with_error(1.34821, 0.0526), with_error(73.529, 1.57), with_error(1.5, None)
    ('1.348 ± 0.053', '73.5 ± 1.6', '1.5000')
    """
    if error is None or not error > 0:
        return f"{value:.4f}"
    places = min(max(1 - math.floor(math.log10(error)), 0), 6)
    return f"{value:.{places}f} ± {error:.{places}f}"


def _key(record: dict[str, Any]) -> tuple[str, str]:
    return record["distance"], record["estimator"]


def _best(best: Record, ranked: Sequence[Record], *, tested: bool) -> str:
    alone = len({record["distance"] for record in ranked}) == 1
    claim = "is the one distance here: NLL" if alone else "explains these votes best: NLL"
    if not alone and not tested:
        claim = "has the lowest NLL:"
    score = with_error(best["nll"], best.get("nll_se", best.get("nll_sd")))
    row = "pair" if "pairs" in best else "triplet"
    share = explained(best.get("explained_low"), best.get("explained_high"))
    told = f"{best['distance']} {claim} {score} nats per {row}, fitted by {best['estimator']}"
    if share is None:
        return f"{told}."
    if share == "worse than guessing":
        return f"{told}; {share}: its NLL lies above that of P = 1/2."
    return f"{told}; {share} % of what any function of a triplet could explain."


def _beside(best: Record, ranked: Sequence[Record], comparisons: Sequence[Record]) -> list[str]:
    """How sure the first place is: whom it cannot be told apart from, and the next below."""
    mine = {
        other: record
        for record in comparisons
        if (record["measure"], record["estimator"]) == ("nll", best["estimator"])
        and best["distance"] in (record["a"], record["b"])
        for other in {record["a"], record["b"]} - {best["distance"]}
    }
    order = [r["distance"] for r in ranked if r["estimator"] == best["estimator"] and r["distance"] in mine]
    alike = [name for name in order if not mine[name]["different"]]
    if not order:
        several = len({record["distance"] for record in ranked}) > 1
        return ["Differences between the distances were not tested."] if several and not comparisons else []
    if not alike:
        return [f"It is ahead of every other: {mine[order[0]]['sentence']}."]
    if len(alike) == 1:
        return [f"It is not alone: {mine[alike[0]]['sentence']}."]
    return [f"It cannot be told apart from {join_names(alike, 6)}: {mine[alike[0]]['sentence']}."]


def _other_estimators(best: Record, ranked: Sequence[Record]) -> list[str]:
    told = []
    for label in dict.fromkeys(record["estimator"] for record in ranked):
        first = next(record for record in ranked if record["estimator"] == label)
        if label != best["estimator"]:
            score = with_error(first["nll"], first.get("nll_se", first.get("nll_sd")))
            told.append(f"Under {label} the best is {first['distance']}, with NLL {score}.")
    return told


def _bare(ranked: Sequence[Record]) -> list[str]:
    """Where the bare distances rank otherwise: a reader who knows 2AFC scores will look for that first."""
    best = ranked[0]
    same = [r for r in ranked if r["estimator"] == best["estimator"] and r.get("score_2afc_distance") is not None]
    if len(same) < 2:
        return []
    first = max(same, key=lambda record: float(record["score_2afc_distance"]))
    told = f"2AFC score {first['score_2afc_distance']:.1f} %"
    if first["distance"] == best["distance"]:
        return [f"It also agrees with the most votes as a bare distance ({told})."]
    return [
        f"As a bare distance {first['distance']} agrees with more votes ({told}; "
        f"{best['distance']} {best['score_2afc_distance']:.1f} %)."
    ]

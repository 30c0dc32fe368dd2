"""Distances that run against the votes: a similarity, flipped votes, sides changed over, or the truth."""

from __future__ import annotations

from typing import Literal

import numpy as np

from twoafc.diagnostics.finding import Finding, Level, listed
from twoafc.diagnostics.relation import Relation
from twoafc.diagnostics.units import gap
from twoafc.diagnostics.view import Column, View

State = Literal["with", "against", "turning", "open"]

CHANCE = 1e-4
"""At which a score on one side of 50 % is no accident: small, since every distance of every table is asked."""
EFFECT, COARSE_EFFECT = 2.5, 20.0
"""Per cent below 50 from which it matters, and where references are too few to know their spread."""
FEWEST_UNITS, FEWEST_COARSE = 20, 100
"""References, or rows where each has its own; rows where there are too few references."""
STRATA = 4
SMALL = 400
"""Rows below which a part of the range says little."""
TELLING, STRONG = 0.15, 0.5
"""Least rank correlation, and least difference of two gaps, that tells one cause from another; and one so strong that
it makes a case where the votes alone do not."""

HONEST = "where the people truly go the other way, as with Euclidean distance and SSIM on CLIC 2021, leave it so"


def direction(views: list[View]) -> list[Finding]:
    """Find distances and tables that run against the votes, and name the causes that the data leave open."""
    states = {each.role: _states(each) for each in views}
    found: list[Finding] = []
    for place, each in enumerate(views):
        other = views[1 - place] if len(views) == 2 else None
        state = states[each.role]
        against = [name for name, said in state.items() if said == "against"]
        agreeing = [name for name, said in state.items() if said == "with"]
        elsewhere = states[other.role] if other else {}
        if other and _whole_table(state, elsewhere):
            found.append(_opposite(each, other, against))
        elif agreeing:
            against += [name for name, said in state.items() if said == "open" and _against_kin(each, name, agreeing)]
            most = [name for name in against if _goes_with(each, name, agreeing)]
            if len(most) > len(agreeing):
                found.append(_most_against(each, most, agreeing))
                against = [name for name in against if name not in most]
            found += [_against_others(each, name, agreeing, other, elsewhere.get(name)) for name in against]
        elif against:
            found.append(_most_against(each, against, []))
        found += [_turning(each, name) for name, said in state.items() if said == "turning"]
    return found


def _states(view: View) -> dict[str, State]:
    return {name: _state(view, column) for name, column in view.varying.items()}


def _state(view: View, column: Column) -> State:
    said = said_by(column.relation)
    return _against(view, column) if said == "against" else said


def said_by(relation: Relation) -> Literal["with", "against", "open"]:
    """Whether a distance goes with the votes or against them, surely and by more than a trifle."""
    effect = COARSE_EFFECT if relation.coarse else EFFECT
    if relation.units < (FEWEST_COARSE if relation.coarse else FEWEST_UNITS):
        return "open"
    if relation.low < CHANCE and relation.score <= 50 - effect:
        return "against"
    return "with" if relation.high < CHANCE and relation.score >= 50 + effect else "open"


def _against_kin(view: View, name: str, agreeing: list[str]) -> bool:
    """Whether a distance of weak relation to the votes goes strongly against the one that is nearest to it."""
    kin = view.kin(name, agreeing)
    if kin is None or view.columns[name].relation.score >= 50:
        return False
    return view.side[name, kin] < -STRONG and abs(view.size[name, kin]) > STRONG


def _goes_with(view: View, name: str, agreeing: list[str]) -> bool:
    """Whether a distance goes with the nearest of those that agree with the votes, in spite of the votes."""
    kin = view.kin(name, agreeing)
    return kin is not None and view.side[name, kin] > _telling(view)


def _telling(view: View) -> float:
    return max(TELLING, 5 / float(np.sqrt(len(view.table))))


def _strata(view: View, column: Column) -> list[tuple[float, float]]:
    """Give the 2AFC score, less 50 %, among small to large distances, with the chance of one so high by accident."""
    total = column.u0 + column.u1
    part = np.searchsorted(np.quantile(total, np.arange(1, STRATA) / STRATA), total)
    parts = [part == k for k in range(STRATA)]
    told = [view.among(column.name, rows) for rows in parts if rows.sum() >= FEWEST_UNITS // STRATA]
    return [(relation.score - 50, relation.high) for relation in told]


def _against(view: View, column: Column) -> State:
    """Tell a distance that turns round, with the votes in a part of its range: no flip of anything makes that."""
    strata = _strata(view, column)
    least = min((effect for effect, _ in strata), default=0.0)
    if any(effect >= -least / 2 and chance < CHANCE for effect, chance in strata):
        return "turning"
    # Where parts are too small to be sure, none may even point the other way.
    small = column.relation.coarse or len(view.table) < SMALL
    return "open" if small and any(effect > 0 for effect, _ in strata) else "against"


def _whole_table(state: dict[str, State], elsewhere: dict[str, State]) -> bool:
    """Whether all that can be told in both tables runs against the votes here and with them there."""
    pairs = [(said, elsewhere[name]) for name, said in state.items() if name in elsewhere]
    decided = [pair for pair in pairs if set(pair) <= {"with", "against"}]
    return bool(decided) and all(pair == ("against", "with") for pair in decided)


def _opposite(view: View, other: View, against: list[str]) -> Finding:
    """One table against its votes, the other with them: the values tell whether they are the same quantity."""
    shared = [name for name in against if name in other.columns]
    kinds = [_kind_of_values(view.columns[name], other.columns[name]) for name in shared]
    votes, turned = kinds.count("same"), kinds.count("turned")
    figures = (
        f"{_scores(view, shared)} here, {_scores(other, shared)} in {other.role}"
        f" ({votes} of {len(shared)} distances have the same values in both tables, {turned} have them turned round)"
    )
    name = shared[0] if len(shared) == 1 else None
    if votes and not turned:
        message = f"the votes of {view.role} are flipped: n must count the votes for x1"
        remedy = "put M - n for n, or change x0 and x1 over in every distance, in this table"
    elif turned and not votes:
        message = f"the distances of {view.role} are similarities: smaller must mean closer"
        remedy = f"put 1 - similarity, as in {other.role}"
    else:
        message = f"the votes of {view.role} are flipped (n must count x1), or all its distances are similarities"
        remedy = "put M - n for n, or 1 - similarity; these figures do not tell which"
    return Finding("direction", "warning", view.role, name, message, figures, remedy)


def _kind_of_values(column: Column, other: Column) -> Literal["same", "turned", "open"]:
    a, b = column.quantiles, other.quantiles
    same, turned = gap(a, b), min(gap(a, np.sort(1 - b)), gap(a, np.sort(-b)))
    if min(same, turned) > 0.5 or abs(same - turned) < TELLING:
        return "open"
    return "same" if same < turned else "turned"


def _against_others(view: View, name: str, agreeing: list[str], other: View | None, elsewhere: State | None) -> Finding:
    """One distance against the votes where others go with them: how it goes with those tells why."""
    kin = view.kin(name, agreeing)
    assert kin is not None
    side, size = view.side[name, kin], view.size[name, kin]
    figures = (
        f"{view.columns[name].relation.text()}, {_scores(view, agreeing)} for {listed(agreeing)}; rank correlation "
        f"with {kin} {side:.2f} (which is larger) and {size:.2f} (how large)"
    )
    level: Level = "warning"
    telling = _telling(view)
    if side > telling:
        level, message = "note", f"{name} runs against the votes, yet with the other distances: it is no similarity"
        remedy = "check its d0 and d1; " + HONEST
    elif side < -telling and size < -0.1:
        message = f"{name} runs against the votes and the other distances: a similarity, it seems, not a distance"
        remedy = f"smaller must mean closer: put 1 - {name} or the like; {HONEST}"
    elif side < -telling and size > 0.1:
        message = f"{name} runs against the votes, and against the other distances in side but not in size: d0 and d1 "
        message += "changed over, it seems"
        remedy = f"d0 belongs to x0 and d1 to x1; {HONEST}"
    else:
        message = f"{name} runs against the votes: a similarity, or d0 and d1 changed over, or a distance that is wrong"
        remedy = f"smaller must mean closer, and d0 belong to x0; {HONEST}"
    if other and elsewhere == "with":
        figures += f"; in {other.role} it goes with them, {other.columns[name].relation.text()}"
        remedy = remedy.replace(f"; {HONEST}", f", as in {other.role}")
    return Finding("direction", level, view.role, name, message, figures, remedy)


def _most_against(view: View, against: list[str], agreeing: list[str]) -> Finding:
    """Most distances run against the votes: nothing in the table tells flipped votes from similarities, but signs."""
    single = against[0] if len(against) == 1 else None
    what = f"{single} is a similarity" if single else "the distances are similarities"
    figures = f"{_scores(view, against)} for {listed(against)}"
    whose = "it runs" if single else "they run"
    if all(view.columns[name].U.values[-1] <= 0 for name in against):
        message = f"{single or 'every distance'} runs against the votes and is negative: a similarity, or negated"
        return Finding(
            "direction", "warning", view.role, single, message, figures, "put the distance itself, at least 0"
        )
    message = f"the votes are flipped (n must count x1), or {what}"
    message += f": {whose} against the votes, and {listed(agreeing) or 'no distance'} with them"
    remedy = "put M - n for n, or 1 - similarity; the table alone does not tell which; " + HONEST
    return Finding("direction", "warning", view.role, single, message, figures, remedy)


def _turning(view: View, name: str) -> Finding:
    strata = ", ".join(f"{50 + effect:.0f}" for effect, _ in _strata(view, view.columns[name]))
    return Finding(
        "turning",
        "note",
        view.role,
        name,
        f"{name} goes with the votes in one part of its range and against them in another: no flip explains that",
        f"{view.columns[name].relation.text()}; from small to large distances {strata} %",
        "look at the fitted surface; a larger distance looks closer there",
    )


def _scores(view: View, names: list[str]) -> str:
    scores = [view.columns[name].relation.score for name in names]
    if len(scores) == 1:
        return view.columns[names[0]].relation.text()
    return f"2AFC {min(scores):.1f}..{max(scores):.1f} %"

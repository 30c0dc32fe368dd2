"""Groups whose votes are out of step with those of the other groups: flipped there, or shuffled."""

from __future__ import annotations

from twoafc.diagnostics.direction import said_by
from twoafc.diagnostics.finding import Finding, listed
from twoafc.diagnostics.relation import Relation
from twoafc.diagnostics.shuffled import NOTHING, SOMETHING
from twoafc.diagnostics.view import View

FEWEST_ROWS = 100
MOST_GROUPS = 50
"""More are seen as names of something else than parts of a collection, and would take long."""

Relations = dict[str, Relation]
"""The relation of each distance to the votes of one group."""


def groups(view: View) -> list[Finding]:
    """Find groups in which every distance runs against the votes, or explains none, unlike in the other groups."""
    if "group" not in view.table.labels.columns:
        return []
    labels, code = view.table.codes("group")
    if not 2 <= len(labels) <= MOST_GROUPS:
        return []
    parts = {label: code == place for place, label in enumerate(labels) if (code == place).sum() >= FEWEST_ROWS}
    relations = {label: {name: view.among(name, rows) for name in view.varying} for label, rows in parts.items()}
    found: list[Finding] = []
    for label, here in relations.items():
        elsewhere = [there for other, there in relations.items() if other != label]
        found += _flipped(view.role, label, here, elsewhere) or _shuffled(view.role, label, here, elsewhere)
    return found


def _flipped(role: str, label: str, here: Relations, elsewhere: list[Relations]) -> list[Finding]:
    against = [name for name, relation in here.items() if said_by(relation) == "against"]
    agreeing = [name for name, relation in here.items() if said_by(relation) == "with"]
    said = [{said_by(there[name]) for name in against} for there in elsewhere]
    better = [
        there for there, all_of in zip(elsewhere, said, strict=True) if "with" in all_of and "against" not in all_of
    ]
    if agreeing or not better:
        return []
    return [
        Finding(
            "direction",
            "warning",
            role,
            against[0] if len(here) == 1 else None,
            f"the votes of group {label} are flipped, it seems: what goes with them elsewhere runs against them there",
            _compared(label, against, here, better[0]),
            "n must count the votes for x1 in every group; put M - n there, unless its distances are similarities",
        )
    ]


def _shuffled(role: str, label: str, here: Relations, elsewhere: list[Relations]) -> list[Finding]:
    sure = [
        (abs(relation.effect) - 2.33 * relation.effect_se, place)
        for place, there in enumerate(elsewhere)
        for relation in there.values()
        if relation.p < SOMETHING
    ]
    if not sure or any(each.p < NOTHING or each.bound() > max(sure)[0] / 4 for each in here.values()):
        return []
    names = list(here)
    return [
        Finding(
            "shuffled",
            "warning",
            role,
            names[0] if len(names) == 1 else None,
            f"no distance explains the votes of group {label}: its rows are shuffled, or no distance sees what people "
            "saw there",
            _compared(label, names, here, elsewhere[max(sure)[1]]),
            "match the rows of the group again by the names of their images: one missing file shifts all after it",
        )
    ]


def _compared(label: str, names: list[str], here: Relations, there: Relations) -> str:
    spans = (_span([relations[name] for name in names]) for relations in (here, there))
    return f"{next(spans)} in group {label}, {next(spans)} in another, for {listed(names)}"


def _span(relations: list[Relation]) -> str:
    scores = [relation.score for relation in relations]
    return relations[0].text() if len(scores) == 1 else f"2AFC {min(scores):.1f}..{max(scores):.1f} %"

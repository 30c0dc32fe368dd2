"""Distances that explain nothing of the votes: rows out of order, or a useless distance."""

from __future__ import annotations

import numpy as np

from twoafc.diagnostics.finding import Finding, listed
from twoafc.diagnostics.pairs import unlike_pairs
from twoafc.diagnostics.view import View

NOTHING, SOMETHING = 0.01, 1e-4
"""Chance of the votes above which a distance may be said to explain nothing, below which it does explain something."""
SMALL = 3.5
"""Per cent of 2AFC: what a distance that explains nothing may at most be worth, given its error."""
RELATED = 0.03
"""Rank correlation from which two distances see the same images, where the table is large enough to tell."""
FEW = 0.1
"""Share of repeated pairs of images with unlike distances below which names and distances belong together."""
TIED = 0.5
"""Share of ties above which a distance is not asked what it explains."""
LARGE, HARDLY = 9.0, 200
"""Per cent of 2AFC, and rows, from which it is worth a note that nothing is explained though little is sure."""
LIVELY = 0.1
"""Standard deviation of n / M below which there is nothing to explain."""
ENOUGH = 400
"""Rows from which the want of a correlation means something."""


def shuffled(views: list[View]) -> list[Finding]:
    """Find distances that explain nothing although the table is large enough to see it, and say why they may."""
    found: list[Finding] = []
    for place, each in enumerate(views):
        other = views[1 - place] if len(views) == 2 else None
        if np.std(each.table.n / each.table.M) < LIVELY:
            continue
        alive = [name for name, column in each.varying.items() if column.relation.p < SOMETHING]
        idle = [name for name in each.varying if _explains_nothing(each, name, alive, other)]
        if not alive and not idle and other is None:
            found += _too_few_to_tell(each)
        elif idle and not alive:
            found.append(_whole_table(each, idle, other))
        else:
            found += [_one_column(each, name, alive, other) for name in idle]
    return found


def _explains_nothing(view: View, name: str, alive: list[str], other: View | None) -> bool:
    column = view.columns[name]
    # Ties explain nothing by their nature, and are told as ties.
    if column.relation.p < NOTHING or np.mean(column.d0 == column.d1) > TIED:
        return False
    # What it would be worth if in order: seen in the other table, or to be expected beside unlike distances.
    limit = max(SMALL, _worth(other, name) / 3)
    if len(view.table) >= ENOUGH and _unrelated(view, name, alive) and _related(view, alive):
        limit = max(limit, max(_worth(view, each) for each in alive) / 2)
    return column.relation.bound() <= limit


def _too_few_to_tell(view: View) -> list[Finding]:
    """No distance is seen to explain anything, in a table too small to say that none does."""
    idle = [name for name, column in view.varying.items() if column.relation.p >= NOTHING]
    if len(idle) < len(view.varying) or not idle or len(view.table) < HARDLY:
        return []
    if max(view.columns[name].relation.bound() for name in idle) > LARGE:
        return []
    return [
        Finding(
            "useless",
            "note",
            view.role,
            idle[0] if len(idle) == 1 else None,
            "no distance is seen to explain these votes: rows out of order, or useless distances, or a weak one",
            _nothing(view, idle),
            "check that rows and votes belong together; more votes would tell",
        )
    ]


def _worth(view: View | None, name: str) -> float:
    """Least effect, in per cent, that the votes of a table leave likely."""
    if view is None or name not in view.varying:
        return 0.0
    relation = view.columns[name].relation
    return max(0.0, abs(relation.effect) - 2.33 * relation.effect_se) if relation.p < SOMETHING else 0.0


def _unrelated(view: View, name: str, others: list[str]) -> bool:
    """Whether a distance goes with none of some others, neither in size nor in side."""
    related = [max(abs(view.side[name, each]), abs(view.size[name, each])) for each in others if each != name]
    return all(each < _telling(view) for each in related)


def _telling(view: View) -> float:
    """Rank correlation that rows out of order hardly ever have."""
    return max(RELATED, 4 / float(np.sqrt(len(view.table))))


def _related(view: View, names: list[str]) -> bool:
    """Whether some of these distances go together."""
    return any(not _unrelated(view, name, names) for name in names)


def _whole_table(view: View, idle: list[str], other: View | None) -> Finding:
    """No distance explains anything: the other table, or the distances among themselves, may say why."""
    single = idle[0] if len(idle) == 1 else None
    worth = [name for name in idle if _worth(other, name) > 0]
    figures = f"{_nothing(view, idle)}{_pairs(view, idle)}"
    remedy = "match the rows again by the names of their images, not by their order"
    if other and worth:
        scores = [other.columns[name].relation.score for name in worth]
        figures += f"; in {other.role} {listed(worth)} explain the votes, 2AFC {min(scores):.1f}..{max(scores):.1f} %"
        message = f"the rows of {view.role} are shuffled: its votes do not belong to its distances"
        # One distance may see what mattered in one table and not in the other; all of them hardly do.
        message = f"the rows of {view.role} are shuffled, or {single} is useless there" if single else message
        return Finding("shuffled", "warning", view.role, single, message, figures, remedy)
    if single:
        message = f"{single} explains nothing of the votes: shuffled against them, or useless"
    elif not any(_unrelated(view, name, idle) for name in idle):
        message = "no distance explains the votes though they go together: the votes are shuffled against the rows, or "
        message += "all distances are useless"
    else:
        message = "no distance explains the votes: the rows are shuffled, or all distances are useless"
    return Finding(
        "shuffled", "warning", view.role, single, message, figures, remedy + "; else look for another distance"
    )


def _one_column(view: View, name: str, alive: list[str], other: View | None) -> Finding:
    """One distance explains nothing where others do: its names, and the other distances, may say why."""
    pairs = unlike_pairs(view.table, name)
    size, side = (max((table[name, each] for each in alive), key=abs) for table in (view.size, view.side))
    figures = f"{_nothing(view, [name])}{_pairs(view, [name])}; rank correlation with the other distances at most "
    figures += f"{side:.2f} (which is larger) and {size:.2f} (how large)"
    remedy = "match its rows again by the names of their images, not by their order; if they match, it is useless here"
    telling = _telling(view)
    elsewhere = other if _worth(other, name) > 0 else None
    if elsewhere:
        figures += f"; in {elsewhere.role} it explains them, {elsewhere.columns[name].relation.text()}"
    if abs(side) >= telling or (pairs is not None and pairs[0] < FEW):
        message = f"{name} explains nothing of the votes, though its rows are in order: useless here"
        return Finding("useless", "note", view.role, name, message, figures, "leave it out, or keep it as a baseline")
    if elsewhere:
        message = f"the rows of {name} are shuffled: its values do not belong to these votes"
    elif abs(size) > 3 * telling:
        message = f"{name} explains nothing and goes with other distances in size, not in side: its d0 and d1 are "
        message += "mixed up, or it is useless"
        remedy = "d0 belongs to x0 and d1 to x1 in every row; if they do, it is useless here"
    else:
        message = f"{name} explains nothing and goes with no other distance: its rows are shuffled, or it is noise"
    return Finding("shuffled", "warning", view.role, name, message, figures, remedy)


def _nothing(view: View, idle: list[str]) -> str:
    relations = [view.columns[name].relation for name in idle]
    if len(relations) == 1:
        return f"{relations[0].text()}, p = {relations[0].p:.2g} that nothing of it explains the votes"
    scores = [relation.score for relation in relations]
    return f"2AFC {min(scores):.1f}..{max(scores):.1f} % for {listed(idle)}, each ± {relations[0].se:.1f} or so"


def _pairs(view: View, idle: list[str]) -> str:
    """Say whether images that occur in several rows have one distance there, where their names are known."""
    told = [unlike_pairs(view.table, name) for name in idle]
    if any(each is None for each in told):
        return ""
    unlike, repeated = zip(*(each for each in told if each is not None), strict=True)
    if max(unlike) < FEW:
        return "; images that occur in several rows have the same distance there, as they should"
    return f"; of {repeated[0]} pairs of images in several rows, {100 * max(unlike):.0f} % have unlike distances there"

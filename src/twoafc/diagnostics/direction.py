"""Distances and votes that do not belong together: similarities, flipped votes, swapped sides, shuffled rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal

import numpy as np
import polars as pl

from twoafc.diagnostics.findings import Finding, Level, join_names
from twoafc.diagnostics.profile import MIN_UNITS, Column, Profile, Relation
from twoafc.diagnostics.values import kolmogorov
from twoafc.inference import clustering_of, p_value
from twoafc.table import Votes, compared_images

State = Literal["agrees", "disagrees", "turns", "unclear"]
"""Whether the smaller distance is chosen more often than not, less often, or depending on its size."""
Relations = dict[str, Relation]  # relation of each distance to the votes

SMALL_TABLE = 400  # rows below which parts of a table, and missing correlations, say little

# Direction
P_SCORE = 1e-4
"""p-value of a score above or below 50 %; small, since it is tested for every distance of every table."""
P_LEANING = 0.01
"""p-value of a score below 50 % for a note, one-sided and corrected for the number of distances in the table."""
MIN_EFFECT, MIN_EFFECT_COARSE = 2.5, 20.0
"""Least difference from 50 %, and where references are too few to know their spread."""
MIN_ROWS_COARSE = 100
"""Least number of rows where there are too few references (`MIN_UNITS`, or rows if each has its own)."""
STRATA = 4
CORRELATED, STRONGLY = 0.15, 0.5
"""Least rank correlation, or difference of two Kolmogorov distances, that decides between two causes; and one that is
strong enough where the votes alone do not decide."""
GENUINE = "if people really choose the farther image, as with Euclidean distance and SSIM on CLIC 2021, leave it"

# Shuffled rows
P_UNRELATED, P_RELATED = 0.01, 1e-4
"""p-value above which a distance may be unrelated to the votes, and below which it is related to them."""
SMALL_EFFECT = 3.5
"""Per cent of 2AFC: largest plausible effect of a distance that counts as unrelated to the votes."""
RELATED = 0.03  # rank correlation of two distances of the same images, if the table is large enough
FEW_UNLIKE = 0.1
"""Share of repeated pairs of images with different distances below which names and distances belong together."""
TOO_MANY_TIES = 0.5  # share of ties above which a distance is not tested
NOTE_EFFECT, NOTE_ROWS = 9.0, 200
"""Per cent of 2AFC, and rows, for a note that nothing is explained although little is certain."""
MIN_VOTE_SPREAD = 0.1  # standard deviation of n / M below which there is nothing to explain
MIN_PAIRS = 20
UNLIKE = 1e-3
"""Difference, relative to the distance's range, above which rows with the same pair of images have unlike distances."""

# Groups
MIN_GROUP = 100
MOST_GROUPS = 50  # more groups are probably names of something else, and would take long


def relation_to_votes(profiles: list[Profile]) -> Iterator[Finding]:
    """Find distances that contradict the votes or explain none of them, in whole tables and in groups."""
    in_groups = [finding for profile in profiles for finding in _groups(profile)]
    # In a table with deviating groups, what all rows show together is a mixture.
    mixed = {finding.table for finding in in_groups}
    # Each table with the other one, if there are two.
    tables = list(zip(profiles, profiles[::-1] if len(profiles) == 2 else [None], strict=True))
    for finding in chain(_direction(tables), _shuffled(tables)):
        if finding.table not in mixed:
            yield finding
    yield from in_groups


def direction_of_pairs(profile: Profile) -> Iterator[Finding]:
    """Find distances of pairs that rise where people see no difference: similarities, or flipped votes."""
    table = profile.table
    same = table.n / table.M
    clustering = clustering_of(table)
    weight, sampling = clustering.rows.shares(), clustering.rows.sampling
    if len(table) < MIN_UNITS or not float(np.std(same)):
        return
    p = {}  # with the sign of the correlation
    for name, column in profile.varying.items():
        u = column.u[0] - np.average(column.u[0], weights=sampling)
        products = u * (same - np.average(same, weights=sampling))
        value = float(np.average(products, weights=sampling))
        se = float(clustering.standard_errors(((products - value) * weight)[:, None], weight)[0, 0])
        p[name] = np.sign(value) * p_value(value, se, float(clustering.units(weight)[0]))
    against = [name for name, signed in p.items() if 0 < signed < P_SCORE]
    agreeing = [name for name, signed in p.items() if -P_SCORE < signed < 0]
    if not against:
        return
    kind = "is a similarity" if len(against) == 1 else "are similarities"
    message = f"{join_names(against)} {kind}: more people see no difference at large values"
    remedy = "give a distance, which is 0 where images are the same: 1 - similarity, say"
    if not agreeing:
        message = f"the votes are flipped (n must count same), or {message}"
        remedy = f"give M - n, or {remedy}"
    evidence = f"rank correlation with the share of same is positive, p < {P_SCORE:g}"
    single = _single(against) if agreeing else None
    yield Finding("direction", "warning", profile.role, single, message, evidence, remedy)


def _single(names: list[str]) -> str | None:
    """The only one of some names; None where there are several."""
    return names[0] if len(names) == 1 else None


def _scores(relations: Relations, names: list[str]) -> str:
    scores = [relations[name].score for name in names]
    if len(scores) == 1:
        return f"2AFC {scores[0]:.1f} ± {relations[names[0]].se:.1f} %"
    return f"2AFC {min(scores):.1f}..{max(scores):.1f} %"


# Direction: distances that disagree with the votes


def _direction(tables: list[tuple[Profile, Profile | None]]) -> Iterator[Finding]:
    states = {profile.role: _states(profile) for profile, _ in tables}
    for profile, other in tables:
        state = states[profile.role]
        against = [name for name in state if state[name] == "disagrees"]
        agreeing = [name for name in state if state[name] == "agrees"]
        elsewhere = states[other.role] if other else {}
        pairs = {(state[name], elsewhere[name]) for name in state if name in elsewhere}
        # All distances with a clear state in both tables disagree with the votes here and agree there.
        if other and {pair for pair in pairs if {*pair} <= {"agrees", "disagrees"}} == {("disagrees", "agrees")}:
            yield _opposite_tables(profile, other, against)
        elif agreeing:
            against += [name for name in state if state[name] == "unclear" and _opposed(profile, name, agreeing)]
            # Those that agree with the nearest of the others, in spite of the votes.
            least = _min_correlation(profile)
            most = [name for name in against if profile.side[name, _nearest(profile, name, agreeing)] > least]
            if len(most) > len(agreeing):
                yield _most_against(profile, most, agreeing)
                against = [name for name in against if name not in most]
            for name in against:
                yield _one_against(profile, name, agreeing, other if elsewhere.get(name) == "agrees" else None)
        elif against:
            yield _most_against(profile, against, [])
        for name in state:
            if state[name] == "turns":
                yield _turning(profile, name)
            elif state[name] == "unclear" and _leans(profile, name) and not _opposed(profile, name, agreeing):
                yield _leaning(profile, name, agreeing)


def _states(profile: Profile) -> dict[str, State]:
    states: dict[str, State] = {name: _sign(profile.relations[name]) for name in profile.varying}
    for name in [name for name, state in states.items() if state == "disagrees"]:
        # Where images recur, clustering by reference underestimates chance.
        doubtful = profile.below_half[name] >= P_LEANING
        states[name] = "unclear" if doubtful else _disagrees_throughout(profile, name)
    return states


def _sign(relation: Relation) -> Literal["agrees", "disagrees", "unclear"]:
    """Whether a distance agrees with the votes, significantly and by more than a small effect."""
    effect = MIN_EFFECT_COARSE if relation.coarse else MIN_EFFECT
    if relation.units < (MIN_ROWS_COARSE if relation.coarse else MIN_UNITS):
        return "unclear"
    if relation.low < P_SCORE and relation.score <= 50 - effect:
        return "disagrees"
    return "agrees" if relation.high < P_SCORE and relation.score >= 50 + effect else "unclear"


def _leans(profile: Profile, name: str) -> bool:
    """Whether a distance scores below 50 % by more than chance and a small effect."""
    return profile.relations[name].score <= 50 - MIN_EFFECT and profile.below_half[name] < P_LEANING


def _strata(profile: Profile, name: str) -> list[Relation]:
    """Relations to the votes among small to large distances."""
    total = np.sum(profile.columns[name].u, axis=0)
    stratum = np.searchsorted(np.quantile(total, np.arange(1, STRATA) / STRATA), total)
    parts = [stratum == k for k in range(STRATA)]
    return [profile.relation(name, rows) for rows in parts if rows.sum() >= MIN_UNITS // STRATA]


def _disagrees_throughout(profile: Profile, name: str) -> State:
    """Detect a distance that agrees with the votes in part of its range, which no flip explains."""
    strata = _strata(profile, name)
    least = min((part.score for part in strata), default=50.0) - 50
    if any(part.score - 50 >= -least / 2 and part.high < P_SCORE for part in strata):
        return "turns"
    # Where parts are too small to be sure, none may even point the other way.
    small = profile.relations[name].coarse or len(profile.table) < SMALL_TABLE
    return "unclear" if small and any(part.score > 50 for part in strata) else "disagrees"


def _nearest(profile: Profile, name: str, others: list[str]) -> str:
    """The other distance whose u0 - u1 has the largest absolute correlation with this one's."""
    return max(others, key=lambda other: abs(profile.side[name, other]))


def _opposed(profile: Profile, name: str, agreeing: list[str]) -> bool:
    """Whether a distance with an unclear relation to the votes strongly opposes the one nearest to it."""
    if not agreeing or profile.relations[name].score >= 50:
        return False
    pair = name, _nearest(profile, name, agreeing)
    return profile.side[pair] < -STRONGLY and abs(profile.size[pair]) > STRONGLY


def _min_correlation(profile: Profile) -> float:
    return max(CORRELATED, 5 / float(np.sqrt(len(profile.table))))


def _opposite_tables(profile: Profile, other: Profile, against: list[str]) -> Finding:
    """One table disagrees with its votes, the other agrees: the values decide whether it is the same quantity."""
    names = [name for name in against if name in other.columns]
    kinds = [_compare_values(profile.columns[name], other.columns[name]) for name in names]
    same, reversed_ = kinds.count("same"), kinds.count("reversed")
    role = profile.role
    if same and not reversed_:
        message = f"the votes of {role} are flipped: n must count the votes for x1"
        remedy = "replace n by M - n, or swap x0 and x1 in every distance, in this table"
    elif reversed_ and not same:
        message = f"the distances of {role} are similarities: smaller must mean closer"
        remedy = f"use 1 - similarity, as in {other.role}"
    else:
        message = f"the votes of {role} are flipped (n must count x1), or all its distances are similarities"
        remedy = "replace n by M - n, or use 1 - similarity; the data do not decide which"
    evidence = (
        f"{_scores(profile.relations, names)} here, {_scores(other.relations, names)} in {other.role}"
        f" ({same} of {len(names)} distances have the same values in both tables, {reversed_} have them reversed)"
    )
    return Finding("direction", "warning", role, _single(names), message, evidence, remedy)


def _compare_values(column: Column, other: Column) -> Literal["same", "reversed", "unclear"]:
    a, b = column.quantiles, other.quantiles
    same, reversed_ = kolmogorov(a, b), min(kolmogorov(a, np.sort(1 - b)), kolmogorov(a, np.sort(-b)))
    if min(same, reversed_) > 0.5 or abs(same - reversed_) < CORRELATED:
        return "unclear"
    return "same" if same < reversed_ else "reversed"


def _one_against(profile: Profile, name: str, agreeing: list[str], other: Profile | None) -> Finding:
    """One distance disagrees with the votes where others agree: its correlation with those indicates the cause.

    `other` is the other table if the distance agrees with the votes there.
    """
    nearest = _nearest(profile, name, agreeing)
    side, size, least = profile.side[name, nearest], profile.size[name, nearest], _min_correlation(profile)
    scores = f"{_scores(profile.relations, [name])}, {_scores(profile.relations, agreeing)} for {join_names(agreeing)}"
    evidence = f"{scores}; rank correlation with {nearest} {side:.2f} (of d0 - d1) and {size:.2f} (of d0 + d1)"
    level: Level = "note" if side > least else "warning"
    if side > least:
        message = f"{name} disagrees with the votes but not with the other distances: it is not a similarity"
        remedy = "check its d0 and d1"
    elif side < -least and size < -0.1:
        message = f"{name} disagrees with the votes and the other distances: probably a similarity, not a distance"
        remedy = f"smaller must mean closer: use 1 - {name} or similar"
    elif side < -least and size > 0.1:
        message = f"{name} disagrees with the votes, and with the other distances in d0 - d1 but not in d0 + d1: "
        message += "probably d0 and d1 are swapped"
        remedy = "d0 belongs to x0 and d1 to x1"
    else:
        message = f"{name} disagrees with the votes: a similarity, or d0 and d1 are swapped, or the distance is wrong"
        remedy = "smaller must mean closer, and d0 must belong to x0"
    if other:
        evidence += f"; in {other.role} it agrees with them, {_scores(other.relations, [name])}"
    remedy += f", as in {other.role}" if other else f"; {GENUINE}"
    return Finding("direction", level, profile.role, name, message, evidence, remedy)


def _most_against(profile: Profile, against: list[str], agreeing: list[str]) -> Finding:
    """Most distances disagree with the votes: only signs distinguish flipped votes from similarities."""
    single = _single(against)
    evidence = f"{_scores(profile.relations, against)} for {join_names(against)}"
    if all(profile.columns[name].uniform.values[-1] <= 0 for name in against):
        message = f"{single or 'every distance'} disagrees with the votes and is negative: a similarity, or negated"
        remedy = "use the distance itself, at least 0"
    else:
        cause = f"{single} is a similarity: it disagrees" if single else "the distances are similarities: they disagree"
        contrast = f"unlike {join_names(agreeing)}" if agreeing else "and no distance agrees"
        message = f"the votes are flipped (n must count x1), or {cause} with the votes, {contrast}"
        remedy = f"replace n by M - n, or use 1 - similarity; the table alone does not decide which; {GENUINE}"
    return Finding("direction", "warning", profile.role, single, message, evidence, remedy)


def _leaning(profile: Profile, name: str, agreeing: list[str]) -> Finding:
    """One distance scores below 50 % by more than chance, and too little to be sure of the cause."""
    several = f", corrected for {len(profile.varying)} distances" if len(profile.varying) > 1 else ""
    score, p = _scores(profile.relations, [name]), profile.below_half[name]
    evidence = f"{score}, p = {p:.1g} for a score below 50 %{several}"
    cause = "n counts x0"
    if agreeing:
        nearest, cause = _nearest(profile, name, agreeing), "its d0 and d1 are swapped"
        evidence += f"; rank correlation with {nearest} {profile.side[name, nearest]:.2f} (of d0 - d1)"
    message = f"{name} agrees with fewer votes than guessing would: perhaps it is a similarity, or {cause}"
    remedy = f"smaller must mean closer, and d0 must belong to x0; more votes would decide; {GENUINE}"
    return Finding("direction", "note", profile.role, name, message, evidence, remedy)


def _turning(profile: Profile, name: str) -> Finding:
    strata = ", ".join(f"{relation.score:.0f}" for relation in _strata(profile, name))
    message = f"{name} agrees with the votes in one part of its range and disagrees in another: no flip explains that"
    evidence = f"{_scores(profile.relations, [name])}; from small to large distances {strata} %"
    remedy = "look at the fitted surface; in one part a larger distance looks closer"
    return Finding("turning", "note", profile.role, name, message, evidence, remedy)


# Shuffled: distances that explain none of the votes


def _shuffled(tables: list[tuple[Profile, Profile | None]]) -> Iterator[Finding]:
    for profile, other in tables:
        if profile.one_sided or np.std(profile.table.n / profile.table.M) < MIN_VOTE_SPREAD:
            continue
        related = [name for name in profile.varying if profile.relations[name].p < P_RELATED]
        unrelated = [name for name in profile.varying if _explains_nothing(profile, name, related, other)]
        if not related and not unrelated and other is None:
            yield from _too_few_votes(profile)
        elif unrelated and not related:
            yield _table_unrelated(profile, unrelated, other)
        else:
            for name in unrelated:
                yield _one_unrelated(profile, name, related, other if _effect(other, name) > 0 else None)


def _explains_nothing(profile: Profile, name: str, related: list[str], other: Profile | None) -> bool:
    column, relation = profile.columns[name], profile.relations[name]
    # Ties explain nothing, and have a finding of their own.
    if relation.p < P_UNRELATED or np.mean(column.d[0] == column.d[1]) > TOO_MANY_TIES:
        return False
    # The effect to expect of ordered rows: from the other table, or from distances that it is not correlated with.
    limit = max(SMALL_EFFECT, _effect(other, name) / 3)
    ordered = any(not _uncorrelated(profile, one, related) for one in related)
    if len(profile.table) >= SMALL_TABLE and _uncorrelated(profile, name, related) and ordered:
        limit = max(limit, max(_effect(profile, one) for one in related) / 2)
    return relation.largest <= limit


def _effect(profile: Profile | None, name: str) -> float:
    """Smallest plausible effect of a distance in a table, in per cent; 0 where it is not significant."""
    if profile is None or name not in profile.varying or profile.relations[name].p >= P_RELATED:
        return 0.0
    return profile.relations[name].smallest


def _uncorrelated(profile: Profile, name: str, others: list[str]) -> bool:
    """Whether a distance correlates with none of some others, neither in u0 + u1 nor in u0 - u1."""
    least = _chance_correlation(profile)
    others = [other for other in others if other != name]
    return all(max(abs(profile.side[name, other]), abs(profile.size[name, other])) < least for other in others)


def _chance_correlation(profile: Profile) -> float:
    """Rank correlation that shuffled rows hardly ever have."""
    return max(RELATED, 4 / float(np.sqrt(len(profile.table))))


def _too_few_votes(profile: Profile) -> Iterator[Finding]:
    """No distance explains anything, in a table too small to be sure of it."""
    names = list(profile.varying)
    relations = [profile.relations[name] for name in names]
    if not names or len(profile.table) < NOTE_ROWS or any(relation.p < P_UNRELATED for relation in relations):
        return
    if any(_leans(profile, name) for name in names):
        return
    if max(relation.largest for relation in relations) <= NOTE_EFFECT:
        message = "no distance significantly explains these votes: shuffled rows, or useless distances, or a weak one"
        evidence = _unrelated_scores(profile, names)
        remedy = "check that rows and votes belong together; more votes would decide"
        yield Finding("useless", "note", profile.role, _single(names), message, evidence, remedy)


def _table_unrelated(profile: Profile, names: list[str], other: Profile | None) -> Finding:
    """No distance explains anything: the other table, or correlations of the distances, may indicate the cause."""
    role, single = profile.role, _single(names)
    evidence = _unrelated_scores(profile, names) + _repeated_pairs(profile, names)
    remedy = "match the rows again by the names of their images, not by their order"
    explaining = [name for name in names if _effect(other, name) > 0]
    if other and explaining:
        evidence += f"; {_scores(other.relations, explaining)} in {other.role} for {join_names(explaining)}"
        # One distance may be useful in one table only; all of them hardly are.
        cause = f", or {single} is useless there" if single else ": its votes do not belong to its distances"
        return Finding("shuffled", "warning", role, single, f"the rows of {role} are shuffled{cause}", evidence, remedy)
    if single:
        message = f"{single} explains none of the votes: its rows are shuffled, or it is useless"
    elif not any(_uncorrelated(profile, name, names) for name in names):
        message = "no distance explains the votes although the distances are correlated: the votes are shuffled, or "
        message += "all distances are useless"
    else:
        message = "no distance explains the votes: the rows are shuffled, or all distances are useless"
    return Finding("shuffled", "warning", role, single, message, evidence, f"{remedy}; else look for another distance")


def _one_unrelated(profile: Profile, name: str, related: list[str], other: Profile | None) -> Finding:
    """One distance explains nothing where others do; `other` is the other table if it explains the votes there."""
    unlike = unlike_pairs(profile.table, name)
    size, side = (max((table[name, one] for one in related), key=abs) for table in (profile.size, profile.side))
    evidence = (
        f"{_unrelated_scores(profile, [name])}{_repeated_pairs(profile, [name])}; rank correlation with the other "
        f"distances at most {side:.2f} (of d0 - d1) and {size:.2f} (of d0 + d1)"
    )
    if other:
        evidence += f"; in {other.role} it explains them, {_scores(other.relations, [name])}"
    remedy = "match its rows again by the names of their images, not by their order; if they match, it is useless here"
    least = _chance_correlation(profile)
    if abs(side) >= least or (unlike is not None and unlike[0] < FEW_UNLIKE):
        message = f"{name} explains none of the votes although its rows are in order: it is useless here"
        remedy = "leave it out, or keep it as a baseline"
        return Finding("useless", "note", profile.role, name, message, evidence, remedy)
    if other:
        message = f"the rows of {name} are shuffled: its values do not belong to these votes"
    elif abs(size) > 3 * least:
        message = f"{name} explains none of the votes and correlates with other distances in d0 + d1, not in d0 - d1: "
        message += "its d0 and d1 are mixed up, or it is useless"
        remedy = "d0 belongs to x0 and d1 to x1 in every row; if they do, it is useless here"
    else:
        message = f"{name} explains none of the votes and correlates with no other distance: its rows are shuffled, or "
        message += "it is noise"
    return Finding("shuffled", "warning", profile.role, name, message, evidence, remedy)


def _unrelated_scores(profile: Profile, names: list[str]) -> str:
    scores, first = _scores(profile.relations, names), profile.relations[names[0]]
    if len(names) == 1:
        return f"{scores}, p = {first.p:.2g} for no relation to the votes"
    return f"{scores} for {join_names(names)}, each ± {first.se:.1f} or so"


def _repeated_pairs(profile: Profile, names: list[str]) -> str:
    """Describe whether images that occur in several rows have one distance there, if their names are known."""
    results = [result for name in names if (result := unlike_pairs(profile.table, name)) is not None]
    if len(results) < len(names):
        return ""
    unlike, repeated = max(results)
    if unlike < FEW_UNLIKE:
        return "; images that occur in several rows have the same distance there, as they should"
    return f"; of {repeated} pairs of images in several rows, {100 * unlike:.0f} % have different distances there"


def unlike_pairs(table: Votes, name: str) -> tuple[float, int] | None:
    """Share of repeated pairs (reference, image) with different distances, and the number of repeated pairs.

    None where images have no names or hardly any pair repeats.
    """
    images = compared_images(table.labels.columns)
    if not images:
        return None
    frame = pl.concat(
        pl.DataFrame({"ref": table.labels[ref], "x": table.labels[x], "d": d})
        for (ref, x), d in zip(images, table.distances[name], strict=True)
    )
    pairs = frame.group_by("ref", "x").agg(times=pl.len(), width=pl.col("d").max() - pl.col("d").min())
    repeated = pairs.filter(pl.col("times") > 1)["width"].to_numpy()
    if len(repeated) < MIN_PAIRS:
        return None
    low, high = np.quantile(frame["d"].to_numpy(), [0.05, 0.95])
    return float((repeated > UNLIKE * (high - low)).mean()), len(repeated)


# Groups: votes that are flipped or shuffled in one group


def _groups(profile: Profile) -> Iterator[Finding]:
    if "group" not in profile.table.labels.columns:
        return
    labels, code = profile.table.codes("group")
    if not 2 <= len(labels) <= MOST_GROUPS:
        return
    relations = {
        label: {name: profile.relation(name, rows) for name in profile.varying}
        for label, rows in ((label, code == index) for index, label in enumerate(labels))
        if rows.sum() >= MIN_GROUP
    }
    for label, here in relations.items():
        elsewhere = [there for other, there in relations.items() if other != label]
        group = profile.role, label, here, elsewhere
        finding = _flipped_group(*group) or _shuffled_group(*group)
        if finding:
            yield finding


def _flipped_group(role: str, label: str, here: Relations, elsewhere: list[Relations]) -> Finding | None:
    signs = {name: _sign(relation) for name, relation in here.items()}
    against = [name for name in signs if signs[name] == "disagrees"]
    better = [there for there in elsewhere if {_sign(there[name]) for name in against} - {"unclear"} == {"agrees"}]
    if "agrees" in signs.values() or not better:
        return None
    message = (
        f"the votes of group {label} are probably flipped: distances that agree with them elsewhere disagree there"
    )
    evidence = _compared(label, against, here, better[0])
    remedy = (
        "n must count the votes for x1 in every group; replace n by M - n there, unless its distances are similarities"
    )
    return Finding("direction", "warning", role, _single(list(here)), message, evidence, remedy)


def _shuffled_group(role: str, label: str, here: Relations, elsewhere: list[Relations]) -> Finding | None:
    effects = [
        (relation.smallest, index)
        for index, there in enumerate(elsewhere)
        for relation in there.values()
        if relation.p < P_RELATED
    ]
    if not effects:
        return None
    effect, index = max(effects)
    if any(relation.p < P_UNRELATED or relation.largest > effect / 4 for relation in here.values()):
        return None
    names = list(here)
    message = (
        f"no distance explains the votes of group {label}: its rows are shuffled, or no distance measures what people "
        "saw there"
    )
    evidence = _compared(label, names, here, elsewhere[index])
    remedy = "match the rows of the group again by the names of their images: one missing file shifts all rows after it"
    return Finding("shuffled", "warning", role, _single(names), message, evidence, remedy)


def _compared(label: str, names: list[str], here: Relations, there: Relations) -> str:
    return f"{_scores(here, names)} in group {label}, {_scores(there, names)} in another, for {join_names(names)}"

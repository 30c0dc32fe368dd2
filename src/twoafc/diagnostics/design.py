"""Groups, names, numbers of votes, and observers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from scipy.special import bdtrc

from twoafc.arrays import FloatArray, IntArray
from twoafc.diagnostics.findings import Finding, Level, join_names, share_of
from twoafc.diagnostics.profile import Profile
from twoafc.inference import LARGE_PREFERENCE, asymmetry, clustering_of, preference_matters
from twoafc.table import Triplets

UNLIKE_M = 1.3  # ratio of the mean M of two tables from which their NLLs are not comparable
ENOUGH_ROWS = 50  # fewer rows say little about their votes: percentages, one side, a preference
AGREES = 1e-4  # p-value of a 2AFC score above 50 % that shows votes for one side to be about the images
STEPS = 10
"""Steps in which P rises with the difference of two distances, where a preference for one side is looked for."""
PEOPLE = range(1, 11)  # numbers of people whose percentages may be mistaken for counts out of 100
P_ONE_KEY = 1e-4  # probability of so one-sided an observer among all observers
MOSTLY = 0.9  # share of one key from which an observer is tested
LOPSIDED = 0.75  # expected share of a key beyond which the triplets themselves ask for that key


def design(profile: Profile) -> Iterator[Finding]:
    """Check groups, names and counts of one table."""
    yield from _lonely_groups(profile)
    yield from _spellings(profile)
    yield from _percentages(profile)
    for column, name in profile.table.unused.items():
        message, evidence = f"the column {column} is not used", f"it may be what is called {name} here"
        yield Finding("unused", "note", profile.role, None, message, evidence, f"if so, add --rename {column}={name}")


def choices(profile: Profile) -> Iterator[Finding]:
    """Check votes for one side, rows that name one image twice, and observers who press one key."""
    yield from list(one_sided(profile)) or _preference(profile)
    yield from _one_image(profile)
    yield from _one_key(profile)


def unlike_votes(train: Profile, test: Profile) -> Iterator[Finding]:
    """Find a different M in the two tables."""
    a, b = train.table.M, test.table.M
    means = float(a.mean()), float(b.mean())
    fixed = all(M.min() == M.max() for M in (a, b))
    # Means of few rows with mixed M differ by chance.
    error = float(np.sqrt(a.var() / len(a) + b.var() / len(b)))
    unlike = max(means) >= UNLIKE_M * min(means) and abs(means[0] - means[1]) > 4 * error
    if unlike or (fixed and means[0] != means[1]):
        message = f"M differs between train and test: their NLLs per {test.table.row} are not comparable, P is"
        evidence = f"M = {_span(a)} in train, {_span(b)} in test"
        remedy = "compare NLL per vote; a fit to one is valid for the other"
        yield Finding("unlike_votes", "note", "both", None, message, evidence, remedy)


def _span(M: IntArray) -> str:
    return f"{M[0]}" if M.min() == M.max() else f"{M.min()}..{M.max()} (mean {M.mean():.2f})"


def _lonely_groups(profile: Profile) -> Iterator[Finding]:
    if "group" not in profile.table.labels.columns:
        return
    sizes = dict(sorted(profile.table.labels["group"].value_counts().iter_rows()))
    lonely = [group for group, rows in sizes.items() if rows == 1]
    if lonely and len(sizes) > 1:
        noun = profile.table.row
        message = f"a group needs several {noun}s; some have only one"
        evidence = f"{len(lonely)} of {len(sizes)} groups have one {noun}: {join_names(lonely)}"
        remedy = (
            f"check the column group (names of rows belong in the column {noun}), or join small groups: each counts as "
            "much as a large one in the mean of groups"
        )
        yield Finding("lonely_groups", "warning", profile.role, None, message, evidence, remedy)


def _spellings(profile: Profile) -> Iterator[Finding]:
    table = profile.table
    for name, frame in (("group", table.labels), ("observer", table.labels), ("observer", table.votes)):
        if frame is None or name not in frame.columns:
            continue
        spellings: dict[str, list[str]] = {}
        for label in frame[name].unique().sort().to_list():
            spellings.setdefault("".join(label.split()).casefold(), []).append(label)
        several = [" and ".join(map(repr, labels)) for labels in spellings.values() if len(labels) > 1]
        if several:
            message = f"one {name} must have one name; some differ only in capitals or spaces"
            evidence = join_names(several)
            remedy = "use one spelling; otherwise they count as different"
            yield Finding("spelling", "warning", profile.role, None, message, evidence, remedy)


def _percentages(profile: Profile) -> Iterator[Finding]:
    n, M = profile.table.n, profile.table.M
    if len(n) < ENOUGH_ROWS or M.min() != M.max() or M[0] not in (100, 1000):
        return
    whole, values = int(M[0]), set(np.unique(n).tolist())
    for people in PEOPLE:
        exact = [whole * j / people for j in range(people + 1)]
        if values <= {int(f(x)) for x in exact for f in (np.floor, np.ceil)}:
            message = "n and M are numbers of votes; these look like percentages of fewer people"
            evidence = f"M = {whole} in every row, and every n is a multiple of 1/{people} of it"
            remedy = f"give numbers of people: M = {people}, or the true number, and n of them"
            yield Finding("percent", "warning", profile.role, None, message, evidence, remedy)
            return


def one_sided(profile: Profile) -> Iterator[Finding]:
    """Find votes that are nearly all for x0 or x1, and whether distances show why; or nearly all same or different."""
    table, side = profile.table, profile.one_sided
    if side is None or len(table) < ENOUGH_ROWS:
        return
    n, votes = int(table.n.sum()), int(table.M.sum())
    chosen = n if side == "x1" else votes - n
    amount = "all" if chosen == votes else "nearly all"
    names = list(profile.varying) if table.k == 2 else []
    agreeing = [name for name in names if profile.relations[name].high < AGREES]
    evidence = f"{share_of(chosen, votes)} votes"
    if names:
        shown = agreeing or names
        scores = [profile.relations[name].score for name in shown]
        span = f"{scores[0]:.1f}" if len(scores) == 1 else f"{min(scores):.1f}..{max(scores):.1f}"
        evidence += f"; 2AFC {span} % for {join_names(shown)}"
    level: Level = "note" if agreeing else "warning"
    if table.k == 1:
        message = f"{amount} votes are {'same' if side == 'x1' else 'different'}: no distance can explain much"
        remedy = "check that n counts the people who see no difference"
    elif agreeing:
        message = f"{amount} votes are for {side}: probably the image that was chosen is always {side}"
        remedy = "scores do not depend on which image is x0, and remain valid; no preference for one side can be seen"
    else:
        message = f"{amount} votes are for {side}, and no distance explains why: n may be wrong, or one side was "
        message += "always the better one"
        remedy = f"check that n counts the votes for x1; scores only say how often {side} is nearer"
    yield Finding("one_sided", level, profile.role, None, message, evidence, remedy)


def _preference(profile: Profile) -> Iterator[Finding]:
    """Find a preference for one side, beyond what the best distance explains."""
    table = profile.table
    if len(table) < ENOUGH_ROWS or not isinstance(table, Triplets):
        return
    best = max(profile.varying, key=lambda name: abs(profile.relations[name].score - 50), default=None)
    P, weight = np.full(len(table), 0.5), 1 if table.weight is None else table.weight
    if best is not None:
        u0, u1 = profile.columns[best].u
        P = _by_steps(table.n / table.M, u0, u1, weight)
    excess = 100 * float((weight * (table.n - table.M * P)).sum() / (weight * table.M).sum())
    if table.votes is None and abs(excess) < LARGE_PREFERENCE:
        return  # without clusters, which take time
    preference = asymmetry(table, P, clustering_of(table))
    if not preference_matters(preference):
        return
    side = "second" if preference["value"] > 0 else "first"
    message = f"people prefer the {side} image as shown"
    if not preference["shown"]:
        message = f"people prefer the {side} image of the table, or x0 and x1 were not assigned at random"
    evidence = (
        f"{abs(preference['value']):.1f} % of votes beyond what {best or 'chance'} explains, 95 % interval "
        f"{preference['low']:+.1f} to {preference['high']:+.1f}"
    )
    remedy = (
        "P treats both sides alike: no distance explains it, and all scores are worse; show each pair in both orders"
    )
    yield Finding("side", "note", profile.role, None, message, evidence, remedy)


def _by_steps(share: FloatArray, u0: FloatArray, u1: FloatArray, weight: FloatArray | int = 1) -> FloatArray:
    """P of each row by the size of u0 - u1, in steps; the same for both sides, by the rows' weights."""
    difference = u0 - u1
    size = np.abs(difference)
    step = np.searchsorted(np.unique(np.quantile(size, np.arange(1, STEPS) / STEPS)), size)
    votes = np.bincount(step, weight * (size > 0))
    excess = np.bincount(step, weight * np.sign(difference) * (share - 0.5)) / np.where(votes > 0, votes, 1)
    return np.asarray(0.5 + np.sign(difference) * excess[step])


def _one_image(profile: Profile) -> Iterator[Finding]:
    """Find rows whose names say that two of x0, x1 and the reference are the same image."""
    labels = profile.table.labels
    if not {"ref", "x0", "x1"} <= set(labels.columns):
        return
    same = int((labels["x0"] == labels["x1"]).sum())
    references = int(((labels["x0"] == labels["ref"]) | (labels["x1"] == labels["ref"])).sum())
    if same + references:
        message = "x0, x1 and the reference should be three images; some rows name one twice"
        twice, as_reference = share_of(same, len(labels)), share_of(references, len(labels))
        evidence = f"x0 is x1 in {twice} rows, x0 or x1 is the reference in {as_reference}"
        remedy = "leave such rows out unless they are attention checks"
        yield Finding("one_image", "note", profile.role, None, message, evidence, remedy)


def _one_key(profile: Profile) -> Iterator[Finding]:
    """Find observers who always press the same key; choices count as shown, before swaps are undone."""
    shown = _votes_as_shown(profile)
    if shown is None:
        return
    observers = shown.group_by("observer").agg(pl.all().sum()).sort("observer")
    all_votes, all_ones = int(observers["votes"].sum()), int(observers["one"].sum())
    for observer, ones, votes, asked in observers.select("observer", "one", "votes", "asked").iter_rows():
        # The expected share of 1 is that of the other observers, or that of the distances if there are none.
        others = all_votes > votes
        usual = (all_ones - ones) / (all_votes - votes) if others else asked / votes
        for key, times, expected in (("1", ones, usual), ("0", votes - ones, 1 - usual)):
            if times < MOSTLY * votes or expected > LOPSIDED:
                continue
            if len(observers) * bdtrc(times - 1, votes, max(0.5, expected)) < P_ONE_KEY:
                message = f"observer {observer} always presses the same key: choice {key}"
                evidence = f"{times} of {votes} votes are {key}; {100 * expected:.0f} % " + (
                    "for the other observers" if others else "are expected from the distances"
                )
                remedy = "leave this observer out, or check how the choices were recorded"
                yield Finding("one_key", "warning", profile.role, None, message, evidence, remedy)


def _votes_as_shown(profile: Profile) -> pl.DataFrame | None:
    """Votes as shown: observer, votes for 1, votes, and the votes for 1 that the distances predict."""
    table = profile.table
    signs = [np.sign(column.u[0] - column.u[1]) for column in profile.columns.values()]
    asked = np.mean([(sign + 1) / 2 for sign in signs], axis=0)
    if table.votes is not None and "observer" in table.votes.columns:
        asked, swapped = asked[table.votes["row"].to_numpy()], table.votes["swapped"].to_numpy()
        return table.votes.select(
            "observer", one="choice", votes=pl.lit(1), asked=pl.Series(np.where(swapped, 1 - asked, asked))
        )
    if "observer" not in table.labels.columns:
        return None
    return table.labels.select(
        "observer", one=pl.Series(table.n), votes=pl.Series(table.M), asked=pl.Series(asked * table.M)
    )

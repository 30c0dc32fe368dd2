"""Groups, counts of votes and names that are not what they should be."""

from __future__ import annotations

import numpy as np

from twoafc.diagnostics.finding import Finding, listed, share_of
from twoafc.diagnostics.view import View
from twoafc.table import Triplets

UNLIKE = 1.3
"""Ratio of the mean M of two tables from which their NLLs are not to be compared."""
FEWEST_ROWS = 50
PARTS = range(1, 11)
"""Numbers of people whose share, written in per cent, passes for a count out of 100."""


def design(view: View) -> list[Finding]:
    """Look at groups, names and counts of one table."""
    return [*_lonely(view), *_spellings(view), *_percent(view), *_one_sided(view), *_one_image(view)]


def unlike_votes(train: View, test: View) -> list[Finding]:
    """Find M unlike between the two tables."""
    a, b = train.table.M, test.table.M
    means = float(a.mean()), float(b.mean())
    fixed = all(M.min() == M.max() for M in (a, b))
    # Few rows with a mixed M differ by accident.
    error = float(np.sqrt(a.var() / len(a) + b.var() / len(b)))
    unlike = max(means) >= UNLIKE * min(means) and abs(means[0] - means[1]) > 4 * error
    if not unlike and not (fixed and means[0] != means[1]):
        return []
    return [
        Finding(
            "unlike_votes",
            "note",
            "both",
            None,
            "M is not alike in train and test: their NLLs per triplet do not compare, P does",
            f"M = {_span(a)} in train, {_span(b)} in test",
            "compare NLL per vote; a fit to one serves the other",
        )
    ]


def _span(M: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    return f"{M[0]}" if M.min() == M.max() else f"{M.min()}..{M.max()} (mean {M.mean():.2f})"


def _labels(table: Triplets, name: str) -> dict[str, int]:
    """Each label of a column with the number of its rows, in order."""
    if name not in table.labels.columns:
        return {}
    return dict(sorted(table.labels[name].value_counts().iter_rows()))


def _lonely(view: View) -> list[Finding]:
    groups = _labels(view.table, "group")
    lonely = [group for group, rows in groups.items() if rows == 1]
    if not lonely or len(groups) == 1:
        return []
    return [
        Finding(
            "lonely_groups",
            "warning",
            view.role,
            None,
            "a group needs several triplets; some have one only",
            f"{len(lonely)} of {len(groups)} groups have one triplet: {listed(lonely)}",
            "check the column group (names of rows belong in the column triplet), or join small groups: each counts as "
            "much as a large one in the mean of groups",
        )
    ]


def _spellings(view: View) -> list[Finding]:
    found = []
    columns = [("group", view.table.labels), ("observer", view.table.labels), ("observer", view.table.votes)]
    for name, frame in columns:
        if frame is None or name not in frame.columns:
            continue
        spelt: dict[str, list[str]] = {}
        for label in frame[name].unique().sort().to_list():
            spelt.setdefault("".join(label.split()).casefold(), []).append(label)
        twice = [labels for labels in spelt.values() if len(labels) > 1]
        if twice:
            examples = listed([" and ".join(repr(label) for label in labels) for labels in twice])
            found.append(
                Finding(
                    "spelling",
                    "warning",
                    view.role,
                    None,
                    f"one {name} must have one name; some differ by capitals or spaces only",
                    examples,
                    "write them alike, or they count apart",
                )
            )
    return found


def _percent(view: View) -> list[Finding]:
    n, M = view.table.n, view.table.M
    if len(n) < FEWEST_ROWS or M.min() != M.max() or M[0] not in (100, 1000):
        return []
    whole, values = int(M[0]), set(np.unique(n).tolist())
    for parts in PARTS:
        exact = [whole * j / parts for j in range(parts + 1)]
        rounded = {int(f(x)) for x in exact for f in (np.floor, np.ceil)}
        if values <= rounded:
            return [
                Finding(
                    "percent",
                    "warning",
                    view.role,
                    None,
                    "n and M are numbers of votes; these look like shares of fewer people",
                    f"M = {whole} in every row, and every n is a multiple of 1/{parts} of it",
                    f"give the number of people: M = {parts}, or what it was, and n of them",
                )
            ]
    return []


def _one_sided(view: View) -> list[Finding]:
    n, M = view.table.n, view.table.M
    if len(n) < FEWEST_ROWS or (n.any() and (n != M).any()):
        return []
    chosen = "x1" if n.any() else "x0"
    return [
        Finding(
            "one_sided",
            "note",
            view.role,
            None,
            f"all votes are for {chosen}",
            f"n is {'M' if n.any() else '0'} in all {len(n)} rows",
            "check that n counts the votes for x1, and that the better image is not always on one side by design",
        )
    ]


def _one_image(view: View) -> list[Finding]:
    """Rows whose names say that x0 and x1, or one of them and the reference, are the same image."""
    labels = view.table.labels
    if not {"ref", "x0", "x1"} <= set(labels.columns):
        return []
    same = int((labels["x0"] == labels["x1"]).sum())
    anchors = int(((labels["x0"] == labels["ref"]) | (labels["x1"] == labels["ref"])).sum())
    if same + anchors == 0:
        return []
    return [
        Finding(
            "one_image",
            "note",
            view.role,
            None,
            "x0, x1 and the reference should be three images; some rows name one twice",
            f"x0 is x1 in {share_of(same, len(labels))} rows, x0 or x1 is the reference in "
            f"{share_of(anchors, len(labels))}",
            "leave such rows out unless they are meant to catch inattention",
        )
    ]

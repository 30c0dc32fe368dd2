"""Is the candidate worse than the baseline by more than a margin? A non-inferiority test with three outcomes.

The loss is the NLL per vote of the candidate less that of the baseline, on the same rows:

    L = sum of (nll_c - nll_b) / sum of M,

a ratio of two sums, whose error is that of its linearisation, clustered like all error bars and with the noise of
training where the results have it. Each limit is one-sided: the loss lies above the upper one in 5 % of all cases.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from twoafc.errors import DataError
from twoafc.inference import PER_VOTE, Difference, clustering_of, difference_interval, paired_difference, places
from twoafc.results import Result, SharedRows, known_name, shared_rows

LIMIT = 0.95
"""Level of each limit, one-sided."""
EXIT = {"pass": 0, "fail": 1, "undecided": 3}
"""Exit codes of the command; 2 is that of a mistake."""


@dataclass(frozen=True)
class Gate:
    """Whether a candidate is worse than a baseline by more than a margin.

    Attributes
    ----------
    outcome : "pass", "fail" or "undecided"
        Pass where the upper limit of the loss is below the margin, fail where its lower limit is above it.
    loss, se : float
        NLL per vote of the candidate less that of the baseline, in nats, with its standard error.
    low, high : float or None
        Limits of the loss, each one-sided at 95 %; None where they cannot be known.
    max_loss : float
        The margin.
    baseline, candidate, estimator : str
        The distances that were compared, and what fitted P.
    triplets, votes : int
        What they were compared on.
    notes : list of str
        What the error bars describe; then what few references or people mean for the limits, and settings of the two
        evaluations that differ.
    row : "triplet" or "pair"
        Kind of the rows.
    """

    outcome: Literal["pass", "fail", "undecided"]
    loss: float
    se: float | None
    low: float | None
    high: float | None
    max_loss: float
    baseline: str
    candidate: str
    estimator: str
    triplets: int
    votes: int
    notes: list[str]
    row: str = "triplet"

    @property
    def exit_code(self) -> int:
        """0 for pass, 1 for fail, 3 for undecided."""
        return EXIT[self.outcome]

    def __str__(self) -> str:
        against = f"of {self.candidate} against {self.baseline}"
        if self.low is None or self.high is None:
            return f"{self.outcome}: the loss {against} is {self.loss:g} nats per vote, without known limits"
        digits = max(places(self.high - self.low), 3)
        limits = [x for x in (self.low, self.high) if x != self.max_loss]
        # Enough digits that the printed limits are on the same side of the margin.
        while digits < 12 and any((round(x, digits) - self.max_loss) * (x - self.max_loss) <= 0 for x in limits):
            digits += 1
        loss, low, high = (f"{round(x, digits) + 0.0:.{digits}f}" for x in (self.loss, self.low, self.high))
        verdict = {
            "pass": f"at most {high}, below the margin {self.max_loss:g}",
            "fail": f"at least {low}, above the margin {self.max_loss:g}",
            "undecided": f"between {low} and {high}, which includes the margin {self.max_loss:g}",
        }[self.outcome]
        return (
            f"{self.outcome}: loss {against} {loss} nats per vote, {verdict} (95 % limits, {self.triplets} {self.row}s)"
        )

    def record(self) -> dict[str, Any]:
        """Everything as a record, with the line and the exit code."""
        return asdict(self) | {"exit_code": self.exit_code, "sentence": str(self)}


def gate(
    baseline: str | Path | Result,
    candidate: str | Path | Result,
    *,
    max_loss: float,
    distance: str | Sequence[str] | None = None,
    estimator: str | None = None,
) -> Gate:
    """Decide whether a candidate is worse than a baseline by more than a margin, in nats per vote.

    Parameters
    ----------
    baseline, candidate : folder of results, or Result
        Tested on the same triplets. Two distances of one result may be compared, too.
    max_loss : float
        The largest loss that is acceptable; 0 asks for a candidate that is better.
    distance : str, or two of them, optional
        The distance to compare; two where they have different names, the baseline's first. Needed where a result has
        several.
    estimator : str, optional
        Default the first that both have.
    """
    if not np.isfinite(max_loss):
        raise ValueError(f"max_loss must be a finite number of nats per vote; got {max_loss}")
    ours, theirs = (given if isinstance(given, Result) else Result.read(given) for given in (baseline, candidate))
    if ours.folder and theirs.folder and os.path.realpath(ours.folder) == os.path.realpath(theirs.folder):
        theirs = ours
    chosen = _distances(ours, theirs, distance)
    if ours.row == theirs.row:  # otherwise `shared_rows` says so
        _require_same_rows(ours, theirs, len({*ours.rows[ours.row]} & {*theirs.rows[ours.row]}), "of one name")
    shared = shared_rows([ours] if ours is theirs else [ours, theirs])
    table = shared.table
    if shared.notes:
        _require_same_rows(ours, theirs, len(table), "of one name, group and images")
    names = [shared.named(name, result) for name, result in zip(chosen, (ours, theirs), strict=True)]
    label = _estimator(shared.parts, names, estimator)
    difference = difference_per_vote(shared, names[::-1], label, "nll")
    loss, se, low, high = difference.mean, None, None, None
    # Who rules out votes which were cast has an infinite NLL: a loss, or a gain, beyond any margin.
    below, above = loss == -np.inf, loss == np.inf
    if np.isfinite(difference.se):
        loss, se, low, high = difference_interval(*difference, level=2 * LIMIT - 1)
        below, above = high < max_loss, low > max_loss
    return Gate(
        "pass" if below else "fail" if above else "undecided",
        loss,
        se,
        low,
        high,
        max_loss=max_loss,
        baseline=names[0],
        candidate=names[1],
        estimator=label,
        triplets=len(table),
        votes=int(table.M.sum()),
        notes=[shared.description, *clustering_of(table).caveats(), *_unlike_settings(ours, theirs)],
        row=table.row,
    )


def difference_per_vote(shared: SharedRows, names: Sequence[str], estimator: str, measure: str) -> Difference:
    """Mean of a measure over votes by one distance less that by another, with its clustered standard error.

    The noise of training is included where the results have it. NaN where an error cannot be known.
    """
    a, b = (shared.values(name, estimator) for name in names)
    per_vote = next(name for name, of in PER_VOTE.items() if of == measure)
    difference = paired_difference(a, b, per_vote, clustering_of(shared.table))
    return difference if difference.units > 1 else difference._replace(se=np.nan)


def _distances(ours: Result, theirs: Result, asked: str | Sequence[str] | None) -> list[str]:
    """Name of the baseline's distance, and of the candidate's."""
    given = [asked] if isinstance(asked, str) else list(asked or [])
    if len(given) > 2:
        raise ValueError(f"a gate compares two distances, the baseline's and the candidate's; got {', '.join(given)}")
    chosen = []
    for role, result, place in (("baseline", ours, 0), ("candidate", theirs, -1)):
        known = result.distances
        if not given and len(known) > 1:
            raise DataError(f"{result.name} has several distances: {', '.join(known)}; name the {role}'s (--distance)")
        name = known_name(given[place], known) if given else known[0]
        if name not in known:
            raise DataError(f"{result.name} has no distance {name}; it has {', '.join(known)}")
        chosen.append(name)
    if ours is theirs and chosen[0] == chosen[1]:
        raise DataError(f"baseline and candidate are both {chosen[0]} of {ours.name}; name two distances of it")
    return chosen


def _require_same_rows(ours: Result, theirs: Result, both: int, what: str) -> None:
    """Raise a DataError where one result has rows that are not in both: the difference would not be paired."""
    a, b = (each.rows[each.row].n_unique() for each in (ours, theirs))
    if both < max(a, b):
        raise DataError(
            f"baseline and candidate must be tested on the same {ours.row}s; there are {a} in {ours.name} and {b} in "
            f"{theirs.name}, {both} {what}: evaluate both on the same test table"
        )


def _unlike_settings(ours: Result, theirs: Result) -> list[str]:
    """Name settings of two evaluations that differ: part of the loss is then theirs, and not the distance's."""
    a, b = (result.card.get("settings", {}) for result in (ours, theirs))
    names = [name for name in ("folds", "seeds", "seed") if a.get(name) != b.get(name)]
    unlike = ", ".join(f"{name} {a.get(name)} and {name} {b.get(name)}" for name in names)
    return [f"the evaluations differ ({unlike}): part of the loss may come from that"] if unlike else []


def _estimator(parts: Any, names: Sequence[str], asked: str | None) -> str:
    both = [label for name, label in parts if name == names[0] and (names[1], label) in parts]
    if not both:
        raise DataError("baseline and candidate must be fitted by the same estimator; they share none")
    if asked is not None and asked not in both:
        raise DataError(f"baseline and candidate have no estimator {asked} in common; they share {', '.join(both)}")
    return asked or both[0]

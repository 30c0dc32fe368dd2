"""How many triplets, votes, references and people are needed to distinguish two distances.

What one vote adds to the difference of two distances a and b, v = alpha + beta y with y = 1 for a vote for x1, is for
the NLL, with P the fitted probabilities,

    alpha = log((1 - P_b) / (1 - P_a)),    alpha + beta = log(P_b / P_a),

and for 2AFC scores 100 times the agreement of a less that of b. v varies between references, between triplets of one
reference, between votes on one triplet, and between observers. With K references, T triplets of M votes each, and J
observers, the mean over all votes has the variance

    s_R^2 / K + s_T^2 / T + s_V^2 / (T M) + s_O^2 / J.

The four components are estimated by moments: mean products of deviations over pairs of votes that share a triplet, a
reference, or an observer, less that over pairs which share nothing; small pilots are helped by correlations that real
votes have. The power is that of the paired test that
`twoafc.evaluate` makes: Student's t, with one degree of freedom less than there are references (or observers, if
fewer).
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import nctdtr, ndtr, stdtrit

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.evaluation import evaluate
from twoafc.inference import LEVEL, Record, ballots, clustering_of
from twoafc.metrics import Ties, choice
from twoafc.results import Result, known_name, shared_rows
from twoafc.table import REFERENCES, Votes, as_votes
from twoafc.worlds import simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = {
    "nll": "nats per vote",
    "score_2afc": "% of votes (2AFC as fitted)",
    "score_2afc_distance": "% of votes (2AFC)",
}
"""Measures of a difference, and their units."""
VOTES = (1, 2, 3, 5, 10)
"""Votes on each triplet that a plan considers."""
FEW = 1.5
"""Triplets per reference, below which a pilot estimates the variance between references poorly."""
MOST = 100_000_000
"""Largest number of triplets that is searched."""
BLOCKS = 40
"""References are left out in at most so many blocks, for the uncertainty of the components."""
USUAL, USUAL_PAIRS = {"triplets": 0.2, "references": 0.0, "observers": 0.0}, 100
"""Correlations of two votes on one triplet, on one reference and of one observer that few pairs are averaged with."""
NAMES = ("references", "triplets", "votes", "observers", "intraclass")
"""What is printed of the components, with standard errors where there is a pilot."""
LEAST = 1e-6
"""P is clipped this far from 0 and 1, so that no single vote dominates."""


@dataclass(frozen=True)
class Components:
    """Variances of what one vote adds to the difference of two distances.

    Attributes
    ----------
    references, triplets, votes, observers : float
        Between references, between triplets of one reference, between votes on one triplet, between observers.
    difference : float
        Mean difference per vote in the pilot, of the first distance less the second.
    per_reference : float
        Triplets of each reference.
    per_observer : float or None
        Votes of each observer; None where observers are not known, and taken as one vote each.
    """

    references: float
    triplets: float
    votes: float
    observers: float = 0.0
    difference: float = float("nan")
    per_reference: float = 1.0
    per_observer: float | None = None

    def __post_init__(self) -> None:
        for name in ("references", "triplets", "votes", "observers"):
            value = getattr(self, name)
            if not 0 <= value < np.inf:
                raise ValueError(f"{name} is a variance, a number of at least 0; got {value:g}")

    @property
    def intraclass(self) -> float:
        """Correlation of two votes on one triplet; M votes have a design effect of 1 + (M - 1) times this."""
        whole = self.references + self.triplets + self.votes + self.observers
        return (self.references + self.triplets) / whole if whole > 0 else 0.0


@dataclass(frozen=True, eq=False)
class SingleVotes:
    """What each vote adds to a difference, shape (votes,), and the numbers of its triplet, reference and observer."""

    v: FloatArray
    weight: FloatArray
    triplet: IntArray
    ref: IntArray
    observer: IntArray | None

    def at(self, kept: BoolArray) -> SingleVotes:
        """Some of the votes."""
        observer = None if self.observer is None else self.observer[kept]
        return SingleVotes(self.v[kept], self.weight[kept], self.triplet[kept], self.ref[kept], observer)


def single_votes(
    table: Votes,
    P: Sequence[FloatArray],
    measure: str,
    distances: Sequence[tuple[FloatArray, ...]] = (),
    *,
    ties: Ties = "half",
) -> SingleVotes:
    """Expand a table to single votes with what each adds to the difference of two distances.

    `P` are the probabilities of x1 by the two distances, `distances` their columns, for ``score_2afc_distance``.
    """
    alpha, beta = _added(P, measure, distances, ties)
    votes = ballots(table)
    if votes is None:
        row = np.repeat(np.arange(len(table)), table.M)
        rank = np.arange(len(row)) - np.repeat(np.cumsum(table.M) - table.M, table.M)
        y, observer = rank < table.n[row], None
    else:
        row, y, observer = votes.row, votes.chosen, votes.observer
    weight = np.ones(len(table)) if table.weight is None else table.weight
    return SingleVotes(alpha[row] + beta[row] * y, weight[row], row, _reference(table)[row], observer)


def _added(
    P: Sequence[FloatArray], measure: str, distances: Sequence[tuple[FloatArray, ...]], ties: Ties
) -> list[FloatArray]:
    """Alpha and beta of each row."""
    if measure == "nll":
        a, b = (np.clip(chances, LEAST, 1 - LEAST) for chances in P)
        alpha = np.log1p(-b) - np.log1p(-a)
        return [alpha, np.log(b) - np.log(a) - alpha]
    margins = [chances - 0.5 for chances in P] if measure == "score_2afc" else [d0 - d1 for d0, d1 in distances]
    apart = choice(margins[0], ties=ties) - choice(margins[1], ties=ties)
    return [-100 * apart, 200 * apart]


def _reference(table: Votes) -> IntArray:
    """Number of each row's reference; of quadruples the first; its own where none is known."""
    name = next((name for name in REFERENCES if name in table.labels.columns), None)
    return np.arange(len(table)) if name is None else table.codes(name)[1]


def estimate_components(votes: SingleVotes) -> Components:
    """Estimate the components of variance by moments; none below 0.

    Mean products over few pairs of votes are imprecise: as correlations they are averaged with `USUAL` ones, which have
    the weight of `USUAL_PAIRS` pairs. A pair of votes on two triplets has the product of their weights, one over the
    chance that both were drawn; a pair on one triplet has its weight.
    """
    w = votes.weight
    mean = float(np.average(votes.v, weights=w))
    deviation, ref, triplet = votes.v - mean, votes.ref, votes.triplet
    # An observer of each vote's own changes nothing.
    observer = np.arange(len(w)) if votes.observer is None else votes.observer
    once = observer * (triplet.max() + 1) + triplet
    by_ref, by_observer, both, of_one, of_both = (
        _squares(deviation, w, code) for code in (ref, observer, observer * (ref.max() + 1) + ref, triplet, once)
    )
    own, by_triplet, same = (_squares(deviation, np.sqrt(w), code) for code in (np.arange(len(w)), triplet, once))
    everything = np.array([0.0, w.sum() ** 2, len(w) ** 2])
    apart = _mean_product(everything - by_ref - by_observer + both)
    total = _mean_product(own) - apart

    def correlation(pairs: FloatArray, kind: str) -> float:
        number = pairs[2] / 2
        observed = (_mean_product(pairs) - apart) / total if total > 0 else 0.0
        return float((number * observed + USUAL_PAIRS * USUAL[kind]) / (number + USUAL_PAIRS))

    def alike(same: FloatArray, pairs: FloatArray) -> float:
        return float(same[1] / pairs[1]) if pairs[2] > 0 else 0.0

    of_observers = max(correlation(by_observer - both, "observers"), 0.0) if votes.observer is not None else 0.0
    of_reference, of_triplet = by_ref - of_one, by_triplet - own
    references = max(correlation(of_reference, "references") - alike(both - of_both, of_reference) * of_observers, 0.0)
    triplets = correlation(of_triplet, "triplets") - alike(same - own, of_triplet) * of_observers - references
    triplets = max(triplets, 0.0)
    return Components(
        references=total * references,
        triplets=total * triplets,
        votes=total * max(1 - references - triplets - of_observers, 0.0),
        observers=total * of_observers,
        difference=mean,
        per_reference=len(np.unique(triplet)) / len(np.unique(ref)),
        per_observer=None if votes.observer is None else len(w) / len(np.unique(observer)),
    )


def _squares(x: FloatArray, w: FloatArray, code: IntArray) -> FloatArray:
    """Sum over sets of votes of the squared sums of w x, and of w, and of the squared numbers of votes."""
    _, place = np.unique(code, return_inverse=True)
    return np.array([float((np.bincount(place, weights) ** 2).sum()) for weights in (w * x, w, np.ones(len(x)))])


def _mean_product(sums: FloatArray) -> float:
    """Mean product over pairs; 0 where there are none."""
    return float(sums[0] / sums[1]) if sums[2] > 0 else 0.0


def left_out(votes: SingleVotes) -> list[Components]:
    """Components without one block of references at a time, for the jackknife."""
    references, code = np.unique(votes.ref, return_inverse=True)
    blocks = min(len(references), BLOCKS)
    block = np.random.default_rng(0).permutation(len(references))[code] % blocks
    return [estimate_components(votes.at(block != k)) for k in range(blocks)]


@dataclass(frozen=True)
class Study:
    """What a study has: what limits it, what is asked of it, and what it costs.

    Attributes
    ----------
    difference : float or None
        Difference to detect, per vote.
    se : float or None
        Standard error to reach, instead.
    power : float
        Chance to detect the difference, at 5 %, two-sided.
    references, observers : int or None
        Numbers that there are; None where they grow with the triplets and the votes.
    per_reference, per_observer : float or None
        Triplets of each reference and votes of each observer, where those numbers are not given; default the pilot's.
    cost_per_vote, cost_per_observer : float
    """

    difference: float | None = None
    se: float | None = None
    power: float = 0.8
    references: int | None = None
    observers: int | None = None
    per_reference: float | None = None
    per_observer: float | None = None
    cost_per_vote: float = 0.0
    cost_per_observer: float = 0.0

    def __post_init__(self) -> None:
        if (self.difference is None) == (self.se is None):
            raise ValueError("give the difference to detect, or the standard error to reach: one of difference and se")
        for name in ("difference", "se", "references", "observers", "per_reference", "per_observer"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number; got {value:g}")
        if not 1 - LEVEL < self.power < 1:
            raise ValueError(f"power must lie between 0.05 and 1; got {self.power:g}")
        for name in ("cost_per_vote", "cost_per_observer"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0; got {getattr(self, name):g}")

    def numbers(self, components: Components, T: Any, M: Any) -> tuple[Any, Any]:
        """References and observers of a study with T triplets of M votes each; infinite where people are not known."""
        K = T / (self.per_reference or components.per_reference) if self.references is None else self.references
        per_observer = self.per_observer or components.per_observer
        if not (self.observers or per_observer or components.observers):
            return np.minimum(T, K), np.inf
        J = T * M / (per_observer or 1.0) if self.observers is None else self.observers
        return np.minimum(T, K), np.clip(J, 1.0, T * M)

    def cost(self, votes: Any, observers: Any) -> Any:
        """Cost of a study with so many votes and observers; of observers that are not known there is none."""
        people = np.where(np.isinf(observers), 0, np.ceil(observers))
        return self.cost_per_vote * votes + self.cost_per_observer * people

    def standard_error(self, components: Components, T: Any, M: Any) -> FloatArray:
        """Standard error of the difference per vote with T triplets of M votes each."""
        T, M = np.asarray(T, dtype=np.float64), np.asarray(M, dtype=np.float64)
        K, J = self.numbers(components, T, M)
        variance = components.references / K + components.triplets / T + components.votes / (T * M)
        return np.asarray(np.sqrt(variance + components.observers / J))

    def power_of(self, components: Components, T: Any, M: Any) -> FloatArray:
        """Chance that the paired test with T triplets of M votes each detects the difference."""
        T, M = np.asarray(T, dtype=np.float64), np.asarray(M, dtype=np.float64)
        K, J = self.numbers(components, T, M)
        freedom = np.maximum(np.minimum(K, J) - 1, 1.0)
        with np.errstate(divide="ignore"):
            away = np.minimum((self.difference or 0.0) / self.standard_error(components, T, M), 1e3)
        quantile = stdtrit(freedom, 0.5 + LEVEL / 2)
        power = 1 - nctdtr(freedom, away, quantile) + nctdtr(freedom, away, -quantile)
        # Far from 0 scipy's noncentral t may be NaN; there a normal approximation is as good.
        far = ndtr((away - quantile * (1 - 1 / (4 * freedom))) / np.sqrt(1 + quantile**2 / (2 * freedom)))
        return np.asarray(np.where(np.isnan(power), far, power))

    def reached(self, components: Components, T: int, M: int) -> bool:
        """Whether a study is large enough; for a test it needs two references at least, and two people if known."""
        if self.se is not None:
            return bool(self.standard_error(components, T, M) <= self.se)
        K, J = self.numbers(components, T, M)
        return bool(min(K, J) >= 2 and self.power_of(components, T, M) >= self.power)

    def triplets(self, components: Components, M: int) -> int | None:
        """Fewest triplets of M votes each that are enough; None where no number is."""
        if self.observers is not None and self.observers < M:
            return None
        T = bisect_left(range(MOST + 1), True, lo=2, key=lambda T: self.reached(components, T, M))
        return T if T <= MOST else None

    def row(self, components: Components, M: int) -> Record | None:
        """The smallest study with M votes on each triplet, with its numbers and cost."""
        T = self.triplets(components, M)
        if T is None:
            return None
        K, J = self.numbers(components, T, M)
        record: Record = {
            "votes_per_triplet": M,
            "triplets": T,
            "references": int(np.ceil(K)),
            "votes": T * M,
            "observers": None if np.isinf(J) else int(np.ceil(J)),
            "cost": float(self.cost(T * M, J)) if self.cost_per_vote or self.cost_per_observer else None,
            "se": float(self.standard_error(components, T, M)),
        }
        return record | ({} if self.difference is None else {"power": float(self.power_of(components, T, M))})


@dataclass(frozen=True)
class StudySize:
    """How large a study must be.

    Attributes
    ----------
    rows : list of records
        For each number of votes on a triplet the smallest study: triplets, references, votes, observers, cost, se,
        power.
    best : record or None
        The cheapest, or where no costs are given that with the fewest votes; None where none is large enough.
    components : Components
    interval : (float, float) or None
        95 % interval of the triplets of the best study, from the uncertainty of the components (jackknife over
        references); None where they are given.
    errors : mapping of component to float
        Standard errors of the components and of ``intraclass``, by the same jackknife; none where they are given.
    """

    study: Study
    components: Components
    measure: str
    pair: tuple[str, str]
    rows: list[Record]
    best: Record | None
    interval: tuple[float, float] | None
    errors: dict[str, float]
    pilot: str
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """What the study needs, in one or two sentences to paste into a proposal."""
        study, unit, (a, b) = self.study, MEASURES[self.measure], self.pair
        if study.difference is None:
            aim = f"For a standard error of {study.se:g} {unit} of the difference between {a} and {b}"
        else:
            test = f"{100 * study.power:g} % power (paired test, two-sided, 5 %)"
            aim = f"To tell {a} and {b} apart by {study.difference:g} {unit} with {test}"
        if self.best is None:
            if study.references is None and study.observers is None:
                return f"{aim}, more than {MOST:,} triplets are needed"
            return f"{aim}, no number of triplets is enough: references or people are too few"
        best = self.best
        shared = best["references"] < best["triplets"]
        of = f" of {best['references']:,} references" if shared else ""
        votes = f"{best['votes_per_triplet']} vote{'s' * (best['votes_per_triplet'] > 1)} on each"
        people = "" if best["observers"] is None else f" by {best['observers']:,} people"
        cost = "" if best["cost"] is None else f", at a cost of {best['cost']:,.0f}"
        parts = [
            f"{aim}, {best['triplets']:,} triplets{of} are needed, with {votes}: {best['votes']:,} votes{people}{cost}."
        ]
        if self.interval is not None:
            low, high = self.interval
            number = f"put the number of triplets between {low:,.0f} and {high:,.0f} (95 %)"
            if high > MOST:
                number = "say little of the number of triplets: more votes are needed to plan"
            parts.append(f"Variances are from {self.pilot}; they {number}.")
        return " ".join(parts)

    @property
    def variances(self) -> list[str]:
        """The components of variance and the correlation of two votes on one triplet, in two sentences."""
        of = self.components
        texts = {name: f"{getattr(of, name):.2g}{_spread(getattr(of, name), self.errors.get(name))}" for name in NAMES}
        people = "people are not known" if of.per_observer is None else f"{texts['observers']} between people"
        return [
            f"Variance of a vote: {texts['references']} between references, {texts['triplets']} between triplets, "
            f"{texts['votes']} between votes on one triplet; {people}.",
            f"Two votes on one triplet correlate by {texts['intraclass']}; M of them have a design effect of "
            "1 + (M - 1) times that.",
        ]

    def record(self) -> Record:
        """Everything as a record."""
        return {
            "sentence": self.sentence,
            "pair": list(self.pair),
            "measure": self.measure,
            "study": asdict(self.study),
            "components": asdict(self.components) | {"intraclass": self.components.intraclass},
            "errors": self.errors,
            "rows": self.rows,
            "best": self.best,
            "triplets_interval": self.interval,
            "notes": self.notes,
        }

    def figure(self) -> Figure:
        """Draw power, or the standard error, over triplets and votes, with lines of equal cost."""
        from matplotlib.figure import Figure

        from twoafc.plots import COLUMN, study_contour

        study, best = self.study, self.best
        middle = best["triplets"] if best else 1000
        T, M = np.geomspace(max(middle / 8, 4), middle * 4, 60), np.linspace(1, 10, 37)
        grid = T[:, None], M
        if study.se is None:
            values, level, label = study.power_of(self.components, *grid), study.power, "power"
        else:
            values, level = study.standard_error(self.components, *grid), study.se
            label = f"standard error, {MEASURES[self.measure]}"
        votes = T[:, None] * M
        cost = study.cost(votes, study.numbers(self.components, *grid)[1])
        figure = Figure(figsize=(COLUMN, 2.7), layout="constrained")
        study_contour(
            T,
            M,
            values,
            figure.subplots(),
            label=label,
            level=level,
            cost=cost if cost.any() else votes,
            cost_label="cost" if cost.any() else "votes",
            best=None if best is None else (best["triplets"], best["votes_per_triplet"]),
        )
        return figure


def _spread(value: float, error: float | None) -> str:
    """Write the error of a component: none where it is given or assumed, and unknown where it is cut off at 0."""
    if error is None or (error < 1e-9 and value > 0):
        return ""
    return f" ± {error:.1g}" if error > 0 else " or a little more"


def size(
    pilot: Any,
    *,
    pair: Sequence[str] | None = None,
    measure: str = "nll",
    estimator: str = "auto",
    votes: Sequence[int] = VOTES,
    **study: Any,
) -> StudySize:
    """Find how many triplets, votes, references and people a study needs.

    Parameters
    ----------
    pilot : table with votes and distances, a path of one, a Result or its folder, or Components
        A table is evaluated by cross-validation. With `Components` the variances are taken as given.
    pair : two names, optional
        The distances to compare; needed where there are more than two.
    measure : {"nll", "score_2afc", "score_2afc_distance"}
        In nats per vote, or % of votes.
    estimator : str
        What fits P.
    votes : sequence of int
        Votes on each triplet to consider.
    **study
        What is asked and what limits it: ``difference=0.01`` or ``se=0.004``, ``power``, ``references``, ``observers``,
        ``per_reference``, ``per_observer``, ``cost_per_vote``, ``cost_per_observer``; see `Study`.

    Examples
    --------
    >>> given = Components(references=0.01, triplets=0.02, votes=0.12, per_reference=4)
    >>> size(given, pair=("a", "b"), difference=0.03)
    To tell a and b apart by 0.03 nats per vote with 80 % power (paired test, two-sided, 5 %), 1,578 triplets of 395
    references are needed, with 1 vote on each: 1,578 votes.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}; got {measure}")
    if not votes or min(votes) < 1 or any(int(M) != M for M in votes):
        raise ValueError(f"votes on a triplet must be whole numbers of at least 1; got {list(votes)}")
    wanted = Study(**study)
    parts: list[Components] = []
    notes: list[str] = []
    if isinstance(pilot, Components):
        (a, b), components, about = pair_of(pair or ("a", "b"), None), pilot, "given"
    else:
        (a, b), single, about, notes = _judged(pilot, pair, measure, estimator)
        if np.all(single.ref == single.ref[0]):
            raise DataError("a pilot needs two references at least, to show how much they differ; this one has one")
        components, parts = estimate_components(single), left_out(single)
        if not np.any(single.v):
            raise DataError(f"{a} and {b} never differ in the pilot: their difference is known to be 0")
    if wanted.cost_per_observer and np.isinf(wanted.numbers(components, 1, 1)[1]):
        raise ValueError(
            "a cost of people needs their number: give observers or per_observer (--observers, --per-observer)"
        )
    rows = [row for row in (wanted.row(components, M) for M in votes) if row is not None]
    by = "votes" if not rows or rows[0]["cost"] is None else "cost"
    best = min(rows, key=lambda row: row[by], default=None)
    interval = None
    if best is not None and parts:
        M = best["votes_per_triplet"]
        interval = jackknife_interval(best["triplets"], [wanted.triplets(part, M) for part in parts])
    if parts and best is not None and components.per_reference < FEW < best["triplets"] / best["references"]:
        notes.append("the pilot has few triplets of one reference: the variance between references is poorly estimated")
    if parts and components.observers == 0 and (components.per_observer or wanted.observers):
        notes.append("the pilot does not show how much people differ: the variance between them is taken to be 0")
    if measure == "nll" and np.isfinite(components.difference):
        notes.append("the noise of training is not included in the plan: fits to few votes add to the error")
    return StudySize(wanted, components, measure, (a, b), rows, best, interval, _errors(parts), about, notes)


def _errors(parts: Sequence[Components]) -> dict[str, float]:
    """Standard errors of the components, from those without one block of references each."""
    if not parts:
        return {}
    values = np.array([[getattr(part, name) for name in NAMES] for part in parts])
    return dict(zip(NAMES, _jackknife_error(values).tolist(), strict=True))


def _jackknife_error(values: FloatArray) -> FloatArray:
    """Standard errors from values without one block each, along the first axis."""
    return np.asarray(np.sqrt((len(values) - 1) * values.var(axis=0)))


def jackknife_interval(whole: int, parts: Sequence[int | None]) -> tuple[float, float]:
    """95 % interval of a number of triplets on the logarithmic scale, from those without one block each."""
    known = np.log([part for part in parts if part is not None])
    if len(known) < max(2, len(parts)):
        return float(np.exp(known.min(initial=np.log(whole)))), float("inf")
    margin = float(stdtrit(len(known) - 1, 0.5 + LEVEL / 2) * _jackknife_error(known))
    return float(whole * np.exp(-margin)), float(whole * np.exp(margin))


def _judged(
    pilot: Any, pair: Sequence[str] | None, measure: str, estimator: str
) -> tuple[tuple[str, str], SingleVotes, str, list[str]]:
    """Single votes of a pilot, with what each adds to the difference, and the pilot in words."""
    if isinstance(pilot, str | Path) and os.path.isdir(pilot):
        pilot = Result.read(pilot)
    if not isinstance(pilot, Result):
        table = as_votes(pilot)
        names = pair_of(list(table.distances), pair)
        pilot = evaluate(table, distances=names, estimators=estimator, error_bars="fixed")
        (estimator,) = pilot.estimators
    pilot.require_triplets("a plan")
    names = pair_of(pilot.distances, pair)
    label = estimator if estimator in pilot.estimators else pilot.estimators[0]
    if label != estimator != "auto":
        raise DataError(f"the pilot has no estimator {estimator}; it has {', '.join(pilot.estimators)}")
    shared = shared_rows([pilot])
    outcomes = [pilot.outcome_rows(name, label) for name in names]
    table = shared.table
    P = [outcome["P"].to_numpy() for outcome in outcomes]
    distances = [(outcome["d0"].to_numpy(), outcome["d1"].to_numpy()) for outcome in outcomes]
    notes = []
    if int(table.M.max()) == 1:
        notes.append(f"no triplet has two votes: two are taken to correlate by {USUAL['triplets']:g}, as real ones do")
    if clustering_of(table).rows.family == "images":
        notes.append("images recur in several places: the plan counts references alone, and may be too small")
    about = f"a pilot of {int(table.M.sum()):,} votes on {len(table):,} triplets"
    return names, single_votes(table, P, measure, distances, ties=pilot.ties), about, notes


def pair_of(known: Sequence[str], pair: Sequence[str] | None) -> tuple[str, str]:
    """Names of the two distances; by default those of a table with two."""
    if pair is None and len(known) != 2:
        raise DataError(f"name the two distances to compare (--pair); there are {', '.join(known)}")
    names = [known_name(name, known) for name in (known if pair is None else pair)]
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None:
        raise DataError(f"there is no distance {wrong}; there are {', '.join(known)}")
    if len(names) != 2 or names[0] == names[1]:
        raise ValueError(f"a pair is two distances; got {', '.join(names)}")
    return names[0], names[1]


def simulated_pilot(
    world: str,
    noise: Sequence[float],
    *,
    triplets: int = 3000,
    votes: int = 3,
    references: int | None = None,
    seed: int = 0,
) -> Any:
    """Table of votes in a world whose distance two candidates see with noise: ``a`` and ``b``, log-normal each.

    Examples
    --------
    >>> simulated_pilot("weber", (0.2, 0.5), triplets=10).columns
    ['triplet', 'n', 'M', 'a_d0', 'a_d1', 'b_d0', 'b_d1']
    """
    if len(noise) != 2 or min(noise) < 0:
        raise ValueError(f"noise is two numbers of at least 0, of the two distances; got {list(noise)}")
    frame = simulate(world, triplets=triplets, votes=votes, references=references, seed=seed)
    rng = np.random.default_rng([seed, 1])
    columns = {
        f"{name}_d{k}": frame[f"d{k}"].to_numpy() * np.exp(spread * rng.standard_normal(triplets))
        for name, spread in zip("ab", noise, strict=True)
        for k in (0, 1)
    }
    return frame.drop("d0", "d1", "P").with_columns(**columns)

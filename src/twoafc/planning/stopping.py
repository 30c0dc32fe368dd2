"""Where a running study stands: an interval of the difference that is valid however often one looks.

A 95 % interval that is looked at after every batch, until it excludes 0, excludes the truth far more often than in 5 %
of all studies. The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Annals of
Statistics 52, 2024; the boundary is Robbins' normal mixture) does not. With the standard error se of the difference so
far, and a scale tau that is fixed before the study,

    difference +- se sqrt((1 + 1/k) log((1 + k) / 0.05^2)),    k = tau^2 / se^2.

It is narrowest near k = 8: with tau the difference to detect, that is where a study of fixed size would end. Where
references or observers are few, the factor is replaced by the quantile of Student's t with the same tail.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.special import ndtr, stdtrit

from twoafc.arrays import Progress
from twoafc.evaluation import evaluate
from twoafc.inference import COMPARED, LEVEL, Interval, Record, clustering_of, places
from twoafc.planning.batches import read_judged, study_weights, unanswered
from twoafc.planning.deciding import difference_per_vote
from twoafc.planning.sizing import MEASURES, pair_of
from twoafc.results import shared_rows
from twoafc.table import REFERENCES, Triplets, distance_columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST = 2.0
"""Without a difference to detect, tau^2 is this times the first batch's squared standard error."""
WIDEST = 1e3
"""Standard errors to each side, above which an interval says nothing."""
FEW_VOTES = 50
"""Votes of the first batch, below which intervals excluded the truth too often in simulations."""
MOST = 10**6
"""Times the votes so far that are searched for those that are still needed."""


def always_valid(value: float, se: float, units: float, *, scale: float, level: float = LEVEL) -> Interval:
    """Interval of a mean that is simultaneously valid at all looks.

    Parameters
    ----------
    units : float
        Effective number of units that the standard error is from.
    scale : float
        Tau, fixed before the first look: the interval is narrowest, relative to se, where se is about a third of it.

    Examples
    --------
    >>> once = always_valid(0.0, 1.0, 1000.0, scale=2.9)
    >>> round(once.high, 2)
    3.04
    """
    k = (scale / se) ** 2 if se > 0 else math.inf
    quantile = math.sqrt((1 + 1 / k) * math.log((1 + k) / (1 - level) ** 2)) if 0 < k < math.inf else math.nan
    if units > 1 and math.isfinite(quantile):
        tail = float(ndtr(-quantile))
        quantile = max(quantile, float(-stdtrit(units - 1, tail)))
    quantile = quantile if quantile < WIDEST else math.nan
    return Interval(value, se, value - quantile * se, value + quantile * se)


@dataclass(frozen=True, eq=False)
class Standing:
    """Where a study stands.

    Attributes
    ----------
    looks : list of records
        After each batch: ``batch``, ``triplets``, ``votes``, ``difference`` (of the first distance less the second, per
        vote), ``se``, ``low``, ``high`` (always-valid).
    decided : str
        Name of the better distance, "neither" where the difference is known to be smaller than the one to detect, or
        "" where the study should go on.
    remaining : int or None
        Votes that are still needed, about, if the difference stays what it is; None where this cannot be said.
    table : polars.DataFrame
        All votes so far with their weights, to evaluate.
    notes : list of str
        Batches with triplets that have no votes yet, and what few votes, references or people mean for the interval.
    """

    looks: list[Record]
    pair: tuple[str, str]
    measure: str
    difference: float | None
    decided: str
    remaining: int | None
    table: pl.DataFrame
    notes: list[str]

    def __repr__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """Where the study stands, in words."""
        look, (a, b), better = self.looks[-1], self.pair, COMPARED[2][self.measure].better
        ahead, behind, sign = (a, b, better) if better * look["difference"] >= 0 else (b, a, -better)
        low, high = sorted((sign * look["low"], sign * look["high"]))
        if not math.isfinite(high - low):
            unknown = f"the difference of {a} and {b} has no known interval yet"
            if look["difference"] == look["se"] == 0:
                unknown = f"{a} and {b} have not differed yet; if they never do, no decision is possible"
            return f"Go on: after {look['votes']:,} votes on {look['triplets']:,} triplets, {unknown}"
        decimals = max(places(high - low), 1)
        votes = f"after {look['votes']:,} votes on {look['triplets']:,} triplets"
        span = f"{low:.{decimals}f} to {high:.{decimals}f} {MEASURES[self.measure]} (95 %, however often one looks)"
        if self.decided == "neither":
            return f"Stop: {votes}, {a} and {b} differ by less than {self.difference:g}: {ahead} is ahead by {span}"
        if self.decided:
            return f"Stop: {votes}, {ahead} is better than {behind} by {span}"
        left = ""
        if self.remaining is not None:
            left = f"; about {self.remaining:,} more votes are needed if it stays so"
            grown = {"references": REFERENCES, "people": ("observer",)}
            grow = [word for word, names in grown.items() if any(name in self.table.columns for name in names)]
            left += f" and {' and '.join(grow)} increase in proportion" if grow else ""
        return f"Go on: {votes}, {ahead} is ahead of {behind} by {span}{left}"

    def record(self) -> Record:
        """Everything but the table, as a record."""
        names = ("sentence", "decided", "remaining", "pair", "measure", "difference", "looks", "notes")
        return {name: getattr(self, name) for name in names}

    def figure(self) -> Figure:
        """Draw the difference with its interval over the batches."""
        from matplotlib.figure import Figure

        from twoafc.plots import COLUMN, batch_intervals

        figure = Figure(figsize=(COLUMN, 2.3), layout="constrained")
        names = ("votes", "difference", "low", "high")
        votes, value, low, high = (np.array([look[name] for look in self.looks]) for name in names)
        a, b = self.pair
        label = f"{a} − {b},\n{MEASURES[self.measure]}"
        batch_intervals(votes, value, low, high, figure.subplots(), label=label, margin=self.difference)
        return figure


def status(
    judged: Any,
    *,
    pair: Sequence[str] | None = None,
    measure: str = "nll",
    difference: float | None = None,
    estimator: str = "auto",
    progress: Progress | None = None,
    **settings: Any,
) -> Standing:
    """Report where a running study stands: the difference after each batch, with an always-valid interval.

    Parameters
    ----------
    judged : table, path or list of paths
        Votes so far, with the columns that `choose` gave the triplets; without them the table is one batch.
    pair : two names, optional
        Distances to compare; needed where there are more than two.
    measure : {"nll", "score_2afc", "score_2afc_distance"}
    difference : float, optional
        Difference to detect, per vote. The study may also stop where the difference is known to be smaller. Name it
        before the study, and do not change it.
    **settings
        Of `twoafc.evaluate`: ``error_bars="fixed"`` leaves out the noise of training, and is quicker.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}; got {measure}")
    if difference is not None and not difference > 0:
        raise ValueError(f"difference must be a positive number; got {difference:g}")
    table = read_judged(judged)
    Triplets.from_frame(table)  # report errors in the user's table, not in ours
    if "batch" not in table.columns:
        table = table.with_columns(batch=pl.lit(1))
    known = [name for name, ends in distance_columns(table.columns).items() if len(ends) == 2]
    names = pair_of(known, pair)
    batches = sorted(table["batch"].unique().to_list())
    looks: list[Record] = []
    scale = difference
    for place, batch in enumerate(batches):
        if progress:
            progress(place, len(batches), f"batch {batch}")
        far = table.filter(pl.col("batch") <= batch)
        votes = Triplets.from_frame(study_weights(far) if "inclusion" in far.columns else far)
        result = evaluate(votes, distances=names, estimators=estimator, **settings)
        estimate = difference_per_vote(shared_rows([result]), names, estimator, measure)
        scale = scale or math.sqrt(FIRST) * estimate.se
        interval = always_valid(*estimate, scale=scale)
        looks.append(
            {"batch": batch, "triplets": len(votes), "votes": int(votes.M.sum()), "units": estimate.units}
            | dict(zip(("difference", "se", "low", "high"), interval, strict=True))
        )
    decided = _decided(looks[-1], names, COMPARED[2][measure].better, difference)
    remaining = None if decided else _remaining(looks[-1], scale or math.nan, difference)
    notes = unanswered(table)
    if looks[0]["votes"] < FEW_VOTES:
        notes.append(
            f"the first batch has {looks[0]['votes']} votes; with fewer than {FEW_VOTES} the true difference may lie "
            "outside the interval more often"
        )
    clustering = clustering_of(votes)
    notes += [caveat for caveat in clustering.caveats() if caveat not in clustering.weighting]
    return Standing(looks, names, measure, difference, decided, remaining, table, notes)


def _decided(look: Record, names: Sequence[str], better: int, difference: float | None) -> str:
    if look["low"] > 0 or look["high"] < 0:
        return names[0] if better * look["difference"] > 0 else names[1]
    if difference is not None and -difference < look["low"] and look["high"] < difference:
        return "neither"
    return ""


def _remaining(look: Record, scale: float, difference: float | None) -> int | None:
    """Votes until the interval is narrow enough to decide: it excludes 0, or the difference to detect.

    The squared standard error is taken to fall as one over the votes.
    """
    target = abs(look["difference"])
    if difference is not None:
        target = max(target, difference - target)

    def half(more: int) -> float:
        factor = 1 + more / look["votes"]
        return always_valid(0.0, look["se"] / math.sqrt(factor), look["units"] * factor, scale=scale).high

    if not target > 0 or not math.isfinite(half(0)):
        return None
    searched = range(MOST * look["votes"])
    more = bisect_left(searched, True, key=lambda more: half(more) <= target)
    return more if more < len(searched) else None

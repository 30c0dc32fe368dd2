"""Floor and ceiling of scores: what P = 1/2 gets, what one person gets, and what the best function of a triplet could.

The best possible P is the true chance p of each choice, which a few votes a triplet do not reveal. They do bound how p
spreads over triplets, and so what the best could reach: see `mixture`. Every number of votes M has a mixture of its
own, since M may go with p; one mixture for all is an assumption that `ceiling_common` tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from twoafc.arrays import IntArray
from twoafc.inference.ceiling_bounds import Bounds, VoteCeiling, of_one_M
from twoafc.inference.ceiling_votes import (
    by_number_of_votes,
    checked,
    dependence_of,
    part,
    people_agree,
)
from twoafc.inference.dependence import Dependence
from twoafc.metrics import log_likelihood

UNKNOWN = "M = 1 only: no ceiling can be known"


@dataclass(frozen=True)
class Ceiling:
    """Floor and ceiling that votes imply.

    ``_low`` and ``_high`` bound what the votes' distribution leaves open at the most likely mixture; ``_lowest`` and
    ``_highest`` allow for the sampling of triplets and votes besides, all of them jointly at the level, or more.
    Where the counts fit no mixture exactly the most likely one is the only one with its counts, and low and high meet:
    that is no precision.

    Attributes
    ----------
    triplets, pairs : int
        Number of triplets, and of pairs of votes on the same triplet.
    floor_nll : float
        NLL of P = 1/2 on these votes. The floor of the 2AFC score is 50.
    nll_low, nll_high, nll_lowest, nll_highest : float
        Expected NLL of the best function of the triplet, the true chance of each choice.
    gain_low, gain_high, gain_lowest, gain_highest : float
        By how much that beats P = 1/2 in expectation: M (log 2 - entropy of a vote), nats per triplet.
    score_2afc_low, score_2afc_high, score_2afc_lowest, score_2afc_highest : float
        Expected 2AFC score, per cent, of always choosing as most people would.
    human_triplets, human_pairs, human_triplets_se, human_pairs_se : float
        How often one person agrees with another, per cent, with standard errors: as the mean over triplets with M >= 2,
        and over all pairs of votes. NaN where M = 1 throughout.
    by_votes : tuple of VoteCeiling
        The same for each M.
    level : float
    known : bool
        False where M = 1 throughout: the bounds are then those of any votes.
    note : str
        What a reader should know, in words.
    """

    triplets: int
    pairs: int
    floor_nll: float
    nll_low: float
    nll_high: float
    nll_lowest: float
    nll_highest: float
    gain_low: float
    gain_high: float
    gain_lowest: float
    gain_highest: float
    score_2afc_low: float
    score_2afc_high: float
    score_2afc_lowest: float
    score_2afc_highest: float
    human_triplets: float
    human_triplets_se: float
    human_pairs: float
    human_pairs_se: float
    by_votes: tuple[VoteCeiling, ...]
    level: float
    known: bool
    note: str


def ceiling(
    n: ArrayLike, M: ArrayLike, *, clusters: ArrayLike | Dependence | None = None, level: float = 0.95
) -> Ceiling:
    """Find the floor and the ceiling of scores on some votes.

    Parameters
    ----------
    n, M : arrays of int, shape (T,)
        Of M people who judged each triplet, n chose x1.
    clusters : array, shape (T,), or Dependence, optional
        Equal labels mark rows that go together, such as triplets of one reference. A `Dependence` may also
        have the number of triplets that each row stands for.
    level : float
        Joint level of all bounds with sampling error.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = ceiling(rng.binomial(5, rng.beta(0.8, 0.8, 3000)), np.full(3000, 5))
    >>> [round(x, 2) for x in (found.floor_nll, found.nll_lowest, found.nll_low, found.nll_high, found.nll_highest)]
    [2.28, 1.04, 1.08, 1.15, 1.18]

    The truth is 77.1 %:

    >>> round(found.score_2afc_lowest, 1), round(found.score_2afc_highest, 1)
    (73.5, 80.8)
    >>> ceiling([0, 1], [1, 1]).note
    'M = 1 only: no ceiling can be known'
    """
    n, M = checked(n, M)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; found {level:g}")
    together = dependence_of(clusters, len(n))
    times = together.times
    histograms, rows = by_number_of_votes(n, M, times)
    # Where one M has most of the triplets it has most of the level: the sum of their errors is then about least.
    shares = np.sqrt([each.triplets if each.M > 1 else 0 for each in histograms])
    risks = (1 - level) * shares / max(shares.sum(), 1)
    records = tuple(
        of_one_M(each, part(together, where), 1 - risk)
        for each, where, risk in zip(histograms, rows, risks, strict=True)
    )
    weights = np.array([each.triplets for each in records]) / times.sum()
    averaged = {
        name: Bounds(
            *(float(weights @ column) for column in zip(*(getattr(each, name) for each in records), strict=True))
        )
        for name in ("nll", "gain", "score_2afc")
    }
    return assemble(n, M, together, averaged, records, level)


def explained(
    found: Ceiling, nll: float, nll_low: float | None = None, nll_high: float | None = None
) -> tuple[float | None, float | None]:
    """Share of what can be explained that a model explains: (floor - NLL) / (floor - ceiling), as an interval.

    The ceiling's sampling error is always in it, and the NLL's where its limits are given. The ends are the least and
    the greatest ratio within both: if the limits hold with probability a and the ceiling's bounds with b, the interval
    does with a + b - 1 at least. Floor and NLL are of the same votes, so that limits of their paired difference serve
    better than those of the NLL alone: pass floor_nll minus them.

    Returns
    -------
    (low, high)
        1 is all. None for an end that does not exist: both where no ceiling is known, and one where the votes do not
        exclude that P = 1/2 is already the best.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = ceiling(rng.binomial(5, rng.beta(0.8, 0.8, 3000)), np.full(3000, 5))
    >>> low, high = explained(found, nll=1.50)
    >>> round(low, 2), round(high, 2)
    (0.61, 0.74)
    """
    limits = [nll if nll_low is None else nll_low, nll if nll_high is None else nll_high]
    if not limits[0] <= nll <= limits[1]:
        raise ValueError(f"nll must lie between nll_low and nll_high; found {nll:g} and {limits[0]:g}, {limits[1]:g}")
    if not found.known:
        return None, None
    most, least = (found.floor_nll - limit for limit in limits)
    # A gain divided by the best gain is least where that is greatest; a loss, where it is least.
    low = _ratio(least, found.gain_highest if least >= 0 else found.gain_lowest)
    high = _ratio(most, found.gain_lowest if most >= 0 else found.gain_highest)
    return low, high


def _ratio(gain: float, best: float) -> float | None:
    # The bounds are proven to about 1e-5 nats; a lesser gain is none.
    return gain / best if best > 1e-5 else None


def assemble(
    n: IntArray,
    M: IntArray,
    together: Dependence,
    averaged: dict[str, Bounds],
    records: tuple[VoteCeiling, ...],
    level: float,
) -> Ceiling:
    """Put bounds, floor and people together, with a note of what they rest on."""
    flat = {f"{name}_{end}": value for name, each in averaged.items() for end, value in each._asdict().items()}
    human, human_se = people_agree(n, M, together)
    pooled, pooled_se = people_agree(n, M, together, pooled=True)
    times = together.times
    return Ceiling(
        triplets=int(times.sum()),
        pairs=int(times @ (M * (M - 1) // 2)),
        floor_nll=float(-np.average(log_likelihood(n, M, 0.5), weights=times)),
        **flat,
        human_triplets=human,
        human_triplets_se=human_se,
        human_pairs=pooled,
        human_pairs_se=pooled_se,
        by_votes=records,
        level=level,
        known=bool((M > 1).any()),
        note=_note(M, times, records, level),
    )


def _note(M: IntArray, times: IntArray, records: tuple[VoteCeiling, ...], level: float) -> str:
    if M.max() == 1:
        return UNKNOWN
    told = []
    lone = int(times[M == 1].sum())
    if lone:
        told.append(f"{lone} of {times.sum()} triplets have one vote, which bounds nothing")
    thinned = [each for each in records if each.kept < each.M]
    if thinned:
        listed = ", ".join(f"{each.kept} of {each.M}" for each in thinned[:3])
        told.append(f"of many votes, or on few triplets, some are used ({listed}{', ...' if len(thinned) > 3 else ''})")
    odd = [each for each in records if each.p < (1 - level) / len(records)]
    if odd:
        listed = ", ".join(f"M = {each.M}" for each in odd)
        told.append(f"no mixture fits the votes ({listed}): votes on a triplet are not independent draws of one chance")
    return "; ".join(told)

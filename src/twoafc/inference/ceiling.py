"""Floor and ceiling of scores: those of P = 1/2, of one person, and of the best possible function of a triplet.

The best possible P is the true probability p of each choice, which a few votes per triplet do not reveal. Its expected
scores are bounded by means of functions of the votes: such a function has in expectation at least (or at most) the
score, whatever p is (`twoafc.inference.mixtures`). The bounds are confidence limits of these means over all triplets.

Each number of votes M has its own functions. Neighbouring M with few triplets are pooled: they share the functions for
as many votes as the fewest of them, averaged over all draws of so many votes from those of a triplet. Nothing is
assumed about how p depends on M, within a pool or between pools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, stdtrit

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import log_coefficient
from twoafc.inference.dependence import ALONE, Dependence, Strata, distinct_numbers
from twoafc.inference.intervals import share_interval, t_interval
from twoafc.inference.mixtures import EVERY, Q, bounding_function, estimate_mixture, folded_draws, folded_pmf
from twoafc.metrics import log_likelihood

UNKNOWN = "M = 1 only: no ceiling can be known"
# An M with fewer triplets is pooled with the next ones, up to this ratio to the smallest.
FEW, RATIO = 50, 1.3
# All M from here on are one pool: more votes hardly narrow the bounds.
LARGE = 200
# Triplets that the distribution of p over all M counts for in the estimate for one pool.
SHARED = 20.0
# Confidence limits share the error probability: for each of three scores two, and one of the best scored function.
LIMITS = 9


class Bounds(NamedTuple):
    """Bounds of a quantity: as estimated (low, high), and with their sampling error (lowest, highest)."""

    low: float
    high: float
    lowest: float
    highest: float


@dataclass(frozen=True, repr=False)
class Ceiling:
    """Floor and ceiling that votes imply.

    ``_low`` and ``_high`` are the bounds as estimated: what the distribution of votes leaves unknown. ``_lowest`` and
    ``_highest`` add the sampling of triplets and votes; all of them hold jointly with probability `level` or more.
    """

    triplets: int
    pairs: int  #: pairs of votes on the same triplet
    floor_nll: float  #: NLL of P = 1/2 on these votes; the floor of the 2AFC score is 50
    nll_low: float  #: expected NLL of the best function of the triplet, the true probability of each choice
    nll_high: float
    nll_lowest: float
    nll_highest: float
    gain_low: float  #: its expected advantage over P = 1/2: M (log 2 - entropy of a vote), nats per triplet
    gain_high: float
    gain_lowest: float
    gain_highest: float
    score_2afc_low: float  #: expected 2AFC score, per cent, of always choosing as most people would
    score_2afc_high: float
    score_2afc_lowest: float
    score_2afc_highest: float
    human_triplets: float  #: how often one person agrees with another, per cent, as the mean over triplets with M >= 2
    human_triplets_se: float
    human_pairs: float  #: the same over all pairs of votes; NaN where M = 1 throughout
    human_pairs_se: float
    level: float
    known: bool  #: False where M = 1 throughout: the bounds then hold for any votes
    note: str  #: limitations of these bounds, in words

    def __repr__(self) -> str:
        if not self.known:
            return f"Ceiling(floor NLL {self.floor_nll:.4f}; {self.note})"
        nll, score = (self.nll_lowest, self.nll_highest), (self.score_2afc_lowest, self.score_2afc_highest)
        return (
            f"Ceiling(floor NLL {self.floor_nll:.4f}; best NLL {nll[0]:.4f} to {nll[1]:.4f}, 2AFC {score[0]:.1f} to "
            f"{score[1]:.1f} %; people agree on {self.human_triplets:.1f} %)"
        )


def estimate_ceiling(
    n: ArrayLike,
    M: ArrayLike,
    *,
    clusters: ArrayLike | Dependence | None = None,
    scored: Mapping[str, Sequence[ArrayLike]] | None = None,
    among: int = 1,
    level: float = 0.95,
) -> Ceiling:
    """Estimate the floor and the ceiling of scores from votes.

    Parameters
    ----------
    n, M : arrays of int, shape (T,)
        Of M people who judged each triplet, n chose x1.
    clusters : array, shape (T,), or Dependence, optional
        Equal labels mark dependent rows, such as triplets of one reference. A `Dependence` may also have
        the number of triplets that each row stands for, and sampling weights.
    scored : mapping, optional
        ``nll`` and ``score_2afc`` of functions of the triplet that were not fitted to these votes: for each function an
        array, shape (T,), with the value of every row. The best function is at least as good as each of them: its 2AFC
        score is at least the largest of their lower confidence limits (simultaneous, by Bonferroni), its NLL at most
        the smallest of their upper ones.
    among : int
        How many times as many functions were scored in all, for ceilings that `best_of` joins.
    level : float
        Joint level of all bounds with sampling error.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ceiling = estimate_ceiling(rng.binomial(5, rng.beta(0.8, 0.8, 3000)), np.full(3000, 5))
    >>> nll = ceiling.floor_nll, ceiling.nll_lowest, ceiling.nll_low, ceiling.nll_high, ceiling.nll_highest
    >>> [round(x, 2) for x in nll]
    [2.28, 1.04, 1.08, 1.15, 1.18]

    The truth is 77.1 %:

    >>> round(ceiling.score_2afc_lowest, 1), round(ceiling.score_2afc_highest, 1)
    (73.4, 80.8)
    >>> estimate_ceiling([0, 1], [1, 1]).note
    'M = 1 only: no ceiling can be known'
    """
    n, M = _checked_votes(n, M)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; found {level:g}")
    dependence, risk = as_dependence(clusters, len(n)), (1 - level) / LIMITS
    limits = _reached(scored or {}, -log_likelihood(n, M, 0.5), dependence, (risk / among, (1 - level) / among))
    if not dependence.kinds and dependence.sampling is None:
        n, M, dependence = _once_each(n, M, dependence)
    times, weights = dependence.times, dependence.weights
    pools, pool, kind = pools_by_votes(n, M, times, weights)
    samples = bounding_samples(pools, units=float(dependence.units(dependence.shares())[0]))
    whole = _joined(samples)
    values = whole.values[kind]
    bounds = _bounds(whole, values, dependence, risk)
    for name, reached in limits.items():
        bounds[name] = _within_reach(name, bounds[name], *reached)
    by_triplets, by_pairs = (agreement_of_people(n, M, dependence, pooled=pooled) for pooled in (False, True))
    return Ceiling(
        triplets=int(times.sum()),
        pairs=int(times @ (M * (M - 1) // 2)),
        floor_nll=float(np.average(-log_likelihood(n, M, 0.5), weights=times * weights)),
        **{f"{name}_{end}": value for name, ends in bounds.items() for end, value in ends._asdict().items()},
        human_triplets=by_triplets[0],
        human_triplets_se=by_triplets[1],
        human_pairs=by_pairs[0],
        human_pairs_se=by_pairs[1],
        level=level,
        known=bool((M > 1).any()),
        note=_note(pools, _misfits(samples, values, Strata(pool, len(pools)), dependence, (1 - level) / len(pools))),
    )


def best_of(ceilings: Sequence[Ceiling]) -> Ceiling:
    """Join ceilings of the same votes, each with functions of its own that were scored."""
    bounds: dict[str, Any] = {}
    for name in LEAST:
        best = min if name == "nll" else max
        lowest, highest = (best(getattr(c, f"{name}_{end}") for c in ceilings) for end in ("lowest", "highest"))
        ends = getattr(ceilings[0], f"{name}_low"), getattr(ceilings[0], f"{name}_high")
        low, high = np.clip(ends, lowest, highest).tolist()
        bounds |= {f"{name}_low": low, f"{name}_high": high, f"{name}_lowest": lowest, f"{name}_highest": highest}
    return replace(ceilings[0], **bounds)


def share_explained(
    ceiling: Ceiling, nll: float, nll_low: float | None = None, nll_high: float | None = None
) -> tuple[float | None, float | None]:
    """Share of what can be explained that a model explains, (floor - NLL) / (floor - ceiling), as an interval.

    It includes the ceiling's sampling error, and that of the NLL where its limits are given. The ends are the smallest
    and the largest ratio within both: if the limits hold with probability a and the ceiling's bounds with b, the
    interval holds with a + b - 1 at least. Floor and NLL are of the same votes, so limits of their paired difference
    are narrower than those of the NLL alone: pass floor_nll minus them.

    1 is all. An end is None where it does not exist: both where no ceiling is known, and one where the votes do not
    exclude that P = 1/2 is already the best.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ceiling = estimate_ceiling(rng.binomial(5, rng.beta(0.8, 0.8, 3000)), np.full(3000, 5))
    >>> low, high = share_explained(ceiling, nll=1.50)
    >>> round(low, 2), round(high, 2)
    (0.61, 0.74)
    """
    limits = [nll if nll_low is None else nll_low, nll if nll_high is None else nll_high]
    if not limits[0] <= nll <= limits[1]:
        raise ValueError(f"nll must lie between nll_low and nll_high; found {nll:g} and {limits[0]:g}, {limits[1]:g}")
    if not ceiling.known:
        return None, None
    largest, smallest = (ceiling.floor_nll - limit for limit in limits)
    # A positive gain is divided by the largest possible gain for the low end; a loss, by the smallest.
    best_low = ceiling.gain_highest if smallest >= 0 else ceiling.gain_lowest
    best_high = ceiling.gain_lowest if largest >= 0 else ceiling.gain_highest
    # The bounds are proven to about 1e-5 nats; a smaller gain counts as none.
    return smallest / best_low if best_low > 1e-5 else None, largest / best_high if best_high > 1e-5 else None


def _note(pools: Sequence[Pool], misfits: Sequence[bool]) -> str:
    """Limitations of the bounds; `misfits` are those of the pools."""
    if pools[-1].M.max() == 1:
        return UNKNOWN
    notes = []
    if pools[0].M.max() == 1:
        total = sum(pool.triplets for pool in pools)
        notes.append(f"{pools[0].triplets} of {total} triplets have one vote and do not contribute to the bounds")
    pooled = [pool.votes for pool in pools if pool.M.max() != pool.M.min()]
    if pooled:
        examples = ", ".join(pooled[:3]) + (", ..." if len(pooled) > 3 else "")
        notes.append(f"numbers of votes with few triplets, and those from {LARGE} on, are pooled (M = {examples})")
    unlike = [f"M = {pool.votes}" for pool, misfit in zip(pools, misfits, strict=True) if misfit]
    if unlike:
        reason = "votes on one triplet are not independent draws with one probability"
        notes.append(f"no mixture fits the votes ({', '.join(unlike)}): {reason}")
    return "; ".join(notes)


# The votes


def _checked_votes(n: ArrayLike, M: ArrayLike) -> tuple[IntArray, IntArray]:
    n, M = np.asarray(n), np.asarray(M)
    if n.ndim != 1 or n.shape != M.shape or not n.size:
        raise ValueError(f"n and M must be two lists of equal length, not empty; found shapes {n.shape} and {M.shape}")
    wrong = ~((M >= 1) & (n >= 0) & (n <= M) & (n == np.round(n)) & (np.round(M) == M))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"n and M must be whole numbers with 0 <= n <= M and M >= 1; row {row} has n={n[row]}, M={M[row]} "
            f"({wrong.sum()} of {n.size} rows)"
        )
    return n.astype(np.int64), M.astype(np.int64)


def as_dependence(clusters: ArrayLike | Dependence | None, size: int) -> Dependence:
    """Turn labels of clusters into a `Dependence`."""
    if clusters is None:
        return Dependence(size, (), ALONE)
    shape = (clusters.size,) if isinstance(clusters, Dependence) else np.shape(clusters)
    if shape != (size,):
        raise ValueError(f"clusters must have one label per row, {(size,)}; found {shape}")
    if isinstance(clusters, Dependence):
        return clusters
    return Dependence(size, (np.unique(clusters, return_inverse=True)[1],), "clustered")


def _once_each(n: IntArray, M: IntArray, dependence: Dependence) -> tuple[IntArray, IntArray, Dependence]:
    """Take independent rows with the same votes as one row, which stands for all of their triplets."""
    different, place = distinct_numbers(M)
    most = int(n.max()) + 1
    votes, row = distinct_numbers(place * most + n)
    count = np.bincount(row, dependence.times).astype(np.int64)
    return votes % most, different[votes // most], Dependence(len(votes), (), dependence.description, count)


@dataclass(frozen=True, eq=False)
class Pool:
    """Different votes on triplets with neighbouring M: n of M (n <= M / 2).

    ``count`` is the number of triplets with these votes, or the sum of their weights; ``triplets`` the number in all.
    """

    n: IntArray
    M: IntArray
    count: FloatArray
    triplets: int

    @property
    def votes(self) -> str:
        """M in words: 5, or 10 to 13."""
        least, most = self.M.min(), self.M.max()
        return f"{least}" if least == most else f"{least} to {most}"

    @property
    def kept(self) -> int:
        """Votes in one draw: M, or 200 where M is larger. Every draw from a triplet's votes counts."""
        return min(int(self.M.min()), LARGE)

    @cached_property
    def draws(self) -> FloatArray:
        """Probability of each k in a draw from these votes."""
        return folded_draws(self.n, self.M, self.kept)


def pools_by_votes(
    n: IntArray, M: IntArray, times: IntArray, weights: FloatArray | float = 1.0
) -> tuple[list[Pool], IntArray, IntArray]:
    """Pool neighbouring M with few triplets; also the pool of each row, and its place among the votes of all pools."""
    values, which = np.unique(M, return_inverse=True)
    # Chosen by the numbers of triplets and of votes alone, never by the votes themselves.
    first, size, pool_of = 0, 0.0, np.zeros(len(values), dtype=np.int64)
    for place, (m, triplets) in enumerate(zip(values, np.bincount(which, times), strict=True)):
        joins = (m <= RATIO * first and size < FEW) or first >= LARGE
        pool_of[place] = pool_of[place - 1] + (not joins) if place else 0
        first, size = (first, size + triplets) if joins else (int(m), float(triplets))
    folded, rank = np.unique(np.minimum(n, M - n), return_inverse=True)
    code, kind = np.unique(which * len(folded) + rank, return_inverse=True)
    m, k = np.divmod(code, len(folded))
    starts = np.searchsorted(pool_of[m], np.arange(1, pool_of[-1] + 1))
    columns = folded[k], values[m], np.bincount(kind, times * weights)
    triplets = np.bincount(pool_of[which], times).astype(np.int64).tolist()
    pools = zip(*(np.split(column, starts) for column in columns), triplets, strict=True)
    return [Pool(*fields) for fields in pools], pool_of[which], kind


def agreement_of_people(
    n: IntArray, M: IntArray, dependence: Dependence, *, pooled: bool = False
) -> tuple[float, float]:
    """How often two people agree on a triplet, per cent, with its standard error; NaN where M = 1.

    The mean over triplets with M >= 2, unbiased, or over all pairs of votes (pooled).
    """
    n, M = n.astype(np.float64), M.astype(np.float64)
    pairs = M * (M - 1)
    share = 100 * (n * (n - 1) + (M - n) * (M - n - 1)) / np.maximum(pairs, 1)
    weight = (pairs if pooled else M > 1) * dependence.weights
    total = float(weight @ dependence.times)
    weight = weight / (total if total > 0 else np.nan)
    mean = float((weight * dependence.times) @ share)
    variance = dependence.variance((weight * (share - mean))[:, None], weight)
    return mean, float(np.sqrt(variance[0, 0]))


# Functions of the votes that bound the scores of the best function


def best_scores(q: FloatArray) -> dict[str, FloatArray]:
    """Scores of the best function at each q: NLL (but for log C(M, n)) and gain per vote, and the 2AFC score."""
    entropy = entr(q) + entr(1 - q)
    return {"nll": entropy, "gain": np.maximum(np.log(2) - entropy, 0.0), "score_2afc": 100 * q}


ENDS = np.tile([-1, 1], 3)  # each score has a function that bounds it from below, and one from above


@dataclass(frozen=True, eq=False)
class Sample:
    """Values of the six functions of the votes."""

    values: FloatArray  # shape (different votes, 6)
    M: IntArray  # votes per triplet, shape (different votes,)
    count: FloatArray  # triplets with these votes, or the sum of their weights
    extremes: FloatArray  # the least (of a lower bound) or greatest value that any votes would have, about: shape (6,)


def _joined(samples: Sequence[Sample]) -> Sample:
    values, M, count = (np.concatenate([getattr(s, name) for s in samples]) for name in ("values", "M", "count"))
    return Sample(values, M, count, ENDS * np.max([ENDS * sample.extremes for sample in samples], axis=0))


def bounding_samples(pools: Sequence[Pool], units: float) -> list[Sample]:
    """Choose the functions for each pool, and evaluate them; `units` is the number of independent triplets."""
    counts = [(pool.kept, pool.count @ pool.draws) for pool in pools]
    common = estimate_mixture([pair for pair in counts if pair[0] > 1])
    square = sum(float(pool.count @ pool.M.astype(np.float64) ** 2) for pool in pools)
    spreads = {"nll": 0.6, "gain": 0.2 * np.sqrt(square / sum(pool.count.sum() for pool in pools)), "score_2afc": 20.0}
    samples = []
    for pool, (kept, seen) in zip(pools, counts, strict=True):
        mixture = estimate_mixture([(kept, seen)], common, SHARED)
        expected = pool.count.sum() * (folded_pmf(kept)[:, ::EVERY] @ mixture)
        chance = (expected + 0.5) / (pool.count.sum() + 0.5 * len(expected))
        columns, extremes = [], []
        for name, score in best_scores(Q).items():
            factor = np.ones(len(pool.M)) if name == "score_2afc" else pool.M.astype(np.float64)
            # Mean plus three standard errors is then about the least, if the values have this spread.
            penalty = 3 * np.average(factor, weights=pool.count * factor) / (spreads[name] * np.sqrt(units))
            known = log_coefficient(np.arange(len(chance)), kept) / kept if name == "nll" else np.zeros(len(chance))
            subtracted = log_coefficient(pool.n, pool.M) if name == "nll" else 0.0
            for end in (-1, 1):
                g = end * bounding_function(end * score, kept, chance, penalty, end * known)
                values = factor * (pool.draws @ g) - subtracted
                columns.append(values)
                extremes.append(end * max((end * values).max(), factor.max() * (end * (g - known)).max()))
        samples.append(Sample(np.stack(columns, axis=1), pool.M, pool.count, np.array(extremes)))
    return samples


# Confidence limits of their means


LEAST = {"nll": 0.0, "gain": 0.0, "score_2afc": 50.0}  # the smallest value that each score can have


def _bounds(sample: Sample, values: FloatArray, dependence: Dependence, risk: float) -> dict[str, Bounds]:
    """Bounds of each score, in order and within its range; `values` are those of all rows."""
    (mean,), (variance,), (units,) = _means(values, dependence.whole, dependence)
    limits = [
        _limit(sample.values[:, k], sample.count, sample.extremes[k], end, variance[k], units, risk)
        for k, end in enumerate(ENDS.tolist())
    ]
    # The entropy of a whole number with variance M / 4, at most, is at most that of a normal with 1/12 more.
    most_nll = np.average(0.5 + np.log(2 * np.pi * (sample.M / 4 + 1 / 12)) / 2, weights=sample.count)
    most = most_nll, np.log(2) * np.average(sample.M, weights=sample.count), 100.0
    bounds = {}
    for k, (name, least) in enumerate(LEAST.items()):
        ends = slice(2 * k, 2 * k + 2)
        # By chance, or where no mixture fits, a lower bound may have the larger mean.
        low, high = np.clip(np.sort(mean[ends]), least, most[k]).tolist()
        lowest, highest = np.maximum(limits[ends], least).tolist()
        # Limits hold for other triplets too, whose M may be larger, so that the range ends only what has no limit.
        highest = min(highest, float(most[k])) if name == "score_2afc" or np.isinf(highest) else highest
        bounds[name] = Bounds(low, high, min(lowest, low), max(highest, high))
    return bounds


def _misfits(
    samples: Sequence[Sample], values: FloatArray, strata: Strata, dependence: Dependence, risk: float
) -> list[bool]:
    """Whether the votes of each sample exclude that those on one triplet are draws with one probability.

    Lower bounds then exceed upper ones, in one of six comparisons; `strata` has the sample of each row.
    """
    misfits = []
    for sample, means, variances, units in zip(samples, *_means(_excess(values), strata, dependence), strict=True):
        comparisons = zip(_excess(sample.values).T, _excess(sample.extremes[None])[0], means, variances, strict=True)
        misfits.append(
            any(
                mean > 0 and _limit(column, sample.count, bottom, -1, variance, units, risk / len(means)) > 0
                for column, bottom, mean, variance in comparisons
            )
        )
    return misfits


def _excess(values: FloatArray) -> FloatArray:
    """How far lower bounds, and the least possible values, exceed upper bounds; at most 0 in expectation."""
    low, high = values[:, ENDS < 0], values[:, ENDS > 0]
    return np.concatenate([low - high, np.array(list(LEAST.values())) - high], axis=1)


def _means(values: FloatArray, strata: Strata, dependence: Dependence) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means over the triplets of each stratum, their variances, and the numbers of independent units."""
    weight = dependence.shares(strata)
    means = strata.total(values, weight=weight * dependence.times)
    influence = (values - strata.of_rows(means)) * weight[:, None]
    return means, dependence.variance(influence, weight, strata), dependence.units(weight, strata)


def _limit(
    values: FloatArray, count: FloatArray, extreme: float, end: int, variance: float, units: float, risk: float
) -> float:
    """One-sided confidence limit of a mean of bounded values; `variance` is that of the mean, over dependent rows.

    Empirical likelihood, with as many triplets as would have this variance if they were independent.
    """
    if units <= 1 or not np.isfinite(variance):
        return end * np.inf
    divergence = float(stdtrit(units - 1, 1 - risk)) ** 2 / (2 * _effective(values, count, variance, units))
    return end * largest_mean(end * values, count / count.sum(), end * extreme, divergence)


def _effective(values: FloatArray, count: FloatArray, variance: float, units: float) -> float:
    """Number of independent triplets whose mean would have this variance; the units where all values are alike."""
    spread = float(np.average((values - np.average(values, weights=count)) ** 2, weights=count))
    alike = min(variance, spread) <= 1e-18 * float(np.square(values).max())
    return units if alike else min(spread / variance, float(count.sum()))


def largest_mean(values: FloatArray, share: FloatArray, top: float, excess: float) -> float:
    """Largest mean of a distribution up to `top` from which the sample diverges (Kullback, Leibler) by `excess`.

    The distribution has the weights share / (top + c - values), scaled, for some c >= 0, and the rest of its weight, if
    any, at the top, where c = 0 (Honda and Takemura, Conference on Learning Theory 23, 2010).

    Examples
    --------
    None of 100 had it: as many as 3 % may.

    >>> round(largest_mean(np.array([0.0]), np.array([1.0]), 1.0, 3 / 100), 3)
    0.03
    """
    from scipy.optimize import brentq  # here, since it is slow to import

    span = top - float(values.min())
    if span <= 1e-12 * max(1.0, abs(top)):
        return top
    below = (top - values) / span

    def divergence(c: float) -> float:
        return float(share @ np.log(below + c) + np.log(share @ (1 / (below + c))))

    # Where the sample has the top itself, c > 0.
    c, rest = 0.0 if below.min() > 1e-9 else 1e-12, 0.0
    if divergence(c) <= excess:
        rest = -np.expm1(divergence(c) - excess)
    else:
        c = float(np.exp(brentq(lambda log_c: divergence(np.exp(log_c)) - excess, np.log(max(c, 1e-12)), 30.0)))
    weight = share / (below + c)
    return float(top - span * (1 - rest) * (weight @ below) / weight.sum())


# Functions that were scored: the best one is as good as each


def _reached(
    scored: Mapping[str, Sequence[ArrayLike]], floor: FloatArray, dependence: Dependence, risks: tuple[float, ...]
) -> dict[str, list[float]]:
    """Limits of the best scored function at each risk: NLL at most, gain and 2AFC score at least.

    Simultaneous for all functions, by Bonferroni.
    """
    columns = {name: [np.asarray(column, dtype=np.float64) for column in values] for name, values in scored.items()}
    for name, values in columns.items():
        wrong = [column.shape for column in values if column.shape != floor.shape]
        if name not in ("nll", "score_2afc") or wrong:
            expected = f"nll or score_2afc of each function, with shape {floor.shape}"
            raise ValueError(f"scored must have {expected}; found {name}{f', {wrong[0]}' if wrong else ''}")
    columns["gain"] = [floor - column for column in columns.get("nll", ())]
    weight = dependence.shares()
    units = float(dependence.units(weight)[0])
    reached: dict[str, list[float]] = {}
    for name, values in columns.items():
        finite = [column for column in values if np.isfinite(column).all()]
        limits = [
            _score_limits(name, column, dependence, weight, units, [risk / len(values) for risk in risks])
            for column in finite
        ]
        known = np.array([row for row in limits if np.isfinite(row).all()])
        if known.size:
            reached[name] = (known.min(axis=0) if name == "nll" else known.max(axis=0)).tolist()
    return reached


def _score_limits(
    name: str, values: FloatArray, dependence: Dependence, weight: FloatArray, units: float, risks: Sequence[float]
) -> list[float]:
    """One-sided confidence limits of a scored function at each risk, on the worse side."""
    mean = float(weight * dependence.times @ values)
    influence = ((values - mean) * weight)[:, None]
    se, skew = float(np.sqrt(dependence.variance(influence, weight)[0, 0])), float(dependence.skewness(influence)[0, 0])
    if name == "score_2afc":
        return [share_interval(mean, se, units, level=1 - 2 * risk).low for risk in risks]
    ends = [t_interval(mean, se, units, skew=skew, level=1 - 2 * risk) for risk in risks]
    return [each.high if name == "nll" else each.low for each in ends]


def _within_reach(name: str, bounds: Bounds, reached: float, at_least: float) -> Bounds:
    """Bounds of the best function as good as the limit `reached`, and that do not exclude the limit `at_least`."""
    low, high, lowest, highest = bounds
    if name == "nll":
        highest = min(highest, reached)
        lowest = min(lowest, at_least, highest)
    else:
        lowest = max(lowest, reached)
        highest = max(highest, at_least, lowest)
    low, high = np.clip((low, high), lowest, highest).tolist()
    return Bounds(low, high, lowest, highest)

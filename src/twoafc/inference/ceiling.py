"""Floor and ceiling of scores: those of P = 1/2, of one person, and of the best possible function of a triplet.

The best possible P is the true probability p of each choice, which a few votes per triplet do not reveal. They do bound
the distribution of p over triplets, and so the best scores: see `twoafc.inference.mixtures`. Each number of votes M has
its own mixture, since M may depend on p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr
from scipy.stats import chi2, f

from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.dependence import Dependence
from twoafc.inference.mixtures import Function, Histogram, Mixtures
from twoafc.metrics import expected_nll_per_triplet, log_likelihood

UNKNOWN = "M = 1 only: no ceiling can be known"
# Moments to identify for one M, and for all M together, and triplets that each moment needs: more are slow to bound,
# and hardly narrow the bounds.
MOMENTS, ALL_MOMENTS, TRIPLETS = 8, 60, 50


class Bounds(NamedTuple):
    """Bounds of a quantity: at the most likely mixture (low, high), and with its sampling error (lowest, highest)."""

    low: float
    high: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class VoteCeiling:
    """The ceiling of the triplets with one number of votes.

    Attributes
    ----------
    M, triplets : int
        Votes per triplet, and the number of such triplets.
    kept : int
        Votes per triplet that the mixture uses; fewer than M where M is large or such triplets are few.
    nll, gain, score_2afc : Bounds
        Of the best function of the triplet; see `Ceiling`.
    agreement, agreement_se : float
        Per cent of pairs of people who agree on a triplet; NaN where M = 1.
    p : float
        Upper bound of the p-value of votes so unlike any mixture, if they are independent draws; 1 for an exact fit.
    """

    M: int
    triplets: int
    kept: int
    nll: Bounds
    gain: Bounds
    score_2afc: Bounds
    agreement: float
    agreement_se: float
    p: float


@dataclass(frozen=True)
class Ceiling:
    """Floor and ceiling that votes imply.

    ``_low`` and ``_high`` are the bounds at the most likely mixture: what the distribution of votes leaves unknown.
    ``_lowest`` and ``_highest`` add the sampling of triplets and votes; all of them hold jointly with probability
    `level` or more. Where no mixture fits the counts exactly, only the most likely one has its fitted counts, and low
    and high coincide: that does not mean precision.

    Attributes
    ----------
    triplets, pairs : int
        Number of triplets, and of pairs of votes on the same triplet.
    floor_nll : float
        NLL of P = 1/2 on these votes. The floor of the 2AFC score is 50.
    nll_low, nll_high, nll_lowest, nll_highest : float
        Expected NLL of the best function of the triplet, the true probability of each choice.
    gain_low, gain_high, gain_lowest, gain_highest : float
        Its expected advantage over P = 1/2: M (log 2 - entropy of a vote), nats per triplet.
    score_2afc_low, score_2afc_high, score_2afc_lowest, score_2afc_highest : float
        Expected 2AFC score, per cent, of always choosing as most people would.
    human_triplets, human_pairs, human_triplets_se, human_pairs_se : float
        How often one person agrees with another, per cent, with standard errors: as the mean over triplets with M >= 2,
        and over all pairs of votes. NaN where M = 1 throughout.
    by_votes : tuple of VoteCeiling
        The same for each M.
    level : float
    known : bool
        False where M = 1 throughout: the bounds then hold for any votes.
    note : str
        Limitations of these bounds, in words.
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


def estimate_ceiling(
    n: ArrayLike, M: ArrayLike, *, clusters: ArrayLike | Dependence | None = None, level: float = 0.95
) -> Ceiling:
    """Estimate the floor and the ceiling of scores from votes.

    Parameters
    ----------
    n, M : arrays of int, shape (T,)
        Of M people who judged each triplet, n chose x1.
    clusters : array, shape (T,), or Dependence, optional
        Equal labels mark dependent rows, such as triplets of one reference. A `Dependence` may also have
        the number of triplets that each row stands for.
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
    (73.5, 80.8)
    >>> estimate_ceiling([0, 1], [1, 1]).note
    'M = 1 only: no ceiling can be known'
    """
    n, M = _checked_votes(n, M)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; found {level:g}")
    dependence = as_dependence(clusters, len(n))
    times = dependence.times
    histograms, rows = histograms_by_votes(n, M, times)
    # The M with most triplets gets most of the error probability, which about minimises the sum of their widths.
    shares = np.sqrt([histogram.triplets if histogram.M > 1 else 0 for histogram in histograms])
    risks = (1 - level) * shares / max(shares.sum(), 1)
    records = tuple(
        _ceiling_of_one_M(histogram, _subset(dependence, index), 1 - risk)
        for histogram, index, risk in zip(histograms, rows, risks, strict=True)
    )
    weights = np.array([record.triplets for record in records]) / times.sum()
    bounds = {
        f"{name}_{end}": float(weights @ [getattr(getattr(record, name), end) for record in records])
        for name in ("nll", "gain", "score_2afc")
        for end in Bounds._fields
    }
    human_triplets, human_triplets_se = agreement_of_people(n, M, dependence)
    human_pairs, human_pairs_se = agreement_of_people(n, M, dependence, pooled=True)
    return Ceiling(
        triplets=int(times.sum()),
        pairs=int(times @ (M * (M - 1) // 2)),
        floor_nll=float(-np.average(log_likelihood(n, M, 0.5), weights=times)),
        **bounds,
        human_triplets=human_triplets,
        human_triplets_se=human_triplets_se,
        human_pairs=human_pairs,
        human_pairs_se=human_pairs_se,
        by_votes=records,
        level=level,
        known=bool((M > 1).any()),
        note=_note(M, times, records, level),
    )


def share_explained(
    ceiling: Ceiling, nll: float, nll_low: float | None = None, nll_high: float | None = None
) -> tuple[float | None, float | None]:
    """Share of what can be explained that a model explains, (floor - NLL) / (floor - ceiling), as an interval.

    It includes the ceiling's sampling error, and that of the NLL where its limits are given. The ends are the smallest
    and the largest ratio within both: if the limits hold with probability a and the ceiling's bounds with b, the
    interval holds with a + b - 1 at least. Floor and NLL are of the same votes, so limits of their paired difference
    are narrower than those of the NLL alone: pass floor_nll minus them.

    Returns
    -------
    (low, high)
        1 is all. An end is None where it does not exist: both where no ceiling is known, and one where the votes do
        not exclude that P = 1/2 is already the best.

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
    low = _ratio(smallest, ceiling.gain_highest if smallest >= 0 else ceiling.gain_lowest)
    high = _ratio(largest, ceiling.gain_lowest if largest >= 0 else ceiling.gain_highest)
    return low, high


def _ratio(gain: float, best: float) -> float | None:
    # The bounds are proven to about 1e-5 nats; a smaller gain counts as none.
    return gain / best if best > 1e-5 else None


def _note(M: IntArray, times: IntArray, records: tuple[VoteCeiling, ...], level: float) -> str:
    if M.max() == 1:
        return UNKNOWN
    notes = []
    single = int(times[M == 1].sum())
    if single:
        notes.append(f"{single} of {times.sum()} triplets have one vote, which bounds nothing")
    thinned = [f"{record.kept} of {record.M}" for record in records if record.kept < record.M]
    if thinned:
        examples = ", ".join(thinned[:3]) + (", ..." if len(thinned) > 3 else "")
        notes.append(f"only some votes are used where M is large or triplets are few ({examples})")
    misfits = ", ".join(f"M = {record.M}" for record in records if record.p < (1 - level) / len(records))
    if misfits:
        reason = "votes on one triplet are not independent draws with one probability"
        notes.append(f"no mixture fits the votes ({misfits}): {reason}")
    return "; ".join(notes)


def best_scores(M: int) -> dict[str, Function]:
    """Expected scores of the best function of a triplet with M votes, as functions of q."""
    return {
        # Adding 0 turns the -0 of a certain choice into 0.
        "nll": lambda q: expected_nll_per_triplet(M, q) + 0.0,
        "gain": lambda q: M * np.maximum(np.log(2) - entr(q) - entr(1 - q), 0.0),
        "score_2afc": lambda q: 100 * q,
    }


def _ceiling_of_one_M(histogram: Histogram, dependence: Dependence, level: float) -> VoteCeiling:
    """Bound the best scores on the triplets with one M; `dependence` is of these triplets alone."""
    mixtures = Mixtures(histogram)
    # One vote identifies nothing: every mixture is possible.
    law = deviance_law(histogram, mixtures.fitted, dependence) if histogram.M > 1 else DevianceLaw(1, units=0.0)
    scores = best_scores(histogram.M)
    plausible = mixtures.plausible(list(scores.values()), law.limit(level))
    bounds = {
        name: Bounds(*mixtures.identified(score), *ends)
        for (name, score), ends in zip(scores.items(), plausible, strict=True)
    }
    agreement, se = agreement_of_people(histogram.n, np.full(len(histogram.n), histogram.M), dependence)
    return VoteCeiling(
        histogram.M,
        histogram.triplets,
        histogram.kept,
        **bounds,
        agreement=agreement,
        agreement_se=se,
        p=law.p_value(mixtures.deviance(mixtures.fitted)),
    )


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
        return Dependence(size, (), "triplets taken as independent")
    given = clusters if isinstance(clusters, Dependence) else np.asarray(clusters)
    shape = given.shape if isinstance(given, np.ndarray) else (given.size,)
    if shape != (size,):
        raise ValueError(f"clusters must have one label per row, {(size,)}; found {shape}")
    if isinstance(given, np.ndarray):
        return Dependence(size, (np.unique(given, return_inverse=True)[1],), "clustered")
    return given


def _subset(dependence: Dependence, rows: IntArray) -> Dependence:
    """Dependence among some of the rows."""
    if dependence.count is not None or dependence.kinds:
        return dependence.at(rows)
    return Dependence(len(rows), (), dependence.description)


def histograms_by_votes(
    n: IntArray, M: IntArray, times: IntArray | None = None
) -> tuple[list[Histogram], list[IntArray]]:
    """Give one histogram for each M, with its rows; `times` is the number of triplets that each row stands for."""
    values, index = np.unique(M, return_inverse=True)
    triplets = np.bincount(index, times)
    most = min(MOMENTS, max(2, ALL_MOMENTS // len(values)))
    histograms, rows = [], []
    for m, T in zip(values.tolist(), triplets, strict=True):
        at = np.flatnonzero(m == M)
        # Chosen by the numbers of triplets and of votes alone, never by the votes themselves.
        kept = min(m, 2 * min(most, max(1, int(T) // TRIPLETS)) + 1)
        histograms.append(Histogram(m, kept, n[at], None if times is None else times[at]))
        rows.append(at)
    return histograms, rows


def agreement_of_people(
    n: IntArray, M: IntArray, dependence: Dependence, *, pooled: bool = False
) -> tuple[float, float]:
    """How often two people agree on a triplet, per cent, with its standard error; unbiased for M >= 2.

    The mean over triplets, or over all pairs of votes (pooled).

    Examples
    --------
    >>> agreement_of_people(np.array([1, 3, 1]), np.array([2, 3, 1]), Dependence(3, (), ""))[0]
    50.0
    >>> agreement_of_people(np.array([1, 3, 1]), np.array([2, 3, 1]), Dependence(3, (), ""), pooled=True)[0]
    75.0
    """
    rows = np.flatnonzero(M > 1)
    if not len(rows):
        return float("nan"), float("nan")
    n, M, dependence = n[rows], M[rows], _subset(dependence, rows)
    pairs, times = M * (M - 1), dependence.times
    share = 100 * (n * (n - 1) + (M - n) * (M - n - 1)) / pairs
    weight = pairs / (pairs @ times) if pooled else np.full(len(rows), 1 / times.sum())
    mean = float((weight * times) @ share)
    variance = dependence.variance((weight * (share - mean))[:, None], weight)
    return mean, float(np.sqrt(variance[0, 0]))


# How far the true mixture may be from the most likely one
#
# For independent triplets the likelihood-ratio statistic at the truth is at most chi-squared, with one degree of
# freedom per identified moment. For dependent rows it is a weighted sum of such terms; the weights, the design effects,
# come from the variance of the scores between clusters, and the sum is approximated by a scaled F (Rao and Scott,
# Annals of Statistics 12, 1984; Satterthwaite's degrees of freedom).


@dataclass(frozen=True)
class DevianceLaw:
    """Distribution of the likelihood-ratio statistic: chi-squared, or a scaled F for dependent rows."""

    freedom: float
    scale: float = 1.0
    units: float = np.inf

    def limit(self, level: float) -> float:
        """Quantile of the statistic at this level; infinite where one cluster holds everything."""
        independent = float(chi2.ppf(level, self.freedom))
        if not np.isfinite(self.units):
            return independent
        if self.units <= 1 or not np.isfinite(self.scale):
            return np.inf
        # A negative correlation within clusters is taken for chance.
        return max(independent, self.scale * self.freedom * float(f.ppf(level, self.freedom, self.units - 1)))

    def p_value(self, statistic: float) -> float:
        """Probability of a statistic at least this large."""
        independent = float(chi2.sf(statistic, self.freedom))
        if not np.isfinite(self.units):
            return independent
        if self.units <= 1 or not np.isfinite(self.scale):
            return 1.0
        return max(independent, float(f.sf(statistic / (self.scale * self.freedom), self.freedom, self.units - 1)))


def deviance_law(histogram: Histogram, fitted: FloatArray, dependence: Dependence) -> DevianceLaw:
    """Distribution of the statistic of a histogram; `dependence` is of its triplets."""
    directions = np.eye(len(fitted))[:, 1:] - 1 / len(fitted)
    freedom = directions.shape[1]
    if not dependence.kinds or not freedom:
        return DevianceLaw(max(freedom, 1))
    # Scores of the triplets along the directions, scaled to unit variance for independent triplets.
    root = np.sqrt(np.maximum(fitted, 0.5))[:, None]
    whitened = np.linalg.qr(directions / root)[0] / root
    values, index = np.unique(histogram.n, return_inverse=True)
    scores = ((histogram.cells(values) - histogram.observed / histogram.triplets) @ whitened)[index]
    units = float(dependence.units(np.full(dependence.size, 1 / dependence.times.sum()))[0])
    covariance = _covariance(scores, dependence)
    if not np.isfinite(covariance).all():
        return DevianceLaw(freedom, np.inf, units)
    effects = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
    total, squares = float(effects.sum()), float(np.sum(effects**2))
    # Identical votes have no spread.
    return DevianceLaw(total**2 / squares, squares / total, units) if squares > 0 else DevianceLaw(freedom, 1.0, units)


def _covariance(scores: FloatArray, dependence: Dependence) -> FloatArray:
    """Covariance of sums of scores over dependent rows, from the variances of sums of two of them."""
    first, second = np.triu_indices(scores.shape[1])
    weight = np.full(len(scores), 1 / dependence.times.sum())
    variance = dependence.variance(scores[:, first] + scores[:, second], weight)[0] / 4
    covariance = np.zeros((scores.shape[1],) * 2)
    covariance[first, second] = covariance[second, first] = variance
    own = np.diag(covariance).copy()
    # var((a + b) / 2) = (var a + var b + 2 cov) / 4, and var((a + a) / 2) = var a
    return 2 * covariance - (own[:, None] + own) / 2

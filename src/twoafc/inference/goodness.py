"""Goodness of fit: a fitted P compared with the votes of a table.

Calibration, the correlation of votes that P leaves unexplained, residuals over the plane of the two distances, a
preference for one side, and a bound on the share of random votes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.core import uniformise
from twoafc.inference.dependence import Strata
from twoafc.inference.errorbars import Clustering
from twoafc.inference.intervals import LEVEL, Interval, p_value, share_interval, t_interval
from twoafc.table import Triplets, Votes

MOST_BINS, BIN_SIZE = 20, 50  # largest number of calibration bins, and the least number of triplets in each
CLIP = 1e-9  # P is kept this far from 0 and 1 where its logit is taken
BIASED = 0.8  # share of the calibration error that a bias of P must have to be named as its cause
MAX_SLOPE = 20.0  # a larger slope has no maximum: all votes agree with P, or all disagree
MAX_SHIFT = 10.0  # largest shift of a bin on the logit scale, even for unanimous votes
CELLS = 8  # along each side of the plane
FEWEST_EXPECTED = 5.0
"""A cell is tested if the variance of its number of votes for x1 is at least this, as for a chi-squared test."""
LARGE_PREFERENCE, P_PREFERENCE = 5.0, 1e-4
"""Per cent of votes from which a preference for one side matters, and the p-value below which it is beyond doubt."""
TAILS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Shares of the votes, those where P is most certain, that are tried for a bound on random votes."""
UNKNOWN = Interval(*[float("nan")] * 4)


@dataclass(frozen=True, eq=False, repr=False)
class Goodness:
    """How well a fitted P describes the votes of a table; what is for triplets only is None for pairs."""

    calibration: Calibration  #: whether the probabilities are right
    intraclass: Interval | None = None  #: correlation of two votes on one triplet given P; None where M = 1
    residuals: ResidualMap | None = None  #: where over the plane of the two distances P is wrong
    asymmetry: dict[str, Any] | None = None  #: a preference for one side
    lapses: dict[str, Any] | None = None  #: a bound on random votes
    row: str = "triplet"  #: what a row of the table is: triplet or pair

    def __repr__(self) -> str:
        return "\n".join(["Goodness", *(f"  {sentence}" for sentence in self.sentences())])

    def record(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {
            "calibration": self.calibration.record(),
            "intraclass": None if self.intraclass is None else self.intraclass._asdict(),
            "residuals": None if self.residuals is None else self.residuals.record(),
            "asymmetry": self.asymmetry,
            "lapses": self.lapses,
            "sentences": self.sentences(),
            "row": self.row,
        }

    def sentences(self) -> list[str]:
        """Describe the result in words, one sentence for each attribute."""
        sentences = [self.calibration.sentence(of_pairs=self.row == "pair")]
        if self.intraclass is None:
            sentences.append(
                "variation that the distance leaves unexplained cannot be estimated from one vote per triplet"
            )
        else:
            value, _, low, high = self.intraclass
            sentences.append(
                f"two votes on one triplet correlate beyond P by {value:.3f}, 95 % interval {low:.3f} to {high:.3f}: "
                "variation between triplets that the distance leaves unexplained, and the smoother's error"
            )
        if self.residuals is not None:
            worst = self.residuals.worst()
            none = "P has no misfit that can be distinguished from noise"
            sentences.append(f"largest misfit of P: {worst}" if worst else none)
        sentences += [check["sentence"] for check in (self.asymmetry, self.lapses) if check is not None]
        return [sentence.replace("triplet", self.row) for sentence in sentences]


def goodness_of_fit(table: Votes, P: FloatArray, clusters: Clustering) -> Goodness:
    """Compare P with the votes of a table with one distance that was not used for the fit."""
    n, M = table.n, table.M
    of_triplets: dict[str, Any] = {}
    if isinstance(table, Triplets):
        residuals = residual_map(n, M, P, table.d0, table.d1, clusters)
        of_triplets = {"residuals": residuals, "asymmetry": asymmetry(table, P, clusters)}
        of_triplets["lapses"] = lapses(n, M, P, clusters)
    of_all = calibration(n, M, P, clusters, floor=0.5 if table.k == 2 else table.share)
    return Goodness(of_all, intraclass_correlation(n, M, P, clusters), row=table.row, **of_triplets)


# Calibration


@dataclass(frozen=True)
class Bin:
    """Triplets with similar P: their mean P and the share of votes for x1, weighted by votes, both in [0, 1]."""

    triplets: int
    votes: int
    P: float
    share: float
    se: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """Agreement of P with the votes.

    NLL = floor - sharpness + calibration, in nats per triplet.
    """

    bins: tuple[Bin, ...]  #: the reliability curve, from small P to large
    ece: float  #: expected calibration error: mean distance of share and P over the bins, weighted by votes, in [0, 1]
    ece_by_chance: float  #: its expectation from the noise of the votes alone, if P is right
    rmse: float  #: root mean square of the same distance minus the noise of the votes; 0 where there is only noise
    floor: float  #: NLL of a constant P: 1/2, or the share of "same" for pairs
    sharpness: float  #: gain of P over it after recalibration
    calibration: float  #: loss from miscalibration, corrected for overfitting of the recalibration
    calibration_se: float  #: standard error of the loss
    slope: Interval  #: factor on the logit of P that fits the votes best; P is overconfident below 1

    def record(self) -> dict[str, Any]:
        """Convert to plain values."""
        return asdict(self) | {"slope": self.slope._asdict()}

    def sentence(self, *, of_pairs: bool = False) -> str:
        """Describe the slope in words, and where it is off the loss; P of pairs may be biased instead."""
        slope, _, low, high = self.slope
        if not np.isfinite(low):
            return "the calibration slope of P cannot be estimated"
        figures = f"slope {slope:.2f}, 95 % interval {low:.2f} to {high:.2f}"
        if not self.is_off:
            return f"no over- or underconfidence of P is detected ({figures})"
        problem = "P is overconfident" if slope < 1 else "P is underconfident"
        votes = np.array([each.votes for each in self.bins], dtype=np.float64)
        bias = float(votes @ [each.share - each.P for each in self.bins] / votes.sum())
        if of_pairs and abs(bias) > BIASED * self.ece:
            problem = f"P is too {'low' if bias > 0 else 'high'}, by {100 * abs(bias):.0f} % of the votes on average"
        elif low <= 0:
            chose = "see no difference" if of_pairs else "chose x1"
            problem = "P does not predict these votes" if high >= 0 else f"P is reversed: it is high where few {chose}"
        loss = f"; this costs {self.calibration:.4f} ± {self.calibration_se:.4f} nats per triplet"
        return f"{problem} ({figures}){loss if self.calibration > 0 and np.isfinite(self.calibration_se) else ''}"

    @property
    def is_off(self) -> bool:
        """Whether the slope differs from 1."""
        return bool(self.slope.low > 1 or self.slope.high < 1)


def calibration(n: IntArray, M: IntArray, P: FloatArray, clusters: Clustering, *, floor: float = 0.5) -> Calibration:
    """Compare P with the votes, in bins of equal numbers of triplets; `floor` is the constant P to beat."""
    P, own = np.clip(P, CLIP, 1 - CLIP), clusters.rows.weights
    bins = int(np.clip(len(P) // BIN_SIZE, 1, MOST_BINS))
    edges = np.unique(np.quantile(P, np.arange(1, bins) / bins, method="lower"))
    used, code = np.unique(np.searchsorted(edges, P, side="left"), return_inverse=True)
    by_P = Strata(code, len(used))  # equal values of P may make them fewer
    columns = [own * M, own * n, own * (n - M * P), own * M * P, M, np.ones(len(P))]
    votes, chosen, excess, predicted, unweighted, triplets = by_P.total(np.stack(columns, axis=1)).T
    information, noise = (np.bincount(code, factor * M * P * (1 - P)) for factor in (own, own**2))
    gap, share = excess / votes, chosen / votes
    weight, centre = own * M / votes[code], P + gap[code]
    observed = clusters.linear_errors(own / votes[code], n - M * centre, centre, weight, by_P)
    # A few votes may agree by chance; the binomial error of P itself is a lower bound.
    se = np.fmax(observed, np.sqrt(noise) / votes)
    columns = [triplets, unweighted, predicted / votes, share, se, clusters.units(weight, by_P)]
    curve = []
    for t, m, p, s, e, units in np.stack(columns, axis=1).tolist():
        ends = share_interval(100 * s, 100 * e, units)
        curve.append(Bin(int(t), int(m), p, s, e, ends.low / 100, ends.high / 100))
    known_se = np.nan_to_num(se)
    # A shift fitted to noise gains half the dispersion of the votes in its bin.
    by_noise = float(np.sum(known_se**2 * votes**2 / np.maximum(information, 1e-12)) / 2 / own.sum())
    gained, gained_se = _recalibration_gain(n, M, P, code, clusters)
    loss = gained - by_noise
    floor_nll, nll = (_mean(-metrics.log_likelihood(n, M, chance), clusters) for chance in (floor, P))
    share_of_votes = votes / votes.sum()
    return Calibration(
        bins=tuple(curve),
        ece=float(share_of_votes @ abs(gap)),
        ece_by_chance=float(share_of_votes @ known_se * np.sqrt(2 / np.pi)),
        rmse=float(np.sqrt(max(0.0, share_of_votes @ (gap**2 - known_se**2)))),
        floor=floor_nll,
        sharpness=floor_nll - nll + loss,
        calibration=loss,
        calibration_se=gained_se,
        slope=calibration_slope(n, M, P, clusters),
    )


def _mean(values: FloatArray, clusters: Clustering) -> float:
    """Mean over triplets, by their sampling weights where these are known."""
    return float(np.average(values, weights=clusters.rows.sampling))


def _recalibration_gain(
    n: IntArray, M: IntArray, P: FloatArray, code: IntArray, clusters: Clustering
) -> tuple[float, float]:
    """Mean log-likelihood that the best shift of the logit in each bin gains, with its standard error."""
    x, shift, own = logit(P), np.zeros(int(code.max()) + 1), clusters.rows.weights
    for _ in range(30):
        p = expit(x + shift[code])
        step = np.bincount(code, own * (n - M * p)) / np.maximum(np.bincount(code, own * M * p * (1 - p)), 1e-12)
        shift = np.clip(shift + np.clip(step, -1, 1), -MAX_SHIFT, MAX_SHIFT)
        if abs(step).max() < 1e-10:
            break
    gain = metrics.log_likelihood(n, M, expit(x + shift[code])) - metrics.log_likelihood(n, M, P)
    mean, weight = _mean(gain, clusters), clusters.rows.shares()
    return mean, float(clusters.rows.variance(((gain - mean) * weight)[:, None], weight)[0, 0] ** 0.5)


def calibration_slope(n: IntArray, M: IntArray, P: FloatArray, clusters: Clustering) -> Interval:
    """Factor on the logit of P that fits the votes best; NaN where unanimous votes, or P = 1/2, give none."""
    x, own = logit(np.clip(P, CLIP, 1 - CLIP)), clusters.rows.weights
    if not x.any():
        return UNKNOWN
    slope = 1.0
    for _ in range(100):
        p = expit(slope * x)
        information = float(np.sum(own * M * p * (1 - p) * x**2))
        step = float(np.clip(np.sum(own * (n - M * p) * x) / max(information, 1e-12), -0.5, 0.5))
        slope += step
        if abs(step) < 1e-9:
            break
    if abs(step) >= 1e-9 or abs(slope) >= MAX_SLOPE:
        return UNKNOWN
    p = expit(slope * x)
    weight = own * M * p * (1 - p) * x**2
    information = float(weight.sum())
    if information == 0:
        return UNKNOWN
    se = float(clusters.linear_errors(own * x / information, n - M * p, p, weight / information)[0])
    return t_interval(slope, se, float(clusters.units(weight / information)[0]))


# Correlation of votes


def intraclass_correlation(n: IntArray, M: IntArray, P: FloatArray, clusters: Clustering) -> Interval | None:
    """Correlation of two votes on one triplet, given P; None where no triplet has two votes.

    The mean of (y - P)(y' - P) over pairs of votes, relative to P (1 - P); 0 where votes are Binomial(M, P). A positive
    value means that triplets with the same distances differ in p: variation that the distance leaves unexplained, plus
    the smoother's own error. It is no fault of the observers.
    """
    pairs = M * (M - 1)
    if not pairs.any():
        return None
    # Sum over ordered pairs of votes: the squared residual minus the product of each vote with itself.
    products = clusters.rows.weights * ((n - M * P) ** 2 - n * (1 - 2 * P) - M * P**2)
    scale = clusters.rows.weights * (pairs * P * (1 - P))
    total = float(scale.sum())
    if total == 0:
        return UNKNOWN
    value = float(products.sum()) / total
    weight = scale / total
    influence = products / total - value * weight
    se = float(clusters.rows.variance(influence[:, None], weight)[0, 0] ** 0.5)
    return t_interval(value, se, float(clusters.rows.units(weight)[0]))


# Residuals


@dataclass(frozen=True, eq=False)
class ResidualMap:
    """Observed minus predicted share of votes for x1, over cells of the uniformised plane.

    Arrays have the shape (G, G): row i has u0 in [i / G, (i + 1) / G), column j has u1 there. Numbers are NaN where
    there are no triplets; on the diagonal the residual is 0 by symmetry.
    """

    residual: FloatArray  #: share of votes for x1 minus P, weighted by votes; antisymmetric
    se: FloatArray  #: its standard error; NaN on the diagonal
    triplets: IntArray  #: triplets in the cell or mirrored into it
    p: FloatArray  #: p-value corrected for the number of tested cells (Bonferroni); NaN where not tested
    edges: FloatArray  #: distances at the edges of the cells, shape (G + 1,)

    def record(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {name: values.tolist() for name, values in vars(self).items()} | {"worst": self.worst()}

    def worst(self) -> str | None:
        """Describe the cell with the largest significant residual; None where there is none."""
        with np.errstate(invalid="ignore"):
            significant = np.tril(np.where(self.p < 0.05, abs(self.residual), 0.0))
        if not significant.any():
            return None
        i, j = np.unravel_index(int(np.argmax(significant)), significant.shape)
        more = "more" if self.residual[i, j] > 0 else "less"
        far, near = ((self.edges[k], self.edges[k + 1]) for k in (i, j))
        return (
            f"the nearer image is chosen {abs(100 * self.residual[i, j]):.1f} % {more} often than P predicts where its "
            f"distance is {near[0]:.3g} to {near[1]:.3g} and the other's {far[0]:.3g} to {far[1]:.3g} "
            f"({self.triplets[i, j]} triplets, p = {self.p[i, j]:.2g})"
        )


def residual_map(
    n: IntArray, M: IntArray, P: FloatArray, d0: FloatArray, d1: FloatArray, clusters: Clustering
) -> ResidualMap:
    """Sum the residuals n - M P of the triplets in each cell; triplets with d0 < d1 are mirrored."""
    uniform, u0, u1 = uniformise(d0, d1)
    i, j = (np.minimum((u * CELLS).astype(np.int64), CELLS - 1) for u in (u0, u1))
    own, residual = clusters.rows.weights, np.where(u0 >= u1, 1, -1) * (n - M * P)
    cell = Strata(np.maximum(i, j) * CELLS + np.minimum(i, j), CELLS**2)
    columns = [own * M, own * residual, M * P * (1 - P), own**2 * M * P * (1 - P), np.ones(len(M))]
    votes, excess, expected, weighted, triplets = cell.total(np.stack(columns, axis=1)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = excess / votes
    weight = own * M / votes[cell.number]
    influence = own * (residual - mean[cell.number] * M) / votes[cell.number]
    observed = clusters.rows.variance(influence[:, None], weight, cell)[:, 0]
    # Votes that agree by chance show no spread; the binomial variance of P, if P is right, is a lower bound.
    with np.errstate(divide="ignore", invalid="ignore"):
        se = np.sqrt(np.fmax(observed, weighted / votes**2))
    units = clusters.rows.units(weight, cell)
    tested = (expected >= FEWEST_EXPECTED) & (units > 1) & (np.arange(CELLS**2) % (CELLS + 1) > 0)
    single = [p_value(*cell) if test else np.nan for *cell, test in zip(mean, se, units, tested, strict=True)]
    p = np.minimum(max(1, int(tested.sum())) * np.array(single), 1.0)
    lower = np.tril_indices(CELLS, -1)

    def unfolded(values: FloatArray, sign: int = 1) -> FloatArray:
        square = values.reshape(CELLS, CELLS).copy()
        square.T[lower] = sign * square[lower]
        return square

    residuals, errors, p_values, counted = unfolded(mean, -1), unfolded(se), unfolded(p), unfolded(triplets)
    np.fill_diagonal(residuals, np.where(counted.diagonal() > 0, 0.0, np.nan))
    for square in (errors, p_values):
        np.fill_diagonal(square, np.nan)
        square[counted == 0] = np.nan
    edges = uniform.inverse(np.linspace(0, 1, CELLS + 1))
    return ResidualMap(residuals, errors, counted.astype(np.int64), p_values, edges)


# Preference for one side, and random votes


def asymmetry(table: Triplets, P: FloatArray, clusters: Clustering) -> dict[str, Any]:
    """Test whether people prefer the first or the second image, beyond P, which is symmetric.

    Where single votes are known, the side is the one ``shown``; else it is the table's, x0 first. A preference for a
    side of the table may also mean that x0 and x1 were not assigned at random. Numbers are votes for the second image
    beyond P, in %.
    """
    own, shown = clusters.rows.weights, table.votes is not None
    total = float((own * table.M).sum())
    excess, by_vote, effects = table.n - table.M * P, None, None
    if table.votes is not None:
        # Votes for the second image as shown, minus their probability by P.
        row, swapped, choice = (table.votes[name].to_numpy() for name in ("row", "swapped", "choice"))
        by_vote = choice - np.where(swapped, 1 - P[row], P[row])
        excess = np.bincount(row, by_vote, minlength=len(table)).astype(np.float64)
    value, weight = float((own * excess).sum()) / total, own * table.M / total
    if by_vote is not None and clusters.ballots is not None:
        effects = (own[row] * (by_vote - value))[:, None] / total
    influence = own * (excess - value * table.M) / total
    se = float(clusters.standard_errors(influence[:, None], weight, effects)[0, 0])
    units = float(clusters.units(weight)[0])
    interval, p = t_interval(100 * value, 100 * se, units), p_value(value, se, units)
    return {"shown": shown, **interval._asdict(), "p": p, "sentence": _preference(interval, p, shown)}


def preference_matters(preference: Mapping[str, Any]) -> bool:
    """Whether a preference for one side, as `asymmetry` returns it, is large and beyond doubt."""
    value, p = preference["value"], preference["p"]
    return value is not None and p is not None and abs(value) >= LARGE_PREFERENCE and p < P_PREFERENCE


def _preference(interval: Interval, p: float, shown: bool) -> str:
    if not np.isfinite(interval).all():
        return "a preference for one side cannot be estimated from so few triplets"
    ends = f"95 % interval {interval.low:+.1f} to {interval.high:+.1f}"
    if not p < 0.05:
        return f"no preference for the first or the second image is detected: {interval.value:+.1f} % of votes, {ends}"
    side = "second" if interval.value > 0 else "first"
    figures = f"{abs(interval.value):.1f} % of votes beyond P, {ends}"
    if shown:
        return f"people prefer the {side} image as shown: {figures}"
    return f"people prefer the {side} image of the table: {figures}; or x0 and x1 were not assigned at random"


def lapses(n: IntArray, M: IntArray, P: FloatArray, clusters: Clustering) -> dict[str, Any]:
    """Upper bound of the share of votes that were cast at random.

    Half of the random votes are wrong, so their share is at most twice that of the votes against P where P is most
    certain. The smallest of these bounds over several tails holds at 95 %, corrected for their number: ``high``, in %,
    or None, from so many ``votes``. The rate itself would need a parametric form.
    """
    against, own = np.where(P >= 0.5, M - n, n), clusters.rows.weights
    order = np.argsort(-np.maximum(P, 1 - P), kind="stable")
    cumulative = np.cumsum((own * M)[order])
    best, best_votes = 100.0, 0
    for tail in TAILS:
        rows = order[: int(np.searchsorted(cumulative, tail * cumulative[-1])) + 1]
        votes, total = int(M[rows].sum()), float((own * M)[rows].sum())
        wrong = float((own * against)[rows].sum()) / total
        weight = np.zeros(len(M))
        weight[rows] = (own * M)[rows] / total
        # A vote is against P if it is for the image that P does not favour.
        sign = own * np.where(P >= 0.5, -1.0, 1.0) * (weight > 0) / total
        centre = np.where(P >= 0.5, 1 - wrong, wrong)
        se = float(clusters.linear_errors(sign, np.asarray(n - M * centre), centre, weight)[0])
        units = float(clusters.units(weight)[0])
        # One-sided, corrected for the number of tails; NaN where the error is not known.
        high = share_interval(100 * wrong, 100 * se, units, level=1 - 2 * (1 - LEVEL) / len(TAILS)).high
        if 2 * high < best:
            best, best_votes = 2 * high, votes
    if not best_votes:
        sentence = "no upper bound on random votes: there are too few votes, or P is never certain"
        return {"high": None, "votes": 0, "sentence": sentence}
    sentence = f"at most {best:.1f} % of votes are random (95 %), from the {best_votes} votes where P is most certain"
    return {"high": best, "votes": best_votes, "sentence": sentence}

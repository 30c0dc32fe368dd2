"""Does P mean what it says? Reliability, and what of the NLL is lost to a wrong scale of confidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.errorbars import Together
from twoafc.inference.intervals import Interval, share_interval, t_interval

BINS, IN_EACH = 20, 50
"""As many bins as this, with as many triplets in each at least."""
EXTREME = 1e-9
"""P is kept this far from 0 and 1 where its logit is taken."""
STEEPEST = 20.0
"""A slope that is still rising here has no end: the votes all agree with P, or all disagree."""
FARTHEST = 10.0
"""No bin is shifted by more than this on the logit, however unanimous its votes."""


@dataclass(frozen=True)
class Bin:
    """Triplets of like P: their mean P and the share of votes for x1, by votes, both in [0, 1]."""

    triplets: int
    votes: int
    P: float
    share: float
    se: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """How P and the votes agree.

    Attributes
    ----------
    bins : tuple of Bin
        The reliability curve, from small P to large.
    ece : float
        Expected calibration error: mean distance of share and P over the bins, by votes, in [0, 1].
    ece_by_chance : float
        What the same would be by the noise of the votes alone, were P right.
    rmse : float
        Root mean square of the same distance with the noise of the votes taken off; 0 where there is no more than that.
    floor, sharpness, calibration : float
        NLL = floor - sharpness + calibration, in nats per triplet: the NLL of P = 1/2; what P gains on it once its
        scale is put right; what its scale loses. The loss is freed of what a new scale would gain by fitting noise.
    calibration_se : float
        Standard error of the loss.
    slope : Interval
        Factor on the logit of P that suits the votes best: below 1 P is too sure of itself, above 1 not sure enough.
    """

    bins: tuple[Bin, ...]
    ece: float
    ece_by_chance: float
    rmse: float
    floor: float
    sharpness: float
    calibration: float
    calibration_se: float
    slope: Interval

    def record(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self) | {"slope": self.slope._asdict()}


def calibration(n: IntArray, M: IntArray, P: FloatArray, link: Together, *, bins: int | None = None) -> Calibration:
    """Hold P against the votes, in bins of as many triplets each.

    Examples
    --------
    >>> from twoafc.inference.dependence import Dependence
    >>> rng = np.random.default_rng(0)
    >>> P, M = rng.random(4000), np.full(4000, 5)
    >>> found = calibration(rng.binomial(M, P), M, P, Together(Dependence(4000, (), ""), None))
    >>> found.slope.low < 1 < found.slope.high
    True
    """
    P = np.clip(P, EXTREME, 1 - EXTREME)
    code, count = _binned(P, bins or int(np.clip(len(P) // IN_EACH, 1, BINS)))
    votes = np.bincount(code, M, minlength=count)
    gap = np.bincount(code, n - M * P, minlength=count) / votes
    se, units = _gap_errors(n, M, P, code, count, gap, link)
    mean, share = np.bincount(code, M * P, minlength=count) / votes, np.bincount(code, n, minlength=count) / votes
    ends = [share_interval(100 * s, 100 * e, u) for s, e, u in zip(share, se, units, strict=True)]
    sizes = np.bincount(code, minlength=count)
    curve = tuple(
        Bin(int(t), int(v), float(p), float(s), float(e), end.low / 100, end.high / 100)
        for t, v, p, s, e, end in zip(sizes, votes, mean, share, se, ends, strict=True)
    )
    weight = votes / votes.sum()
    loss, loss_se = _lost(n, M, P, code, count, se, link)
    floor = metrics.nll(n, M, np.full(len(n), 0.5))
    return Calibration(
        bins=curve,
        ece=float(weight @ abs(gap)),
        ece_by_chance=float(weight @ np.nan_to_num(se) * np.sqrt(2 / np.pi)),
        rmse=float(np.sqrt(max(0.0, weight @ (gap**2 - np.nan_to_num(se) ** 2)))),
        floor=floor,
        sharpness=floor - metrics.nll(n, M, P) + loss,
        calibration=loss,
        calibration_se=loss_se,
        slope=slope(n, M, P, link),
    )


def _binned(P: FloatArray, bins: int) -> tuple[IntArray, int]:
    """Number of each triplet's bin; triplets with the same P are in the same one, so there may be fewer bins."""
    edges = np.unique(np.quantile(P, np.arange(1, bins) / bins, method="lower"))
    code = np.searchsorted(edges, P, side="left")
    _, dense = np.unique(code, return_inverse=True)
    return np.asarray(dense, dtype=np.int64), int(dense.max()) + 1


def _gap_errors(
    n: IntArray, M: IntArray, P: FloatArray, code: IntArray, count: int, gap: FloatArray, link: Together
) -> tuple[FloatArray, FloatArray]:
    """Standard errors of the gap between share and P in each bin, and the number of units there."""
    votes = np.bincount(code, M, minlength=count)
    weight = M / votes[code]
    centre = P + gap[code]
    observed = link.linear_errors(1 / votes[code], n - M * centre, centre, weight, code, count)
    # Few votes may happen to agree; the binomial of P itself is the least there is.
    binomial = np.sqrt(np.bincount(code, M * P * (1 - P), minlength=count)) / votes
    return np.fmax(observed, binomial), link.units(weight, code, count)


def _lost(
    n: IntArray, M: IntArray, P: FloatArray, code: IntArray, count: int, se: FloatArray, link: Together
) -> tuple[float, float]:
    """NLL that a shift of the logit in each bin would gain, freed of the gain by fitting noise; and its error."""
    shift = np.zeros(count)
    x = logit(P)
    for _ in range(30):
        p = expit(x + shift[code])
        step = np.bincount(code, n - M * p, minlength=count) / np.maximum(
            np.bincount(code, M * p * (1 - p), minlength=count), 1e-12
        )
        shift = np.clip(shift + np.clip(step, -1, 1), -FARTHEST, FARTHEST)
        if abs(step).max() < 1e-10:
            break
    gained = metrics.log_likelihood(n, M, expit(x + shift[code])) - metrics.log_likelihood(n, M, P)
    # A shift fitted to votes that scatter as they do gains half of what binomial votes would, times the dispersion.
    votes = np.bincount(code, M, minlength=count)
    dispersion = (
        np.nan_to_num(se) ** 2 * votes**2 / np.maximum(np.bincount(code, M * P * (1 - P), minlength=count), 1e-12)
    )
    T = len(n)
    error = link.rows.variance(((gained - gained.mean()) / T)[:, None], np.full(T, 1 / T))[0, 0] ** 0.5
    return float(gained.mean() - dispersion.sum() / 2 / T), float(error)


def slope(n: IntArray, M: IntArray, P: FloatArray, link: Together) -> Interval:
    """Factor on the logit of P that suits the votes best, with its error; NaN where votes that all agree give none."""
    unknown = Interval(*[float("nan")] * 4)
    x = logit(np.clip(P, EXTREME, 1 - EXTREME))
    if not x.any():
        return unknown
    factor = 1.0
    for _ in range(100):
        p = expit(factor * x)
        information = float(np.sum(M * p * (1 - p) * x**2))
        step = float(np.clip(np.sum((n - M * p) * x) / max(information, 1e-12), -0.5, 0.5))
        factor += step
        if abs(step) < 1e-9:
            break
    if abs(step) >= 1e-9 or abs(factor) >= STEEPEST:
        return unknown
    p = expit(factor * x)
    weight = M * p * (1 - p) * x**2
    information = float(weight.sum())
    se = float(link.linear_errors(x / information, n - M * p, p, weight / information)[0])
    return t_interval(factor, se, float(link.units(weight / information)[0]))

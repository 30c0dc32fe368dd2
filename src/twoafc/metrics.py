"""Scores of a probability P against votes n of M: pure functions of arrays (section 3.3 of the paper).

``*_per_triplet`` gives one value per triplet; the plain name gives the mean over triplets. ``expected_*`` is what a
score comes to if the votes were drawn from Binomial(M, P) itself: the paper's simulated scores, without their noise.
M may differ from triplet to triplet in all of them. NLL is in nats, the others in per cent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoafc.arrays import FloatArray
from twoafc.core import counts_width, likely_counts, log_pmf

AT_ONCE = 2**20
Ties = Literal["half", "x0"]
"""What a tie is worth: half a choice, as the field counts, or a choice of x0, as the paper's formula has it."""


def log_likelihood(n: ArrayLike, M: ArrayLike, P: ArrayLike) -> FloatArray:
    """Log-likelihood of the votes of each triplet, log Pr_B(n; M, P), coefficient included.

    Examples
    --------
    >>> log_likelihood([1, 2], [2, 2], [0.5, 0.5]).round(4)
    array([-0.6931, -1.3863])
    """
    return log_pmf(*_checked(n, M, P))


def nll(n: ArrayLike, M: ArrayLike, P: ArrayLike) -> float:
    """Mean over triplets of the negative log-likelihood (eq. 3).

    Examples
    --------
    >>> round(nll([1, 2], [2, 2], [0.5, 0.5]), 4)
    1.0397
    """
    return float(-log_likelihood(n, M, P).mean())


def nll_per_vote(n: ArrayLike, M: ArrayLike, P: ArrayLike) -> float:
    """Sum of the negative log-likelihood over the number of votes; compares where NLLs at different M do not.

    Examples
    --------
    >>> round(nll_per_vote([1, 2], [2, 2], [0.5, 0.5]), 4)
    0.5199
    """
    return float(-log_likelihood(n, M, P).sum() / np.sum(np.broadcast_to(M, np.shape(n))))


def most_likely(M: ArrayLike, P: ArrayLike) -> NDArray[np.int64]:
    """Most likely count of Binomial(M, P): floor((M + 1) P), at most M; of two equally likely ones the larger.

    Examples
    --------
    >>> most_likely(5, [0.0, 0.4, 0.5, 1.0])
    array([0, 2, 3, 5])
    """
    M = np.asarray(M)
    return np.asarray(np.minimum(np.floor((M + 1) * np.asarray(P, dtype=np.float64)), M), dtype=np.int64)


def agreement_per_triplet(n: ArrayLike, M: ArrayLike, P: ArrayLike) -> FloatArray:
    """Agreement of each triplet: ``100 - 100 |mode - n| / M`` (eq. 4).

    Where two counts are equally likely, as at P = 1/2 with odd M, it is the mean for both: neither side is favoured.
    """
    n, M, P = _checked(n, M, P)
    return np.asarray(100 - 100 * _off_mode(n, M, P) / M)


def _off_mode(n: FloatArray, M: FloatArray, P: FloatArray) -> FloatArray:
    """Distance of counts from the most likely one, or its mean where two are equally likely."""
    place = (M + 1) * P
    upper, lower = np.minimum(np.floor(place), M), np.maximum(np.ceil(place) - 1, 0)
    return np.asarray((np.abs(upper - n) + np.abs(lower - n)) / 2)


def agreement(n: ArrayLike, M: ArrayLike, P: ArrayLike) -> float:
    """Mean agreement of the most likely count with the votes, AJ (eq. 4).

    Examples
    --------
    >>> agreement([3, 5], [5, 5], [0.6, 0.5])
    75.0
    """
    return float(agreement_per_triplet(n, M, P).mean())


def choice(margin: ArrayLike, *, ties: Ties = "half") -> FloatArray:
    """Share of a choice given to x1: 1 where the margin is positive, 0 where negative, at a tie by the rule.

    Examples
    --------
    >>> choice([0.2, -0.1, 0.0]), choice([0.2, -0.1, 0.0], ties="x0")
    (array([1. , 0. , 0.5]), array([1., 0., 0.]))
    """
    margin = np.asarray(margin, dtype=np.float64)
    return np.where(margin > 0, 1.0, np.where(margin < 0, 0.0, {"half": 0.5, "x0": 0.0}[ties]))


def score_2afc_per_triplet(n: ArrayLike, M: ArrayLike, c: ArrayLike) -> FloatArray:
    """Share of the votes that each choice c agrees with: 100 (c n/M + (1 - c)(1 - n/M)) (eq. 5)."""
    n, M, c = _checked(n, M, c, name="c")
    share = n / M
    return np.asarray(100 * (c * share + (1 - c) * (1 - share)))


def score_2afc(n: ArrayLike, M: ArrayLike, P: ArrayLike, *, ties: Ties = "half") -> float:
    """2AFC score of the model, which chooses x1 where P > 1/2: a mean over triplets.

    Where M varies it is not the share of all votes: see `score_2afc_votes`.

    Examples
    --------
    >>> score_2afc([3, 1], [5, 5], [0.7, 0.9])
    40.0
    """
    n, M, P = _checked(n, M, P)
    return float(score_2afc_per_triplet(n, M, choice(P - 0.5, ties=ties)).mean())


def score_2afc_votes(n: ArrayLike, M: ArrayLike, P: ArrayLike, *, ties: Ties = "half") -> float:
    """Share of all votes that the model agrees with, which chooses x1 where P > 1/2: a mean over votes.

    Examples
    --------
    >>> score_2afc_votes([3, 2], [5, 2], [0.7, 0.9]), score_2afc([3, 2], [5, 2], [0.7, 0.9])
    (71.42857142857143, 80.0)
    """
    n, M, P = _checked(n, M, P)
    agreed = score_2afc_per_triplet(n, M, choice(P - 0.5, ties=ties))
    return float(np.average(agreed, weights=np.broadcast_to(M, agreed.shape)))


def score_2afc_distance(n: ArrayLike, M: ArrayLike, d0: ArrayLike, d1: ArrayLike, *, ties: Ties = "half") -> float:
    """2AFC score of the bare distance, which chooses x1 where d0 > d1.

    Examples
    --------
    >>> score_2afc_distance([3, 1], [5, 5], d0=[0.4, 0.2], d1=[0.1, 0.2])
    55.0
    """
    return float(score_2afc_per_triplet(n, M, choice(np.subtract(d0, d1), ties=ties)).mean())


def expected_nll_per_triplet(M: ArrayLike, P: ArrayLike) -> FloatArray:
    """NLL to expect of each triplet if P is true: the entropy of Binomial(M, P).

    Examples
    --------
    >>> expected_nll_per_triplet([1, 2], [0.5, 0.5]).round(4)
    array([0.6931, 1.0397])
    """
    return _expected(lambda j, m, p, log_p: -np.where(np.isneginf(log_p), 0.0, log_p), M, P)


def expected_agreement_per_triplet(M: ArrayLike, P: ArrayLike) -> FloatArray:
    """Agreement to expect of each triplet if P is true.

    Examples
    --------
    >>> expected_agreement_per_triplet([1, 2], [1.0, 0.5])
    array([100.,  75.])
    """
    return 100 - 100 * _expected(lambda j, m, p, log_p: _off_mode(j, m, p) / m, M, P)


def expected_nll(M: ArrayLike, P: ArrayLike) -> float:
    """Mean over triplets of `expected_nll_per_triplet`: the least NLL that P can reach."""
    return float(expected_nll_per_triplet(M, P).mean())


def expected_agreement(M: ArrayLike, P: ArrayLike) -> float:
    """Mean over triplets of `expected_agreement_per_triplet`."""
    return float(expected_agreement_per_triplet(M, P).mean())


def expected_score_2afc(P: ArrayLike, c: ArrayLike) -> float:
    """2AFC score to expect of the choices c if P is true: as a score with n/M = P.

    Examples
    --------
    >>> expected_score_2afc(P=[0.7, 0.2], c=[1, 0])
    75.0
    """
    return float(score_2afc_per_triplet(P, 1, c).mean())


def simulate(M: ArrayLike, P: ArrayLike, *, seed: int) -> NDArray[np.int64]:
    """Draw votes n from Binomial(M, P); any score of them is the sampled form of the expected one.

    Examples
    --------
    >>> simulate([2, 5], [0.0, 1.0], seed=0)
    array([0, 5])
    """
    M, P = np.asarray(M, dtype=np.int64), np.asarray(P, dtype=np.float64)
    return np.asarray(np.random.default_rng(seed).binomial(M, P), dtype=np.int64)


def _checked(n: ArrayLike, M: ArrayLike, P: ArrayLike, *, name: str = "P") -> tuple[FloatArray, FloatArray, FloatArray]:
    """Take votes and chances as numbers, or raise a ValueError that names the rule which one of them breaks."""
    n, M, P = (np.asarray(value, dtype=np.float64) for value in (n, M, P))
    rules = (
        ("M must be at least 1", M >= 1, {"M": M}),
        ("n must lie in [0, M]", (n >= 0) & (n <= M), {"n": n, "M": M}),
        (f"{name} must lie in [0, 1]", (P >= 0) & (P <= 1), {name: P}),
    )
    for rule, right, values in rules:
        if not right.all():
            place = int(np.argmin(right.ravel()))
            shown = (f"{key}={np.broadcast_to(value, right.shape).ravel()[place]:g}" for key, value in values.items())
            wrong = int((~right).sum())
            raise ValueError(f"{rule}; index {place} has {', '.join(shown)} ({wrong} of {right.size})")
    return n, M, P


def _expected(
    score: Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray], M: ArrayLike, P: ArrayLike
) -> FloatArray:
    """Expectation over counts j of a score, a function of j, M, P and log Pr_B(j; M, P), for each triplet."""
    _checked(0, M, P)
    M, P = np.broadcast_arrays(np.asarray(M), np.asarray(P, dtype=np.float64))
    shape, P = P.shape, P.ravel()
    values = np.empty(P.size)
    for m in np.unique(M):
        rows = np.flatnonzero(m == M)
        # So many rows at once that their counts j fit in memory, whatever M.
        step = max(1, AT_ONCE // counts_width(int(m)))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            p = P[some]
            # Rows of counts come in runs of one P, whatever their n.
            new = np.concatenate([[True], p[1:] != p[:-1]])
            j, p = likely_counts(int(m), p[new]).astype(np.float64), p[new][:, None]
            log_p = log_pmf(j, m, p)
            expected = np.sum(np.exp(log_p) * score(j, np.asarray(m, dtype=np.float64), p, log_p), axis=1)
            values[some] = expected if new.all() else expected[np.cumsum(new) - 1]
    return values.reshape(shape)

"""Functions of votes whose expectation bounds a function of the choice probability, whatever that probability is.

Which image is called x0 or x1 is arbitrary, so votes are folded, k = min(n, m - n) of m votes, and so is p,
q = max(p, 1 - p). A function g of k has the expectation E[g | q] = sum over k of g(k) Pr(k | q), a polynomial in q. If
E[g | q] >= f(q) for every q, then the mean of g over triplets is in expectation at least the mean of f(q), for any
distribution of q, and even if M depends on q. So an upper confidence limit of the mean of g, which is observed, is one
of the mean of f(q), which is not. Lower limits are those of -f.

Many functions g bound f. A good one has a small mean and a small variance for the votes there are; an estimate of the
distribution of q says which these are. It need not be right: an error makes the bound wider, never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import pmf_table

# Mixtures have their weight on every tenth of these values of q; inequalities hold at all of them.
VALUES, EVERY = 1601, 10
Q: FloatArray = (1 + np.sin(np.linspace(0, np.pi / 2, VALUES))) / 2
"""Values of q from 1/2 to 1, denser towards 1, where the entropy falls fastest."""
# Steps of expectation maximisation from a uniform mixture: few enough to leave it smooth.
STEPS = 200


@lru_cache(maxsize=256)
def folded_pmf(m: int) -> FloatArray:
    """Probability of k = 0..floor(m/2), shape (floor(m/2) + 1, VALUES), for every value of q."""
    return _folded(pmf_table(m, Q)).T


def folded_draws(n: IntArray, M: IntArray, m: int) -> FloatArray:
    """Probability of k = 0..floor(m/2) among m of the M votes, drawn at random, shape (T, floor(m/2) + 1).

    Averaged over all draws, every vote counts; and for given q the average has the expectation that m votes have.
    """
    # Hypergeometric; scipy.stats.hypergeom takes twenty microseconds per value.
    log_ways = _log_combinations(n, m) + _log_combinations(M - n, m)[:, ::-1]
    ways = np.exp(log_ways - log_ways.max(axis=1, keepdims=True))
    return _folded(ways / ways.sum(axis=1, keepdims=True))


def _log_combinations(total: IntArray, most: int) -> FloatArray:
    """Logarithm of the binomial coefficients of 0..most among each total; minus infinity where there are too few."""
    part = np.arange(1, most + 1)
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(total[:, None] - part + 1, 0) / part)
    return np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1)


def _folded(chance: FloatArray) -> FloatArray:
    """Add the probabilities of k and m - k along the last axis."""
    m = chance.shape[-1] - 1
    both = chance + chance[..., ::-1]
    if m % 2 == 0:
        both[..., m // 2] /= 2
    return both[..., : m // 2 + 1]


def estimate_mixture(
    counts: Sequence[tuple[int, FloatArray]], start: FloatArray | None = None, triplets: float = 1.0
) -> FloatArray:
    """Estimate the distribution of q: weights of every tenth value of `Q`.

    `counts` are pairs of a number of votes m and how many triplets have k = 0..floor(m/2). The distribution to start
    from, by default uniform, counts like so many `triplets`.
    """
    atoms = [(folded_pmf(m)[:, ::EVERY], number) for m, number in counts]
    prior = np.full(len(Q[::EVERY]), 1.0) if start is None else start
    prior = prior / prior.sum()
    total = triplets + sum(float(number.sum()) for _, number in counts)
    weights = prior
    for _ in range(STEPS):
        expected = np.zeros_like(weights)
        for pmf, number in atoms:
            expected += pmf.T @ (number / np.maximum(pmf @ weights, np.finfo(np.float64).tiny))
        weights = (weights * expected + triplets * prior) / total
    return np.asarray(weights)


def bounding_function(
    f: FloatArray, m: int, chance: FloatArray, penalty: float, known: FloatArray | None = None
) -> FloatArray:
    """Find a function g of k with E[g | q] >= f(q) for every q: its values at k = 0..floor(m/2).

    Of all such functions it has about the smallest E g + penalty / 2 Var(g - known), where k has the probabilities
    `chance`. The dual problem is one over mixtures: the largest mean of f, less the squared distance (chi-squared) of
    the mixture's probabilities of k from `chance`, over 2 penalty. That is a non-negative least-squares fit, and g is
    its residual. The largest violation of the inequality is then added, so that it holds however exact the fit is. f is
    given at every value of `Q`, `chance`, all positive, and `known`, which will be subtracted from g, at every k.

    Examples
    --------
    Two votes identify the mean of (2q - 1)^2 alone. If q is always 0.75, the best bound of q touches it there:

    >>> chance = np.array([0.625, 0.375])
    >>> g = bounding_function(Q, 2, chance, 1e-3)
    >>> round(float(g @ chance), 3)
    0.75
    """
    from scipy.optimize import nnls  # here, since it is slow to import

    pmf = folded_pmf(m)
    shift = np.zeros(len(chance)) if known is None else known
    values = f - shift @ pmf
    atoms, scale = pmf[:, ::EVERY], 1 / np.sqrt(chance)
    # The linear term is a row with a far target; that the weights sum to 1, a row with a large factor.
    linear, large = values[::EVERY] - values.max(), 1e3
    far = 1e4 * float(np.ptp(values))
    slope = np.sqrt(penalty / far)
    rows = np.concatenate([atoms * scale[:, None], [np.full(atoms.shape[1], large), slope * linear]])
    target = np.concatenate([chance * scale, [large, slope * far]])
    try:
        weights = nnls(rows, target, maxiter=100 * rows.shape[1])[0]
    except RuntimeError:
        # No convergence: the constant bound is left, the largest value of f.
        weights = np.zeros(rows.shape[1])
    residual = (atoms @ weights - chance) / (penalty * chance)
    return np.asarray(residual + np.max(values - residual @ pmf) + shift)

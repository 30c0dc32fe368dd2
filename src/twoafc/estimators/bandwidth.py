"""The kernel width under which rows that were left out are most likely."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.estimators.kernel import rows_by_votes

Likelihood = Callable[[float], float]
"""Log-likelihood of the votes that are left out, by the width."""
CANDIDATES: FloatArray = np.geomspace(0.008, 0.5, 13)[::-1]
NEARBY: FloatArray = 0.75 ** np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
"""Widths tried first, and those tried then, relative to the best of them; where all are alike the widest is taken."""
CELLS = {1: 512, 2: 192}
CELLS_OF_CLUSTERS = {1: 512, 2: 128}
"""Fine cells along each axis, in which rows are gathered, by k."""
FOLDS = 20


def choose_sigma(
    u: tuple[FloatArray, ...],
    n: IntArray,
    M: IntArray,
    clusters: IntArray | None,
    *,
    share: float,
    prior: float,
    count: IntArray | None = None,
    weight: FloatArray | None = None,
) -> float:
    """Choose the width by the likelihood of votes that the estimate has not seen.

    A whole triplet or pair is left out (a triplet with its mirror), never a single vote: votes on one triplet are
    correlated, and a narrow kernel would profit from the others. Where references repeat, whole references are left
    out, a twentieth of them at a time.

    Parameters
    ----------
    u : k arrays, shape (T,)
        Uniformised distances.
    clusters : array of int, shape (T,), or None
        Number of each row's reference, where references repeat.
    share, prior : float
        P where there is no data, and the votes for it at every place.
    count : array of int, shape (T,), optional
        Triplets or pairs that each row stands for; one of them is left out at a time.
    weight : array, shape (T,), optional
        Weight of each of these, in the sums and in the likelihood.
    """
    k = len(u)
    size = (CELLS if clusters is None else CELLS_OF_CLUSTERS)[k]
    cell = np.zeros(len(n), dtype=np.int64)
    for x in u:
        cell = cell * size + np.minimum((x * size).astype(np.int64), size - 1)
    shape, times = (size,) * k, np.ones(len(n), dtype=np.int64) if count is None else count
    own = np.ones(len(n)) if weight is None else weight
    likelihood = (
        rows_left_out(cell, n, M, times, shape=shape, share=share, prior=prior, weight=own)
        if clusters is None
        else clusters_left_out(cell, n, M, times * own, clusters, shape=shape, share=share, prior=prior)
    )
    sigma = 1.0
    for factors in (CANDIDATES, NEARBY):
        tried = sigma * factors
        sigma = float(tried[int(np.argmax([likelihood(width) for width in tried]))])
    return sigma


def rows_left_out(
    cell: IntArray,
    n: IntArray,
    M: IntArray,
    times: IntArray,
    *,
    shape: tuple[int, ...],
    share: float,
    prior: float,
    weight: FloatArray | float = 1.0,
) -> Likelihood:
    """Log-likelihood by width, each row left out of the sums at its own place, a triplet with its mirror."""
    weight = np.broadcast_to(weight, n.shape)
    sums = _mirrored(_in_cells(cell, np.stack([n, M]) * times * weight, shape))
    # Rows alike in place, votes and weight are alike in likelihood; gathered, their order cannot matter either.
    order, starts = rows_by_votes(n, M)
    kinds = len(starts) - 1
    kind = np.empty(len(n), dtype=np.int64)
    kind[order] = np.repeat(np.arange(kinds), np.diff(starts))
    weights, heavy = np.unique(weight, return_inverse=True)
    distinct, inverse = np.unique((cell * kinds + kind) * len(weights) + heavy, return_inverse=True)
    place, own = np.divmod(distinct, len(weights))
    total = np.bincount(inverse, times) * weights[own]
    first = order[starts[:-1]][place % kinds]
    at = np.unravel_index(place // kinds, shape)
    votes = np.stack([n[first], M[first]]).astype(np.float64)

    def likelihood(sigma: float) -> float:
        left_out = votes
        if len(shape) == 2:  # what a triplet's mirror adds where the triplet is
            mirror = np.exp(-(((at[0] - at[1]) / shape[0] / sigma) ** 2))
            left_out = votes + np.stack([votes[1] - votes[0], votes[1]]) * mirror
        others = _smoothed(sums, sigma)[:, *at] - left_out * weights[own]
        return float(total @ _log_likelihood(others, votes, share, prior))

    return likelihood


def clusters_left_out(
    cell: IntArray,
    n: IntArray,
    M: IntArray,
    times: FloatArray | IntArray,
    clusters: IntArray,
    *,
    shape: tuple[int, ...],
    share: float,
    prior: float,
) -> Likelihood:
    """Log-likelihood by width, a share of the clusters left out at a time."""
    order = np.random.default_rng(0).permutation(int(clusters.max()) + 1)
    fold = (order % min(FOLDS, len(order)))[clusters]
    votes = np.stack([n, M]) * times
    unseen = [_in_cells(cell[fold == i], votes[:, fold == i], shape) for i in np.unique(fold)]
    total = np.sum(unseen, axis=0)
    seen = [_mirrored(total - part) for part in unseen]

    def likelihood(sigma: float) -> float:
        return sum(
            float(_log_likelihood(_smoothed(others, sigma), part, share, prior).sum())
            for others, part in zip(seen, unseen, strict=True)
        )

    return likelihood


def _in_cells(cell: IntArray, votes: FloatArray | IntArray, shape: tuple[int, ...]) -> FloatArray:
    """Sums of n and of M in the cells, shape (2, *shape)."""
    sums = [np.bincount(cell, column, int(np.prod(shape))).reshape(shape) for column in votes]
    return np.stack(sums).astype(np.float64)


def _mirrored(sums: FloatArray) -> FloatArray:
    """Add the votes of the mirrored triplets, where k = 2."""
    N, D = sums
    return np.stack([N + (D - N).T, D + D.T]) if N.ndim == 2 else sums


def _smoothed(sums: FloatArray, sigma: float) -> FloatArray:
    """Sum the kernel over the cells, at each of them: shape (2, *shape) to the same."""
    from scipy.linalg import toeplitz  # here, since it is slow to import

    size = sums.shape[-1]
    K = toeplitz(np.exp(-((np.arange(size) / size / sigma) ** 2) / 2))
    return np.asarray(sums @ K if sums.ndim == 2 else K @ sums @ K)


def _log_likelihood(sums: FloatArray, votes: FloatArray, share: float, prior: float) -> FloatArray:
    """Log-likelihood of some votes (n, M), place by place, under the sums of others."""
    (N, D), (n, M) = np.maximum(sums, 0.0), votes
    P = np.clip((N + prior * share) / (D + prior), 1e-12, 1 - 1e-12)
    return np.asarray(n * np.log(P) + (M - n) * np.log1p(-P))

"""The kernel width under which pairs that were left out are most likely."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import toeplitz

from twoafc.arrays import FloatArray, IntArray
from twoafc.estimators.bandwidth import CANDIDATES, FOLDS, NEARBY

Likelihood = Callable[[float], float]
"""By the width, of the votes that are left out."""
LATTICE = 512
"""Cells along the axis; the narrowest width tried spans three of them."""


def choose_sigma(u: FloatArray, n: IntArray, M: IntArray, clusters: IntArray | None, *, prior: float) -> float:
    """Choose the width by the likelihood of votes that the estimate has not seen.

    A whole pair is left out, never a single vote; where pairs share references, whole references are, a twentieth of
    them at a time.

    Parameters
    ----------
    u : array, shape (T,)
        Uniformised distances.
    clusters : array of int, shape (T,), or None
        Number of each pair's reference, where references repeat.
    prior : float
        Votes for the overall share at every place.
    """
    cell = np.minimum((u * LATTICE).astype(np.int64), LATTICE - 1)
    left_out = (
        _pairs_left_out(cell, n, M, prior) if clusters is None else _clusters_left_out(cell, n, M, clusters, prior)
    )
    sigma = 1.0
    for factors in (CANDIDATES, NEARBY):
        tried = sigma * factors[::-1]  # the widest first: where all are alike, as with unanimous votes, it is taken
        sigma = float(tried[int(np.argmax([left_out(each) for each in tried]))])
    return sigma


def _kernel(sigma: float) -> FloatArray:
    return np.asarray(toeplitz(np.exp(-((np.arange(LATTICE) / LATTICE / sigma) ** 2) / 2)))


def _sums(cell: IntArray, n: IntArray, M: IntArray) -> FloatArray:
    """Votes in the cells, shape (2, LATTICE)."""
    return np.stack([np.bincount(cell, each, LATTICE) for each in (n, M)]).astype(np.float64)


def _log_likelihood(sums: FloatArray, votes: FloatArray, share: float, prior: float) -> FloatArray:
    """Log-likelihood of some votes (n, M), place by place, under the sums of others."""
    (N, D), (n, M) = np.maximum(sums, 0.0), votes
    P = np.clip((N + prior * share) / (D + prior), 1e-12, 1 - 1e-12)
    return np.asarray(n * np.log(P) + (M - n) * np.log1p(-P))


def _pairs_left_out(cell: IntArray, n: IntArray, M: IntArray, prior: float) -> Likelihood:
    """Log-likelihood by width, each pair left out of the sums at its own place."""
    share = n.sum() / M.sum()
    sums = _sums(cell, n, M)
    # Pairs alike in place and votes are alike in likelihood; gathered, their order cannot matter either.
    (votes_n, k), (votes_M, m) = (np.unique(each, return_inverse=True) for each in (n, M))
    kinds = (cell * len(votes_n) + k) * len(votes_M) + m
    _, first, times = np.unique(kinds, return_index=True, return_counts=True)
    at, votes = cell[first], np.stack([n[first], M[first]]).astype(np.float64)

    def likelihood(sigma: float) -> float:
        others = (sums @ _kernel(sigma))[:, at] - votes
        return float(times @ _log_likelihood(others, votes, share, prior))

    return likelihood


def _clusters_left_out(cell: IntArray, n: IntArray, M: IntArray, clusters: IntArray, prior: float) -> Likelihood:
    """Log-likelihood by width, a share of the clusters left out at a time."""
    share = n.sum() / M.sum()
    order = np.random.default_rng(0).permutation(int(clusters.max()) + 1)
    fold = (order % min(FOLDS, len(order)))[clusters]
    unseen = np.stack([_sums(*(column[fold == each] for column in (cell, n, M))) for each in np.unique(fold)])
    seen = unseen.sum(axis=0) - unseen

    def likelihood(sigma: float) -> float:
        others = np.moveaxis(seen @ _kernel(sigma), 1, 0)
        return float(_log_likelihood(others, np.moveaxis(unseen, 1, 0), share, prior).sum())

    return likelihood

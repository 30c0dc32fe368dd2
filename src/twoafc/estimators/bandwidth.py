"""The kernel width under which triplets that were left out are most likely."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CANDIDATES = np.geomspace(0.008, 0.5, 13)
NEARBY = np.geomspace(0.75, 1 / 0.75, 5)
"""Widths tried first, and those tried then, relative to the best of them."""
LATTICE = 192
COARSE_LATTICE = 128
FOLDS = 20


def choose_sigma(
    u0: FloatArray, u1: FloatArray, n: IntArray, M: IntArray, clusters: IntArray | None, *, prior: float
) -> float:
    """Choose the kernel width by the likelihood of votes that the estimate has not seen.

    A whole triplet is left out with its mirror, never a single vote: votes on one triplet go together, and a narrow
    kernel would be praised for finding the others. Where triplets share references, whole references are left out, a
    twentieth of them at a time. All candidates are tried on triplets gathered in fine cells.

    Parameters
    ----------
    u0, u1 : arrays, shape (T,)
        Uniformised distances.
    clusters : array of int, shape (T,), or None
        Number of each triplet's reference, where references repeat.
    prior : float
        Votes for P = 1/2 at every place.
    """
    left_out = _triplets_left_out if clusters is None else _clusters_left_out
    size = LATTICE if clusters is None else COARSE_LATTICE
    i, j = (np.minimum((u * size).astype(np.int64), size - 1) for u in (u0, u1))
    best = 1.0
    for candidates in (CANDIDATES, NEARBY):
        widths = best * candidates
        best = float(widths[int(np.argmax(left_out(widths, i, j, n, M, clusters, size, prior)))])
    return best


def _lattice(i: IntArray, j: IntArray, weights: IntArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(i * size + j, weights, size * size), dtype=np.float64).reshape(size, size)


def _sums(i: IntArray, j: IntArray, n: IntArray, M: IntArray, size: int) -> FloatArray:
    """Votes in the cells, with those of the mirrored triplets: shape (2, size, size)."""
    N, D = _lattice(i, j, n, size), _lattice(i, j, M, size)
    return np.stack([N + (D - N).T, D + D.T])


def _kernel(sigma: float, size: int) -> FloatArray:
    centres = (np.arange(size) + 0.5) / size
    return np.asarray(np.exp(-(np.subtract.outer(centres, centres) ** 2) / (2 * sigma**2)))


def _log_likelihood(N: FloatArray, D: FloatArray, n: FloatArray, M: FloatArray, prior: float) -> FloatArray:
    P = np.clip((N + prior / 2) / (D + prior), 1e-12, 1 - 1e-12)
    return np.asarray(n * np.log(P) + (M - n) * np.log1p(-P))


def _triplets_left_out(
    widths: FloatArray,
    i: IntArray,
    j: IntArray,
    n: IntArray,
    M: IntArray,
    clusters: IntArray | None,
    size: int,
    prior: float,
) -> list[float]:
    """Log-likelihood under each width, each triplet left out with its mirror."""
    sums = _sums(i, j, n, M, size)
    # Triplets alike in place and votes are alike in likelihood.
    rows = np.stack([i, j, n, M])
    most = int(M.max()) + 1
    times = np.ones(len(n), dtype=np.int64)
    if (size * most) ** 2 < 2**62:  # else a number for each kind would not fit in an integer
        code, times = np.unique(((i * size + j) * most + n) * most + M, return_counts=True)
        rows = np.stack([*np.divmod(code // most**2, size), code // most % most, code % most])
    row, column, k, m = rows
    likelihoods = []
    for sigma in widths:
        K = _kernel(sigma, size)
        N, D = ((K @ each @ K)[row, column] for each in sums)
        itself = np.exp(-(((row - column) / size / sigma) ** 2))  # what a triplet's mirror adds where the triplet is
        N, D = N - k - (m - k) * itself, D - m * (1 + itself)
        likelihoods.append(float(times @ _log_likelihood(np.maximum(N, 0), np.maximum(D, 0), k, m, prior)))
    return likelihoods


def _clusters_left_out(
    widths: FloatArray,
    i: IntArray,
    j: IntArray,
    n: IntArray,
    M: IntArray,
    clusters: IntArray | None,
    size: int,
    prior: float,
) -> list[float]:
    """Log-likelihood under each width, a share of the clusters left out at a time."""
    assert clusters is not None
    order = np.random.default_rng(0).permutation(int(clusters.max()) + 1)
    fold = (order % min(FOLDS, len(order)))[clusters]
    parts = [fold == each for each in np.unique(fold)]
    seen = [_sums(i[~part], j[~part], n[~part], M[~part], size) for part in parts]
    unseen = [(_lattice(i[part], j[part], n[part], size), _lattice(i[part], j[part], M[part], size)) for part in parts]
    likelihoods = []
    for sigma in widths:
        K = _kernel(sigma, size)
        total = 0.0
        for sums, (k, m) in zip(seen, unseen, strict=True):
            N, D = (K @ each @ K for each in sums)
            total += float(_log_likelihood(N, D, k, m, prior).sum())
        likelihoods.append(total)
    return likelihoods

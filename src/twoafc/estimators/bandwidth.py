"""The kernel widths under which triplets that were left out are most likely."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twoafc.estimators.kernel import Width, separable, turned_back

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Asked = float | Literal["auto"]

CANDIDATES: FloatArray = np.geomspace(0.008, 0.5, 13)
NEARBY: FloatArray = 0.75 ** np.array([1.0, 0.5, 0.0, -0.5, -1.0])
"""Widths tried first, and those tried then, relative to the best of them."""
STRETCHES: FloatArray = 2.0 ** np.arange(-1.0, 5.0)
"""Widths along the diagonal that are tried, relative to the one across it."""
LATTICE = 192
COARSE_LATTICE = 128
FOLDS = 20


def choose_width(
    u0: FloatArray,
    u1: FloatArray,
    n: IntArray,
    M: IntArray,
    clusters: IntArray | None,
    *,
    asked: tuple[Asked, Asked | None] = ("auto", None),
    prior: float,
) -> Width:
    """Choose the kernel's widths by the likelihood of votes that the estimate has not seen.

    A whole triplet is left out with its mirror, never a single vote: votes on one triplet go together, and a narrow
    kernel would be praised for finding the others. Where triplets share references, whole references are left out, a
    twentieth of them at a time. All candidates are tried on triplets gathered in fine cells.

    Parameters
    ----------
    u0, u1 : arrays, shape (T,)
        Uniformised distances.
    clusters : array of int, shape (T,), or None
        Number of each triplet's reference, where references repeat.
    asked : pair of float, "auto" or None
        Widths across and along the diagonal; None along it means the same.
    prior : float
        Votes for P = 1/2 at every place.
    """
    left_out = _triplets_left_out if clusters is None else _clusters_left_out
    size = LATTICE if clusters is None else COARSE_LATTICE
    i, j = (np.minimum((u * size).astype(np.int64), size - 1) for u in (u0, u1))

    across, along = asked
    width = Width(1.0 if across == "auto" else across, 1.0 if along in (None, "auto") else float(along))
    if along == "auto" and across != "auto":
        width = Width(across, across)
    for (move_across, move_along), factors in _plan(across == "auto", None if along is None else along == "auto"):
        tried = [
            Width(width.across * (each if move_across else 1.0), width.along * (each if move_along else 1.0))
            for each in factors
        ]
        width = tried[int(np.argmax(left_out(tried, i, j, n, M, clusters, size, prior)))]
    return width


def _plan(across: bool, along: bool | None) -> list[tuple[tuple[bool, bool], FloatArray]]:
    """Which widths to move together and by what, in turn; the one along the diagonal comes last where both are free."""
    if along is False:
        return [((True, False), CANDIDATES), ((True, False), NEARBY)]
    plan = [((True, True), CANDIDATES), ((True, True), NEARBY)] if across else []
    if along:
        plan += [((False, True), STRETCHES), ((False, True), NEARBY)]
    if along and across:
        plan += [((True, False), NEARBY)]
    return plan


def _lattice(i: IntArray, j: IntArray, weights: IntArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(i * size + j, weights, size * size), dtype=np.float64).reshape(size, size)


def _sums(i: IntArray, j: IntArray, n: IntArray, M: IntArray, size: int) -> FloatArray:
    """Votes in the cells, with those of the mirrored triplets: shape (2, size, size)."""
    N, D = _lattice(i, j, n, size), _lattice(i, j, M, size)
    return np.stack([N + (D - N).T, D + D.T])


def _smoothed(sums: FloatArray, width: Width) -> FloatArray:
    """Sum the kernel over the cells of a lattice, at each of them: (2, size, size) to (2, size, size)."""
    size = sums.shape[-1]
    # Cells' centres lie 1 / size apart, nodes 1 / (size - 1).
    stretched = Width(*(each * size / (size - 1) for each in width))
    K0, K1 = (_kernel(axis.nodes * axis.scale) for axis in separable(size, stretched))
    if len(K0) == size:
        return np.asarray(K0 @ sums @ K1)
    i, j = np.indices((size, size))
    spread_out = np.zeros((len(sums), len(K0), len(K1)))
    spread_out[:, i + j, i - j + size - 1] = sums
    return turned_back(K0 @ spread_out @ K1, size)


def _kernel(nodes: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-(np.subtract.outer(nodes, nodes) ** 2)))


def _log_likelihood(N: FloatArray, D: FloatArray, n: FloatArray, M: FloatArray, prior: float) -> FloatArray:
    P = np.clip((N + prior / 2) / (D + prior), 1e-12, 1 - 1e-12)
    return np.asarray(n * np.log(P) + (M - n) * np.log1p(-P))


def _triplets_left_out(
    widths: list[Width],
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
    for width in widths:
        N, D = _smoothed(sums, width)[:, row, column]
        itself = np.exp(
            -(((row - column) / size / width.across) ** 2)
        )  # what a triplet's mirror adds where the triplet is
        N, D = N - k - (m - k) * itself, D - m * (1 + itself)
        likelihoods.append(float(times @ _log_likelihood(np.maximum(N, 0), np.maximum(D, 0), k, m, prior)))
    return likelihoods


def _clusters_left_out(
    widths: list[Width],
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
    for width in widths:
        total = 0.0
        for sums, (k, m) in zip(seen, unseen, strict=True):
            N, D = _smoothed(sums, width)
            total += float(_log_likelihood(N, D, k, m, prior).sum())
        likelihoods.append(total)
    return likelihoods

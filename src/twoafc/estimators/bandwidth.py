"""The kernel widths under which triplets that were left out are most likely."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray, IntArray
from twoafc.estimators.kernel import Width, separable, turned_back

Asked = float | Literal["auto"]
Votes = FloatArray | IntArray

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
    count: IntArray | None = None,
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
    count : array of int, shape (T,), optional
        Triplets that each row stands for; one of them is left out at a time.
    """
    size = LATTICE if clusters is None else COARSE_LATTICE
    i, j = (np.minimum((u * size).astype(np.int64), size - 1) for u in (u0, u1))
    votes = _Votes(i, j, n, M, np.ones(len(n), dtype=np.int64) if count is None else count)

    across, along = asked
    width = Width(1.0 if across == "auto" else across, 1.0 if along in (None, "auto") else float(along))
    if along == "auto" and across != "auto":
        width = Width(across, across)
    for (move_across, move_along), factors in _plan(across == "auto", None if along is None else along == "auto"):
        tried = [
            Width(width.across * (each if move_across else 1.0), width.along * (each if move_along else 1.0))
            for each in factors
        ]
        likelihoods = (
            _triplets_left_out(tried, votes, size, prior)
            if clusters is None
            else _clusters_left_out(tried, votes, clusters, size, prior)
        )
        width = tried[int(np.argmax(likelihoods))]
    return width


class _Votes(NamedTuple):
    """Cells of the triplets on the lattice, their votes, and how many triplets each row stands for: (T,) each."""

    i: IntArray
    j: IntArray
    n: IntArray
    M: IntArray
    times: IntArray

    def at(self, rows: NDArray[np.bool_]) -> _Votes:
        return _Votes(*(column[rows] for column in self))

    def lattices(self, size: int) -> tuple[FloatArray, FloatArray]:
        """Sums of n and of M in the cells, (size, size) each."""
        N, D = (
            np.bincount(self.i * size + self.j, votes * self.times, size * size).reshape(size, size)
            for votes in (self.n, self.M)
        )
        return N.astype(np.float64), D.astype(np.float64)

    def sums(self, size: int) -> FloatArray:
        """The same with the votes of the mirrored triplets: shape (2, size, size)."""
        N, D = self.lattices(size)
        return np.stack([N + (D - N).T, D + D.T])


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


def _log_likelihood(N: FloatArray, D: FloatArray, n: Votes, M: Votes, prior: float) -> FloatArray:
    P = np.clip((N + prior / 2) / (D + prior), 1e-12, 1 - 1e-12)
    return np.asarray(n * np.log(P) + (M - n) * np.log1p(-P))


def _triplets_left_out(widths: list[Width], votes: _Votes, size: int, prior: float) -> list[float]:
    """Log-likelihood under each width, each triplet left out with its mirror."""
    sums = votes.sums(size)
    # Triplets alike in place and votes are alike in likelihood.
    row, column, k, m, times = votes
    most = int(m.max()) + 1
    if (size * most) ** 2 < 2**62:  # else a number for each kind would not fit in an integer
        code, kind = np.unique(((row * size + column) * most + k) * most + m, return_inverse=True)
        times = np.bincount(kind, times).astype(np.int64)
        row, column = np.divmod(code // most**2, size)
        k, m = code // most % most, code % most
    likelihoods = []
    for width in widths:
        N, D = _smoothed(sums, width)[:, row, column]
        itself = np.exp(
            -(((row - column) / size / width.across) ** 2)
        )  # what a triplet's mirror adds where the triplet is
        N, D = N - k - (m - k) * itself, D - m * (1 + itself)
        likelihoods.append(float(times @ _log_likelihood(np.maximum(N, 0), np.maximum(D, 0), k, m, prior)))
    return likelihoods


def _clusters_left_out(widths: list[Width], votes: _Votes, clusters: IntArray, size: int, prior: float) -> list[float]:
    """Log-likelihood under each width, a share of the clusters left out at a time."""
    order = np.random.default_rng(0).permutation(int(clusters.max()) + 1)
    fold = (order % min(FOLDS, len(order)))[clusters]
    parts = [fold == each for each in np.unique(fold)]
    seen = [votes.at(~part).sums(size) for part in parts]
    unseen = [votes.at(part).lattices(size) for part in parts]
    likelihoods = []
    for width in widths:
        total = 0.0
        for sums, (k, m) in zip(seen, unseen, strict=True):
            N, D = _smoothed(sums, width)
            total += float(_log_likelihood(N, D, k, m, prior).sum())
        likelihoods.append(total)
    return likelihoods

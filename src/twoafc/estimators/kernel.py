"""A Gaussian kernel on a grid: sums over rows, interpolation, covariances, and its width (section 3.1 of the paper).

The grid has G nodes, evenly spaced from 0 to 1, along each of k axes: u0, u1 of triplets (k = 2), u of pairs (k = 1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations_with_replacement, pairwise, product
from typing import Any, NamedTuple

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import log_coefficient

CHUNK = 4096
"""Rows handled at once, so that their kernels stay in the processor's cache."""
NEGLIGIBLE = 60.0
"""Kernels are at least exp(-60): numbers that underflow are slow and change nothing."""
TINY = np.finfo(np.float64).tiny


class Rows(NamedTuple):
    """Rows of a table on the map of their distances."""

    u: tuple[FloatArray, ...]  # the k uniformised distances
    n: IntArray
    M: IntArray
    mass: FloatArray  # what each row counts for: see `twoafc.table.Votes.mass`
    clusters: IntArray | None = None  # number of each row's reference, where references repeat


class Sums(NamedTuple):
    """Kernel sums at the nodes, shape (G,) * k each; those of triplets include the mirrored triplets.

    ``n`` and ``M`` are sums of n K and M K, ``rows`` of K alone, ``log_coefficient`` of K log C(M, n).
    """

    n: FloatArray
    M: FloatArray
    rows: FloatArray
    log_coefficient: FloatArray


def kernel_sums(rows: Rows, *, sigma: float, grid_size: int) -> Sums:
    """Sum the kernel over all rows, exactly.

    Rows with the same (n, M) are summed together, as the paper does for each count j: the kernel is a product over the
    axes, so one such sum is a matrix product without weights.
    """
    u, n, M, mass, _ = rows
    scale = 1 / (sigma * np.sqrt(2))
    nodes = np.linspace(0, 1, grid_size) * scale
    order, starts = rows_by_votes(n, M)
    total = np.zeros((4, *(grid_size,) * len(u)))
    buffers = np.empty((len(u), grid_size, CHUNK))  # reused: new memory would cost as much as the kernels
    for start, end in pairwise(starts):
        K = np.zeros(total.shape[1:])
        for a in range(start, end, CHUNK):
            some = order[a : min(a + CHUNK, end)]
            kernels = [gaussian(nodes, x[some] * scale, buffer) for x, buffer in zip(u, buffers, strict=True)]
            kernels[0] *= mass[some]
            K += kernels[0] @ kernels[1].T if len(u) == 2 else kernels[0].sum(axis=1)
        n_c, M_c = n[order[start]], M[order[start]]
        weights = np.array([n_c, M_c, 1.0, log_coefficient(n_c, M_c)])
        total += np.multiply.outer(weights, K)
    return Sums(*_mirrored(total))


def rows_by_votes(n: IntArray, M: IntArray) -> tuple[IntArray, list[int]]:
    """Order rows by (n, M); return also where each run of equal votes starts, and where the last one ends."""
    code = M * (M + 1) // 2 + n
    # numpy sorts 16-bit integers by radix, in a tenth of the time.
    small = code.astype(np.uint16) if code.max() < 2**16 else code
    order = np.argsort(small, kind="stable")
    changes = np.flatnonzero(np.diff(code[order])) + 1
    return order, [0, *changes.tolist(), len(code)]


def gaussian(nodes: FloatArray, v: FloatArray, buffer: FloatArray) -> FloatArray:
    """exp(-(node - v)^2), shape (nodes, points), computed in the buffer."""
    t = buffer[:, : len(v)]
    np.subtract(nodes[:, None], v, out=t)
    np.multiply(t, t, out=t)
    np.minimum(t, NEGLIGIBLE, out=t)
    np.negative(t, out=t)
    return np.exp(t, out=t)


def interpolate(grid: FloatArray, *u: FloatArray) -> FloatArray:
    """Value between the nodes of a grid over [0, 1]^k: linear for k = 1, bilinear for k = 2.

    Terms of nodes an odd number of steps from the lowest are added to each other first: an antisymmetric grid then
    gives exactly antisymmetric values, and exactly 0 where u0 = u1.

    Examples
    --------
    >>> interpolate(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0.5]), np.array([0.25]))
    array([1.25])
    >>> interpolate(np.array([0.0, 1.0, 4.0]), np.array([0.75]))
    array([2.5])
    """
    corners = _corners(u, len(grid))
    even, odd = (sum(w * grid[at] for step, (at, w) in corners.items() if sum(step) % 2 == odd) for odd in (0, 1))
    return np.asarray(even + odd)


def interpolated_variance(covariances: FloatArray, *u: FloatArray) -> FloatArray:
    """Variance of an interpolated value, from the covariances of nodes at the `offsets`, shape (offsets, G, ...)."""
    corners, place = _corners(u, covariances.shape[1]), {offset: i for i, offset in enumerate(offsets(len(u)))}
    variance = np.zeros(np.broadcast_shapes(*(x.shape for x in u)))
    for (step, (at, w)), (other, (_, v)) in combinations_with_replacement(corners.items(), 2):
        offset = tuple(b - a for a, b in zip(step, other, strict=True))
        variance += (1 if step == other else 2) * w * v * covariances[place[offset]][at]
    return np.maximum(variance, 0.0)


@cache
def offsets(k: int) -> tuple[tuple[int, ...], ...]:
    """Offsets between the nodes around a point, each pair of nodes once."""
    pairs = combinations_with_replacement(product((0, 1), repeat=k), 2)
    return tuple(dict.fromkeys(tuple(b - a for a, b in zip(*pair, strict=True)) for pair in pairs))


def _corners(u: tuple[FloatArray, ...], size: int) -> dict[tuple[int, ...], tuple[tuple[IntArray, ...], FloatArray]]:
    """Return the nodes around each point, by their steps from the lowest: index and weight."""
    x = [axis * (size - 1) for axis in u]
    low = [np.minimum(axis.astype(np.int64), size - 2) for axis in x]
    share = [axis - i for axis, i in zip(x, low, strict=True)]
    corners = {}
    for step in product((0, 1), repeat=len(u)):
        at = tuple(i + s for i, s in zip(low, step, strict=True))
        weights = [a if s else 1 - a for a, s in zip(share, step, strict=True)]
        corners[step] = at, weights[0] * weights[1] if len(u) == 2 else weights[0]
    return corners


def covariances(
    rows: Rows, squared_mass: FloatArray, P: FloatArray, D: FloatArray, *, sigma: float, prior: float
) -> FloatArray:
    """Covariances of P at neighbouring nodes, as observed and as binomial: shape (2, offsets, G, ...).

    P and D are P and the sums of M K at the nodes, `squared_mass` is what each row counts for in sums of squares.
    """
    of_nodes = _surface_covariances if P.ndim == 2 else _curve_covariances
    return of_nodes(rows, squared_mass, P, D, sigma, prior)


def _surface_covariances(
    rows: Rows, squared_mass: FloatArray, P: FloatArray, D: FloatArray, sigma: float, prior: float
) -> FloatArray:
    """Covariances at the nodes of a surface.

    The observed ones are a sandwich: a triplet moves P at a node by K (n - P M) / D and, through its mirror, by minus
    the same at the mirrored node. The binomial ones are those of independent votes; unanimous or few votes cannot have
    less. The product of two kernels is a narrower one at their midpoint, so both come from sums of squared kernels on
    the half lattice: the nodes and the points midway between them. References are not looked at: sums by reference
    would not serve all nodes at once.
    """
    u, n, M, _, _ = rows
    D = D + prior
    G, products = len(P), np.stack([n * n, n * M, M * M, M]) * squared_mass
    squared = _squared_sums(u, products, sigma=sigma, size=2 * G - 1)
    shrunk = _shrunk(P, D**2 / np.maximum(squared[3, ::2, ::2], TINY))
    variance, narrow = shrunk * (1 - shrunk), 1 / (4 * (sigma * (G - 1)) ** 2)
    i, j = np.indices((G, G))
    di, dj = np.array(offsets(2)).T[:, :, None, None]
    inside = (i + di < G) & (j + dj >= 0) & (j + dj < G)
    k, m = np.where(inside, i + di, i), np.where(inside, j + dj, j)
    other, spread, scale = P[k, m], np.sqrt(variance * variance[k, m]), inside / (D * D[k, m])
    covariances = np.zeros((2, *k.shape))
    # The node (k, m) itself, and its mirror image (m, k).
    for sign, row, column, q in ((1, k, m, other), (-1, m, k, 1 - other)):
        nn, nM, MM, votes = squared[:, i + row, j + column]
        kernel = sign * scale * np.exp(-narrow * ((i - row) ** 2 + (j - column) ** 2))
        covariances += kernel * (nn - (P + q) * nM + P * q * MM), kernel * spread * votes
    return covariances


def _squared_sums(u: tuple[FloatArray, ...], products: FloatArray, *, sigma: float, size: int) -> FloatArray:
    """Sums of K^2 times n^2, n M, M^2 and M over triplets and mirrors, each triplet moved to the centre of a fine cell.

    The cells, a sixth of a width each, cost standard errors about a thousandth.
    """
    cells = int(np.clip(np.ceil(6 / sigma), 64, 1024))
    i, j = (np.minimum((x * cells).astype(np.int64), cells - 1) for x in u)
    centres = (np.arange(cells) + 0.5) / cells
    K = gaussian(np.linspace(0, 1, size) / sigma, centres / sigma, np.empty((size, cells)))
    gathered = (np.bincount(i * cells + j, values, cells**2).reshape(cells, cells) for values in products)
    nn, nM, MM, M = (K @ values @ K.T for values in gathered)
    return np.stack([nn + (MM - 2 * nM + nn).T, nM + (MM - nM).T, MM + MM.T, M + M.T])


def _curve_covariances(
    rows: Rows, squared_mass: FloatArray, P: FloatArray, D: FloatArray, sigma: float, prior: float
) -> FloatArray:
    """Covariances at each node of a curve with itself and the next; residuals are summed by reference."""
    (u,), n, M, mass, clusters = rows
    M_total, root = M * squared_mass, np.sqrt(squared_mass)
    covariances, total = np.zeros((2, 2, len(P))), D + prior
    moved: FloatArray = np.zeros(len(u) if clusters is None else int(clusters.max()) + 1)
    K, spread = np.zeros(len(u)), 0.0
    for i, node in enumerate(np.linspace(0, 1, len(P))):
        moved_before, K_before, spread_before = moved, K, spread
        K = np.exp(-(((u - node) / sigma) ** 2) / 2)
        # Effect of each pair, or of all pairs of a reference, on P, times D.
        residuals = K * (n - P[i] * M)
        summed = residuals * root if clusters is None else np.bincount(clusters, residuals * mass)
        moved = np.asarray(summed, dtype=np.float64)
        weights = K * M_total
        votes = K @ weights
        shrunk = float(_shrunk(P[i], D[i] ** 2 / max(votes, TINY)))
        spread = (shrunk * (1 - shrunk)) ** 0.5
        own = moved @ moved, spread**2 * votes
        with_before = moved @ moved_before, spread * spread_before * (weights @ K_before)
        covariances[:, 0, i] = np.array(own) / total[i] ** 2
        covariances[:, 1, i - 1] = np.array(with_before) / (total[i - 1] * total[i])  # of the first node: 0, at the end
    return covariances


def _shrunk(P: FloatArray, votes: FloatArray) -> FloatArray:
    """P with one vote added to either side, as is usual for a proportion; `votes` is the effective number at a node."""
    return np.asarray((P * votes + 1) / (votes + 2))


# The kernel width that maximises the likelihood of rows left out


Likelihood = Callable[[float], float]
"""Log-likelihood of the votes that are left out, by the width."""
CANDIDATES: FloatArray = np.geomspace(0.008, 0.5, 13)[::-1]
NEARBY: FloatArray = 0.75 ** np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
"""Widths tried first, and those tried next, relative to the best of them; of equals the widest is taken."""
CELLS = {1: 512, 2: 192}
CELLS_OF_CLUSTERS = {1: 512, 2: 128}
"""Fine cells along each axis, in which rows are gathered, by k."""
FOLDS = 20


def choose_sigma(rows: Rows, *, share: float, prior: float, weight: FloatArray | float = 1.0) -> float:
    """Choose the width by the likelihood of votes that the estimate has not seen.

    A whole triplet or pair is left out (a triplet with its mirror), never a single vote: votes on one triplet are
    correlated, and a narrow kernel would profit from the others. Where references repeat, whole references are left
    out, a twentieth of them at a time. `share` and `prior` are P where there is no data and the votes for it at every
    place. Of the triplets or pairs that a row stands for, one is left out at a time: the mass is what they count for
    together, `weight` what each of them does.
    """
    k = len(rows.u)
    size = (CELLS if rows.clusters is None else CELLS_OF_CLUSTERS)[k]
    cell = np.zeros(len(rows.n), dtype=np.int64)
    for x in rows.u:
        cell = cell * size + np.minimum((x * size).astype(np.int64), size - 1)
    if rows.clusters is None:
        likelihood = rows_left_out(rows, cell, (size,) * k, share, prior, weight)
    else:
        likelihood = clusters_left_out(rows, cell, (size,) * k, share, prior)
    sigma = 1.0
    for factors in (CANDIDATES, NEARBY):
        tried = sigma * factors
        sigma = float(tried[int(np.argmax([likelihood(width) for width in tried]))])
    return sigma


def rows_left_out(
    rows: Rows, cell: IntArray, shape: tuple[int, ...], share: float, prior: float, weight: FloatArray | float = 1.0
) -> Likelihood:
    """Log-likelihood by width, each row left out of the sums at its own place, a triplet with its mirror."""
    _, n, M, mass, _ = rows
    weight = np.broadcast_to(weight, n.shape)
    sums = _mirrored(_in_cells(cell, np.stack([n, M]) * mass, shape))
    # Rows with the same cell, votes and weight have the same likelihood; grouped, their order does not matter either.
    votes_code = M * (M + 1) // 2 + n
    kinds = np.unique(votes_code)
    weights, heavy = np.unique(weight, return_inverse=True)
    code = (cell * len(kinds) + np.searchsorted(kinds, votes_code)) * len(weights) + heavy
    distinct, group = np.unique(code, return_inverse=True)
    total, one = np.bincount(group, mass), np.empty(len(distinct), dtype=np.int64)
    one[group] = np.arange(len(group))  # a row of each group
    own = weight[one]
    at: tuple[Any, ...] = np.unravel_index(cell[one], shape)
    votes = np.stack([n[one], M[one]]).astype(np.float64)

    def likelihood(sigma: float) -> float:
        left_out = votes
        if len(shape) == 2:  # the mirrored triplet, at the place of the triplet
            mirror = np.exp(-(((at[0] - at[1]) / shape[0] / sigma) ** 2))
            left_out = votes + np.stack([votes[1] - votes[0], votes[1]]) * mirror
        others = _smoothed(sums, sigma)[:, *at] - left_out * own
        return float(total @ _log_likelihood(others, votes, share, prior))

    return likelihood


def clusters_left_out(rows: Rows, cell: IntArray, shape: tuple[int, ...], share: float, prior: float) -> Likelihood:
    """Log-likelihood by width, a share of the clusters left out at a time."""
    _, n, M, mass, clusters = rows
    assert clusters is not None
    order = np.random.default_rng(0).permutation(int(clusters.max()) + 1)
    fold = (order % min(FOLDS, len(order)))[clusters]
    votes = np.stack([n, M]) * mass
    unseen = [_in_cells(cell[fold == i], votes[:, fold == i], shape) for i in np.unique(fold)]
    total = np.sum(unseen, axis=0)
    seen = [_mirrored(total - part) for part in unseen]

    def likelihood(sigma: float) -> float:
        return sum(
            float(_log_likelihood(_smoothed(others, sigma), part, share, prior).sum())
            for others, part in zip(seen, unseen, strict=True)
        )

    return likelihood


def _in_cells(cell: IntArray, votes: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Sums of n and of M in the cells, shape (2, *shape)."""
    return np.stack([np.bincount(cell, column, int(np.prod(shape))).reshape(shape) for column in votes])


def _mirrored(sums: FloatArray) -> FloatArray:
    """Add the sums over the mirrored triplets (d1, d0, M - n), where k = 2; the first two are of n and of M."""
    N, D = sums[:2]
    return np.stack([N + (D - N).T, *(x + x.T for x in sums[1:])]) if N.ndim == 2 else sums


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

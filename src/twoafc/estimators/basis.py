"""The axis of a spline, and the smooth functions on it.

The axis is the normal score z of a distance. It depends on the ranks of the training distances alone, so that no
increasing change of a distance moves it, and the functions can be made orthonormal once and for all. They are natural
cubic splines, straight lines beyond the last knots, ordered from smooth to rough: a constant, a line, then ever more
wiggly ones, each with its roughness (Demmler and Reinsch, 1975). Triplets take antisymmetric products of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

SEVERAL = 10.0
"""Ratio of the reluctance to compare across a rank (see `normal_scores`) to its lowest value, between two scales."""
PRIOR = 3.0
"""Triplets added to those that compare across a rank, and to those expected by chance."""
NEAR = 0.02
"""Share of the values, on each side of one, that count as near it."""
MORE = 1.4
"""Factor on the usual number of functions, for several scales."""
LAST_KNOT = 2.6
"""The outermost knots; one distance in a hundred lies beyond them."""
STRAIGHT = 2
"""The first functions, the constant and the line, have no roughness."""


class Scores(NamedTuple):
    """Normal scores of the distinct training values, and the factor on the usual number of functions of a spline."""

    values: FloatArray
    more: float


def normal_scores(uniform: Uniform, *place: IntArray, mass: FloatArray | None = None) -> Scores:
    """Return the normal score of the mid-rank of each distinct training distance.

    Where triplets have very different scales, hardly any compares distances on the two sides of the rank that
    separates them: `SEVERAL` times fewer than if d0 and d1 were paired at random. Each distance then has the normal
    score of its rank v among those that it is compared with, that is, the share of distances near it that are the
    larger of their triplets. If a share w of all T triplets is on one scale, c = 2 w T v (1 - v) of them compare across
    v, and a step of rank du is a step du / w on that scale: the normal score rises by du / w over the normal density.

    `place` are the indices of the training distances among the values of their map, k arrays of shape (T,); one of
    pairs, which compare nothing. `mass` is what each row counts for.

    Examples
    --------
    >>> from twoafc.core import uniformise
    >>> d = np.exp(np.random.default_rng(0).normal(size=(2, 1000)))
    >>> uniform, u0, u1 = uniformise(*d)
    >>> scores = normal_scores(uniform, uniform.places(u0), uniform.places(u1))
    >>> np.interp(np.exp([-1.0, 0.0, 1.0]), uniform.values, scores.values).round(1), scores.more
    (array([-0.9,  0. ,  1. ]), 1.0)
    """
    scores = ndtri(uniform.levels)
    if len(place) == 1 or len(scores) < 2:
        return Scores(scores, 1.0)
    ends = (np.minimum(*place), np.maximum(*place))
    smaller, larger = (np.bincount(end, mass, len(scores)).astype(np.float64) for end in ends)
    triplets = float(smaller.sum())
    across = np.cumsum(smaller - larger)[:-1] + PRIOR
    below = uniform.at_most[:-1] / uniform.at_most[-1]
    reluctance = (2 * below * (1 - below) * triplets + PRIOR) / across
    if reluctance.max() < SEVERAL * np.quantile(reluctance, 0.05):
        return Scores(scores, 1.0)
    rank = _near_share(larger, smaller)
    density = np.exp(-(ndtri(rank) ** 2) / 2) / np.sqrt(2 * np.pi)
    steps = np.diff(uniform.levels) * 2 * triplets * rank * (1 - rank) / (across * density)
    apart = np.concatenate([[0.0], np.cumsum(steps)])
    share = np.diff(uniform.at_most, prepend=0) / uniform.at_most[-1]
    spread = [np.sqrt(share @ (z - share @ z) ** 2) for z in (scores, apart)]
    return Scores((apart - share @ apart) * (spread[0] / spread[1]) + share @ scores, MORE)


def _near_share(larger: FloatArray, smaller: FloatArray) -> FloatArray:
    """Between each value and the next, the share of distances near there that are the larger of their triplets."""
    near = max(int(NEAR * len(larger)), 5)
    between = np.arange(1, len(larger))
    first, last = np.maximum(between - near, 0), np.minimum(between + near, len(larger))
    up, down = (np.diff(np.append(0.0, np.cumsum(x))[np.stack([first, last])], axis=0)[0] for x in (larger, smaller))
    return np.asarray((up + 0.5) / (up + down + 1.0))


@dataclass(frozen=True, eq=False)
class Basis:
    """K orthonormal smooth functions of one normal score."""

    knots: FloatArray  # evenly spaced, increasing, shape (K,)
    roughness: FloatArray  # integral of the squared second derivative of each function, 0 for the first two
    spline: CubicSpline  # all functions between the knots

    def __call__(self, z: FloatArray) -> FloatArray:
        """Values of the functions at z, along a new last axis: straight lines outside the knots."""
        return _natural(self.spline, z)

    def slopes(self, z: FloatArray) -> FloatArray:
        """First derivatives of the functions at z, along a new last axis."""
        return np.asarray(self.spline(np.clip(z, self.knots[0], self.knots[-1]), 1))


@cache
def spline_basis(size: int) -> Basis:
    """Make the basis of a given size."""
    from scipy.interpolate import CubicSpline  # here, since they are slow to import
    from scipy.linalg import eigh, toeplitz

    knots = np.linspace(-LAST_KNOT, LAST_KNOT, size)
    cardinal = CubicSpline(knots, np.eye(size), bc_type="natural")
    # The second derivative is straight between knots, and 0 at the ends.
    curvature, h = cardinal(knots, 2), knots[1] - knots[0]
    penalty = curvature.T @ toeplitz([2 * h / 3, h / 6, *[0.0] * (size - 2)]) @ curvature
    z = np.linspace(-4, 4, 2001)
    values = _natural(cardinal, z)
    weight = np.exp(-(z**2) / 2)
    gram = values.T @ (values * (weight / weight.sum())[:, None])
    roughness, mixing = eigh(penalty, gram)
    # The two smoothest span all straight lines: of these, the constant and the line through 0.
    for column, line in enumerate((np.ones(size), knots)):
        mixing[:, column] = line / np.sqrt(line @ gram @ line)
    roughness[:STRAIGHT] = 0.0
    # The sign of an eigenvector is arbitrary, but a saved model must mean the same everywhere.
    mixing *= np.sign(mixing[-1])
    return Basis(knots, roughness, CubicSpline(knots, mixing, bc_type="natural"))


def _natural(spline: CubicSpline, z: FloatArray) -> FloatArray:
    """Values at z, along a new last axis: beyond its knots a natural spline is a straight line."""
    inside = np.clip(z, spline.x[0], spline.x[-1])
    values, beyond = np.asarray(spline(inside)), z != inside
    values[beyond] += (z - inside)[beyond, None] * spline(inside[beyond], 1)
    return values


PARTS = {1: ("line", "bends"), 2: ("line", "scale", "tilt", "interaction")}
"""Parts of a function of k scores, each with a smoothness of its own: see `functions`."""
DOUBT = {1: (0.0, 0.0), 2: (0.0, 0.0, 0.5, 1.0)}
"""Degrees of freedom that each part is charged beyond those in use: see `Problem.smoothed`. Chosen in simulated worlds;
more lowers the error there, but no longer on real votes."""


def parts(size: int, k: int) -> tuple[IntArray, FloatArray]:
    """Return the part of each of the `functions` among `PARTS`, and its roughness, at least 1 (0 of straight lines).

    Examples
    --------
    >>> parts(5, k=2)[0]
    array([0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    >>> parts(5, k=1)[0]
    array([0, 0, 1, 1, 1])
    """
    rough = spline_basis(size).roughness
    if k == 1:
        return (np.arange(size) >= STRAIGHT).astype(np.int64), rough / rough[STRAIGHT]
    i, j = np.triu_indices(size, 1)
    part = np.where(i > 1, 3, np.where(i == 1, 2, np.where(j > 1, 1, 0)))
    rough = np.where(part == 0, 1.0, rough[i] + rough[j])
    least = np.array([rough[part == p].min() for p in range(len(PARTS[2]))])
    return part, rough / least[part]


def functions(z: tuple[FloatArray, ...], size: int) -> FloatArray:
    """Smooth functions of k scores, along a new last axis: those of the basis, or antisymmetric ones of two scores.

    The latter, f(z0, z1) = -f(z1, z0), are phi_j(z0) phi_i(z1) - phi_i(z0) phi_j(z1) for i < j. With i = 0 they are
    differences g(z0) - g(z1): first the straight line (``line``: only the ratio of distances counts, where these are
    log-normal), then curves (``scale``: the distance has to be bent). ``tilt`` and ``interaction`` are what no bending
    of it can explain.
    """
    basis = spline_basis(size)
    return basis(z[0]) if len(z) == 1 else _antisymmetric(basis(z[0]), basis(z[1]))


def slopes(z0: FloatArray, z1: FloatArray, size: int) -> FloatArray:
    """Derivatives of the antisymmetric functions by z0, along a new last axis."""
    basis = spline_basis(size)
    return _antisymmetric(basis.slopes(z0), basis(z1))


def _antisymmetric(left: FloatArray, right: FloatArray) -> FloatArray:
    i, j = np.triu_indices(left.shape[-1], 1)
    return np.asarray(left[..., j] * right[..., i] - left[..., i] * right[..., j])

"""Penalised binomial likelihood with the smoothness chosen by the data.

The chance of x1 is P = lapse / 2 + (1 - lapse) link(f), with f = X theta and a Gaussian prior on each part of theta
whose precision is estimated by restricted maximum likelihood: Fisher scoring for theta, and for the precisions the
updates of Fellner and Schall (Wood and Fasiolo, 2017). The lapse rate is one more parameter, with a prior of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, ndtr

from twoafc.arrays import FloatArray, IntArray
from twoafc.estimators.basis import LAST_KNOT, slopes

LATTICE = 96
"""Cells along each axis, in which rows are gathered."""
LIMIT = 4.0
"""Normal scores beyond this are in the outermost cells."""
MOST_LAPSE = 0.4
"""Lapse rates lie between 0 and this."""
USUAL_LAPSE, SPREAD_LAPSE = -3.5, 1.5
"""Prior of the lapse rate, on the logit of its share of `MOST_LAPSE`: about 1 %, from 0.06 to 12 %."""
ROUNDS = 150
CONVERGED = 5e-4
"""Change of the degrees of freedom in one round at which smoothness is settled. At ten times as much, fits to a few
hundred rows could stop on the way, and a distance that changed by 1e-3 moved P by 0.008."""
PRECISE, VAGUE = 1e9, 1e-6
SMOOTH = 100.0
"""Precision that all parts but the first start from. From 1, small tables take longer and end at rougher surfaces; from
1e5, some end at surfaces that are too smooth."""
CERTAIN = 1e-10
"""P stays this far from 0 and 1 while fitting."""
WIDE = 1e-2
"""Precision of functions without roughness: a constant beyond 20 in either direction is no better than one of 20."""
SETTLED = 0.02
"""Change in degrees of freedom, and gain in log-likelihood, at which `solve_rising` ends."""
DISPERSED = 4
"""Rounds of `solve_rising` between estimates of the dispersion, which take as long as a step."""
LOOSE = 1000.0
"""Highest precision of a part to start from."""
BEYOND = 6.0
"""A normal score that no table reaches."""
MARGIN = 2e-3
"""Least slope of a monotone surface on the grid, so that f does not fall between its points either."""


class Cells(NamedTuple):
    """Sums over the rows of each cell of normal scores that has any, each of shape (C,).

    Triplets with z0 < z1 are mirrored. ``z``, k arrays, are means over votes, so that the size of the cells has no
    effect to first order; ``n`` and ``M`` sums, ``nn``, ``nM``, ``MM`` sums of products.
    """

    z: tuple[FloatArray, ...]
    n: FloatArray
    M: FloatArray
    nn: FloatArray
    nM: FloatArray
    MM: FloatArray


def gather(
    z: tuple[FloatArray, ...], n: IntArray, M: IntArray, mass: FloatArray, squared_mass: FloatArray
) -> tuple[Cells, IntArray]:
    """Gather rows in cells, to which a spline is fitted; return also the cell of each row."""
    votes, total_votes = n * mass, M * mass
    nn, nM, MM = (product * squared_mass for product in (n * n, n * M, M * M))
    if len(z) == 2:
        z0, z1 = z
        turned = z0 < z1
        z = np.where(turned, z1, z0), np.where(turned, z0, z1)
        votes = np.where(turned, total_votes - votes, votes)
        nn, nM = np.where(turned, MM - 2 * nM + nn, nn), np.where(turned, MM - nM, nM)
    place = np.zeros(len(n), dtype=np.int64)
    for x in z:
        along = np.clip((x + LIMIT) * (LATTICE / (2 * LIMIT)), 0, LATTICE - 1).astype(np.int64)
        place = place * LATTICE + along
    used = np.bincount(place, minlength=LATTICE ** len(z)) > 0
    cell = (np.cumsum(used) - 1)[place]

    def total(weights: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(cell, weights), dtype=np.float64)

    sizes = total(total_votes)
    means = tuple(total(x * total_votes) / sizes for x in z)
    return Cells(means, total(votes), sizes, total(nn), total(nM), total(MM)), cell


def logistic(f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The logistic function and its derivative."""
    P = expit(f)
    return P, P * (1 - P)


def normal(f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The normal distribution function and its derivative."""
    return ndtr(f), np.exp(-(f**2) / 2) / np.sqrt(2 * np.pi)


LINKS: dict[str, Callable[[FloatArray], tuple[FloatArray, FloatArray]]] = {"logit": logistic, "probit": normal}


def lapse_of(kappa: float) -> tuple[float, float]:
    """Lapse rate and its derivative by its parameter."""
    share = float(expit(kappa))
    return MOST_LAPSE * share, MOST_LAPSE * share * (1 - share)


def chances(theta: FloatArray, X: FloatArray, link: str) -> tuple[FloatArray, FloatArray]:
    """P for every row of X, and its derivatives by all parameters, the last of which is the lapse's."""
    P, slope = LINKS[link](X @ theta[:-1])
    lapse, lapse_slope = lapse_of(theta[-1])
    jacobian = np.column_stack([((1 - lapse) * slope)[:, None] * X, lapse_slope * (0.5 - P)])
    # Written so that equal distances give exactly 1/2.
    return 0.5 + (1 - lapse) * (P - 0.5), jacobian


@dataclass(frozen=True, eq=False)
class Solution:
    """A maximum of the penalised likelihood."""

    theta: FloatArray  # coefficients, and last the lapse's parameter, shape (p + 1,)
    information: FloatArray  # of the votes (Fisher's), discounted by the dispersion, shape (p + 1, p + 1)
    precision: FloatArray  # of the prior of each part, shape (parts,)
    dispersion: float  # how much more the votes vary between clusters than the binomial says; 1 at least
    evidence: float  # logarithm of the marginal likelihood, by Laplace's approximation


class ScoresAt(NamedTuple):
    """Scores of the votes at some parameters."""

    P: FloatArray
    weight: FloatArray  # of the residuals
    jacobian: FloatArray  # derivatives of P by the parameters
    information: FloatArray  # of the votes


@dataclass(frozen=True, eq=False)
class Problem:
    """Votes in cells, the functions there, the part and roughness of each function, and the doubt about each part."""

    cells: Cells
    X: FloatArray
    part: IntArray
    roughness: FloatArray
    link: str
    doubt: tuple[float, ...] | float = 0.0

    def penalty(self, precision: FloatArray) -> FloatArray:
        """Diagonal of the prior's precision matrix, the lapse's last."""
        rough = np.where(self.roughness > 0, precision[self.part] * self.roughness, WIDE)
        return np.append(rough, SPREAD_LAPSE**-2)

    def loss(self, theta: FloatArray, penalty: FloatArray, dispersion: float) -> float:
        """Penalised negative log-likelihood, without its coefficients."""
        f, _ = LINKS[self.link](self.X @ theta[:-1])
        lapse, _ = lapse_of(theta[-1])
        P = np.clip(lapse / 2 + (1 - lapse) * f, CERTAIN, 1 - CERTAIN)
        n, M = self.cells.n, self.cells.M
        return float(-(n @ np.log(P) + (M - n) @ np.log1p(-P)) / dispersion + penalty @ self.centred(theta) ** 2 / 2)

    def centred(self, theta: FloatArray) -> FloatArray:
        """Parameters less their prior means."""
        return np.append(theta[:-1], theta[-1] - USUAL_LAPSE)

    def scores(self, theta: FloatArray) -> ScoresAt:
        """Return the scores of the votes at some parameters."""
        P, jacobian = chances(theta, self.X, self.link)
        P = np.clip(P, CERTAIN, 1 - CERTAIN)
        weight = 1 / (P * (1 - P))
        return ScoresAt(P, weight, jacobian, jacobian.T @ ((self.cells.M * weight)[:, None] * jacobian))

    def covariance(self, scores: ScoresAt, precision: FloatArray, dispersion: float) -> FloatArray:
        """Covariance of the parameters."""
        return np.asarray(np.linalg.inv(scores.information / dispersion + np.diag(self.penalty(precision))))

    def step(
        self, theta: FloatArray, at: ScoresAt, precision: FloatArray, dispersion: float, rise: FloatArray | None = None
    ) -> tuple[FloatArray, float]:
        """Take a step of Fisher scoring from theta and its scores, halved until it does not lose.

        With `rise`, rise @ theta stays at 0 or above. Return the new parameters, theta itself where every step loses,
        and the gain.
        """
        penalty = self.penalty(precision)
        gradient = at.jacobian.T @ ((self.cells.n - self.cells.M * at.P) * at.weight) / dispersion
        gradient -= penalty * self.centred(theta)
        curvature = at.information / dispersion + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        if rise is not None:
            step = nearest(theta + step, curvature, rise) - theta
        loss = self.loss(theta, penalty, dispersion)
        for share in 0.5 ** np.arange(12):
            moved = np.asarray(theta + share * step)
            gain = loss - self.loss(moved, penalty, dispersion)
            if gain >= 0:
                return moved, gain
        return theta, 0.0

    def smoothed(self, theta: FloatArray, covariance: FloatArray, precision: FloatArray) -> tuple[FloatArray, float]:
        """Update the precision of each part after Fellner and Schall; return also the degrees of freedom in use.

        With a doubt a, the marginal likelihood is multiplied by the precision to the power of a / 2: by itself it
        leaves parts too rough on average, most of all those that are not needed. A part then vanishes (`PRECISE`)
        unless the likelihood has a maximum of its own near by.
        """
        used = 1 - np.diag(covariance)[:-1] * precision[self.part] * self.roughness
        spent = np.bincount(self.part, used, len(precision))
        size = np.bincount(self.part, self.roughness * theta[:-1] ** 2, len(precision))
        precision = (np.maximum(spent, 1e-8) + self.doubt) / np.maximum(size, 1e-30)
        return np.clip(precision, VAGUE, PRECISE), float(spent.sum())


Dispersion = Callable[[ScoresAt, FloatArray], float]
"""A function of the scores in the cells and the covariance: how much more votes vary than the binomial says, as the
ratio of robust to model information.

Votes on one triplet are correlated beyond what the distance explains, and so may be triplets of one reference. A
likelihood that took every vote as independent would follow their noise; it is divided by the dispersion. The
robust information has the squares of weights. These sum to the same as the weights, so that independent votes have a
dispersion of 1.
"""


def solve(problem: Problem, dispersion_of: Dispersion | None = None, *, dispersion: float = 1.0) -> Solution:
    """Estimate coefficients, smoothness and, where asked for, the dispersion of the votes."""
    precision = np.full(problem.part.max() + 1, SMOOTH)
    precision[0] = 1.0
    theta = np.append(np.zeros(problem.X.shape[1]), USUAL_LAPSE)
    scores, freedom = problem.scores(theta), np.inf
    for _ in range(ROUNDS):
        theta, _ = problem.step(theta, scores, precision, dispersion)
        scores = problem.scores(theta)
        covariance = problem.covariance(scores, precision, dispersion)
        if dispersion_of:
            dispersion = dispersion_of(scores, covariance)
        precision, spent = problem.smoothed(theta, covariance, precision)
        if abs(spent - freedom) < CONVERGED:
            break
        freedom = spent
    penalty, information = problem.penalty(precision), scores.information / dispersion
    _, determinant = np.linalg.slogdet(information + np.diag(penalty))
    evidence = -problem.loss(theta, penalty, dispersion) + (np.log(penalty).sum() - determinant) / 2
    return Solution(theta, information, precision, dispersion, float(evidence))


def solve_rising(
    problem: Problem, rise: FloatArray, dispersion_of: Dispersion, start: Solution | None = None, *, choose: bool = True
) -> Solution:
    """Estimate the same with rise @ coefficients at 0 or above, for problems of many rows and functions.

    Each round makes one step, with the information that also updates the precisions, which takes most of the time.
    `start`, the solution of a similar problem, saves steps; its dispersion is used. Precisions begin at `LOOSE` at
    most, so that a part without effect there may have one here, unless `choose` is False: they then stay as they are.
    """
    theta = np.append(np.zeros(problem.X.shape[1]), USUAL_LAPSE) if start is None else start.theta
    precision = np.ones(problem.part.max() + 1) if start is None else start.precision
    dispersion = 1.0 if start is None else start.dispersion
    if choose:
        precision = np.minimum(precision, LOOSE)
    constraints = np.pad(rise, ((0, 0), (0, 1)))
    freedom, settled = math.inf, not choose
    for round in range(ROUNDS):
        scores = problem.scores(theta)
        if choose:
            covariance = problem.covariance(scores, precision, dispersion)
            if start is None and round % DISPERSED == 0:
                dispersion = dispersion_of(scores, covariance)
            before = freedom
            if round or start is not None:  # before the first step there is nothing to smooth
                precision, freedom = problem.smoothed(theta, covariance, precision)
            settled = abs(freedom - before) < SETTLED
        previous = theta
        theta, gain = problem.step(theta, scores, precision, dispersion, constraints)
        if theta is previous or (settled and gain < SETTLED):
            break
    return Solution(theta, scores.information / dispersion, precision, dispersion, np.nan)


def between_rows(cells: Cells) -> Dispersion:
    """Measure the dispersion of votes between rows; with M = 1 throughout it is 1."""

    def dispersion(scores: ScoresAt, covariance: FloatArray) -> float:
        P, weight, jacobian, _ = scores
        residuals = (cells.nn - 2 * P * cells.nM + P**2 * cells.MM) * weight**2
        spread = ((jacobian @ covariance) * jacobian).sum(axis=1)
        return _ratio(float(residuals @ spread), float(cells.M * weight @ spread))

    return dispersion


def between_clusters(cell: IntArray, cluster: IntArray, n: IntArray, M: IntArray, mass: FloatArray) -> Dispersion:
    """Measure the dispersion of votes between clusters of rows, given the cell and cluster of each row."""
    shape = (int(cluster.max()) + 1, int(cell.max()) + 1)
    votes, all_votes = (csr_array((column * mass, (cluster, cell)), shape=shape) for column in (n, M))

    def dispersion(scores: ScoresAt, covariance: FloatArray) -> float:
        P, weight, jacobian, _ = scores
        residuals = votes.data - all_votes.data * P[votes.indices]
        by_cluster = csr_array((residuals, votes.indices, votes.indptr), shape=shape)
        sums = np.asarray(by_cluster @ (weight[:, None] * jacobian))
        robust = np.trace(covariance @ (sums.T @ sums)) * len(sums) / max(len(sums) - 1, 1)
        model = np.trace(covariance @ (jacobian.T @ ((all_votes.sum(axis=0) * weight)[:, None] * jacobian)))
        return _ratio(float(robust), float(model))

    return dispersion


def _ratio(robust: float, model: float) -> float:
    """Ratio of the two, at least 1: votes vary less than the binomial by chance only."""
    return max(1.0, robust / model) if model > 0 else 1.0


def surface_slopes(size: int) -> FloatArray:
    """Slopes of the antisymmetric functions along z0, on a fine grid; by antisymmetry f falls with z1."""
    line = np.linspace(-LAST_KNOT, LAST_KNOT, 4 * size)
    # Beyond the last knots slopes are linear in z1, so that it is enough to check both ends.
    z0, z1 = (axis.ravel() for axis in np.meshgrid(line, [-BEYOND, *line, BEYOND]))
    return slopes(z0, z1, size)


def nearest(theta: FloatArray, information: FloatArray, rise: FloatArray, margin: float = 0.0) -> FloatArray:
    """Move coefficients as little as possible, by the information, so that rise @ theta is at least the margin.

    The least distance under linear constraints is found by non-negative least squares (Lawson and Hanson, 1974).
    """
    from scipy.optimize import nnls

    short = margin - rise @ theta
    if (short <= 0).all():
        return theta
    root = np.linalg.cholesky(information)
    # theta = theta0 + root^-T x, with |x| least and rise @ theta >= margin.
    against = np.linalg.solve(root, rise.T)
    stacked = np.vstack([against, short[None, :]])
    target = np.append(np.zeros(len(theta)), 1.0)
    multipliers, _ = nnls(stacked, target, maxiter=100 * len(short))
    residual = target - stacked @ multipliers
    return np.asarray(theta + np.linalg.solve(root.T, -residual[:-1] / residual[-1]))

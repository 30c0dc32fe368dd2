"""Penalised binomial likelihood with the smoothness chosen by the data.

The chance of x1 is P = lapse / 2 + (1 - lapse) link(f), with f = X theta and a Gaussian prior on each part of theta
whose precision is estimated by restricted maximum likelihood: Fisher scoring for theta, and for the precisions the
updates of Fellner and Schall (Wood and Fasiolo, 2017). The lapse rate is one more parameter, with a prior of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr

from twoafc.arrays import FloatArray, IntArray
from twoafc.estimators.cells import Cells

MOST_LAPSE = 0.4
"""Lapse rates lie between 0 and this."""
USUAL_LAPSE, SPREAD_LAPSE = -3.5, 1.5
"""Prior of the lapse rate, on the logit of its share of `MOST_LAPSE`: about 1 %, from 0.06 to 12 %."""
ROUNDS, STEPS = 60, 2
PRECISE, VAGUE = 1e9, 1e-6
CERTAIN = 1e-10
"""P is kept this far from 0 and 1 while fitting."""


def logistic(f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The logistic function and its derivative."""
    P = expit(f)
    return P, P * (1 - P)


def normal(f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The normal distribution function and its derivative."""
    return ndtr(f), np.exp(-(f**2) / 2) / np.sqrt(2 * np.pi)


LINKS: dict[str, Callable[[FloatArray], tuple[FloatArray, FloatArray]]] = {"logit": logistic, "probit": normal}


def lapse_of(kappa: float) -> tuple[float, float]:
    """Lapse rate and its derivative by the parameter that stands for it."""
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
    """A maximum of the penalised likelihood.

    Parameters
    ----------
    theta : array, shape (p + 1,)
        Coefficients, and last the lapse's parameter.
    information : array, shape (p + 1, p + 1)
        Fisher information of the votes, discounted by the dispersion.
    precision : array, shape (parts,)
        Prior precision of each part.
    dispersion : float
        How much more the votes vary between clusters than the binomial says; 1 at least.
    evidence : float
        Logarithm of the marginal likelihood, by Laplace's approximation.
    """

    theta: FloatArray
    information: FloatArray
    precision: FloatArray
    dispersion: float
    evidence: float


@dataclass(frozen=True, eq=False)
class Problem:
    """Votes in cells, the functions there, and the part and roughness of each function."""

    cells: Cells
    X: FloatArray
    part: IntArray
    roughness: FloatArray
    link: str

    def penalty(self, precision: FloatArray) -> FloatArray:
        """Diagonal of the prior's precision matrix, the lapse's last."""
        return np.append(precision[self.part] * self.roughness, SPREAD_LAPSE**-2)

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

    def scores(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """P, weights of the residuals, their derivatives' matrix, and the information of the votes."""
        P, jacobian = chances(theta, self.X, self.link)
        P = np.clip(P, CERTAIN, 1 - CERTAIN)
        weight = 1 / (P * (1 - P))
        return P, weight, jacobian, jacobian.T @ ((self.cells.M * weight)[:, None] * jacobian)

    def climb(self, theta: FloatArray, precision: FloatArray, dispersion: float) -> FloatArray:
        """Take a few steps of Fisher scoring, each halved until it gains."""
        penalty = self.penalty(precision)
        loss = self.loss(theta, penalty, dispersion)
        for _ in range(STEPS):
            P, weight, jacobian, information = self.scores(theta)
            gradient = jacobian.T @ ((self.cells.n - self.cells.M * P) * weight) / dispersion
            gradient -= penalty * self.centred(theta)
            step = np.linalg.solve(information / dispersion + np.diag(penalty), gradient)
            for share in 0.5 ** np.arange(12):
                candidate = self.loss(theta + share * step, penalty, dispersion)
                if candidate <= loss:
                    break
            else:
                return theta
            theta, gain, loss = theta + share * step, loss - candidate, candidate
            if gain < 1e-7:
                break
        return theta


Dispersion = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], float]
"""Takes P, the weights and the derivatives in the cells, and the covariance; gives the dispersion."""


def solve(problem: Problem, dispersion_of: Dispersion | None = None, *, dispersion: float = 1.0) -> Solution:
    """Find coefficients, smoothness and, where asked for, the dispersion of the votes."""
    parts = problem.part.max() + 1
    precision = np.ones(parts)
    theta = np.append(np.zeros(problem.X.shape[1]), USUAL_LAPSE)
    freedom = np.inf
    for _ in range(ROUNDS):
        theta = problem.climb(theta, precision, dispersion)
        P, weight, jacobian, information = problem.scores(theta)
        covariance = np.asarray(np.linalg.inv(information / dispersion + np.diag(problem.penalty(precision))))
        if dispersion_of:
            dispersion = dispersion_of(P, weight, jacobian, covariance)
        used = 1 - np.diag(covariance)[:-1] * precision[problem.part] * problem.roughness
        spent = np.bincount(problem.part, used, parts)
        size = np.bincount(problem.part, problem.roughness * theta[:-1] ** 2, parts)
        precision = np.clip(np.maximum(spent, 1e-8) / np.maximum(size, 1e-30), VAGUE, PRECISE)
        if abs(spent.sum() - freedom) < 0.01:
            break
        freedom = spent.sum()
    penalty = problem.penalty(precision)
    information /= dispersion
    _, determinant = np.linalg.slogdet(information + np.diag(penalty))
    evidence = -problem.loss(theta, penalty, dispersion) + (np.log(penalty).sum() - determinant) / 2
    return Solution(theta, information, precision, dispersion, float(evidence))

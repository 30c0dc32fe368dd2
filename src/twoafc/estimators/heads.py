"""The heads of LPIPS fitted to votes.

LPIPS is F = sum of w_c m_c over all channels c of a network: m_c is the mean over pixels of the squared difference
between two images, and the heads w_c are at least 0. With the m_c at hand, the heads are fitted as

    P = lapse / 2 + (1 - lapse) logistic(F(x0) - F(x1)),

by the likelihood of all votes less a ridge towards a multiple of the published heads p_c,

    strength / 2 * sum of v_c (w_c - s p_c)^2,

where v_c is the mean square of m_c(x0) - m_c(x1) over the training rows, and s >= 0 is fitted too. The strength is
chosen by references that are left out within the training table or, where images recur, by images (`unseen_rows`),
since heads could memorise images. Where no strength predicts their votes better than the published heads do, by a
standard error at least, the heads are the published ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from twoafc.arrays import FloatArray
from twoafc.core import one_thread
from twoafc.errors import DataError, require
from twoafc.estimators.fusion import Chance, lapsing, mean_and_error
from twoafc.estimators.penalised import CERTAIN, SPREAD_LAPSE, USUAL_LAPSE, lapse_of
from twoafc.estimators.saved import Model
from twoafc.estimators.spline import Spline
from twoafc.metrics import log_likelihood
from twoafc.table import Votes, most_folds, unseen_rows

STRENGTHS = (1e5, 1e4, 1e3, 1e2, 1e1, 1e0)
"""Strengths that are tried: precisions of a coefficient, in logits for a usual difference of its channel."""
TESTED = 3000
"""Rows that are predicted to choose the strength, where a table has as many."""
BEGIN = -1.5
"""Least start value of the lapse's parameter: below it, where the lapse is about 0, steps are too short."""
TENSOR = "lin{}.model.1.weight"
"""Names of the heads in the state dict of the authors of LPIPS, by layer."""
Float32Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Heads:
    """Settings of heads that are fitted to votes.

    They are fitted to a table with one distance whose columns, of shape (T, 1), are the places of pairs among `means`.
    """

    network: str  # the distance: lpips_alex, lpips_vgg or lpips_squeeze
    published: tuple[FloatArray, ...]  # the published heads of each layer
    weights: Mapping[str, str]  # digests of the weights of the network and of the published heads, by name
    means: Float32Array | None = field(default=None, repr=False)  # m_c of each pair, shape (pairs, C)
    folds: int = 5  # parts of the training table, or halvings of its images, to choose the strength
    seed: int = 0  # of these folds
    strength: float | None = None  # of the ridge; infinite for the published heads, None to choose it by the data
    start: FloatArray | None = field(default=None, repr=False)  # a solution for a similar table, shape (C + 1,)

    @property
    def prior(self) -> FloatArray:
        """The published heads of all layers, shape (C,)."""
        return np.concatenate(self.published)

    @one_thread()
    def fit(self, table: Votes) -> HeadsFit:
        """Fit to a table whose distance is the places of its pairs."""
        ridge = Ridge.of(table, self)
        whole = self._by_published(table)
        strength, start = (self.strength, self.start) if self.strength is not None else _chosen(ridge, whole, self)
        if np.isinf(strength):
            heads, chance = self._by_layer(self.prior), Chance(0.0, Spline().fit(whole))
            return HeadsFit(replace(self, strength=strength), heads, chance, self._shares(table))
        theta = ridge.solve(strength, start)
        chosen = replace(self, strength=strength, start=theta)
        chance = Chance(lapse_of(theta[-1])[0])
        return HeadsFit(chosen, self._by_layer(ridge.heads(theta)), chance, self._shares(table))

    def _by_published(self, table: Votes) -> Votes:
        """Return a table with the distances of the published heads."""
        assert self.means is not None
        d = np.asarray(self.means @ self.prior.astype(np.float32), dtype=np.float64)
        return replace(table, distances={self.network: tuple(d[column[:, 0]] for column in table.columns)})

    def _by_layer(self, w: FloatArray) -> tuple[Float32Array, ...]:
        ends = np.cumsum([len(head) for head in self.published])[:-1]
        return tuple(np.split(w.astype(np.float32), ends))

    def _shares(self, table: Votes) -> FloatArray:
        """Mean of each channel over the rows."""
        assert self.means is not None
        times = sum(np.bincount(column[:, 0], minlength=len(self.means)) for column in table.columns)
        return np.asarray(times @ self.means, dtype=np.float64) / np.sum(times)


@dataclass(frozen=True, eq=False)
class Ridge:
    """The penalised likelihood of the votes, as a function of heads times the spread of their channels."""

    X: Float32Array  # differences between x0 and x1, shape (T, C)
    n: FloatArray  # votes, weighted, shape (T,)
    M: FloatArray
    spread: FloatArray  # root mean square of X over the training rows; 0 of a channel that never differs, shape (C,)
    prior: FloatArray  # the published heads, shape (C,)

    @classmethod
    def of(cls, table: Votes, settings: Heads) -> Ridge:
        """Take the differences of the channels of a table."""
        assert settings.means is not None
        first, second = (column[:, 0] for column in table.columns)
        X = settings.means[first]
        X -= settings.means[second]
        spread = np.sqrt(np.einsum("tc,tc->c", X, X) / len(X)).astype(np.float64)
        spread[spread < 1e-9 * spread.max(initial=0)] = 0
        return cls(X, table.n * table.mass, table.M * table.mass, spread, settings.prior)

    def where(self, rows: NDArray[np.bool_]) -> Ridge:
        """Keep some rows; the scale of the channels stays that of all rows, which does not depend on the votes."""
        return replace(self, X=self.X[rows], n=self.n[rows], M=self.M[rows])

    def sums(self, u: FloatArray) -> FloatArray:
        """F(x0) - F(x1) of the rows, for some coefficients."""
        return (self.X @ (u * self.scale).astype(np.float32)).astype(np.float64)

    @cached_property
    def scale(self) -> FloatArray:
        """Factor that turns a coefficient into a head; 0 for a channel that never differs."""
        return np.divide(1.0, self.spread, out=np.zeros_like(self.spread), where=self.spread > 0)

    @cached_property
    def goal(self) -> FloatArray:
        """The published heads on the scale of the coefficients."""
        return np.asarray(self.prior * self.spread)

    def multiple(self, u: FloatArray) -> float:
        """The s that brings s times the published heads nearest to some coefficients."""
        size = float(self.goal @ self.goal)
        return max(float(u @ self.goal) / size, 0.0) if size > 0 else 0.0

    def loss(self, theta: FloatArray, strength: float) -> tuple[float, FloatArray]:
        """Penalised negative log-likelihood, and its gradient by the coefficients and the lapse's parameter."""
        u, kappa = theta[:-1], float(theta[-1])
        f = expit(self.sums(u))
        lapse, slope = lapse_of(kappa)
        P = np.clip(0.5 + (1 - lapse) * (f - 0.5), CERTAIN, 1 - CERTAIN)
        residual = (self.M * P - self.n) / (P * (1 - P))
        away = u - self.multiple(u) * self.goal
        loss = -(self.n @ np.log(P) + (self.M - self.n) @ np.log1p(-P))
        loss += strength / 2 * (away @ away) + ((kappa - USUAL_LAPSE) / SPREAD_LAPSE) ** 2 / 2
        by_u = self.scale * (self.X.T @ (residual * (1 - lapse) * f * (1 - f)).astype(np.float32)) + strength * away
        by_kappa = slope * float(residual @ (0.5 - f)) + (kappa - USUAL_LAPSE) / SPREAD_LAPSE**2
        return float(loss), np.append(by_u, by_kappa).astype(np.float64)

    def solve(self, strength: float, start: FloatArray | None = None) -> FloatArray:
        """Minimise the loss over coefficients of at least 0; the last parameter is the lapse's."""
        from scipy.optimize import minimize

        start = self.solve_published() if start is None else start
        start = np.append(start[:-1], max(start[-1], BEGIN))
        bounds: Any = [(0, None)] * len(self.goal) + [(None, None)]
        options: Any = {"maxcor": 20, "maxiter": 1000, "ftol": 1e-7, "gtol": 1e-3}
        fun: Any = partial(self.loss, strength=strength)
        solution = minimize(fun, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
        return np.asarray(solution.x, dtype=np.float64)

    def solve_published(self) -> FloatArray:
        """Minimise the loss over multiples of the published heads: the limit of strong ridges."""
        along = self.sums(self.goal)[:, None]
        usual = float(np.abs(along).mean()) or 1.0
        one = replace(self, X=(along / usual).astype(np.float32), spread=np.ones(1), prior=np.ones(1))
        u, kappa = one.solve(0.0, np.array([1.0, BEGIN]))
        return np.append(u / usual * self.goal, kappa)

    def heads(self, theta: FloatArray) -> FloatArray:
        """Heads of some coefficients; those of channels that never differ are the multiple of the published ones."""
        u = theta[:-1]
        return np.where(self.spread > 0, u * self.scale, self.multiple(u) * self.prior)

    def probability(self, theta: FloatArray) -> FloatArray:
        """P of the rows."""
        return lapsing(self.sums(theta[:-1]), lapse_of(theta[-1])[0])


def _chosen(ridge: Ridge, table: Votes, settings: Heads) -> tuple[float, FloatArray | None]:
    """Choose the strength by rows left out; it is infinite where the published heads predict them as well.

    The table has the distances of the published heads.
    """
    folds = min(settings.folds, most_folds(table))
    if folds < 2:
        return np.inf, None
    splits = unseen_rows(table, folds, TESTED, seed=settings.seed)
    times = np.sum([predicted for _, predicted in splits], axis=0)
    mass = (times > 0) * table.mass

    def scores_of(chances: Iterable[FloatArray]) -> FloatArray:
        """Mean log-likelihood of each row, from P of the rows that are predicted."""
        scores = np.zeros(len(table))
        for (_, rows), P in zip(splits, chances, strict=True):
            scores[rows] += log_likelihood(table.n[rows], table.M[rows], P) / times[rows]
        return scores

    def by_heads(thetas: Sequence[FloatArray]) -> FloatArray:
        return scores_of(ridge.where(rows).probability(theta) for (_, rows), theta in zip(splits, thetas, strict=True))

    by_spline = scores_of(
        Spline().fit(table.where(fitted)).probability(*table.where(rows).columns) for fitted, rows in splits
    )
    thetas = [ridge.where(fitted).solve_published() for fitted, _ in splits]
    published = max(by_heads(thetas), by_spline, key=lambda scores: scores @ mass)
    best, chosen, start = np.full(len(table), -1e9), np.inf, thetas[0]
    for strength in STRENGTHS:
        thetas = [ridge.where(rows).solve(strength, theta) for (rows, _), theta in zip(splits, thetas, strict=True)]
        scores = by_heads(thetas)
        if scores @ mass < best @ mass:
            break  # weaker ones will be worse still, and take the longest
        best, chosen, start = scores, strength, thetas[0]
    mean, error = mean_and_error((best - published)[times > 0], table.where(times > 0))
    return (chosen, start) if mean > error else (np.inf, None)


@dataclass(frozen=True, eq=False, repr=False)
class HeadsFit(Model):
    """Heads of LPIPS that were fitted to votes, with the chance of a vote given two of their distances."""

    settings: Heads
    heads: tuple[Float32Array, ...]  # of each layer
    probability: Chance  # that x1 is chosen; by a surface if the heads are the published ones
    typical: FloatArray  # mean of each channel over the training rows, shape (C,)
    card: Mapping[str, Any] = field(default_factory=dict)  # what the heads were made from and tested on

    name: ClassVar[str] = "heads"
    uniform: ClassVar[None] = None

    def __repr__(self) -> str:
        chance = self.probability
        which = "published" if chance.surface else f"strength={self.settings.strength:.3g}"
        return f"HeadsFit({self.settings.network}, {which}, lapse={chance.lapse:.2g})"

    @property
    def chosen_settings(self) -> Heads:
        """The settings with what was chosen inside the training table."""
        return self.settings

    @cached_property
    def _distances(self) -> FloatArray:
        """The distance of every pair that was measured."""
        if self.settings.means is None:
            raise DataError("heads read from a file cannot be applied to channels; measure images with them")
        return np.asarray(self.settings.means @ np.concatenate(self.heads), dtype=np.float64)

    def reduce(self, places: NDArray[Any]) -> FloatArray:
        """Distance of each row, from the places of its pairs, shape (T, 1)."""
        return np.asarray(self._distances[places[:, 0]])

    def shares(self) -> tuple[list[float], list[float]]:
        """Share of each layer in the mean distance of the training rows: of these heads, and of the published ones."""
        typical = np.split(self.typical, np.cumsum([len(head) for head in self.heads])[:-1])

        def shares(heads: Sequence[NDArray[Any]]) -> list[float]:
            parts = [float(head @ m) for head, m in zip(heads, typical, strict=True)]
            return [part / (sum(parts) or 1.0) for part in parts]

        return shares(self.heads), shares(self.settings.published)

    def summary(self) -> dict[str, Any]:
        """Describe the fit on the card of a result."""
        chance, (shares, published) = self.probability, self.shares()
        return {
            "network": self.settings.network,
            "weights": dict(self.settings.weights),
            "published": chance.surface is not None,
            "heads": f"sha256 {self.digest}",
            "strength": None if chance.surface else self.settings.strength,
            "channels": int(sum((head > 0).sum() for head in self.heads)),
            "of": int(sum(map(len, self.heads))),
            "layers": shares,
            "published_layers": published,
            "lapse": chance.lapse,
        }

    def state_dict(self) -> dict[str, Any]:
        """The heads as torch tensors, by the names that they have in the code of the authors of LPIPS."""
        torch = require("torch", extra="torch")
        return {TENSOR.format(at): torch.from_numpy(head.reshape(1, -1, 1, 1)) for at, head in enumerate(self.heads)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a saved model."""
        own = self.probability.arrays() | {"typical": self.typical}
        for at, (head, published) in enumerate(zip(self.heads, self.settings.published, strict=True)):
            own |= {TENSOR.format(at): head.reshape(1, -1, 1, 1), f"published_{at}": published}
        return own

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> HeadsFit:
        """Build a fit from the settings and arrays of a saved model."""
        layers = range(sum(name.startswith("published_") for name in arrays))
        heads = tuple(arrays[TENSOR.format(at)].ravel() for at in layers)
        own = Heads(
            settings["network"],
            tuple(arrays[f"published_{at}"] for at in layers),
            settings["weights"],
            folds=settings["folds"],
            seed=settings["seed"],
            strength=np.inf if settings["strength"] is None else settings["strength"],
        )
        return cls(own, heads, Chance.restore(arrays), arrays["typical"], settings["card"])

    @property
    def digest(self) -> str:
        """Digest of the heads."""
        return hashlib.sha256(np.concatenate(self.heads).tobytes()).hexdigest()

    def saved_settings(self) -> dict[str, Any]:
        """Return the settings of a saved model."""
        own = self.settings
        return {
            "network": own.network,
            "weights": dict(own.weights),
            "folds": own.folds,
            "seed": own.seed,
            "strength": None if own.strength is None or np.isinf(own.strength) else own.strength,
            "card": dict(self.card),
        }

"""Results as arrays: the points and the surface of a distance, and which triplets a view keeps, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.errors import DataError
from twoafc.estimators import DensityFit, Fit
from twoafc.explore.refit import Refits, refits
from twoafc.explore.state import PAPER_GRID, PAPER_SIGMA, REFIT, Known, View
from twoafc.failures import TELLING, surprise
from twoafc.folder import Results
from twoafc.metrics import log_likelihood
from twoafc.outcomes import distances, estimators, outcomes
from twoafc.query import model

SIZE = 100
"""Nodes of a drawn surface along each axis."""
KEPT = 16
"""Settings whose points are kept at hand."""


@dataclass(frozen=True, eq=False)
class Points:
    """The tested triplets under one distance and one estimator, each array of shape (T,)."""

    d0: FloatArray
    d1: FloatArray
    u0: FloatArray
    u1: FloatArray
    P: FloatArray
    nll: FloatArray
    surprise: FloatArray


@dataclass(frozen=True, eq=False)
class Surface:
    """P over the uniformised plane, shape (SIZE, SIZE), None where no model was saved; and the map to that plane."""

    P: FloatArray | None
    uniform: Uniform


class Explored:
    """What a folder of results has to show.

    Parameters
    ----------
    results : Results
    train : Path, optional
        The training table, where it is not in or beside the folder.

    Attributes
    ----------
    known : Known
        What there is to choose from.
    labels : polars.DataFrame, T rows
        ``triplet`` and those of group, ref, x0, x1 that are known.
    n, M : arrays of int, shape (T,)
    refits : Refits or str
        Fits with settings of the user's; or why there can be none.
    """

    def __init__(self, results: Results, train: Path | None = None) -> None:
        self.results = results
        labels = _shown(results)
        # The best first: there the page starts.
        names = sorted(distances(results), key=lambda name: _mean_nll(outcomes(results, name, labels[0])))
        rows = outcomes(results, names[0], labels[0])
        self.labels = rows.drop("n", "M", "distance", "estimator", "d0", "d1", "P", "nll")
        self.n, self.M = (rows[name].to_numpy().astype(np.int64) for name in ("n", "M"))
        self.refits = refits(results, train, estimator=labels[0])
        again = (REFIT,) if isinstance(self.refits, Refits) else ()
        groups = self.labels["group"].unique().sort().to_list() if "group" in self.labels.columns else []
        start = _settings(model(results, names[0], labels[0])) or (PAPER_SIGMA, PAPER_GRID)
        self.known = Known(tuple(names), (*labels, *again), tuple(groups), tuple(self.labels["triplet"]), *start)
        # A page asks several questions at once, which need the same fit: it is made once.
        self._locks = {name: RLock() for name in self.known.distances}
        self._points = lru_cache(KEPT)(self._points_of)
        self._planes = lru_cache(KEPT)(self._plane_of)
        self._surfaces = lru_cache(KEPT)(self._surface_of)
        self._fits = lru_cache(KEPT)(self._fit_of)

    def __len__(self) -> int:
        return len(self.n)

    def points(self, view: View, distance: str = "") -> Points:
        """Give the tested triplets under a view's estimator and its distance, or another one."""
        with self._locks[distance or view.distance]:
            return self._points(distance or view.distance, *_how(view))

    def surface(self, view: View, distance: str = "") -> Surface:
        """Give the surface of a view's estimator and its distance, or another one."""
        with self._locks[distance or view.distance]:
            return self._surfaces(distance or view.distance, *_how(view))

    def fit(self, view: View, distance: str = "") -> Fit | None:
        """Give the fit to the whole training table of a view's estimator; None where it was not saved."""
        with self._locks[distance or view.distance]:
            return self._fits(distance or view.distance, *_how(view))

    def evaluated(self, view: View) -> tuple[float, int] | None:
        """Give sigma and grid size that a view's density was evaluated with; None where it is refitted, or none."""
        return None if view.estimator == REFIT else _settings(self.fit(view))

    def kept(self, view: View) -> NDArray[np.bool_]:
        """Tell which triplets a view keeps: of its group, with so much surprise and disagreement."""
        kept = self.points(view).surprise >= view.surprise
        if view.group:
            kept &= (self.labels["group"] == view.group).to_numpy()
        if view.other and view.disagreement:
            kept &= self.disagreement(view) >= view.disagreement
        return kept

    def boxed(self, view: View) -> NDArray[np.bool_]:
        """Tell which triplets a view's box holds; all, where it has none."""
        if view.box is None:
            return np.ones(len(self), dtype=bool)
        points = self.points(view, view.other if view.side == "other" else "")
        low0, high0, low1, high1 = view.box
        within: NDArray[np.bool_] = (low0 <= points.u0) & (points.u0 <= high0)
        return within & (low1 <= points.u1) & (points.u1 <= high1)

    def disagreement(self, view: View) -> FloatArray:
        """How far P is apart between the two distances of a view, shape (T,)."""
        return np.asarray(np.abs(self.points(view).P - self.points(view, view.other).P))

    def likelier(self, view: View) -> IntArray:
        """Tell which of a view's distances the votes speak for, shape (T,): 1 the first, -1 the other, 0 neither."""
        with np.errstate(invalid="ignore"):  # both infinite: the votes speak against both
            gap = self.points(view, view.other).nll - self.points(view).nll
        return np.where(np.abs(gap) >= np.log(TELLING), np.sign(np.nan_to_num(gap)), 0).astype(np.int64)

    def order(self, view: View) -> IntArray:
        """Rows of the triplets that a view keeps, and its box holds, in its order."""
        rows = np.flatnonzero(self.kept(view) & self.boxed(view))
        keys = self.column(view, view.sort.removeprefix("-"))[rows]
        # Ranked first, so that text can be turned round like a number; equal ones stay in the order of the table.
        ranks = np.unique(keys, return_inverse=True)[1]
        return rows[np.argsort(-ranks if view.sort.startswith("-") else ranks, kind="stable")]

    def column(self, view: View, name: str) -> NDArray[np.generic]:
        """Give a column of the table of triplets, shape (T,); zeros of one that the view or the data do not have."""
        if name in self.labels.columns:
            return self.labels[name].to_numpy()
        if name in ("n", "M"):
            return np.asarray(getattr(self, name))
        if name in ("P_other", "disagreement", "likelier"):
            if not view.other:
                return np.zeros(len(self))
            of_two = {"disagreement": self.disagreement, "likelier": self.likelier}
            return self.points(view, view.other).P if name == "P_other" else of_two[name](view)
        return np.asarray(getattr(self.points(view), name, np.zeros(len(self))))

    def frame(self, view: View) -> pl.DataFrame:
        """Give the triplets that a view lists, in its order, with all that is known of them: what is exported."""
        told: dict[str, Any] = {"n": self.n, "M": self.M, "estimator": [named(view)] * len(self)}
        for name in (view.distance, *([view.other] if view.other else [])):
            points = self.points(view, name)
            columns = ("d0", "d1", "P", "nll", "surprise")
            told |= {f"{name}_{each}": getattr(points, each) for each in columns}
        if view.other:
            names = np.array([view.other, "", view.distance])
            told |= {"disagreement": self.disagreement(view), "likelier": names[self.likelier(view) + 1]}
        return self.labels.with_columns(**{name: pl.Series(each) for name, each in told.items()})[self.order(view)]

    def _points_of(self, distance: str, estimator: str, sigma: float, grid: int) -> Points:
        as_evaluated = outcomes(self.results, distance, self.known.estimators[0] if estimator == REFIT else estimator)
        d0, d1, P, nll = (as_evaluated[name].to_numpy() for name in ("d0", "d1", "P", "nll"))
        _, u0, u1 = self._planes(distance, estimator)
        if estimator == REFIT:
            P = self._refits().tested(distance, sigma, grid, u0, u1)
            nll = -log_likelihood(self.n, self.M, P)
        return Points(d0, d1, u0, u1, P, nll, surprise(self.n, self.M, P))

    def _plane_of(self, distance: str, estimator: str) -> tuple[Uniform, FloatArray, FloatArray]:
        """Give the map to the uniformised plane, and the places of the triplets on it; settings do not change it."""
        rows = outcomes(self.results, distance, self.known.estimators[0] if estimator == REFIT else estimator)
        d0, d1 = rows["d0"].to_numpy(), rows["d1"].to_numpy()
        if estimator == REFIT:
            uniform = self._refits().placed(distance)[0]
        else:
            own = getattr(self._fits(distance, estimator, 0.0, 0), "uniform", None)
            uniform = own if isinstance(own, Uniform) else Uniform.learn(d0, d1)
        return uniform, uniform(d0), uniform(d1)

    def _surface_of(self, distance: str, estimator: str, sigma: float, grid: int) -> Surface:
        fit = self._fits(distance, estimator, sigma, grid)
        uniform = self._planes(distance, estimator)[0]
        if fit is None:
            return Surface(None, uniform)
        d = uniform.inverse(np.linspace(0, 1, SIZE))
        return Surface(np.asarray(fit.probability(d[:, None], d[None, :])), uniform)

    def _fit_of(self, distance: str, estimator: str, sigma: float, grid: int) -> Fit | None:
        if estimator == REFIT:
            return self._refits().fit(distance, sigma, grid)
        return model(self.results, distance, estimator)

    def _refits(self) -> Refits:
        if isinstance(self.refits, str):
            raise DataError(self.refits)
        return self.refits


def _settings(fit: Fit | None) -> tuple[float, int] | None:
    return (float(fit.settings.sigma), fit.settings.grid_size) if isinstance(fit, DensityFit) else None


def _mean_nll(rows: pl.DataFrame) -> float:
    return float(np.mean(rows["nll"].to_numpy()))


def _shown(results: Results) -> list[str]:
    """Names of the estimators that have something to show of every distance: not only runs that diverged."""
    kept, why = [], DataError(f"{results.folder} tells of no triplets")
    for name in estimators(results):
        try:
            for distance in distances(results):
                outcomes(results, distance, name)
            kept.append(name)
        except DataError as error:
            why = error
    if not kept:
        raise why
    return kept


def _how(view: View) -> tuple[str, float, int]:
    """What decides a view's P: settings only where they are asked for, so that others are not computed anew."""
    return (view.estimator, view.sigma, view.grid) if view.estimator == REFIT else (view.estimator, 0.0, 0)


def named(view: View) -> str:
    """Name the estimator of a view, with its settings where they are the user's."""
    told = f"density(sigma={view.sigma:.4g}, grid_size={view.grid})"
    return told if view.estimator == REFIT else view.estimator

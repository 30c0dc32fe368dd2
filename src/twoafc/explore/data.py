"""What the explorer shows: points and surfaces, fits with other settings, and all about one triplet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.errors import DataError
from twoafc.estimators import Density, DensityFit, Fit
from twoafc.estimators.grid import interpolate
from twoafc.estimators.kernel import Sums, kernel_sums, squared_sums
from twoafc.explore.state import PAPER_GRID, PAPER_SIGMA, REFIT, Known, View
from twoafc.metrics import log_likelihood
from twoafc.results import TELLING, Result, count_table, describe_table, surprise
from twoafc.table import UNNAMED, Triplets, assign_folds

SIZE = 100
"""Nodes of a drawn surface along each axis."""
CACHED = 16
"""Settings whose points and surfaces are in memory."""
CORES = 2
FITS_CACHED = 32
"""Fits in memory, for sliders that go to and fro."""
ROLES = ("ref0", "x0", "ref", "ref1", "x1")
"""Labels that name images, in the order in which they are shown."""
SAME = 1e-9
"""Chances that differ by less are the same: one triplet alone may be summed in another order than all at once."""


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
    result : Result
        Read from a folder.
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

    def __init__(self, result: Result, train: Path | None = None) -> None:
        self.result = result
        labels = _shown(result)
        # The best first: there the page starts.
        names = sorted(result.distances, key=lambda name: _mean_nll(result.outcomes(name, labels[0])))
        rows = result.outcomes(names[0], labels[0])
        self.labels = rows.drop("n", "M", "distance", "estimator", "d0", "d1", "P", "nll")
        self.n, self.M = (rows[name].to_numpy().astype(np.int64) for name in ("n", "M"))
        self.refits = refits(result, train, estimator=labels[0])
        again = (REFIT,) if isinstance(self.refits, Refits) else ()
        groups = self.labels["group"].unique().sort().to_list() if "group" in self.labels.columns else []
        start = _settings(result.model(names[0], labels[0])) or (PAPER_SIGMA, PAPER_GRID)
        self.known = Known(tuple(names), (*labels, *again), tuple(groups), tuple(self.labels["triplet"]), *start)
        # A page asks several questions at once, which need the same fit: it is made once.
        self._locks = {name: RLock() for name in self.known.distances}
        self._points = lru_cache(CACHED)(self._points_of)
        self._planes = lru_cache(CACHED)(self._plane_of)
        self._surfaces = lru_cache(CACHED)(self._surface_of)
        self._fits = lru_cache(CACHED)(self._fit_of)

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

    def kept(self, view: View) -> BoolArray:
        """Tell which triplets a view keeps: of its group, with so much surprise and disagreement."""
        kept = self.points(view).surprise >= view.surprise
        if view.group:
            kept &= (self.labels["group"] == view.group).to_numpy()
        if view.other and view.disagreement:
            kept &= self.disagreement(view) >= view.disagreement
        return kept

    def boxed(self, view: View) -> BoolArray:
        """Tell which triplets a view's box holds; all, where it has none."""
        if view.box is None:
            return np.ones(len(self), dtype=bool)
        points = self.points(view, view.other if view.side == "other" else "")
        low0, high0, low1, high1 = view.box
        within: BoolArray = (low0 <= points.u0) & (points.u0 <= high0)
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
        columns: dict[str, Any] = {"n": self.n, "M": self.M, "estimator": [named(view)] * len(self)}
        for name in (view.distance, *([view.other] if view.other else [])):
            points = self.points(view, name)
            columns |= {f"{name}_{each}": getattr(points, each) for each in ("d0", "d1", "P", "nll", "surprise")}
        if view.other:
            names = np.array([view.other, "", view.distance])
            columns |= {"disagreement": self.disagreement(view), "likelier": names[self.likelier(view) + 1]}
        return self.labels.with_columns(**{name: pl.Series(each) for name, each in columns.items()})[self.order(view)]

    def _points_of(self, distance: str, estimator: str, sigma: float, grid: int) -> Points:
        as_evaluated = self.result.outcomes(distance, self.known.estimators[0] if estimator == REFIT else estimator)
        d0, d1, P, nll = (as_evaluated[name].to_numpy() for name in ("d0", "d1", "P", "nll"))
        _, u0, u1 = self._planes(distance, estimator)
        if estimator == REFIT:
            P = self._refits().tested(distance, sigma, grid, u0, u1)
            nll = -log_likelihood(self.n, self.M, P)
        return Points(d0, d1, u0, u1, P, nll, surprise(self.n, self.M, P))

    def _plane_of(self, distance: str, estimator: str) -> tuple[Uniform, FloatArray, FloatArray]:
        """Give the map to the uniformised plane, and the places of the triplets on it; settings do not change it."""
        rows = self.result.outcomes(distance, self.known.estimators[0] if estimator == REFIT else estimator)
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
        return self.result.model(distance, estimator)

    def _refits(self) -> Refits:
        if isinstance(self.refits, str):
            raise DataError(self.refits)
        return self.refits


def _settings(fit: Fit | None) -> tuple[float, int] | None:
    return (float(fit.settings.sigma), fit.settings.grid_size) if isinstance(fit, DensityFit) else None


def _mean_nll(rows: pl.DataFrame) -> float:
    return float(np.mean(rows["nll"].to_numpy()))


def _shown(result: Result) -> list[str]:
    """Names of the estimators that have something to show of every distance: not only runs that diverged."""
    shown, why = [], DataError(f"{result.name} tells of no triplets")
    for name in result.estimators:
        try:
            for distance in result.distances:
                result.outcomes(distance, name)
            shown.append(name)
        except DataError as error:
            why = error
    if not shown:
        raise why
    return shown


def _how(view: View) -> tuple[str, float, int]:
    """What decides a view's P: settings only where they are asked for, so that others are not computed anew."""
    return (view.estimator, view.sigma, view.grid) if view.estimator == REFIT else (view.estimator, 0.0, 0)


def named(view: View) -> str:
    """Name the estimator of a view, with its settings where they are the user's."""
    return f"density(sigma={view.sigma:.4g}, grid_size={view.grid})" if view.estimator == REFIT else view.estimator


class Refits:
    """Fits of the density to the training table of some results.

    Parameters
    ----------
    train : Triplets
    fold : array of int or None
        Fold of each row, where the results were cross-validated.
    """

    def __init__(self, train: Triplets, fold: IntArray | None = None) -> None:
        self.train, self.fold = train, fold
        self.fit = lru_cache(FITS_CACHED)(self._fit)
        self.placed = lru_cache(FITS_CACHED)(lambda distance: train[distance].uniformised())

    def _fit(self, distance: str, sigma: float, grid: int) -> DensityFit:
        """Fit to the whole training table: what `Density.fit` gives, with a map that is kept, and on two cores."""
        settings, (uniform, u0, u1) = Density(sigma=sigma, grid_size=grid), self.placed(distance)
        data = (u0, u1, self.train.n, self.train.M)
        parts = [[column[k::CORES] for column in data] for k in range(CORES)]
        with ThreadPoolExecutor(CORES) as pool:
            sums = pool.map(lambda part: kernel_sums(*part, width=settings.width, grid_size=grid), parts)
            squared = squared_sums(*data, width=settings.width, grid_size=grid)
            total = Sums(*(sum(each) for each in zip(*sums, strict=True)))
        # Sums of parts may differ from those of the whole in the last bit; the mirror image must not.
        return DensityFit(settings, uniform, total._replace(M=(total.M + total.M.T) / 2), squared)

    def tested(self, distance: str, sigma: float, grid: int, u0: FloatArray, u1: FloatArray) -> FloatArray:
        """Give P of the tested triplets, at their places on the plane, each from a fit that has not seen it."""
        if self.fold is None:
            # What `probability` gives, without the way from distances to places, which settings do not change.
            excess = self.fit(distance, sigma, grid).surface - 0.5
            return np.clip(0.5 + interpolate(excess, u0, u1), 0.0, 1.0)
        seen = self.train[distance]
        P = np.empty(len(seen))
        for k in range(self.fold.max() + 1):
            rows = self.fold == k
            fit = Density(sigma=sigma, grid_size=grid).fit(seen.where(~rows))
            P[rows] = fit.probability(seen.d0[rows], seen.d1[rows])
        return P


def refits(result: Result, given: Path | None = None, *, estimator: str | None = None) -> Refits | str:
    """Find the training table of some results: the file given, the one in or beside the folder; or say what is missing.

    Where the results were cross-validated, the tested triplets, under an estimator that did not diverge, are the
    training table.
    """
    if "test" not in result.card["data"]:
        settings = result.card["settings"]
        table = _tested(result, estimator)
        return Refits(table, assign_folds(table, settings["folds"], seed=settings["seed"]))
    described = result.card["data"]["train"]
    contents = described.get("contents_sha256")
    if contents is None:
        return "the results were made from counts, not from a table"
    if given is not None:
        named = _same(given, contents)
        if named is None:
            raise DataError(f"the training table must be the one that was evaluated; {given} holds another")
        return Refits(named)
    names = [described["file"]] if "file" in described else ["train.csv", "train.parquet"]
    assert result.folder is not None
    for place in (result.folder, result.folder.absolute().parent, Path.cwd()):
        for name in names:
            if (place / name).is_file() and (found := _readable(place / name, contents)):
                return Refits(found)
    return f"the training table ({names[0]}) is not beside the results; name it with --train"


def _readable(path: Path, contents: str) -> Triplets | None:
    """Read what may be the table with these contents, and may be anything else."""
    try:
        return _same(path, contents)
    except DataError:
        return None


def _same(path: Path, contents: str) -> Triplets | None:
    """Read a table if it is the one with these contents."""
    table = Triplets.read(path)
    return table if describe_table(table)["contents_sha256"] == contents else None


def _tested(result: Result, estimator: str | None) -> Triplets:
    """Put the tested triplets together as a table again, with all distances side by side."""
    names = result.distances
    parts = {name: result.outcomes(name, estimator) for name in names}
    prefixes = {name: "" if name == UNNAMED else f"{name}_" for name in names}
    columns = {f"{prefixes[name]}{each}": part[each] for name, part in parts.items() for each in ("d0", "d1")}
    first = parts[names[0]].drop("distance", "estimator", "d0", "d1", "P", "nll")
    return Triplets.from_frame(first.with_columns(**columns))


@dataclass(frozen=True, eq=False)
class Said:
    """What one distance says of a triplet.

    Attributes
    ----------
    P, nll, surprise : float
        As tested: by a fit that had not seen the triplet.
    whole : float or None
        P by the fit to the whole training table, where that is another one (cross-validation, several seeds).
    standard_error : float or None
        Of `whole`, or of P where it is the same.
    counts : array, shape (votes + 1,)
        NLL of each count j of x1 among the votes.
    """

    distance: str
    d0: float
    d1: float
    P: float
    nll: float
    surprise: float
    whole: float | None
    standard_error: float | None
    counts: FloatArray


@dataclass(frozen=True, eq=False)
class Facts:
    """A triplet: its labels and votes, the votes that its counts are told of, and what each distance says."""

    row: int
    labels: dict[str, str]
    n: int
    M: int
    votes: int
    said: tuple[Said, ...]

    @property
    def observed(self) -> int | None:
        """The count that was observed; None where the counts are of another number of votes."""
        return self.n if self.votes == self.M else None

    @property
    def images(self) -> dict[str, str]:
        """Names of the images, by role, in the order in which they are shown."""
        return {role: self.labels[role] for role in ROLES if role in self.labels}


def facts(explored: Explored, view: View) -> Facts | None:
    """All about the triplet that a view has chosen; None where it has chosen none."""
    if view.row is None:
        return None
    n, M = int(explored.n[view.row]), int(explored.M[view.row])
    votes = view.votes or M
    names = (view.distance, *([view.other] if view.other else []))
    labels = {name: str(text) for name, text in explored.labels.row(view.row, named=True).items()}
    return Facts(view.row, labels, n, M, votes, tuple(_said(explored, view, name, votes) for name in names))


def _said(explored: Explored, view: View, distance: str, votes: int) -> Said:
    points, fit = explored.points(view, distance), explored.fit(view, distance)
    d0, d1, P, nll, bits = (float(getattr(points, each)[view.row]) for each in ("d0", "d1", "P", "nll", "surprise"))
    whole = error = None
    if fit is not None:
        given = float(fit.probability(d0, d1))
        whole = None if abs(given - P) < SAME or not np.isfinite(given) else given
        error = float(fit.standard_error(d0, d1)) if hasattr(fit, "standard_error") else None
    listed = np.array([count["nll"] for count in count_table(P, votes)])
    return Said(distance, d0, d1, P, nll, bits, whole, error, listed)

"""What the explorer shows: points and surfaces, fits with other settings, and all about one triplet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.errors import DataError
from twoafc.estimators import Density, DensityFit, Fit, Sums, interpolate, kernel_sums, vote_products
from twoafc.explore.state import PAPER_GRID, PAPER_SIGMA, REFIT, Known, View
from twoafc.metrics import log_likelihood
from twoafc.results import TELLING, Answer, Result, answer, describe_table, surprise
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
    """The tested triplets under one distance and one estimator, each array of shape (T,), and what P comes from.

    ``uniform`` maps distances to the plane; ``fit``, to the whole training table, is None where it was not saved.
    """

    d0: FloatArray
    d1: FloatArray
    u0: FloatArray
    u1: FloatArray
    P: FloatArray
    nll: FloatArray
    surprise: FloatArray
    uniform: Uniform
    fit: Fit | None

    @cached_property
    def surface(self) -> FloatArray | None:
        """P over the uniformised plane, shape (SIZE, SIZE)."""
        if self.fit is None:
            return None
        d = self.uniform.inverse(np.linspace(0, 1, SIZE))
        return np.asarray(self.fit.probability(d[:, None], d[None, :]))


class Explored:
    """A result as the explorer shows it.

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
        Fits with settings of the user's, or the reason why there are none.
    """

    def __init__(self, result: Result, train: Path | None = None) -> None:
        self.result = result
        labels = _shown(result)
        # The page starts with the best.
        names = sorted(
            result.distances, key=lambda name: float(np.mean(result.outcome_rows(name, labels[0])["nll"].to_numpy()))
        )
        rows = result.outcome_rows(names[0], labels[0])
        self.labels = rows.drop("n", "M", "distance", "estimator", "d0", "d1", "P", "nll")
        self.n, self.M = (rows[name].to_numpy().astype(np.int64) for name in ("n", "M"))
        self.refits = refits(result, train, estimator=labels[0])
        again = (REFIT,) if isinstance(self.refits, Refits) else ()
        groups = self.labels["group"].unique().sort().to_list() if "group" in self.labels.columns else []
        start = _settings(result.model(names[0], labels[0])) or (PAPER_SIGMA, PAPER_GRID)
        self.known = Known(tuple(names), (*labels, *again), tuple(groups), tuple(self.labels["triplet"]), *start)
        # Requests that come at once need the same fit: it is computed once.
        self._locks = {name: RLock() for name in self.known.distances}
        self._points = lru_cache(CACHED)(self._compute)
        self._places = lru_cache(CACHED)(self._refit_places)

    def __len__(self) -> int:
        return len(self.n)

    def points(self, view: View, distance: str = "") -> Points:
        """Return the tested triplets under a view's estimator and its distance, or another one."""
        name = distance or view.distance
        # Settings only where they matter, so that nothing is computed twice.
        settings = (view.sigma, view.grid) if view.estimator == REFIT else (0.0, 0)
        with self._locks[name]:
            return self._points(name, view.estimator, *settings)

    def evaluated(self, view: View) -> tuple[float, int] | None:
        """Sigma and grid size that a view's density was evaluated with; None where it is refitted, or another fit."""
        return None if view.estimator == REFIT else _settings(self.points(view).fit)

    def selected(self, view: View) -> BoolArray:
        """Which triplets pass a view's filters: its group, and the least surprise and disagreement."""
        selected = self.points(view).surprise >= view.surprise
        if view.group:
            selected &= (self.labels["group"] == view.group).to_numpy()
        if view.other and view.disagreement:
            selected &= self.disagreement(view) >= view.disagreement
        return selected

    def boxed(self, view: View) -> BoolArray:
        """Which triplets lie in a view's box; all, where it has none."""
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
        """Which of a view's distances the votes favour, shape (T,): 1 the first, -1 the other, 0 neither."""
        with np.errstate(invalid="ignore"):  # both infinite: the votes favour neither
            gap = self.points(view, view.other).nll - self.points(view).nll
        return np.where(np.abs(gap) >= np.log(TELLING), np.sign(np.nan_to_num(gap)), 0).astype(np.int64)

    def order(self, view: View) -> IntArray:
        """Rows of the triplets that a view keeps, and its box holds, in its order."""
        rows = np.flatnonzero(self.selected(view) & self.boxed(view))
        keys = self.column(view, view.sort.removeprefix("-"))[rows]
        # Ranked first, so that text can be turned round like a number; equal ones stay in the order of the table.
        ranks = np.unique(keys, return_inverse=True)[1]
        return rows[np.argsort(-ranks if view.sort.startswith("-") else ranks, kind="stable")]

    def column(self, view: View, name: str) -> NDArray[np.generic]:
        """A column of the table of triplets, shape (T,); zeros for one that the view or the data do not have."""
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
        """The triplets that a view lists, in its order, with all that is known of them: the export."""
        columns: dict[str, Any] = {"n": self.n, "M": self.M, "estimator": [named(view)] * len(self)}
        for name in filter(None, (view.distance, view.other)):
            points = self.points(view, name)
            columns |= {f"{name}_{each}": getattr(points, each) for each in ("d0", "d1", "P", "nll", "surprise")}
        if view.other:
            names = np.array([view.other, "", view.distance])
            columns |= {"disagreement": self.disagreement(view), "likelier": names[self.likelier(view) + 1]}
        return self.labels.with_columns(**{name: pl.Series(each) for name, each in columns.items()})[self.order(view)]

    def _compute(self, distance: str, estimator: str, sigma: float, grid: int) -> Points:
        if estimator != REFIT:
            rows, fit = self.result.outcome_rows(distance, estimator), self.result.model(distance, estimator)
            d0, d1, P, nll = (rows[name].to_numpy() for name in ("d0", "d1", "P", "nll"))
            own = getattr(fit, "uniform", None)
            uniform = own if isinstance(own, Uniform) else Uniform.learn(d0, d1)
            return Points(d0, d1, uniform(d0), uniform(d1), P, nll, surprise(self.n, self.M, P), uniform, fit)
        if isinstance(self.refits, str):
            raise DataError(self.refits)
        uniform, d0, d1, u0, u1 = self._places(distance)
        P = self.refits.tested(distance, sigma, grid, u0, u1)
        nll, fit = -log_likelihood(self.n, self.M, P), self.refits.fit(distance, sigma, grid)
        return Points(d0, d1, u0, u1, P, nll, surprise(self.n, self.M, P), uniform, fit)

    def _refit_places(self, distance: str) -> tuple[Uniform, FloatArray, FloatArray, FloatArray, FloatArray]:
        """The map of the training table to the plane, and the tested triplets on it; settings do not change them."""
        assert isinstance(self.refits, Refits)
        uniform = self.refits.placed(distance)[0]
        rows = self.result.outcome_rows(distance, self.known.estimators[0])
        d0, d1 = rows["d0"].to_numpy(), rows["d1"].to_numpy()
        return uniform, d0, d1, uniform(d0), uniform(d1)


def _settings(fit: Fit | None) -> tuple[float, int] | None:
    return (float(fit.settings.sigma), fit.settings.grid_size) if isinstance(fit, DensityFit) else None


def _shown(result: Result) -> list[str]:
    """Names of the estimators that have something to show of every distance: not only runs that diverged."""
    shown, why = [], DataError(f"{result.name} tells of no triplets")
    for name in result.estimators:
        try:
            for distance in result.distances:
                result.outcome_rows(distance, name)
            shown.append(name)
        except DataError as error:
            why = error
    if not shown:
        raise why
    return shown


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
        """Fit to the whole training table as `Density.fit` does, with a cached map, and on two cores."""
        settings, (uniform, u0, u1) = Density(sigma=sigma, grid_size=grid), self.placed(distance)
        data = (u0, u1, self.train.n, self.train.M)
        parts = [tuple(column[k::CORES] for column in data) for k in range(CORES)]
        with ThreadPoolExecutor(CORES) as pool:
            sums = pool.map(lambda part: kernel_sums(part[:2], *part[2:], sigma=sigma, grid_size=grid), parts)
            total = Sums(*(sum(each) for each in zip(*sums, strict=True)))
        # Sums of parts may differ from those of the whole in the last bit; the mirror image must not.
        total = total._replace(M=(total.M + total.M.T) / 2)
        return DensityFit.from_sums(settings, uniform, total, (u0, u1), vote_products(self.train.n, self.train.M))

    def tested(self, distance: str, sigma: float, grid: int, u0: FloatArray, u1: FloatArray) -> FloatArray:
        """Return P of the tested triplets, given their places on the plane, each from a fit that has not seen it."""
        if self.fold is None:
            # As `probability` does, without mapping distances to places, which settings do not change.
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
    """Find the training table of a result: the file given, or one in or beside the folder; or return what is missing.

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
    parts = {name: result.outcome_rows(name, estimator) for name in names}
    prefixes = {name: "" if name == UNNAMED else f"{name}_" for name in names}
    columns = {f"{prefixes[name]}{each}": part[each] for name, part in parts.items() for each in ("d0", "d1")}
    first = parts[names[0]].drop("distance", "estimator", "d0", "d1", "P", "nll")
    return Triplets.from_frame(first.with_columns(**columns))


@dataclass(frozen=True, eq=False)
class Facts:
    """A triplet: its labels and votes, the number of votes to list counts of, and the answer of each distance.

    An answer is that of `twoafc.results.answer`, with ``surprise`` in bits.
    """

    row: int
    labels: dict[str, str]
    n: int
    M: int
    votes: int
    answers: dict[str, Answer]

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
    answers = {}
    for name in filter(None, (view.distance, view.other)):
        points = explored.points(view, name)
        row = {key: float(getattr(points, key)[view.row]) for key in ("d0", "d1", "P", "nll", "surprise")}
        answers[name] = answer(row | {"n": n, "M": M}, points.fit, view.votes) | {"surprise": row["surprise"]}
    labels = {name: str(text) for name, text in explored.labels.row(view.row, named=True).items()}
    return Facts(view.row, labels, n, M, view.votes or M, answers)


def from_another_fit(answer: Answer) -> bool:
    """Whether P was tested by another fit than the saved model, as in cross-validation, or with several seeds."""
    P = answer["P_model"]
    return P is not None and bool(np.isfinite(P)) and abs(P - answer["P"]) >= SAME

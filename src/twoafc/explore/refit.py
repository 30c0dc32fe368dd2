"""Density fitted anew with the user's settings, and tested on the same triplets in the same way as the results were."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoafc import folds
from twoafc.arrays import FloatArray
from twoafc.card import describe
from twoafc.errors import DataError
from twoafc.estimators import Density, DensityFit, Sums, interpolate, kernel_sums, vote_products
from twoafc.folder import Results
from twoafc.outcomes import distances, outcomes
from twoafc.table import UNNAMED, Triplets

CORES = 2
KEPT = 32
"""Fits kept at hand, for sliders that go to and fro."""


class Refits:
    """Fits of the density to the training table of some results.

    Parameters
    ----------
    train : Triplets
    fold : array of int or None
        Fold of each row, where the results were cross-validated.
    """

    def __init__(self, train: Triplets, fold: NDArray[np.int64] | None = None) -> None:
        self.train, self.fold = train, fold
        self.fit = lru_cache(KEPT)(self._fit)
        self.placed = lru_cache(KEPT)(lambda distance: train[distance].uniformised())

    def _fit(self, distance: str, sigma: float, grid: int) -> DensityFit:
        """Fit to the whole training table: what `Density.fit` gives, with a map that is kept, and on two cores."""
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


def refits(results: Results, given: Path | None = None, *, estimator: str | None = None) -> Refits | str:
    """Find the training table of some results: the file given, the one in or beside the folder; or say what is missing.

    Where the results were cross-validated, the tested triplets, under an estimator that did not diverge, are the
    training table.
    """
    if "test" not in results.card["data"]:
        settings = results.card["settings"]
        table = _tested(results, estimator)
        return Refits(table, folds.assign(table, settings["folds"], seed=settings["seed"]))
    told = results.card["data"]["train"]
    contents = told.get("contents_sha256")
    if contents is None:
        return "the results were made from counts, not from a table"
    if given is not None:
        named = _same(given, contents)
        if named is None:
            raise DataError(f"the training table must be the one that was evaluated; {given} holds another")
        return Refits(named)
    names = [told["file"]] if "file" in told else ["train.csv", "train.parquet"]
    for place in (results.folder, results.folder.absolute().parent, Path.cwd()):
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
    return table if describe(table)["contents_sha256"] == contents else None


def _tested(results: Results, estimator: str | None) -> Triplets:
    """Put the tested triplets together as a table again, with all distances side by side."""
    names = distances(results)
    parts = {name: outcomes(results, name, estimator) for name in names}
    prefixes = {name: "" if name == UNNAMED else f"{name}_" for name in names}
    columns = {f"{prefixes[name]}{each}": part[each] for name, part in parts.items() for each in ("d0", "d1")}
    first = parts[names[0]].drop("distance", "estimator", "d0", "d1", "P", "nll")
    return Triplets.from_frame(first.with_columns(**columns))

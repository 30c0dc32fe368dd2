"""What the explorer shows: the ranking, points and surfaces, fits with other settings, and details of one row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.errors import DataError
from twoafc.estimators import Density, DensityFit, Fit
from twoafc.evaluation import Data, Task, predictions
from twoafc.metrics import log_likelihood
from twoafc.plots import surface_values
from twoafc.results import BARE, IMAGES, REPORT, Result, compare_rows, describe_table, model_answer, ranking, surprise
from twoafc.table import ENDS, Votes, as_votes, assign_folds

SIZE = 100
"""Nodes of a drawn surface along each axis."""
CACHED = 64
"""Settings whose points and surfaces are kept in memory, for sliders that are moved back and forth."""
REFIT = "refit"
"""Name of the estimator that the sliders control: density with their settings."""
SIGMAS, GRIDS = (0.004, 0.6), (5, 100)
"""Ends of the sliders."""
RANKED = ("distance", "estimator", "nll", "nll_se", "nll_low", "nll_high", "nll_letters")


class Fitted(NamedTuple):
    """A distance and an estimator; sigma and grid size matter only for a refit."""

    distance: str
    estimator: str
    sigma: float = 0.0
    grid: int = 0


@dataclass(frozen=True, eq=False)
class Points:
    """The tested rows under one fit, as points on the plane.

    ``n``, ``M``, ``P`` and ``nll`` are arrays of shape (T,), ``d`` and ``u`` are k of them: distances, raw and
    uniformised. ``fit``, to the whole training table, is None if it was not saved, and ``uniform`` is None if the
    distances have no map.
    """

    n: IntArray
    M: IntArray
    d: tuple[FloatArray, ...]
    u: tuple[FloatArray, ...]
    P: FloatArray
    nll: FloatArray
    uniform: Uniform | None
    fit: Fit | None

    @cached_property
    def surprise(self) -> FloatArray:
        """Surprise of the votes in bits, shape (T,)."""
        return surprise(self.n, self.M, self.P)

    @cached_property
    def surface(self) -> FloatArray | None:
        """P over the uniformised plane, shape (SIZE, SIZE); along the distance of pairs, shape (SIZE,)."""
        return None if self.fit is None else self._over_plane(self.fit.probability)

    @cached_property
    def error(self) -> FloatArray | None:
        """Standard error of P at the same places; None where the fit has none."""
        standard_error = getattr(self.fit, "standard_error", None)
        return None if standard_error is None else self._over_plane(standard_error)

    def _over_plane(self, function: Any) -> FloatArray | None:
        if self.uniform is None:
            return None
        if len(self.d) == 2:
            return surface_values(function, self.uniform, SIZE)
        return np.asarray(function(self.uniform.inverse(np.linspace(0, 1, SIZE))), dtype=np.float64)

    def arrays(self) -> dict[str, FloatArray]:
        """Return everything that the page draws, by name."""
        ends = ("",) if len(self.d) == 1 else ("0", "1")
        named = {f"d{end}": array for end, array in zip(ends, self.d, strict=True)}
        named |= {f"u{end}": array for end, array in zip(ends, self.u, strict=True)}
        named |= {"P": self.P, "nll": self.nll, "surprise": self.surprise}
        if self.uniform is not None:
            named["ticks"] = self.uniform.inverse(np.linspace(0, 1, 5))
        drawn = {"surface": self.surface, "error": self.error}
        return named | {name: array.ravel() for name, array in drawn.items() if array is not None}


def packed(arrays: Mapping[str, FloatArray]) -> bytes:
    r"""Write arrays as a line of JSON (name: length), padded to a multiple of 8 bytes, and their doubles.

    Examples
    --------
    >>> packed({"a": np.array([1.0])})
    b'{"a": 1}       \n\x00\x00\x00\x00\x00\x00\xf0?'
    """
    head = json.dumps({name: len(array) for name, array in arrays.items()}).encode("ascii")
    head += b" " * (-(len(head) + 1) % 8) + b"\n"
    return head + b"".join(np.asarray(array, dtype="<f8").tobytes() for array in arrays.values())


class Explored:
    """A result, read from a folder, as the explorer shows it.

    ``train`` is the training table, if it is neither where it was evaluated nor in or beside the folder. ``distances``
    begin with the best, ``estimators`` may end with a refit. ``labels`` has T rows: ``triplet`` (or ``pair``) and those
    of group, ref, x0, x1 that are known; none for counts. ``n``, ``M`` and ``weight``, the sampling weights or None,
    have shape (T,). ``data`` are the tables for fits with the user's own settings, or the reason why there are none.
    """

    def __init__(self, result: Result, train: Path | None = None) -> None:
        self.result, self.k = result, result.k
        self.weight: FloatArray | None
        ranked = ranking(result)
        # The page starts with the estimator of the verdict, and with the best distance.
        labels = sorted(_estimators(result), key=lambda name: not ranked or name != ranked[0]["estimator"])
        known = [record["distance"] for record in ranked if record["estimator"] == labels[0]]
        rest = result.distances if result.triplets is not None else [name for name, _, _ in result.fits]
        self.distances = tuple(dict.fromkeys([*known, *rest]))
        if result.triplets is None:
            self.labels = pl.DataFrame({result.row: []}, schema={result.row: pl.String})
            self.n = self.M = np.zeros(0, dtype=np.int64)
            self.weight = None
        else:
            rows = result.outcome_rows(self.distances[0], labels[0])
            own = ("n", "M", "distance", "estimator", *ENDS[self.k], "P", "nll", "weight")
            self.labels = rows.drop(own, strict=False)
            self.n, self.M = (rows[name].to_numpy().astype(np.int64) for name in ("n", "M"))
            self.weight = rows["weight"].to_numpy() if "weight" in rows.columns else None
        self.data = fitted_data(result, train, estimator=labels[0])
        self.estimators = (*labels, *((REFIT,) if isinstance(self.data, Data) else ()))
        # Requests that come at once need the same fit: it is computed once.
        self._locks = {name: RLock() for name in self.distances}
        self._points = lru_cache(CACHED)(self._compute)

    def __len__(self) -> int:
        return len(self.n)

    def about(self, *, images: bool = False) -> dict[str, Any]:
        """Return what the page needs at the start, for JSON: names, votes, labels and the ranking."""
        result, score = self.result, BARE[self.k]
        fit = result.model(self.distances[0], self.estimators[0])
        drawn = fit.settings if isinstance(fit, DensityFit) else Density()
        labels = {name: _coded(self.labels[name]) for name in self.labels.columns if name != result.row}
        return {
            "name": Path(result.name).absolute().name,
            "key": self._key(),
            "crossed": "test" not in result.card.get("data", {}),
            "row": result.row,
            "k": self.k,
            "size": SIZE,
            "verdict": result.verdict(),
            "distances": self.distances,
            "estimators": self.estimators,
            "ranking": [
                {name: record.get(name) for name in RANKED}
                | {"score": record.get(score), "score_se": record.get(f"{score}_se")}
                for record in ranking(result)
            ],
            "refit": None if isinstance(self.data, Data) else self.data,
            "sigma": min(max(float(drawn.sigma), SIGMAS[0]), SIGMAS[1]),
            "grid": min(max(drawn.grid_size, GRIDS[0]), GRIDS[1]),
            "names": self.labels[result.row].to_list(),
            "labels": labels,
            "roles": [role for role in IMAGES if role in labels],
            "n": self.n.tolist(),
            "M": self.M.tolist(),
            "weight": None if self.weight is None else self.weight.tolist(),
            "images": images,
            "report": result.folder is not None and (result.folder / REPORT).is_file(),
        }

    def _key(self) -> str:
        """Hash the tested rows; the user's notes on them remain valid after another evaluation of the same table."""
        names = "\0".join(["", *self.labels[self.result.row].to_list()])
        return sha256(self.n.tobytes() + self.M.tobytes() + names.encode()).hexdigest()[:16]

    def points(self, fitted: Fitted) -> Points:
        """Return the tested rows under a fit."""
        with self._locks[fitted.distance]:
            return self._points(fitted)

    def answers(self, row: int, fits: Mapping[str, Fitted]) -> dict[str, dict[str, Any]]:
        """Return for one row, by fit: distances, P, NLL and surprise as tested, and P of the saved model."""
        answers = {}
        for name, fitted in fits.items():
            tested = self.points(fitted)
            d, P = [float(column[row]) for column in tested.d], float(tested.P[row])
            answers[name] = {
                "d": d,
                "P": P,
                "nll": float(tested.nll[row]),
                "surprise": float(surprise(self.n[row], self.M[row], P)),
                **model_answer(tested.fit, *d),
            }
        return answers

    def compared(self, one: Fitted, other: Fitted, keep: BoolArray) -> dict[str, Any]:
        """Compare two fits on some rows, as `twoafc.results.compare_rows` does.

        On all rows it is the comparison of the result, marked by ``evaluated``, with the noise of training and Holm's
        correction.
        """
        pair = {one.distance, other.distance}
        if keep.all() and one.estimator != REFIT:
            for record in self.result.comparisons:
                same = (record["measure"], record["estimator"]) == ("nll", one.estimator)
                if same and {record["a"], record["b"]} == pair:
                    return {**record, "rows": len(self), "evaluated": True}
        P = {fitted.distance: self.points(fitted).P for fitted in (one, other)}
        return compare_rows(self.result, P, keep, estimator=self.estimators[0])

    def _compute(self, fitted: Fitted) -> Points:
        distance, estimator, sigma, grid = fitted
        again = self.data if estimator == REFIT and isinstance(self.data, Data) else None
        fit: Fit | None = None if again else self.result.model(distance, estimator)
        if self.result.triplets is None:
            none = np.zeros(0)
            uniform = getattr(fit, "uniform", None)
            return Points(self.n, self.M, (none,) * self.k, (none,) * self.k, none, none, uniform, fit)
        rows = self.result.outcome_rows(distance, self.estimators[0] if again else estimator)
        d = tuple(rows[name].to_numpy() for name in ENDS[self.k])
        P, nll = rows["P"].to_numpy(), rows["nll"].to_numpy()
        if again:
            task = Task(distance, REFIT, None, Density(sigma=sigma, grid_size=grid))
            run = task.run(again.train)
            *_, last = predictions(task, run, again)
            fit, P = run.fit, last.P
            nll = -log_likelihood(self.n, self.M, P)
        own = getattr(fit, "uniform", None)  # a user's own fit may have something else under this name
        uniform = own if isinstance(own, Uniform) else Uniform.learn(*d)
        return Points(self.n, self.M, d, tuple(map(uniform, d)), P, nll, uniform, fit)


def _coded(column: pl.Series) -> dict[str, Any]:
    """Encode a column of few names as names and codes."""
    names = column.cast(pl.String).fill_null("")
    known = names.unique(maintain_order=True)
    return {"names": known.to_list(), "codes": names.cast(pl.Enum(known)).to_physical().to_list()}


def _estimators(result: Result) -> list[str]:
    """Return the estimators of which at least one run of every distance did not diverge."""
    if result.triplets is None:
        return list(dict.fromkeys(estimator for _, estimator, _ in result.fits))
    shown, why = [], DataError(f"{result.name} has no {result.row}s to show")
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


def fitted_data(result: Result, given: Path | None = None, *, estimator: str | None = None) -> Data | str:
    """Find the training table of a result by its contents, with the tested rows, or return why there is none.

    It is the file given, or the one that was evaluated, or one of the same name in or beside the folder. If the results
    were cross-validated, it consists of the tested rows, under an estimator that did not diverge.
    """
    if result.triplets is None:
        return "the results were made from counts, not from a table"
    tested = as_votes(result.wide(estimator))
    if "test" not in result.card["data"]:
        settings = result.card["settings"]
        return Data(tested, None, assign_folds(tested, settings["folds"], seed=settings["seed"]))
    described = result.card["data"]["train"]
    names = [described["file"]] if "file" in described else ["train.csv", "train.parquet"]
    assert result.folder is not None
    places = [place / name for place in (result.folder, result.folder.absolute().parent, Path.cwd()) for name in names]
    places = [Path(described["path"]), *places] if "path" in described else places
    for path in places if given is None else [given]:
        try:
            table = as_votes(path)
        except (DataError, OSError):  # without a name that was given, the file may be anything, or missing
            if given is not None:
                raise
            continue
        if describe_table(table)["contents_sha256"] == described.get("contents_sha256"):
            return _with_fused(result, table, tested)
    if given is not None:
        raise DataError(f"the training table must be the one that was evaluated; {given} is another")
    return f"the training table ({names[0]}) is not beside the results; name it with --train"


def _with_fused(result: Result, table: Votes, tested: Votes) -> Data | str:
    """Add the fused distance of a result to its training table; heads of LPIPS would need channels."""
    about = result.card.get("fusion")
    if about is not None:
        fused = tuple(result.fused({name: d[end] for name, d in table.distances.items()}) for end in range(table.k))
        table = replace(table, distances={**table.distances, about["name"]: fused})
    missing = next((name for name in result.distances if name not in table.distances), None)
    return Data(table, tested) if missing is None else f"the training table has no values of {missing}"

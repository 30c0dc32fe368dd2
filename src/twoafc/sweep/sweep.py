"""Fit and score the density estimator under many settings, several at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from twoafc.arrays import BoolArray
from twoafc.core import Uniform
from twoafc.diagnostics import Finding
from twoafc.diagnostics.overlap import overlap
from twoafc.diagnostics.view import view
from twoafc.estimators import Density
from twoafc.evaluation import Progress, Settings
from twoafc.evaluation.bars import Analytic
from twoafc.evaluation.loop import Prediction, floor_of, shared_distances
from twoafc.evaluation.records import scored, with_bars
from twoafc.inference import Record
from twoafc.inference.comparisons import COMPARED, compare, sentence
from twoafc.inference.errorbars import Together, Values, errors, together
from twoafc.inference.intervals import LEVEL, holm
from twoafc.results import Run
from twoafc.sweep.found import MEASURES, Sweep
from twoafc.sweep.points import GRID_SIZES, PAPER, SIGMAS, Point, in_order, points
from twoafc.table import Triplets, assign_folds, split_key

__all__ = ["GRID_SIZES", "SIGMAS", "sweep"]

AUTOMATIC, PAPERS = "the automatic sigma", "the paper's sigma"


def sweep(
    train: Triplets,
    test: Triplets | None = None,
    *,
    distances: Sequence[str] | None = None,
    sigmas: Sequence[float] | None = None,
    grid_sizes: Sequence[int] | None = None,
    grid_size: int = 100,
    sigma: float = 1 / 44,
    folds: int = 5,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Score the density estimator under many kernel widths and grid sizes, for every distance.

    Parameters
    ----------
    train, test : Triplets
        As of `twoafc.evaluate`: without `test` the training table is cross-validated.
    distances : names, default all that both tables have
    sigmas : numbers, default 16 in [0.0037, 1]
        Widths to try on `grid_size` nodes; none for an empty sequence. The paper's and the automatic one come to them.
    grid_sizes : whole numbers, default 10 in [5, 100]
        Nodes along an axis to try under `sigma`; none for an empty sequence. The paper's 20 come to them, and as many
        as the automatic rule gives that sigma, where they lie in the range.
    folds, seed : int
        Parts for cross-validation, whole references at a time where they are known, and their seed.
    workers : int, default one for each core
        Settings tried at a time, in threads: what is found does not depend on their number.

    Examples
    --------
    >>> from twoafc import worlds
    >>> table = Triplets.from_frame(worlds.simulate("weber", triplets=400, votes=3, seed=1))
    >>> found = sweep(table, sigmas=[0.01, 0.1], grid_sizes=(), grid_size=20, folds=2)
    >>> found.best("distance", "sigma")["sigma"] > 0.01
    True
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1; found {workers}")
    held = Density(sigma=sigma, grid_size=grid_size)
    asked = points(sigmas, grid_sizes, held)
    names, notes = shared_distances(train, test, distances)
    left_out = _left_out(train, test, folds, seed)
    if test is None:
        notes.append(f"no test table: {folds}-fold cross-validation, split by {split_key(train)}")
    link = together(train if test is None else test)
    moves, papers = asked[0].parameter == "sigma", Point("sigma", replace(held, sigma=PAPER.sigma))
    automatic: dict[str, Density] = {}
    scores: list[Record] = []
    tested: dict[str, Record] = {}
    pairs: dict[str, dict[str, Values]] = {}
    with _threads(workers or _cores()) as pool:
        for place, name in enumerate(names):
            asking = (train if test is None else test)[name]
            parts = list(pool.map(partial(_part, train[name]), left_out))
            automatic[name] = _automatic(train[name])
            todo = in_order([*asked, Point("sigma", replace(held, sigma=automatic[name].sigma))]) if moves else asked
            found = pool.map(partial(_score, asking, parts, link), todo)
            for done, (point, (record, value)) in enumerate(zip(todo, found, strict=True), start=1):
                scores.append(record)
                if point == papers:
                    pairs[name] = {PAPERS: value}
                if progress:
                    progress(place * len(todo) + done, len(names) * len(todo), f"{name}, {point.parameter}")
            if moves:
                chosen = [automatic[name]] if test is not None else list(pool.map(_automatic_of, parts))
                settings = [replace(held, sigma=each.sigma) for each in chosen]
                itself = Point("sigma", automatic[name])
                tested[name], pairs[name][AUTOMATIC] = _score_fits(asking, parts, settings, link, itself)
    told = f"{Analytic().told}; {link.told}"
    shared = [] if test is None else _shared(train, test, names)
    return Sweep(scores, held, PAPER, automatic, _compared(pairs, link), notes, told, tested, shared, test is None)


def _shared(train: Triplets, test: Triplets, names: Sequence[str]) -> list[Finding]:
    """Find triplets and references that stand in both tables, as `twoafc.check` does."""
    kept = [replace(table, distances={name: table.distances[name] for name in names}) for table in (train, test)]
    with np.errstate(all="ignore"):
        return overlap(*(view(role, table) for role, table in zip(("train", "test"), kept, strict=True)))


def _automatic(train: Triplets, uniform: Uniform | None = None) -> Density:
    chosen = Density(sigma="auto").fit(train, uniform=uniform).settings
    return replace(chosen, sigma=float(chosen.sigma))


def _automatic_of(part: Part) -> Density:
    return _automatic(part.train, part.uniform)


def _cores() -> int:
    """Cores that this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _threads(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Give threads, which share the tables and leave Python's lock to one another in the sums over kernels.

    What has not begun when an error, or Ctrl-C, comes is not begun.
    """
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, eq=False)
class Part:
    """A table to fit to with its map, which no setting changes, and the rows of the tested table to ask about."""

    train: Triplets
    uniform: Uniform
    rows: BoolArray | slice


def _left_out(train: Triplets, test: Triplets | None, folds: int, seed: int) -> list[BoolArray | None]:
    """List the rows of the training table to leave out in turn; None of them where there is a test table."""
    if test is not None:
        return [None]
    fold = assign_folds(train, folds, seed=seed)
    return [fold == k for k in range(folds)]


def _part(train: Triplets, left_out: BoolArray | None) -> Part:
    kept = train if left_out is None else train.where(~left_out)
    return Part(kept, Uniform.learn(kept.d0, kept.d1), slice(None) if left_out is None else left_out)


def _score(tested: Triplets, parts: Sequence[Part], link: Together, point: Point) -> tuple[Record, Values]:
    """Fit one setting, and score it on triplets that the fit has not seen."""
    return _score_fits(tested, parts, [point.settings] * len(parts), link, point)


def _score_fits(
    tested: Triplets, parts: Sequence[Part], settings: Sequence[Density], link: Together, point: Point
) -> tuple[Record, Values]:
    """Fit each part with settings of its own, and score all of them together under the name of one point."""
    P = np.empty(len(tested))
    for part, each in zip(parts, settings, strict=True):
        fit = each.fit(part.train, uniform=part.uniform)
        P[part.rows] = fit.probability(tested.d0[part.rows], tested.d1[part.rows])
    (name,) = tested.distances
    one = scored(
        Prediction(Run(name, "density", None, fit), "test", tested, P, False, floor_of(tested, len(P))),
        Settings(),
        link,
    )
    assert one.values is not None  # P of a density is always a number
    bars = errors(one.values, None, link)
    (told,) = with_bars([record for record in one.records if record["group"] == "all"], bars)
    kept = [f"{measure}{end}" for measure in MEASURES for end in ("", "_se", "_low", "_high")]
    head = {"distance": name, "parameter": point.parameter}
    named = {"sigma": point.settings.sigma, "grid_size": each.grid_size}
    return head | named | {each: told[each] for each in ("triplets", "votes", *kept)}, one.values


def _compared(pairs: Mapping[str, Mapping[str, Values]], link: Together) -> list[Record]:
    """Compare the automatic sigma with the paper's for every distance, p-values corrected over the distances."""
    told = COMPARED[2]["nll"]
    found = [
        {"distance": name, **record}
        for name, values in pairs.items()
        for record in compare(values, link, estimator="density", measures={"nll": told})
    ]
    known = [record for record in found if record["p"] is not None]
    for record, p in zip(known, holm([record["p"] for record in known]).tolist(), strict=True):
        ends = [record[key] for key in ("difference", "se", "low", "high")]
        told_again = sentence(told, record["a"], record["b"], ends, p)
        record |= {"p_holm": p, "different": p < 1 - LEVEL, "sentence": told_again}
    return found

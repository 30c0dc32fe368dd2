"""Cross-validation from counts: each triplet of a cell is in one fold at random, and scored by a fit to the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray, IntArray
from twoafc.counted import ByReference, CountedTriplets
from twoafc.counts import Counts
from twoafc.estimators import Density, Network, Spline, Surface
from twoafc.evaluation.binning import alike
from twoafc.evaluation.gathering import gathered
from twoafc.evaluation.loop import Job, Prediction, floor_of, probability_at
from twoafc.evaluation.settings import Settings
from twoafc.results import Run


def left_out(job: Job, run: Run, counts: Counts, table: CountedTriplets, settings: Settings) -> Iterator[Prediction]:
    """Give P on each fold of counts from a fit to the others, and last on all of them together, as split "test".

    Parameters
    ----------
    run : Run
        The fit to all of them.
    table : CountedTriplets
        The counts as a table.
    """
    parts: list[tuple[CountedTriplets, FloatArray]] = []
    rows: list[IntArray] = []
    failed = False
    for place, drawn in enumerate(counts.drawn(settings.folds, seed=settings.seed)):
        some = np.flatnonzero(drawn)
        others = counts.cells.with_columns(count=pl.col("count") - pl.Series(drawn)).filter(pl.col("count") > 0)
        refit = replace(run, fit=_fit(job, run, replace(counts, cells=others, clusters=None)))
        P = probability_at(refit, table.places.d0, table.places.d1)
        part = _of(table, some, drawn[some])
        if table.references is None and np.isfinite(P).all():
            part, P = gathered(part, P)
        else:
            P = P[part.place]
        parts.append((part, P))
        rows.append(some)
        failed = failed or refit.diverged
        yield Prediction(run, f"fold-{place}", part, P, refit.diverged, floor_of(table, len(P)))
    P = np.concatenate([P for _, P in parts])
    yield Prediction(
        run, "test", _together(table, [part for part, _ in parts], rows), P, failed, floor_of(table, len(P))
    )


def _fit(job: Job, run: Run, others: Counts) -> Surface:
    """Fit all folds but one; where references say how smooth P is, as smooth as with all, for folds have none."""
    table = CountedTriplets.of(others)
    assert isinstance(job.settings, Density | Network | Spline)
    origin = getattr(run.fit, "origin", None)
    kept = origin is not None and origin.counts.clusters is not None
    return alike(run.fit, table) if kept else job.settings.fit(table)  # type: ignore[arg-type]


def _of(table: CountedTriplets, rows: IntArray, count: IntArray) -> CountedTriplets:
    """Take some rows of a table, with other counts and without references."""
    groups = None if table.groups is None else (table.groups[0], table.groups[1][rows])
    return CountedTriplets(table.places, table.place[rows], table.n[rows], table.M[rows], count, table.uniform, groups)


def _together(table: CountedTriplets, parts: list[CountedTriplets], rows: list[IntArray]) -> CountedTriplets:
    """Put the folds one after the other; a row of the table may then stand in several, each with its own P."""
    place, n, M, count = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("place", "n", "M", "count")
    )
    groups = None
    if table.groups is not None:
        groups = (table.groups[0], np.concatenate([part.groups[1] for part in parts if part.groups is not None]))
    joined = CountedTriplets(table.places, place, n, M, count, table.uniform, groups)
    if table.references is None or table.wide is None:
        return joined
    row = np.concatenate(rows)
    found = np.empty(len(table), dtype=np.int64)
    found[row] = np.arange(len(row))
    ref, wide, first, times = table.references
    return replace(joined, wide=table.wide[row], references=ByReference(ref, wide, found[first], times))

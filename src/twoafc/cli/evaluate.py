"""`twoafc evaluate`: a table of votes and distances to a folder of results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from twoafc.cli.options import Distances, Folds, Json, Pairs, Quiet, Rename, Several, listed
from twoafc.cli.show import present, progress
from twoafc.cli.tables import changed_tables, read_tables, refuse_folds, with_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twoafc.diagnostics import Finding
    from twoafc.table import Votes

DATA, METHOD, COMPARISON, LARGE, OUTPUT = (
    Parameter(group=Group(name, sort_key=place))
    for place, name in enumerate(("Data", "Method", "Comparison", "Large tables", "Output"))
)
"""Groups of the options in the help."""


def evaluate(
    *,
    train: Annotated[str, DATA],
    test: Annotated[str | None, DATA] = None,
    rename: Annotated[Rename, DATA] = None,
    distance: Annotated[Distances, DATA] = None,
    images: Annotated[Path | None, DATA] = None,
    strict: Annotated[bool, DATA] = False,
    estimator: Annotated[Several, METHOD] = None,
    folds: Annotated[Folds, METHOD] = None,
    seeds: Annotated[int, METHOD] = 1,
    seed: Annotated[int, METHOD] = 0,
    sigma: Annotated[float | Literal["auto"] | None, METHOD] = None,
    grid_size: Annotated[int | None, METHOD] = None,
    ties: Annotated[Literal["half", "x0"], METHOD] = "half",
    error_bars: Annotated[Literal["analytic", "fixed", "bootstrap", "refit"], METHOD] = "analytic",
    draws: Annotated[int, METHOD] = 200,
    baseline: Annotated[str | None, COMPARISON] = None,
    pair: Annotated[Pairs, COMPARISON] = (),
    engine: Annotated[Literal["polars", "duckdb", "dask", "spark"] | None, LARGE] = None,
    per_octave: Annotated[int | None, LARGE] = None,
    keep_refs: Annotated[bool, LARGE] = False,
    out: Annotated[Path, OUTPUT] = Path("results"),
    json: Annotated[Json, OUTPUT] = False,
    quiet: Annotated[Quiet, OUTPUT] = False,
) -> None:
    """Fit P(d0, d1) on one table of votes and distances, score it on another, and write a folder of results.

    A table of pairs with "same" votes, NAME_d for each distance, gets P(same | d) and average precision instead.

    Parameters
    ----------
    train
        Table (.csv, .parquet) with n, M (or choice) and NAME_d0, NAME_d1 (pairs: NAME_d) for each distance; or a
        pattern, 'votes/part*.parquet', of a table in several files; or counts that twoafc count has made (.npz).
    test
        Table to score on; without it the training table is cross-validated.
    images
        Folder of the images that the table names, for the report.
    estimator
        auto (the default, a spline), density (the paper's), network, or your own as package.module:Name; once for each.
    baseline
        Compare every other distance with this one, instead of all with each other.
    pair
        Two distances to compare, instead of all with each other; once for each pair.
    seeds
        Runs of an estimator that has a seed; the mean and spread are reported.
    seed
        Seed of the folds and of the first run.
    sigma
        Kernel width of the density estimator, on distances uniformised to [0, 1], or auto; default 1/44.
    grid_size
        Nodes along each axis of the density estimator; default 20.
    ties
        A tie counts one half, as in the field, or as a choice of x0, as in the paper's formula.
    error_bars
        analytic: by formula, for new test triplets and a new training table. fixed: by formula, for new test triplets
        only. bootstrap: the test triplets are resampled. refit: the training table is resampled and fitted again; the
        error over test triplets is added by formula.
    draws
        Tables to draw for bootstrap and refit.
    engine
        Count the tables with this engine (CSV: polars only) and fit and score from the counts, whatever their size;
        default: read them, or count them with polars where they have some millions of rows.
    per_octave
        Bins for each doubling of a distance where tables are counted, a power of two; default 128.
    keep_refs
        Keep references where tables are counted, for clustered error bars; needs a column ref.
    strict
        Treat the warnings of twoafc check as errors.
    out
        Folder of results; an earlier result there is replaced.
    """
    from twoafc.evaluation import Settings
    from twoafc.evaluation import evaluate as run
    from twoafc.results import check_folder
    from twoafc.scale import Counting, Source

    refuse_folds(test, folds)
    distances = listed(distance)
    settings = Settings(folds=folds, seeds=seeds, seed=seed, ties=ties, error_bars=error_bars, draws=draws)
    estimators = _estimators(estimator, {"sigma": sigma, "grid_size": grid_size})
    sources = {role: Source.find(named) for role, named in (("train", train), ("test", test)) if named}
    paths = {role: [Path(part) for part in source.parts] for role, source in sources.items()}
    check_folder(out, [path for files in paths.values() for path in files])
    changed, counting = changed_tables(paths), Counting(engine, per_octave, keep_refs)
    counted = counting != Counting() or any(source.is_large() for source in sources.values())
    given = {"--baseline": baseline, "--pair": pair, "--images": images, "--rename": rename, "--strict": strict}
    refused = next((option for option, value in given.items() if value), None)
    if counted and refused:
        reason = "a counted table must have the standard column names" if refused == "--rename" else "counts have none"
        needed = "a table that is read" if refused == "--rename" else "single triplets"
        raise ValueError(f"{refused} needs {needed}; {reason}")
    tables: dict[str, Any] = {} if counted else {**read_tables(paths, rename)}
    if strict:
        _refuse_warnings(tables, distances, changed)
    with progress(quiet) as show:
        tables = counting.count(sources, distances, show) if counted else tables
        result = run(
            **tables,
            distances=distances,
            estimators=estimators,
            baseline=baseline,
            pairs=pair,
            settings=settings,
            progress=show,
        )
    result = with_files(result, {} if counted else paths, changed)
    if counted:
        for role, source in sources.items():
            result.card["data"][role] |= {"source": source.named, "engine": counting.engine_of(source)}
        result = result.replace(notes=[*counting.notes(sources, tables), *result.notes])
    present(result, out, images=images, json=json, quiet=quiet)


def _estimators(names: Several, density: dict[str, Any]) -> dict[str, Any]:
    """Find estimators by their names; the density has the settings that are given."""
    from twoafc.estimators import Density
    from twoafc.estimators import estimator as find

    given = {name: value for name, value in density.items() if value is not None}
    chosen = {name: find(name) for name in names or (("density",) if given else ("auto",))}
    if given and "density" not in chosen:
        raise ValueError(f"--{next(iter(given)).replace('_', '-')} is a setting of density; add --estimator density")
    return chosen | ({"density": Density(**given)} if given else {})


def _refuse_warnings(tables: dict[str, Votes], distances: tuple[str, ...] | None, changed: Sequence[Finding]) -> None:
    """Raise a `DataError` if `twoafc check` warns of the tables, before any work is done."""
    from twoafc.diagnostics import check
    from twoafc.errors import DataError

    # Only distances that will be evaluated: those asked for, or those in all tables.
    kept = distances or set.intersection(*(set(table.distances) for table in tables.values()))
    asked = [replace(t, distances={k: v for k, v in t.distances.items() if k in kept}) for t in tables.values()]
    warnings = [finding for finding in [*changed, *check(*asked)] if finding.level == "warning"]
    if warnings:
        more = f" (and {len(warnings) - 1} more: run twoafc check)" if len(warnings) > 1 else ""
        raise DataError(f"--strict: {str(warnings[0]).removeprefix('warning: ')}{more}")

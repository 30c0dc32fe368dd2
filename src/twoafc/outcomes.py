"""What finished results say of each tested triplet, under one distance and estimator, whatever the seeds."""

from __future__ import annotations

import numpy as np
import polars as pl

from twoafc.errors import DataError
from twoafc.folder import Results
from twoafc.metrics import log_likelihood


def distances(results: Results) -> list[str]:
    """Names of the distances that were tested, in their order."""
    return [str(name) for name in results.triplets["distance"].unique(maintain_order=True)]


def estimators(results: Results) -> list[str]:
    """Names of the estimators that were tested, in their order."""
    return [str(name) for name in results.triplets["estimator"].unique(maintain_order=True)]


def outcomes(results: Results, distance: str | None = None, estimator: str | None = None) -> pl.DataFrame:
    """Give every tested triplet with its votes, distances, P and NLL; by default of the first distance and estimator.

    Of several seeds P is the mean over those that did not diverge, and the NLL is that of this P.

    Returns
    -------
    polars.DataFrame
        ``triplet`` and the other labels, ``n``, ``M``, ``distance``, ``estimator``, ``d0``, ``d1``, ``P``, ``nll``.
    """
    distance = _known(results, "distance", distances(results), distance)
    estimator = _known(results, "estimator", estimators(results), estimator)
    rows = results.triplets.filter(distance=distance, estimator=estimator)
    runs = [run for run in rows.partition_by("seed", maintain_order=True) if not run["diverged"].any()]
    finite = [run for run in runs if run["P"].is_finite().all()]
    if not finite:
        raise DataError(f"every run of {distance}, {estimator} diverged; there is nothing to tell of its triplets")
    first = finite[0]
    if len(finite) == 1:
        return first.drop("seed", "diverged")
    P = np.mean([run["P"].to_numpy() for run in finite], axis=0)
    nll = -log_likelihood(first["n"].to_numpy(), first["M"].to_numpy(), P)
    return first.drop("seed", "diverged").with_columns(P=pl.Series(P), nll=pl.Series(nll))


def _known(results: Results, what: str, names: list[str], asked: str | None) -> str:
    if asked is not None and asked not in names:
        raise DataError(f"no {what} {asked!r} in {results.folder}; it has {', '.join(names)}")
    return names[0] if asked is None else asked

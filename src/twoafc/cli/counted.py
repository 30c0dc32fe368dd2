"""What `evaluate` does with tables too large to read, and with files of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from twoafc.cli.show import progress

if TYPE_CHECKING:
    from twoafc.estimators import Estimator, Loaded
    from twoafc.evaluation import Evaluation, Settings
    from twoafc.evaluation.sources import Counting, Source


def evaluate_counted(
    sources: Mapping[str, Source],
    estimators: Mapping[str, Estimator],
    settings: Settings,
    counting: Counting,
    *,
    distances: tuple[str, ...] | None,
    out: Path,
    quiet: bool,
) -> Evaluation:
    """Count the tables, fit and score from the counts, and write a folder of results."""
    from twoafc import card, results
    from twoafc.estimators import asked
    from twoafc.evaluation import evaluate_counts

    with progress(quiet) as show:
        counts = counting.count(sources, distances, show)
        found = evaluate_counts(
            counts["train"],
            counts.get("test"),
            distances=distances,
            estimators=estimators,
            settings=settings,
            progress=show,
        )
    found = replace(found, notes=[*counting.notes(sources, counts), *found.notes])
    data = {
        role: card.describe_counts(each, sources[role].named) | {"engine": counting.engine_of(sources[role])}
        for role, each in counts.items()
    }
    used = {run.estimator: asked(cast("Loaded", run.fit)) for run in found.runs}
    results.write(found, out, card.of_evaluation(data, used, settings, found.runs))
    return found

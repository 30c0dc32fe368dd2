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
    from twoafc.estimators.origin import asked
    from twoafc.evaluation import evaluate_counts

    if "test" not in sources:
        raise ValueError("counts hold no triplets that could be left out in folds; give --test")
    with progress(quiet) as show:
        counts = counting.count(sources, distances, show)
        found = evaluate_counts(
            counts["train"],
            counts["test"],
            distances=distances,
            estimators=estimators,
            settings=settings,
            progress=show,
        )
    if (why := _why(sources, counting)) is not None:
        found = replace(found, notes=[why, *found.notes])
    data = {role: card.describe_counts(each, sources[role].named) for role, each in counts.items()}
    used = {run.estimator: asked(cast("Loaded", run.fit)) for run in found.runs}
    results.write(found, out, card.of_evaluation(data, used, settings, found.runs))
    return found


def _why(sources: Mapping[str, Source], counting: Counting) -> str | None:
    """Say why tables were counted where the user did not ask for it."""
    from twoafc.evaluation.sources import MOST_ROWS

    if counting.engine is not None or all(source.holds_counts for source in sources.values()):
        return None
    return f"counted by polars, since a table of more than {MOST_ROWS:,} rows is not read; --engine chooses another"

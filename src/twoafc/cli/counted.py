"""What `evaluate` does with tables too large to read, and with files of counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from twoafc.cli.show import progress

if TYPE_CHECKING:
    from twoafc.estimators import Estimator
    from twoafc.evaluation import Settings
    from twoafc.evaluation.sources import Counting, Source
    from twoafc.results import Result


def evaluate_counted(
    sources: Mapping[str, Source],
    estimators: Mapping[str, Estimator],
    settings: Settings,
    counting: Counting,
    *,
    distances: tuple[str, ...] | None,
    out: Path,
    quiet: bool,
) -> Result:
    """Count the tables, fit and score from the counts, and write a folder of results."""
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
    found = found.replace(notes=[*counting.notes(sources, counts), *found.notes])
    for role in counts:
        found.card["data"][role] |= {"source": sources[role].named, "engine": counting.engine_of(sources[role])}
    found.write(out)
    return found

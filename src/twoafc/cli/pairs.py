"""What `evaluate` and `query` do with pairs: tables with one distance d and "same" votes, and their curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoafc.cli.show import print_table, progress, say, tell_where

if TYPE_CHECKING:
    from twoafc.evaluation import Settings
    from twoafc.jnd import PairsEvaluation
    from twoafc.jnd.curves import FittedCurve


def evaluate_pairs(
    paths: Mapping[str, Path],
    estimators: Mapping[str, Any],
    settings: Settings,
    *,
    distances: tuple[str, ...] | None,
    out: Path,
    quiet: bool,
) -> PairsEvaluation:
    """Fit P(same | d) on the table of the role train, score it, and write a folder of results."""
    from twoafc.jnd import Pairs, card, evaluate, results

    tables = {role: Pairs.read(path) for role, path in paths.items()}
    with progress(quiet) as show:
        found = evaluate(**tables, distances=distances, estimators=estimators, settings=settings, progress=show)
    data = {role: card.describe(table, paths[role]) for role, table in tables.items()}
    results.write(found, out, card.of_evaluation(data, estimators, settings, found.runs), tables["train"])
    return found


def tell_pairs(found: PairsEvaluation, out: Path) -> None:
    """Print the table of scores, the notes, and where the results are."""
    from twoafc.jnd.tables import SHORT
    from twoafc.tables import READING, summary

    table = summary(found.scores, columns=SHORT)
    print_table(table.caption, table.header, table.rows)
    say(READING, f"error bars: {found.error_bars}", *(f"note: {note}" for note in found.notes))
    tell_where(out)


def ask_pairs(fit: FittedCurve, d: float | None, votes: int, observed: int | None) -> dict[str, Any]:
    """Ask a curve; one that was given no distance says what it needs."""
    from twoafc.jnd.models import ask_curve

    if d is None:
        raise ValueError("the model is of pairs and takes one distance; give --d instead of --d0 and --d1")
    return ask_curve(fit, d, votes, observed)

"""Scores of pairs as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from twoafc.jnd.comparisons import COMPARED
from twoafc.scores import Record
from twoafc.tables import Column, Table, by_group, comparison_table, summary

COLUMNS = (
    Column("nll", "NLL ↓", 4),
    Column("nll_floor", "NLL of a constant P", 4),
    Column("nll_simulated", "NLL if P were true", 4),
    Column("nll_per_vote", "NLL per vote ↓", 4),
    Column("agreement", "AJ % ↑", 2),
    Column("average_precision", "AP % ↑, distance only", 2),
    Column("average_precision_simulated", "AP if P were true", 2),
)
SHORT = tuple(column for column in COLUMNS if not column.name.endswith(("_simulated", "_per_vote")))
"""What fits a terminal."""
GROUPED = ("nll", "agreement", "average_precision")


def all_tables(scores: Sequence[Record], comparisons: Sequence[Record]) -> list[Table]:
    """All tables of a result, in order."""
    shown = [summary(scores, columns=COLUMNS), summary(scores, split="train", columns=COLUMNS)]
    shown += [table for measure in GROUPED if (table := by_group(scores, measure, columns=COLUMNS))]
    return shown + [comparison_table(comparisons, measure, COLUMNS) for measure in COMPARED if comparisons]

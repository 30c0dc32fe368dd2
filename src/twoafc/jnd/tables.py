"""Scores of pairs as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from twoafc.jnd.comparisons import COMPARED
from twoafc.scores import Record
from twoafc.tables import Column, Table

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


def summary(scores: Sequence[Record], *, split: str = "test", columns: Sequence[Column] = COLUMNS) -> Table:
    """Every distance and estimator on one split, all pairs pooled, the best likelihood first."""
    found = [record for record in scores if (record["split"], record["group"]) == (split, "all")]
    ordered = sorted(found, key=lambda record: float(record["nll"]))
    rows = [(r["distance"], r["estimator"], *(_number(r, column) for column in columns)) for r in ordered]
    caption = f"Scores on {split}: {found[0]['pairs']} pairs, {found[0]['votes']} votes"
    return Table(caption, ("distance", "estimator", *(column.heading for column in columns)), tuple(rows))


def by_group(scores: Sequence[Record], measure: str, *, split: str = "test") -> Table | None:
    """One measure by group, with the mean of groups and the pooled value last; None where there are no groups."""
    column = next(column for column in COLUMNS if column.name == measure)
    records = {(r["distance"], r["estimator"], r["group"]): r for r in scores if r["split"] == split}
    groups = list(dict.fromkeys(group for *_, group in records))
    if len(groups) < 3:
        return None
    rows = tuple(
        (*key, *(_number(records[(*key, group)], column) for group in groups))
        for key in dict.fromkeys(key[:2] for key in records)
    )
    return Table(f"{column.heading} by group on {split}", ("distance", "estimator", *groups), rows)


def comparison_table(comparisons: Sequence[Record], measure: str) -> Table:
    """All pairs of distances under one measure, as one row each."""
    column = next(column for column in COLUMNS if column.name == measure)
    places = column.decimals
    rows = tuple(
        (
            f"{r['a']} – {r['b']}",
            r["estimator"],
            "–" if r["difference"] is None else f"{r['difference']:+.{places}f}",
            "–" if r["difference"] is None else f"{r['low']:+.{places}f} to {r['high']:+.{places}f}",
            "–" if r["difference"] is None else f"{r['p']:.2g}",
            "–" if r["difference"] is None else f"{r['p_holm']:.2g}",
        )
        for r in comparisons
        if r["measure"] == measure
    )
    header = ("distances", "estimator", "difference", "95 % interval", "p", "p (Holm)")
    return Table(f"Paired differences of {column.heading}", header, rows)


def all_tables(scores: Sequence[Record], comparisons: Sequence[Record]) -> list[Table]:
    """All tables of a result, in order."""
    shown = [summary(scores), summary(scores, split="train")]
    shown += [table for measure in GROUPED if (table := by_group(scores, measure))]
    return shown + [comparison_table(comparisons, measure) for measure in COMPARED if comparisons]


def _number(record: Record, column: Column) -> str:
    """Write a value with its error bar and its letters."""
    value, se = record[column.name], record.get(f"{column.name}_se")
    if value is None:
        return "–"
    text = f"{value:.{column.decimals}f}" + ("" if se is None else f" ± {se:.{column.decimals}f}")
    return " ".join([text, *filter(None, [record.get(f"{column.name}_letters")])])

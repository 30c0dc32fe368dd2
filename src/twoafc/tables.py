"""Score records as tables for people: rows of text, then Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twoafc.inference import Record


@dataclass(frozen=True)
class Column:
    """One measure as people read it: the record's name, the heading, the decimals."""

    name: str
    heading: str
    decimals: int


COLUMNS = {
    2: (
        Column("nll", "NLL ↓", 4),
        Column("explained", "explained %", 0),
        Column("nll_simulated", "NLL if P were true", 4),
        Column("nll_per_vote", "NLL per vote ↓", 4),
        Column("agreement", "AJ % ↑", 2),
        Column("score_2afc", "2AFC % ↑", 2),
        Column("score_2afc_votes", "2AFC % of votes ↑", 2),
        Column("score_2afc_distance", "2AFC % ↑, distance only", 2),
    ),
    1: (
        Column("nll", "NLL ↓", 4),
        Column("nll_floor", "NLL of a constant P", 4),
        Column("nll_simulated", "NLL if P were true", 4),
        Column("nll_per_vote", "NLL per vote ↓", 4),
        Column("agreement", "AJ % ↑", 2),
        Column("average_precision", "AP % ↑, distance only", 2),
        Column("average_precision_simulated", "AP if P were true", 2),
    ),
}
"""Measures of triplets (2) and of pairs (1)."""
GROUPED = {2: ("nll", "agreement", "score_2afc"), 1: ("nll", "agreement", "average_precision")}
"""Measures that are shown by group."""


def kind(scores: Sequence[Record]) -> int:
    """Distances of a row of the scored tables: 2 of triplets, 1 of pairs."""
    return 1 if "pairs" in scores[0] else 2


def columns_of(scores: Sequence[Record]) -> tuple[Column, ...]:
    """Measures of some scores, as a table shows them."""
    return COLUMNS[kind(scores)]


def short(scores: Sequence[Record]) -> list[Column]:
    """Those of them that fit a terminal."""
    return [c for c in columns_of(scores) if not c.name.endswith(("_simulated", "_per_vote", "_votes"))]


BARS = "± standard error"
READING = f"{BARS}; under one estimator, values that share a letter cannot be told apart (paired, Holm, 5 %)"
MOST_GROUPS = 40
"""A table of more groups than this serves no reader; scores.csv has them all."""


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first two columns name the row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary(scores: Sequence[Record], *, split: str = "test", columns: Sequence[Column] = ()) -> Table:
    """Every distance and estimator on one split, all rows pooled, the best likelihood first."""
    columns = columns or columns_of(scores)
    columns = [column for column in columns if column.name != "explained" or any("explained_low" in r for r in scores)]
    records = sorted(_summarised(scores, split, "all"), key=lambda record: _order(record["nll"]))
    rows = [
        (record["distance"], _estimator(record), *(_number(record, column) for column in columns)) for record in records
    ]
    first = records[0]
    rows_of = "pairs" if "pairs" in first else "triplets"
    caption = f"Scores on {split}: {first[rows_of]} {rows_of}, {first['votes']} votes"
    return Table(caption, ("distance", "estimator", *(column.heading for column in columns)), tuple(rows))


def by_group(
    scores: Sequence[Record], measure: str = "nll", *, split: str = "test", columns: Sequence[Column] = ()
) -> Table | None:
    """One measure by group, with the mean of groups and the pooled value last; None where there are no groups."""
    column = next(column for column in columns or columns_of(scores) if column.name == measure)
    groups = list(dict.fromkeys(r["group"] for r in scores if r["split"] == split))
    if not 3 <= len(groups) <= MOST_GROUPS:
        return None
    groups = [group for group in groups if group not in ("mean", "all")] + ["mean", "all"]
    records = {(r["distance"], r["estimator"], r["group"]): r for g in groups for r in _summarised(scores, split, g)}
    pairs = sorted({key[:2] for key in records}, key=lambda pair: _order(records[(*pair, "all")]["nll"]))
    # A row that was scored over all triplets alone (the truth of a simulation) has no groups to show.
    whole = [pair for pair in pairs if all((*pair, group) in records for group in groups)]
    rows = tuple(
        (pair[0], _estimator(records[(*pair, "all")]), *(_number(records[(*pair, group)], column) for group in groups))
        for pair in whole
    )
    return Table(f"{column.heading} by group on {split}", ("distance", "estimator", *groups), rows)


def all_tables(scores: Sequence[Record], comparisons: Sequence[Record]) -> list[Table]:
    """All tables of a result, in order."""
    tables = [summary(scores), summary(scores, split="train")]
    tables += [table for measure in GROUPED[kind(scores)] if (table := by_group(scores, measure))]
    measures = dict.fromkeys(record["measure"] for record in comparisons)
    return tables + [comparison_table(comparisons, measure) for measure in measures]


def _summarised(scores: Sequence[Record], split: str, group: str) -> list[Record]:
    """Records of one split and group; where there are several seeds, their summary alone."""
    found = [record for record in scores if record["split"] == split and record["group"] == group]
    summarised = {(record["distance"], record["estimator"]) for record in found if record.get("runs")}
    return [r for r in found if r.get("runs") or (r["distance"], r["estimator"]) not in summarised]


def _order(value: float | None) -> float:
    return float("inf") if value is None else value


def _estimator(record: Record) -> str:
    """Name the estimator, with the runs that failed: a mean over the others must not pass for one over all."""
    if not record.get("diverged"):
        return str(record["estimator"])
    runs = record.get("runs")
    return (
        f"{record['estimator']} ({record['diverged']} of {runs} diverged)"
        if runs
        else f"{record['estimator']} (diverged)"
    )


def _number(record: Record, column: Column) -> str:
    """Write a value with its error bar, or its spread over seeds, and its letters."""
    if column.name == "explained":
        return explained(record.get("explained_low"), record.get("explained_high")) or "–"
    value, spread = record.get(column.name), record.get(f"{column.name}_se", record.get(f"{column.name}_sd"))
    if value is None:
        return "–"
    text = f"{value:.{column.decimals}f}"
    text = text if spread is None else f"{text} ± {spread:.{column.decimals}f}"
    return " ".join([text, *([record[f"{column.name}_letters"]] if record.get(f"{column.name}_letters") else [])])


def explained(low: float | None, high: float | None) -> str | None:
    """Write the share explained, an interval in %; None where it is not known.

    Examples
    --------
    >>> explained(38.7, 64.2), explained(-12.0, -3.0), explained(-2.0, 104.0)
    ('39 to 64', 'worse than guessing', '0 to 100')
    """
    if low is None or high is None:
        return None
    if high < 0:
        return "worse than guessing"
    # Sampling can carry an end past what there is to explain; the record has it unchanged.
    ends = [f"{min(max(end, 0.0), 100.0):.0f}" for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def comparison_table(comparisons: Sequence[Record], measure: str) -> Table:
    """All pairs of distances under one measure, as one row each."""
    column = next(column for columns in COLUMNS.values() for column in columns if column.name == measure)
    places = column.decimals
    rows = tuple(
        (
            f"{r['a']} – {r['b']}",
            r["estimator"],
            "–" if r["difference"] is None else f"{r['difference']:+.{places}f}",
            "–" if r["se"] is None else f"{r['low']:+.{places}f} to {r['high']:+.{places}f}",
            "–" if r["p"] is None else f"{r['p']:.2g}",
            "–" if r["p_holm"] is None else f"{r['p_holm']:.2g}",
        )
        for r in comparisons
        if r["measure"] == measure
    )
    header = ("distances", "estimator", "difference", "95 % interval", "p", "p (Holm)")
    return Table(f"Paired differences of {column.heading}", header, rows)


def markdown(table: Table) -> str:
    r"""Write a table as Markdown.

    Examples
    --------
    >>> print(markdown(Table("T", ("distance", "estimator", "NLL"), (("a|b", "density", "1.0"),))))
    **T**
    <BLANKLINE>
    | distance | estimator | NLL |
    |---|---|---:|
    | a\|b | density | 1.0 |
    <BLANKLINE>
    """
    lines = [[cell.replace("|", "\\|") for cell in row] for row in (table.header, *table.rows)]
    body = [f"| {' | '.join(line)} |" for line in lines]
    rule = "|---|---|" + "---:|" * (len(table.header) - 2)
    return "\n".join([f"**{table.caption}**", "", body[0], rule, *body[1:], ""])


def latex(table: Table, below: Sequence[str] = ()) -> str:
    """Write a table as LaTeX, for the package booktabs, with notes printed below it."""
    lines = [" & ".join(_escape(cell) for cell in row) + r" \\" for row in (table.header, *table.rows)]
    top = [r"\begin{table}", r"\centering", rf"\caption{{{_escape(table.caption)}}}"]
    tabular = [rf"\begin{{tabular}}{{ll{'r' * (len(table.header) - 2)}}}", r"\toprule", lines[0], r"\midrule"]
    notes = [rf"\par\smallskip{{\footnotesize\raggedright {_escape(note)}\par}}" for note in below]
    return "\n".join([*top, *tabular, *lines[1:], r"\bottomrule", r"\end{tabular}", *notes, r"\end{table}", ""])


def remarks(notes: Sequence[str], ending: str) -> str:
    """Write what a reader of the tables should know below them: a list for ``md``, comments for ``tex``."""
    mark = {"md": "- ", "tex": "% "}[ending]
    return "".join(f"{mark}{note}\n" for note in notes)


LATEX = {
    "\\": r"\textbackslash{}",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "±": r"$\pm$",
    "–": "--",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}


def _escape(text: str) -> str:
    r"""Make text safe for LaTeX.

    Examples
    --------
    >>> print(_escape("lpips_alex 5 % ±"))
    lpips\_alex 5 \% $\pm$
    """
    return "".join(LATEX.get(mark, mark) for mark in text)

"""Scores as tables of text, in Markdown, LaTeX or HTML, and the notes that explain them."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from twoafc.files import legible
from twoafc.inference import Ceiling, Record, places


@dataclass(frozen=True)
class Column:
    """A measure in a table: its name in a record, its heading, and its decimals.

    ``slim`` is its heading in the table for a paper, if it is shown there; ``grouped``, whether it is shown by group.
    """

    name: str
    heading: str
    decimals: int
    slim: str = ""
    grouped: bool = False


COLUMNS = (
    Column("nll", "NLL ↓", 4, slim=r"NLL $\downarrow$", grouped=True),
    Column("explained", "explained %", 0, slim="expl."),
    Column("nll_floor", "NLL of a constant P", 4),
    Column("nll_simulated", "NLL if P were true", 4),
    Column("nll_per_vote", "NLL per vote ↓", 4),
    Column("agreement", "AJ % ↑", 2, grouped=True),
    Column("score_2afc", "2AFC % ↑", 2, grouped=True),
    Column("score_2afc_votes", "2AFC % of votes ↑", 2),
    Column("score_2afc_distance", "2AFC % ↑, distance only", 2, slim=r"2AFC $\uparrow$"),
    Column("average_precision", "AP % ↑, distance only", 2, slim=r"AP $\uparrow$", grouped=True),
    Column("average_precision_simulated", "AP if P were true", 2),
)
"""Measures of triplets and of pairs; a table shows those that its records have."""
BARE = {2: "score_2afc_distance", 1: "average_precision"}
"""The score of the bare distance, without a fit."""
MOST_GROUPS = 40
"""A table of more groups than this would be too wide; scores.csv has all of them."""


def row_of(score: Record) -> str:
    """Return the kind of rows that a score is of: triplet or pair."""
    return "pair" if "pairs" in score else "triplet"


def column_of(measure: str) -> Column:
    """Return the column of a measure."""
    return next(column for column in COLUMNS if column.name == measure)


def columns_of(scores: Sequence[Record], *, short: bool = False) -> list[Column]:
    """Return the measures of some scores; if short, those that fit a terminal or a page."""
    left_out = ("_simulated", "_per_vote", "_votes") if short else ()
    share = any("explained_low" in record for record in scores)
    names = scores[0].keys() | ({"explained"} if share else set())
    return [column for column in COLUMNS if column.name in names and not column.name.endswith(left_out)]


def reading(scores: Sequence[Record]) -> str:
    """Explain error bars and letters; there are letters only if all distances were compared."""
    lettered = Counter(record["estimator"] for record in scores if "nll_letters" in record)
    if not lettered:
        return "± standard error"
    test = f"paired test{', Holm' if max(lettered.values()) > 2 else ''}, 5 %"
    return f"± standard error; under one estimator, values that share a letter cannot be told apart ({test})"


@dataclass(frozen=True)
class Table:
    """Rows of text under a header of the same length."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary_table(scores: Sequence[Record], *, split: str = "test", short: bool = False) -> Table:
    """Tabulate every distance and estimator on one split, all rows pooled, the best NLL first."""
    columns = columns_of(scores, short=short)
    records = sorted(shown(scores, split), key=_nll)
    rows = [
        (record["distance"], _estimator(record), *(cell(record, column) for column in columns)) for record in records
    ]
    first = records[0]
    rows_of = f"{row_of(first)}s"
    caption = f"Scores on {split}: {first[rows_of]} {rows_of}, {first['votes']} votes"
    return Table(caption, ("distance", "estimator", *(column.heading for column in columns)), tuple(rows))


def summary_records(scores: Sequence[Record]) -> list[Record]:
    """Return a few measures of every distance and estimator on the tested rows, all pooled, the best NLL first."""
    second = "score_2afc" if row_of(scores[0]) == "triplet" else "average_precision"
    names = ("distance", "estimator", "nll", "nll_se", "nll_letters", second, f"{second}_se")
    records = sorted(shown(scores), key=_nll)
    kept = [name for name in names if any(name in record for record in records)]
    share = any("explained_low" in record for record in records)
    return [
        {name: record.get(name) for name in kept}
        | ({"explained": explained(record.get("explained_low"), record.get("explained_high"))} if share else {})
        for record in records
    ]


def group_table(scores: Sequence[Record], measure: str = "nll") -> Table | None:
    """Tabulate one measure by group, with the mean of groups and the pooled value last; None if there are no groups."""
    tested = shown(scores, group=None)
    column = column_of(measure)
    groups = list(dict.fromkeys(r["group"] for r in tested))
    if not 3 <= len(groups) <= MOST_GROUPS:
        return None
    groups = [group for group in groups if group not in ("mean", "all")] + ["mean", "all"]
    records = {(*key_of(record), record["group"]): record for record in tested}
    pairs = sorted({key[:2] for key in records}, key=lambda pair: _nll(records[(*pair, "all")]))
    # A row that was scored over all triplets alone (the truth of a simulation) has no groups to show.
    whole = [pair for pair in pairs if all((*pair, group) in records for group in groups)]
    rows = tuple(
        (pair[0], _estimator(records[(*pair, "all")]), *(cell(records[(*pair, group)], column) for group in groups))
        for pair in whole
    )
    return Table(f"{column.heading} by group on test", ("distance", "estimator", *groups), rows)


def all_tables(scores: Sequence[Record], comparisons: Sequence[Record]) -> list[Table]:
    """Return all tables of a result, in order."""
    tables = [summary_table(scores), summary_table(scores, split="train")]
    grouped = [column.name for column in columns_of(scores) if column.grouped]
    tables += [table for measure in grouped if (table := group_table(scores, measure))]
    measures = dict.fromkeys(record["measure"] for record in comparisons)
    return tables + [comparison_table(comparisons, measure) for measure in measures]


def key_of(record: Record) -> tuple[str, str]:
    """Return the distance and the estimator of a record."""
    return record["distance"], record["estimator"]


def shown(scores: Sequence[Record], split: str = "test", group: str | None = "all") -> list[Record]:
    """Return the records of one split and group, or of all groups; with several seeds, only their summary."""
    records = [record for record in scores if record["split"] == split and group in (None, record["group"])]
    over = {(*key_of(record), record["group"]) for record in records if record.get("runs")}
    return [record for record in records if record.get("runs") or (*key_of(record), record["group"]) not in over]


def all_diverged(record: Record) -> bool:
    """Whether every run behind a record diverged."""
    return bool(record.get("diverged")) and record["diverged"] >= (record.get("runs") or 1)


def _nll(record: Record) -> float:
    return math.inf if record["nll"] is None else float(record["nll"])


def _estimator(record: Record) -> str:
    """Name the estimator, and say how many runs diverged: these are not in the mean."""
    if not record.get("diverged"):
        return str(record["estimator"])
    count = f"{record['diverged']} of {record['runs']} " if record.get("runs") else ""
    return f"{record['estimator']} ({count}diverged)"


def cell(record: Record, column: Column) -> str:
    """Write a value with its error bar, or its spread over seeds, and its letters."""
    if column.name == "explained":
        return explained(record.get("explained_low"), record.get("explained_high")) or "–"
    value, spread = record.get(column.name), record.get(f"{column.name}_se", record.get(f"{column.name}_sd"))
    if value is None:
        return "–"
    text = f"{value:.{column.decimals}f}"
    if spread is not None:
        text += f" ± {spread:.{column.decimals}f}"
    return f"{text} {record.get(f'{column.name}_letters') or ''}".rstrip()


def explained(low: float | None, high: float | None) -> str | None:
    """Write the explained share, an interval in %; None if it is not known.

    Examples
    --------
    >>> explained(38.7, 64.2), explained(-12.0, -3.0), explained(-2.0, 104.0)
    ('39 to 64', 'worse than guessing', '0 to 100')
    """
    if low is None or high is None:
        return None
    if high < 0:
        return "worse than guessing"
    # By sampling error an end can lie outside of [0, 100]; the record has it unchanged.
    ends = [f"{min(max(end, 0.0), 100.0):.0f}" for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def comparison_table(comparisons: Sequence[Record], measure: str) -> Table:
    """Tabulate the comparisons under one measure; interval and p have the same correction."""
    column = column_of(measure)
    digits = column.decimals
    records = [record for record in comparisons if record["measure"] == measure]
    rows = tuple(
        (
            f"{r['a']} – {r['b']}",
            r["estimator"],
            "–" if r["difference"] is None else f"{r['difference']:+.{digits}f}",
            "–" if r["se"] is None else f"{r['low_holm']:+.{digits}f} to {r['high_holm']:+.{digits}f}",
            "–" if r["p_holm"] is None else f"{r['p_holm']:.2g}",
        )
        for r in records
    )
    holm = " (Holm)" if any(r["tests"] > 1 for r in records) else ""
    header = ("distances", "estimator", "difference", f"95 % interval{holm}", f"p{holm}")
    return Table(f"Paired differences of {column.heading}", header, rows)


def plain_text(table: Table) -> str:
    """Write a table as text, for a terminal of any width.

    Examples
    --------
    >>> print(plain_text(Table("T", ("distance", "estimator", "NLL"), (("a", "density", "1.0"),))))
    distance  estimator  NLL
    a         density    1.0
    """
    rows = [table.header, *table.rows]
    columns = [[cell.ljust(max(map(len, column))) for cell in column] for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def plain_html(table: Table) -> str:
    """Write a table as HTML, for a notebook."""
    head, *body = (
        "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
        for tag, rows in (("th", [table.header]), ("td", table.rows))
        for row in rows
    )
    caption = html.escape(table.caption)
    lines = "".join(f"<tr>{line}</tr>" for line in body)
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


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
    lines = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in row] for row in (table.header, *table.rows)]
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


LONG = 22
"""Names with more letters than this are wrapped in the table for a paper."""


def paper_table(
    scores: Sequence[Record],
    ceiling: Ceiling | None = None,
    error_bars: str = "",
    planned: Sequence[Record] = (),
    *,
    weighted: bool = False,
) -> str:
    """Write the tested scores as one LaTeX table as wide as a column of print, for the package booktabs.

    Each estimator has its own part, the best distance first. Notes below explain ± and letters, and list the planned
    comparisons.
    """
    records = sorted(shown(scores), key=_nll)
    known = ceiling is not None and ceiling.known
    columns = [c for c in columns_of(scores) if c.slim and (c.name != "explained" or known)]
    lettered = {c.name for c in columns if any(record.get(f"{c.name}_letters") for record in records)}
    estimators = list(dict.fromkeys(record["estimator"] for record in records))
    row = row_of(records[0])
    by = "" if len(estimators) > 1 else f"; P fitted by {estimators[0]}"
    caption = f"Distances scored on {records[0][f'{row}s']:,} {row}s with {records[0]['votes']:,} votes{by}."
    notes = ["Scores are weighted by sampling weights."] * weighted + _slim_notes(row, ceiling, error_bars)
    if lettered:
        several = len({record["distance"] for record in records}) > 2
        tests = "paired tests, Holm-corrected, 5 %" if several else "paired test, 5 %"
        notes.append(f"Values of a column that share a letter cannot be told apart ({tests}).")
    for record in (one for one in planned if one["measure"] == "nll"):
        label = f"{record['estimator']}: " if len(estimators) > 1 else ""
        notes.append(f"{label}{record['sentence']}.")
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escape(caption)}}}",
            r"\label{tab:twoafc}",
            r"\footnotesize\setlength{\tabcolsep}{4pt}",
            *_slim_tabular(records, columns, lettered),
            rf"\par\smallskip\parbox{{\columnwidth}}{{\scriptsize\raggedright {_escape(' '.join(notes))}}}",
            r"\end{table}",
            "",
        ]
    )


def _slim_tabular(records: Sequence[Record], columns: Sequence[Column], lettered: Collection[str]) -> list[str]:
    """Return the lines of the tabular of `paper_table`, with a part for each estimator."""
    wide = max(len(record["distance"]) for record in records) > LONG
    # A value and its letters are two columns close together, so that both are aligned.
    form = r"p{0.3\columnwidth}" if wide else "l"
    form += "".join("r@{\\,}l" if c.name in lettered else "r" for c in columns)
    heads = [rf"\multicolumn{{{1 + (c.name in lettered)}}}{{c}}{{{c.slim}}}" for c in columns]
    body: dict[str, list[str]] = {}
    for record in records:
        cells = [_escape(record["distance"]).replace(r"\_", r"\_\allowbreak{}" if wide else r"\_")]
        for c in columns:
            cells += [_slim(record, c.name), *([record.get(f"{c.name}_letters") or ""] if c.name in lettered else [])]
        body.setdefault(record["estimator"], []).append(" & ".join(cells) + r" \\")
    across = 1 + len(columns) + len(lettered)
    for label, lines in body.items() if len(body) > 1 else ():
        lines.insert(0, rf"\addlinespace \multicolumn{{{across}}}{{@{{}}l}}{{\emph{{{_escape(label)}}}}} \\")
    return [
        rf"\begin{{tabular}}{{@{{}}{form}@{{}}}}",
        r"\toprule",
        " & ".join(["distance", *heads]) + r" \\",
        r"\midrule",
        *(line for lines in body.values() for line in lines),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _slim(record: Record, name: str) -> str:
    """Write a value of `paper_table` with the digits that its error allows."""
    if name == "explained":
        share = explained(record.get("explained_low"), record.get("explained_high")) or "--"
        return share.replace(" to ", "--").replace("worse than guessing", "$<0$")
    value, spread = record.get(name), record.get(f"{name}_se", record.get(f"{name}_sd"))
    if value is None or not math.isfinite(value):
        return "--" if value is None else r"$\infty$"
    if spread is None or not spread > 0:
        return f"{value:.3f}" if name == "nll" else f"{value:.1f}"
    digits = places(spread, most=4)
    return rf"{value:.{digits}f} $\pm$ {spread:.{digits}f}"


def _slim_notes(row: str, ceiling: Ceiling | None, error_bars: str) -> list[str]:
    """Explain the measures of `paper_table`, in sentences."""
    bare = {
        "triplet": "2AFC: votes that the distance alone agrees with",
        "pair": "AP: average precision of the distance alone",
    }
    notes = [f"NLL: negative log-likelihood, nats per {row}.", f"{bare[row]}, in %."]
    notes.append(f"± standard error{f' ({error_bars})' if error_bars else ''}.")
    if ceiling is not None:
        notes.append(f"P = 1/2 has NLL {ceiling.floor_nll:.3f}.")
    if ceiling is not None and ceiling.known:
        least, most = ceiling.nll_lowest, ceiling.nll_highest
        notes.append(f"The best function of a triplet has NLL between {least:.3f} and {most:.3f};")
        notes.append("expl.: how far a distance comes from P = 1/2 to there, in %.")
    return notes


def note_lines(notes: Sequence[str], ending: str) -> str:
    """Write notes below a table: a list for ``md``, comments for ``tex``."""
    mark = {"md": "- ", "tex": "% "}[ending]
    return "".join(f"{mark}{note}\n" for note in notes)


def ceiling_sentences(ceiling: Ceiling | None) -> list[str]:
    """State floor, ceiling and the agreement between people, one sentence each."""
    if ceiling is None:
        return []
    floor = f"floor: P = 1/2 has NLL {ceiling.floor_nll:.4f} and 2AFC 50 %"
    if not ceiling.known:
        return [f"{floor}; {ceiling.note}"]
    best = (
        "ceiling: the best function of the triplet has "
        f"NLL between {ceiling.nll_lowest:.4f} and {ceiling.nll_highest:.4f}, "
        f"2AFC between {ceiling.score_2afc_lowest:.1f} and {ceiling.score_2afc_highest:.1f} %"
    )
    by_triplets, by_pairs = (
        f"{value:.2f} %" if math.isnan(se) else f"{value:.2f} ± {se:.2f} %"
        for value, se in (
            (ceiling.human_triplets, ceiling.human_triplets_se),
            (ceiling.human_pairs, ceiling.human_pairs_se),
        )
    )
    people = f"people: one agrees with another on {by_triplets} of votes"
    if by_pairs != by_triplets:
        people += f" as the mean over triplets, {by_pairs} over all {ceiling.pairs} pairs"
    return [floor, f"{best}; {ceiling.note}" if ceiling.note else best, people]


LATEX = {
    "\\": r"\textbackslash{}",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "±": r"$\pm$",
    "–": "--",
    "\ufffd": "?",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}


def _escape(text: str) -> str:
    r"""Make text safe for LaTeX.

    Examples
    --------
    >>> print(_escape("lpips_alex 5 % ±"))
    lpips\_alex 5 \% $\pm$
    """
    return "".join(LATEX.get(mark, mark) for mark in legible(text))

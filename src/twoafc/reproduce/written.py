"""Tables in the paper's layout as CSV, Markdown and LaTeX, and as text for a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from twoafc import tables
from twoafc.measurement.files import write_text, write_whole
from twoafc.reproduce.layout import Cell, Layout, Line
from twoafc.reproduce.printed import slips
from twoafc.scores import Record

Cells = tuple[str, ...]


def rows_of(layout: Layout, *, comparable: bool = True) -> list[tuple[Line, list[tuple[str, Cells]]]]:
    """Write every line of a table as rows of text: the paper's, ours, and the difference.

    Parameters
    ----------
    comparable : bool
        Whether the data are the paper's, so that a difference means something.
    """
    found = []
    for line in layout.lines:
        rows = {
            "paper": tuple(_printed(cell, line.printed_form) for cell in line.cells),
            "here": tuple(_ours(cell, line.form) for cell in line.cells),
        }
        if comparable if layout.differences is None else layout.differences:
            rows["difference"] = tuple(_difference(cell, line.form) for cell in line.cells)
        told = [(which, cells) for which, cells in rows.items() if any(cell != "–" for cell in cells)]
        found.append((line, told))
    return found


def _printed(cell: Cell, form: str) -> str:
    if cell.printed is None:
        return "–"
    spread = "" if cell.printed_sd is None else f" ± {cell.printed_sd:{form}}"
    return f"{cell.printed:{form}}{spread}{f' [{cell.slip}]' if cell.slip else ''}"


def _ours(cell: Cell, form: str) -> str:
    if cell.ours is None:
        return "–"
    return f"{cell.ours:{form}}{'' if cell.se is None else f' ± {cell.se:{form}}'}"


def _difference(cell: Cell, form: str) -> str:
    if cell.difference is None:
        return "–"
    text = f"{cell.difference:+{form}}"
    # A zero has no sign, whatever was rounded to it.
    return text if float(text) else text[1:]


def as_table(layout: Layout, *, comparable: bool = True) -> tables.Table:
    """Write a table as the tables of `twoafc.tables` are: two columns name the row."""
    rows: list[Cells] = []
    before = ""
    for line, written in rows_of(layout, comparable=comparable):
        for which, cells in written:
            rows.append((line.labels[0] if line.labels[0] != before else "", f"{line.labels[1]}, {which}", *cells))
            before = line.labels[0]
    caption = f"{layout.title}. {layout.caption}"
    return tables.Table(caption, (*layout.names, *layout.columns), tuple(rows))


def as_frame(layout: Layout) -> pl.DataFrame:
    """Give a table as a frame of numbers: a row for each of printed, printed_sd, here, se, sd and difference."""
    rows: list[Record] = []
    for line in layout.lines:
        for which, name in (
            ("printed", "printed"),
            ("printed_sd", "printed_sd"),
            ("printed_corrected", "instead"),
            ("here", "ours"),
            ("here_se", "se"),
            ("here_sd", "sd"),
            ("difference", "difference"),
        ):
            values = [getattr(cell, name) for cell in line.cells]
            if any(value is not None for value in values):
                named = dict(zip(layout.columns, values, strict=True))
                rows.append({layout.names[0]: line.labels[0], layout.names[1]: line.labels[1], "value": which, **named})
    schema = dict.fromkeys((*layout.names, "value"), pl.String) | dict.fromkeys(layout.columns, pl.Float64)
    return pl.DataFrame(rows, schema=schema)


def footnotes(table: tables.Table, notes: Sequence[str] = ()) -> list[str]:
    """Write out the slips whose numbers stand in a table, or in its notes.

    Examples
    --------
    >>> footnotes(tables.Table("T", ("a",), (("70.31 [2]",),)))[0][:30]
    '[2] Table 5: The row 2AFC scor'
    """
    shown = " ".join([*notes, *(cell for row in table.rows for cell in row)])
    return [
        f"[{number}] {slip.where}: {slip.says} {slip.holds}"
        for number, slip in enumerate(slips(), 1)
        if f"[{number}]" in shown
    ]


def write_table(layout: Layout, folder: Path, remarks: Sequence[str] = (), *, comparable: bool = True) -> list[str]:
    """Write a table as NAME.csv, NAME.md and NAME.tex, each whole or not at all; give the files' names.

    Parameters
    ----------
    remarks : sequence of str
        What stands below the table, before its own notes and the slips that it is subject to.
    """
    write_whole(as_frame(layout), folder / f"{layout.name}.csv", {})
    table = as_table(layout, comparable=comparable)
    for ending, form in (("md", tables.markdown), ("tex", tables.latex)):
        below = [*remarks, *layout.notes, *footnotes(table, layout.notes)]
        text = "\n".join([form(table), tables.remarks(below, ending)])
        write_text(text, folder / f"{layout.name}.{ending}")
    return [f"{layout.name}.{ending}" for ending in ("csv", "md", "tex")]

"""Tables in the paper's layout as CSV, Markdown and LaTeX, and as text for a page."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import polars as pl

from twoafc import tables
from twoafc.measurement import write_text, write_whole
from twoafc.reproduce.layout import Cell, Layout, Line
from twoafc.reproduce.printed import slips
from twoafc.scores import Record

Cells = tuple[str, ...]


def rows_of(layout: Layout) -> list[tuple[Line, list[tuple[str, Cells]]]]:
    """Write every line of a table as rows of text: the paper's, ours, and the difference; none that would be empty."""
    found = []
    for line in layout.lines:
        rows = {
            "paper": tuple(_printed(cell, line.printed_form) for cell in line.cells),
            "here": tuple(_ours(cell, line.form) for cell in line.cells),
            "difference": tuple(_difference(cell, line.form) for cell in line.cells),
        }
        told = [(which, cells) for which, cells in rows.items() if any(cell != "–" for cell in cells)]
        found.append((line, told))
    return found


def _printed(cell: Cell, form: str) -> str:
    if cell.printed is None:
        return "–"
    spread = "" if cell.printed_sd is None else f" ± {cell.printed_sd:{form}}"
    return f"{_half_up(cell.printed, form)}{spread}{f' [{cell.slip}]' if cell.slip else ''}"


def _half_up(value: float, form: str) -> str:
    """Round a figure as people do, whose last digit may be a five.

    Examples
    --------
    >>> f"{63.095:.2f}", _half_up(63.095, ".2f")
    ('63.09', '63.10')
    """
    if form != ".2f":
        return f"{value:{form}}"
    return str(Decimal(repr(value)).quantize(Decimal("0.01"), ROUND_HALF_UP))


def _ours(cell: Cell, form: str) -> str:
    if cell.ours is None:
        return "–"
    spread = "" if cell.sd is None else f" ± {cell.sd:{form}}"
    return f"{cell.ours:{form}}{spread}{'' if cell.se is None else f' (SE {cell.se:{form}})'}"


def _difference(cell: Cell, form: str) -> str:
    if cell.difference is None:
        return "–"
    text = f"{cell.difference:+{form}}"
    # A zero has no sign, whatever was rounded to it.
    return text if float(text) else text[1:]


def as_table(layout: Layout) -> tables.Table:
    """Write a table as the tables of `twoafc.tables` are: two columns name the row."""
    rows: list[Cells] = []
    before = ""
    for line, written in rows_of(layout):
        for which, cells in written:
            rows.append((line.labels[0] if line.labels[0] != before else "", f"{line.labels[1]}, {which}", *cells))
            before = line.labels[0]
    return tables.Table(layout.heading, (*layout.names, *layout.columns), tuple(rows))


def as_frame(layout: Layout) -> pl.DataFrame:
    """Give a table as a frame of numbers: a row for each of printed, printed_sd, here, se, sd and difference.

    The first column says of each row whether all that is found here rests on the same as what is printed.
    """
    rows: list[Record] = []
    for line in layout.lines:
        alike = all(cell.compared for cell in line.cells)
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
                head = {"comparable": alike, **dict(zip(layout.names, line.labels, strict=True)), "value": which}
                rows.append({**head, **named})
    text, numbers = dict.fromkeys((*layout.names, "value"), pl.String), dict.fromkeys(layout.columns, pl.Float64)
    schema = {"comparable": pl.Boolean, **text, **numbers}
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


def below(layout: Layout, remarks: Sequence[str] = ()) -> list[str]:
    """List what stands below a table: remarks on its data, its notes, and the slips that it is subject to."""
    told = [*(remarks if layout.of_data else ()), *layout.notes]
    return [*told, *footnotes(as_table(layout), told)]


def write_table(layout: Layout, folder: Path, remarks: Sequence[str] = ()) -> list[str]:
    """Write a table as NAME.csv, NAME.md and NAME.tex, each whole or not at all; give the files' names.

    Parameters
    ----------
    remarks : sequence of str
        What stands below a table that depends on the data, before its own notes.
    """
    table, notes = as_table(layout), below(layout, remarks)
    write_whole(as_frame(layout), folder / f"{layout.name}.csv", {})
    write_text("\n".join([tables.markdown(table), tables.remarks(notes, "md")]), folder / f"{layout.name}.md")
    write_text(tables.latex(table, notes), folder / f"{layout.name}.tex")
    return [f"{layout.name}.{ending}" for ending in ("csv", "md", "tex")]

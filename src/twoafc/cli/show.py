"""Shared by commands: printing of text, tables, JSON and progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoafc.files import legible, strict_json

if TYPE_CHECKING:
    from rich.console import Console

    from twoafc.fetch import Progress
    from twoafc.results import Result

LEADS = {"warning": "bold yellow", "Caution": "bold yellow", "note": "bold cyan", "hint": "bold cyan"}
"""First words of lines that a terminal shows in colour."""
AROUND = 3
"""Characters between two columns of a table."""


def printed(value: Any, json: bool, quiet: bool = False) -> bool:
    """Print a value as JSON if requested, null for numbers that are not finite; return whether that is all."""
    if json:
        print(strict_json(value, indent=1))
    return json or quiet


def _console(**settings: Any) -> Console:
    """Open a console that raises `BrokenPipeError` when nobody reads it, instead of ending the program."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Ours(highlight=False, **settings)


@contextmanager
def unread() -> Iterator[None]:
    """Ignore that nobody reads standard output any more, as with ``| head``."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_result(result: Result) -> None:
    """Print the verdict, the table of scores and the notes."""
    from twoafc.results import ceiling_sentences, reading, summary_table

    verdict = result.verdict()
    say(*verdict)
    table = summary_table(result.scores, short=True)
    print_table(table.caption, table.header, table.rows)
    if result.card.get("planned"):
        compared = result.compare()
        sentences = (sentence for measure in compared.shown for sentence in compared.sentences(measure))
        say(*(sentence for sentence in sentences if f"{sentence}." not in verdict))
    if result.error_bars:
        say(reading(result.scores), f"error bars: {result.error_bars}", *ceiling_sentences(result.ceiling))
    say(
        *(f"note: {note}" for note in result.notes),
        *(str(finding) for finding in result.findings if not finding.caveat),
    )


def present(result: Result, out: Path, *, images: Path | None, json: bool, quiet: bool, made: str = "") -> None:
    """Print a result, write its folder, and print where it is, and the line `made`, if any."""
    shown = not (json or quiet)
    if shown:  # before the files, which take as long as the statistics
        with unread():
            print_result(result)
    result.write(out, images=images)
    if shown:
        tell_where(out)
        if made:
            print(made)
    elif json:
        print((out / "scores.json").read_text(encoding="utf-8"))


def tell_where(out: Path) -> None:
    """Print where the results are, and the page that shows them."""
    print(f"Results: {out}")
    print(f"Report: {out / 'report.html'}")


def say(*texts: str) -> None:
    """Print texts; on a terminal wrapped at words, with warnings and notes in colour."""
    if not sys.stdout.isatty():
        for text in texts:
            print(legible(text, keep="\n"))
        return
    from rich.text import Text

    console = _console()
    for text in texts:
        line = Text(legible(" ".join(text.split())))
        lead = line.plain.partition(":")[0]
        if lead in LEADS:
            line.stylize(LEADS[lead], 0, len(lead) + 1)
        console.print(line)


def print_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with every cell whole; on a terminal in colour, and in several parts if it is too wide.

    Every part begins with the columns that name a row: distance and estimator, or else the first.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    # Names come from files, and may contain control characters.
    caption, header = legible(caption), [legible(name) for name in header]
    rows = [[legible(cell) for cell in row] for row in rows]
    named = header[0] == "distance"
    names, on_terminal = 2 if named else 1, sys.stdout.isatty()
    # Of each column with the space around it; a terminal breaks headings at words.
    heads = [name.split() or [""] if on_terminal else [name] for name in header]
    cells = [[*head, *(row[column] for row in rows)] for column, head in enumerate(heads)]
    widths = [AROUND + max(map(cell_len, column)) for column in cells]
    room = _console().width if on_terminal else 1 + sum(widths)
    for place, columns in enumerate(parts(widths, names, room)):
        title = None if place else Text(caption, style="bold")
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for column in columns:
            left = named and column < names
            kind: Any = {"justify": "left" if left else "right", "style": "cyan" if named and column == 0 else ""}
            table.add_column(Text(header[column]), min_width=widths[column] - AROUND, **kind)
        for row in rows:
            table.add_row(*(Text(row[column]) for column in columns))
        # At its own width: a terminal that is too narrow for two columns breaks lines, and nothing is cut off.
        _console(width=max(1 + sum(widths[column] for column in columns), room)).print(table)


def parts(widths: Sequence[int], names: int, room: int) -> list[list[int]]:
    """Divide columns among tables that are no wider than the room; each begins with those that name the rows.

    Examples
    --------
    >>> parts([10, 8, 8, 8, 8], 1, 30)
    [[0, 1, 2], [0, 3, 4]]
    >>> parts([10, 8, 8], 1, 5)
    [[0, 1], [0, 2]]
    """
    head = list(range(names))
    tables: list[list[int]] = [head]
    for column in range(names, len(widths)):
        wide = 1 + sum(widths[at] for at in (*tables[-1], column))
        if wide > room and len(tables[-1]) > names:
            tables.append(head)
        tables[-1] = [*tables[-1], column]
    return tables


@contextmanager
def progress(quiet: bool, *columns: Any) -> Iterator[Progress | None]:
    """Show a progress bar if standard error is a terminal; `columns` are those of `rich.progress`, or its defaults."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(done: int, total: int | None, what: str) -> None:
            for name, task in tasks.items():
                bar.update(task, visible=name == what)
            if what not in tasks:
                # What was done before the run began is no part of its rate.
                tasks[what] = bar.add_task(what, total=total, completed=done)
            bar.update(tasks[what], completed=done, total=total)

        yield show


def rate(quiet: bool) -> AbstractContextManager[Progress | None]:
    """Show a progress bar with rate and time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s")

    description = TextColumn("{task.description}")
    return progress(quiet, description, BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())

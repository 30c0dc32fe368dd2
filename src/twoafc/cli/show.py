"""What commands share: tables and progress on a terminal, and the kinds of their options."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from twoafc.evaluation import Evaluation, Progress

Several = Annotated[tuple[str, ...] | None, Parameter(negative="")]
Switch = Annotated[bool, Parameter(negative="")]


def tell(found: Evaluation, out: Path) -> None:
    """Print the table of scores, the notes, and where the results are."""
    from twoafc import tables
    from twoafc.evaluation.reach import told_ceiling

    table = tables.summary(found.scores, columns=tables.SHORT)
    print_table(table.caption, table.header, table.rows)
    if found.error_bars:
        print(f"{tables.READING}\nerror bars: {found.error_bars}")
        for line in told_ceiling(found.ceiling) if found.ceiling else ():
            print(line)
    for note in found.notes:
        print(f"note: {note}")
    for finding in found.findings:
        print(finding)
    print(f"Results: {out}")


def print_table(caption: str, header: Any, rows: Any) -> None:
    """Print a table: in colour on a terminal, plain and whole where the output goes elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    table = Table(title=caption, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place < 2 and header[0] == "distance" else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


@contextmanager
def progress(quiet: bool) -> Iterator[Progress | None]:
    """Show a progress bar on a terminal; nothing where standard error goes elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)


@contextmanager
def rate(quiet: bool) -> Iterator[Progress | None]:
    """Show a progress bar with rate and time left on a terminal; nothing where standard error goes elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s")

    shown = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Bar(*shown, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(done: int, total: int, what: str) -> None:
            if what not in tasks:
                for old in tasks.values():
                    bar.update(old, visible=False)
                # What was done before the run began is no part of its rate.
                tasks[what] = bar.add_task(what, total=total, completed=done)
            bar.update(tasks[what], completed=done, total=total)

        yield show

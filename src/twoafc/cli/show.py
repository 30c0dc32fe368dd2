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

    table = tables.summary(found.scores)
    print_table(table.caption, table.header, table.rows)
    for note in found.notes:
        print(f"note: {note}")
    print(f"Results: {out}")


def print_table(caption: str, header: Any, rows: Any) -> None:
    """Print a table: in colour on a terminal, plain and whole where the output goes elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    table = Table(title=caption, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place < 2 and len(header) > 4 else "right")
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

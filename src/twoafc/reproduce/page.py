"""One page that shows it all: self-contained HTML that needs no script, no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

import twoafc
from twoafc.folder import Results
from twoafc.report.citation import bibtex
from twoafc.report.page import FILE
from twoafc.report.svg import inline
from twoafc.reproduce.chosen import Chosen
from twoafc.reproduce.closeness import closeness
from twoafc.reproduce.figures import Shown
from twoafc.reproduce.layout import Layout
from twoafc.reproduce.printed import document, slips
from twoafc.reproduce.sources import SETS
from twoafc.reproduce.written import rows_of
from twoafc.table import Triplets

HERE = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class Story:
    """What a page tells beside tables and figures.

    Parameters
    ----------
    warning : str
        What must be said first; empty where the figures compare with the paper's.
    worth : list of str
        What of it concerns every table that depends on the data; the rest stands in the notes of those concerned.
    chosen : sequence of Chosen
        The distances.
    notes : list of str
        What a reader should know.
    results : mapping of data set to Results
    """

    warning: str
    worth: list[str]
    chosen: Sequence[Chosen]
    notes: list[str]
    results: Mapping[str, Results]


def page(
    told: Story, tables: Sequence[Layout], figures: Sequence[Shown], data: Mapping[str, Mapping[str, Triplets]]
) -> str:
    """Write the page; all text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("twoafc.reproduce", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        story=told,
        slips=slips(),
        tables=[_table(layout) for layout in tables],
        closeness=[] if told.warning else closeness(tables),
        figures=[_figure(shown) for shown in figures],
        data=_data(data),
        # Standard errors are shown, not the intervals that the same words tell of elsewhere.
        errors=[(SETS[name], each.error_bars.removeprefix("95 % intervals ")) for name, each in told.results.items()],
        file=FILE,
        settings=next(iter(told.results.values())).card["settings"],
        version=twoafc.__version__,
        bibtex=bibtex(twoafc.__version__),
    )


def _table(layout: Layout) -> dict[str, Any]:
    """Put lines of one name together, as the paper does: the name, its lines, and how many rows they take."""
    written = [(line.labels, rows) for line, rows in rows_of(layout) if rows]
    blocks = []
    for name, lines in groupby(written, key=lambda each: each[0][0]):
        held = [(labels[1], rows) for labels, rows in lines]
        blocks.append((name, held, sum(len(rows) for _, rows in held)))
    return {"layout": layout, "blocks": blocks}


def _figure(shown: Shown) -> dict[str, Any]:
    drawn = shown.drawn
    return {
        "drawn": drawn,
        "image": inline(shown.figure, name=f"figure-{drawn.name}", title=drawn.title, description=drawn.caption),
    }


def _data(data: Mapping[str, Mapping[str, Triplets]]) -> list[dict[str, str]]:
    """Say of each table how many triplets and votes it has, beside the paper's."""
    rows = []
    for name, tables in data.items():
        for role, table in tables.items():
            low, high = int(table.M.min()), int(table.M.max())
            rows.append(
                {
                    "set": f"{SETS[name]}, {role}",
                    "triplets": f"{len(table):,}",
                    "printed": document()["data"][name][role]["triplets"],
                    "votes": f"{int(table.M.sum()):,}",
                    "M": str(low) if low == high else f"{low} to {high}",
                    "printed_M": document()["data"][name][role]["M"],
                }
            )
    return rows

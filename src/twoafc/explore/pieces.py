"""Pieces of the page that change: the chosen triplet, and a page of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import html

from twoafc.arrays import IntArray
from twoafc.explore.data import Explored
from twoafc.explore.facts import Facts, Told
from twoafc.explore.state import View
from twoafc.failures import TELLING

PAGE = 12
"""Triplets on a page of the table."""
MOST_COUNTS = 200
"""Counts listed at once; of more votes, those about the observed one."""
HEADS = {
    "triplet": "triplet",
    "group": "group",
    "n": "n",
    "M": "M",
    "d0": "d0",
    "d1": "d1",
    "P": "P",
    "nll": "NLL",
    "surprise": "surprise",
    "P_other": "P beside",
    "disagreement": "apart",
    "likelier": "votes for",
}
Part = Any
"""A component of Dash, or a text."""


def counted(number: int, what: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> counted(1, "vote"), counted(1200, "vote")
    ('1 vote', '1,200 votes')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def triplet(known: Facts | None, place: str, *, images: bool) -> list[Part]:
    """Show one triplet: images, votes, what each distance says, and the NLL of each count."""
    if known is None:
        return [html.P("Click a point, or a row of the table, to see its triplet.", className="note")]
    steps = [
        html.Button("‹ previous", **{"data-step": "-1", "aria-keyshortcuts": "p ArrowLeft"}, title="key p or ←"),
        html.Button("next ›", **{"data-step": "1", "aria-keyshortcuts": "n ArrowRight"}, title="key n or →"),
    ]
    group = f", {known.labels['group']}" if "group" in known.labels else ""
    return [
        html.Div([html.H2(["Triplet ", html.Span(known.labels["triplet"])]), html.Div(steps)], className="heading"),
        html.P(f"{place}{group}", className="note"),
        _images(known, shown=images),
        _votes(known),
        _said(known.told),
        *_judged(known.told),
        _counts(known),
    ]


def _images(known: Facts, *, shown: bool) -> html.Div:
    boxes = []
    for role, name in known.images.items():
        side = {"x0": ["d0"], "x1": ["d1"]}.get(role, [])
        picture = (
            html.Img(src=f"/image/{known.row}/{role}", alt=f"{role}: {name}")
            if shown
            else html.Div("no image", className="missing")
        )
        caption = [html.Strong(role), html.Span(name, title=name)]
        caption += [html.Span(f"{each} = {getattr(known.told[0], each):.4g}") for each in side]
        boxes.append(html.Figure([picture, html.Figcaption(caption)]))
    return html.Div(boxes, className="images")


def _votes(known: Facts) -> html.Div:
    share = f"{100 * known.n / known.M:.0f}%"
    text = f"{known.n} of {known.M} chose x1"
    bar = html.Div(html.Div(style={"width": share}), className="bar", **{"aria-hidden": "true"})
    return html.Div([html.Strong(text), bar], className="votes")


def _said(told: Sequence[Told]) -> html.Table:
    head = html.Tr([html.Th(name, scope="col") for name in ("distance", "d0", "d1", "P", "NLL", "bits")])
    rows = []
    for each in told:
        error = "" if each.standard_error is None else f" ± {each.standard_error:.4f}"
        P = [f"{each.P:.4f}", *([html.Span(error, className="error")] if error and each.whole is None else [])]
        cells = (f"{each.d0:.4g}", f"{each.d1:.4g}", P, f"{each.nll:.4f}", f"{each.surprise:.1f}")
        rows.append(html.Tr([html.Th(each.distance, scope="row", title=each.distance), *map(html.Td, cells)]))
        if each.whole is not None:
            note = f"The model of all triplets gives {each.whole:.4f}{error}; tested was one that had not seen it."
            rows.append(html.Tr(html.Td(note, colSpan=6, className="note")))
    return html.Table([html.Thead(head), html.Tbody(rows)], className="said")


def _judged(told: Sequence[Told]) -> list[Part]:
    """Say which of two distances the votes speak for."""
    if len(told) < 2:
        return []
    better, worse = sorted(told, key=lambda each: each.nll)
    if worse.nll - better.nll < np.log(TELLING):
        return [html.P("These votes do not tell which of the two is right.", className="note")]
    times = np.exp(min(worse.nll - better.nll, 300.0))
    return [html.P(f"The votes are {times:,.0f} times as likely under {better.distance}.", className="note")]


def _counts(known: Facts) -> html.Div:
    names = [each.distance for each in known.told]
    head = html.Tr([html.Th("j", scope="col"), *(html.Th(["NLL ", html.Span(name)], scope="col") for name in names)])
    rows = []
    for j in _listed(known):
        cells = [html.Td(_count(float(each.counts[j]))) for each in known.told]
        seen = j == known.observed
        mark = [" ", html.Span("observed", className="tag")] if seen else []
        rows.append(html.Tr([html.Th([str(j), *mark], scope="row"), *cells], className="observed" if seen else ""))
    was, were = ("was" if each == 1 else "were" for each in (known.votes, known.M))
    what = f"{was} given" if known.votes == known.M else f"would be given ({known.M} {were})"
    caption = html.Caption(f"Counts j for x1 if {counted(known.votes, 'vote')} {what}")
    table = html.Table([caption, html.Thead(head), html.Tbody(rows)], className="counts")
    return html.Div(table, className="scroll", tabIndex=0, role="region", **{"aria-label": "NLL of each count"})


def _listed(known: Facts) -> range:
    if known.votes <= MOST_COUNTS:
        return range(known.votes + 1)
    middle = known.n if known.observed is not None else round(known.told[0].P * known.votes)
    low = min(max(0, middle - MOST_COUNTS // 2), known.votes - MOST_COUNTS)
    return range(low, low + MOST_COUNTS + 1)


def _count(nll: float) -> list[Part]:
    bar = html.Div(html.Div(style={"width": f"{100 * np.exp(-nll):.2f}%"}), className="bar", **{"aria-hidden": "true"})
    return [html.Span(f"{nll:.4f}" if np.isfinite(nll) else "∞"), bar]


def listing(explored: Explored, view: View, order: IntArray, page: int, *, images: bool) -> list[Part]:
    """Show one page of the table, with buttons that sort it and turn its pages."""
    if not len(order):
        return [html.P("No triplet passes these filters.", className="note")]
    pages = -(-len(order) // PAGE)
    page = min(max(page, 0), pages - 1)
    names = [name for name in HEADS if _has(explored, view, name)]
    thumbs = [role for role in ("x0", "ref", "x1") if role in explored.labels.columns] if images else []
    head = [html.Th("images", scope="col")] if thumbs else []
    head += [_head(name, view.sort) for name in names]
    columns = {name: explored.column(view, name) for name in names}
    rows = []
    for row in order[page * PAGE : (page + 1) * PAGE].tolist():
        cells = [html.Td([html.Img(src=f"/image/{row}/{role}", alt="") for role in thumbs])] if thumbs else []
        cells += [_cell(view, name, columns[name][row], row) for name in names]
        rows.append(html.Tr(cells, **{"data-row": str(row)}))
    return [html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)]), _pages(page, pages)]


def _has(explored: Explored, view: View, name: str) -> bool:
    if name in ("P_other", "disagreement", "likelier"):
        return bool(view.other)
    return name != "group" or name in explored.labels.columns


def _head(name: str, sort: str) -> html.Th:
    down, up = sort == f"-{name}", sort == name
    # Numbers are wanted largest first, names from the first letter on.
    first, second = (name, f"-{name}") if name in ("triplet", "group") else (f"-{name}", name)
    button = html.Button(
        [HEADS[name], html.Span(" ▾" if down else " ▴" if up else "", **{"aria-hidden": "true"})],
        **{"data-sort": second if sort == first else first},
    )
    state = "descending" if down else "ascending" if up else "none"
    return html.Th(button, scope="col", **{"aria-sort": state})


def _cell(view: View, name: str, value: Any, row: int) -> Part:
    if name == "triplet":
        return html.Th(html.Button(str(value), **{"data-row": str(row)}), scope="row")
    if name == "likelier":
        return html.Td({1: view.distance, -1: view.other}.get(int(value), "neither"), className="text")
    if name == "group":
        return html.Td(str(value), className="text")
    forms = {"n": "d", "M": "d", "surprise": ".1f", "nll": ".3f", "d0": ".4g", "d1": ".4g"}
    return html.Td(format(int(value) if name in ("n", "M") else float(value), forms.get(name, ".3f")))


def _pages(page: int, pages: int) -> html.Nav:
    turns = (("« first", 0), ("‹ back", page - 1), ("on ›", page + 1), ("last »", pages - 1))
    buttons = [
        html.Button(text, disabled=not 0 <= to < pages or to == page, **{"data-page": str(to)}) for text, to in turns
    ]
    buttons.insert(2, html.Span(f"page {page + 1} of {pages}"))
    return html.Nav(buttons, **{"aria-label": "Pages of the table"})

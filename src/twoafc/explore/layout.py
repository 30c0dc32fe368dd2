"""The page: its controls, the places of the figures, the chosen triplet, and a page of the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from dash import dcc, html

from twoafc.arrays import IntArray
from twoafc.explore.data import Explored, Facts, Refits, from_another_fit
from twoafc.explore.figures import PURPLE_ORANGE, SURPRISE
from twoafc.explore.state import COLOURS, GRIDS, MOST_VOTES, REFIT, STEPS, View, step_of
from twoafc.results import TELLING, Answer

SELECTS = ("distance", "other", "estimator", "colour", "group")
"""Lists to choose from: the browser's own, whose choice the page's script puts in a store of the same name."""
STORES = (*SELECTS, "row", "box", "sort", "page", "step", "started", "marks", "query", "shown", "drawn", "evaluated")
BUTTONS = [["toImage"], ["zoom2d", "pan2d", "select2d"], ["resetScale2d"]]
"""All buttons of a plane: those that Plotly may add, such as one that uploads the chart, are left out."""
COLOUR_NAMES = {"surprise": "surprise", "votes": "votes n/M"}
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


def page(explored: Explored) -> html.Div:
    """Lay out the page; what it shows is filled in by the callbacks."""
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            *(dcc.Store(id=name) for name in STORES),
            html.Header(
                [
                    html.H1(["twoafc ", html.Span(Path(explored.result.name).absolute().name)]),
                    html.P(id="status", role="status"),
                ]
            ),
            _controls(explored),
            html.Main(
                [
                    html.Div([_plane("first"), _plane("other")], id="planes"),
                    html.Section(id="triplet", **{"aria-label": "The chosen triplet"}),
                    _table(explored),
                ]
            ),
        ],
        id="explorer",
    )


def _controls(explored: Explored) -> html.Div:
    known = explored.known
    refit = isinstance(explored.refits, Refits)
    estimators = {name: name for name in known.estimators} | ({REFIT: "density, refitted"} if refit else {})
    note = "σ or grid moved: density refitted" if refit else f"no refit: {explored.refits}"
    return html.Div(
        [
            _select("distance", "Distance", {name: name for name in known.distances}),
            _select("other", "Beside it", {"": "nothing", **{name: name for name in known.distances}}),
            _select("estimator", "Estimator", estimators),
            _select("colour", "Points coloured by", {name: COLOUR_NAMES[name] for name in COLOURS}),
            _slider("sigma", "Width σ", STEPS, 0.5, step_of(known.sigma), disabled=not refit),
            _slider("grid", "Grid size", GRIDS, 1, known.grid, disabled=not refit),
            _slider("votes", "Votes M", (0, MOST_VOTES), 1, 0),
            html.P(_legend(), id="legend"),
            html.P([html.Span(id="settings-told"), note], id="refit-note", className="note"),
        ],
        id="controls",
        role="region",
        **{"aria-label": "What is shown"},
    )


def _legend() -> list[Any]:
    """The meaning of the colours of the points; the style sheet hides what is not in use."""
    greys = [(name, f"rgba(0,0,0,{opacity})") for _, name, opacity in SURPRISE]
    shares = [("0", PURPLE_ORANGE[0]), ("½", PURPLE_ORANGE[5]), ("1", PURPLE_ORANGE[-1])]
    short = {"below 2": "<2", "9 and more": "9+"}

    def dots(named: list[tuple[str, str]]) -> list[Any]:
        texts = [(short.get(name, name.replace(" to ", "–")), colour) for name, colour in named]
        return [html.Span([html.I(style={"background": colour}), text], className="dot") for text, colour in texts]

    return [
        html.Span([*dots(greys), "bits"], className="of-surprise"),
        html.Span([*dots(shares), "n/M"], className="of-votes"),
    ]


def _select(name: str, label: str, options: dict[str, str]) -> html.Div:
    listed = [html.Option(text, value=value) for value, text in options.items()]
    field = html.Select(listed, id=f"{name}-select", **{"data-store": name})
    return html.Div([html.Label(label, htmlFor=f"{name}-select"), field], className="field")


def _slider(
    name: str, label: str, ends: tuple[float, float], step: float, value: float, *, disabled: bool = False
) -> html.Div:
    text = html.Label([f"{label}: ", html.Output(id=f"{name}-told")], htmlFor=name)
    bar = dcc.Input(id=name, type="range", min=ends[0], max=ends[1], step=step, value=value, disabled=disabled)
    return html.Div([text, bar], className="field slider")


def _plane(which: str) -> html.Section:
    config = {"displaylogo": False, "modeBarButtons": BUTTONS, "responsive": True}
    graph = dcc.Graph(id=f"{which}-plane", config=config, clear_on_unhover=True)
    parts = [html.H2(id=f"{which}-title"), html.Div(graph, className="canvas")]
    return html.Section(parts, id=f"{which}-panel", className="plane")


def _table(explored: Explored) -> html.Section:
    groups = {"": "all", **{name: name for name in explored.known.groups}}
    return html.Section(
        [
            html.Div(
                [
                    html.H2("Triplets"),
                    html.P(id="count", role="status"),
                    *([_select("group", "Group", groups)] if explored.known.groups else []),
                    _least("surprise", "Surprise at least", 0.5),
                    _least("disagreement", "P apart at least", 0.05),
                    html.A("Export CSV", id="export", className="button", download="triplets.csv"),
                ],
                id="filters",
            ),
            html.Div(id="table", tabIndex=0, role="region", **{"aria-label": "Table of triplets"}),
        ],
        id="listing",
    )


def _least(name: str, label: str, step: float) -> html.Div:
    field = dcc.Input(id=name, type="number", min=0, step=step, debounce=0.3, placeholder="0")
    return html.Div([html.Label(label, htmlFor=name), field], className="field number")


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
        _answers(known.answers),
        *_favoured(known.answers),
        _counts(known),
    ]


def _images(known: Facts, *, shown: bool) -> html.Div:
    boxes, first = [], next(iter(known.answers.values()))
    for role, name in known.images.items():
        picture = (
            html.Img(src=f"/image/{known.row}/{role}", alt=f"{role}: {name}")
            if shown
            else html.Div("no image", className="missing")
        )
        caption = [html.Strong(role), html.Span(name, title=name)]
        caption += [html.Span(f"d{role[1]} = {first[f'd{role[1]}']:.4g}")] if role in ("x0", "x1") else []
        boxes.append(html.Figure([picture, html.Figcaption(caption)]))
    return html.Div(boxes, className="images")


def _votes(known: Facts) -> html.Div:
    share = f"{100 * known.n / known.M:.0f}%"
    text = f"{known.n} of {known.M} chose x1"
    bar = html.Div(html.Div(style={"width": share}), className="bar", **{"aria-hidden": "true"})
    return html.Div([html.Strong(text), bar], className="votes")


def _answers(answers: Mapping[str, Answer]) -> html.Table:
    head = html.Tr([html.Th(name, scope="col") for name in ("distance", "d0", "d1", "P", "NLL", "bits")])
    rows = []
    for name, each in answers.items():
        error = "" if each["standard_error"] is None else f" ± {each['standard_error']:.4f}"
        other = from_another_fit(each)
        P = [f"{each['P']:.4f}", *([html.Span(error, className="error")] if error and not other else [])]
        cells = (f"{each['d0']:.4g}", f"{each['d1']:.4g}", P, f"{each['nll']:.4f}", f"{each['surprise']:.1f}")
        rows.append(html.Tr([html.Th(name, scope="row", title=name), *map(html.Td, cells)]))
        if other:
            note = f"The model of all triplets gives {each['P_model']:.4f}{error}; tested was one that had not seen it."
            rows.append(html.Tr(html.Td(note, colSpan=6, className="note")))
    return html.Table([html.Thead(head), html.Tbody(rows)], className="said")


def _favoured(answers: Mapping[str, Answer]) -> list[Part]:
    """State which of two distances the votes favour."""
    if len(answers) < 2:
        return []
    (better, name), (worse, _) = sorted((each["nll"], name) for name, each in answers.items())
    text = "These votes do not tell which of the two is right."
    if worse - better >= np.log(TELLING):  # not where both are infinite
        text = f"The votes are {np.exp(min(worse - better, 300.0)):,.0f} times as likely under {name}."
    return [html.P(text, className="note")]


def _counts(known: Facts) -> html.Div:
    head = html.Tr(
        [html.Th("j", scope="col"), *(html.Th(["NLL ", html.Span(name)], scope="col") for name in known.answers)]
    )
    rows = []
    for j in _listed(known):
        cells = [html.Td(_count(each["counts"][j]["nll"])) for each in known.answers.values()]
        seen = j == known.observed
        mark = [" ", html.Span("observed", className="tag")] if seen else []
        rows.append(html.Tr([html.Th([str(j), *mark], scope="row"), *cells], className="observed" if seen else ""))
    was, were = ("was" if number == 1 else "were" for number in (known.votes, known.M))
    what = f"{was} given" if known.votes == known.M else f"would be given ({known.M} {were})"
    caption = html.Caption(f"Counts j for x1 if {counted(known.votes, 'vote')} {what}")
    table = html.Table([caption, html.Thead(head), html.Tbody(rows)], className="counts")
    return html.Div(table, className="scroll", tabIndex=0, role="region", **{"aria-label": "NLL of each count"})


def _listed(known: Facts) -> range:
    if known.votes <= MOST_COUNTS:
        return range(known.votes + 1)
    P = next(iter(known.answers.values()))["P"]
    middle = known.n if known.observed is not None else round(P * known.votes)
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

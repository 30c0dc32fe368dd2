"""The page: its controls with their labels, and the places of the figures, the triplet and the table."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from twoafc.explore.data import Explored
from twoafc.explore.figures import PURPLE_ORANGE, SURPRISE
from twoafc.explore.refit import Refits
from twoafc.explore.state import COLOURS, GRIDS, MOST_VOTES, REFIT, STEPS, step_of

SELECTS = ("distance", "other", "estimator", "colour", "group")
"""Lists to choose from: the browser's own, whose choice the page's script puts in a store of the same name."""
STORES = (*SELECTS, "row", "box", "sort", "page", "step", "started", "marks", "query", "shown", "drawn", "evaluated")
BUTTONS = ["lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "toggleSpikelines"]
COLOUR_NAMES = {"surprise": "surprise", "votes": "votes n/M"}


def page(explored: Explored) -> html.Div:
    """Lay out the page; what it shows is filled in by the callbacks."""
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            *(dcc.Store(id=name) for name in STORES),
            html.Header(
                [
                    html.H1(["twoafc ", html.Span(str(explored.results.folder.absolute().name))]),
                    html.P(id="status", role="status"),
                ]
            ),
            _controls(explored),
            html.Main(
                [
                    html.Div([_plane("first"), _plane("other")], id="planes"),
                    html.Section(id="triplet", **{"aria-label": "The chosen triplet"}),
                    _listing(explored),
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
    """Say what the colours of the points mean; the style sheet hides what is not in use."""
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
    told = html.Label([f"{label}: ", html.Output(id=f"{name}-told")], htmlFor=name)
    bar = dcc.Input(id=name, type="range", min=ends[0], max=ends[1], step=step, value=value, disabled=disabled)
    return html.Div([told, bar], className="field slider")


def _plane(which: str) -> html.Section:
    config = {"displaylogo": False, "modeBarButtonsToRemove": BUTTONS, "responsive": True}
    graph = dcc.Graph(id=f"{which}-plane", config=config, clear_on_unhover=True)
    parts = [html.H2(id=f"{which}-title"), html.Div(graph, className="canvas")]
    return html.Section(parts, id=f"{which}-panel", className="plane")


def _listing(explored: Explored) -> html.Section:
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

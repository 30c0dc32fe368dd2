"""Callbacks: what happens when something on the page is moved, clicked or typed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from dash import ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update

from twoafc.explore import figures, layout
from twoafc.explore.data import Explored, facts, named
from twoafc.explore.layout import SELECTS
from twoafc.explore.state import REFIT, View, sigma_at, step_of

CONTROLS = {
    "distance": ("distance", "data"),
    "other": ("other", "data"),
    "estimator": ("estimator", "data"),
    "colour": ("colour", "data"),
    "group": ("group", "data"),
    "sigma": ("sigma", "value"),
    "grid": ("grid", "value"),
    "votes": ("votes", "value"),
    "row": ("row", "data"),
    "surprise": ("surprise", "value"),
    "disagreement": ("disagreement", "value"),
    "box": ("box", "data"),
    "sort": ("sort", "data"),
}
P_OF = ("distance", "other", "estimator", "sigma", "grid")
"""Controls that decide P."""
FILTERS = (*P_OF, "group", "surprise", "disagreement", "box")
"""Controls that decide which triplets are listed."""


class Page:
    """The callbacks of one page."""

    def __init__(self, explored: Explored, *, images: bool) -> None:
        self.explored, self.images = explored, images

    def view(self, values: dict[str, Any]) -> View:
        """Make a view of the values of the controls."""
        box = values.get("box") or {}
        given = values | ({"box": box.get("box"), "side": box.get("side")} if isinstance(box, dict) else {})
        try:
            given["sigma"] = sigma_at(float(values.get("sigma") or 0))
        except (TypeError, ValueError, OverflowError):
            given["sigma"] = None
        return View.of(given, self.explored.known)

    def inputs(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Listen to some controls, and take the state of all others."""
        return {name: (Input if name in names else State)(*place) for name, place in CONTROLS.items()}

    def restore(self, search: str | None) -> dict[str, Any]:
        """Set the controls to what the address says; by default the most surprising triplet is chosen."""
        view = View.read(search, self.explored.known)
        row = view.row
        if row is None:
            order = self.explored.order(view)
            row = int(order[0]) if len(order) else None
        values: dict[str, Any] = {name: getattr(view, name) for name in CONTROLS}
        values |= {"row": row, "sigma": step_of(view.sigma)}
        values |= {"surprise": view.surprise or None, "disagreement": view.disagreement or None}
        values["box"] = {"box": view.box, "side": view.side} if view.box else None
        return values | {"started": [values["sigma"], values["grid"]]}

    def draw(self, **values: Any) -> tuple[Any, ...]:
        """Draw the planes.

        Return both planes, the class of the second panel, both titles, the status line, what was drawn, and the
        settings that the density was evaluated with.
        """
        view, explored = self.view(values), self.explored
        names = [name for name in (view.distance, view.other) if name]
        with ThreadPoolExecutor(2) as pool:  # two fits, side by side
            list(pool.map(lambda name: explored.points(view, name), names))
        first = self._plane(view, "first")
        titles = [self._title(view, name) for name in names]
        drawn = self._listed(view)
        votes = int(explored.M.sum())
        how = f"{layout.counted(len(explored), 'triplet')}, {layout.counted(votes, 'vote')}, {named(view)}"
        if not view.other:
            return first, no_update, "plane hidden", titles[0], "", how, drawn, explored.evaluated(view)
        return first, self._plane(view, "other"), "plane", *titles, how, drawn, explored.evaluated(view)

    def _plane(self, view: View, side: str) -> dict[str, Any]:
        explored, distance = self.explored, view.other if side == "other" else view.distance
        points, rows = explored.points(view, distance), np.flatnonzero(explored.selected(view))
        share, within = explored.n / explored.M, explored.boxed(view) if view.box else None
        figure = figures.plane(points, share, rows, colour=view.colour, within=within)
        if view.box and side == view.side:
            figure["layout"]["selections"] = [figures.box_drawn(view.box)]
        return figure

    def _title(self, view: View, distance: str) -> list[Any]:
        title: list[Any] = [f"{distance}: NLL {self.explored.points(view, distance).nll.mean():.4f}"]
        if view.estimator == REFIT:
            start = View.of({}, self.explored.known)
            before = f" {start.estimator}: {self.explored.points(start, distance).nll.mean():.4f}"
            title.append(html.Span(before, className="aside", title="as evaluated"))
        return title

    def show(self, **values: Any) -> tuple[Any, Any]:
        """Show the chosen triplet; return where the rings are drawn, too."""
        view = self.view(values)
        known = facts(self.explored, view)
        if known is None:
            return layout.triplet(None, "", images=self.images), []
        order = self.explored.order(view)
        at = np.flatnonzero(order == view.row)
        place = f"{at[0] + 1:,} of {len(order):,} in the table" if len(at) else "not among those in the table"
        marks = []
        for name in known.answers:
            points = self.explored.points(view, name)
            marks.append([float(points.u0[known.row]), float(points.u1[known.row])])
        return layout.triplet(known, place, images=self.images), marks

    def table(self, page: Any, shown: Any, **values: Any) -> tuple[Any, Any, Any]:
        """Show the page of the table that was asked for, or the one with the chosen triplet; and return which it is."""
        view = self.view(values)
        order = self.explored.order(view)
        listed, before = self._listed(view), shown if isinstance(shown, dict) else {}
        at = np.flatnonzero(order == view.row)
        if ctx.triggered_id == "page" and isinstance(page, dict):
            asked = int(page.get("page", 0))
        elif len(at):
            asked = int(at[0]) // layout.PAGE
        else:
            asked = before.get("page", 0) if before.get("listed") == listed else 0
        # By what is on the screen, not by what was moved: the browser drops an answer that a later one overtakes.
        now = {"page": asked, "listed": listed}
        if now == before:
            return no_update, no_update, no_update
        count = f"{len(order):,} of {len(self.explored):,}"
        return layout.listing(self.explored, view, order, asked, images=self.images), count, now

    def _listed(self, view: View) -> str:
        """What a table or a plane shows, whichever triplet is chosen and however many votes are asked for."""
        return replace(view, row=None, votes=0).link(self.explored.known)

    def choose(self, step: Any, box: Any, **values: Any) -> Any:
        """Go to the next or previous triplet of the table; when a box is drawn, to its worst."""
        view = self.view(values | {"box": box})
        order = self.explored.order(view)
        if not len(order):
            return no_update
        if ctx.triggered_id == "box":
            return int(order[0]) if view.box else no_update
        asked = step if isinstance(step, dict) else {}
        at = np.flatnonzero(order == view.row)
        by = asked.get("by") if isinstance(asked.get("by"), int) else 1
        return int(order[0] if not len(at) else order[(at[0] + by) % len(order)])

    def link(self, **values: Any) -> tuple[str, str]:
        """Return the query string of the permanent link, and the address of the export."""
        query = self.view(values).link(self.explored.known)
        return query, f"/triplets.csv{query}"


def connect(app: Dash, explored: Explored, *, images: bool) -> None:
    """Connect a page's controls with what they change."""
    page = Page(explored, images=images)
    everything = tuple(CONTROLS)
    set_all = {name: Output(*place) for name, place in CONTROLS.items()} | {"started": Output("started", "data")}
    app.callback(output=set_all, inputs=[Input("url", "search")])(page.restore)
    drawn = [Output("first-plane", "figure"), Output("other-plane", "figure"), Output("other-panel", "className")]
    drawn += [Output("first-title", "children"), Output("other-title", "children"), Output("status", "children")]
    drawn += [Output("drawn", "data"), Output("evaluated", "data")]
    app.callback(output=drawn, inputs=page.inputs((*FILTERS, "colour")))(page.draw)
    shown = [Output("triplet", "children"), Output("marks", "data")]
    # After the planes, which take the longest: they are on the screen while the rest is computed.
    after = {"drawn": Input("drawn", "data")}
    app.callback(output=shown, inputs=page.inputs(("row", "votes", "sort")) | after)(page.show)
    listed = [Output("table", "children"), Output("count", "children"), Output("shown", "data")]
    asked = after | {"page": Input("page", "data"), "shown": State("shown", "data")}
    app.callback(output=listed, inputs=page.inputs(("row", "sort")) | asked)(page.table)
    app.callback(
        output=Output("row", "data", allow_duplicate=True),
        inputs=page.inputs(("box",)) | {"step": Input("step", "data")},
        prevent_initial_call=True,
    )(page.choose)
    linked = [Output("query", "data"), Output("export", "href")]
    app.callback(output=linked, inputs=page.inputs(everything))(page.link)
    _by_itself(app)


def _by_itself(app: Dash) -> None:
    """Connect what the browser does without asking: see assets/explore.js."""

    def own(name: str, *places: Any, **more: Any) -> None:
        app.clientside_callback(ClientsideFunction("explore", name), *places, **more)

    row = Output("row", "data", allow_duplicate=True)
    own("click", row, Input("first-plane", "clickData"), Input("other-plane", "clickData"), prevent_initial_call=True)
    box = Output("box", "data", allow_duplicate=True)
    selected = [Input(f"{side}-plane", "selectedData") for side in ("first", "other")]
    own("box", box, *selected, State("box", "data"), prevent_initial_call=True)
    fine = [Output(f"{side}-plane", "config") for side in ("first", "other")]
    own("sharpness", *fine, Input("url", "search"), State("first-plane", "config"))
    own("mark", Input("marks", "data"))
    own("reflect", *(Input(name, "data") for name in SELECTS))
    own("legend", Output("legend", "className"), Input("colour", "data"))
    own("chosen", Input("row", "data"), Input("table", "children"))
    own("address", Input("query", "data"))
    moved = [Input("sigma", "value"), Input("grid", "value"), State("started", "data"), State("estimator", "data")]
    own("moved", Output("estimator", "data", allow_duplicate=True), *moved, prevent_initial_call=True)
    texts = [Output(f"{name}-told", "children") for name in ("sigma", "grid", "votes", "settings")]
    asked = [Input("sigma", "value"), Input("grid", "value"), Input("votes", "value"), Input("evaluated", "data")]
    own("told", *texts, *asked, Input("estimator", "data"))
    own("alone", Output("disagreement", "disabled"), Input("other", "data"))

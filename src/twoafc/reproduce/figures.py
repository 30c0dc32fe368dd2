"""The paper's figures, drawn from what was measured and fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoafc import plots
from twoafc.arrays import FloatArray
from twoafc.core import Uniform, uniformise
from twoafc.errors import DataError
from twoafc.estimators import Loaded
from twoafc.folder import Results
from twoafc.images import ImageError
from twoafc.query import ask
from twoafc.reproduce.chosen import Chosen
from twoafc.reproduce.experiments import ESTIMATORS, Measured
from twoafc.reproduce.layout import METHODS
from twoafc.reproduce.sources import SETS
from twoafc.sweep import Sweep
from twoafc.table import Triplets
from twoafc.worked_example import worked_example

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES = 101
PANELS = 5
"""Panels beside one another of how votes fell."""


@dataclass(frozen=True)
class Drawn:
    """A figure with its name, which figure of the paper it is, and what is seen on it."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def of_set(data: Measured, results: Results, chosen: Sequence[Chosen]) -> Iterator[Drawn]:
    """Give the figures of one data set: surfaces, triplets before and after uniformisation, votes, single triplets."""
    name, label = data.name, SETS[data.name]
    for estimator in ESTIMATORS:
        which = "Figure 2" if name == "bapps" else "Appendix H"
        yield Drawn(
            f"surfaces-{name}-{estimator}",
            f"{which}: surfaces of P, {METHODS[estimator].lower()}, {label}",
            "The chance P that x1 is chosen over the plane of uniformised distances; the heavy line is P = 1/2.",
            lambda estimator=estimator: _surfaces(results, chosen, estimator),  # type: ignore[misc]
        )
    yield Drawn(
        f"scatter-{name}",
        f"{'Appendix B' if name == 'bapps' else 'Appendix H'}: triplets before and after uniformisation, {label}",
        "Training triplets by their two distances, as measured (above) and uniformised (below); the colour is the "
        "share of votes for x1.",
        lambda: _scatter(data.train, chosen),
    )
    if name == "clic":
        yield Drawn(
            "votes-clic",
            "Appendix H: numbers of judgements, CLIC 2021",
            "How many judgements M the triplets have (left; the scale is logarithmic) and, for each M, how many of "
            "them, n, chose x1.",
            lambda: _votes(data),
        )
    else:
        yield from _cards(data, results, chosen)


def of_robustness(found: Sweep, chosen: Sequence[Chosen], label: str) -> Iterator[Drawn]:
    """Give the figures of the settings: NLL and agreement against sigma and against the size of the grid."""
    headings = {each.name: each.heading for each in chosen}
    told = {
        "sigma": (
            "width of the kernel",
            "Scores against the width sigma of the kernel, on a grid of 100 x 100; diamonds mark the width that each "
            "distance chooses by itself.",
        ),
        "grid_size": (
            "size of the grid",
            "Scores against the number of nodes along each axis, at sigma = 1/44; diamonds mark the nodes that the "
            "automatic rule gives this width.",
        ),
    }
    for parameter, (title, caption) in told.items():
        yield Drawn(
            f"robustness-{parameter.replace('_size', '')}",
            f"Figure 4: {title}, {label}",
            f"{caption} Bands are 95 % intervals.",
            lambda parameter=parameter: _sweep(found, headings, parameter),  # type: ignore[misc]
        )


def of_example() -> Drawn:
    """Give the worked example, which needs no data."""
    return Drawn(
        "worked-example",
        "Figure 1: the density estimator on five points",
        "Five triplets of two votes, step by step: the points, their kernels, the density, the chance of each count, "
        "P, and the log-likelihood. The paper draws other points, which it does not print.",
        _example,
    )


def _surfaces(results: Results, chosen: Sequence[Chosen], estimator: str) -> Figure:
    named = {each.heading: _surface(results.fit(each.name, estimator)) for each in chosen}
    made = plots.surfaces(named, across=3 if len(named) > 4 else 4)
    assert made is not None  # there is always a distance
    return made


def _surface(fit: Loaded) -> FloatArray:
    d = _map(fit).inverse(np.linspace(0, 1, NODES))
    return np.asarray(fit.probability(d[:, None], d[None, :]))


def _map(fit: Loaded) -> Uniform:
    assert isinstance(fit.uniform, Uniform)  # both estimators learn one by default
    return fit.uniform


def _scatter(table: Triplets, chosen: Sequence[Chosen]) -> Figure:
    from matplotlib.figure import Figure

    across = len(chosen)
    figure = Figure(figsize=(1.75 * across + 0.7, 3.9), layout="constrained")
    axes = figure.subplots(2, across, squeeze=False)
    share = table.n / table.M
    for (above, below), each in zip(axes.T, chosen, strict=True):
        one = table[each.name]
        plots.scatter(one.d0, one.d1, share, above).set_title(each.heading, fontsize=8)
        plots.scatter(*uniformise(one.d0, one.d1)[1:], share, below, uniform=True)
        for ax in (above, below) if each is not chosen[0] else ():
            ax.set_ylabel("")
    plots.colour_bar([*axes.ravel()], "n / M")
    return figure


def _votes(data: Measured) -> Figure:
    """Draw for each split the distribution of M and beside it, in rows of panels, that of n for each M."""
    from matplotlib.figure import Figure

    depths = [-(-len(np.unique(table.M)) // PANELS) for table in data.tables.values()]
    figure = Figure(figsize=(7.2, 1.5 * sum(depths) + 0.5), layout="constrained")
    for part, depth, (role, table) in zip(
        figure.subfigures(len(depths), 1, height_ratios=depths, squeeze=False).ravel(),
        depths,
        data.tables.items(),
        strict=True,
    ):
        part.suptitle(f"{role}, {len(table):,} triplets", fontsize=8)
        left, right = part.subfigures(1, 2, width_ratios=(1, 2.6))
        counted = plots.votes(table.n, table.M, left.subplots(), what="M")
        counted.set(yscale="log", ylim=(0.7, None))  # a single triplet is to be seen
        counted.minorticks_off()
        panels = list(right.subplots(depth, PANELS, squeeze=False).ravel())
        plots.votes_by_M(table.n, table.M, panels)
    return figure


def _sweep(found: Sweep, headings: Mapping[str, str], parameter: Any) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.8, 2.6), layout="constrained")
    sigma = parameter == "sigma"
    for ax, (measure, label) in zip(
        figure.subplots(1, 2), {"nll": "NLL, nats", "agreement": "AJ, %"}.items(), strict=True
    ):
        plots.sweep(
            {headings[name]: curve for name, curve in found.curves(parameter, measure).items()},  # type: ignore[arg-type]
            ax,
            label=r"$\sigma$" if sigma else "nodes along each axis",
            measure=label,
            chosen=1 / 44 if sigma else 20,
            automatic={headings[name]: value for name, value in found.automatic_values(parameter).items()},
            logarithmic=sigma,
        )
    return figure


def _example() -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.9), layout="constrained")
    plots.worked_example(worked_example(), list(figure.subplots(2, 4).ravel()))
    return figure


KINDS = {
    "clear-near": "one image close to the reference, the decision clear",
    "clear-far": "one image far from the reference, the decision clear",
    "borderline": "both images far from the reference, the decision borderline",
}
"""The three triplets that the paper shows."""


def _cards(data: Measured, results: Results, chosen: Sequence[Chosen]) -> Iterator[Drawn]:
    """Give three triplets of the kinds that the paper shows, under DISTS where it was measured as there."""
    each = next((each for each in chosen if each.paper == "dists"), chosen[-1])
    table = (data.test or data.train)[each.name]
    fit = results.fit(each.name, "density")
    for (kind, told), row in zip(KINDS.items(), examples(table, fit), strict=True):
        yield Drawn(
            f"triplet-{kind}",
            f"Figure 3 and appendix F: {told}",
            f"Triplet {table.labels['triplet'][row]} under {each.heading}: the NLL of every count j of the votes, the "
            "observed one hatched.",
            lambda row=row: _card(data, table, row, fit),  # type: ignore[misc]
        )


def examples(table: Triplets, fit: Loaded) -> list[int]:
    """Find three different triplets: one image near and P sharp; one far and P sharp; both far and P near 1/2."""
    u0, u1 = _map(fit)(table.d0), _map(fit)(table.d1)
    P = np.asarray(fit.probability(table.d0, table.d1))
    sharp, near, far = abs(2 * P - 1), np.minimum(u0, u1), np.maximum(u0, u1)
    # The votes as well should say what the figure is to show.
    unanimous = abs(2 * table.n / table.M - 1) * (np.sign(2 * table.n - table.M) == np.sign(2 * P - 1))
    found: list[int] = []
    clear = sharp + unanimous
    for worth in (clear - near, clear + far - abs(near - 0.5), near - 2 * sharp - unanimous):
        order = np.argsort(-worth, kind="stable")
        found.append(next((int(row) for row in order if row not in found), int(order[0])))
    return found


def _card(data: Measured, table: Triplets, row: int, fit: Loaded) -> Figure:
    answer = ask(fit, float(table.d0[row]), float(table.d1[row]), votes=int(table.M[row]), observed=int(table.n[row]))
    return plots.triplet_card(_images(data, str(table.labels["triplet"][row])), answer)


def _images(data: Measured, triplet: str) -> list[NDArray[np.uint8] | None]:
    """Read x0, the reference and x1 of a triplet; none where they cannot be read."""
    source = data.source.test or data.source.train
    (row,) = np.flatnonzero((source.table["triplet"] == triplet).to_numpy())
    try:
        ref, x0, x1 = source.images([row])
    except (DataError, ImageError):
        return [None, None, None]
    return [np.round(255 * each[0].transpose(1, 2, 0)).astype(np.uint8) for each in (x0, ref, x1)]


@dataclass(frozen=True, eq=False)
class Shown:
    """A figure that is drawn."""

    drawn: Drawn
    figure: Figure


def save(drawn: Drawn, folder: Path) -> Shown:
    """Draw a figure and write it as NAME.svg and NAME.pdf; give the figure itself for the page."""
    figure = drawn.draw()
    plots.save(figure, *(folder / f"{drawn.name}.{ending}" for ending in ("svg", "pdf")), dpi=200)
    figure.set_layout_engine("none")  # for the page too, everything has its place
    return Shown(drawn, figure)

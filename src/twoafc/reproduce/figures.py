"""The paper's figures, drawn from our measurements and fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc import plots
from twoafc.core import uniformise
from twoafc.errors import DataError
from twoafc.evaluation import Sweep
from twoafc.images import ImageError
from twoafc.reproduce.example import worked_example
from twoafc.reproduce.experiments import ESTIMATORS, MeasuredSource, PaperDistance
from twoafc.reproduce.printed import SETS
from twoafc.reproduce.tables import METHODS
from twoafc.results import Result, ask
from twoafc.table import Triplets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 5
"""Panels in a row of the figure of votes."""
EXAMPLES = {
    "clear-near": "one image close to the reference, the decision clear",
    "clear-far": "one image far from the reference, the decision clear",
    "borderline": "both images far from the reference, the decision borderline",
}
"""The three kinds of triplets that the paper shows."""


class PaperFigure(NamedTuple):
    """A figure: the stem of its files, which figure of the paper it is, and what it shows."""

    name: str
    title: str
    caption: str
    drawn: Figure


def paper_figures(
    measured: Mapping[str, MeasuredSource],
    results: Mapping[str, Result],
    swept: Sweep,
    chosen: Sequence[PaperDistance],
) -> list[PaperFigure]:
    """Draw all figures; the settings were varied on the first data set."""
    drawn = [example_figure()]
    for name, data in measured.items():
        drawn += set_figures(data, results[name], chosen)
    drawn += robustness_figures(swept, chosen, SETS[next(iter(measured))])
    return drawn


def example_figure() -> PaperFigure:
    """Draw the worked example, which needs no data."""
    figure = _figure(7.0, 3.9)
    plots.worked_example(worked_example(), list(figure.subplots(2, 4).ravel()))
    return PaperFigure(
        "worked-example",
        "Figure 1: the density estimator on five points",
        "Five triplets of two votes, step by step: the points, their kernels, the density, the probability of each "
        "count, P, and the log-likelihood. The paper draws other points, which it does not print.",
        figure,
    )


def set_figures(data: MeasuredSource, results: Result, chosen: Sequence[PaperDistance]) -> Iterator[PaperFigure]:
    """Draw the figures of one data set: surfaces, triplets before and after uniformisation, votes, examples."""
    name, label = data.name, SETS[data.name]
    for estimator in ESTIMATORS:
        which = "Figure 2" if name == "bapps" else "Appendix H"
        yield PaperFigure(
            f"surfaces-{name}-{estimator}",
            f"{which}: surfaces of P, {METHODS[estimator].lower()}, {label}",
            "The probability P that x1 is chosen, over the plane of uniformised distances; the heavy line is P = 1/2.",
            _draw_surfaces(results, chosen, estimator),
        )
    yield PaperFigure(
        f"scatter-{name}",
        f"{'Appendix B' if name == 'bapps' else 'Appendix H'}: triplets before and after uniformisation, {label}",
        "Training triplets by their two distances, as measured (above) and uniformised (below); the colour is the "
        "share of votes for x1.",
        _draw_scatter(data.train, chosen),
    )
    if name == "bapps":
        yield from _example_cards(data, results, chosen)
        return
    yield PaperFigure(
        "votes-clic",
        "Appendix H: numbers of judgements, CLIC 2021",
        "How many judgements M the triplets have (left, on a logarithmic scale) and, for each M, how many of them, n, "
        "chose x1.",
        _draw_votes(data.tables),
    )


def robustness_figures(swept: Sweep, chosen: Sequence[PaperDistance], label: str) -> Iterator[PaperFigure]:
    """Draw NLL and agreement against sigma and against the size of the grid."""
    yield PaperFigure(
        "robustness-sigma",
        f"Figure 4: width of the kernel, {label}",
        "Scores against the width sigma of the kernel, on a grid of 100 x 100; diamonds mark the width that is chosen "
        "automatically for each distance. Bands are 95 % intervals.",
        _draw_sweep(swept, chosen, "sigma", r"$\sigma$"),
    )
    yield PaperFigure(
        "robustness-grid",
        f"Figure 4: size of the grid, {label}",
        "Scores against the number of nodes along each axis, at sigma = 1/44; diamonds mark the number that the "
        "automatic rule gives this width. Bands are 95 % intervals.",
        _draw_sweep(swept, chosen, "grid_size", "nodes along each axis"),
    )


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure  # here, since it is slow to import

    return Figure(figsize=(width, height), layout="constrained")


def _draw_surfaces(results: Result, chosen: Sequence[PaperDistance], estimator: str) -> Figure:
    fits = {item.heading: results.fit(item.name, estimator) for item in chosen}
    surfaces = {name: plots.surface_values(fit.probability, fit.uniform) for name, fit in fits.items()}
    figure = plots.surfaces(surfaces, across=3 if len(surfaces) > 4 else 4)
    assert figure is not None  # there is always a distance
    return figure


def _draw_scatter(table: Triplets, chosen: Sequence[PaperDistance]) -> Figure:
    across = len(chosen)
    figure = _figure(1.75 * across + 0.7, 3.9)
    axes = figure.subplots(2, across, squeeze=False)
    share = table.n / table.M
    for (above, below), item in zip(axes.T, chosen, strict=True):
        one = table[item.name]
        plots.scatter(one.d0, one.d1, share, above).set_title(item.heading, fontsize=8)
        _, u0, u1 = uniformise(one.d0, one.d1)
        plots.scatter(u0, u1, share, below, uniform=True)
    for ax in axes[:, 1:].ravel():
        ax.set_ylabel("")
    plots.colour_bar([*axes.ravel()], "n / M")
    return figure


def _draw_votes(tables: Mapping[str, Triplets]) -> Figure:
    """Draw for each split the distribution of M and beside it, in rows of panels, that of n for each M."""
    depths = [-(-len(np.unique(table.M)) // PANELS) for table in tables.values()]
    figure = _figure(7.2, 1.5 * sum(depths) + 0.5)
    parts = figure.subfigures(len(depths), 1, height_ratios=depths, squeeze=False).ravel()
    for part, depth, (split, table) in zip(parts, depths, tables.items(), strict=True):
        part.suptitle(f"{split}, {len(table):,} triplets", fontsize=8)
        left, right = part.subfigures(1, 2, width_ratios=(1, 2.6))
        ax = plots.votes(table.n, table.M, left.subplots(), what="M")
        ax.set(yscale="log", ylim=(0.7, None))  # so that a single triplet is visible
        ax.minorticks_off()
        plots.votes_by_M(table.n, table.M, list(right.subplots(depth, PANELS, squeeze=False).ravel()))
    return figure


def _draw_sweep(swept: Sweep, chosen: Sequence[PaperDistance], parameter: Any, label: str) -> Figure:
    headings = {item.name: item.heading for item in chosen}
    figure = _figure(6.8, 2.6)
    measures: dict[Any, str] = {"nll": "NLL, nats", "agreement": "AJ, %"}
    for ax, (measure, title) in zip(figure.subplots(1, 2), measures.items(), strict=True):
        plots.sweep(
            {headings[name]: curve for name, curve in swept.curves(parameter, measure).items()},
            ax,
            label=label,
            measure=title,
            chosen=float(getattr(ESTIMATORS["density"], parameter)),
            automatic={headings[name]: value for name, value in swept.automatic_values(parameter).items()},
            logarithmic=parameter == "sigma",
        )
    return figure


def _example_cards(data: MeasuredSource, results: Result, chosen: Sequence[PaperDistance]) -> Iterator[PaperFigure]:
    """Draw three triplets of the kinds that the paper shows, under DISTS, as there, if it was measured."""
    item = next((item for item in chosen if item.paper == "dists"), chosen[-1])
    split = "test" if "test" in data.tables else "train"
    table = data.tables[split][item.name]
    fit = results.fit(item.name, "density")
    for (kind, description), row in zip(EXAMPLES.items(), find_examples(table, fit), strict=True):
        triplet, n, M = str(table.labels["triplet"][row]), int(table.n[row]), int(table.M[row])
        answer = ask(fit, float(table.d0[row]), float(table.d1[row]), votes=M, observed=n)
        yield PaperFigure(
            f"triplet-{kind}",
            f"Figure 3 and appendix F: {description}",
            f"Triplet {triplet} under {item.heading}: the NLL of every count j of the votes, the observed one hatched.",
            plots.triplet_card(_images(data, split, triplet), answer),
        )


def find_examples(table: Triplets, fit: Any) -> list[int]:
    """Find three different triplets: one image near and P sharp; one far and P sharp; both far and P near 1/2."""
    u0, u1 = fit.uniform(table.d0), fit.uniform(table.d1)
    P = np.asarray(fit.probability(table.d0, table.d1))
    sharp, near, far = abs(2 * P - 1), np.minimum(u0, u1), np.maximum(u0, u1)
    # The votes, too, should show what the figure is to show.
    unanimous = abs(2 * table.n / table.M - 1) * (np.sign(2 * table.n - table.M) == np.sign(2 * P - 1))
    rows: list[int] = []
    clear = sharp + unanimous
    for worth in (clear - near, clear + far - abs(near - 0.5), near - 2 * sharp - unanimous):
        worth[rows] = -np.inf
        rows.append(int(np.argmax(worth)))
    return rows


def _images(data: MeasuredSource, split: str, triplet: str) -> list[NDArray[np.uint8] | None]:
    """Read x0, the reference and x1 of a triplet; None if they cannot be read."""
    images = data.splits[split]
    (row,) = np.flatnonzero((images.table["triplet"] == triplet).to_numpy())
    try:
        ref, x0, x1 = images.images([row])
    except (DataError, ImageError):
        return [None, None, None]
    return [np.round(255 * batch[0].transpose(1, 2, 0)).astype(np.uint8) for batch in (x0, ref, x1)]

"""Draw the gallery of figures from simulated votes: python docs/gallery.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from twoafc import Density, Spline, Triplets, metrics, planning, plots, worlds
from twoafc.core import uniformise
from twoafc.distances import distance
from twoafc.inference import Clustering, Dependence, calibration, residual_map
from twoafc.reproduce import worked_example
from twoafc.results import ask

GALLERY = Path(__file__).parent / "images" / "gallery"
COLUMN, PAGE = 3.35, 7.0
"""Widths of one column of print and of two, in inches."""
TRAINED = 2000
NAMES = ("ssim", "nlpd", "euclidean", "brightness")


def panel(width: float = COLUMN, height: float = 2.6) -> Axes:
    """Return the axes of a new figure."""
    return Figure(figsize=(width, height), layout="constrained").subplots()


@cache
def world(name: str, triplets: int, votes: int | tuple[int, ...]) -> Triplets:
    """Simulate votes in a world with a known P."""
    return Triplets.from_frame(worlds.simulate(name, triplets=triplets, votes=votes, seed=1))


@cache
def judged() -> tuple[worlds.PhotographTriplets, Triplets]:
    """Simulate five votes on each of some distorted photographs."""
    images = worlds.photograph_triplets(3000, seed=7)
    simulated = worlds.observers(images.ref, images.x0, images.x1, 5, seed=8)
    columns: dict[str, Any] = {"n": simulated.n, "M": simulated.M}
    for name in NAMES:
        d = worlds.brightness if name == "brightness" else distance(name)
        columns |= {f"{name}_d0": d(images.ref, images.x0), f"{name}_d1": d(images.ref, images.x1)}
    return images, Triplets.from_frame(columns)


@cache
def fitted(name: str) -> Any:
    """Fit one distance of the photographs, on the first of them."""
    return Spline().fit(judged()[1][name].where(np.arange(TRAINED)))


def held_out(name: str) -> Triplets:
    """Return the photographs that were not fitted."""
    table = judged()[1][name]
    return table.where(np.arange(TRAINED, len(table)))


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return a mean over independent triplets and its 95 % interval."""
    mean, error = values.mean(), 1.96 * values.std() / len(values) ** 0.5
    return float(mean), float(mean - error), float(mean + error)


def over_plane(fit: Any, of: Callable[..., np.ndarray], size: int = 101) -> np.ndarray:
    """Return values of a fit over the uniformised plane."""
    d = fit.uniform.inverse(np.linspace(0, 1, size))
    return of(d[:, None], d[None, :])


def surface() -> Figure:
    """P and where its triplets lie."""
    table = world("thurstone", 3000, 2)
    fit = Density(sigma="auto").fit(table)
    density, *_ = np.histogram2d(fit.uniform(table.d0), fit.uniform(table.d1), bins=20, range=[[0, 1], [0, 1]])
    return plots.surfaces({"": over_plane(fit, fit.probability)}, density={"": density})


def surfaces() -> Figure:
    """P in four worlds."""
    names = ("weber", "thurstone", "saturating", "turning")
    fits = {name: Density(sigma="auto").fit(world(name, 5000, 5)) for name in names}
    return plots.surfaces({name: over_plane(fit, fit.probability) for name, fit in fits.items()})


def standard_error() -> Figure:
    """Standard errors of P, by two estimators."""
    table = world("thurstone", 3000, 2)
    fits = {"density": Density(sigma="auto").fit(table), "spline": Spline().fit(table)}
    return plots.standard_errors({name: over_plane(fit, fit.standard_error) for name, fit in fits.items()})


def scatter() -> Figure:
    """As many triplets as BAPPS validates with, before and after uniformisation."""
    table = world("weber", 36_344, 5)
    _, u0, u1 = uniformise(table.d0, table.d1)
    figure = Figure(figsize=(PAGE, 2.9), layout="constrained")
    raw, uniform = figure.subplots(1, 2)
    plots.scatter(table.d0, table.d1, table.n / table.M, raw)
    plots.scatter(u0, u1, table.n / table.M, uniform, uniform=True)
    plots.colour_bar(uniform, "n / M, share of votes for x1")
    return figure


def steps() -> Figure:
    """The worked example."""
    figure = Figure(figsize=(PAGE, 3.7), layout="constrained")
    plots.worked_example(worked_example(), figure.subplots(2, 4).ravel())
    return figure


def sweep() -> Figure:
    """NLL of held-out photographs against sigma."""
    sigmas = np.geomspace(0.005, 0.6, 14)
    curves, automatic = {}, {}
    for name in NAMES:
        train, test = judged()[1][name].where(np.arange(TRAINED)), held_out(name)
        fits = [Density(sigma=float(sigma), grid_size=100).fit(train) for sigma in sigmas]
        points = [interval(-metrics.log_likelihood(test.n, test.M, fit.probability(test.d0, test.d1))) for fit in fits]
        curves[name] = plots.SweepCurve(sigmas, *np.array(points).T)
        automatic[name] = float(Density(sigma="auto").fit(train).settings.sigma)
    ax = plots.sweep(
        curves, panel(), label="σ", measure="NLL, nats", chosen=1 / 44, automatic=automatic, logarithmic=True
    )
    return ax.figure


def forest() -> Figure:
    """NLL of held-out photographs, between those of the true P and of P = 1/2."""
    rows = []
    for name, letters in zip(NAMES, ("a", "b", "c", "d"), strict=True):
        test = held_out(name)
        P = fitted(name).probability(test.d0, test.d1)
        rows.append(plots.ForestRow(name, *interval(-metrics.log_likelihood(test.n, test.M, P)), letters))
    coin = metrics.nll(test.n, test.M, np.full(len(test), 0.5))
    images = judged()[0]
    truth = worlds.observers(images.ref, images.x0, images.x1, 5, seed=8).P[TRAINED:]
    _, low, high = interval(-metrics.log_likelihood(test.n, test.M, truth))
    return plots.forest(
        rows, panel(height=1.7), label="NLL, nats", reference={"P = 1/2": coin, "true P": (low, high)}
    ).figure


def reliability() -> Figure:
    """Shares of votes against P, of held-out photographs."""
    bins = {}
    for name in NAMES[:3]:
        test = held_out(name)
        alone = Clustering(Dependence(len(test), (), ""), None)
        bins[name] = calibration(test.n, test.M, fitted(name).probability(test.d0, test.d1), alone).bins
    return plots.reliabilities(bins)


def residuals() -> Figure:
    """What a monotone surface must miss in a world that is not monotone."""
    named = {}
    for name in ("weber", "turning"):
        table = world(name, 5000, 5)
        P = worlds.true_probability("weber", table.d0, table.d1)
        alone = Clustering(Dependence(len(table), (), ""), None)
        named[name] = residual_map(table.n, table.M, P, table.d0, table.d1, alone)
    return plots.residual_maps(named)


def votes() -> Figure:
    """M, n and n / M if M varies."""
    table = world("weber", 5000, (1, 2, 3, 3, 4, 5, 5, 5, 8))
    figure = Figure(figsize=(PAGE, 1.9), layout="constrained")
    for what, ax in zip(("M", "n", "share"), figure.subplots(1, 3), strict=True):
        plots.votes(table.n, table.M, ax, what=what)
    return figure


def pictures(row: int) -> list[np.ndarray]:
    """Return x0, the reference and x1 of one triplet of photographs."""
    images = judged()[0]
    return [
        np.rint(255 * batch[row].transpose(1, 2, 0)).astype(np.uint8) for batch in (images.x0, images.ref, images.x1)
    ]


def answers(row: int, *names: str) -> dict[str, Mapping[str, Any]]:
    """Ask fits about one triplet of photographs."""
    table = judged()[1]
    return {
        name: ask(
            fitted(name), table[name].d0[row], table[name].d1[row], votes=int(table.M[row]), observed=int(table.n[row])
        )
        for name in names
    }


def triplet_card() -> Figure:
    """A triplet on which ssim was right."""
    test = held_out("ssim")
    P = fitted("ssim").probability(test.d0, test.d1)
    row = TRAINED + int(np.flatnonzero((test.n == 4) & (P > 0.75))[0])
    return plots.triplet_card(pictures(row), answers(row, "ssim")["ssim"], title=f"triplet {row}, ssim")


def disagreement_card() -> Figure:
    """The triplet on which ssim and euclidean disagree most."""
    a, b = held_out("ssim"), held_out("euclidean")
    apart = fitted("ssim").probability(a.d0, a.d1) - fitted("euclidean").probability(b.d0, b.d1)
    row = TRAINED + int(np.argmax(abs(apart)))
    asked = answers(row, "ssim", "euclidean")
    nll = {name: next(count["nll"] for count in each["counts"] if count["observed"]) for name, each in asked.items()}
    return plots.disagreement_card(pictures(row), asked, title=f"triplet {row}", right=min(nll, key=lambda n: nll[n]))


def study_contour() -> Figure:
    """Power of studies of two distances, and what they cost."""
    given = planning.Components(
        references=0.001, triplets=0.02, votes=0.16, observers=5e-4, per_reference=5, per_observer=200
    )
    return planning.size(given, difference=0.02, cost_per_vote=0.05, cost_per_observer=3).figure()


def measured(triplets: int) -> pl.DataFrame:
    """Two noisy copies of a distance that people follow, and the chance P of their choice."""
    pool, rng = worlds.simulate("weber", triplets=triplets, votes=1, seed=4), np.random.default_rng(4)
    noise = {"mine": 0.3, "standard": 0.7}
    columns = {
        f"{name}_d{k}": pool[f"d{k}"] * np.exp(spread * rng.normal(size=triplets))
        for name, spread in noise.items()
        for k in (0, 1)
    }
    return pool.select("triplet", "P").with_columns(**columns)


def chosen_triplets() -> Figure:
    """A batch of 500 votes on two distances, chosen by 300 earlier ones."""
    pool = measured(10_000)
    pilot = pool[:300].with_columns(n=pl.Series(worlds.cast_votes(pool["P"][:300], 1)[0]), M=pl.lit(1))
    return planning.choose(pool[300:].drop("P"), votes=500, judged=pilot.drop("P", "triplet")).figure()


def batch_intervals() -> Figure:
    """A study that is looked at after each of eight batches."""
    votes = np.arange(1, 9) * 250.0
    value = -0.03 + 0.5 * np.cumsum(np.random.default_rng(3).normal(size=8)) * 250**0.5 / votes
    found = [planning.always_valid(x, 0.45 / n**0.5, n, scale=0.03) for x, n in zip(value, votes, strict=True)]
    low, high = (np.array([getattr(each, end) for each in found]) for end in ("low", "high"))
    ax = panel(height=2.3)
    plots.batch_intervals(votes, value, low, high, ax, label="mine − standard,\nnats per vote", margin=0.03)
    return ax.figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "surface": surface,
    "surfaces": surfaces,
    "standard-error": standard_error,
    "scatter": scatter,
    "worked-example": steps,
    "sweep": sweep,
    "forest": forest,
    "reliability": reliability,
    "residuals": residuals,
    "votes": votes,
    "triplet-card": triplet_card,
    "disagreement-card": disagreement_card,
    "study-contour": study_contour,
    "chosen-triplets": chosen_triplets,
    "batch-intervals": batch_intervals,
}


if __name__ == "__main__":
    GALLERY.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or FIGURES:
        plots.save(FIGURES[name](), GALLERY / f"{name}.svg", dpi=150)

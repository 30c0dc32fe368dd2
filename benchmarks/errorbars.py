"""Do the error bars hold? Share of 95 % intervals that cover the truth, and false alarms of the paired test.

Run: python benchmarks/errorbars.py [TABLES] [REFITS] (about ten minutes with the defaults, 2000 and 400)

Two distances see the same images with noise of their own, one more than the other; their surfaces are fitted once.
Tables are then drawn, scored and given intervals; the truth is the score on 400,000 fresh triplets. In the last study
surfaces are fitted anew to each drawn training table, and the truth is the mean over all of them. The paired test is
tried on two distances with noise of like size, which are equally good.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from twoafc import Density, Settings, Triplets, evaluate
from twoafc.inference import MEASURES, bar, by_group, clustering_of, compare, errors, values_of, values_per_row

SCORES = ("nll", "nll_per_vote", "agreement", "score_2afc", "score_2afc_distance")
FRESH = 400_000


@dataclass(frozen=True)
class World:
    """How triplets go together: some per reference, from a pool of images, judged by observers, or each alone."""

    told: str
    triplets: int
    references: int | None = None
    images: int | None = None
    observers: int | None = None
    votes: tuple[int, ...] = (1, 2, 5)


WORLDS = (
    World("alone, T = 100", 100),
    World("alone, T = 1000", 1000),
    World("20 references, T = 200", 200, references=20),
    World("100 references, T = 1000", 1000, references=100),
    World("100 references of unlike size, T = 1000", 1000, references=-100),
    World("60 images in all places, T = 1000", 1000, images=60),
    World("30 observers, T = 400, M = 5", 400, observers=30, votes=(5,)),
)


def draw(world: World, T: int, rng: np.random.Generator, noises: tuple[float, float]) -> Triplets:
    """Draw a table: every reference, image and observer brings something of its own to distances and votes."""
    columns: dict[str, np.ndarray | list[str]] = {"group": np.where(rng.random(T) < 0.7, "large", "small")}
    shift, sharp, quirk = np.zeros((2, T)), np.zeros(T), np.zeros((2, 2, T))
    if world.references:
        count = abs(world.references) * max(1, T // world.triplets)
        chance = rng.dirichlet(np.full(count, 2.0)) if world.references < 0 else None
        ref = rng.choice(count, T, p=chance) if chance is not None else np.arange(T) % count
        columns["ref"] = ref
        sharp, quirk = rng.normal(size=count)[ref], rng.normal(size=(2, 1, count))[:, :, ref] * np.array([[1], [-1]])
    if world.images:
        count = world.images * max(1, T // world.triplets)
        ref, x0, x1 = (
            rng.permuted(np.tile(np.arange(count), (T, 1)), axis=1)[:, :3].T
            if count < 500
            else rng.integers(count, size=(3, T))
        )
        columns |= {"ref": ref, "x0": x0, "x1": x1}
        shift = 0.7 * rng.normal(size=count)[np.stack([x0, x1])]
        quirk = rng.normal(size=(2, count))[:, np.stack([x0, x1])]
        sharp = rng.normal(size=count)[ref]
    true = np.exp(rng.normal(size=(2, T)) + shift)
    logit = (2 + sharp) * np.log(true[0] / true[1])
    for k, (name, noise) in enumerate(zip("ab", noises, strict=True)):
        seen = true * np.exp(noise * (0.7 * rng.normal(size=(2, T)) + 0.7 * quirk[k]))
        columns |= {f"{name}_d0": seen[0], f"{name}_d1": seen[1]}
    M = rng.choice(world.votes, T)
    if not world.observers:
        return Triplets.from_frame({**columns, "n": rng.binomial(M, expit(logit)), "M": M})
    count = world.observers * max(1, T // world.triplets)
    row = np.repeat(np.arange(T), M)
    observer = rng.permuted(np.tile(np.arange(count), (T, 1)), axis=1)[:, : M[0]].ravel()
    skill = np.exp(0.8 * rng.normal(size=count))[observer]
    choice = rng.random(len(row)) < expit(skill * logit[row])
    votes = {name: np.asarray(values)[row] for name, values in columns.items()}
    return Triplets.from_frame({**votes, "triplet": row, "observer": observer, "choice": choice.astype(int)})


def truths(world: World, surfaces: dict[str, Callable], rng: np.random.Generator, noises: tuple[float, float]) -> dict:
    """Scores on fresh triplets, of many more references, images and observers."""
    parts = 8 if world.images or world.observers else 1
    size = FRESH // parts if not (world.images or world.observers) else 20 * world.triplets
    parts = parts if not (world.images or world.observers) else FRESH // size
    sums: dict = {}
    for _ in range(parts):
        table = draw(world, size, rng, noises)
        for name, surface in surfaces.items():
            one = table[name]
            for record in by_group(one, values_per_row(one, surface(one.d0, one.d1))):
                for score in SCORES:
                    sums.setdefault((name, record["group"], score), []).append(record[score])
    return {key: float(np.mean(values)) for key, values in sums.items()}


def covered(low: float | None, high: float | None, truth: float) -> bool:
    return low is not None and high is not None and low <= truth <= high


def study(world: World, tables: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    noises = (0.5, 0.9)
    train = draw(World("", 5000), 5000, rng, noises)
    surfaces = {name: Density().fit(train[name]).probability for name in "ab"}
    truth = truths(world, surfaces, rng, noises)
    hits: dict[str, list[bool]] = {}
    for _ in range(tables):
        table = draw(world, world.triplets, rng, noises)
        link, kept = clustering_of(table), {}
        for name, surface in surfaces.items():
            one, P = table[name], surface(table[name].d0, table[name].d1)
            values = values_per_row(one, P)
            kept[name] = values_of(one, P, values, link)
            bars = errors(kept[name], one.codes("group"), link)
            for record in by_group(one, values):
                se, skew, units = bars[record["group"]]
                for score in SCORES:
                    place = -1 if score == "nll_per_vote" else MEASURES.index(score)
                    ends = bar(score, record[score], float(se[place]), units, skew=float(skew[place]))
                    hit = covered(ends[f"{score}_low"], ends[f"{score}_high"], truth[name, record["group"], score])
                    hits.setdefault(f"{score}, {record['group']}", []).append(hit)
        for record in compare(kept, link, estimator="density"):
            a, b, measure = record["a"], record["b"], record["measure"]
            apart = truth[a, "all", measure] - truth[b, "all", measure]
            hits.setdefault(f"difference of {measure}", []).append(covered(record["low"], record["high"], apart))
    alarms = false_alarms(world, tables, seed)
    tell(world.told, hits, alarms)


def false_alarms(world: World, tables: int, seed: int) -> dict[str, float]:
    """Share of tables in which two equally good distances are called different."""
    rng = np.random.default_rng(seed + 1)
    noises = (0.7, 0.7)
    surface = Density().fit(draw(World("", 5000), 5000, rng, noises)["a"]).probability
    called: dict[str, list[bool]] = {}
    for _ in range(tables):
        table = draw(world, world.triplets, rng, noises)
        link, kept = clustering_of(table), {}
        for name in "ab":
            one, P = table[name], surface(table[name].d0, table[name].d1)
            kept[name] = values_of(one, P, values_per_row(one, P), link)
        for record in compare(kept, link, estimator="density"):
            called.setdefault(record["measure"], []).append(record["different"])
    return {measure: 100 * float(np.mean(each)) for measure, each in called.items()}


def tell(told: str, hits: dict[str, list[bool]], alarms: dict[str, float]) -> None:
    """Print one world: the scores of each group, the paired differences, the false alarms."""
    print(f"{told:42s}" + "".join(f"{score:>21s}" for score in SCORES))
    for group in ("all", "large", "small", "mean"):
        shares = [100 * np.mean(hits[f"{score}, {group}"]) for score in SCORES]
        print(f"  covered, {group:31s}" + "".join(f"{share:21.1f}" for share in shares))
    apart = {name[14:]: 100 * np.mean(each) for name, each in hits.items() if name.startswith("difference")}
    for line, shares in (("covered, paired difference", apart), ("false alarms of the paired test", alarms)):
        print(f"  {line:40s}" + "".join(f"{shares[s]:21.1f}" if s in shares else " " * 21 for s in SCORES), flush=True)


def refit_study(world: World, tables: int, seed: int, draws: int = 50) -> None:
    """Intervals with surfaces fitted anew: the truth is the mean over training tables and fresh triplets."""
    rng = np.random.default_rng(seed)
    noises, settings = (0.5, 0.9), Settings(draws=draws, error_bars="refit")
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for _ in range(tables):
        train, test = (draw(world, world.triplets, rng, noises) for _ in range(2))
        told = evaluate(train, test, estimators={"density": Density(sigma=0.08)}, settings=settings)
        for record in told.scores:
            if record["split"] == "test" and record["group"] == "all":
                for score in SCORES:
                    bars = tuple(record[f"{score}{end}"] for end in ("", "_low", "_high", "_se"))
                    found.setdefault((record["distance"], score), []).append(bars)
        for record in told.comparisons:
            sign = 1 if record["a"] == "a" else -1
            ends = sorted(sign * record[end] for end in ("low", "high"))
            bars = (sign * record["difference"], *ends, record["se"])
            found.setdefault(("difference", record["measure"]), []).append(bars)
    print(f"fitted anew, {world.told}, {tables} tables of {draws} draws")
    for (name, score), bars in found.items():
        values, low, high, se = np.array(bars).T
        # The mean over all tables stands for the truth: its own error is a small part of each table's.
        hit = 100 * np.mean((low <= values.mean()) & (values.mean() <= high))
        print(f"  {name:11s}{score:20s} covered {hit:5.1f}, told / true error {se.mean() / values.std():.2f}")
    sys.stdout.flush()


def main(arguments: Sequence[str] = ()) -> None:
    tables, refitted = (int(each) for each in [*arguments, *["2000", "400"][len(arguments) :]])
    print(f"95 % intervals, {tables} tables each: share that cover the truth, in %")
    for seed, world in enumerate(WORLDS):
        study(world, tables, seed)
    if refitted:
        refit_study(World("alone, T = 400", 400), refitted, 50)
        refit_study(World("100 references, T = 400", 400, references=100), refitted, 51)


if __name__ == "__main__":
    main(sys.argv[1:])

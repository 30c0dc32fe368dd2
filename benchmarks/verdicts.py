"""Do verdicts hold? False alarms of the paired test, coverage of intervals, and the size of the error bars.

Run: python -m benchmarks verdicts [TABLES] [PART] [PROCESSES]
(with 4000 tables some hours on two cores; parts: training, references, images, observers; default all)

Two distances see the same images with noise of their own; each has a surface of its own, fitted to a training table
that is drawn for the purpose. For false alarms their noises are of one size: the distances are exchangeable, and 5 % of
tables should call them different. For coverage and power b has more noise than a; the truth is the mean difference
over all tables of a design, each with its own training table, or, where training is not the question, the score of the
fitted surfaces on fresh triplets. Splines are slower, and tried on a quarter of the tables.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import Pool

import numpy as np
from scipy.special import expit

from twoafc import Density, Spline, Triplets
from twoafc.evaluation import Data, Task, predictions
from twoafc.evaluation.halves import fit_to_halves, score_halves, split_into_halves, training_matters
from twoafc.inference import MEASURES, Values, bar, clustering_of, compare, errors, values_of, values_per_row
from twoafc.table import assign_folds

SCORES = ("nll", "score_2afc")
LARGE = 20_000
"""Training triplets where training is not the question."""
SHARED = 50
"""Tables that share such surfaces."""
FRESH = 200_000


@dataclass(frozen=True)
class Design:
    """A study: its size, what its triplets share, and the estimator.

    ``train`` is None where surfaces are fitted to a large table; ``folds``, where the test table is cross-validated.
    """

    name: str
    test: int
    train: int | None = None
    folds: int = 0
    estimator: str = "density"
    references: int | None = None
    sizes: str = "equal"
    images: int | None = None
    observers: int | None = None
    M: int = 3
    world: str = "weber"


def training() -> list[Design]:
    """Few training triplets: with a test table, and cross-validated."""
    designs = [
        Design("300 -> 10,000", 10_000, 300),
        Design("300 -> 1,500", 1500, 300),
        Design("thurstone, M = 1, 300 -> 1,500", 1500, 300, world="thurstone", M=1),
        Design("1,000 -> 1,000", 1000, 1000),
        Design("1,000 -> 10,000", 10_000, 1000),
        Design("60 references, 300 -> 3,000", 3000, 300, references=60),
        Design("5 folds, 200, M = 3", 200, folds=5),
        Design("5 folds, 200, M = 5", 200, folds=5, M=5),
        Design("5 folds, 600, 60 references", 600, folds=5, references=60),
        Design("5 folds, 1,500, saturating, M = 1", 1500, folds=5, world="saturating", M=1),
    ]
    return designs + [
        replace(design, estimator="spline")
        for design in designs
        if design.name in ("300 -> 10,000", "300 -> 1,500", "5 folds, 200, M = 3", "5 folds, 600, 60 references")
    ]


def references() -> list[Design]:
    """Few references, of equal and of very unequal sizes."""
    few = [Design(f"{k} references, equal", 40 * k, references=k) for k in (2, 3, 5, 8, 12, 40)]
    return few + [Design(f"{k} references, Pareto", 40 * k, references=k, sizes="Pareto") for k in (3, 5, 8, 12, 40)]


def images() -> list[Design]:
    """Few images in all places, used alike or by Zipf's law."""
    sizes = ((6, 60), (8, 168), (11, 330), (12, 600), (20, 1000), (30, 3000), (60, 165))
    equal = [Design(f"{k} images, {T} triplets", T, images=k) for k, T in sizes]
    return equal + [
        Design(f"{k} images, {T} triplets, Zipf", T, images=k, sizes="Zipf") for k, T in ((12, 300), (30, 1000))
    ]


def observers() -> list[Design]:
    """Observers of unlike skill, few and many."""
    return [Design(f"{k} observers, 200 triplets, M = 3", 200, observers=k) for k in (3, 6, 12, 30)]


PARTS = {"training": training, "references": references, "images": images, "observers": observers}
ESTIMATORS = {"density": Density(), "spline": Spline()}


def several(
    rng: np.random.Generator, shape: tuple[int, int], count: int, chance: np.ndarray | None = None
) -> np.ndarray:
    """Numbers below `count`, different ones in each row; of hundreds, in which it does not matter, any."""
    if count >= 200:
        return rng.integers(count, size=shape)
    # The largest of log chance plus Gumbel noise: a draw without replacement.
    keys = rng.gumbel(size=(shape[0], count)) + (0 if chance is None else np.log(chance))
    return np.argsort(-keys, axis=1)[:, : shape[1]]


def draw(design: Design, T: int, rng: np.random.Generator, noises: Sequence[float], scale: int = 1) -> Triplets:
    """Draw a table; `scale` times as many references, images and observers as the design has."""
    columns: dict[str, np.ndarray] = {}
    sharp, shift, quirk = np.zeros(T), np.zeros((2, T)), np.zeros((2, 2, T))
    if design.references:
        count = design.references * scale
        share = rng.pareto(1.2, count) + 0.05 if design.sizes == "Pareto" else np.ones(count)
        rest = max(T - count, 0)
        drawn = rng.choice(count, rest, p=share / share.sum()) if design.sizes == "Pareto" else np.arange(rest) % count
        ref = np.concatenate([np.arange(min(count, T)), drawn])
        columns["ref"] = ref
        sharp = 0.5 * rng.normal(size=count)[ref]
        quirk = rng.normal(size=(2, 2, count))[:, :, ref]
    if design.images:
        count = design.images * scale
        chance = 1 / np.arange(1, count + 1) if design.sizes == "Zipf" else None
        ref, x0, x1 = several(rng, (T, 3), count, chance).T
        columns |= {"ref": ref, "x0": x0, "x1": x1}
        shift = 0.7 * rng.normal(size=count)[np.stack([x0, x1])]
        quirk = rng.normal(size=(2, count))[:, np.stack([x0, x1])]
        sharp = 0.5 * rng.normal(size=count)[ref]
    true = np.exp(rng.normal(size=(2, T)) + shift)
    logit = {
        "weber": lambda: (2 + sharp) * np.log(true[0] / true[1]),
        "thurstone": lambda: (1.5 + sharp) * (true[0] - true[1]),
        "saturating": lambda: (8 + sharp) * (true[0] / (1 + true[0]) - true[1] / (1 + true[1])),
    }[design.world]()
    shared = 0.7 if design.references or design.images else 0.0
    for k, (name, noise) in enumerate(zip("ab", noises, strict=True)):
        own = np.sqrt(1 - shared**2) * rng.normal(size=(2, T)) + shared * quirk[k]
        seen = true * np.exp(noise * own)
        columns |= {f"{name}_d0": seen[0], f"{name}_d1": seen[1]}
    if not design.observers:
        M = np.full(T, design.M)
        return Triplets.from_frame({**columns, "n": rng.binomial(M, expit(logit)), "M": M})
    count, row = design.observers * scale, np.repeat(np.arange(T), design.M)
    observer = several(rng, (T, design.M), count).ravel()
    skill = np.exp(0.8 * rng.normal(size=count))[observer]
    choice = rng.random(len(row)) < expit(skill * logit[row])
    votes = {name: values[row] for name, values in columns.items()}
    return Triplets.from_frame({**votes, "triplet": row, "observer": observer, "choice": choice.astype(int)})


def surfaces(design: Design, noises: Sequence[float], seed: int) -> tuple[dict, dict]:
    """Surfaces of both distances, fitted to a large table, and their scores on fresh triplets."""
    rng = np.random.default_rng(seed)
    train = draw(design, LARGE, rng, noises, scale=LARGE // 10)
    fits = {name: ESTIMATORS[design.estimator].fit(train[name]) for name in "ab"}
    fresh = draw(design, FRESH, rng, noises, scale=FRESH // 10)
    means = {}
    for name, fit in fits.items():
        one = fresh[name]
        values = values_per_row(one, fit.probability(one.d0, one.d1))
        means[name] = np.array([values[score].mean() for score in SCORES])
    return fits, means


def tables(design: Design, noises: Sequence[float], seeds: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """Draw tables and judge them as `twoafc.evaluate` does."""
    found = []
    fits, means = surfaces(design, noises, seeds[0]) if design.train is None and not design.folds else ({}, {})
    estimator = ESTIMATORS[design.estimator]
    for seed in seeds:
        rng = np.random.default_rng([seed, 1])
        table = draw(design, design.test, rng, noises)
        clustering = clustering_of(table)
        values: dict[str, Values] = {}
        if fits:
            for name, fit in fits.items():
                one = table[name]
                P = fit.probability(one.d0, one.d1)
                values[name] = values_of(one, P, values_per_row(one, P), clustering)
        else:
            train = table if design.folds else draw(design, design.train or 0, rng, noises)
            test = None if design.folds else table
            fold = assign_folds(train, design.folds, seed=seed) if design.folds else None
            data = Data(train, test, fold)
            half = split_into_halves(data, seed=seed)
            for name in "ab":
                task = Task(name, design.estimator, None, estimator)
                run = task.run(train)
                *_, last = predictions(task, run, data)
                values[name] = values_of(last.table, last.P, values_per_row(last.table, last.P), clustering)
                if design.folds or training_matters(estimator, len(train), len(table)):
                    halves = score_halves(fit_to_halves(task, run, data, half), last.table, data)
                    values[name] = replace(values[name], halves=halves)
        found.append(outcome(values, clustering, means))
    return found


def outcome(values: dict[str, Values], clustering, means: dict) -> dict[str, np.ndarray]:
    """The difference of a and b, the scores of a, and their truth, by score.

    - difference, shape (scores, 5): difference, se, low, high, p
    - fixed, shape (scores,): p with the noise of training left out
    - score, shape (scores, 4): value, se, low, high
    - truth, shape (scores, 2): difference and score of a on fresh triplets; NaN where training is the question
    """
    plain = {name: replace(each, halves=None) for name, each in values.items()}
    records = [{r["measure"]: r for r in compare(each, clustering, estimator="")} for each in (values, plain)]
    difference = []
    for score in SCORES:
        record = records[0][score]
        sign = 1 if record["a"] == "a" else -1
        if record["p"] is None:
            difference.append([np.nan] * 5)
            continue
        ends = sorted(sign * record[end] for end in ("low", "high"))
        difference.append([sign * record["difference"], record["se"], *ends, record["p"]])
    error = errors(values["a"], None, clustering)["all"]
    own = []
    for score in SCORES:
        place = MEASURES[2].index(score)
        value = float(values["a"].columns[:, place].mean())
        bars = bar(score, value, error.se[place], float(error.units[place]), skew=error.skew[place])
        ends = (bars[f"{score}_{end}"] for end in ("se", "low", "high"))
        own.append([value, *(np.nan if end is None else end for end in ends)])
    truth = np.full((len(SCORES), 2), np.nan)
    if means:
        truth = np.stack([means["a"] - means["b"], means["a"]], axis=1)
    fixed = [np.nan if records[1][score]["p"] is None else records[1][score]["p"] for score in SCORES]
    return {"difference": np.array(difference), "fixed": np.array(fixed), "score": np.array(own), "truth": truth}


def study(design: Design, count: int, pool, *, seed: int) -> None:
    """Print one line of the table: exchangeable distances for alarms, unequal ones for coverage and power."""
    start = time.perf_counter()
    equal = gather(design, (0.3, 0.3), count, pool, seed)
    unlike = gather(design, (0.3, 0.45), max(count // 4, 1), pool, seed + 10**7)
    alarms = [100 * np.nanmean(p < 0.05, axis=0) for p in (equal["fixed"], equal["difference"][:, :, 4])]
    power = [100 * np.nanmean(p < 0.05, axis=0) for p in (unlike["fixed"], unlike["difference"][:, :, 4])]
    difference, own = unlike["difference"], unlike["score"]
    known = np.isfinite(unlike["truth"]).all()
    covered, size = [], []
    for k, each in enumerate((difference, own)):
        value, se, low, high = np.moveaxis(each, 2, 0)[:4]
        truth = unlike["truth"][:, :, k] if known else np.nanmean(value, axis=0)
        covered.append(100 * np.nanmean((low <= truth) & (truth <= high), axis=0))
        size.append(np.nanmean(se, axis=0) / np.nanstd(value - truth, axis=0))
    cells = [alarms[1], alarms[0], covered[0], covered[1], size[0], size[1], power[1], power[0]]
    text = "".join(
        f"{pair[0]:9.2f}/{pair[1]:5.2f}" if k in (4, 5) else f"{pair[0]:9.1f}/{pair[1]:5.1f}"
        for k, pair in enumerate(cells)
    )
    error = 196 * np.sqrt(0.05 * 0.95 / count)
    print(
        f"{design.name + ', ' + design.estimator:48s}{count:6d} ±{error:3.1f}{text}{time.perf_counter() - start:7.0f}",
        flush=True,
    )


def gather(design: Design, noises: Sequence[float], count: int, pool, seed: int) -> dict[str, np.ndarray]:
    size = SHARED if design.train is None and not design.folds else 4
    seeds = [range(start, min(start + size, seed + count)) for start in range(seed, seed + count, size)]
    outcomes = [one for part in pool.imap(partial(tables, design, noises), seeds) for one in part]
    return {name: np.stack([one[name] for one in outcomes]) for name in outcomes[0]}


def main(options: Sequence[str]) -> None:
    count, part, processes = (*options, *("4000", "all", "2")[len(options) :])
    print("95 % intervals and tests at 5 %; each pair is NLL / 2AFC as fitted; ± is the chance error of 5 %")
    heads = ("alarms", "(fixed)", "cover diff", "cover score", "se diff", "se score", "power", "(fixed)")
    print(f"{'':48s}{'tables':>11s}" + "".join(f"{head:>15s}" for head in heads) + f"{'s':>7s}", flush=True)
    with Pool(int(processes)) as pool:
        for name, designs in PARTS.items():
            if part in ("all", name):
                for design in designs():
                    tables_ = int(count) if design.estimator == "density" else max(int(count) // 4, 1)
                    study(design, tables_, pool, seed=1)

"""Whether planned studies keep their promises: votes saved, bias, coverage, power, looks, gates, and speed.

Run: python -m benchmarks planning [PART [REPLAYS]] with the parts material, power, looks, gate, speed (default all;
some two hours on two cores; material needs the folder of real votes in TWOAFC_SHARED)

- material: the triplets of material appearance with five votes or more, as a pool that is not judged yet. A study asks
  1,000 triplets five times each, chosen uniformly; or 0.4 of these votes (2AFC: 0.15) in four batches, the
  later ones chosen by the votes of those before. Votes are drawn from those that were cast, without replacement.
  Surfaces are fitted with weights, to nine tenths of the triplets to score the others. The truth is the difference of
  the same surfaces on all triplets. The pool is fixed, or a sample of its own for each replay: error bars are those of
  a sample of triplets.
- power: a world with references, triplets and observers of their own taste. The study that 80 % power needs, by the
  true variances, is run; so are pilots of 200 votes, for what they make of it.
- looks: the same world, looked at after each of 40 batches.
- gate: the same world, with the true loss as the margin.
- speed: 5,000 triplets chosen from 1,000,000 with ten distances.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from twoafc import Result, Spline, Triplets, gate, planning
from twoafc.inference import clustering_of, compare, values_of, values_per_row
from twoafc.planning.sizing import _added

PAIRS = (
    ("lpips_alex", "ms_ssim"),
    ("lpips_alex", "ssim"),
    ("lpips_alex", "alexnet_pool_cos"),
    ("ms_ssim", "ssim"),
    ("lpips_alex", "rmse"),
)
SIZE = 1000
"""Triplets of the uniform study, with five votes each."""
SHARE = {"nll": 0.4, "score_2afc_distance": 0.15}
"""Votes of a chosen study, as a share of those of the uniform one."""
BATCHES, FOLDS = (0.05, 0.15, 0.3, 0.5), 10
"""Shares of the batches of a chosen study, and folds of the fits."""


def drawn(rows: pl.DataFrame, votes: Any, rng: np.random.Generator) -> pl.DataFrame:
    """Draw votes on some triplets from those that were cast."""
    n, M = (rows[name].to_numpy() for name in ("cast", "of"))
    asked = np.broadcast_to(votes, n.shape)
    return rows.drop("cast", "of").with_columns(
        n=pl.Series(rng.hypergeometric(n, M - n, asked)), M=pl.Series(np.array(asked, dtype=np.int64))
    )


Surfaces = dict[str, tuple[np.ndarray, np.ndarray]]


def surfaces(study: pl.DataFrame, pool: pl.DataFrame, names: Sequence[str], fold: np.ndarray) -> Surfaces:
    """P of each distance on the study by fits to the other folds, and on the pool by the fit for each fold."""
    table, found = Triplets.from_frame(study), {}
    for name in names:
        own, whole = np.empty(len(table)), np.empty((FOLDS, len(pool)))
        for k in range(FOLDS):
            fit = Spline().fit(table[name].at(np.flatnonzero(fold != k)))
            own[fold == k] = fit.probability(*(each[fold == k] for each in table[name].columns))
            whole[k] = fit.probability(pool[f"{name}_d0"].to_numpy(), pool[f"{name}_d1"].to_numpy())
        found[name] = own, whole
    return found


def estimated(
    study: pl.DataFrame, pool: pl.DataFrame, pair: Sequence[str], fitted: Surfaces | None, fold: np.ndarray
) -> np.ndarray:
    """Difference per vote, its standard error as a sample of the pool, and the truth by the same surfaces."""
    table = Triplets.from_frame(study)
    weight = np.ones(len(table)) if table.weight is None else table.weight
    share, counted = pool["cast"].to_numpy() / pool["of"].to_numpy(), weight * table.M
    alpha, beta = added(study, pair, fitted and [fitted[name][0] for name in pair])
    of_pool = [added(pool, pair, fitted and [fitted[name][1][k] for name in pair]) for k in range(FOLDS)]
    v, total = alpha * table.M + beta * table.n, float(counted.sum())
    parts = np.bincount(fold, counted, minlength=FOLDS) / total
    truth = float(sum(part * (a + b * share).mean() for part, (a, b) in zip(parts, of_pool, strict=True)))
    value = float(weight @ v) / total
    influence = weight * (v - value * table.M) / total
    return np.array([value, np.sqrt((influence**2).sum() * len(v) / (len(v) - 1)), truth])


def added(frame: pl.DataFrame, pair: Sequence[str], P: Sequence[np.ndarray] | None) -> list[np.ndarray]:
    """What a vote on each row adds to the difference of NLLs, or without P of 2AFC scores: alpha, and beta for x1."""
    distances = [(frame[f"{name}_d0"].to_numpy(), frame[f"{name}_d1"].to_numpy()) for name in pair]
    return _added(P or (), "nll" if P else "score_2afc_distance", distances, "half")


def chosen_study(pool: pl.DataFrame, pair: Any, measure: str, votes: int, seed: int) -> pl.DataFrame:
    """Four batches, the later ones chosen by the votes of those before."""
    rng, unjudged = np.random.default_rng([seed, 1]), pool.drop("cast", "of")
    cast = pool.select("triplet", "cast", "of")
    judged: list[pl.DataFrame] = []
    for share in BATCHES:
        batch = planning.choose(
            unjudged, votes=round(share * votes), judged=judged or None, pairs=[pair], measure=measure, seed=seed
        ).frame
        batch = batch.join(cast, on="triplet", maintain_order="left")
        judged.append(drawn(batch, batch["votes_wanted"].to_numpy(), rng))
    return planning.read_judged(judged)


def replay(measure: str, fresh: bool, seed: int) -> dict[tuple[str, tuple[str, str]], np.ndarray]:
    """One study of each kind for each pair; `fresh` draws a pool of its own from the triplets, with replacement."""
    whole = material_pool()
    rng = np.random.default_rng([seed, 2])
    pool = whole
    if fresh:
        drawn_rows = np.random.default_rng([seed, 3]).integers(0, len(whole), len(whole))
        pool = whole[drawn_rows].with_columns(triplet=pl.int_range(len(whole)).cast(pl.String))
    names = list(dict.fromkeys(name for pair in PAIRS for name in pair))
    study = drawn(pool[np.sort(rng.choice(len(pool), SIZE, replace=False))], 5, rng)
    fold = rng.permutation(len(study)) % FOLDS
    fitted = surfaces(study, whole, names, fold) if measure == "nll" else None
    result = {("uniform", pair): estimated(study, whole, pair, fitted, fold) for pair in PAIRS}
    for pair in PAIRS:
        study = chosen_study(pool, pair, measure, round(5 * SIZE * SHARE[measure]), seed)
        fold = rng.permutation(len(study)) % FOLDS
        fitted = surfaces(study, whole, pair, fold) if measure == "nll" else None
        result["chosen", pair] = estimated(study, whole, pair, fitted, fold)
    return result


@functools.cache
def material_pool() -> pl.DataFrame:
    """The triplets with five votes or more, the votes under other names."""
    table = Triplets.read(Path(os.environ["TWOAFC_SHARED"]) / "data/material/train.csv")
    frame = table.where(table.M >= 5).to_frame().rename({"n": "cast", "M": "of"})
    names = list(dict.fromkeys(name for pair in PAIRS for name in pair))
    return frame.select("triplet", "cast", "of", *(f"{name}_d{k}" for name in names for k in (0, 1)))


def material(replays: int = 500) -> None:
    """Print the tables of docs/planning.md."""
    for measure, fresh in (("score_2afc_distance", False), ("score_2afc_distance", True), ("nll", False)):
        material_table(replays, measure, fresh)


def material_table(replays: int, measure: str, fresh: bool) -> None:
    """Print votes, spread, bias and coverage for each pair."""
    share = SHARE[measure]
    pool = f"{'its own' if fresh else 'a fixed'} pool of {len(material_pool())} triplets"
    print(f"material, {measure}: {replays} replays, each with {pool}; {SIZE} triplets of 5 votes, uniform,")
    print(f"  against {round(5 * SIZE * share)} votes, chosen; sd: of the estimate over replays; error: mean ± its")
    print("  standard error; votes: share of the uniform ones for the same sd, ± its standard error")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as processes:
        records = list(processes.map(functools.partial(replay, measure, fresh), range(replays)))
    for pair in PAIRS:
        cells, spread = [], {}
        for kind in ("uniform", "chosen"):
            value, se, truth = np.array([record[kind, pair] for record in records]).T
            error, spread[kind] = value - truth, value.std(ddof=1)
            covered = 100 * np.mean(np.abs(error) < 1.96 * se)
            cells.append(
                f"{kind}: sd {spread[kind]:.4f}, error {error.mean():+.4f} ± {error.std() / replays**0.5:.4f}, "
                f"covered {covered:.1f} %"
            )
        votes = share * (spread["chosen"] / spread["uniform"]) ** 2
        print(
            f"  {' - '.join(pair)}: votes {votes:.3f} ± {2 * votes / replays**0.5:.3f}; {'; '.join(cells)}", flush=True
        )


SLOPE, TASTE, OF_REFERENCE, OF_OBSERVER = 1.2, 0.56, 0.25, 0.2


def world(references: int, per_reference: int, votes: int, observers: int, rng: np.random.Generator) -> pl.DataFrame:
    """Single votes by observers and on references that follow one of two distances more than the other."""
    T = references * per_reference
    ref = np.repeat(np.arange(references), per_reference)
    a, b = rng.normal(size=(2, T))
    taste = TASTE + OF_REFERENCE * rng.normal(size=references)[ref] + 0.2 * rng.normal(size=T)
    own = OF_OBSERVER * rng.normal(size=observers)
    row = np.repeat(np.arange(T), votes)
    who = np.concatenate([rng.permutation(observers) for _ in range(-(-len(row) // observers))])[: len(row)]
    share = taste[row] + own[who]
    y = rng.random(len(row)) < expit(1.6 * SLOPE * (share * a[row] + (1 - share) * b[row]))
    return pl.DataFrame({"row": row, "ref": ref[row], "observer": who, "y": y, "a": a[row], "b": b[row]})


def as_table(votes: pl.DataFrame) -> tuple[Triplets, list[np.ndarray]]:
    """The votes as a table, and P by both distances."""
    frame = votes.select(
        triplet=pl.col("row").cast(pl.String),
        ref=pl.col("ref").cast(pl.String),
        observer=pl.col("observer").cast(pl.String),
        choice=pl.col("y").cast(pl.Int64),
        a_d0=pl.col("a").exp(),
        a_d1=pl.lit(1.0),
        b_d0=pl.col("b").exp(),
        b_d1=pl.lit(1.0),
    )
    table = Triplets.from_frame(frame)
    return table, [expit(SLOPE * np.log(table[name].d0)) for name in ("a", "b")]


def compared(table: Triplets, P: Sequence[np.ndarray]) -> dict[str, Any]:
    """The record of a paired test of the NLL, a less b, with `units`."""
    clustering = clustering_of(table)
    values = {
        name: values_of(table[name], p, values_per_row(table[name], p), clustering)
        for name, p in zip("ab", P, strict=True)
    }
    found = next(each for each in compare(values, clustering, estimator="") if each["measure"] == "nll")
    return found | {"value": found["difference"] * (1 if found["a"] == "a" else -1), "units": found["df"] + 1}


def truth() -> planning.Components:
    """Components of the world and its difference, from a large sample."""
    rng = np.random.default_rng(99)
    found = []
    for _ in range(20):
        table, P = as_table(world(2000, 4, 2, 400, rng))
        found.append(planning.estimate_components(planning.single_votes(table, P, "nll")))
    means = np.mean([(c.references, c.triplets, c.votes, c.observers, c.difference) for c in found], axis=0)
    return planning.Components(*means.tolist(), per_reference=4, per_observer=40)


def power(replays: int = 1000) -> None:
    """Print planned and measured power, with the true variances, and what pilots make of it."""
    true = truth()
    print(f"power: {true}")
    for votes, per_observer in ((1, 40), (1, 20), (3, 40)):
        study = planning.Study(difference=abs(true.difference), per_reference=4, per_observer=per_observer)
        T = study.triplets(true, votes)
        assert T is not None
        references = -(-T // 4)
        observers = max(2, round(4 * references * votes / per_observer))
        planned = float(study.power_of(true, 4 * references, votes))
        rng = np.random.default_rng([1, votes, per_observer])
        hits = [compared(*as_table(world(references, 4, votes, observers, rng)))["p"] < 0.05 for _ in range(replays)]
        print(
            f"  {references} references, {4 * references} triplets, M = {votes}, {observers} people: planned "
            f"{100 * planned:.1f} %, measured {100 * np.mean(hits):.1f} ± {100 * np.std(hits) / replays**0.5:.1f} %",
            flush=True,
        )
    rng = np.random.default_rng(5)
    study = planning.Study(difference=abs(true.difference), per_reference=4, per_observer=40)
    needed = study.triplets(true, 1)
    planned, reached, inside = [], [], []
    for _ in range(min(replays, 300)):
        table, P = as_table(world(25, 4, 2, 10, rng))
        single = planning.single_votes(table, P, "nll")
        parts = [
            replace(each, per_observer=40.0)
            for each in (planning.estimate_components(single), *planning.left_out(single))
        ]
        T, *others = (study.triplets(each, 1) for each in parts)
        assert T is not None
        assert needed is not None
        planned.append(T)
        reached.append(float(study.power_of(true, T, 1)))
        low, high = planning.jackknife_interval(T, others)
        inside.append(low <= needed <= high)
    spans = [np.quantile(each, (0.1, 0.5, 0.9)) for each in (np.array(planned) / needed, reached)]
    print(
        f"  {len(planned)} pilots of 200 votes (25 references, 10 people): triplets planned over those needed "
        f"{spans[0].round(2)} (10, 50, 90 %), power then {spans[1].round(2)}; {100 * np.mean(inside):.0f} % of the "
        "intervals have the number needed"
    )


def looks(replays: int = 1000, batches: int = 40) -> None:
    """Print how often an interval ever excludes the truth."""
    true = truth().difference
    designs = {
        "new references and people in every batch": (batches * 10, batches * 4),
        "60 references and 20 people in all batches": (60, 20),
    }
    for name, (references, observers) in designs.items():
        ever, naive, widths = [], [], []
        rng = np.random.default_rng(len(name))
        for _ in range(replays):
            votes = world(references, -(-batches * 25 // references) if references < 100 else 3, 1, observers, rng)
            rows = votes["row"].max() + 1
            order = np.arange(rows) if references > 100 else rng.permutation(rows)
            table, P = as_table(votes)
            place, per_batch = order[table.labels["triplet"].cast(pl.Int64).to_numpy()], -(-rows // batches)
            out = np.zeros(2, dtype=bool)
            for look in range(1, batches + 1):
                kept = place < look * per_batch
                found = compared(table.where(kept), [each[kept] for each in P])
                interval = planning.always_valid(found["value"], found["se"], found["units"], scale=abs(true))
                own = true if found["a"] == "a" else -true
                # An interval that is not known yet excludes nothing.
                out |= [
                    interval.low > true or interval.high < true,
                    found["low"] > own or found["high"] < own,
                ]
            widths.append((interval.high - interval.low) / 2 / found["se"])
            ever.append(out[0])
            naive.append(out[1])
        print(
            f"looks: {name}: {100 * np.mean(ever):.1f} ± {100 * np.std(ever) / replays**0.5:.1f} % of always-valid and "
            f"{100 * np.mean(naive):.1f} % of plain 95 % intervals ever exclude the truth in {batches} looks, "
            f"{replays} replays; half-width at the end {np.mean(widths):.2f} se",
            flush=True,
        )


def gates(replays: int = 1000) -> None:
    """Print how often a gate passes a candidate whose true loss is the margin."""
    loss = -truth().difference
    for references, per_reference, votes, observers in ((40, 5, 2, 15), (100, 3, 1, 30), (20, 10, 3, 200)):
        rng = np.random.default_rng([7, references])
        outcomes = []
        for _ in range(replays):
            table, P = as_table(world(references, per_reference, votes, observers, rng))
            outcomes.append(gate(*[as_result(table, P)] * 2, max_loss=loss, distance=("a", "b")).outcome)
        shares = {name: 100 * np.mean([each == name for each in outcomes]) for name in ("pass", "undecided", "fail")}
        text = ", ".join(f"{name} {share:.1f} %" for name, share in shares.items())
        design = f"{references} references of {per_reference} triplets, M = {votes}, {observers} people"
        print(f"gate at the margin: {design}: {text} of {replays}", flush=True)


def as_result(table: Triplets, P: Sequence[np.ndarray]) -> Result:
    """A result with given P, as an evaluation would leave it."""
    parts = [
        table.labels.with_columns(
            n=pl.Series(table.n),
            M=pl.Series(table.M),
            distance=pl.lit(name),
            estimator=pl.lit("auto"),
            seed=pl.lit(None, dtype=pl.Int64),
            diverged=pl.lit(False),
            P=pl.Series(p),
            nll=pl.lit(0.0),
            d0=pl.Series(table[name].d0),
            d1=pl.Series(table[name].d1),
        )
        for name, p in zip("ab", P, strict=True)
    ]
    assert table.votes is not None
    votes = table.votes.select(table.labels["triplet"].gather(table.votes["row"]), "choice", "swapped", "observer")
    return Result([], pl.concat(parts), card={"settings": {"ties": "half"}}, votes=votes)


def speed() -> None:
    """Print how long it takes to choose 5,000 triplets of a million, with ten distances and 2,000 votes so far."""
    rng = np.random.default_rng(0)
    T = 1_000_000
    z = rng.normal(size=(2, T))
    columns = {f"d{i}_d{k}": np.exp(z[k] + (0.2 + 0.1 * i) * rng.normal(size=T)) for i in range(10) for k in (0, 1)}
    pool = pl.DataFrame(columns).with_columns(ref=pl.Series(rng.integers(0, 5000, T)).cast(pl.String))
    votes = rng.binomial(1, expit(1.2 * (z[0] - z[1])))[:2000]
    judged = pool[:2000].with_columns(n=pl.Series(votes), M=pl.lit(1))
    for pairs in ([], [("d0", "d5")]):
        start = time.perf_counter()
        chosen = planning.choose(pool, votes=5750, judged=judged, pairs=pairs)
        taken = time.perf_counter() - start
        print(f"speed: {len(chosen.frame)} of {T} triplets for {len(chosen.gains)} pairs of distances in {taken:.1f} s")


PARTS = {"speed": speed, "gate": gates, "power": power, "looks": looks, "material": material}


def main(options: Sequence[str]) -> None:
    """Run all parts, or one of them."""
    for name in options[:1] or PARTS:
        PARTS[name](*map(int, options[1:]))

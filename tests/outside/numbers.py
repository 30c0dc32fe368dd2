"""Scores of real and simulated votes, as the public functions and the commands give them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import twoafc
from outside.commanding import case
from outside.tables import named, quadruples, single_votes

KEY = ("distance", "estimator", "split", "group", "seed")
CEILING = "floor_nll nll_low nll_high nll_lowest nll_highest gain_low gain_high score_2afc_low score_2afc_high "
CEILING += "human_triplets human_triplets_se human_pairs human_pairs_se"
# Points at which surfaces are compared: ties, zero, and beyond all distances among them.
D0 = np.array([0.0, 0.1, 0.5, 0.5, 1.0, 2.0, 3.0, 50.0])
D1 = np.array([0.2, 0.1, 0.4, 1.5, 0.2, 2.5, 0.7, 1.0])
NUMPY = "euclidean rmse ssim ssim_luma ms_ssim ms_ssim_3 nlpd nlpd_rgb nlpd_2017"


def scores(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Scores by name: all numbers of the tested triplets, and the main ones of other splits."""
    main = ("triplets", "votes", "nll", "agreement", "score_2afc", "score_2afc_distance")
    return {
        " ".join(str(one.get(name)) for name in KEY): {
            name: value
            for name, value in one.items()
            if name not in KEY and value is not None and (one["split"] == "test" or name in main)
        }
        for one in records
    }


def comparisons(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Comparisons by name, without their sentences."""
    key = ("distance", "a", "b", "estimator", "measure")
    return {
        " ".join(str(one[name]) for name in key if name in one): {
            name: value for name, value in one.items() if name not in (*key, "sentence")
        }
        for one in records
    }


def numbers(result: Any) -> dict[str, Any]:
    """All numbers of an evaluation."""
    return {
        "scores": scores(result.scores),
        "comparisons": comparisons(result.comparisons),
        "ceiling": {name: getattr(result.ceiling, name) for name in CEILING.split()},
        "findings": findings(result.findings),
    }


def findings(found: Sequence[Any]) -> list[str]:
    return sorted(f"{one.code}, {one.level}, {one.table}, {one.distance}" for one in found)


def evaluated(train: Any, test: Any = None, **options: Any) -> dict[str, Any]:
    tables = [table if table is None else twoafc.Triplets.from_frame(table) for table in (train, test)]
    return numbers(twoafc.evaluate(*tables, **({"estimators": ["density"]} | options)))


# Real votes.


def material(name: str) -> Any:
    return twoafc.Triplets.read(Path(os.environ["TWOAFC_SHARED"], "data", "material", f"{name}.csv"))


def material_density() -> dict[str, Any]:
    return numbers(twoafc.evaluate(material("train"), material("test"), estimators=["density"]))


def material_others() -> dict[str, Any]:
    # Two epochs: from the third on, rounding errors grow until scores differ from one kind of processor to another.
    estimators = {"spline": twoafc.Spline(), "network": twoafc.Network(epochs=2)}
    chosen = {"distances": ["ssim", "lpips_alex"], "estimators": estimators}
    return numbers(twoafc.evaluate(material("train"), material("test"), **chosen))


def material_folds() -> dict[str, Any]:
    return numbers(twoafc.evaluate(material("test"), distances=["ssim", "lpips_alex"], estimators=["density"]))


def material_bootstrap() -> dict[str, Any]:
    settings = twoafc.Settings(error_bars="bootstrap", draws=100)
    asked = {"distances": ["ssim"], "estimators": ["density"], "settings": settings}
    return numbers(twoafc.evaluate(material("train"), material("test"), **asked))


# Simulated votes.


def simulated_groups() -> dict[str, Any]:
    return evaluated(named(1), named(2, 300), estimators=["density", "spline"])


def simulated_folds() -> dict[str, Any]:
    settings = twoafc.Settings(folds=3, seed=5)
    return {
        "by reference": evaluated(named(3), settings=settings),
        "by triplet": evaluated(named(3, references=None), settings=settings),
    }


def simulated_ties() -> dict[str, Any]:
    """Distances of ten values, both rules of ties."""
    tables = named(4, distances="discrete"), named(5, 300, distances="discrete")
    return {ties: evaluated(*tables, settings=twoafc.Settings(ties=ties)) for ties in ("half", "x0")}


def simulated_refit() -> dict[str, Any]:
    settings = twoafc.Settings(error_bars="refit", draws=20, seed=3)
    return evaluated(named(1), named(2, 300), settings=settings)


def simulated_seeds() -> dict[str, Any]:
    settings = twoafc.Settings(seeds=2, seed=1)
    return evaluated(named(1), named(2, 300), distances=["near"], estimators=["network"], settings=settings)


def simulated_quadruples() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    judged = {name: rng.integers(1, 8, 60).tolist() for name in ("s1", "s2", "s3", "s4")}
    read = twoafc.datasets.read_quadruples({"Response": rng.integers(0, 2, 60).tolist()} | judged)
    return evaluated(quadruples(1), quadruples(2)) | {
        "difference scaling": read.sort("d0", "d1", "n", "M").select("n", "M", "d0", "d1").to_dict(as_series=False)
    }


def simulated_votes() -> dict[str, Any]:
    return evaluated(single_votes(4), single_votes(5))


def fits() -> dict[str, Any]:
    """Surfaces at some points, with the width that is chosen."""
    table = twoafc.Triplets.from_frame(named(1))["near"]
    turning = twoafc.Triplets.from_frame(twoafc.worlds.simulate("turning", triplets=600, votes=5, seed=1))
    estimators = {
        "density": twoafc.Density(),
        "density wide": twoafc.Density(sigma=0.1, grid_size=30, prior=0.5),
        "density auto": twoafc.Density(sigma="auto"),
        "spline": twoafc.Spline(),
        "spline monotone": twoafc.Spline(monotone=True),
        "spline probit": twoafc.Spline(link="probit", size=8),
        "network": twoafc.Network(),
        "network lbfgs": twoafc.Network(solver="lbfgs"),
        "network raw": twoafc.Network(inputs="raw", epochs=2, seed=3),
    }
    found: dict[str, Any] = {}
    for name, estimator in estimators.items():
        fit: Any = estimator.fit(turning if "monotone" in name else table)
        found[name] = {"P": fit.probability(D0, D1)}
        if name != "network raw":
            found[name]["u"] = fit.uniform(D0)
        if hasattr(fit, "standard_error"):
            found[name]["standard error"] = fit.standard_error(D0, D1)
        if "density" in name:
            found[name] |= {"sigma": fit.settings.sigma, "surface": fit.surface[::5, 3]}
    return found


def metrics() -> dict[str, Any]:
    """Every score of a few rows, the edges P = 0 and P = 1 among them."""
    n, M, P = [0, 1, 3, 5, 2], [2, 2, 3, 5, 4], np.array([0.0, 0.5, 0.9, 1.0, 0.31])
    d0, d1 = [1.0, 2.0, 2.0, 3.0, 1.0], [2.0, 2.0, 1.0, 1.0, 2.0]
    of = twoafc.metrics
    found = {name: getattr(of, name)(n, M, P) for name in ("agreement", "agreement_per_triplet", "log_likelihood")}
    found |= {name: getattr(of, name)(n, M, P) for name in ("nll", "nll_per_vote", "score_2afc")}
    expected = ("expected_agreement", "expected_agreement_per_triplet", "expected_nll", "expected_nll_per_triplet")
    found |= {name: getattr(of, name)(M, P) for name in (*expected, "most_likely")}
    for ties in ("half", "x0"):
        c = of.choice(P - 0.5, ties=ties)
        found |= {f"choice {ties}": c, f"score_2afc {ties}": of.score_2afc(n, M, P, ties=ties)}
        found[f"score_2afc_distance {ties}"] = of.score_2afc_distance(n, M, d0, d1, ties=ties)
        found[f"expected_score_2afc {ties}"] = of.expected_score_2afc(P, c)
        found[f"score_2afc_per_triplet {ties}"] = of.score_2afc_per_triplet(n, M, c)
    return found | {"simulate": of.simulate(M, P, seed=1)}


def worlds() -> dict[str, Any]:
    found: dict[str, Any] = {
        world: twoafc.worlds.true_probability(world, D0, D1, 0.1) for world in twoafc.worlds.WORLDS
    }
    for distances in ("lognormal", "uniform", "heavy", "discrete"):
        drawn = twoafc.worlds.simulate("weber", triplets=5, votes=[1, 4], references=3, distances=distances, seed=2)
        found[distances] = drawn.to_dict(as_series=False)
    return found


def checks() -> dict[str, Any]:
    """What is found in tables with one mistake each."""

    def grouped(rows: int, group: str) -> pl.DataFrame:
        return named(1).with_columns(group=pl.when(pl.int_range(600) < rows).then(pl.lit(group)).otherwise("group"))

    good = named(1).drop("group")
    other = named(2).drop("group")
    flipped = good.with_columns(n=pl.col("M") - pl.col("n"))
    similar = good.with_columns(noisy_d0=1 / pl.col("noisy_d0"), noisy_d1=1 / pl.col("noisy_d1"))
    mixed = named(1).with_columns(n=pl.when(group="blur").then(pl.col("M") - pl.col("n")).otherwise("n"))
    large = named(1, 2000).drop("group")
    shuffled = large.with_columns(large.select("^.*_d[01]$").gather(np.random.default_rng(1).permutation(2000)))
    turning = twoafc.worlds.simulate("turning", triplets=2000, votes=3, seed=1)
    useless = twoafc.worlds.simulate("useless", triplets=2000, votes=3, seed=1)
    votes = single_votes(4)
    one_key = votes.with_columns(choice=pl.when(observer="o3").then(1).otherwise("choice"))
    tables: dict[str, tuple[pl.DataFrame, ...]] = {
        "good": (good, other),
        "flipped": (flipped,),
        "similarity": (similar,),
        "flipped group": (mixed,),
        "shuffled": (shuffled,),
        "ties": (good.with_columns(near_d1="near_d0"),),
        "constant": (good.with_columns(near_d0=pl.lit(1.0), near_d1=pl.lit(1.0)),),
        "negative": (good.with_columns(near_d0=pl.col("near_d0") - 1, near_d1=pl.col("near_d1") - 1),),
        "one distance shuffled": (large.with_columns(shuffled.select("^near.*$")),),
        "turning": (turning,),
        "useless": (useless,),
        "one-sided": (good.with_columns(n="M"),),
        "one image": (votes.with_columns(x1="x0"),),
        "lonely group": (grouped(1, "odd"),),
        "spelling": (grouped(90, "Blur "),),
        "repeated rows": (pl.concat([good.drop("triplet")] * 2),),
        "repeated distance": (good.with_columns(noisy_d0="near_d0", noisy_d1="near_d1"),),
        "other units": (good, other.with_columns(pl.col("near_d0", "near_d1") * 255)),
        "shared triplets": (good, good.head(200)),
        "unlike votes": (good, other.with_columns(n=pl.lit(50), M=pl.lit(100))),
        "votes": (votes, single_votes(5)),
        "one key": (one_key,),
    }
    found: dict[str, Any] = {}
    for name, given in tables.items():
        found[name] = findings(twoafc.check(*map(twoafc.Triplets.from_frame, given)))
    return found


# Through commands.


def command_evaluate() -> dict[str, Any]:
    """Ceiling and goodness as `scores.json` has them, and what the commands print that read the results."""
    found = case("evaluate")
    written, said = found["scores"], found["said"]
    good = {
        f"{one['distance']} {one['estimator']}": {
            "ece": one["calibration"]["ece"],
            "sharpness": one["calibration"]["sharpness"],
            "slope": one["calibration"]["slope"],
            "intraclass": one["intraclass"],
            "asymmetry": {key: value for key, value in one["asymmetry"].items() if key != "sentence"},
            "lapses": one["lapses"]["high"],
        }
        for one in written["goodness"]
    }
    failures = {name: said[name]["failures"] for name in ("failures", "failures versus")}
    return {
        "scores": scores([one for one in written["scores"] if one["split"] == "test" and one["group"] == "all"]),
        "comparisons": comparisons(written["comparisons"]),
        "ceiling": {name: written["ceiling"][name] for name in CEILING.split()},
        "goodness": good,
        "compare": comparisons(said["compare"]["comparisons"]),
        "letters": {"of compare": said["compare"]["letters"]},
        "query": said["query"],
        "failures": {name: {str(k): row for k, row in enumerate(rows)} for name, rows in failures.items()},
    }


def command_pairs() -> dict[str, Any]:
    found = case("pairs")
    written = found["scores"]
    return {
        "scores": scores(written["scores"]),
        "comparisons": comparisons(written["comparisons"]),
        "query of spline": found["said"]["query"],
    }


def command_votes() -> dict[str, Any]:
    return {"scores": scores(case("votes")["scores"]["scores"])}


def command_sweep() -> dict[str, Any]:
    written = case("sweep")["scores"]
    kinds = {
        kind: {
            f"{one['distance']} {one['parameter']} {one['sigma']:.4g} {one['grid_size']}": one for one in written[kind]
        }
        for kind in ("scores", "automatic_scores")
    }
    return kinds | {"comparisons": comparisons(written["comparisons"]), "automatic": written["automatic"]}


def distances() -> dict[str, Any]:
    """Each distance of numpy on two seeded pairs of images."""
    rng = np.random.default_rng(0)
    ref = rng.random((2, 3, 192, 180))
    x = np.clip(ref + 0.1 * rng.normal(size=ref.shape), 0, 1)
    return {name: twoafc.distance(name)(ref, x) for name in NUMPY.split()}


def paper() -> dict[str, Any]:
    """The printed figures that `reproduce` compares with, and the known slips."""
    return {
        "aggregates": {
            f"{one.distance} {one.measure}": [one.table_1, one.by_true, one.by_printed]
            for one in twoafc.reproduce.aggregates()
        },
        "slips": {one.id: one.where for one in twoafc.reproduce.slips()},
    }


MATERIAL = {one.__name__: one for one in (material_density, material_others, material_folds, material_bootstrap)}
SIMULATED: dict[str, Callable[[], dict[str, Any]]] = {
    one.__name__: one
    for one in (
        simulated_groups,
        simulated_folds,
        simulated_ties,
        simulated_refit,
        simulated_seeds,
        simulated_quadruples,
        simulated_votes,
        fits,
        metrics,
        worlds,
        checks,
        paper,
    )
}
COMMANDS: dict[str, Callable[[], dict[str, Any]]] = {
    "evaluate": command_evaluate,
    "pairs": command_pairs,
    "votes": command_votes,
    "sweep": command_sweep,
    "measure": lambda: case("measure")["values"],
    "simulate": lambda: case("simulate")["values"],
}

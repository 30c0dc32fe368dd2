"""What fusing gains and costs: on simulated worlds with a known truth, on real votes, and against logistic regression.

Run: python -m benchmarks fusion [worlds | guard | material ...] (default all, about ten minutes; material needs
TWOAFC_SHARED)

- worlds: ten log-normal distances that share a factor. The truth is a function of one of them, or a sum of two, or of
  all; each distance is bent in a way of its own. Excess is the expected NLL of a vote less that under the truth.
- guard: small tables, simulated and parts of the real one, cross-validated: how often the fused distance is called
  worse, or better, than the part that is best in hindsight (p < 0.05, uncorrected).
- material: the votes of Lagunas et al. (2019), cross-validated by reference.

Peers are scikit-learn's logistic regression of single votes on differences of log distances (ten inputs) and of normal
scores' splines (90 inputs), the strength of its ridge chosen by five folds.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import twoafc
from benchmarks.simulated import excess
from twoafc.arrays import FloatArray
from twoafc.estimators import Fusion, Spline
from twoafc.evaluation.fusing import stacked
from twoafc.table import Triplets, Votes, assign_folds

LAPSE = 0.02
TRUTHS = {"one": (1,), "two": (1, 0, 0, 0, 1), "all": (0.2,) * 10}
DESIGNS = (("one", 2000, 5, 10), ("one", 300, 1, 10), ("two", 20_000, 5, 2), ("two", 1000, 2, 10), ("all", 1000, 2, 10))
GUARD = (("one", 300, 1, 20), ("one", 600, 3, 20), ("two", 300, 1, 20), ("none", 300, 3, 20))


def world(truth: str, triplets: int, votes: int, seed: int, K: int = 10) -> tuple[Triplets, FloatArray]:
    """A table, of references with about ten triplets, and the true P."""
    rng = np.random.default_rng(seed)
    share = np.linspace(0.9, 0.5, K)
    z = share * rng.normal(size=(2, triplets, 1)) + np.sqrt(1 - share**2) * rng.normal(size=(2, triplets, K))
    weights = np.zeros(K)
    own = np.array(TRUTHS.get(truth, (0,)), dtype=np.float64)[:K]
    weights[: len(own)] = own
    F = 2 * np.tanh(z / 3) * 3 @ weights
    P = LAPSE / 2 + (1 - LAPSE) * expit(F[0] - F[1])
    columns: dict[str, Any] = {"n": rng.binomial(votes, P), "M": np.full(triplets, votes)}
    columns["ref"] = [f"r{number}" for number in rng.integers(max(triplets // 10, 4), size=triplets)]
    for k in range(K):
        columns |= {f"k{k}_d{side}": np.exp((0.5 + 0.2 * k) * z[side, :, k]) for side in (0, 1)}
    return Triplets.from_frame(columns), P


def fused(train: Votes, test: Votes) -> FloatArray:
    """P of a fused distance, everything chosen in the training table."""
    parts = tuple(train.distances)
    fit = Fusion(parts).fit(stacked(train, "fused", parts)["fused"])
    return fit.probability(*(fit.reduce(column) for column in stacked(test, "fused", parts)["fused"].columns))


def best_part(train: Votes, test: Votes) -> FloatArray:
    """P of the part whose fit has the highest likelihood in the training table."""
    fits = {name: Spline().fit(train[name]) for name in train.distances}
    likelihood = {
        name: float(twoafc.metrics.log_likelihood(train.n, train.M, fit.probability(*train[name].columns)).sum())
        for name, fit in fits.items()
    }
    best = max(likelihood, key=lambda name: likelihood[name])
    return fits[best].probability(*test[best].columns)


def logistic(train: Votes, test: Votes, *, splines: bool) -> FloatArray:
    """P of scikit-learn's logistic regression, votes for x1 and for x0 as weighted rows, without an intercept."""
    from sklearn.linear_model import LogisticRegressionCV

    if splines:
        from twoafc.estimators import spline_basis
        from twoafc.estimators.basis import normal_scores

        basis, scores = spline_basis(10), {}
        for name in train.distances:
            uniform, u0, u1 = train[name].uniformised()
            z = normal_scores(uniform, uniform.places(u0), uniform.places(u1), mass=train.mass).values
            scores[name] = (uniform.values, z)

        def inputs(table: Votes) -> FloatArray:
            columns = []
            for name, distances in table.distances.items():
                at = [basis(np.interp(d, *scores[name]))[:, 1:] for d in distances]
                columns.append(at[0] - at[1])
            return np.hstack(columns)
    else:

        def inputs(table: Votes) -> FloatArray:
            return np.stack([np.log((d[0] + 1e-9) / (d[1] + 1e-9)) for d in table.distances.values()], axis=1)

    X = inputs(train)
    spread = X.std(axis=0)
    model = LogisticRegressionCV(Cs=np.geomspace(1e-3, 1e2, 6), cv=5, fit_intercept=False, max_iter=2000)
    y = np.repeat([1, 0], len(X))
    weight = np.concatenate([train.n, train.M - train.n]).astype(float)
    kept = weight > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.vstack([X, X])[kept] / spread, y[kept], sample_weight=weight[kept])
    return np.asarray(model.predict_proba(inputs(test) / spread)[:, 1])


METHODS = {
    "fused": fused,
    "best part": best_part,
    "logistic, logs": lambda train, test: logistic(train, test, splines=False),
    "logistic, splines": lambda train, test: logistic(train, test, splines=True),
}


def worlds() -> None:
    """Excess NLL of a vote on simulated worlds, with standard errors over tables, and seconds a fit."""
    print("truth  triplets  M  tables  " + "  ".join(f"{name:>24}" for name in METHODS))
    for truth, triplets, votes, tables in DESIGNS:
        costs: dict[str, list[float]] = {name: [] for name in METHODS}
        seconds = dict.fromkeys(METHODS, 0.0)
        for seed in range(tables):
            train, _ = world(truth, triplets, votes, seed)
            test, P = world(truth, 20_000, votes, 10_000 + seed)
            for name, method in METHODS.items():
                start = time.perf_counter()
                Q = method(train, test)
                seconds[name] += (time.perf_counter() - start) / tables
                costs[name].append(excess(P, Q))
        cells = (
            f"{np.mean(each):.4f} ± {np.std(each, ddof=1) / len(each) ** 0.5:.4f} ({seconds[name]:.1f} s)"
            for name, each in costs.items()
        )
        print(
            f"{truth:5}  {triplets:8}  {votes}  {tables:6}  " + "  ".join(f"{cell:>24}" for cell in cells), flush=True
        )


def guard() -> None:
    """How often a fused distance is called worse, or better, than the part that explains the tested votes best."""
    print("truth  triplets  M  tables  worse  better  alone  NLL of best part less that of fused, per vote")
    for truth, triplets, votes, tables in GUARD:
        results = (twoafc.fuse(world(truth, triplets, votes, seed, K=5)[0]) for seed in range(tables))
        print(f"{truth:5}  {triplets:8}  {votes}  {tables:6}  {_against_best(results)}", flush=True)
    whole = _material()
    if whole is None:
        return
    for triplets, tables in ((300, 20), (1500, 10)):
        results = (twoafc.fuse(_some(whole, triplets, seed)) for seed in range(tables))
        print(f"real   {triplets:8}  -  {tables:6}  {_against_best(results)}", flush=True)


def _some(table: Triplets, triplets: int, seed: int) -> Triplets:
    """Some rows of a table, with five of its distances."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(list(table.distances))[:5]
    rows = table.where(np.sort(rng.permutation(len(table))[:triplets]))
    return replace(rows, distances={name: rows.distances[name] for name in names})


def _against_best(results: Iterable[twoafc.Result]) -> str:
    """Count results in which the fused distance is worse than its best part, or better, or is that part."""
    worse = better = alone = 0
    gains = []
    for result in results:
        tested = [r for r in result.scores if (r["split"], r["group"]) == ("test", "all")]
        scores = {r["distance"]: r["nll_per_vote"] for r in tested}
        own = scores.pop("fused")
        best = min(scores, key=lambda name: scores[name])
        gains.append(scores[best] - own)
        pairs = [r for r in result.comparisons if r["measure"] == "nll"]
        record = next(r for r in pairs if {r["a"], r["b"]} == {"fused", best})
        significant = record["p"] is not None and record["p"] < 0.05
        worse += significant and record["a"] != "fused"
        better += significant and record["a"] == "fused"
        alone += result.card["fusion"]["alone"]
    error = np.std(gains, ddof=1) / len(gains) ** 0.5
    return f"{worse:5}  {better:6}  {alone:5}  {np.mean(gains):.4f} ± {error:.4f}"


def _material() -> Triplets | None:
    """The real votes, where they are at hand."""
    folder = os.environ.get("TWOAFC_SHARED")
    return Triplets.read(Path(folder) / "data/material/train.csv") if folder else None


def material() -> None:
    """Real votes, cross-validated by reference: scores of all methods, then what `fuse` reports."""
    table = _material()
    if table is None:
        print("material: TWOAFC_SHARED is not set")
        return
    fold = assign_folds(table, 5, seed=0)
    print("method                 NLL per vote  2AFC %  seconds")
    for name, method in METHODS.items():
        P, start = np.empty(len(table)), time.perf_counter()
        for k in range(5):
            P[fold == k] = method(table.where(fold != k), table.where(fold == k))
        seconds = time.perf_counter() - start
        nll, score = (of(table.n, table.M, P) for of in (twoafc.metrics.nll_per_vote, twoafc.metrics.score_2afc))
        print(f"{name:20}  {nll:12.4f}  {score:6.2f}  {seconds:7.1f}", flush=True)
    start = time.perf_counter()
    result = twoafc.fuse(table)
    print("\n".join(result.card["fusion"]["sentences"]))
    print(f"fuse took {time.perf_counter() - start:.0f} s")


ALL = {"worlds": worlds, "guard": guard, "material": material}


def main(options: Sequence[str]) -> None:
    """Run the parts that are asked for."""
    for name in options or ALL:
        ALL[name]()
        print()

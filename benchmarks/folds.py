"""Cross-validated NLL of quadruples whose references are linked, against that on new references.

Run: python -m benchmarks folds [TABLES] (about five minutes with the default, 50)

Every reference shifts distances and votes by something of its own. The truth is the NLL of the fit to the whole table
on 20,000 quadruples of new references.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from twoafc import Density, Spline, Triplets, metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.table import assign_folds

ROWS, FOLDS, FRESH = 600, 5, 20_000
ESTIMATORS: dict[str, Density | Spline] = {"density": Density(), "auto": Spline()}


def draw(references: int, rows: int, rng: np.random.Generator) -> tuple[Triplets, IntArray]:
    """Quadruples of pairs of references, with three votes each; and the numbers of their references, shape (2, T)."""
    seen, judged = rng.normal(0, [[0.8], [0.5]], (2, references))
    ref = np.stack([rng.integers(0, references, rows), rng.integers(1, references, rows)])
    ref[1] = ref.sum(axis=0) % references
    z = seen[ref] + rng.normal(0, 0.6, (2, rows))
    n = rng.binomial(3, expit(2 * ((z + judged[ref])[0] - (z + judged[ref])[1])))
    names = {f"ref{k}": [f"i{each}" for each in ref[k]] for k in (0, 1)}
    return Triplets.from_frame({"n": n, "M": [3] * rows, "d0": np.exp(z[0]), "d1": np.exp(z[1])} | names), ref


def predicted(table: Triplets, parts: Sequence[tuple[IntArray, IntArray]], estimator: Density | Spline) -> FloatArray:
    """P of the rows of each part, by a fit to other rows."""
    P = np.empty(len(table))
    for rows, fitted in parts:
        P[rows] = estimator.fit(table.where(fitted)).probability(table.d0[rows], table.d1[rows])
    return P


def by_fold(fold: IntArray) -> list[tuple[IntArray, IntArray]]:
    return [(np.flatnonzero(fold == k), np.flatnonzero(fold != k)) for k in range(FOLDS)]


def apart(ref: IntArray, rng: np.random.Generator) -> list[tuple[IntArray, IntArray]]:
    """Parts by the folds of both references, with fits to the rows that have neither."""
    fold = rng.permutation(np.arange(int(ref.max()) + 1) % FOLDS)[ref]
    low, high = np.sort(fold, axis=0)
    pairs = np.unique(low * FOLDS + high)
    return [
        (np.flatnonzero(low * FOLDS + high == pair), np.flatnonzero(~np.isin(fold, divmod(pair, FOLDS)).any(axis=0)))
        for pair in pairs
    ]


def main(options: Sequence[str]) -> None:
    """Print the excess of the cross-validated NLL, in nats per quadruple."""
    tables = int(options[0]) if options else 50
    print(f"cross-validated NLL minus that on new references, {tables} tables of {ROWS} quadruples")
    for references in (11, 30, 100):
        excess: dict[tuple[str, str], list[float]] = {}
        for seed in range(tables):
            rng = np.random.default_rng(seed)
            table, ref = draw(references, ROWS, rng)
            fresh, _ = draw(5000, FRESH, rng)
            rules = {
                "rows at random": by_fold(rng.permutation(np.arange(ROWS) % FOLDS)),
                "as evaluate does": by_fold(assign_folds(table, FOLDS, seed=seed)),
                "no reference shared": apart(ref, rng),
            }
            for name, estimator in ESTIMATORS.items():
                truth = metrics.nll(fresh.n, fresh.M, estimator.fit(table).probability(fresh.d0, fresh.d1))
                for rule, parts in rules.items():
                    scored = metrics.nll(table.n, table.M, predicted(table, parts, estimator))
                    excess.setdefault((name, rule), []).append(scored - truth)
        for (name, rule), each in excess.items():
            error = np.std(each) / np.sqrt(tables)
            print(f"  {references:3} references, {name:8} {rule:20} {np.mean(each):+.3f} ± {error:.3f}")

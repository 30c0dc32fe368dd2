"""Whether weighted scores of chosen triplets are those of the whole population, and their intervals cover these.

Run: python -m benchmarks weights [REPLAYS] (about ten minutes with the default, 300)

A population has 20,000 triplets of 400 references with one to four votes, and two distances, a and b, one noisier than
the other. Every replay draws a training table and a test table of about 600 triplets each, with chances that are known:

- even: all triplets alike;
- unlike: chances that have nothing to do with votes or distances;
- disagree: in proportion to how much a and b disagree, mixed with a tenth of even chances;
- references: 60 references, in proportion to the square root of their size, and ten triplets of each.

The surfaces are fitted to the training table. The truth is the mean over the population of the scores of these same
surfaces: intervals are those of `error_bars="fixed"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from twoafc import Triplets, evaluate
from twoafc.inference import values_per_row

SIZE, REFERENCES, SAMPLE, TAKEN = 20_000, 400, 600, 60
DESIGNS = ("even", "unlike", "disagree", "references")
MEASURES = ("nll", "score_2afc_distance")


def population(seed: int) -> pl.DataFrame:
    """All triplets; references have unlike sizes, and something of their own in distances and votes."""
    rng = np.random.default_rng(seed)
    share = rng.gamma(2, size=REFERENCES)
    ref = rng.choice(REFERENCES, SIZE, p=share / share.sum())
    z = rng.normal(size=(2, SIZE)) + 0.5 * rng.normal(size=REFERENCES)[ref]
    true = 1.2 * (z[0] - z[1]) + 0.4 * rng.normal(size=REFERENCES)[ref]
    M = rng.integers(1, 5, SIZE)
    noisy = {name: z + spread * rng.normal(size=z.shape) for name, spread in {"a": 0.4, "b": 0.8}.items()}
    columns = {f"{name}_d{k}": np.exp(each[k]) for name, each in noisy.items() for k in (0, 1)}
    return pl.DataFrame({"ref": [f"r{k}" for k in ref], "n": rng.binomial(M, expit(true)), "M": M, **columns})


def chances(frame: pl.DataFrame, design: str, rng: np.random.Generator) -> np.ndarray:
    """Chance of each triplet to be drawn."""
    if design == "unlike":
        size = rng.gamma(0.7, size=SIZE) + 0.05
    elif design == "disagree":
        a, b = (np.log(frame[f"{name}_d0"] / frame[f"{name}_d1"]).to_numpy() for name in "ab")
        size = np.abs(a - b)
        size = 0.9 * size + 0.1 * size.mean()
    else:
        size = np.ones(SIZE)
    return np.minimum(1.0, SAMPLE * size / size.sum())


def sample(frame: pl.DataFrame, design: str, rng: np.random.Generator) -> pl.DataFrame:
    """Draw a table with the weights of its triplets."""
    if design != "references":
        chance = chances(frame, design, rng)
        return frame.with_columns(weight=pl.Series(1 / chance)).filter(pl.Series(rng.random(SIZE) < chance))
    # References in proportion to the square root of their size, then ten triplets of each, or all that there are.
    sizes = frame.group_by("ref").len().sort("ref")
    share = np.sqrt(sizes["len"].to_numpy())
    first = np.minimum(1.0, TAKEN * share / share.sum())
    kept = sizes.with_columns(first=pl.Series(first)).filter(pl.Series(rng.random(len(sizes)) < first))
    parts = []
    for ref, size, chance in kept.iter_rows():
        taken = min(10, size)
        rows = frame.filter(ref=ref)[np.sort(rng.choice(size, taken, replace=False))]
        parts.append(rows.with_columns(weight=pl.lit(size / taken / chance)))
    return pl.concat(parts)


def replay(frame: pl.DataFrame, design: str, seed: int) -> dict[str, Any]:
    """Scores with their intervals, weighted and not, and those of the population by the same surfaces."""
    rng = np.random.default_rng(seed)
    train, test = sample(frame, design, rng), sample(frame, design, rng)
    whole = Triplets.from_frame(frame)
    found: dict[str, Any] = {}
    for kind in ("weighted", "unweighted"):
        tables = (train, test) if kind == "weighted" else (train.drop("weight"), test.drop("weight"))
        result = evaluate(*tables, error_bars="fixed")
        truth = {}
        for name in "ab":
            one = whole[name]
            values = values_per_row(one, result.fit(name, "auto").probability(*one.columns))
            truth[name] = {measure: float(values[measure].mean()) for measure in MEASURES}
        for record in result.scores:
            if (record["split"], record["group"]) == ("test", "all"):
                for measure in MEASURES:
                    ends = (record[measure], record[f"{measure}_low"], record[f"{measure}_high"])
                    found[kind, record["distance"], measure] = (*ends, truth[record["distance"]][measure])
        for record in result.comparisons:
            measure, ends = record["measure"], (record["difference"], record["low"], record["high"])
            if measure in MEASURES:
                ends = ends if record["a"] == "a" else (-ends[0], -ends[2], -ends[1])
                found[kind, "a - b", measure] = (*ends, truth["a"][measure] - truth["b"][measure])
        found[kind, "fit"] = truth["a"]["nll"]
    return found


def main(options: Sequence[str]) -> None:
    """Print bias, spread and coverage of each score, weighted and not."""
    replays = int(options[0]) if options else 300
    print(f"{replays} replays; mean error, standard deviation, and % of 95 % intervals with the truth")
    for design in DESIGNS:
        frames = [population(seed) for seed in range(10)]
        drawn = [replay(frames[seed % 10], design, seed) for seed in range(replays)]
        for kind in ("weighted", "unweighted"):
            fit = np.mean([each[kind, "fit"] for each in drawn])
            print(f"  {design}, {kind}: fits to a have an NLL of {fit:.4f} in the population")
            for name in ("a", "b", "a - b"):
                cells = []
                for measure in MEASURES:
                    value, low, high, truth = np.array([each[kind, name, measure] for each in drawn]).T
                    inside = 100 * np.mean((low <= truth) & (truth <= high))
                    error = value - truth
                    cells.append(f"{measure} {error.mean():+.4f} ± {error.std():.4f}, {inside:.1f} %")
                print(f"    {name:6} {'; '.join(cells)}")

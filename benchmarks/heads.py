"""What heads of LPIPS fitted to votes gain and cost: on simulated channels, and on real votes.

Run: python -m benchmarks heads [worlds | material] (default both; material needs TWOAFC_SHARED)

- worlds: 200 channels that share a factor, and published heads on half of them. The truth is a multiple of the
  published heads, the same changed by random factors, or ten other channels. Excess is the expected NLL of a vote less
  that under the truth; "kept" counts the tables after which the heads are the published ones.
- material: the votes of Lagunas et al. (2019) on 100 images. Channels of AlexNet are measured first, once, into the
  folder for temporary files, which takes minutes. Heads are cross-validated by reference, by `twoafc.fuse`; then,
  since images recur in all folds, fitted to triplets of half of the images and tested on triplets of the other half.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import expit

import twoafc
from benchmarks.fusion import LAPSE
from benchmarks.simulated import excess
from twoafc.arrays import FloatArray
from twoafc.estimators import Heads, Spline
from twoafc.evaluation.fusing import with_places
from twoafc.measurement import MeasuredChannels, read_channels
from twoafc.metrics import nll_per_vote, score_2afc
from twoafc.table import Votes

C, M = 200, 3
"""Channels, and votes on each triplet."""
TRUTHS = ("published", "changed", "others")
SIZES = (100, 300, 1000, 5000)
TABLES = 10
IDENTITY = {"variant": "lpips_alex/channels", "weights": {"net": "simulated"}}


def world(truth: str, triplets: int, seed: int) -> tuple[MeasuredChannels, FloatArray]:
    """A file of channels, of references with about ten triplets, and the true P."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng([seed, triplets])
    published = fixed.exponential(size=C) * (fixed.random(C) < 0.5)
    changed = published * fixed.lognormal(sigma=1.5, size=C)
    others = np.where(np.arange(C) % (C // 10) == 0, 1.0, 0.0)
    w = {"published": published, "changed": changed, "others": others}[truth]
    common = rng.normal(size=(2 * triplets, 1)).astype(np.float32)
    means = np.exp(0.4 * common + 0.6 * rng.normal(size=(2 * triplets, C)).astype(np.float32))
    F = means @ w
    F *= 2 / np.std(F[::2] - F[1::2])
    places = np.arange(2 * triplets).reshape(-1, 2)
    P = LAPSE / 2 + (1 - LAPSE) * expit(F[::2] - F[1::2])
    frame = pl.DataFrame({"triplet": np.arange(triplets).astype(str), "n": rng.binomial(M, P)})
    references = rng.integers(max(triplets // 10, 4), size=triplets).astype(str)
    frame = frame.with_columns(M=pl.lit(M), ref=pl.Series(references))
    card = {"data": {"fingerprint": ""}, "distances": {"lpips_alex": {"identity": IDENTITY, "made": []}}}
    traces = np.zeros(0, dtype=np.uint64)
    return MeasuredChannels(frame, card, traces, means, np.arange(2 * triplets), places, [published]), P


def fitted(train: Votes, tested: Votes, file: MeasuredChannels) -> tuple[FloatArray, FloatArray, bool]:
    """P by heads fitted to a table and by the published ones, and whether the former are the latter."""
    fit = Heads(file.network, tuple(file.heads), file.identity["weights"], file.means).fit(train["heads"])
    refitted = fit.probability(*map(fit.reduce, tested["heads"].columns))
    published = Spline().fit(train[file.network]).probability(*tested[file.network].columns)
    return refitted, published, fit.probability.surface is not None


def worlds() -> None:
    """Excess NLL of a vote on simulated channels, with standard errors over tables."""
    print("truth      triplets  kept           refitted          published")
    for truth in TRUTHS:
        for triplets in SIZES:
            costs: list[tuple[float, float]] = []
            kept = 0
            for seed in range(TABLES):
                file, P = world(truth, triplets + 4000, seed)
                table = with_places(file, "heads", 0)
                train, tested = (table.where(rows) for rows in np.split(np.arange(len(table)), [triplets]))
                *both, same = fitted(train, tested, file)
                costs.append((excess(P[triplets:], both[0]), excess(P[triplets:], both[1])))
                kept += same
            error = np.std(costs, axis=0, ddof=1) / TABLES**0.5
            cells = (f"{mean:.4f} ± {se:.4f}" for mean, se in zip(np.mean(costs, axis=0), error, strict=True))
            print(f"{truth:9}  {triplets:8}  {kept:4}  " + "  ".join(f"{cell:>17}" for cell in cells), flush=True)


def measured_material() -> Path | None:
    """Measure the channels of the material images, or find them measured; None where there are no data."""
    folder = os.environ.get("TWOAFC_SHARED")
    if not folder:
        print("material: TWOAFC_SHARED is not set")
        return None
    os.environ.setdefault("TWOAFC_WEIGHTS", str(Path(folder) / "weights"))
    data, path = Path(folder) / "data/material", Path(tempfile.gettempdir()) / "twoafc-material-lpips_alex.npz"
    if not path.exists():
        table = pl.read_csv(data / "train.csv").select("triplet", "n", "M", "ref", "x0", "x1")
        votes = path.with_suffix(".csv")
        table.with_columns(pl.col("ref", "x0", "x1") + ".jpg").write_csv(votes)
        start = time.perf_counter()
        opened = twoafc.datasets.open_dataset(votes, folder=data / "images")
        found = twoafc.measure(opened, ["lpips_alex"], path, channels=True)
        print(f"measured {found.items} {found.kind} in {time.perf_counter() - start:.0f} s")
    return path


def material() -> None:
    """Real votes: heads cross-validated by reference, and on images that they have not seen."""
    path = measured_material()
    if path is None:
        return
    start, seconds = time.perf_counter(), time.process_time()
    result = twoafc.fuse(path)
    print("\n".join(result.card["heads"]["sentences"]))
    for record in result.scores:
        if (record["split"], record["group"]) == ("test", "all"):
            own = f"{record['nll_per_vote']:.4f} nats a vote, 2AFC {record['score_2afc_distance']:.2f} %"
            print(f"{record['distance']}: {own}")
    print(f"fuse took {time.perf_counter() - start:.0f} s, {time.process_time() - seconds:.0f} s of processor time")
    file = read_channels(path)
    table = with_places(file, "heads", 0)
    images = np.stack([table.labels[role].to_numpy() for role in ("ref", "x0", "x1")], axis=1)
    names = np.unique(images)
    gains = []
    print("images unseen: triplets fitted, tested; NLL of a vote less that of published heads; 2AFC % of both; kept")
    for seed in range(10):
        chosen = np.random.default_rng(seed).permutation(names)[: len(names) // 2]
        inside = np.isin(images, chosen).sum(axis=1)
        train, tested = table.where(inside == 3), table.where(inside == 0)
        refitted, published, kept = fitted(train, tested, file)
        nll = [nll_per_vote(tested.n, tested.M, P) for P in (refitted, published)]
        scores = [score_2afc(tested.n, tested.M, P) for P in (refitted, published)]
        gains.append((nll[0] - nll[1], scores[0] - scores[1]))
        both = f"{scores[0]:.2f} {scores[1]:.2f}"
        print(f"{len(train):6} {len(tested):6}  {gains[-1][0]:+.4f}  {both}  {kept}", flush=True)
    mean, spread = np.mean(gains, axis=0), np.std(gains, axis=0, ddof=1)
    print(
        f"mean, spread of ten splits: NLL {mean[0]:+.4f}, {spread[0]:.4f}; 2AFC {mean[1]:+.2f}, {spread[1]:.2f} points"
    )


ALL = {"worlds": worlds, "material": material}


def main(options: Sequence[str]) -> None:
    """Run the parts that are asked for."""
    for name in options or ALL:
        ALL[name]()
        print()

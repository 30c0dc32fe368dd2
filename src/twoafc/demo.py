"""The demonstration: distances scored on simulated observers who judge distorted photographs."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twoafc import card, photographs, results
from twoafc.distances import Distance, distance
from twoafc.estimators import Density
from twoafc.evaluation import Evaluation, Progress, Settings, evaluate
from twoafc.inference import Record, by_group, values_per_row
from twoafc.table import Triplets

STORY = """\
Simulated observers judged patches of photographs, each distorted in two ways. They are not people: they go by a hidden
distance that is none of the candidates, with noise and a few lapses. The row (truth) scores the true chances by which
their votes were drawn: no distance can do better. Their taste is made so that structure (ssim, ms_ssim_3, nlpd)
explains more of it than pixels do (euclidean), and pixels more than brightness, the mean luminance alone."""

DISTANCES: dict[str, Distance] = {
    **{name: distance(name) for name in ("euclidean", "ssim", "ms_ssim_3", "nlpd")},
    "brightness": photographs.brightness,
}
TRAIN_VOTES, TEST_VOTES = 2, 5
"""Votes per triplet, as in the data set BAPPS."""
BLOCK, THREADS = 500, 4
"""Triplets made at once, and how many such blocks, so that their images need little memory."""


def run(folder: Path, *, triplets: int, seed: int, progress: Progress | None = None) -> Evaluation:
    """Make the tables, evaluate the distances, add the truth, and write it all to a folder."""
    if triplets < 40:
        raise ValueError(f"triplets must be at least 40, or there is nothing to fit; found {triplets}")
    results.check_folder(folder)
    sizes = {"train": triplets - triplets // 4, "test": triplets // 4}
    votes = {"train": TRAIN_VOTES, "test": TEST_VOTES}
    seeds = dict(zip(sizes, np.random.SeedSequence(seed).spawn(2), strict=True))
    frames = {role: measured(sizes[role], votes[role], seed=seeds[role], progress=progress) for role in sizes}
    tables = {role: Triplets.from_frame(frame) for role, frame in frames.items()}
    found = evaluate(tables["train"], tables["test"], progress=progress)
    truth = [record for role, frame in frames.items() for record in truth_scores(frame, role)]
    found = dataclasses.replace(
        found,
        scores=[*found.scores, *truth],
        notes=[*found.notes, "the observers are simulated; (truth) scores the chances by which their votes were drawn"],
    )
    data = {role: card.describe(table) for role, table in tables.items()}
    told = card.of_evaluation(data, {"density": Density()}, Settings(), found.runs)
    results.write(found, folder, told, {f"{role}.csv": frame for role, frame in frames.items()})
    return found


def measured(
    triplets: int, votes: int, *, seed: np.random.SeedSequence, progress: Progress | None = None
) -> pl.DataFrame:
    """Cut, distort, judge and measure: one table with n, M, the true P, and the distances."""
    counts = [min(BLOCK, triplets - start) for start in range(0, triplets, BLOCK)]
    seeds = [seed.spawn(2) for _ in counts]
    blocks: list[pl.DataFrame] = []
    # In threads: numpy and Pillow leave Python's lock to others most of the time.
    with ThreadPoolExecutor(THREADS) as pool:
        for block in pool.map(lambda count, pair: measured_block(count, votes, *pair), counts, seeds):
            blocks.append(block)
            if progress:
                progress(sum(counts[: len(blocks)]), triplets, "making photographs, votes and distances")
    return pl.concat(blocks)


def measured_block(count: int, votes: int, cut: np.random.SeedSequence, judge: np.random.SeedSequence) -> pl.DataFrame:
    """Make some rows of the table."""
    made = photographs.photograph_triplets(count, seed=int(cut.generate_state(1)[0]))
    judged = photographs.observers(made.ref, made.x0, made.x1, votes, seed=int(judge.generate_state(1)[0]))
    columns: dict[str, Any] = {"n": judged.n, "M": judged.M, "P": judged.P}
    for name, d in DISTANCES.items():
        columns |= {f"{name}_d0": d(made.ref, made.x0), f"{name}_d1": d(made.ref, made.x1)}
    named = made.table.select("group", "ref", "x0", "x1")
    return named.hstack([pl.Series(name, values) for name, values in columns.items()])


def truth_scores(frame: pl.DataFrame, split: str) -> list[Record]:
    """Score the true P itself, as if P and 1 - P were two distances."""
    P = frame["P"].to_numpy()
    table = Triplets.from_frame(frame.select("n", "M", "group").with_columns(d0=pl.Series(P), d1=pl.Series(1 - P)))
    head = {"distance": "(truth)", "estimator": "none", "split": split}
    return [{**head, **record, "seed": None, "diverged": 0} for record in by_group(table, values_per_row(table, P))]

"""The demonstration: distances scored on simulated observers who judge distorted photographs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl

from twoafc import worlds
from twoafc.arrays import Progress
from twoafc.distances import Distance, distance
from twoafc.evaluation import evaluate
from twoafc.inference import Record, by_group, values_per_row
from twoafc.results import Result, check_folder
from twoafc.table import Triplets

STORY = """\
Simulated observers judged patches of photographs, each distorted in two ways. They are not people: they judge by a
hidden distance that is none of the candidates, with noise and a few lapses. The row (truth) scores the true
probabilities from which their votes were drawn: no distance can do better. Structure (ssim, ms_ssim_3, nlpd) explains
more of their votes than pixels do (euclidean), and pixels more than brightness, the mean luminance alone."""

DISTANCES: dict[str, Distance] = {
    **{name: distance(name) for name in ("euclidean", "ssim", "ms_ssim_3", "nlpd")},
    "brightness": worlds.brightness,
}
VOTES = {"train": 2, "test": 5}
"""Votes per triplet, as in the data set BAPPS."""
BLOCK, THREADS = 500, 4
"""Triplets per block, and blocks computed at once: their images need little memory."""


def run(folder: Path, *, triplets: int, seed: int, progress: Progress | None = None) -> Result:
    """Simulate both tables, evaluate the distances, add the scores of the truth, and write the results to a folder."""
    if triplets < 40:
        raise ValueError(f"triplets must be at least 40, or there is nothing to fit; found {triplets}")
    check_folder(folder)
    sizes = {"train": triplets - triplets // 4, "test": triplets // 4}
    seeds = dict(zip(sizes, np.random.SeedSequence(seed).spawn(2), strict=True))
    frames = {role: _simulate(sizes[role], VOTES[role], seeds[role], progress) for role in sizes}
    tables = {role: Triplets.from_frame(frame) for role, frame in frames.items()}
    result = evaluate(tables["train"], tables["test"], progress=progress)
    truth = [record for role, frame in frames.items() for record in _truth_scores(frame, role)]
    note = "the observers are simulated; (truth) scores the probabilities from which their votes were drawn"
    result = result.replace(scores=[*result.scores, *truth], notes=[*result.notes, note])
    result.write(folder, {f"{role}.csv": frame for role, frame in frames.items()})
    return result


def _simulate(triplets: int, votes: int, seed: np.random.SeedSequence, progress: Progress | None) -> pl.DataFrame:
    """Make one table with n, M, the true P, and the distances."""
    counts = [min(BLOCK, triplets - start) for start in range(0, triplets, BLOCK)]
    seeds = [seed.spawn(2) for _ in counts]
    blocks: list[pl.DataFrame] = []
    # In threads: numpy and Pillow release Python's lock most of the time.
    with ThreadPoolExecutor(THREADS) as pool:
        for block in pool.map(lambda count, pair: _simulate_block(count, votes, *pair), counts, seeds):
            blocks.append(block)
            if progress:
                progress(sum(counts[: len(blocks)]), triplets, "making photographs, votes and distances")
    return pl.concat(blocks)


def _simulate_block(
    count: int, votes: int, image_seed: np.random.SeedSequence, vote_seed: np.random.SeedSequence
) -> pl.DataFrame:
    images = worlds.photograph_triplets(count, seed=int(image_seed.generate_state(1)[0]))
    ref, x0, x1 = images.ref, images.x0, images.x1
    simulated = worlds.observers(ref, x0, x1, votes, seed=int(vote_seed.generate_state(1)[0]))
    columns = [pl.Series(name, values) for name, values in simulated._asdict().items()]
    for name, d in DISTANCES.items():
        columns += [pl.Series(f"{name}_d0", d(ref, x0)), pl.Series(f"{name}_d1", d(ref, x1))]
    return images.table.select("group", "ref", "x0", "x1").hstack(columns)


def _truth_scores(frame: pl.DataFrame, split: str) -> list[Record]:
    """Score the true P itself, as if P and 1 - P were two distances."""
    P = frame["P"].to_numpy()
    table = Triplets.from_frame(frame.select("n", "M", "group").with_columns(d0=pl.Series(P), d1=pl.Series(1 - P)))
    head = {"distance": "(truth)", "estimator": "none", "split": split}
    return [{**head, **record, "seed": None, "diverged": 0} for record in by_group(table, values_per_row(table, P))]

"""How long an answer takes: to import, to fit, to measure, to the verdict, to the whole folder, and the demo.

Of this version and others. Ten distances on 22,801 training and 3,000 test triplets, and fits to 151,400, simulated;
2,000 triplets of 64 x 64 PNGs are measured.
Run: python -m benchmarks answer [COMMIT ...], to compare with earlier commits (two minutes each)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.measure import make_tree
from twoafc import worlds

ROOT = Path(__file__).parents[1]
SIZES = {"train": 22_801, "test": 3_000}
DISTANCES = 10
RUNS = 3
FIT = """
import time
from twoafc import Density, Spline, Triplets, worlds
table = Triplets.from_frame(worlds.simulate("weber", triplets=151_400, votes=2))
start = time.perf_counter()
{}().fit(table)
print(time.perf_counter() - start)
"""


def write_tables(folder: Path) -> None:
    """Write tables with references, and distances of growing noise."""
    for seed, (role, T) in enumerate(SIZES.items()):
        rng = np.random.default_rng(seed)
        votes = worlds.simulate("weber", triplets=T, votes=4, seed=seed)
        columns = [votes["n"], votes["M"], pl.Series("ref", [f"{role}{k % 100}" for k in range(T)])]
        for k in range(DISTANCES):
            noise = np.exp(0.1 * k * rng.normal(size=(2, T)))
            columns += [(votes[f"d{i}"] * noise[i]).alias(f"noise{k}_d{i}") for i in (0, 1)]
        pl.DataFrame(columns).write_csv(folder / f"{role}.csv")


def timed(source: Path, folder: Path, *arguments: str) -> tuple[float, float, float]:
    """Seconds until the first line, or those that it says, until the end, and of processor time."""
    (folder / "table.csv").unlink(missing_ok=True)  # or it would not be measured again
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    before, start = os.times(), time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        first = program.stdout.readline()
        shown = time.perf_counter() - start
        program.stdout.read()
    whole, after = time.perf_counter() - start, os.times()
    if program.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {program.returncode}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    if arguments[0] == "-c" and first:
        shown = float(first)
    return shown if first else whole, whole, cpu


def main(commits: list[str] | None = None) -> None:
    evaluate = ("-m", "twoafc", "evaluate", "--train", "train.csv", "--test", "test.csv", "--out", "results")
    jobs = {
        "import twoafc; twoafc.evaluate": ("-c", "import twoafc; twoafc.evaluate"),
        "fit of the density": ("-c", FIT.format("Density")),
        "fit of the spline": ("-c", FIT.format("Spline")),
        "measure, ssim": ("-m", "twoafc", "measure", "tree", "--distance", "ssim", "--out", "table.csv"),
        "evaluate, ten distances": evaluate,
        "demo": ("-m", "twoafc", "demo", "--out", "demo"),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        make_tree(folder / "tree", 2_000)
        sources = {"this version": ROOT / "src"}
        for commit in commits or []:
            tree = folder / f"tree-{len(sources)}"
            subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "-q", "--detach", str(tree), commit], check=True)
            sources[commit] = tree / "src"
        try:
            print(f"{'':32s} {'version':14s} {'answer s':>9s} {'all s':>6s} {'CPU s':>6s}   (least of {RUNS})")
            for job, arguments in jobs.items():
                for version, source in sources.items():
                    times = np.min([timed(source, folder, *arguments) for _ in range(RUNS)], axis=0)
                    print(f"{job:32s} {version:14s} {times[0]:9.2f} {times[1]:6.2f} {times[2]:6.2f}", flush=True)
        finally:
            for source in list(sources.values())[1:]:
                remove = ["git", "-C", str(ROOT), "worktree", "remove", "--force", str(source.parent)]
                subprocess.run(remove, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])

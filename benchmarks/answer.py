"""How long an answer takes: to import, to fit, to measure, to the verdict, to the whole folder, and the demo.

Run: python -m benchmarks answer [COMMIT ...], to compare with earlier commits (three minutes for each version)

Ten distances on 22,801 training and 3,000 test triplets, and six on 151,400 and 36,344, simulated; 2,000 triplets of
64 x 64 PNGs are measured. Each job is a program of its own; the least of three times is printed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.measure import make_tree
from benchmarks.simulated import noisy_votes

ROOT = Path(__file__).parents[1]
RUNS = 3
TABLES = {"ten": (22_801, 3_000, np.linspace(0, 0.9, 10)), "six": (151_400, 36_344, np.linspace(0, 1, 6))}
"""Training triplets, test triplets, and the noise of each distance."""
FIT = """
import time
from twoafc import Density, Spline, Triplets
table = Triplets.read("six0.csv")["noise0"]
start = time.perf_counter()
{}().fit(table)
print(time.perf_counter() - start)
"""
JOBS = {
    "import twoafc": "-c 'import twoafc'",
    "import twoafc; twoafc.evaluate": "-c 'import twoafc; twoafc.evaluate'",
    "twoafc --help": "-m twoafc --help",
    "fit of the density": f"-c '{FIT.format('Density')}'",
    "fit of the spline": f"-c '{FIT.format('Spline')}'",
    "measure, ssim": "-m twoafc measure tree --distance ssim --out table.csv",
    "evaluate, ten distances": "-m twoafc evaluate --train ten0.csv --test ten1.csv --out ten",
    "evaluate, six distances": "-m twoafc evaluate --train six0.csv --test six1.csv --out six",
    "demo": "-m twoafc demo --out demo",
}


def timed(source: Path, folder: Path, arguments: str) -> tuple[float, float, float]:
    """Seconds until the first line, or those that it says, until the end, and of processor time."""
    (folder / "table.csv").unlink(missing_ok=True)  # or it would not be measured again
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    before, start = os.times(), time.perf_counter()
    command = [sys.executable, *shlex.split(arguments)]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        first = program.stdout.readline()
        shown = time.perf_counter() - start
        program.stdout.read()
    whole, after = time.perf_counter() - start, os.times()
    if program.returncode:
        raise RuntimeError(f"{arguments} ended with {program.returncode}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    if "perf_counter" in arguments:
        shown = float(first)
    return shown if first else whole, whole, cpu


def main(options: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table, (train, test, noise) in TABLES.items():
            for role, (triplets, votes) in enumerate(((train, 2), (test, 5))):
                frame = noisy_votes(triplets, votes, role, noise=noise, per_reference=20)
                frame.write_csv(folder / f"{table}{role}.csv")
        make_tree(folder / "tree", 2_000)
        sources = {"this version": ROOT / "src"}
        for commit in options:
            tree = folder / f"tree-{len(sources)}"
            subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "-q", "--detach", str(tree), commit], check=True)
            sources[commit] = tree / "src"
        try:
            print(f"{'':32s} {'version':14s} {'answer s':>9s} {'all s':>6s} {'CPU s':>6s}   (least of {RUNS})")
            for job, arguments in JOBS.items():
                for version, source in sources.items():
                    times = np.min([timed(source, folder, arguments) for _ in range(RUNS)], axis=0)
                    print(f"{job:32s} {version:14s} {times[0]:9.2f} {times[1]:6.2f} {times[2]:6.2f}", flush=True)
        finally:
            for source in list(sources.values())[1:]:
                remove = ["git", "-C", str(ROOT), "worktree", "remove", "--force", str(source.parent)]
                subprocess.run(remove, check=True)

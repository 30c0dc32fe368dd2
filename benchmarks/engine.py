"""Counting tables larger than memory: time and memory against a bare scan, and the engines against one another.

Run: python -m benchmarks engine (1e6 and 1e7 rows, some minutes, Spark's start among them), or in full
     python -m benchmarks engine --rows 1000000 10000000 100000000 --folder /somewhere (1.6 GB of Parquet)
     python -m benchmarks engine --references 5000 (1e7 rows by reference, a minute)

Rows are triplets of a world in which distances are log-normal and correlated, as those of one reference are, judged by
two people or by two to five. Each figure is of a process of its own, whose peak memory is its own, and which has done
the same with ten rows before, so that imports do not count. The bare scan sums the same columns of the same files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

PART = 10_000_000
RUNS = 3
WORLDS = {"M = 2": (2, 2), "M = 2 to 5": (2, 5)}
ENGINES = ("polars", "duckdb", "dask", "spark")
FEW = {"n": [0, 1] * 5, "M": [2] * 10, "lpips_d0": [0.1] * 10, "lpips_d1": [0.2] * 10}


def write(folder: Path, rows: int, votes: tuple[int, int]) -> str:
    """Write parts of 1e7 rows, where they are not there yet; give the pattern of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, first in enumerate(range(0, rows, PART)):
        path, size = folder / f"part-{part:04d}.parquet", min(PART, rows - first)
        if path.exists():
            continue
        rng = np.random.default_rng(part)
        shared = 0.6 * rng.standard_normal(size)
        d0, d1 = (np.exp(-1.5 + shared + 0.5 * rng.standard_normal(size)) for _ in range(2))
        M = rng.integers(votes[0], votes[1] + 1, size, dtype=np.int32)
        n = rng.binomial(M, d0**2 / (d0**2 + d1**2)).astype(np.int32)
        frame = pl.DataFrame({"n": n, "M": M, "lpips_d0": d0, "lpips_d1": d1})
        frame.write_parquet(partial := path.with_suffix(".part"))
        partial.rename(path)
    return f"{folder}/*.parquet"


def scan(pattern: str) -> dict[str, float]:
    pl.LazyFrame(FEW).select(pl.all().sum()).collect(engine="streaming")
    start = time.perf_counter()
    pl.scan_parquet(pattern).select(pl.all().sum()).collect(engine="streaming")
    return {"all": time.perf_counter() - start}


def whole(pattern: str, engine: str = "polars") -> dict[str, float]:
    """Count, fit the density, and score it on the same counts: NLL, agreement, 2AFC and their error bars."""
    import twoafc

    few = twoafc.count(FEW)
    twoafc.evaluate(few, few, estimators=["density"])
    start = time.perf_counter()
    counts = twoafc.count(pattern, engine=engine)
    counted = time.perf_counter()
    twoafc.evaluate(counts, counts, estimators=["density"])
    end = time.perf_counter()
    found = counts["lpips"]
    times = {"count": counted - start, "evaluate": end - counted, "all": end - start}
    return times | {"cells": len(found.cells), "digest": found.digest}


def by_reference(pattern: str, estimator: str, tested: str) -> dict[str, float]:
    """Count by reference and save; then fit, and score the same counts or cross-validate them."""
    import twoafc

    start = time.process_time()
    counts = twoafc.count(pattern, keep_refs=True)
    with tempfile.TemporaryDirectory() as folder:
        counts["lpips"].save(Path(folder) / "counts.npz")
    counted = time.process_time()
    twoafc.evaluate(counts, counts if tested == "itself" else None, estimators=[estimator])
    return {"count": counted - start, "evaluate": time.process_time() - counted}


def alone(what: str, *arguments: str) -> dict[str, float]:
    """Run one of the above in a process of its own; with its peak memory in MB and its processor time."""
    # Not ru_maxrss, which a process inherits from the one that started it.
    code = (
        "import json, re, resource, sys; from pathlib import Path; from benchmarks import engine; "
        "figures = getattr(engine, sys.argv[1])(*sys.argv[2:]); used = resource.getrusage(resource.RUSAGE_SELF); "
        "peak = int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) / 1024; "
        "print('\\n' + json.dumps({**figures, 'MB': peak, 'cpu': used.ru_utime + used.ru_stime}))"
    )
    done = subprocess.run([sys.executable, "-c", code, what, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare_engines(folder: Path) -> None:
    pattern = write(folder, 10**6, (2, 5))
    print("1,000,000 rows through each engine")
    found = {name: alone("whole", pattern, name) for name in ENGINES}
    for name, figures in found.items():
        same = "identical counts" if figures["digest"] == found["polars"]["digest"] else "OTHER COUNTS"
        print(f"  {name:8s} {figures['count']:8.2f} s {figures['MB']:8.0f} MB   {same}", flush=True)


def by_size(root: Path, sizes: Sequence[int]) -> None:
    print(f"\n{'':12s}{'rows':>12s}{'cells':>11s}{'scan':>9s}{'count':>9s}{'fit+score':>11s}", end="")
    print(f"{'all':>9s}{'x scan':>8s}{'peak MB':>9s}{'cpu s':>8s}")
    for world, votes in WORLDS.items():
        for rows in sizes:
            pattern = write(root / f"{votes[1]}-{rows}", rows, votes)
            alone("scan", pattern)  # brings the files to the cache
            # In turn, so that what else the machine does falls on both alike.
            times = [(alone("scan", pattern)["all"], alone("whole", pattern)) for _ in range(RUNS)]
            bare = min(seconds for seconds, _ in times)
            best = min((figures for _, figures in times), key=lambda figures: figures["all"])
            print(
                f"{world:12s}{rows:12,d}{best['cells']:11,d}{bare:8.2f}s{best['count']:8.2f}s{best['evaluate']:10.2f}s"
                f"{best['all']:8.2f}s{best['all'] / bare:8.1f}{best['MB']:9.0f}{best['cpu']:8.1f}",
                flush=True,
            )


def with_references(root: Path, references: int) -> None:
    pattern = write(root / "2-10000000", PART, (2, 2))
    path = root / f"{references}-references" / "votes.parquet"
    path.parent.mkdir(exist_ok=True)
    names = np.random.default_rng(0).integers(0, references, PART).astype(str)
    pl.read_parquet(pattern).with_columns(ref=pl.Series(names)).write_parquet(path)
    print(f"\n{PART:,} rows of {references:,} references, M = 2; seconds of the processor")
    for estimator in ("density", "auto"):
        for tested in ("itself", "by cross-validation"):
            found = alone("by_reference", str(path), estimator, tested)
            print(
                f"count and save {found['count']:.1f} s; {estimator}, tested {tested}: {found['evaluate']:.1f} s; "
                f"peak {found['MB']:,.0f} MB",
                flush=True,
            )


def main(options: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--folder", type=Path, help="where Parquet is written and kept; default a temporary folder")
    parser.add_argument("--references", type=int, help="count 1e7 rows by so many references, and nothing else")
    given = parser.parse_args(options)
    with tempfile.TemporaryDirectory() as temporary:
        root = given.folder or Path(temporary)
        if given.references:
            with_references(root, given.references)
            return
        compare_engines(root / "engines")
        by_size(root, given.rows)

"""Counting tables larger than memory: time, memory, the cost of a row, and the engines against one another.

Run: python -m benchmarks.engine (1e6 and 1e7 rows, some minutes, Spark's start among them), or in full
     python -m benchmarks.engine --rows 1000000 10000000 100000000 --folder /somewhere (1.6 GB of Parquet)

Rows are triplets of a world in which distances are log-normal and correlated, as those of one reference are, judged by
two people or by two to five. Every figure is of a process of its own, whose peak memory is its own; a bare scan that
sums the same columns stands beside it, of the same files in the same run, after a scan that brings them to the cache.
Times are of loaded programs: each process first does the same with ten rows.
"a row" is what the pass itself costs, from the first rows counted to the last: what is left of the time is the cells
that are put in order at the end, and fit and score, neither of which grows with rows once the cells are filled.
Below each world stands what one more row costs in all, from the two largest tables, and what that makes of 1e10 rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PART = 10_000_000
RUNS = 3
WORLDS = {"M = 2": (2, 2), "M = 2 to 5": (2, 5)}


def write(folder: Path, rows: int, votes: tuple[int, int]) -> None:
    """Write parts of 1e7 rows, where they are not there yet."""
    import numpy as np
    import polars as pl

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


FEW = {"n": [0, 1] * 5, "M": [2] * 10, "lpips_d0": [0.1] * 10, "lpips_d1": [0.2] * 10}


def scan(pattern: str) -> dict[str, float]:
    import polars as pl

    pl.LazyFrame(FEW).select(pl.all().sum()).collect(engine="streaming")
    start = time.perf_counter()
    pl.scan_parquet(pattern).select(pl.all().sum()).collect(engine="streaming")
    return {"scan": time.perf_counter() - start}


def count(pattern: str, engine: str = "polars") -> dict[str, float]:
    import twoafc

    twoafc.count(FEW)
    seen: list[tuple[float, int]] = []
    start = time.perf_counter()
    found = twoafc.count(pattern, engine=engine, progress=lambda done, *_: seen.append((time.perf_counter(), done)))
    done, counts = time.perf_counter(), found["lpips"]
    figures = {"count": done - start, "rows": counts.triplets, "cells": len(counts.cells), "digest": counts.digest}
    if len(seen) > 1:
        (first, few), (last, many) = seen[0], seen[-1]
        figures["row"] = (last - first) / (many - few)
    return figures


def whole(pattern: str) -> dict[str, float]:
    """Count, fit the density, and score it on the same counts: NLL, agreement, 2AFC and their error bars."""
    import twoafc

    few = twoafc.count(FEW)
    twoafc.evaluate(few, few, estimators=["density"])
    start = time.perf_counter()
    counts = twoafc.count(pattern)
    counted = time.perf_counter()
    twoafc.evaluate(counts, counts, estimators=["density"])
    return {"count": counted - start, "evaluate": time.perf_counter() - counted, "all": time.perf_counter() - start}


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
    write(folder, 10**6, (2, 5))
    print("1,000,000 rows through each engine")
    found = {name: alone("count", f"{folder}/*.parquet", name) for name in ("polars", "duckdb", "dask", "spark")}
    for name, figures in found.items():
        same = "identical counts" if figures["digest"] == found["polars"]["digest"] else "OTHER COUNTS"
        print(f"  {name:8s} {figures['count']:8.2f} s {figures['MB']:8.0f} MB   {same}", flush=True)


def by_size(root: Path, sizes: list[int]) -> None:
    print(f"\n{'':12s}{'rows':>12s}{'cells':>11s}{'scan':>9s}{'count':>9s}{'a row':>9s}{'fit+score':>11s}", end="")
    print(f"{'all':>9s}{'x scan':>8s}{'peak MB':>9s}{'cpu s':>8s}")
    for world, votes in WORLDS.items():
        times: list[tuple[int, float, float]] = []
        for rows in sizes:
            pattern = f"{root / f'{votes[1]}-{rows}'}/*.parquet"
            write(Path(pattern).parent, rows, votes)
            alone("scan", pattern)
            # In turn, so that what else the machine does falls on all alike.
            bare, counted, figures = zip(*(measured(pattern) for _ in range(RUNS)), strict=True)
            least, cells = min(bare), int(counted[0]["cells"])
            best = min(figures, key=lambda each: each["all"])
            quickest = min(each["count"] for each in (*counted, *figures))
            print(
                f"{world:12s}{rows:12,d}{cells:11,d}{least:8.2f}s{quickest:8.2f}s"
                f"{min(each['row'] for each in counted) * 1e9:6.1f} ns"
                f"{best['evaluate']:10.2f}s{best['all']:8.2f}s{best['all'] / least:8.1f}"
                f"{max(each['MB'] for each in (*counted, *figures)):9.0f}{best['cpu']:8.1f}",
                flush=True,
            )
            times.append((rows, least, best["all"]))
        if len(times) > 1:
            (few, *before), (many, *after) = times[-2:]
            scanned, done = ((b - a) / (many - few) for a, b in zip(before, after, strict=True))
            whole = (after[1] + done * (10**10 - many)) / 60
            print(f"{world:12s}one more row: {done * 1e9:.1f} ns, scanned {scanned * 1e9:.1f} ns; ", end="")
            print(f"1e10 rows: {whole:.1f} minutes")


def measured(pattern: str) -> tuple[float, dict[str, float], dict[str, float]]:
    """Scan, count, and do the whole of it, once each."""
    return alone("scan", pattern)["scan"], alone("count", pattern), alone("whole", pattern)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--folder", type=Path, help="where Parquet is written and kept; default a temporary folder")
    parser.add_argument("--no-engines", action="store_true", help="leave out the comparison of engines")
    given = parser.parse_args([] if arguments is None else arguments)
    with tempfile.TemporaryDirectory() as temporary:
        root = given.folder or Path(temporary)
        if not given.no_engines:
            compare_engines(root / "engines")
        by_size(root, given.rows)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Measuring on a Dask cluster of this machine against processes of its own, on a BAPPS tree of 64 x 64 PNGs.

Run: python -m benchmarks.cluster (about a minute and a half)

Both have as many workers, of one thread each. The cluster is there before the clock starts; seconds are those of the
whole call, and "running" leaves out what comes before the first finished block. The tables must be the same file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import make_tree
from twoafc import measure
from twoafc.measurement import cores

DISTANCES = ("rmse", "ssim")


def timed(root: Path, out: Path, **options: Any) -> tuple[float, float]:
    """Seconds in all, and triplets a second from the first finished block on."""
    reports: list[tuple[float, int]] = []

    def progress(done: int, total: int, what: str) -> None:
        if what == "triplets" and done:
            reports.append((time.perf_counter(), done))

    start = time.perf_counter()
    found = measure(root, DISTANCES, out, device="cpu", progress=progress, **options)
    whole = time.perf_counter() - start
    assert not found.failures
    (first, before), (last, done) = reports[0], reports[-1]
    return whole, (done - before) / (last - first)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triplets", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args([] if arguments is None else arguments)
    from distributed import Client, LocalCluster

    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=given.workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        root = Path(folder, "tree")
        make_tree(root, given.triplets)
        print(f"{given.triplets:,} triplets, {' and '.join(DISTANCES)}, {given.workers} workers, {cores()} cores")
        print(f"{'':24}{'seconds':>12}{'in all':>14}{'running':>14}")
        ways: dict[str, dict[str, Any]] = {"processes": {"workers": given.workers}, "Dask": {"client": client}}
        for turn in range(given.rounds):
            for name, options in ways.items():
                whole, rate = timed(root, Path(folder, f"{name}{turn}.parquet"), **options)
                print(f"{name:24}{whole:12.2f}{given.triplets / whole:12,.0f}/s{rate:12,.0f}/s", flush=True)
        tables = {path.read_bytes() for path in Path(folder).glob("*.parquet")}
        print(f"the tables are {'the same file' if len(tables) == 1 else 'NOT the same'}")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])

"""`twoafc.measure` on a BAPPS tree of 64 x 64 PNGs: triplets per second, and what decoding alone would take.

Run: python -m benchmarks measure (about three minutes), or on a GPU
     python -m benchmarks measure --device cuda --triplets 187700 --precision tf32

The tree is made here, of pictures with a photograph's spectrum; every file has a name of its own, but only 512 triplets
have contents of their own, which the disk's cache holds. Networks need their published weights (TWOAFC_WEIGHTS).
Seconds are those of the whole call: reading the tree, starting processes, measuring, and writing the table; "running"
counts from the first finished block on.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from twoafc import DataError, distance, measure
from twoafc.datasets import open_dataset
from twoafc.images import read_pixels
from twoafc.measurement import cores

DISTINCT = 512
ON_CPU = ("euclidean", "ssim", "nlpd", "lpips_alex")
ON_GPU = (*ON_CPU, "dists", "pim_1")


def pictures(count: int, rng: np.random.Generator) -> np.ndarray:
    """Noise with the spectrum of photographs, in RGB, as bytes (count, 64, 64, 3)."""
    frequency = np.hypot(np.fft.fftfreq(64)[:, None], np.fft.rfftfreq(64)) + 1 / 64
    grey = rng.standard_normal((count, 1, 64, 64)) + 0.05 * rng.standard_normal((count, 3, 64, 64))
    waves = np.fft.irfft2(np.fft.rfft2(grey) / frequency**1.9, s=(64, 64))
    waves = 127 + 45 * waves / waves.std(axis=(1, 2, 3), keepdims=True)
    return waves.clip(0, 255).astype(np.uint8).transpose(0, 2, 3, 1)


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def make_tree(root: Path, triplets: int) -> int:
    """Write 2afc/train/mix; give the mean size of a PNG."""
    rng = np.random.default_rng(0)
    folder, sizes = root / "2afc" / "train" / "mix", []
    ref = pictures(DISTINCT, rng)
    noise = rng.uniform(0, 3, (2, DISTINCT, 1, 1, 1)) * rng.standard_normal((2, *ref.shape))
    spoiled = (ref + noise).clip(0, 255).astype(np.uint8)
    for name, images in {"ref": ref, "p0": spoiled[0], "p1": spoiled[1], "judge": None}.items():
        (folder / name).mkdir(parents=True)
        ending = ".npy" if images is None else ".png"
        for number in range(triplets):
            file = folder / name / f"{number:06d}{ending}"
            if number >= DISTINCT:
                os.link(folder / name / f"{number % DISTINCT:06d}{ending}", file)
            elif images is None:
                np.save(file, np.full(1, rng.integers(3) / 2))
            else:
                sizes.append(file.write_bytes(png(images[number])))
    return int(np.mean(sizes))


def with_weights(names: Sequence[str]) -> list[str]:
    """The distances whose weights are here."""
    here = []
    for name in names:
        try:
            distance(name)
        except (DataError, ImportError) as reason:
            print(f"{name} is left out: {reason}")
        else:
            here.append(name)
    return here


def seconds(root: Path, distances: Sequence[str], **options: Any) -> tuple[float, float]:
    """Time one call on the tree: in all, and from the first finished block on, per triplet of the others."""
    reports: list[tuple[float, int]] = []

    def progress(done: int, total: int, what: str) -> None:
        if what == "triplets" and done:
            reports.append((time.perf_counter(), done))

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        found = measure(root, distances, Path(folder, "t.parquet"), progress=progress, **options)
        whole = time.perf_counter() - start
    assert not found.failures
    (first, before), (last, done) = reports[0], reports[-1]
    return whole, (last - first) / (done - before) if done > before else float("nan")


def decode_alone(root: Path, most: int = 3000) -> float:
    """Seconds that one process takes to decode a triplet."""
    data = open_dataset(root)
    rows = min(most, len(data))
    start = time.perf_counter()
    for row in range(rows):
        for role in data.roles:
            read_pixels(data.path(role, row))
    return (time.perf_counter() - start) / rows


def main(options: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32"])
    parser.add_argument("--triplets", type=int, default=4000)
    parser.add_argument("--workers", type=int, nargs="+", help="default 1 and 2, on a GPU all cores")
    given = parser.parse_args(options)
    on_cpu, triplets = given.device == "cpu", given.triplets
    names = with_weights(ON_CPU if on_cpu else ON_GPU)
    jobs = {name: [name] for name in names}
    if not on_cpu:  # what a device does on first use is not to be timed with the first distance
        jobs = {"(warming up)": names, **jobs, "all": names}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        size = make_tree(root, triplets)
        print(f"{triplets:,} triplets of 64 x 64 PNGs of {size:,} bytes; {cores()} cores, {given.device}")
        print(f"decoding alone: {1 / decode_alone(root):,.0f} triplets/s on one core")
        print(f"{'':16}{'workers':>8}{'seconds':>12}{'in all':>14}{'running':>14}   {given.precision}")
        for label, chosen in jobs.items():
            for workers in given.workers or ([1, 2] if on_cpu else [cores()]):
                whole, each = seconds(root, chosen, device=given.device, precision=given.precision, workers=workers)
                rates = f"{triplets / whole:12,.0f}/s{1 / each:12,.0f}/s"
                print(f"{label:16}{workers:8}{whole:12.2f}{rates}", flush=True)

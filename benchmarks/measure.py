"""`twoafc.measure` on a BAPPS tree of 64 x 64 PNGs: triplets per second, and the share of decoding.

Run: python -m benchmarks.measure (about three minutes), or on a GPU
     python -m benchmarks.measure --device cuda --triplets 187700 --precision tf32

The tree is made here, of pictures with a photograph's spectrum; every file has a name of its own, but only 512 triplets
have contents of their own, which the disk's cache holds. Networks whose weights are not at hand get random ones, which
cost the same; the table marks them with a star. Seconds are those of the whole call: reading the tree, starting
processes, measuring, and writing the table. On the CPU "alone" is one process that decodes and does nothing else.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image

from twoafc import measure
from twoafc.datasets import open_dataset
from twoafc.distances import Deep, Distance, distance, pim, published, weights
from twoafc.errors import DataError
from twoafc.images import read_pixels
from twoafc.measurement import cores

DISTINCT = 512
CHEAP = ("euclidean", "ssim", "nlpd")
SIX = (*CHEAP, "lpips_alex", "dists", "pim_1")


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


def network(name: str, device: str, precision: Any) -> tuple[str, Distance]:
    """Give a distance with a network, its weights random where they are not at hand."""
    try:
        return name, distance(name, device=device, precision=precision)
    except DataError:
        return f"{name}*", random_network(name, device, precision)


def random_network(name: str, device: str, precision: Any) -> Deep:
    """Build a network as the package does, but for its weights."""
    import torch

    generator = torch.Generator().manual_seed(0)
    if name == "pim_1":
        shapes = pim.Architecture().shapes()
        variables = {key: 0.05 * torch.randn(shape, generator=generator).numpy() for key, shape in shapes.items()}
        with patch.object(pim, "archive"), patch.object(pim, "read_variables", lambda *_: variables):
            made = distance(name, device=device, precision=precision)
        return replace(made, name=f"{name} of random weights", weights={})

    def some(file: str, path: Any) -> dict[str, Any]:
        shapes = published()[file].tensors
        return {key: 0.02 * torch.rand(shape, generator=generator) for key, (shape, _) in shapes.items()}

    with patch.object(weights, "tensors", some):
        made = distance(name, device=device, precision=precision)
    return replace(made, name=f"{name} of random weights", weights={})


def seconds(root: Path, distances: Any, **options: Any) -> tuple[float, float]:
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


def on_cpu(root: Path, triplets: int, workers: list[int]) -> None:
    alone = decode_alone(root)
    print(f"decoding alone: {1 / alone:,.0f} triplets/s on one core\n")
    print(f"{'':24}" + "".join(f"{f'{count} workers':>22}" for count in workers) + f"{'share of decoding':>20}")
    print(f"{'':24}" + f"{'seconds':>12}{'running':>10}" * len(workers) + f"{'1 worker':>20}")
    for name in (*CHEAP, "lpips_alex"):
        try:
            distance(name)
        except (DataError, ImportError):
            continue
        cells, share = "", 0.0
        for count in workers:
            whole, each = seconds(root, [name], device="cpu", workers=count)
            share = share or alone / each
            cells += f"{whole:12.2f}{1 / each:8,.0f}/s"
        print(f"{name:24}{cells}{share:20.0%}", flush=True)


def on_device(root: Path, triplets: int, device: str, precision: str, workers: list[int]) -> None:
    networks = dict(network(name, device, precision) for name in SIX if name not in CHEAP)
    six: dict[str, Any] = {name: name for name in CHEAP} | networks
    print(f"{'':24}{'seconds':>12}{'in all':>14}{'running':>14}   {precision}, {workers[-1]} decoding processes")
    options = {"device": device, "precision": precision, "workers": workers[-1]}
    # What a device does on first use is not to be timed with the first distance.
    for label, chosen in {
        "(warming up)": six,
        **{name: {name: made} for name, made in six.items()},
        "all six": six,
    }.items():
        whole, each = seconds(root, chosen, **options)
        print(f"{label:24}{whole:12.2f}{triplets / whole:12,.0f}/s{1 / each:12,.0f}/s", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32"])
    parser.add_argument("--triplets", type=int, default=4000)
    parser.add_argument("--workers", type=int, nargs="+", help="default 1 and 2, on a GPU all cores")
    given = parser.parse_args([] if arguments is None else arguments)
    workers = given.workers or ([1, 2] if given.device == "cpu" else [cores()])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        size = make_tree(root, given.triplets)
        start = time.perf_counter()
        open_dataset(root)
        opened = time.perf_counter() - start
        print(f"{given.triplets:,} triplets of 64 x 64 PNGs of {size:,} bytes; {cores()} cores, {given.device}")
        print(f"opening the tree: {opened:.2f} s")
        if given.device == "cpu":
            on_cpu(root, given.triplets, workers)
        else:
            on_device(root, given.triplets, given.device, given.precision, workers)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])

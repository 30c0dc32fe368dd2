"""Each distance against the usual packages: triplets per second on 64 x 64 pixels, on one core or on a GPU.

Run: python -m benchmarks distances [--device cuda] (about four minutes; needs the extra "bench", and the published
weights where TWOAFC_WEIGHTS says)

A triplet is two distances to one reference. A package is asked twice for a pair, as its users do, and may have its best
size of batch; ours gets all triplets at once and checks them. Networks get the same weights: ours, whose digests were
checked. The last column is the largest difference of values from ours in strict fp32, relative to their mean: what TF32
costs, and whether a package's is the same distance (torchmetrics' SSIM and plenoptic's NLPD are other variants).
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from benchmarks import peers
from benchmarks.peers import Batch, Pair
from twoafc.distances import distance

Triplet = Callable[[Batch, Batch, Batch], Any]
Images = tuple[Batch, Batch, Batch]
LEAST_ROUNDS = 3


class Row(NamedTuple):
    """A distance of ours, its peers, the size of the images, and how many triplets."""

    name: str
    peers: dict[str, Callable[[], Pair]]
    side: int = 64
    triplets: int = 64


ROWS = (
    Row("euclidean", {}, triplets=512),
    Row(
        "ssim",
        {
            "pytorch_msssim": partial(peers.msssim_package, "ssim"),
            "plenoptic": partial(peers.plenoptic, "ssim"),
            "piq": partial(peers.piq, "ssim"),
            "torchmetrics": peers.torchmetrics_ssim,
        },
    ),
    Row("ms_ssim_3", {}),
    Row("ms_ssim", {"pytorch_msssim": partial(peers.msssim_package, "ms_ssim")}, side=176, triplets=8),
    Row("nlpd", {"plenoptic": partial(peers.plenoptic, "nlpd")}),
    *(
        Row(
            f"lpips_{net}",
            {"lpips": partial(peers.lpips_package, net), "torchmetrics": partial(peers.torchmetrics_lpips, net)},
            triplets=8 if net == "vgg" else 64,
        )
        for net in ("alex", "squeeze", "vgg")
    ),
    Row("dists", {"DISTS_pytorch": peers.dists_package}, triplets=8),
)
LARGE = {"euclidean": 8192, "lpips_vgg": 1024, "dists": 512, "ms_ssim": 256}
"""Triplets at once on a GPU; 4096 for the others."""


def photographs(triplets: int, side: int, device: str) -> Images:
    """Smooth random images, blurred and with noise; after 256 of them the same again."""
    generator = torch.Generator().manual_seed(0)
    count = min(triplets, 256)
    ref = torch.full((count, 3, side, side), 0.5)
    for scale in (2, 4, 8, 16, 32):
        coarse = torch.randn(count, 3, side // scale, side // scale, generator=generator)
        ref += 0.02 * scale**0.5 * torch.nn.functional.interpolate(coarse, size=(side, side), mode="bicubic")
    x0 = torch.nn.functional.avg_pool2d(ref, 3, 1, 1)
    x1 = ref + 0.05 * torch.randn(ref.shape, generator=generator)
    again = -(-triplets // count)
    ref, x0, x1 = (images.clip(0, 1).to(device).repeat(again, 1, 1, 1)[:triplets] for images in (ref, x0, x1))
    return ref, x0, x1


def race(calls: dict[Any, Callable[[], Any]], device: str, seconds: float) -> dict[Any, float]:
    """Seconds of the quickest round of each, all of them in turn, so that a busy machine is busy for all.

    On a processor it is its own time that counts, and each uses one core.
    """
    clock = time.process_time if device == "cpu" else time.perf_counter
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    begin, rounds = clock(), 0
    while rounds < LEAST_ROUNDS or clock() - begin < seconds * len(calls):
        for name, call in calls.items():
            start = clock()
            call()
            if device != "cpu":
                torch.cuda.synchronize()
            best[name] = min(best[name], clock() - start)
        rounds += 1
    return best


def in_batches(call: Triplet, images: Images, size: int) -> Callable[[], Any]:
    pieces = list(zip(*(each.split(size) for each in images), strict=True))
    return lambda: [call(*piece) for piece in pieces]


def twice(pair: Pair) -> Triplet:
    return lambda ref, x0, x1: (pair(ref, x0), pair(ref, x1))


def ours(name: str, images: Images, **settings: Any) -> Callable[[], tuple[Any, Any]]:
    """Call ours on all triplets; arrays on a processor, as from files."""
    found = distance(name, **settings)
    call: Triplet = getattr(found, "triplet", None) or twice(found)
    given = images if images[0].is_cuda else tuple(each.numpy() for each in images)
    return lambda: call(*given)


def distances(pair: Any) -> Batch:
    return torch.cat([torch.as_tensor(d).double().cpu() for d in pair])


def error(values: Batch, expected: Batch) -> float:
    return float((values - expected).abs().max() / expected.abs().mean())


def compared(row: Row, device: str, seconds: float) -> None:
    count = row.triplets if device == "cpu" else LARGE.get(row.name, 4096)
    images = photographs(count, row.side, device)
    faster = ("tf32",) if device != "cpu" and row.name.startswith(("lpips", "dists")) else ()
    calls: dict[str, Any] = {"twoafc": ours(row.name, images)}
    calls |= {f"twoafc, {name}": ours(row.name, images, precision=name) for name in faster}
    values = {label: distances(call()) for label, call in calls.items()}
    sizes = (4, 16, 64) if device == "cpu" else (512, 1024, 4096)
    for label, make in row.peers.items():
        try:
            call = twice(make())
            values[label] = distances(call(*images))
        except Exception as reason:  # a package may be absent, or fail in its own way
            print(f"{'':23s}{label:20s}{'absent':>12s}: {type(reason).__name__}: {str(reason).splitlines()[0]}")
            continue
        calls |= {(label, size): in_batches(call, images, size) for size in sizes if size <= max(count, 4)}
    rates = {label: count / best for label, best in race(calls, device, seconds).items()}
    for label, found in values.items():
        theirs = max(rate for name, rate in rates.items() if label in (name, name[0]))
        ratios = [rates[name] / theirs for name in ("twoafc", *(f"twoafc, {name}" for name in faster))]
        shown = "" if label.startswith("twoafc") else "".join(f"{ratio:8.2f}" for ratio in ratios)
        far = f"{error(found, values['twoafc']):9.0e}" if label != "twoafc" else ""
        head = f"{row.name:16s}{row.side:5d}" if label == "twoafc" else ""
        print(f"{head:23s}{label:20s}{theirs:12,.0f}{shown:18s}{far}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each contender")
    parser.add_argument("--only", nargs="*", default=[row.name for row in ROWS])
    options = parser.parse_args([] if arguments is None else arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # Strict single precision for all, unless said: torch lets convolutions have less by itself.
    torch.backends.cudnn.allow_tf32 = False
    where = torch.cuda.get_device_name() if options.device != "cpu" else f"one core of {platform.machine()}"
    print(f"{where}, torch {torch.__version__}; ratio: ours to theirs, on a GPU in strict fp32 and with TF32")
    print(f"{'distance':16s}{'side':>5s}  {'':20s}{'triplets/s':>12s}{'   ratio':18s}{'difference':>9s}")
    with torch.no_grad():
        for row in ROWS:
            if row.name in options.only:
                compared(row, options.device, options.seconds)
    if peers.DECLARED:
        print("torchvision's compiled operators do not load beside this torch; its networks were used without them")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])

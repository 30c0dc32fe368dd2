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
import contextlib
import io
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from twoafc import distance
from twoafc.distances.structural import LUMA
from twoafc.distances.weights import tensors

Batch = torch.Tensor
Pair = Callable[[Batch, Batch], Any]
Triplet = Callable[[Batch, Batch, Batch], Any]
Images = tuple[Batch, Batch, Batch]
LEAST_ROUNDS = 3
NETWORKS = {"alex": "alexnet", "vgg": "vgg16", "squeeze": "squeezenet1_1"}


# Other packages: each function makes (ref, x) -> (B,); networks get our weights.


def with_weights(model: Any, name: str) -> Any:
    """Put published tensors into a model whose layers have their numbers in torchvision's network."""
    places = dict(model.named_parameters())
    for key, values in tensors(name).items():
        number = key.removeprefix("features.")
        (place,) = (place for place in places if place.endswith(f".{number}") and not place.startswith("lin"))
        places[place].data = values.clone()
    return model


def lpips_package(net: str) -> Pair:
    import lpips

    with contextlib.redirect_stdout(io.StringIO()):
        model = with_weights(lpips.LPIPS(net=net, pnet_rand=True, verbose=False).eval(), NETWORKS[net])
    return lambda ref, x: model.to(ref.device)(ref, x, normalize=True).flatten()


def torchmetrics_lpips(net: str) -> Pair:
    from torchmetrics.functional.image.lpips import _lpips_update, _NoTrainLpips

    model = with_weights(_NoTrainLpips(net=net, pnet_rand=True), NETWORKS[net])
    return lambda ref, x: _lpips_update(x, ref, model.to(ref.device), normalize=True)


def torchmetrics_ssim() -> Pair:
    from torchmetrics.functional.image import structural_similarity_index_measure as similarity

    return lambda ref, x: 1 - similarity(x, ref, data_range=1.0, reduction="none")


def dists_package() -> Pair:
    from DISTS_pytorch import DISTS
    from torchvision import models

    # Its constructor would fetch weights, and read its own from a place that depends on how it was installed.
    build = models.vgg16
    with patch.object(models, "vgg16", lambda pretrained: build(weights=None)):
        model = DISTS(load_weights=False)
    for name, values in tensors("dists_alpha_beta").items():
        getattr(model, name).data = values
    return with_weights(model, "vgg16").eval()


def msssim_package(name: str) -> Pair:
    import pytorch_msssim

    similarity = getattr(pytorch_msssim, name)
    return lambda ref, x: 1 - similarity(x, ref, data_range=1, size_average=False)


def plenoptic_ssim() -> Pair:
    from plenoptic.metric import ssim

    return lambda ref, x: 1 - ssim(ref, x).mean(dim=1)


def plenoptic_nlpd() -> Pair:
    from plenoptic.metric import nlpd

    # It is given the luma, at its own expense as at ours.
    return lambda ref, x: nlpd(*((images * luma_weights(images)).sum(1, keepdim=True) for images in (ref, x)))


def luma_weights(images: Batch) -> Batch:
    return images.new_tensor(LUMA).view(1, 3, 1, 1)


def piq_ssim() -> Pair:
    import piq

    return lambda ref, x: 1 - piq.ssim(x, ref, data_range=1.0, reduction="none")


class Row(NamedTuple):
    """A distance of ours, its peers, the size of the images, and how many triplets."""

    name: str
    peers: dict[str, Callable[[], Pair]]
    side: int = 64
    triplets: int = 64


SSIM = {
    "pytorch_msssim": partial(msssim_package, "ssim"),
    "plenoptic": plenoptic_ssim,
    "piq": piq_ssim,
    "torchmetrics": torchmetrics_ssim,
}
ROWS = (
    Row("euclidean", {}, triplets=512),
    Row("ssim", SSIM),
    Row("ms_ssim_3", {}),
    Row("ms_ssim", {"pytorch_msssim": partial(msssim_package, "ms_ssim")}, side=176, triplets=8),
    Row("nlpd", {"plenoptic": plenoptic_nlpd}),
    *(
        Row(
            f"lpips_{net}",
            {"lpips": partial(lpips_package, net), "torchmetrics": partial(torchmetrics_lpips, net)},
            triplets=8 if net == "vgg" else 64,
        )
        for net in ("alex", "squeeze", "vgg")
    ),
    Row("dists", {"DISTS_pytorch": dists_package}, triplets=8),
)
LARGE = {"euclidean": 8192, "lpips_vgg": 1024, "dists": 512, "ms_ssim": 256}
"""Triplets at once on a GPU; 4096 for the others."""


# The race


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


def main(options: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each contender")
    parser.add_argument("--only", nargs="*", default=[row.name for row in ROWS])
    given = parser.parse_args(options)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # Strict single precision for all, unless said: torch lets convolutions have less by itself.
    torch.backends.cudnn.allow_tf32 = False
    where = torch.cuda.get_device_name() if given.device != "cpu" else f"one core of {platform.machine()}"
    print(f"{where}, torch {torch.__version__}; ratio: ours to theirs, on a GPU in strict fp32 and with TF32")
    print(f"{'distance':16s}{'side':>5s}  {'':20s}{'triplets/s':>12s}{'   ratio':18s}{'difference':>9s}")
    with torch.no_grad():
        for row in ROWS:
            if row.name in given.only:
                compared(row, given.device, given.seconds)

"""Other packages' distances for the benchmark: each function makes ``(ref, x) -> (B,)``; networks get our weights."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

from twoafc.distances.structural import LUMA
from twoafc.distances.weights import tensors

Batch = torch.Tensor
Pair = Callable[[Batch, Batch], Batch]
NETWORKS = {"alex": "alexnet", "vgg": "vgg16", "squeeze": "squeezenet1_1"}
DECLARED: list[Any] = []
"""Holds operators that were declared for a torchvision whose compiled part does not load."""


def lpips_package(net: str) -> Pair:
    trunk()
    import lpips

    with contextlib.redirect_stdout(io.StringIO()):
        model = lpips.LPIPS(net=net, pnet_rand=True, verbose=False).eval()
    return partial(lpips_pair, with_weights(model, NETWORKS[net]))


def lpips_pair(model: Any, ref: Batch, x: Batch) -> Batch:
    return model.to(ref.device)(ref, x, normalize=True).flatten()


def torchmetrics_lpips(net: str) -> Pair:
    trunk()
    from torchmetrics.functional.image.lpips import _lpips_update, _NoTrainLpips

    model = with_weights(_NoTrainLpips(net=net, pnet_rand=True), NETWORKS[net])
    return lambda ref, x: _lpips_update(x, ref, model.to(ref.device), normalize=True)


def torchmetrics_ssim() -> Pair:
    with contextlib.suppress(ModuleNotFoundError):  # it does without torchvision, but not with a broken one
        trunk()
    from torchmetrics.functional.image import structural_similarity_index_measure as similarity

    return lambda ref, x: 1 - similarity(x, ref, data_range=1.0, reduction="none")


def dists_package() -> Pair:
    models = trunk()
    from DISTS_pytorch import DISTS

    model, build = DISTS.__new__(DISTS), models.vgg16
    # Its constructor would fetch weights, and read its own from a place that depends on how it was installed.
    models.vgg16 = lambda pretrained: build(weights=None)
    try:
        DISTS.__init__(model, load_weights=False)
    finally:
        models.vgg16 = build
    for name, values in tensors("dists_alpha_beta").items():
        getattr(model, name).data = values
    return with_weights(model, "vgg16").eval()


def msssim_package(name: str) -> Pair:
    import pytorch_msssim

    similarity = getattr(pytorch_msssim, name)
    return lambda ref, x: 1 - similarity(x, ref, data_range=1, size_average=False)


def plenoptic(name: str) -> Pair:
    import plenoptic.metric

    found = getattr(plenoptic.metric, name)
    if name == "nlpd":
        # It is given the luma, at its own expense as at ours.
        return lambda ref, x: found(*((images * luma_weights(images)).sum(1, keepdim=True) for images in (ref, x)))
    return lambda ref, x: 1 - found(ref, x).mean(dim=1)


def piq(name: str) -> Pair:
    trunk()
    import piq

    return lambda ref, x: 1 - getattr(piq, name)(x, ref, data_range=1.0, reduction="none")


def luma_weights(images: Batch) -> Batch:
    return images.new_tensor(LUMA).view(1, 3, 1, 1)


@cache
def trunk() -> Any:
    """Import torchvision; where its compiled part does not fit this torch, without it, as models do not need it."""
    for _ in range(2):
        try:
            import torchvision.models

            return torchvision.models
        except RuntimeError:
            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            DECLARED.append(library)
    raise ImportError("torchvision")


def with_weights(model: Any, name: str) -> Any:
    """Put published tensors into a model whose layers have their numbers in torchvision's network."""
    places = dict(model.named_parameters())
    for key, values in tensors(name).items():
        number = key.removeprefix("features.")
        (place,) = (place for place in places if place.endswith(f".{number}") and not place.startswith("lin"))
        places[place].data = values.clone()
    return model

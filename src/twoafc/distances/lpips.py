"""LPIPS, the learned perceptual image patch similarity (Zhang, Isola, Efros, Shechtman and Wang, 2018), version 0.1.

Features of a network trained on ImageNet, each pixel's made a unit vector, differ by so much in each channel; people's
votes have said how much each channel weighs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from twoafc.distances.backbones import Backbone, alexnet, squeezenet, vgg16
from twoafc.distances.batches import Batch
from twoafc.distances.deep import ELSEWHERE, PIECE, Deep, Precision
from twoafc.distances.weights import Paths, Tensors, published, tensors
from twoafc.errors import require

# Mean and spread of ImageNet's channels on the scale from -1 to 1.
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
TINY = 1e-10
# For each distance its network, that network's weights, and the smallest side of an image that all stages survive.
BACKBONES: dict[str, tuple[Backbone, str, int]] = {
    "lpips_alex": (alexnet, "alexnet", 31),
    "lpips_vgg": (vgg16, "vgg16", 16),
    "lpips_squeeze": (squeezenet, "squeezenet1_1", 17),
}
# How many pixels go best through it at once, on a processor and on a GPU: the first stages of AlexNet and SqueezeNet
# are small, and in strict single precision cuDNN takes a slow way with AlexNet's where there are many.
PIECES: dict[tuple[str, Precision], tuple[int, int]] = {
    ("lpips_alex", "fp32"): (8 * PIECE, ELSEWHERE // 2),
    ("lpips_alex", "tf32"): (8 * PIECE, 8 * ELSEWHERE),
    ("lpips_squeeze", "fp32"): (PIECE, 8 * ELSEWHERE),
    ("lpips_squeeze", "tf32"): (PIECE, 8 * ELSEWHERE),
}


def lpips_alex(*, weights: Paths = None, device: str = "cpu", precision: Precision = "fp32") -> Deep:
    """Make the LPIPS distance on AlexNet, for images of at least 31 x 31 pixels.

    Parameters
    ----------
    weights : path or sequence of paths, optional
        Where to look for the weights, and nowhere else; see `twoafc.distances.weights.tensors`.
    device, precision : str
        See `twoafc.distances.deep.Deep`.
    """
    return _lpips("lpips_alex", weights, device, precision)


def lpips_vgg(*, weights: Paths = None, device: str = "cpu", precision: Precision = "fp32") -> Deep:
    """Make the LPIPS distance on VGG16, for images of at least 16 x 16 pixels; parameters as for `lpips_alex`."""
    return _lpips("lpips_vgg", weights, device, precision)


def lpips_squeeze(*, weights: Paths = None, device: str = "cpu", precision: Precision = "fp32") -> Deep:
    """Make the LPIPS distance on SqueezeNet 1.1, for images of at least 17 x 17 pixels; as for `lpips_alex`."""
    return _lpips("lpips_squeeze", weights, device, precision)


def layers(parameters: Tensors, images: Batch, *, backbone: Backbone) -> Iterator[Batch]:
    """Give the backbone's stages."""
    torch = require("torch", extra="torch")
    shift, scale = (images.new_tensor(values).view(1, 3, 1, 1) for values in (SHIFT, SCALE))
    # (2 images - 1 - shift) / scale, in one pass.
    yield from backbone(parameters, torch.addcmul(-(1 + shift) / scale, images, 2 / scale))


def compare(parameters: Tensors, number: int, a: Batch, b: Batch) -> Batch:
    """Squared differences of unit vectors, weighted over channels and averaged over pixels: shape (B,).

    Memory is the limit here. Instead of both vectors b alone is scaled, to the length of a, and what comes of it is
    divided by a's length squared; equal vectors still differ by exactly 0.
    """
    torch = require("torch", extra="torch")
    # Right to 2e-7 over channels, unlike over an image's pixels, and quicker than a sum of squares.
    length, other = (torch.linalg.vector_norm(stage, dim=1, keepdim=True) + TINY for stage in (a, b))
    # The difference and its square in one pass; then over channels, which lie side by side, and over pixels.
    squares = torch.nn.functional.mse_loss(a, b * (length / other), reduction="none").movedim(1, -1)
    pixels = squares.reshape(-1, squares.shape[-1]) @ parameters[f"lin{number}.model.1.weight"].flatten()
    return (pixels.view(len(a), -1) / length.flatten(1).square()).mean(dim=1)


def _lpips(name: str, weights: Paths, device: str, precision: Precision) -> Deep:
    backbone, file, least = BACKBONES[name]
    files = (file, f"{name}_head")
    parameters = {key: tensor for file in files for key, tensor in tensors(file, weights).items()}
    digests = {file: published()[file].digest for file in files}
    stages = partial(layers, backbone=backbone)
    pieces = PIECES.get((name, precision), (PIECE, ELSEWHERE))
    return Deep(name, stages, compare, parameters, least, digests, device, precision, *pieces)

"""LPIPS, the learned perceptual image patch similarity (Zhang, Isola, Efros, Shechtman and Wang, 2018), version 0.1.

Features of a network trained on ImageNet are normalised to unit length at each pixel; their squared differences are
summed over channels with weights that were fitted to people's votes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.distances.batches import Batch
from twoafc.distances.deep import ELSEWHERE, PIECE, Compare, Deep, Layers, Precision, alexnet, squeezenet, vgg16
from twoafc.distances.weights import Paths, Tensors, digest, network_tensors
from twoafc.errors import DataError, require
from twoafc.files import read_archive

Made = TypeVar("Made", bound=Deep)
# Mean and spread of ImageNet's channels on the scale from -1 to 1.
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
TINY = 1e-10
# The network of each distance, and the smallest side of an image that reaches its last stage.
BACKBONES: dict[str, tuple[Layers, int]] = {
    "lpips_alex": (alexnet, 31),
    "lpips_vgg": (vgg16, 16),
    "lpips_squeeze": (squeezenet, 17),
}
# The fastest numbers of pixels at once, on a processor and on a GPU: the first stages of AlexNet and SqueezeNet are
# small, and in strict single precision cuDNN chooses a slow algorithm for AlexNet's where there are many.
PIECES: dict[tuple[str, Precision], tuple[int, int]] = {
    ("lpips_alex", "fp32"): (8 * PIECE, ELSEWHERE // 2),
    ("lpips_alex", "tf32"): (8 * PIECE, 8 * ELSEWHERE),
    ("lpips_squeeze", "fp32"): (PIECE, 8 * ELSEWHERE),
    ("lpips_squeeze", "tf32"): (PIECE, 8 * ELSEWHERE),
}


def make(name: str, *, weights: Paths = None, device: str = "cpu", precision: Precision = "fp32") -> Deep:
    """Make LPIPS on one of the `BACKBONES`, or with the heads in a file NAME.npz that `twoafc fuse` has written.

    `weights` are the only places to look, see `weights.tensors`.
    """
    return _make(Deep, compare, name, weights, device, precision)


def _make(kind: type[Made], between: Compare, name: str, weights: Paths, device: str, precision: Precision) -> Made:
    own = name.endswith(".npz")
    network, parameters, digests = read_heads(name, weights) if own else (name, *network_tensors(name, weights))
    backbone, least = BACKBONES[network]
    pieces = PIECES.get((network, precision), (PIECE, ELSEWHERE))
    stages = partial(layers, backbone=backbone)
    return kind(Path(name).stem, stages, between, parameters, least, digests, device, precision, *pieces)


# --- heads ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Channels(Deep):
    """What the heads of LPIPS weigh: for each channel the mean over pixels of the squared difference, shape (B, C).

    The distance is the sum over channels of head times mean.
    """

    def joined(self, parts: list[Batch]) -> Batch:
        """Join the channels of all layers, side by side."""
        return require("torch", extra="torch").cat(parts, dim=-1)

    @property
    def width(self) -> tuple[int]:
        """Numbers for each pair of images."""
        return (sum(map(len, self.heads)),)

    @property
    def heads(self) -> list[FloatArray]:
        """The published heads, one array for each layer."""
        names = sorted(name for name in self.parameters if name.startswith("lin"))
        return [self.parameters[name].flatten().numpy().astype(np.float64) for name in names]


def lpips_channels(network: str, *, device: str = "cpu", precision: Precision = "fp32") -> Channels:
    """Make the function that gives the channels' means of an LPIPS network."""
    if network not in BACKBONES:
        raise ValueError(f"channels are those of {', '.join(BACKBONES)}; found {network!r}")
    return _make(Channels, compare_channels, network, None, device, precision)


def read_heads(path: str, weights: Paths) -> tuple[str, Tensors, dict[str, str]]:
    """Read heads of one's own: the network, its tensors with these heads, and the digests of both."""
    kind, settings, arrays = read_archive(path)
    if kind == "fused":
        raise DataError(f"{path} is a sum of functions of other distances; twoafc measure computes it on images")
    if kind != "heads":
        raise DataError(f"{path} is a model of P for one distance, not a distance; twoafc fuse makes distances")
    torch = require("torch", extra="torch")
    network: str = settings["network"]
    parameters, digests = network_tensors(network, weights)
    for name, expected in settings["weights"].items():
        if digests.get(name) != expected:
            raise DataError(f"{path} was fitted to another {name}: {expected}, now {digests.get(name, 'none')}")
    heads = {name: array for name, array in arrays.items() if name.startswith("lin")}
    if {name: array.shape for name, array in heads.items()} != {
        name: tuple(tensor.shape) for name, tensor in parameters.items() if name.startswith("lin")
    }:
        raise DataError(f"{path} has no heads of {network}; its arrays have other shapes")
    parameters |= {name: torch.from_numpy(array.copy()) for name, array in heads.items()}
    digests = {name: value for name, value in digests.items() if not name.endswith("_head")}
    own = digest(np.concatenate([heads[name].ravel() for name in sorted(heads)]))
    return network, parameters, {**digests, "heads": f"sha256 {own}"}


def layers(parameters: Tensors, images: Batch, *, backbone: Layers) -> Iterator[Batch]:
    """Yield the backbone's stages."""
    torch = require("torch", extra="torch")
    shift, scale = (images.new_tensor(values).view(1, 3, 1, 1) for values in (SHIFT, SCALE))
    # (2 images - 1 - shift) / scale, in one pass.
    yield from backbone(parameters, torch.addcmul(-(1 + shift) / scale, images, 2 / scale))


def compare(parameters: Tensors, number: int, a: Batch, b: Batch) -> Batch:
    """Squared differences of unit vectors, weighted over channels and averaged over pixels: shape (B,).

    The speed of memory is the limit here. Instead of scaling both vectors, b is scaled to the length of a, and the
    result divided by the squared length of a; equal vectors still differ by exactly 0.
    """
    torch = require("torch", extra="torch")
    # Over channels, unlike over an image's pixels, this norm is right to 2e-7, and faster than a sum of squares.
    length, other = (torch.linalg.vector_norm(stage, dim=1, keepdim=True) + TINY for stage in (a, b))
    # The difference and its square in one pass; then over channels, which lie side by side, and over pixels.
    squares = torch.nn.functional.mse_loss(a, b * (length / other), reduction="none").movedim(1, -1)
    pixels = squares.reshape(-1, squares.shape[-1]) @ parameters[f"lin{number}.model.1.weight"].flatten()
    return (pixels.view(len(a), -1) / length.flatten(1).square()).mean(dim=1)


def compare_channels(parameters: Tensors, number: int, a: Batch, b: Batch) -> Batch:
    """Squared differences of unit vectors, averaged over pixels: shape (B, channels); see `compare`."""
    torch = require("torch", extra="torch")
    length, other = (torch.linalg.vector_norm(stage, dim=1, keepdim=True) + TINY for stage in (a, b))
    squares = torch.nn.functional.mse_loss(a, b * (length / other), reduction="none")
    pixels = length.flatten(2).square().reciprocal()
    return (squares.flatten(2) * pixels).mean(dim=2)

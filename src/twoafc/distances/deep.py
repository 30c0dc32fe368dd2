"""Parts that LPIPS, DISTS and PIM share: batching through a network on torch, and the networks' convolutions.

Images pass through a network layer by layer, and the distances of the layers are summed. AlexNet, VGG16 and SqueezeNet
1.1 are written out as far as LPIPS and DISTS use them. Each takes torchvision's tensors, by their names there, and
images, and yields the outputs of its stages one by one, so that they need not all be kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from twoafc.distances.batches import Batch, require_pair
from twoafc.distances.weights import Tensors
from twoafc.errors import require

Precision = Literal["fp32", "tf32"]
Layers = Callable[[Tensors, Batch], Iterator[Batch]]
Compare = Callable[[Tensors, int, Batch, Batch], Batch]

# Pixels that go through a network at once: 4 triplets of 64 x 64, whose layers stay in a processor's cache; on other
# devices 512 triplets, 1.6 GB for a layer of 64 channels.
PIECE, ELSEWHERE = 4 * 3 * 64 * 64, 512 * 3 * 64 * 64

# The convolution of each stage of AlexNet, its stride and its padding; a pooling precedes two of them.
ALEXNET_STAGES = ((0, 4, 2), (3, 1, 2), (6, 1, 1), (8, 1, 1), (10, 1, 1))
ALEXNET_POOLED = (3, 6)
# The convolutions of each stage of VGG16; a pooling precedes every stage but the first.
VGG16_STAGES = ((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28))
# The fire modules of each stage of SqueezeNet; a pooling precedes modules 3, 6 and 9.
SQUEEZENET_STAGES = ((3, 4), (6, 7), (9,), (10,), (11,), (12,))
SQUEEZENET_POOLED = (3, 6, 9)


@dataclass(frozen=True, eq=False)
class Deep:
    """A distance between a network's responses to two images, in single precision.

    It is differentiable for tensors that require gradients.
    """

    name: str
    layers: Layers = field(repr=False)  #: (parameters, images) -> tensors of the layers, each (N, ...) for N images
    compare: Compare = field(repr=False)  #: (parameters, number of the layer, a, b) -> (B,), its part in the distance
    parameters: Tensors = field(repr=False)  #: on the CPU; copied to the device of the images
    least: int = field(repr=False)  #: the smallest height and width of images
    weights: Mapping[str, str] = field(repr=False)  #: the published files that the parameters equal, and their digests
    device: str = "cpu"  #: where numpy arrays are processed; tensors are processed where they are
    #: arithmetic of convolutions on a GPU: "tf32" is several times as fast, and rounds factors to 11 bits
    precision: Precision = "fp32"
    piece: int = field(default=PIECE, repr=False)  #: pixels that go through the network at once on a processor
    elsewhere: int = field(default=ELSEWHERE, repr=False)  #: the same on other devices; for speed and memory only
    _placed: dict[Any, Tensors] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.precision not in get_args(Precision):
            raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}; got {self.precision!r}")

    def __call__(self, ref: Batch, x: Batch) -> Batch:
        """Distance of each pair of images, (B, 3, H, W) in [0, 1] to (B,).

        At least 0; float64 for arrays, the type and device of the images for tensors.
        """
        return self._distances(ref, x)[0]

    def triplet(self, ref: Batch, x0: Batch, x1: Batch) -> tuple[Batch, Batch]:
        """Distances (d0, d1) of two images to one reference, which goes through the network once.

        The results are those of two calls of the distance.
        """
        d0, d1 = self._distances(ref, x0, x1)
        return d0, d1

    def _distances(self, *batches: Batch) -> list[Batch]:
        torch = require("torch", extra="torch")
        differentiable = torch.is_grad_enabled() and any(getattr(images, "requires_grad", False) for images in batches)
        ref, *others = batches
        require_pair(ref, *others, least=self.least)
        device = torch.device(self.device) if isinstance(ref, np.ndarray) else ref.device
        pixels = self.piece if device.type == "cpu" else self.elsewhere
        step = max(1, pixels // (ref.shape[2] * ref.shape[3] * len(batches)))
        pieces = []
        cudnn = torch.backends.cudnn
        # Torch's default on a GPU is TF32; the other settings stay.
        settings = {name: getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic")}
        arithmetic = cudnn.flags(**settings, allow_tf32=self.precision == "tf32")
        with torch.set_grad_enabled(differentiable), arithmetic:
            for start in range(0, len(ref), step):
                images = [_tensor(batch[start : start + step], device) for batch in (ref, *others)]
                pieces.append(self._piece(images))
        distances = torch.cat(pieces, dim=1) if pieces else torch.zeros(len(others), 0, device=device)
        if isinstance(ref, np.ndarray):
            return list(distances.cpu().numpy().astype(np.float64))
        return list(distances.to(ref.dtype))

    def _piece(self, images: list[Batch]) -> Batch:
        """Distances of the first batch to each of the others, shape (number of others, B)."""
        torch = require("torch", extra="torch")
        device = images[0].device
        if device not in self._placed:
            formats = {4: torch.channels_last}
            self._placed[device] = {
                name: tensor.to(device).contiguous(memory_format=formats.get(tensor.ndim, torch.contiguous_format))
                for name, tensor in self.parameters.items()
            }
        parameters = self._placed[device]
        # Convolutions are faster with the channels of a pixel side by side, on processors and on GPUs.
        together = torch.cat(images).contiguous(memory_format=torch.channels_last)
        parts = []
        for number, layer in enumerate(self.layers(parameters, together)):
            ref, *others = layer.chunk(len(images))
            parts.append(torch.stack([self.compare(parameters, number, ref, x) for x in others]))
        # Rounding, or a small number of draws, must not make a distance negative.
        return self.joined(parts).clip(min=0)

    def joined(self, parts: list[Batch]) -> Batch:
        """Combine the distances of the layers: their sum."""
        return sum(parts)


def alexnet(tensors: Tensors, images: Batch) -> Iterator[Batch]:
    """Yield AlexNet's five stages, from images of at least 31 x 31 pixels."""
    torch = require("torch", extra="torch")
    for layer, stride, padding in ALEXNET_STAGES:
        if layer in ALEXNET_POOLED:
            images = torch.max_pool2d(images, 3, 2)
        images = _layer(tensors, f"features.{layer}", images, stride=stride, padding=padding)
        yield images


def vgg16(tensors: Tensors, images: Batch, *, pool: Callable[[Batch], Batch] | None = None) -> Iterator[Batch]:
    """Yield VGG16's five stages, from images of at least 16 x 16 pixels; `pool` may replace its maximum pooling."""
    torch = require("torch", extra="torch")
    for stage, layers in enumerate(VGG16_STAGES):
        if stage:
            images = pool(images) if pool else torch.max_pool2d(images, 2)
        for layer in layers:
            images = _layer(tensors, f"features.{layer}", images, padding=1)
        yield images


def squeezenet(tensors: Tensors, images: Batch) -> Iterator[Batch]:
    """Yield the seven stages of SqueezeNet 1.1 that LPIPS uses, from images of at least 17 x 17 pixels."""
    torch = require("torch", extra="torch")
    images = _layer(tensors, "features.0", images, stride=2)
    yield images
    for modules in SQUEEZENET_STAGES:
        for module in modules:
            if module in SQUEEZENET_POOLED:
                images = torch.max_pool2d(images, 3, 2, ceil_mode=True)
            squeezed = _layer(tensors, f"features.{module}.squeeze", images)
            narrow = _layer(tensors, f"features.{module}.expand1x1", squeezed)
            wide = _layer(tensors, f"features.{module}.expand3x3", squeezed, padding=1)
            images = torch.cat((narrow, wide), dim=1)
        yield images


def convolve_relu(images: Batch, weight: Batch, bias: Batch, *, stride: int = 1, padding: int = 0) -> Batch:
    """Convolve, add a bias, and set negative values to 0."""
    torch = require("torch", extra="torch")
    if images.is_cuda and torch.version.cuda and torch.backends.cudnn.enabled and not torch.is_grad_enabled():
        # All in one pass over the memory: the same numbers, in two thirds of the time where memory is the limit.
        return torch.cudnn_convolution_relu(
            images, weight, bias, (stride, stride), (padding, padding), dilation=(1, 1), groups=1
        )
    return torch.conv2d(images, weight, bias, stride=stride, padding=padding).relu_()


def _layer(tensors: Tensors, name: str, images: Batch, *, stride: int = 1, padding: int = 0) -> Batch:
    return convolve_relu(images, tensors[f"{name}.weight"], tensors[f"{name}.bias"], stride=stride, padding=padding)


def _tensor(images: Batch, device: Any) -> Batch:
    torch = require("torch", extra="torch")
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32))
    return images.to(device=device, dtype=torch.float32)

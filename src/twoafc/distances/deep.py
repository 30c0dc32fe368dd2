"""What LPIPS, DISTS and PIM share: images go through a network layer by layer, and the layers' distances are summed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from twoafc.distances.batches import Batch, require_pair
from twoafc.distances.weights import Tensors
from twoafc.errors import require

Precision = Literal["fp32", "tf32"]
Layers = Callable[[Tensors, Batch], Iterator[Batch]]
Compare = Callable[[Tensors, int, Batch, Batch], Batch]

# Images go through in pieces of so many pixels: 4 triplets of 64 x 64, whose layers stay in a processor's cache. Other
# devices take 512 triplets, 1.6 GB for a layer of 64 channels.
PIECE, ELSEWHERE = 4 * 3 * 64 * 64, 512 * 3 * 64 * 64


@dataclass(frozen=True, eq=False)
class Deep:
    """A distance between what a network makes of two images, without gradients, in single precision.

    Parameters
    ----------
    name : str
        The distance's name.
    layers : callable
        ``(parameters, images) -> iterator of tensors``, each (N, ...) for N images; only one is kept at a time.
    compare : callable
        ``(parameters, number of the layer, a, b) -> (B,)``, the layer's part in the distance.
    parameters : dict of str to tensor
        On the CPU; they follow the images to other devices.
    least : int
        The smallest height and width of images.
    weights : mapping of str to str
        The published files that the parameters equal, and their digests.
    device : str
        Where numpy arrays are worked on; tensors are worked on where they are.
    precision : {"fp32", "tf32"}
        Arithmetic of convolutions on a GPU: ``"tf32"`` is several times as fast, and rounds factors to 11 bits.
    piece, elsewhere : int
        Pixels that go through the network at once, on a processor and on other devices; speed and memory alone depend
        on it.
    """

    name: str
    layers: Layers = field(repr=False)
    compare: Compare = field(repr=False)
    parameters: Tensors = field(repr=False)
    least: int = field(repr=False)
    weights: Mapping[str, str] = field(repr=False)
    device: str = "cpu"
    precision: Precision = "fp32"
    piece: int = field(default=PIECE, repr=False)
    elsewhere: int = field(default=ELSEWHERE, repr=False)
    _placed: dict[Any, Tensors] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.precision not in get_args(Precision):
            raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}; got {self.precision!r}")

    def __call__(self, ref: Batch, x: Batch) -> Batch:
        """Distance of each pair of images.

        Parameters
        ----------
        ref, x : array or tensor of float, shape (B, 3, H, W)
            Images in [0, 1].

        Returns
        -------
        array or tensor, shape (B,)
            At least 0; float64 for arrays, for tensors of their type and on their device.
        """
        return self._distances(ref, x)[0]

    def triplet(self, ref: Batch, x0: Batch, x1: Batch) -> tuple[Batch, Batch]:
        """Distances d0 and d1 of two images to one reference, which goes through the network once.

        Parameters
        ----------
        ref, x0, x1 : array or tensor of float, shape (B, 3, H, W)
            Images in [0, 1].

        Returns
        -------
        pair of array or tensor, each of shape (B,)
            As from two calls of the distance.
        """
        d0, d1 = self._distances(ref, x0, x1)
        return d0, d1

    def _distances(self, *batches: Batch) -> list[Batch]:
        torch = require("torch", extra="torch")
        ref, *others = (images.detach() if hasattr(images, "detach") else images for images in batches)
        require_pair(ref, *others, least=self.least)
        device = torch.device(self.device) if isinstance(ref, np.ndarray) else ref.device
        pixels = self.piece if device.type == "cpu" else self.elsewhere
        step = max(1, pixels // (ref.shape[2] * ref.shape[3] * len(batches)))
        pieces = []
        with torch.no_grad(), _arithmetic(self.precision):
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
        parameters = self._at(images[0].device)
        # With the channels of a pixel side by side the convolutions are the faster ones, on processors and on GPUs.
        together = torch.cat(images).contiguous(memory_format=torch.channels_last)
        total: Batch = 0.0
        for number, layer in enumerate(self.layers(parameters, together)):
            ref, *others = layer.chunk(len(images))
            total = total + torch.stack([self.compare(parameters, number, ref, x) for x in others])
        # Rounding, or a small number of draws, must not make a distance negative.
        return total.clip(min=0)

    def _at(self, device: Any) -> Tensors:
        """Give the parameters on a device, where they stay."""
        torch = require("torch", extra="torch")
        if device not in self._placed:
            formats = {4: torch.channels_last}
            self._placed[device] = {
                name: tensor.to(device).contiguous(memory_format=formats.get(tensor.ndim, torch.contiguous_format))
                for name, tensor in self.parameters.items()
            }
        return self._placed[device]


def _tensor(images: Batch, device: Any) -> Batch:
    torch = require("torch", extra="torch")
    if isinstance(images, np.ndarray):
        images = torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32))
    return images.to(device=device, dtype=torch.float32)


def _arithmetic(precision: Precision) -> AbstractContextManager[None]:
    """Set the arithmetic of a GPU's convolutions for a while; torch's own default is the faster one."""
    torch = require("torch", extra="torch")
    cudnn = torch.backends.cudnn
    flags: AbstractContextManager[None] = cudnn.flags(
        enabled=cudnn.enabled,
        benchmark=cudnn.benchmark,
        deterministic=cudnn.deterministic,
        allow_tf32=precision == "tf32",
    )
    return flags

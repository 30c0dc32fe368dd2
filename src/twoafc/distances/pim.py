"""PIM, the perceptual information metric (Bhardwaj, Fischer, Ballé and Chinen, 2020), on torch.

Each band of a steerable pyramid goes through a small network that gives, at every pixel, a distribution over ten hidden
numbers; two images are as far apart as these distributions. PIM-1 has one Gaussian at each pixel, PIM-5 a mixture of
five, whose divergence can only be estimated from random draws.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from twoafc.distances import steerable
from twoafc.distances.backbones import rectified
from twoafc.distances.batches import Batch
from twoafc.distances.deep import Compare, Deep, Layers, Precision
from twoafc.distances.mixtures import Mixture, divergence
from twoafc.distances.pim_archive import Architecture, read, require_shapes
from twoafc.distances.weights import Paths, Tensors, archive, digest, published
from twoafc.errors import require

DRAWS = 8
LEAST = 8


def pim_1(*, weights: Paths = None, device: str = "cpu", precision: Precision = "fp32") -> Deep:
    """Make the distance PIM-1, for images of at least 8 x 8 pixels: the mean squared difference of hidden means.

    Parameters
    ----------
    weights : path or sequence of paths, optional
        Where to look for the published archive, and nowhere else; see `twoafc.distances.weights.archive`.
    device, precision : str
        See `twoafc.distances.deep.Deep`.
    """
    architecture = Architecture(mixtures=1)
    parts = _parts(architecture)
    parameters = tensors(read(archive("pim_1", weights), "pim-1", architecture))
    digests = {"pim_1": published()["pim_1"].digest}
    return Deep("pim_1", *parts, parameters, LEAST, digests, device, precision)


def pim_5(
    *, weights: Paths = None, device: str = "cpu", precision: Precision = "fp32", draws: int = DRAWS, seed: int = 0
) -> Deep:
    """Make the distance PIM-5, for images of at least 8 x 8 pixels: a divergence estimated from seeded random draws.

    Parameters
    ----------
    weights : path or sequence of paths, optional
        Where to look for the published archive, and nowhere else; see `twoafc.distances.weights.archive`.
    device, precision : str
        See `twoafc.distances.deep.Deep`.
    draws : int
        Number of draws at each pixel, even: they come in pairs with opposite noise.
    seed : int
        The same seed gives the same noise to all images, in whatever batch.
    """
    architecture = Architecture(mixtures=5)
    parts = _parts(architecture, draws=draws, seed=seed)
    parameters = tensors(read(archive("pim_5", weights), "pim-5", architecture))
    digests = {"pim_5": published()["pim_5"].digest}
    return Deep("pim_5", *parts, parameters, LEAST, digests, device, precision)


def of_variables(
    variables: Mapping[str, NDArray[np.float32]],
    architecture: Architecture,
    *,
    device: str = "cpu",
    precision: Precision = "fp32",
    draws: int = DRAWS,
    seed: int = 0,
) -> Deep:
    """Make a distance of PIM's form from any variables, under a name that says so: it is not PIM.

    For tests, for timings, and for networks of one's own; parameters as for `pim_5`.
    """
    require_shapes(variables, architecture)
    lines = (f"{name} {digest(values)}\n" for name, values in sorted(variables.items()))
    digests = {"given variables": f"sha256 {hashlib.sha256(''.join(lines).encode()).hexdigest()}"}
    parts = _parts(architecture, draws=draws, seed=seed)
    name = f"pim_{architecture.mixtures} of given variables"
    return Deep(name, *parts, tensors(variables), LEAST, digests, device, precision)


def tensors(variables: Mapping[str, NDArray[np.float32]]) -> Tensors:
    """Turn TensorFlow's variables into torch's layout, dense layers into convolutions; add the pyramid's filters."""
    torch = require("torch", extra="torch")
    found = steerable.filters()
    for name, values in variables.items():
        if name.endswith("/kernel"):
            kernel = values if values.ndim == 4 else values[None, None]
            values = np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))
        found[name] = torch.from_numpy(np.array(values, dtype=np.float32))
    return found


def layers(parameters: Tensors, images: Batch, *, architecture: Architecture) -> Iterator[Batch]:
    """Give each band's means, shape (N, mixtures x latent, h, w), and after them the mixtures' logits if any."""
    torch = require("torch", extra="torch")
    last = len(architecture.filters) - 1
    for number, band in enumerate(steerable.pyramid(parameters, images, architecture.levels)):
        network, encoder = f"frontend/cnns/{number}/layer_with_weights-", f"marginal_encoder/encoders/{number}"
        for layer in range(last):
            band = rectified(band, *_layer(parameters, f"{network}{layer}"), padding=2)
        band = torch.conv2d(band, *_layer(parameters, f"{network}{last}"), padding=2)
        means = mixed = band
        for layer in range(2):
            means = rectified(means, *_layer(parameters, f"{encoder}/base/{layer}"))
        if architecture.mixtures > 1:
            for layer in range(2):
                mixed = rectified(mixed, *_layer(parameters, f"{encoder}/mix/{layer}"))
            means = torch.cat((means, torch.conv2d(mixed, *_layer(parameters, f"{encoder}/logit_layer"))), dim=1)
        yield means


def _layer(parameters: Tensors, name: str) -> tuple[Batch, Batch]:
    return parameters[f"{name}/kernel"], parameters[f"{name}/bias"]


def compare_means(parameters: Tensors, number: int, a: Batch, b: Batch, *, bands: int) -> Batch:
    """Mean squared difference of a band's means, over the number of bands: shape (B,)."""
    return ((a - b) ** 2).mean(axis=(1, 2, 3)) / bands


def compare_mixtures(
    parameters: Tensors, number: int, a: Batch, b: Batch, *, bands: int, mixtures: int, draws: int, seed: int
) -> Batch:
    """Estimate the divergence of a band's mixtures, over the number of bands: shape (B,)."""
    pair = (mixture(layer, mixtures) for layer in (a, b))
    return divergence(*pair, draws=draws, seed=[seed, number]) / bands


def mixture(layer: Batch, mixtures: int) -> Mixture:
    """Read a band's layer as a mixture at each pixel."""
    count, channels, height, width = layer.shape
    means = layer[:, : channels - mixtures].reshape(count, mixtures, -1, height, width)
    return Mixture(means, layer[:, channels - mixtures :])


def _parts(architecture: Architecture, *, draws: int = DRAWS, seed: int = 0) -> tuple[Layers, Compare]:
    """Give the two functions that a deep distance is made of."""
    require("torch", extra="torch")
    if draws < 2 or draws % 2:
        raise ValueError(f"draws must be even and at least 2; got {draws}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0; got {seed}")
    bands, mixtures = architecture.bands, architecture.mixtures
    compare: Compare = partial(compare_means, bands=bands)
    if mixtures > 1:
        compare = partial(compare_mixtures, bands=bands, mixtures=mixtures, draws=draws, seed=seed)
    return partial(layers, architecture=architecture), compare

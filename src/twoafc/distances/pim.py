"""PIM, the perceptual information metric (Bhardwaj, Fischer, Ballé and Chinen, 2020), on torch.

Each band of a steerable pyramid (Simoncelli and Freeman, 1995) goes through a small network that gives, at every pixel,
a distribution over ten hidden numbers; the distance of two images is that of these distributions. PIM-1 has one
Gaussian at each pixel, PIM-5 a mixture of five, whose divergence is estimated from random draws.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoafc.distances.batches import Batch
from twoafc.distances.deep import Compare, Deep, Layers, Precision, convolve_relu
from twoafc.distances.weights import Paths, Tensors, archive, published
from twoafc.errors import DataError, require

Variables = Mapping[str, NDArray[np.float32]]
Fields = dict[int, list[Any]]

DRAWS = 8
LEAST = 8
KERNEL = 5
FILTERS = ("hi0filt", "lo0filt", "bfilt0", "bfilt1", "lofilt")
# Settings that the shapes of variables do not show, as the published config.json names them.
SETTINGS = {"multiscale": "Steerable", "steerable_filter_type": 1, "cnn": "Conv", "padding": "same"}
# Of a TensorFlow checkpoint: bytes at the end of its index, the number of the type float32, the end of names.
FOOTER, FLOAT32, SUFFIX = 48, 1, "/.ATTRIBUTES/VARIABLE_VALUE"


@dataclass(frozen=True)
class Architecture:
    """The size of a PIM network; by default that of the published ones."""

    mixtures: int = 1  # Gaussians at each pixel: 1 for PIM-1, 5 for PIM-5
    levels: int = 3  # of the steerable pyramid, which has 2 levels + 2 bands
    filters: tuple[int, ...] = (64, 64, 64, 3)  # channels after each convolution of a band's network
    latent: int = 10  # hidden numbers at each pixel

    @property
    def bands(self) -> int:
        """Number of bands of the pyramid."""
        return 2 * self.levels + 2

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the variables that a distance needs.

        Examples
        --------
        >>> len(Architecture().shapes()), len(Architecture(mixtures=5).shapes())
        (96, 144)
        >>> Architecture(mixtures=5).shapes()["marginal_encoder/encoders/7/base/1/kernel"]
        (50, 50)
        """
        last, means, mixtures = self.filters[-1], self.latent * self.mixtures, self.mixtures
        dense = [("base/0", last, means), ("base/1", means, means)]
        if mixtures > 1:
            dense += [("mix/0", last, mixtures), ("mix/1", mixtures, mixtures), ("logit_layer", mixtures, mixtures)]
        shapes: dict[str, tuple[int, ...]] = {}
        for band in range(self.bands):
            for layer, (before, after) in enumerate(zip((3, *self.filters), self.filters, strict=False)):
                name = f"frontend/cnns/{band}/layer_with_weights-{layer}"
                shapes |= {f"{name}/kernel": (KERNEL, KERNEL, before, after), f"{name}/bias": (after,)}
            for name, before, after in dense:
                name = f"marginal_encoder/encoders/{band}/{name}"
                shapes |= {f"{name}/kernel": (before, after), f"{name}/bias": (after,)}
        return shapes


def make(
    name: str, *, weights: Paths = None, device: str = "cpu", precision: Precision = "fp32", **sampling: int
) -> Deep:
    """Make pim_1, the mean squared difference of hidden means, or pim_5, a divergence estimated from random draws.

    For images of at least 8 x 8 pixels. `weights` are the only places to look for the published archive; `sampling` of
    pim_5 are `draws` at each pixel, which come in pairs with opposite noise, and `seed`: the same one gives the same
    noise to all images, in whatever batch.
    """
    architecture = Architecture(mixtures={"pim_1": 1, "pim_5": 5}[name])
    if sampling and architecture.mixtures == 1:
        raise TypeError(f"{name} has no such settings; got {', '.join(sampling)}")
    functions = network(architecture, **sampling)
    parameters = tensors(read_variables(archive(name, weights), name.replace("_", "-"), architecture))
    return Deep(name, *functions, parameters, LEAST, {name: published()[name].digest}, device, precision)


def network(architecture: Architecture, *, draws: int = DRAWS, seed: int = 0) -> tuple[Layers, Compare]:
    """Return the two functions that a deep distance consists of."""
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


# The published archive: a zip with a TensorFlow checkpoint


def read_variables(content: bytes, name: str, architecture: Architecture) -> dict[str, NDArray[np.float32]]:
    """Read the variables of a zip file in the published layout: ``NAME/config.json``, ``NAME/weights.index``, data.

    The caller has compared its digest with the published one. The name of the folder in it is such as ``"pim-1"``.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        config = json.loads(opened.read(f"{name}/config.json"))
        index = opened.read(f"{name}/weights.index")
        shards = [opened.read(member) for member in sorted(opened.namelist()) if "/weights.data-" in member]
    for key, expected in SETTINGS.items():
        if str(config.get(key, expected)).lower() != str(expected).lower():
            raise DataError(f"the archive of {name} must have {key} {expected!r}; it has {config[key]!r}")
    variables = read_checkpoint(index, shards, architecture.shapes())
    require_shapes(variables, architecture)
    return variables


def read_checkpoint(index: bytes, shards: Sequence[bytes], wanted: Container[str]) -> dict[str, NDArray[np.float32]]:
    """Read those float32 variables that are wanted of a TensorFlow checkpoint, without TensorFlow.

    The index is a sorted table in LevelDB's format, from a variable's name to a protocol buffer with its type, shape
    and position in a data file. `index` and `shards` are the contents of ``*.index`` and of ``*.data-0000i-of-0000n``,
    in order. Checksums are not compared: the digest of the whole archive has been.
    """
    footer = io.BytesIO(index[-FOOTER:])
    _, _, offset, size = (_varint(footer) for _ in range(4))
    variables = {}
    for _, handle in _entries(index, offset, size):
        position = io.BytesIO(handle)
        for key, value in _entries(index, _varint(position), _varint(position)):
            name, entry = key.decode().removesuffix(SUFFIX), _fields(value)
            if name in wanted and _number(entry, 1) == FLOAT32:
                variables[name] = _variable(entry, shards)
    return variables


def _variable(entry: Fields, shards: Sequence[bytes]) -> NDArray[np.float32]:
    shard, offset, size = (_number(entry, field) for field in (3, 4, 5))
    # Field 2 is the shape, whose fields 2 are the sides, whose field 1 is the length.
    shape = [_number(_fields(side), 1) for message in entry.get(2, []) for side in _fields(message).get(2, [])]
    return np.frombuffer(shards[shard], "<f4", size // 4, offset).astype(np.float32).reshape(shape)


def _entries(index: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block; a key is stored without the part that it shares with the one before."""
    block = index[offset : offset + size]
    end = size - 4 * (int.from_bytes(block[-4:], "little") + 1)
    stream, key = io.BytesIO(block), b""
    while stream.tell() < end:
        shared, rest, length = (_varint(stream) for _ in range(3))
        key = key[:shared] + stream.read(rest)
        yield key, stream.read(length)


def _fields(message: bytes) -> Fields:
    """Return the values of a protocol buffer's fields, by their numbers."""
    stream, fields = io.BytesIO(message), Fields()
    while stream.tell() < len(message):
        number, kind = divmod(_varint(stream), 8)
        size = {1: 8, 5: 4}.get(kind) or _varint(stream)
        fields.setdefault(number, []).append(size if kind == 0 else stream.read(size))
    return fields


def _number(fields: Fields, field: int) -> int:
    """Return a field that is a number; 0 is not stored."""
    return int(fields.get(field, [0])[-1])


def _varint(stream: io.BytesIO) -> int:
    """Read a whole number stored in groups of seven bits, the lowest first."""
    value = shift = 0
    while True:
        (byte,) = stream.read(1)
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value


def require_shapes(variables: Variables, architecture: Architecture) -> None:
    """Raise DataError unless all variables of an architecture are given, with its shapes."""
    for name, shape in architecture.shapes().items():
        found = variables[name].shape if name in variables else "none"
        if found != shape:
            raise DataError(f"the variable {name} must have shape {shape}; it has {found}")


def tensors(variables: Variables) -> Tensors:
    """Convert TensorFlow's variables to torch's layout, dense layers to convolutions; add the pyramid's filters."""
    torch = require("torch", extra="torch")
    table = json.loads(Path(__file__).with_name("steerable.json").read_text(encoding="utf-8"))
    converted = {name: torch.from_numpy(np.array(table[name], dtype=np.float32)[None, None]) for name in FILTERS}
    for name, values in variables.items():
        if name.endswith("/kernel"):
            kernel = values if values.ndim == 4 else values[None, None]
            values = np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))
        converted[name] = torch.from_numpy(np.array(values, dtype=np.float32))
    return converted


# The network


def layers(parameters: Tensors, images: Batch, *, architecture: Architecture) -> Iterator[Batch]:
    """Yield each band's means, shape (N, mixtures x latent, h, w), followed by the mixtures' logits if any."""
    torch = require("torch", extra="torch")
    last = len(architecture.filters) - 1
    for number, band in enumerate(pyramid(parameters, images, architecture.levels)):
        network, encoder = f"frontend/cnns/{number}/layer_with_weights-", f"marginal_encoder/encoders/{number}"
        for layer in range(last):
            band = convolve_relu(band, *_layer(parameters, f"{network}{layer}"), padding=2)
        band = torch.conv2d(band, *_layer(parameters, f"{network}{last}"), padding=2)
        means = mixed = band
        for layer in range(2):
            means = convolve_relu(means, *_layer(parameters, f"{encoder}/base/{layer}"))
        if architecture.mixtures > 1:
            for layer in range(2):
                mixed = convolve_relu(mixed, *_layer(parameters, f"{encoder}/mix/{layer}"))
            means = torch.cat((means, torch.conv2d(mixed, *_layer(parameters, f"{encoder}/logit_layer"))), dim=1)
        yield means


def _layer(parameters: Tensors, name: str) -> tuple[Batch, Batch]:
    return parameters[f"{name}/kernel"], parameters[f"{name}/bias"]


def pyramid(filters: Tensors, images: Batch, levels: int) -> list[Batch]:
    """Bands of a steerable pyramid with two orientations, from the low-pass image to the high-pass one.

    The channels of images (N, C, H, W) are filtered separately by filters of shape (1, 1, 9, 9) or (1, 1, 17, 17). The
    2 levels + 2 bands have shape (N, C, h, w), with sides of ceil(H / 2^level).
    """
    torch = require("torch", extra="torch")

    def correlate(images: Batch, name: str, stride: int = 1) -> Batch:
        return torch.conv2d(images, filters[name], stride=stride, padding=filters[name].shape[-1] // 2)

    count, channels = images.shape[:2]
    single = images.reshape(count * channels, 1, *images.shape[2:])
    bands, low = [correlate(single, "hi0filt")], correlate(single, "lo0filt")
    for _ in range(levels):
        bands += [correlate(low, "bfilt0"), correlate(low, "bfilt1")]
        low = correlate(low, "lofilt", stride=2)
    return [band.reshape(count, channels, *band.shape[2:]) for band in (low, *reversed(bands))]


def compare_means(parameters: Tensors, number: int, a: Batch, b: Batch, *, bands: int) -> Batch:
    """Mean squared difference of a band's means, over the number of bands: shape (B,)."""
    return ((a - b) ** 2).mean(axis=(1, 2, 3)) / bands


def compare_mixtures(
    parameters: Tensors, number: int, a: Batch, b: Batch, *, bands: int, mixtures: int, draws: int, seed: int
) -> Batch:
    """Estimate the divergence of a band's mixtures, over the number of bands: shape (B,)."""
    pair = (mixture(layer, mixtures) for layer in (a, b))
    return divergence(*pair, draws=draws, seed=[seed, number]) / bands


# Mixtures of Gaussians


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of K Gaussians in D dimensions, with unit covariance, at each pixel of a batch."""

    means: Batch  # (B, K, D, H, W)
    logits: Batch  # (B, K, H, W), logarithms of the weights up to a constant

    def heights(self) -> Batch:
        """Each Gaussian's part in the log density that does not depend on the point: shape (B, K, H, W)."""
        return self.logits.log_softmax(1) - (self.means**2).sum(axis=2) / 2

    def projections(self, z: Batch) -> Batch:
        """Inner products of points z (..., D, H, W) with the means: shape (B, K, H, W)."""
        return (z.unsqueeze(-4) * self.means).sum(axis=2)

    def choose(self, u: Batch) -> Batch:
        """Mean of the Gaussian in whose share of [0, 1] each u (H, W) falls: shape (B, D, H, W)."""
        # The last share ends at 1 whatever the rounding, so it is not compared.
        number = (u > self.logits.softmax(1).cumsum(1)[:, :-1]).sum(axis=1)
        index = number[:, None, None].expand(-1, 1, self.means.shape[2], -1, -1)
        return self.means.gather(1, index)[:, 0]


def mixture(layer: Batch, mixtures: int) -> Mixture:
    """Interpret a band's layer as a mixture at each pixel."""
    count, channels, height, width = layer.shape
    means = layer[:, : channels - mixtures].reshape(count, mixtures, -1, height, width)
    return Mixture(means, layer[:, channels - mixtures :])


def divergence(a: Mixture, b: Mixture, *, draws: int, seed: list[int]) -> Batch:
    """Estimate KL(a, b) + KL(b, a), averaged over pixels, from random draws: shape (B,).

    Both directions, and all images of a batch, share the noise: so the estimate is symmetric, does not depend on the
    batch, and the noise of two estimates largely cancels in their difference. Draws come in pairs with opposite noise;
    if both mixtures are single Gaussians the errors of a pair cancel exactly.
    """
    torch = require("torch", extra="torch")
    rng = np.random.default_rng(seed)
    # The density at z is exp(-|z|^2 / 2) times the sum of exp(height + z @ mean); the first factor cancels.
    heights = {a: a.heights(), b: b.heights()}
    total: Batch = 0.0
    for _ in range(draws // 2):
        noise = torch.from_numpy(rng.standard_normal(a.means.shape[2:], dtype=np.float32)).to(a.means)
        u = torch.from_numpy(rng.random(a.means.shape[3:], dtype=np.float32)).to(a.means)
        shifts = {one: one.projections(noise) for one in (a, b)}
        for p, q in ((a, b), (b, a)):
            centre = p.choose(u)
            at_p, at_q = (heights[one] + one.projections(centre) for one in (p, q))
            for sign in (1, -1):
                ratio = (at_p + sign * shifts[p]).logsumexp(1) - (at_q + sign * shifts[q]).logsumexp(1)
                total = total + ratio.mean(axis=(1, 2))
    return total / draws

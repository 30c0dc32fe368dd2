"""DISTS, deep image structure and texture similarity (Ding, Ma, Wang and Simoncelli, 2020), as a distance.

The image itself and the feature maps of VGG16, with a smooth pooling, are compared channel by channel: by their means,
which describe texture, and by their correlation, which describes structure.
"""

from __future__ import annotations

from collections.abc import Iterator

from twoafc.distances.batches import Batch
from twoafc.distances.deep import Deep, Precision, vgg16
from twoafc.distances.weights import Paths, Tensors, network_tensors
from twoafc.errors import require

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's channels
CHANNELS = (3, 64, 128, 256, 512, 512)
C1 = C2 = 1e-6
TINY = 1e-12
HANN = (0.25, 0.5, 0.25)


def make(name: str, *, weights: Paths = None, device: str = "cpu", precision: Precision = "fp32") -> Deep:
    """Make DISTS, for images of at least 16 x 16 pixels, which are not resized; parameters as for LPIPS."""
    parameters, digests = network_tensors(name, weights)
    total = parameters["alpha"].sum() + parameters["beta"].sum()
    for key in ("alpha", "beta"):
        parts = (parameters.pop(key) / total).flatten().split(CHANNELS)
        parameters |= {f"{key}.{number}": part for number, part in enumerate(parts)}
    return Deep(name, layers, compare, parameters, 16, digests, device, precision)


def layers(parameters: Tensors, images: Batch) -> Iterator[Batch]:
    """Yield the images themselves, then VGG16's stages with a smooth pooling between them."""
    yield images
    mean, spread = (images.new_tensor(values).view(1, 3, 1, 1) for values in (MEAN, SPREAD))
    yield from vgg16(parameters, (images - mean) / spread, pool=smooth_pool)


def smooth_pool(images: Batch) -> Batch:
    """Take the root of the local mean square, under a Hann window, at every second pixel: pooling without aliasing."""
    torch = require("torch", extra="torch")
    channels = images.shape[1]
    taps = images.new_tensor(HANN)
    window = torch.outer(taps, taps).expand(channels, 1, 3, 3)
    return (torch.conv2d(images * images, window, stride=2, padding=1, groups=channels) + TINY).sqrt()


def compare(parameters: Tensors, number: int, a: Batch, b: Batch) -> Batch:
    """Weighted dissimilarities of means and of structure, summed over channels: shape (B,)."""
    mean_a, mean_b = a.mean(axis=(2, 3)), b.mean(axis=(2, 3))
    # From deviations: the difference of mean squares would cancel in single precision.
    a, b = a - mean_a[:, :, None, None], b - mean_b[:, :, None, None]
    variances = (a * a).mean(axis=(2, 3)) + (b * b).mean(axis=(2, 3))
    covariance = (a * b).mean(axis=(2, 3))
    texture = (2 * mean_a * mean_b + C1) / (mean_a**2 + mean_b**2 + C1)
    structure = (2 * covariance + C2) / (variances + C2)
    return (1 - texture) @ parameters[f"alpha.{number}"] + (1 - structure) @ parameters[f"beta.{number}"]

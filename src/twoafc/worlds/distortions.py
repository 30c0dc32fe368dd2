"""Distortions of photographs: pure functions of a batch of images and a strength for each."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from twoafc.distances import luma

Images = NDArray[np.float32]
# Takes images (B, 3, S, S) and strengths (B, 1, 1, 1); its values may leave [0, 1].
Distortion = Callable[[Images, Images, np.random.Generator], Images]

# As many 64 x 64 RGB images, with intermediate results, as fit into a processor's cache.
AT_ONCE = 32


def blur(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Blur by a Gaussian of up to 2.5 pixels; at the border it is cut off and renormalised."""
    pixels = np.arange(images.shape[-1], dtype=np.float32)
    weights = np.exp(-(((pixels - pixels[:, None]) / np.maximum(2.5 * strength, 1e-3)) ** 2) / 2)
    return _along_both_axes(images, *2 * [weights / weights.sum(axis=3, keepdims=True)])


def downsample(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Average down to fewer pixels, at worst a sixth along each axis, and interpolate back."""
    size = images.shape[-1]
    fewer = np.round(size * (1 / 6) ** strength.ravel())
    coarse = _along_both_axes(images, *2 * [np.stack([there_and_back(size, int(count)) for count in fewer])[:, None]])
    # Even one pixel less blurs visibly, so weak strengths fade in.
    return np.asarray(images + np.minimum(1, 5 * strength) * (coarse - images))


def shift(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Shift by up to 2 pixels in any direction, with linear interpolation and repeated borders."""
    pixels = np.arange(images.shape[-1], dtype=np.float32)
    angle = rng.uniform(0, 2 * np.pi, strength.shape).astype(np.float32)
    sources = ((pixels[:, None] + 2 * strength * move(angle)).clip(0, pixels[-1]) for move in (np.sin, np.cos))
    return _along_both_axes(images, *(np.maximum(0, 1 - abs(source - pixels)) for source in sources))


def warp(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Move every pixel by a smooth random field of displacements of up to about 4 pixels."""
    count, _, size, _ = images.shape
    field = 2 * strength * _enlarge(rng.standard_normal((count, 2, 5, 5), dtype=np.float32), size)
    where = (np.mgrid[:size, :size] + field).clip(0, size - 1.001)
    corner = where.astype(np.int32)
    down, right = np.moveaxis((where - corner).astype(np.float32).reshape(count, 2, 1, -1), 1, 0)
    first = (corner[:, 0] * size + corner[:, 1]).reshape(count, 1, -1)
    flat = images.reshape(count, 3, -1)
    a, b, c, d = (np.take_along_axis(flat, first + step, axis=2) for step in (0, 1, size, size + 1))
    upper, lower = a + right * (b - a), c + right * (d - c)
    return np.asarray((upper + down * (lower - upper)).reshape(images.shape))


def noise(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Add white noise, independent in every channel, of standard deviation up to 0.12."""
    return images + 0.12 * strength * rng.standard_normal(images.shape, dtype=np.float32)


def chroma_noise(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Add blotches of colour that leave the luma as it is, four pixels wide, of standard deviation up to about 0.15."""
    size = images.shape[-1]
    blotches = rng.standard_normal((len(images), 3, size // 4, size // 4), dtype=np.float32)
    return images + 0.15 * strength * _enlarge(_without_luma(blotches), size)


def jpeg(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Compress by JPEG without chroma subsampling, from quality 100 down to quality 4."""
    qualities = np.round(100 * 0.04 ** strength.ravel())
    return np.stack([_through_jpeg(image, int(quality)) for image, quality in zip(images, qualities, strict=True)])


def posterise(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Round every channel to few levels: from 256 down to 3."""
    steps = np.round(255 * (2 / 255) ** strength)
    return np.asarray(np.round(images * steps) / steps)


def brightness(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Brighten or darken the whole image by up to 0.2."""
    return images + 0.2 * strength * _signs(strength, rng)


def contrast(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Raise or lower the contrast about the image's mean, up to twice either way."""
    mean = images.mean(axis=(1, 2, 3), keepdims=True)
    return np.asarray(mean + 2 ** (strength * _signs(strength, rng)) * (images - mean))


def gamma(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Apply a power from 1 to 1.8, or its inverse."""
    return np.asarray(images ** (1.8 ** (strength * _signs(strength, rng))))


def colour_shift(images: Images, strength: Images, rng: np.random.Generator) -> Images:
    """Add one colour to the whole image, of up to 0.25 in a random direction that leaves the luma as it is."""
    colour = _without_luma(rng.standard_normal((len(images), 3, 1, 1), dtype=np.float32))
    return np.asarray(images + 0.25 * strength * colour / np.linalg.norm(colour, axis=1, keepdims=True))


ALL = (blur, downsample, shift, warp, noise, chroma_noise, jpeg, posterise, brightness, contrast, gamma, colour_shift)
DISTORTIONS: dict[str, Distortion] = {distortion.__name__: distortion for distortion in ALL}


def distort(name: str, images: Images, strength: ArrayLike, *, seed: int | np.random.Generator = 0) -> Images:
    """Distort square images (B, 3, S, S) in [0, 1] by a name in `DISTORTIONS`; they stay in [0, 1].

    The strength of each image is from 0, no visible change, to 1, strongly distorted. Noise, directions and signs are
    drawn with the seed.

    Examples
    --------
    >>> black = np.zeros((1, 3, 16, 16), dtype=np.float32)
    >>> distorted = distort("noise", black, [1.0])
    >>> distorted.shape, float(distorted.min()), bool(distorted.max() > 0.1)
    ((1, 3, 16, 16), 0.0, True)
    """
    if name not in DISTORTIONS:
        raise ValueError(f"there is no distortion {name!r}; the names are: {', '.join(DISTORTIONS)}")
    strengths = np.asarray(strength, dtype=np.float32).reshape(-1, 1, 1, 1)
    rng = np.random.default_rng(seed)
    distorted = np.empty_like(images)
    for start in range(0, len(images), AT_ONCE):
        piece = slice(start, start + AT_ONCE)
        DISTORTIONS[name](images[piece], strengths[piece], rng).clip(0, 1, out=distorted[piece])
    return distorted


def _along_both_axes(images: Images, rows: Images, columns: Images) -> Images:
    """Apply each image's own matrices, (B, 1, S, S), along its rows and its columns."""
    return np.asarray(rows @ images @ columns.swapaxes(2, 3))


def _enlarge(coarse: Images, size: int) -> Images:
    """Interpolate linearly from (..., K, K) to more pixels, (..., size, size)."""
    spread = interpolation(coarse.shape[-1], size)
    return np.asarray(spread @ coarse @ spread.T)


def _signs(strength: Images, rng: np.random.Generator) -> Images:
    """Draw a sign, 1 or -1, for each image."""
    return rng.choice(np.array([-1, 1], dtype=np.float32), size=strength.shape)


def _without_luma(colours: Images) -> Images:
    """Subtract from each colour (B, 3, ...) its own luma, so that adding it to an image keeps the luma."""
    return np.asarray(colours - luma(colours))


def _through_jpeg(image: Images, quality: int) -> Images:
    """Compress one image (3, S, S) in memory and decode it."""
    file = io.BytesIO()
    levels = np.round(255 * image).astype(np.uint8).transpose(1, 2, 0)
    Image.fromarray(levels).save(file, "JPEG", quality=quality, subsampling=0)
    return np.asarray(Image.open(file), dtype=np.float32).transpose(2, 0, 1) / np.float32(255)


@cache
def there_and_back(size: int, fewer: int) -> Images:
    """Build the matrix that averages an axis down to fewer pixels and interpolates back."""
    edges = np.linspace(0, size, fewer + 1)
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return (interpolation(fewer, size) @ (overlap.clip(min=0) * fewer / size)).astype(np.float32)


@cache
def interpolation(fewer: int, size: int) -> Images:
    """Build the matrix (size, fewer) that interpolates linearly from few pixels to more, repeating the border."""
    where = ((np.arange(size) + 0.5) * fewer / size - 0.5).clip(0, fewer - 1)
    return np.maximum(0, 1 - abs(where[:, None] - np.arange(fewer))).astype(np.float32)

"""An image file to pixels, at its full depth; what is not plainly grey or red, green and blue is refused by name.

Grey becomes three equal channels, a palette its colours, an opaque alpha channel is dropped. Values are taken as they
are stored: colour profiles (ICC) and gamma are not applied, and nothing is resized.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, PngImagePlugin, TiffImagePlugin, UnidentifiedImageError

from twoafc import png
from twoafc.errors import DataError

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM")
"""What is read; a file's first bytes tell which it is. Of other formats Pillow does not tell the depth, or it runs
programs to read them."""
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm", ".pgm", ".pbm", ".pnm")
"""How the names of such files usually end, in lower case."""
PLAIN = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX")
DEEP = ("I;16", "I;16B", "I;16L", "I;16N")
ORIENTATION, BITS_PER_SAMPLE, PHOTOMETRIC = 0x0112, 0x0102, 0x0106
WHITE_IS_ZERO = 0

Pixels = NDArray[np.uint8] | NDArray[np.uint16]


class ImageError(DataError):
    """A file that cannot be used as an image, with the reason.

    Examples
    --------
    >>> error = ImageError("ref/000017.png", "the file is empty")
    >>> str(error), error.reason
    ('ref/000017.png: the file is empty', 'the file is empty')
    """

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(str(path), reason)  # both, so that the error can go from process to process
        self.path = str(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class _RefusedError(Exception):
    """The reason alone; the file is added where its name is known."""


def read_image(path: str | Path) -> NDArray[np.float32]:
    """Read an image as float32 of shape (3, H, W) in [0, 1]."""
    return as_float(read_pixels(path))


def as_float(pixels: Pixels) -> NDArray[np.float32]:
    """Scale pixels, of any shape, to [0, 1]: divided by 255, those of 16 bits by 65535.

    Examples
    --------
    >>> as_float(np.array([0, 51, 255], dtype=np.uint8))
    array([0. , 0.2, 1. ], dtype=float32)
    """
    if pixels.dtype not in (np.uint8, np.uint16):
        raise TypeError(f"pixels must be uint8 or uint16; found {pixels.dtype}")
    return np.divide(pixels, np.float32(np.iinfo(pixels.dtype).max), dtype=np.float32)


def eight_bits(pixels: Pixels) -> NDArray[np.uint8]:
    """Give pixels, of any shape, as 8 bits, for showing: those of 16 bits divided by 257 and rounded.

    Examples
    --------
    >>> eight_bits(np.array([0, 128, 129, 257, 65535], dtype=np.uint16))
    array([  0,   0,   1,   1, 255], dtype=uint8)
    """
    if pixels.dtype == np.uint8:
        return pixels.astype(np.uint8, copy=False)
    return ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)


def read_pixels(path: str | Path) -> Pixels:
    """Read an image as uint8, or uint16 where the file has 16 bits, of shape (3, H, W)."""
    return decode(read_bytes(path), path)


def read_bytes(path: str | Path) -> bytes:
    """Read a file as it is."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ImageError(path, _told(error)) from error


def decode(content: bytes, path: str | Path) -> Pixels:
    """Decode an image's bytes; `path` names it in errors."""
    try:
        return _decoded(content)
    except _RefusedError as refused:
        raise ImageError(path, str(refused)) from None


def trace(content: bytes) -> int:
    """Give 64 bits of a digest of a file's bytes, by which another file of that name is known; never 0.

    Examples
    --------
    >>> trace(b"one") == trace(b"one"), trace(b"one") == trace(b"two")
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little") or 1


def pixel_size(path: str | Path) -> tuple[int, int]:
    """Give an image's height and width from its header, without decoding it."""
    try:
        with open(path, "rb") as file:
            found = png.size(file.read(24))
            if found is None:
                file.seek(0)
                found = _opened(file).size[::-1]
        return found
    except _RefusedError as refused:
        raise ImageError(path, str(refused)) from None
    except OSError as error:
        raise ImageError(path, _told(error)) from error


def _decoded(content: bytes) -> Pixels:
    if not content:
        raise _RefusedError("the file is empty")
    is_png = content.startswith(png.START)
    flaw = png.flaw(content) if is_png else None
    if flaw:
        raise _RefusedError(f"the image is {flaw}")
    if is_png:
        _check_pixels(png.size(content[:24]))
    try:
        # A PNG goes the way that Image.open would find for it, after a search.
        image = PngImagePlugin.PngImageFile(io.BytesIO(content)) if is_png else _opened(io.BytesIO(content))
        _check_header(image)
        pixels = _deep(content, image) if _is_deep(image) else _plain(image)
        if "exif" in image.info:
            _check_upright(image.getexif().get(ORIENTATION, 1))
    except _RefusedError:
        raise
    except NotImplementedError as error:
        raise _RefusedError(_first_line(error)) from error
    except Exception as error:  # damage makes Pillow raise whatever it happens to meet
        raise _RefusedError(f"the image is truncated or damaged ({_first_line(error)})") from error
    return pixels


def _opened(file: io.BufferedReader | io.BytesIO) -> Image.Image:
    try:
        return Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:
        file.seek(0)
        if file.read(4) in (b"II*\0", b"MM\0*"):  # what tells a TIFF's size may stand at its end
            raise _RefusedError("the image is truncated or damaged (a TIFF without its directory)") from None
        raise _RefusedError(f"no image that can be read; expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}") from None
    except Image.DecompressionBombError as error:
        raise _RefusedError(_first_line(error)) from None
    except Exception as error:
        raise _RefusedError(f"the image is truncated or damaged ({_first_line(error)})") from error


def _check_pixels(size: tuple[int, int] | None) -> None:
    """Hold a PNG to the size at which Pillow refuses other formats: a small file may unfold to fill the memory."""
    limit = Image.MAX_IMAGE_PIXELS
    if size and limit and size[0] * size[1] > 2 * limit:
        told = f"{size[0]} x {size[1]} pixels"
        raise _RefusedError(f"the image has {told}, more than the {2 * limit} that are read: it may be an attack")


def _check_header(image: Image.Image) -> None:
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        raise _RefusedError(f"the file holds {frames} pictures, of an animation or of pages; expected one")
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        _check_upright(image.tag_v2.get(ORIENTATION, 1))


def _check_upright(turned: int) -> None:
    if turned not in (0, 1):
        rule = "whether people saw it so is not known; save it upright"
        raise _RefusedError(f"the image is to be turned for showing (EXIF orientation {turned}), and {rule}")


def _is_deep(image: Image.Image) -> bool:
    """Tell whether samples have 16 bits; refuse colours that are not ours, and depths that Pillow would not keep."""
    tiles = image.tile if isinstance(image, ImageFile.ImageFile) else ()
    # How the decoder is told that samples are stored; for a PPM that is to be scaled, with their largest value.
    stored = tiles[0][3] if tiles else ""
    mode, *scaling = stored if isinstance(stored, tuple) else (stored,)
    if image.format == "PNG" and mode == "LA;16B":
        raise _RefusedError("16-bit grey with alpha would lose depth; save it without alpha")
    if image.format in ("PNG", "PPM") and str(mode).endswith("16B"):
        return True
    if image.format == "PPM" and tiles and tiles[0][0] != "raw" and scaling and scaling[0] != 255:
        raise _RefusedError(f"a PPM whose largest value is {scaling[0]} would be rounded to 8 bits; save it as PNG")
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        bits = image.tag_v2.get(BITS_PER_SAMPLE, (1,))
        if image.mode in DEEP and set(bits) == {16}:
            return True
        if max(bits) > 8:
            told = f"{len(bits)} x {max(bits)} bits, mode {image.mode}"
            raise _RefusedError(f"a TIFF of {told}, is not read; save it as PNG")
    if image.mode not in PLAIN:
        raise _RefusedError(f"colours are stored as {image.mode}; expected grey, a palette or RGB: convert the image")
    return False


def _plain(image: Image.Image) -> NDArray[np.uint8]:
    if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA"):
        return _channels_first(_opaque(np.asarray(image.convert("RGBA"))))
    if image.mode == "L":
        return np.repeat(np.asarray(image)[np.newaxis], 3, axis=0)
    return _channels_first(np.asarray(image if image.mode == "RGB" else image.convert("RGB")))


def _deep(content: bytes, image: Image.Image) -> NDArray[np.uint16]:
    image.load()  # to the end of the file, where a transparent colour may be told
    if "transparency" in image.info:
        raise _RefusedError("a 16-bit image with a transparent colour is not read; save it without")
    if image.mode in ("RGB", "RGBA"):
        colours = png.sixteen_bits(content)
        return _channels_first(_opaque(colours) if image.mode == "RGBA" else colours)
    grey = np.asarray(image).astype(np.uint16)
    # Pillow turns what is stored as a negative the right way round with 8 bits, not with 16.
    if isinstance(image, TiffImagePlugin.TiffImageFile) and image.tag_v2.get(PHOTOMETRIC) == WHITE_IS_ZERO:
        grey = np.iinfo(np.uint16).max - grey
    return np.repeat(grey[np.newaxis], 3, axis=0)


def _opaque(rgba: NDArray[Any]) -> NDArray[Any]:
    """Drop an alpha channel that hides nothing."""
    alpha = rgba[..., 3]
    clear = int((alpha < np.iinfo(alpha.dtype).max).sum())
    if clear:
        raise _RefusedError(
            f"the image is transparent in {clear} of {alpha.size} pixels, and what lies behind is not known; "
            "save it without alpha"
        )
    return rgba[..., :3]


def _channels_first(pixels: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _told(error: OSError) -> str:
    return "no such file" if isinstance(error, FileNotFoundError) else f"the file cannot be read ({error.strerror})"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).split("\n")[0]

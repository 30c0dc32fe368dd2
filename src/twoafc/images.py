"""Decode an image file to RGB pixels at full depth; refuse files that cannot be decoded without a guess.

Grey becomes three equal channels, a palette its colours, and an opaque alpha channel is dropped. Values are taken as
stored: colour profiles (ICC) and gamma are not applied, and nothing is resized.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, PngImagePlugin, TiffImagePlugin, UnidentifiedImageError

from twoafc.errors import DataError, first_line
from twoafc.files import NotAFileError, open_file

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM")
"""Formats that are read, recognised by a file's first bytes. Of others Pillow does not report the depth, or it runs
other programs to read them."""
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm", ".pgm", ".pbm", ".pnm")
"""Usual file name extensions of these formats, in lower case."""
PLAIN = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX")
DEEP = ("I;16", "I;16B", "I;16L", "I;16N")
ORIENTATION, BITS_PER_SAMPLE, PHOTOMETRIC = 0x0112, 0x0102, 0x0106
WHITE_IS_ZERO = 0
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

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
        super().__init__(str(path), reason)  # both, so that the error can be pickled
        self.path = str(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class _RefusedError(Exception):
    """The reason alone; the path is added by the caller."""


def read_pixels(path: str | Path) -> Pixels:
    """Read an image as uint8, or uint16 if the file has 16 bits, of shape (3, H, W)."""
    return decode(read_bytes(path), path)


def read_bytes(path: str | Path) -> bytes:
    """Read a file's bytes, or raise ImageError."""
    with _opened(path) as file:
        return file.read()


def decode(content: bytes, path: str | Path) -> Pixels:
    """Decode the bytes of an image file; `path` names it in errors."""
    with _naming(path):
        if not content:
            raise _RefusedError("the file is empty")
        if content.startswith(PNG_SIGNATURE):
            _check_png(content)
        image = _open(io.BytesIO(content))
        frames = getattr(image, "n_frames", 1)
        if frames > 1:
            raise _RefusedError(f"the file holds {frames} pictures (an animation or pages); expected one")
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            _check_orientation(image.tag_v2.get(ORIENTATION, 1))
        pixels = _sixteen_bits(content, image) if _is_deep(image) else _eight_bits(image)
        if "exif" in image.info:
            _check_orientation(image.getexif().get(ORIENTATION, 1))
        return pixels


def pixel_size(path: str | Path) -> tuple[int, int]:
    """Read an image's height and width from its header, without decoding it."""
    with _opened(path) as file, _naming(path):
        width, height = _open(file).size
        return height, width


def _open(file: BinaryIO) -> Image.Image:
    try:
        return Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:
        file.seek(0)
        if file.read(4) in (b"II*\0", b"MM\0*"):  # a TIFF's directory may be at the end of the file
            raise _RefusedError("the image is truncated or damaged (a TIFF without its directory)") from None
        raise


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file, or raise ImageError."""
    try:
        with open_file(path) as file:
            yield file
    except NotAFileError as error:
        raise ImageError(path, f"this is {error.strerror}") from error
    except FileNotFoundError as error:
        raise ImageError(path, "no such file") from error
    except OSError as error:
        raise ImageError(path, f"the file cannot be read ({error.strerror})") from error


@contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Raise ImageError for what is refused here, and for what Pillow raises."""
    try:
        yield
    except UnidentifiedImageError:
        reason = f"no image that can be read; expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
    except (_RefusedError, Image.DecompressionBombError) as error:
        reason = first_line(error)
    except Exception as error:  # Pillow raises almost anything on a damaged file
        reason = f"the image is truncated or damaged ({first_line(error)})"
    else:
        return
    raise ImageError(path, reason)


def as_float(pixels: Pixels) -> NDArray[np.float32]:
    """Scale pixels of any shape to [0, 1]: 8 bits are divided by 255, 16 bits by 65535."""
    if pixels.dtype not in (np.uint8, np.uint16):
        raise TypeError(f"pixels must be uint8 or uint16; found {pixels.dtype}")
    return np.divide(pixels, np.float32(np.iinfo(pixels.dtype).max), dtype=np.float32)


def eight_bits(pixels: Pixels) -> NDArray[np.uint8]:
    """Convert pixels of any shape to 8 bits for display: 16 bits are divided by 257 and rounded.

    Examples
    --------
    >>> eight_bits(np.array([0, 128, 129, 257, 65535], dtype=np.uint16))
    array([  0,   0,   1,   1, 255], dtype=uint8)
    """
    if pixels.dtype == np.uint8:
        return pixels.astype(np.uint8, copy=False)
    return ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)


def trace(content: bytes) -> int:
    """Hash a file's bytes to 64 bits, never 0, so that a changed file can be recognised."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little") or 1


def _check_png(content: bytes) -> None:
    """Check the length and checksum of every chunk; Pillow does not when it decodes pixels.

    Not by Pillow's verify(), which ignores the last chunk, takes three times as long, and needs the file opened twice.
    """
    view, position, kind = memoryview(content), len(PNG_SIGNATURE), b""
    while kind != b"IEND":
        end = position + int.from_bytes(view[position : position + 4]) + 12
        if end > len(content):
            raise _RefusedError("the image is truncated: the PNG ends before its last chunk")
        kind = content[position + 4 : position + 8]
        if zlib.crc32(view[position + 4 : end - 4]) != int.from_bytes(view[end - 4 : end]):
            raise _RefusedError(f"the image is damaged: the checksum of the PNG's chunk at byte {position} is wrong")
        position = end


def _check_orientation(orientation: int) -> None:
    if orientation not in (0, 1):
        raise _RefusedError(
            f"the image is to be rotated for display (EXIF orientation {orientation}), and it is not known whether "
            "observers saw it so; save it upright"
        )


def _is_deep(image: Image.Image) -> bool:
    """Return whether samples have 16 bits; refuse colour spaces other than ours, and depths that Pillow would round."""
    tiles = image.tile if isinstance(image, ImageFile.ImageFile) else ()
    # The decoder's arguments: how samples are stored and, for a PPM that needs scaling, their largest value.
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
            layout = f"{len(bits)} x {max(bits)} bits, mode {image.mode}"
            raise _RefusedError(f"a TIFF of {layout}, is not read; save it as PNG")
    if image.mode not in PLAIN:
        raise _RefusedError(f"colours are stored as {image.mode}; expected grey, a palette or RGB: convert the image")
    return False


def _eight_bits(image: Image.Image) -> NDArray[np.uint8]:
    if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA"):
        return _channels_first(_without_alpha(np.asarray(image.convert("RGBA"))))
    if image.mode == "L":
        return np.repeat(np.asarray(image)[np.newaxis], 3, axis=0)
    return _channels_first(np.asarray(image if image.mode == "RGB" else image.convert("RGB")))


def _sixteen_bits(content: bytes, image: Image.Image) -> NDArray[np.uint16]:
    image.load()  # to the end of the file, where a transparent colour may be defined
    if "transparency" in image.info:
        raise _RefusedError("a 16-bit image with a transparent colour is not read; save it without")
    if image.mode in ("RGB", "RGBA"):
        if not _low_byte_is_available():
            raise _RefusedError("this version of Pillow does not give the lower byte of 16-bit colours")
        colours = _png_colours(content)
        return _channels_first(_without_alpha(colours) if image.mode == "RGBA" else colours)
    grey = np.asarray(image).astype(np.uint16)
    # Pillow inverts a TIFF in which white is 0 with 8 bits, but not with 16.
    if isinstance(image, TiffImagePlugin.TiffImageFile) and image.tag_v2.get(PHOTOMETRIC) == WHITE_IS_ZERO:
        grey = np.iinfo(np.uint16).max - grey
    return np.repeat(grey[np.newaxis], 3, axis=0)


def _png_colours(content: bytes) -> NDArray[np.uint16]:
    """Decode a PNG of 16-bit RGB or RGBA to shape (H, W, channels).

    Pillow returns one byte of each sample: the first if the high byte is declared to come first, as it does in a PNG,
    and the second if the low byte is. Decoding twice gives both.
    """
    high, low = (_png_bytes(content, order) for order in ("16B", "16L"))
    return np.asarray(high.astype(np.uint16) << 8 | low, dtype=np.uint16)


def _png_bytes(content: bytes, order: str) -> NDArray[np.uint8]:
    image = PngImagePlugin.PngImageFile(io.BytesIO(content))
    tile = image.tile[0]
    image.tile = [tile._replace(args=str(tile.args).replace("16B", order))]
    return np.asarray(image)


@cache
def _low_byte_is_available() -> bool:
    """Decode one known pixel: Pillow does not document that it can return the lower byte."""
    head = b"IHDR" + (1).to_bytes(4) * 2 + bytes([16, 2, 0, 0, 0])
    body = b"IDAT" + zlib.compress(bytes([0, 1, 2, 3, 4, 5, 6]))
    chunks = [(len(part) - 4).to_bytes(4) + part + zlib.crc32(part).to_bytes(4) for part in (head, body, b"IEND")]
    return bool((_png_colours(PNG_SIGNATURE + b"".join(chunks)) == [0x0102, 0x0304, 0x0506]).all())


def _without_alpha(rgba: NDArray[Any]) -> NDArray[Any]:
    """Drop an alpha channel that is opaque everywhere."""
    alpha = rgba[..., 3]
    transparent = int((alpha < np.iinfo(alpha.dtype).max).sum())
    if transparent:
        raise _RefusedError(
            f"the image is transparent in {transparent} of {alpha.size} pixels, and the background is not known; "
            "save it without alpha"
        )
    return rgba[..., :3]


def _channels_first(pixels: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))

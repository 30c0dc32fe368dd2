"""Image files to pixels: each kind is read at its full depth or refused by name, whole or not at all."""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from trees import picture
from twoafc import images
from twoafc.errors import DataError
from twoafc.images import PNG_SIGNATURE, ImageError, as_float, decode, pixel_size, read_pixels, trace

RGB = picture(np.random.default_rng(0), (13, 10))
DEEP = np.random.default_rng(1).integers(0, 65536, (13, 10, 4)).astype(np.uint16)
DEEP[..., 3] = 65535


def encoded(image: NDArray[Any] | Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(stream, kind, **options)
    return stream.getvalue()


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def deep_png(pixels: NDArray[np.uint16], colours: int, *, before: bytes = b"", after: bytes = b"") -> bytes:
    """A PNG of 16 bits by the standard's text, with each of its five filters in turn."""
    height, width = pixels.shape[:2]
    rows = pixels.astype(">u2").view(np.uint8).reshape(height, -1).astype(int)
    step = rows.shape[1] // width
    above = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
    left, corner = (np.hstack([np.zeros((height, step), int), each[:, :-step]]) for each in (rows, above))
    to = [abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)]
    paeth = np.where((to[0] <= to[1]) & (to[0] <= to[2]), left, np.where(to[1] <= to[2], above, corner))
    guesses = [0 * rows, left, above, (left + above) // 2, paeth]
    lines = [bytes([y % 5]) + ((rows[y] - guesses[y % 5][y]) % 256).astype(np.uint8).tobytes() for y in range(height)]
    head = struct.pack(">IIBBBBB", width, height, 16, colours, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(b"".join(lines)))
    return PNG_SIGNATURE + chunk(b"IHDR", head) + before + body + after + chunk(b"IEND", b"")


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(content: bytes, name: str = "image") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def reason(path: Path) -> str:
    with pytest.raises(ImageError) as caught:
        read_pixels(path)
    assert caught.value.path == str(path)
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    return caught.value.reason


# --- what is read -----------------------------------------------------------------------------------------------------

EXACT: dict[str, bytes] = {
    "png": encoded(RGB, "PNG"),
    "uncompressed": encoded(RGB, "PNG", compress_level=0),
    "opaque alpha": encoded(Image.fromarray(RGB).convert("RGBA"), "PNG"),
    "bmp": encoded(RGB, "BMP"),
    "tiff": encoded(RGB, "TIFF"),
    "tiff, lzw": encoded(RGB, "TIFF", compression="tiff_lzw"),
    "tiff, alpha": encoded(Image.fromarray(RGB).convert("RGBA"), "TIFF"),
    "ppm": encoded(RGB, "PPM"),
    "upright": encoded(RGB, "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\1\0\0\0\0\0\0"),
    "profile": encoded(RGB, "PNG", icc_profile=b"some profile"),
    "webp": encoded(RGB, "WEBP", lossless=True),
}


@pytest.mark.parametrize("kind", EXACT)
def test_colours_are_read_as_stored(file: Any, kind: str) -> None:
    path = file(EXACT[kind])
    pixels = read_pixels(path)
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    assert np.array_equal(pixels, RGB.transpose(2, 0, 1))
    assert pixel_size(path) == (13, 10)


def test_jpeg_is_read_as_pillow_reads_it(file: Any) -> None:
    content = encoded(RGB, "JPEG", quality=95)
    expected = np.asarray(Image.open(io.BytesIO(content))).transpose(2, 0, 1)
    assert np.array_equal(read_pixels(file(content)), expected)


def test_the_format_follows_from_the_first_bytes(file: Any) -> None:
    assert read_pixels(file(encoded(RGB, "BMP"), "image.png")).shape == (3, 13, 10)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "BMP", "PPM"])
def test_grey_becomes_three_equal_channels(file: Any, kind: str) -> None:
    pixels = read_pixels(file(encoded(RGB[..., 0], kind)))
    assert pixels.shape == (3, 13, 10)
    assert (pixels == pixels[0]).all()
    if kind != "JPEG":
        assert np.array_equal(pixels[0], RGB[..., 0])


def test_grey_with_an_opaque_alpha(file: Any) -> None:
    pixels = read_pixels(file(encoded(Image.fromarray(RGB[..., 0]).convert("LA"), "PNG")))
    assert np.array_equal(pixels, np.stack([RGB[..., 0]] * 3))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP", "PPM", "GIF"])
def test_one_bit_is_black_and_white(file: Any, kind: str) -> None:
    black = Image.fromarray(RGB[..., 0]).convert("1")
    pixels = read_pixels(file(encoded(black, kind)))
    assert np.array_equal(pixels, np.stack([np.asarray(black) * np.uint8(255)] * 3))


@pytest.mark.parametrize(
    ("kind", "options"), [("PNG", {}), ("PNG", {"bits": 4}), ("GIF", {}), ("TIFF", {}), ("BMP", {})]
)
def test_a_palette_becomes_its_colours(file: Any, kind: str, options: dict[str, int]) -> None:
    image = Image.fromarray(RGB).quantize(16)
    expected = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    assert np.array_equal(read_pixels(file(encoded(image, kind, **options))), expected)


def test_a_transparent_colour_that_no_pixel_has_is_ignored(file: Any) -> None:
    image = np.minimum(RGB, 200)
    content = encoded(image, "PNG", transparency=(255, 0, 255))
    assert np.array_equal(read_pixels(file(content)), image.transpose(2, 0, 1))


# --- 16 bits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("channels", "colours"), [(3, 2), (4, 6)])
def test_sixteen_bit_colours_keep_their_depth(file: Any, channels: int, colours: int) -> None:
    path = file(deep_png(DEEP[..., :channels], colours))
    pixels = read_pixels(path)
    assert pixels.dtype == np.uint16
    assert np.array_equal(pixels, DEEP[..., :3].transpose(2, 0, 1))
    assert np.array_equal(as_float(read_pixels(path)), (DEEP[..., :3].transpose(2, 0, 1) / 65535).astype(np.float32))


@pytest.mark.parametrize(
    "content",
    [
        deep_png(DEEP[..., :1], 0),
        encoded(DEEP[..., 0], "PNG"),
        encoded(DEEP[..., 0], "TIFF"),
        b"P5 10 13 65535\n" + DEEP[..., 0].astype(">u2").tobytes(),
        encoded(Image.fromarray(DEEP[..., 0].astype(">u2")), "TIFF"),
    ],
    ids=["png by hand", "png", "tiff", "pgm", "tiff, big end first"],
)
def test_sixteen_bit_grey_keeps_its_depth(file: Any, content: bytes) -> None:
    pixels = read_pixels(file(content))
    assert pixels.dtype == np.uint16
    assert np.array_equal(pixels, np.stack([DEEP[..., 0]] * 3))


def test_a_pillow_that_would_lose_the_lower_byte_is_detected(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one_byte = images._png_bytes
    monkeypatch.setattr(images, "_png_bytes", lambda content, order: one_byte(content, "16B"))
    images._low_byte_is_available.cache_clear()
    try:
        message = "this version of Pillow does not give the lower byte of 16-bit colours"
        assert reason(file(deep_png(DEEP[..., :3], 2))) == message
    finally:
        monkeypatch.undo()
        images._low_byte_is_available.cache_clear()


# --- what is refused --------------------------------------------------------------------------------------------------


def turned(kind: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(RGB, kind, exif=exif)


CLEAR = np.dstack([RGB, np.where(np.arange(130).reshape(13, 10) < 3, 254, 255).astype(np.uint8)])
DEEP_CLEAR = np.where(np.arange(4) < 3, DEEP, 65534).astype(np.uint16)
UPRIGHT = (
    "the image is to be rotated for display (EXIF orientation 6), and it is not known whether observers saw it so; "
    "save it upright"
)
BEHIND = "the image is transparent in {} of 130 pixels, and the background is not known; save it without alpha"
NO_KEY = "a 16-bit image with a transparent colour is not read; save it without"
TWO: dict[str, Any] = {"save_all": True, "append_images": [Image.fromarray(RGB[::-1])]}
SEVERAL = "the file holds 2 pictures (an animation or pages); expected one"
CONVERT = "colours are stored as {}; expected grey, a palette or RGB: convert the image"
WIDE = "a TIFF of 1 x 32 bits, mode {}, is not read; save it as PNG"
ROUNDED = "a PPM whose largest value is {} would be rounded to 8 bits; save it as PNG"
REFUSED: list[tuple[str, bytes, str]] = [
    ("empty", b"", "the file is empty"),
    ("text", b"ref,x0,x1\n", "no image that can be read; expected PNG, JPEG, WEBP, TIFF, BMP, GIF or PPM"),
    ("tiff", b"II*\0" + bytes(50), "the image is truncated or damaged (a TIFF without its directory)"),
    ("alpha", encoded(CLEAR, "PNG"), BEHIND.format(3)),
    ("alpha, 16 bits", deep_png(DEEP_CLEAR, 6), BEHIND.format(130)),
    ("alpha, webp", encoded(CLEAR, "WEBP", lossless=True), BEHIND.format(3)),
    ("transparent colour", encoded(RGB, "PNG", transparency=tuple(map(int, RGB[0, 0]))), BEHIND.format(1)),
    (
        "transparent palette",
        encoded(Image.fromarray(RGB).quantize(2), "PNG", transparency=bytes([0, 0])),
        BEHIND.format(130),
    ),
    (
        "grey and alpha, 16 bits",
        deep_png(DEEP[..., 2:], 4),
        "16-bit grey with alpha would lose depth; save it without alpha",
    ),
    ("transparent grey, 16 bits", deep_png(DEEP[..., :1], 0, before=chunk(b"tRNS", bytes(2))), NO_KEY),
    ("transparent colour, 16 bits", deep_png(DEEP[..., :3], 2, before=chunk(b"tRNS", bytes(6))), NO_KEY),
    *((f"two pictures, {kind}", encoded(RGB, kind, **TWO), SEVERAL) for kind in ("GIF", "PNG", "TIFF")),
    ("cmyk", encoded(Image.fromarray(RGB).convert("CMYK"), "JPEG"), CONVERT.format("CMYK")),
    ("cmyk, tiff", encoded(Image.fromarray(RGB).convert("CMYK"), "TIFF"), CONVERT.format("CMYK")),
    ("lab", encoded(Image.fromarray(RGB).convert("LAB"), "TIFF"), CONVERT.format("LAB")),
    ("float", encoded(np.zeros((2, 2), np.float32), "TIFF"), WIDE.format("F")),
    ("32 bits", encoded(np.zeros((2, 2), np.int32), "TIFF"), WIDE.format("I")),
    ("deep ppm", b"P6 1 1 65535\n" + bytes(6), ROUNDED.format(65535)),
    ("shallow ppm", b"P2 1 1 100\n7\n", ROUNDED.format(100)),
    *((f"turned {kind}", turned(kind), UPRIGHT) for kind in ("JPEG", "PNG", "TIFF", "WEBP")),
]


@pytest.mark.parametrize(("content", "expected"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused(file: Any, content: bytes, expected: str) -> None:
    assert reason(file(content)) == expected


def test_a_rotated_png_with_late_exif_is_refused(file: Any) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    late = chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0"))
    assert reason(file(deep_png(DEEP[..., :3], 2, after=late))) == UPRIGHT


def tiff_16_bit_rgb() -> bytes:
    """The smallest TIFF of 16-bit colours, by the standard's text: one pixel."""
    tags = [(256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 3, 134), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, 140)]
    tags += [(277, 3, 1, 3), (278, 3, 1, 1), (279, 4, 1, 6), (284, 3, 1, 1)]
    body = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    head = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + body + bytes(4)
    return head + struct.pack("<HHH", 16, 16, 16) + struct.pack("<HHH", 1, 2, 3)


def test_a_tiff_of_16_bit_colours_is_refused_and_not_rounded(file: Any) -> None:
    content = tiff_16_bit_rgb()
    assert Image.open(io.BytesIO(content)).mode == "RGB"  # what would be lost without a word
    assert reason(file(content)) == "a TIFF of 3 x 16 bits, mode RGB, is not read; save it as PNG"


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for read in (read_pixels, pixel_size):
        with pytest.raises(ImageError, match=r"nothing\.png: no such file$"):
            read(tmp_path / "nothing.png")
        with pytest.raises(ImageError, match=r": this is a folder, not a file$"):
            read(tmp_path)


def test_files_without_a_size(file: Any) -> None:
    with pytest.raises(ImageError, match="no image that can be read; expected PNG"):
        pixel_size(file(b"ref,x0,x1"))
    with pytest.raises(ImageError, match="no image that can be read; expected PNG"):
        pixel_size(file(PNG_SIGNATURE))


def test_too_many_pixels(file: Any) -> None:
    bomb = bytearray(encoded(RGB, "BMP"))
    bomb[18:26] = struct.pack("<ii", 40_000, 40_000)
    head = struct.pack(">II", 40_000, 40_000) + bytes([8, 2, 0, 0, 0])
    png = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    for content in (bytes(bomb), PNG_SIGNATURE + png):
        assert reason(file(content)).startswith("Image size (1600000000 pixels) exceeds limit of 178956970 pixels")


# --- whole or not at all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM"])
def test_a_file_cut_short_anywhere_is_refused(kind: str) -> None:
    content = encoded(RGB, kind)
    whole = decode(content, "image")
    for length in range(len(content)):
        try:
            pixels = decode(content[:length], "image")
        except ImageError:
            continue
        assert np.array_equal(pixels, whole)  # what was cut off held no pixels
        assert len(content) - length <= 2


@settings(deadline=None)
@given(st.data())
def test_a_changed_bit_of_a_png_is_noticed(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([EXACT["png"], deep_png(DEEP[..., :3], 2)])))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ImageError, match=r"^image: the image is (damaged|truncated)|^image: no image that can be read"):
        decode(bytes(content), "image")


def test_damage_is_reported(file: Any) -> None:
    content = bytearray(EXACT["png"])
    content[60] ^= 1
    assert reason(file(bytes(content))) == "the image is damaged: the checksum of the PNG's chunk at byte 33 is wrong"
    assert reason(file(EXACT["png"][:-20])) == "the image is truncated: the PNG ends before its last chunk"
    assert reason(file(encoded(RGB, "JPEG")[:-50])).startswith("the image is truncated or damaged (")


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_scaling_is_exact_to_the_last_digit() -> None:
    for kind, most in ((np.uint8, 255), (np.uint16, 65535)):
        every = np.arange(most + 1).astype(kind)
        scaled = as_float(every)  # type: ignore[arg-type]
        assert scaled.dtype == np.float32
        assert np.array_equal(scaled, (every.astype(np.float64) / most).astype(np.float32))


def test_only_pixels_are_scaled() -> None:
    with pytest.raises(TypeError, match=r"^pixels must be uint8 or uint16; found float32$"):
        as_float(np.zeros(3, np.float32))  # type: ignore[arg-type]


def test_an_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(ImageError("a.png", "the file is empty")))
    assert isinstance(error, DataError)
    assert (error.path, error.reason, str(error)) == ("a.png", "the file is empty", "a.png: the file is empty")


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_tiff_in_which_white_is_0_is_inverted(file: Any, kind: Any) -> None:
    most = np.iinfo(kind).max
    grey = np.linspace(0, most, 8 * 8).round().astype(kind).reshape(8, 8)
    content = bytearray(encoded(grey, "TIFF"))
    tag = struct.pack("<HHI", 262, 3, 1)
    place = content.index(tag) + len(tag)
    assert content[place] == 1  # black is 0
    assert np.array_equal(read_pixels(file(bytes(content)))[0], grey)
    content[place] = 0
    assert np.array_equal(read_pixels(file(bytes(content), "negative"))[0], most - grey)


def test_a_trace_differs_between_files() -> None:
    assert trace(b"") not in (0, trace(b"\0"))
    assert trace(EXACT["png"]) == trace(bytes(EXACT["png"])) < 2**64

"""The most surprising triplets of the best distance, with small pictures where images are known."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoafc.errors import DataError
from twoafc.failures import surprising
from twoafc.folder import Results
from twoafc.images import decode, eight_bits
from twoafc.pictures import Pictures
from twoafc.report.verdict import judged

TOP = 12
"""Triplets shown."""
SIDE = 112
"""Longest side of a small picture, in pixels."""
QUALITY = 82
NUMBERS = ("d0", "d1", "n", "M", "P", "nll", "surprise", "by_chance")


@dataclass(frozen=True)
class Picture:
    """An image of a triplet: its part in it, its name, and the picture as the address of data; none where not known."""

    part: str
    name: str
    address: str | None


@dataclass(frozen=True)
class Surprise:
    """A triplet as a report shows it."""

    triplet: str
    group: str
    pictures: tuple[Picture, ...]
    d0: float
    d1: float
    n: int
    M: int
    P: float
    nll: float
    surprise: float
    by_chance: float


@dataclass(frozen=True)
class Surprises:
    """The triplets, whose they are, and how many of their images were found."""

    distance: str
    estimator: str
    rows: tuple[Surprise, ...]
    found: int


def surprises(results: Results, pictures: Pictures | None = None) -> Surprises | None:
    """Find what surprised the best distance most; None where no distance has a score, or triplets were counted."""
    ranked = judged(results.told)
    if not ranked or not (results.folder / "triplets.parquet").is_file():
        return None
    distance, estimator = ranked[0]["distance"], ranked[0]["estimator"]
    rows = surprising(results, distance, estimator=estimator, top=TOP).iter_rows(named=True)
    shown = tuple(_shown(row, pictures) for row in rows)
    found = sum(picture.address is not None for each in shown for picture in each.pictures)
    return Surprises(distance, estimator, shown, found)


def _shown(row: Mapping[str, Any], pictures: Pictures | None) -> Surprise:
    named = [(part, row[part]) for part in ("x0", "ref", "x1") if row.get(part)]
    return Surprise(
        triplet=str(row["triplet"]),
        group=str(row.get("group") or ""),
        pictures=tuple(Picture(part, name, _address(name, pictures)) for part, name in named),
        **{name: row[name] for name in NUMBERS},
    )


def _address(name: str, pictures: Pictures | None) -> str | None:
    """A small picture as data; None where there is no such image, or it cannot be read."""
    content = None if pictures is None else pictures.read(name)
    if content is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, on files that it reads all the same
        try:
            return thumbnail(decode(content, name))
        except DataError:
            return None


def thumbnail(pixels: np.ndarray[Any, Any]) -> str:
    """Make a small JPEG of an image of shape (3, H, W), as the address of data.

    Examples
    --------
    >>> thumbnail(np.zeros((3, 500, 300), dtype=np.uint8))[:27]
    'data:image/jpeg;base64,/9j/'
    """
    from PIL import Image

    image = Image.fromarray(np.moveaxis(eight_bits(pixels), 0, -1))
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"

"""Saved models: one .npz of plain arrays and a JSON card; reading one executes no code."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twoafc.arrays import Arrays
from twoafc.errors import DataError
from twoafc.files.reading import require_file
from twoafc.files.writing import whole_file

FORMAT = "twoafc model 2"
LARGEST = 2**30
"""Bytes that any model may unpack to, however small its file."""
PACKED = 64
"""How many times its size a larger file may unpack to: counts reach about ten, files made to fill memory a thousand."""
LEVEL = 4
"""Compression: twice as fast as the default of `numpy.savez_compressed`, and within 4 % of its size."""


def save_archive(
    path: str | Path, estimator: str, settings: Mapping[str, Any], arrays: Arrays, *, packed: bool = True
) -> None:
    """Write a model atomically; large arrays are written faster if not `packed`."""
    path = Path(path)
    card = {"format": FORMAT, "estimator": estimator, "settings": dict(settings)}
    card["sha256"] = _digest_of_archive(card, arrays)
    text = np.frombuffer(json.dumps(card).encode(), dtype=np.uint8)
    method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with whole_file(path) as partial, zipfile.ZipFile(partial, "w", method, compresslevel=LEVEL) as archive:
        for name, array in {"card": text, **arrays}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def read_archive(path: str | Path) -> tuple[str, dict[str, Any], Arrays]:
    """Read a model back: the estimator's name, its settings and its arrays.

    Raises `DataError` for a file that is missing, truncated, changed, too large or of another kind.
    """
    path = Path(path)
    require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if size > max(LARGEST, PACKED * path.stat().st_size):
                raise DataError(f"{path} is too large for a model; it unpacks to {size} bytes, {LARGEST} at most")
            if any(not member.filename.endswith(".npy") for member in members) or "card.npy" not in archive.namelist():
                raise DataError(f"{path} is not a twoafc model; it has no card")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        card = json.loads(arrays.pop("card").tobytes().decode())
    except DataError:
        raise
    except Exception as error:  # a damaged archive may raise anything
        raise DataError(f"{path} is not a readable twoafc model: {error}") from error
    version = card.get("format") if isinstance(card, dict) else None
    if version != FORMAT:
        raise DataError(f"{path} is not a twoafc model that this version reads; expected {FORMAT!r}, found {version!r}")
    if card.pop("sha256", None) != _digest_of_archive(card, arrays):
        raise DataError(f"{path} was changed after it was written; its contents do not match their checksum")
    return card["estimator"], card["settings"], arrays


def _digest_of_archive(card: Mapping[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(card, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()

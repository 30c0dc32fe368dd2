"""Published weights: where to look for them, and the check that a file holds what was published.

Weights are distributed under many file names, with or without further tensors, so a file is recognised by its tensors,
each of which must have the published shape and sha256. Nothing is downloaded here, and no other weights are accepted.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import math
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from twoafc.errors import DataError, first_line, require

Tensors = dict[str, Any]
Paths = str | Path | Sequence[str | Path] | None
T = TypeVar("T")

# The published archives have about 7 MB; larger files are not read in search of one.
LARGEST_ARCHIVE = 64 * 2**20

# The published files that each distance needs.
NEEDS: dict[str, tuple[str, ...]] = {
    "lpips_alex": ("alexnet", "lpips_alex_head"),
    "lpips_vgg": ("vgg16", "lpips_vgg_head"),
    "lpips_squeeze": ("squeezenet1_1", "lpips_squeeze_head"),
    "dists": ("vgg16", "dists_alpha_beta"),
    "pim_1": ("pim_1",),
    "pim_5": ("pim_5",),
}


@dataclass(frozen=True)
class Published:
    """A published file of weights."""

    name: str  # in this package
    file: str
    url: str
    bytes: int | None  # its size, if known
    digest: str  # such as "sha256 7be5..."
    installed: tuple[tuple[str, str], ...]  # packages that include the same tensors, and the path inside each
    # Shape and sha256 of each tensor to read; empty for an archive, which is recognised by its digest.
    tensors: Mapping[str, tuple[tuple[int, ...], str]]
    terms: str = ""  # its licence

    def __str__(self) -> str:
        size = "" if self.bytes is None else f"{self.bytes} bytes, "
        return f"{self.file}, {size}{self.digest}, from {self.url}"


class MismatchError(Exception):
    """A file that does not hold the published weights; `unrelated` if it does not even claim to."""

    def __init__(self, reason: str, *, unrelated: bool = False) -> None:
        super().__init__(reason)
        self.unrelated = unrelated


class UnreadableError(MismatchError):
    """A file that starts like one of torch's, but that torch cannot read."""


@cache
def published() -> dict[str, Published]:
    """Return the table of published weights by name.

    Examples
    --------
    >>> print(published()["lpips_alex_head"].file, published()["lpips_alex_head"].bytes)
    lpips_lin_v0.1_alex.pth 6009
    """
    table = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
    del table["about"]
    for row in table.values():
        row["installed"] = tuple(map(tuple, row["installed"]))
        row["tensors"] = {tensor: (tuple(shape), sha256) for tensor, (*shape, sha256) in row["tensors"].items()}
    return {name: Published(name, **row) for name, row in table.items()}


def network_tensors(distance: str, path: Paths = None) -> tuple[Tensors, dict[str, str]]:
    """Read all tensors that a distance needs, and the digests of the published files; see `tensors`."""
    files = NEEDS[distance]
    parameters = {key: tensor for file in files for key, tensor in tensors(file, path).items()}
    return parameters, {file: published()[file].digest for file in files}


def tensors(name: str, path: Paths = None) -> Tensors:
    """Read published tensors into float32 tensors on the CPU, each of them checked.

    A given path, or several, of files or of folders with files of any name, are the only places to look. By default:
    the folder TWOAFC_WEIGHTS, the cache of torch hub, and packages that include the file.
    """
    require("torch", extra="torch")
    wanted = published()[name]
    return _search(wanted, path, lambda file: read_tensors(file, wanted))


def archive(name: str, path: Paths = None) -> bytes:
    """Read a published archive, checked by its digest; for the places to look see `tensors`."""
    wanted = published()[name]
    return _search(wanted, path, lambda file: read_archive(file, wanted))


def read_tensors(file: Path, wanted: Published) -> Tensors:
    """Read the wanted tensors from a file of torch's, or raise `MismatchError`."""
    torch = require("torch", extra="torch")
    with file.open("rb") as stream:
        start = stream.read(2)
    if start not in (b"PK", b"\x80\x02") or _is_other_zip(file):
        raise MismatchError("not a file of torch's", unrelated=True)
    try:
        # Mapped: of a file of half a gigabyte only the convolutions are read.
        content = torch.load(file, weights_only=True, map_location="cpu", mmap=start == b"PK")
    except Exception as error:  # torch raises almost anything on a damaged file
        raise UnreadableError(f"torch cannot read it: {first_line(error)}") from error
    if not isinstance(content, dict) or not wanted.tensors.keys() <= content.keys():
        raise MismatchError("holds other tensors", unrelated=True)
    for tensor, (shape, _) in wanted.tensors.items():
        values = content[tensor]
        if not isinstance(values, torch.Tensor) or values.layout != torch.strided or tuple(values.shape) != shape:
            raise MismatchError("holds tensors of other shapes", unrelated=True)
    # Copied before the check, so that a file that changes meanwhile changes nothing.
    copies = {name: content[name].detach().clone(memory_format=torch.contiguous_format) for name in wanted.tensors}
    for tensor, (_, sha256) in wanted.tensors.items():
        if copies[tensor].dtype != torch.float32 or digest(copies[tensor].numpy()) != sha256:
            raise MismatchError(f"its {tensor} is not the published one")
    return copies


def read_archive(file: Path, wanted: Published) -> bytes:
    """Read an archive with the wanted digest, or raise `MismatchError`."""
    if file.stat().st_size > LARGEST_ARCHIVE:
        raise MismatchError("too large", unrelated=True)
    content = file.read_bytes()
    if not content.startswith(b"PK"):
        raise MismatchError("not an archive", unrelated=True)
    method, expected = wanted.digest.split()
    if hashlib.new(method, content).hexdigest() != expected:
        raise MismatchError(f"its {method} is not the published one", unrelated=file.name != wanted.file)
    return content


def _is_other_zip(file: Path) -> bool:
    """Return whether a file is a complete zip without the member that torch writes into each of its own."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as opened:
        return not any(name.endswith("data.pkl") for name in opened.namelist())


def digest(values: NDArray[Any]) -> str:
    """Sha256 of an array's values, little-endian and in C order on every machine.

    Examples
    --------
    >>> digest(np.zeros(1, dtype=np.float32))[:8]
    'df3f6198'
    """
    return hashlib.sha256(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data).hexdigest()


# Where weights are


def cache_folder() -> Path:
    """Folder in which torch hub stores its downloads."""
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


def excerpt_file(wanted: Published) -> Path:
    """Path of a file with the published tensors alone: not the published name, which other tools rely on."""
    return cache_folder() / f"twoafc-{wanted.name}{Path(wanted.file).suffix}"


def usual_places(wanted: Published) -> Iterator[tuple[str, list[Path]]]:
    """Yield the default places to look in, each with its files; the description of one without files says why."""
    folder = os.environ.get("TWOAFC_WEIGHTS")
    yield files_in(Path(folder).expanduser(), wanted) if folder else ("TWOAFC_WEIGHTS (not set)", [])
    cached = [cache_folder() / wanted.file, excerpt_file(wanted)]
    existing = [file for file in cached if file.is_file()]
    yield (str(cache_folder()), existing) if existing else (f"{cached[0]} (no such file)", [])
    for package, inside in wanted.installed:
        # The package is located without being imported: its own imports may be broken, or slow.
        spec = importlib.util.find_spec(package)
        homes = [Path(home) for home in (spec.submodule_search_locations or [])] if spec else []
        # DISTS_pytorch installs its file into the environment's own folder.
        files = [home / inside for home in homes] + [Path(sys.prefix) / Path(inside).name] * bool(homes)
        yield (
            f"package {package} ({'no file' if spec else 'not installed'})",
            [file for file in files if file.is_file()],
        )


def files_in(path: Path, wanted: Published) -> tuple[str, list[Path]]:
    """List a file, or the files of a folder: first the one with the published name, then by size."""
    if path.is_file():
        return str(path), [path]
    try:
        # Hidden files are incomplete downloads, or downloads that were refused.
        files = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
    except OSError as error:
        return f"{path} ({error.strerror})", []
    if not files:
        return f"{path} (an empty folder)", []
    return str(path), sorted(files, key=lambda file: (file.name != wanted.file, file.stat().st_size, file.name))


def _search(wanted: Published, path: Paths, read: Callable[[Path], T]) -> T:
    """Read the first matching file, or raise DataError with all that was tried and what is wanted."""
    paths = [path] if isinstance(path, str | Path) else path
    tried = []
    for place, files in usual_places(wanted) if paths is None else (files_in(Path(given), wanted) for given in paths):
        unrelated = 0
        for file in files:
            try:
                return read(file)
            except MismatchError as mismatch:
                if mismatch.unrelated and len(files) > 1:
                    unrelated += 1
                else:
                    tried.append(f"{file} ({mismatch})")
            except OSError as error:
                tried.append(f"{file} ({error.strerror})")
        if unrelated or not files:
            tried.append(f"{place} ({unrelated} files without it)" if unrelated else place)
    # Fetching a distance gets all files that it needs.
    distance = next((distance for distance, files in NEEDS.items() if wanted.name in files), wanted.name)
    raise DataError(
        f"the weights {wanted.name} are needed and not at hand; tried: {', '.join(tried)}; "
        f"wanted: {wanted}; run: twoafc fetch {distance}"
    )


# Checkpoints of TensorFlow, read without it

INDEX_END = (0xDB4775248B80FB57).to_bytes(8, "little")
FOOTER = 48
FLOAT32 = 1
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
Fields = dict[int, list[Any]]


def read_checkpoint(index: bytes, shards: Sequence[bytes], wanted: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """Read float32 variables of a TensorFlow checkpoint.

    The index is a sorted table in LevelDB's format, from a variable's name to a protocol buffer with its type, shape
    and position in a data file. Its CRC-32C checksums are not compared: the digest of the whole archive has been.
    `index` and `shards` are the contents of ``*.index`` and of ``*.data-0000i-of-0000n``, in order; `wanted` are names
    of variables without the suffix that they have on disk.
    """
    try:
        entries = {key: _fields(value) for key, value in _table(index)}
        header = entries.pop(b"", {})
        if _number(header, 1) != len(shards):
            raise DataError(f"the checkpoint has {_number(header, 1)} data files; {len(shards)} are at hand")
        if _number(header, 2) != 0:
            raise DataError("the checkpoint must be little-endian; it is big-endian")
        variables = {}
        for name in wanted:
            if (key := (name + SUFFIX).encode()) not in entries:
                raise DataError(f"the checkpoint has no variable {name}; it has {len(entries)} others")
            variables[name] = _variable(name, entries[key], shards)
        return variables
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DataError(f"the index of the checkpoint is damaged, or of another format: {error}") from error


def _variable(name: str, entry: Fields, shards: Sequence[bytes]) -> NDArray[np.float32]:
    dtype, shard, offset, size = (_number(entry, field) for field in (1, 3, 4, 5))
    if dtype != FLOAT32:
        raise DataError(f"variable {name} must be float32 (type {FLOAT32}); it has type {dtype}")
    # Field 2 is the shape, whose fields 2 are the sides, whose field 1 is the length.
    shape = tuple(_number(_fields(side), 1) for message in entry.get(2, []) for side in _fields(message).get(2, []))
    if size != 4 * math.prod(shape):
        raise DataError(f"variable {name} of shape {shape} must have {4 * math.prod(shape)} bytes; it has {size}")
    if shard >= len(shards) or offset + size > len(shards[shard]):
        raise DataError(f"variable {name} lies outside its data file, which is cut short")
    return np.frombuffer(shards[shard], "<f4", size // 4, offset).astype(np.float32).reshape(shape)


def _table(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    if index[-8:] != INDEX_END:
        raise ValueError("it does not end as an index does")
    footer = io.BytesIO(index[-FOOTER:])
    _, _, offset, size = (_varint(footer) for _ in range(4))
    for _, handle in _entries(index, offset, size):
        position = io.BytesIO(handle)
        yield from _entries(index, _varint(position), _varint(position))


def _entries(index: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block; a key is stored without the part that it shares with the one before."""
    if index[offset + size : offset + size + 1] != b"\0":
        raise ValueError("a block is compressed")
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
        if kind not in (0, 1, 2, 5):
            raise ValueError(f"a field has the unknown kind {kind}")
        size = {1: 8, 5: 4}.get(kind) or _varint(stream)
        value = size if kind == 0 else stream.read(size)
        fields.setdefault(number, []).append(value)
    return fields


def _number(fields: Fields, field: int) -> int:
    """Return a field that is a number; 0 is not stored."""
    return int(fields.get(field, [0])[-1])


def _varint(stream: io.BytesIO) -> int:
    """Read a whole number stored in groups of seven bits, the lowest first."""
    value = shift = 0
    while byte := stream.read(1):
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return value
    raise ValueError("it ends too early")

"""Published weights: where to look for them, and the check that a file is the published one.

Weights are distributed under many file names, with or without further tensors, so a file is recognised by its tensors,
each of which must have the published shape and sha256. Nothing is downloaded here, and no other weights are accepted.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """A file without the published weights; `unrelated` if it does not even claim to."""

    def __init__(self, reason: str, *, unrelated: bool = False) -> None:
        super().__init__(reason)
        self.unrelated = unrelated


class UnreadableError(MismatchError):
    """A file that starts like one of torch's, but that torch cannot read."""


@cache
def published() -> dict[str, Published]:
    """Return the table of published weights by name."""
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
    return _search(published()[name], path, read_tensors)


def archive(name: str, path: Paths = None) -> bytes:
    """Read a published archive, checked by its digest; for the places to look see `tensors`."""
    return _search(published()[name], path, read_published)


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
        raise MismatchError("has other tensors", unrelated=True)
    for tensor, (shape, _) in wanted.tensors.items():
        values = content[tensor]
        if not isinstance(values, torch.Tensor) or values.layout != torch.strided or tuple(values.shape) != shape:
            raise MismatchError("has tensors of other shapes", unrelated=True)
    # Copied before the check, so that a file that changes meanwhile changes nothing.
    copies = {name: content[name].detach().clone(memory_format=torch.contiguous_format) for name in wanted.tensors}
    for tensor, (_, sha256) in wanted.tensors.items():
        if copies[tensor].dtype != torch.float32 or digest(copies[tensor].numpy()) != sha256:
            raise MismatchError(f"its {tensor} is not the published one")
    return copies


def read_published(file: Path, wanted: Published) -> bytes:
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
    try:
        with zipfile.ZipFile(file) as opened:
            return not any(name.endswith("data.pkl") for name in opened.namelist())
    except (zipfile.BadZipFile, NotImplementedError):  # damaged, or of torch's old format
        return False


def digest(values: NDArray[Any]) -> str:
    """Sha256 of an array's values, little-endian and in C order on every machine."""
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


def _search(wanted: Published, path: Paths, read: Callable[[Path, Published], T]) -> T:
    """Read the first matching file, or raise DataError with all that was tried and what is wanted."""
    paths = [path] if isinstance(path, str | Path) else path
    tried = []
    for place, files in usual_places(wanted) if paths is None else (files_in(Path(given), wanted) for given in paths):
        unrelated = 0
        for file in files:
            try:
                return read(file, wanted)
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

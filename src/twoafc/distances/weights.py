"""Published weights: where they are looked for, and the proof that what was found is what was published.

They come in files of many names and extents, so a file is known by its tensors, each of which must have the published
shape and sha256. Nothing is ever downloaded here, and nothing else is ever taken instead.
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

from twoafc.errors import DataError, require

Tensors = dict[str, Any]
Paths = str | Path | Sequence[str | Path] | None
T = TypeVar("T")

# The published archives have about 7 MB; no larger file is read in search of one.
LARGEST_ARCHIVE = 64 * 2**20

# The published files that each distance is made of.
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
    """A published file of weights.

    Parameters
    ----------
    name : str
        What this package calls it.
    file, url, bytes, digest : str, str, int or None, str
        The published file's name, source, size where it is known, and digest, such as ``sha256 7be5...``.
    installed : tuple of pairs of str
        Packages that bring the same tensors along, and where in them.
    tensors : mapping of name to (shape, sha256)
        The tensors that are read from it; empty for an archive, which is known by its digest.
    terms : str
        Its licence, in a word.
    """

    name: str
    file: str
    url: str
    bytes: int | None
    digest: str
    installed: tuple[tuple[str, str], ...]
    tensors: Mapping[str, tuple[tuple[int, ...], str]]
    terms: str = ""

    def __str__(self) -> str:
        size = "" if self.bytes is None else f"{self.bytes} bytes, "
        return f"{self.file}, {size}{self.digest}, from {self.url}"


class Unfit(Exception):  # noqa: N818 - not an error of the caller's: the search goes on
    """A file that is not the one sought; `foreign` if it does not even claim to be."""

    def __init__(self, reason: str, *, foreign: bool = False) -> None:
        super().__init__(reason)
        self.foreign = foreign


class Unreadable(Unfit):
    """A file of torch's, by its first bytes, that torch cannot read: whose it is, only its name can tell."""


@cache
def published() -> dict[str, Published]:
    """Give the table of published weights by name.

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


def tensors(name: str, path: Paths = None) -> Tensors:
    """Read published tensors into float32 tensors on the CPU, checked one by one.

    Parameters
    ----------
    name : str
        A name of `published`, such as ``"alexnet"``.
    path : path or sequence of paths, optional
        Files, or folders with files of any name, to look in and nowhere else. By default: the folder TWOAFC_WEIGHTS,
        the cache of torch hub, and packages that bring the file along.
    """
    require("torch", extra="torch")
    wanted = published()[name]
    return _search(wanted, path, lambda file: read_tensors(file, wanted))


def archive(name: str, path: Paths = None) -> bytes:
    """Read a published archive, checked by its digest; the parameters are those of `tensors`."""
    wanted = published()[name]
    return _search(wanted, path, lambda file: read_archive(file, wanted))


def read_tensors(file: Path, wanted: Published) -> Tensors:
    """Read the wanted tensors of a file of torch's, or raise `Unfit`."""
    torch = require("torch", extra="torch")
    with file.open("rb") as stream:
        start = stream.read(2)
    if start not in (b"PK", b"\x80\x02") or _other_archive(file):
        raise Unfit("not a file of torch's", foreign=True)
    try:
        # Mapped, a file of half a gigabyte gives up its convolutions without being read to its end.
        found = torch.load(file, weights_only=True, map_location="cpu", mmap=start == b"PK")
    except Exception as error:  # a broken file may raise almost anything in there
        raise Unreadable(f"torch cannot read it: {(str(error) or repr(error)).splitlines()[0]}") from error
    if not isinstance(found, dict) or not wanted.tensors.keys() <= found.keys():
        raise Unfit("holds other tensors", foreign=True)
    for tensor, (shape, _) in wanted.tensors.items():
        values = found[tensor]
        if not isinstance(values, torch.Tensor) or values.layout != torch.strided or tuple(values.shape) != shape:
            raise Unfit("holds tensors of other shapes", foreign=True)
    # Copied before the check, so that a file changed meanwhile changes nothing.
    kept = {tensor: found[tensor].detach().clone(memory_format=torch.contiguous_format) for tensor in wanted.tensors}
    for tensor, (_, sha256) in wanted.tensors.items():
        if kept[tensor].dtype != torch.float32 or digest(kept[tensor].numpy()) != sha256:
            raise Unfit(f"its {tensor} is not the published one")
    return kept


def read_archive(file: Path, wanted: Published) -> bytes:
    """Read an archive with the wanted digest, or raise `Unfit`."""
    if file.stat().st_size > LARGEST_ARCHIVE:
        raise Unfit("too large", foreign=True)
    content = file.read_bytes()
    if not content.startswith(b"PK"):
        raise Unfit("not an archive", foreign=True)
    method, expected = wanted.digest.split()
    if hashlib.new(method, content).hexdigest() != expected:
        raise Unfit(f"its {method} is not the published one", foreign=file.name != wanted.file)
    return content


def _other_archive(file: Path) -> bool:
    """Whether a file is a whole zip without what torch puts into each of its own."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return not any(name.endswith("data.pkl") for name in archive.namelist())


def digest(values: np.ndarray[Any, Any]) -> str:
    """Sha256 of an array's values, little-endian and in C order, whatever the machine.

    Examples
    --------
    >>> digest(np.zeros(1, dtype=np.float32))[:8]
    'df3f6198'
    """
    return hashlib.sha256(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data).hexdigest()


def cache_folder() -> Path:
    """Folder where torch hub keeps what it has downloaded."""
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


def excerpt_file(wanted: Published) -> Path:
    """Where a file with the published tensors alone is kept: not under the published name, which other tools trust."""
    return cache_folder() / f"twoafc-{wanted.name}{Path(wanted.file).suffix}"


def _search(wanted: Published, path: Paths, read: Callable[[Path], T]) -> T:
    """Read the first fit file, or raise DataError with all that was tried and what is wanted."""
    paths = [path] if isinstance(path, str | Path) else path
    tried = []
    for place, files in usual(wanted) if paths is None else (within(Path(given), wanted) for given in paths):
        refused = 0
        for file in files:
            try:
                return read(file)
            except Unfit as unfit:
                if unfit.foreign and len(files) > 1:
                    refused += 1
                else:
                    tried.append(f"{file} ({unfit})")
            except OSError as error:
                tried.append(f"{file} ({error.strerror})")
        if refused or not files:
            tried.append(f"{place} ({refused} files without it)" if refused else place)
    raise DataError(
        f"the weights {wanted.name} are needed and not at hand; tried: {', '.join(tried)}; "
        f"wanted: {wanted}; run: twoafc fetch {wanted.name}"
    )


def usual(wanted: Published) -> Iterator[tuple[str, list[Path]]]:
    """Give the places to look in when none is named, each with its files; without files, the place says why."""
    folder = os.environ.get("TWOAFC_WEIGHTS")
    yield within(Path(folder).expanduser(), wanted) if folder else ("TWOAFC_WEIGHTS (not set)", [])
    cached = [cache_folder() / wanted.file, excerpt_file(wanted)]
    there = [file for file in cached if file.is_file()]
    yield (str(cache_folder()), there) if there else (f"{cached[0]} (no such file)", [])
    for package, inside in wanted.installed:
        # The package is found without being imported: its own imports may be broken, or slow.
        spec = importlib.util.find_spec(package)
        homes = [Path(home) for home in (spec.submodule_search_locations or [])] if spec else []
        # DISTS_pytorch puts its file into the environment's own folder.
        places = [home / inside for home in homes] + [Path(sys.prefix) / Path(inside).name] * bool(homes)
        yield (
            f"package {package} ({'no file' if spec else 'not installed'})",
            [file for file in places if file.is_file()],
        )


def within(path: Path, wanted: Published) -> tuple[str, list[Path]]:
    """Give a file, or the files of a folder: first the one with the published name, then the smaller ones."""
    if path.is_file():
        return str(path), [path]
    try:
        # Hidden ones are half of a download, or were refused when they came.
        files = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
    except OSError as error:
        return f"{path} ({error.strerror})", []
    if not files:
        return f"{path} (an empty folder)", []
    return str(path), sorted(files, key=lambda file: (file.name != wanted.file, file.stat().st_size, file.name))

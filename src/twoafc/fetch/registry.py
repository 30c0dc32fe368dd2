"""What `twoafc fetch` knows of: published weights, and the archives of data sets; all of it data, in two JSON files."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twoafc.distances import ALIASES, DISTANCES
from twoafc.distances.weights import NEEDS, Published, published


@dataclass(frozen=True)
class Archive:
    """An archive of a data set.

    Parameters
    ----------
    name : str
        What this package calls it.
    file, url, bytes, roughly, digest : str, str, int or None, int or None, str or None
        The published file's name, source, size where it is known exactly and where it is known roughly, and digest,
        such as ``sha256 4148...``.
    stated_by : str or None
        Whose word the digest is.
    terms : str
        Its licence, in a word.
    folder, place, marker : str, str, str or None
        Below the default folder for data sets, the data set's own; what the folder that holds the marker becomes below
        that, ``"."`` if its entries are to lie there directly; without a marker, all that the archive holds.
    opens : str or None
        What to hand to ``twoafc measure``, below the data set's folder.
    most_files, most_bytes : int
        More than the archive can honestly hold.
    group : str or None
        The name of a data set that comes in several archives.
    """

    name: str
    file: str
    url: str
    bytes: int | None
    roughly: int | None
    digest: str | None
    stated_by: str | None
    terms: str
    folder: str
    place: str
    marker: str | None
    opens: str | None
    most_files: int
    most_bytes: int
    group: str | None = None


File = Published | Archive
Files = Mapping[str, File]


@cache
def known() -> dict[str, File]:
    """Give every file that can be fetched, by name: weights first, then data sets.

    Examples
    --------
    >>> known()["bapps_val"].file, known()["alexnet"].bytes
    ('twoafc_val.tar.gz', 244408911)
    """
    table = json.loads(Path(__file__).with_name("datasets.json").read_text(encoding="utf-8"))
    del table["about"]
    return {**published(), **{name: Archive(name, **row) for name, row in table.items()}}


def chosen(names: Iterable[str] | None = None, files: Files | None = None) -> list[File]:
    """Give the files that names stand for, each once: a file, what a distance needs, a data set, ``"weights"``.

    Without names, all files there are.

    Examples
    --------
    >>> [file.name for file in chosen(["lpips", "lpips_vgg", "vgg16"])]
    ['alexnet', 'lpips_alex_head', 'vgg16', 'lpips_vgg_head']
    """
    files = known() if files is None else files
    if names is None:
        return list(files.values())
    found: dict[str, File] = {}
    for name in names:
        found |= {part: files[part] for part in _parts(name, files)}
    return list(found.values())


def _parts(name: str, files: Files) -> Iterable[str]:
    if name in files:
        return [name]
    if name == "weights":
        return [part for part, file in files.items() if isinstance(file, Published)]
    full = ALIASES.get(name, name)
    if full in NEEDS:
        return NEEDS[full]
    if full in DISTANCES:
        raise ValueError(f"{name} needs no files; it runs as it is")
    parts = [part for part, file in files.items() if isinstance(file, Archive) and file.group == name]
    if parts:
        return parts
    groups = {file.group for file in files.values() if isinstance(file, Archive) and file.group}
    names = [*files, *NEEDS, *ALIASES, *sorted(groups), "weights"]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; run twoafc fetch for a list"
    raise ValueError(f"there is no file, distance or data set {name!r} to fetch{hint}")


def size_of(file: File) -> int | None:
    """Size of a file in bytes, exactly or roughly, where it is known."""
    return file.bytes or (file.roughly if isinstance(file, Archive) else None)


def worth(file: File) -> str:
    """Say in a few words what the digest in the table is worth.

    Examples
    --------
    >>> worth(known()["bapps_val"]), worth(known()["clic2021_valid"])
    ('sha256 as a third party states it', 'no digest is published')
    """
    if file.digest is None:
        return "no digest is published"
    said = f"{file.stated_by} states" if isinstance(file, Archive) else "this package records"
    return f"{file.digest.split()[0]} as {said} it"

"""Files of one stem in several folders belong together; each must be in every folder, and nothing else may be."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from twoafc.errors import DataError

JUNK = ("thumbs.db", "desktop.ini")


def paired(folders: Mapping[Path, tuple[str, ...]]) -> dict[Path, list[str]]:
    """List folders and pair their files by stem: row by row, in the order of stems, the files of one stem.

    Parameters
    ----------
    folders : mapping of folder to the endings that its files may have

    Returns
    -------
    mapping of folder to the names of its files
    """
    listed = {folder: _by_stem(folder, endings) for folder, endings in folders.items()}
    everywhere = set().union(*listed.values())
    for folder, files in listed.items():
        lost = sorted(everywhere - files.keys())
        if lost:
            other = next(each for each, names in listed.items() if lost[0] in names)
            raise DataError(
                f"every stem must be in each folder; {other / listed[other][lost[0]]} has no partner in {folder} "
                f"({len(lost)} of {len(everywhere)} stems are missing there)"
            )
    if not everywhere:
        raise DataError(f"no files in {next(iter(folders))}")
    stems = sorted(everywhere)
    return {folder: [files[stem] for stem in stems] for folder, files in listed.items()}


def stem_of(name: str) -> str:
    """Give a file's name without its ending.

    Examples
    --------
    >>> stem_of("000017.png")
    '000017'
    """
    return os.path.splitext(name)[0]


def _by_stem(folder: Path, endings: tuple[str, ...]) -> dict[str, str]:
    """Map stems to names; files that systems leave behind are passed over, any other foreign file is refused."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise DataError(f"no such folder: {folder}") from error
    found: dict[str, str] = {}
    for name in names:
        if name.startswith(".") or name.lower() in JUNK:
            continue
        stem, ending = os.path.splitext(name)
        if ending.lower() not in endings:
            raise DataError(f"a foreign file: {folder / name}; expected names that end in {' or '.join(endings)}")
        if stem in found:
            raise DataError(f"a stem must be one file; {folder} has {found[stem]} and {name}")
        found[stem] = name
    return found

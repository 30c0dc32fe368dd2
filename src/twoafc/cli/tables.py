"""The tables that commands are given, by role: read, checked for changes, and named on the card of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoafc.cli.options import Several, renaming

if TYPE_CHECKING:
    from twoafc.diagnostics import Finding
    from twoafc.results import Result
    from twoafc.table import Votes


def by_role(train: Path, test: Path | None) -> dict[str, list[Path]]:
    """Return the files of each table that is given."""
    return {role: [path] for role, path in (("train", train), ("test", test)) if path is not None}


def read_tables(paths: Mapping[str, Sequence[Path]], rename: Several) -> dict[str, Votes]:
    """Read the table of each role."""
    from twoafc.table import read_votes

    return {role: read_votes(files, rename=renaming(rename)) for role, files in paths.items()}


def changed_tables(paths: Mapping[str, Sequence[Path]]) -> list[Finding]:
    """Warn of tables of `twoafc measure` that were changed since they were measured."""
    # Only these may have a card: it is in a Parquet file, or beside a CSV file. Finding out more takes slow imports.
    files = [(role, path) for role, of_role in paths.items() for path in of_role]
    files = [(role, path) for role, path in files if path.suffix == ".parquet" or Path(f"{path}.json").is_file()]
    if not files:
        return []
    from twoafc.diagnostics import Finding
    from twoafc.measurement import is_changed

    evidence, remedy = "its checksum differs from the recorded one", "measure again, unless it was changed on purpose"
    return [
        Finding("changed", "warning", role, None, f"{path} was changed since it was measured", evidence, remedy)
        for role, path in files
        if is_changed(path)
    ]


def with_files(result: Result, paths: Mapping[str, Sequence[Path]], changed: Sequence[Finding]) -> Result:
    """Name the files of tables on the card of a result, and add the findings about them."""
    from twoafc.results import describe_files

    for role, files in paths.items():
        result.card["data"][role] |= describe_files(*files)
    return result.replace(findings=[*changed, *result.findings])


def refuse_folds(test: Any, folds: int | None) -> None:
    """Raise a `ValueError` if folds are given together with a test table."""
    if test and folds is not None:
        raise ValueError("--folds cross-validates a single table; there is a test table too")

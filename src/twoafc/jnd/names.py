"""Which columns of a table are distances of pairs, and whether a file holds pairs or triplets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from twoafc.columns import UNNAMED
from twoafc.errors import DataError

OF_TRIPLETS = re.compile(r"(.+_)?d[01]")


def pair_names(columns: Sequence[str]) -> dict[str, str]:
    """Find the distances of pairs: NAME_d, or plain d.

    Examples
    --------
    >>> pair_names(["n", "M", "lpips_d", "ssim_d"])
    {'lpips': 'lpips_d', 'ssim': 'ssim_d'}
    """
    found: dict[str, str] = {}
    for column in columns:
        if column == "_d":
            raise DataError("a distance needs a name before its _d; found the column _d")
        if column == "d" or column.endswith("_d"):
            name = column[:-2] or UNNAMED
            if name in found:
                raise DataError(f"two distances are called {name}; plain d goes by that name, so give it another")
            found[name] = column
    return found


def holds_pairs(columns: Sequence[str]) -> bool:
    """Tell whether columns are those of pairs (NAME_d) rather than of triplets (NAME_d0 and NAME_d1); not of both.

    Examples
    --------
    >>> holds_pairs(["n", "M", "d"]), holds_pairs(["n", "M", "d0", "d1"])
    (True, False)
    """
    of_pairs = list(pair_names(columns).values())
    of_triplets = [column for column in columns if OF_TRIPLETS.fullmatch(column)]
    if of_pairs and of_triplets:
        raise DataError(
            f"a table has pairs (NAME_d) or triplets (NAME_d0 and NAME_d1), since n counts other votes in each; "
            f"found {of_pairs[0]} and {of_triplets[0]}"
        )
    return bool(of_pairs)


def file_holds_pairs(path: str | Path) -> bool:
    """Tell from the head of a file whether it holds pairs; of a file that cannot be read, no."""
    path = Path(path)
    try:
        if path.name.lower().endswith((".parquet", ".pq")):
            columns = list(pl.read_parquet_schema(path))
        else:
            columns = _header(path)
    except (OSError, UnicodeDecodeError, EOFError, pl.exceptions.PolarsError):
        return False  # whoever reads it whole says what is wrong with it
    try:
        return holds_pairs(columns)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _header(path: Path) -> list[str]:
    import gzip

    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig") as file:
        line = next((line for line in file if line.strip()), "")
    return [name.strip().strip('"').strip() for name in re.split("[,;\t]", line)]

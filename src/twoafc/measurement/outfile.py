"""The table that a measurement writes, with its card: inside a Parquet file, beside a CSV file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from twoafc.errors import DataError
from twoafc.measurement.files import write_text, write_whole
from twoafc.measurement.traces import TraceArray, as_text, from_text
from twoafc.table import read_frame

KEY, TRACES = "twoafc", "twoafc.traces"
"""Of what a Parquet table says of itself: the card, and the traces of its images."""
Card = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Earlier:
    """An earlier table.

    Parameters
    ----------
    frame : polars.DataFrame
        As it is.
    card : mapping
        What made it.
    traces : array of uint64, shape (images,)
        The files that were measured; see `twoafc.measurement.traces`.
    """

    frame: pl.DataFrame
    card: Card
    traces: TraceArray

    @property
    def identities(self) -> dict[str, Any]:
        """Of each distance what it was measured with."""
        return {name: told["identity"] for name, told in self.card["distances"].items()}

    @property
    def makers(self) -> dict[str, list[dict[str, str]]]:
        """Of each distance which machines and libraries measured it."""
        return {name: list(told["made"]) for name, told in self.card["distances"].items()}


def beside(path: Path, what: str) -> Path:
    """Name a file that belongs to a table.

    Examples
    --------
    >>> beside(Path("table.parquet"), "parts").name
    'table.parquet.parts'
    """
    return path.with_name(f"{path.name}.{what}")


def check_name(path: Path) -> None:
    """Refuse a table that could not be written, before any work is done."""
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"a table is written as .csv or .parquet; found {path.name}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a table, .csv or .parquet")
    if not path.parent.is_dir():
        raise OSError(f"no such folder: {path.parent}")


def read_earlier(path: Path, data: str) -> Earlier | None:
    """Read an earlier table of the same data; None where there is none.

    Parameters
    ----------
    data : str
        Fingerprint of the data set.
    """
    if not path.exists():
        return None
    card, traces = _card(path) or (None, "")
    if card is None:
        raise DataError(f"{path} has no card that says what it holds; name another file, or remove it")
    if card["data"]["fingerprint"] != data:
        raise DataError(f"{path} was measured on other data than these; name another file, or remove it")
    return Earlier(read_frame(path)[0], card, from_text(traces))


def write(frame: pl.DataFrame, path: Path, card: Card, traces: TraceArray) -> None:
    """Write a table with its card; whenever it is interrupted, one of the two tables stands with its own card."""
    if path.suffix == ".parquet":
        write_whole(frame, path, {KEY: json.dumps(card), TRACES: as_text(traces)})
        return
    digest = hashlib.sha256(frame.write_csv().encode()).hexdigest()
    new = {**card, "sha256": digest, "traces": as_text(traces)}
    old, text = (_card(path) if path.exists() else None) or (None, "")
    # The new card comes first and keeps the old one, until the table that it tells of is there.
    write_text(_json(new | {"before": old and old | {"traces": text}}), beside(path, "json"))
    write_whole(frame, path, {})
    write_text(_json(new), beside(path, "json"))


def _card(path: Path) -> tuple[Card, str] | None:
    """Read the card of a table, and its traces; None where it has none, or one that is not its own."""
    try:
        if path.suffix == ".parquet":
            metadata = pl.read_parquet_metadata(path)
            return _checked(json.loads(metadata[KEY]) | {"traces": metadata[TRACES]})
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        told = json.loads(beside(path, "json").read_text(encoding="utf-8"))
        known = next((card for card in (told, told.get("before")) if card and card["sha256"] == digest), None)
        return None if known is None else _checked(known)
    except (pl.exceptions.PolarsError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _checked(card: Any) -> tuple[Card, str]:
    """Hold a card to the form that it is read by, and part it from its traces."""
    if not isinstance(card["data"]["fingerprint"], str):
        raise TypeError("a fingerprint is text")
    for told in card["distances"].values():
        dict(told["identity"]), list(told["made"])
    from_text(card["traces"])
    return {name: told for name, told in card.items() if name not in ("before", "traces")}, card["traces"]


def _json(card: Mapping[str, Any]) -> str:
    return json.dumps(card, indent=1, ensure_ascii=False) + "\n"

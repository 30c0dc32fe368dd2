"""What is known of the items, put back into the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.datasets import Dataset
from twoafc.errors import DataError
from twoafc.measurement.outfile import Earlier
from twoafc.measurement.parts import Values
from twoafc.measurement.plan import Plan


@dataclass(frozen=True)
class Failure:
    """A row that is not in the table.

    Parameters
    ----------
    triplet : str
        Its name.
    file : str
        The image to blame; empty where none is.
    reason : str
        Why it could not be measured.
    """

    triplet: str
    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.triplet}: {self.file}: {self.reason}" if self.file else f"{self.triplet}: {self.reason}"


@dataclass(frozen=True)
class ItemFailure:
    """An item that could not be measured: its number, the image to blame, and why."""

    item: int
    file: str
    reason: str


def columns(plan: Plan, name: str) -> dict[str, tuple[NDArray[np.int64], int]]:
    """Give the columns of a distance, each with its rows' items and slot."""
    return {f"{name}_{suffix}": place for suffix, place in plan.places.items()}


def check_columns(data: Dataset, plan: Plan, names: Iterable[str]) -> None:
    """Refuse a distance whose columns the data set has already."""
    for name in names:
        for column in columns(plan, name):
            if column in data.table.columns:
                raise DataError(f"the data set has a column {column} already; measure {name} by another name")


def from_earlier(plan: Plan, earlier: Earlier) -> Values:
    """Take what an earlier table knows back to the items."""
    place = pl.DataFrame({"triplet": plan.data.table["triplet"], "row": np.arange(len(plan.data))})
    joined = earlier.frame.select("triplet").join(place, on="triplet", how="left", maintain_order="left")
    unknown = joined.filter(pl.col("row").is_null())["triplet"]
    if len(unknown):
        raise DataError(f"the earlier table has a triplet {unknown[0]!r}, which the data set has not")
    rows = joined["row"].to_numpy()
    values: Values = {}
    for name in earlier.identities:
        known = np.full((len(plan), plan.slots), np.nan)
        for column, (item, slot) in columns(plan, name).items():
            if column not in earlier.frame.columns:
                raise DataError(f"the earlier table has no column {column}, of which its card tells")
            known[item[rows], slot] = earlier.frame[column].cast(pl.Float64).to_numpy()
        values[name] = known
    return values


def complete_rows(plan: Plan, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Tell which rows have all their distances."""
    whole = np.ones(len(plan.data), dtype=np.bool_)
    for known in values.values():
        for item, slot in plan.places.values():
            whole &= ~np.isnan(known[item, slot])
    return whole


def table(plan: Plan, values: Mapping[str, NDArray[np.float64]], rows: NDArray[np.bool_]) -> pl.DataFrame:
    """Make the table of some rows, in the data set's order."""
    found = plan.data.table.filter(pl.Series(rows))
    made = [
        pl.Series(column, values[name][item[rows], slot])
        for name in values
        for column, (item, slot) in columns(plan, name).items()
    ]
    return found.hstack(made)


def traces(plan: Plan, known: NDArray[np.uint64], rows: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Keep the traces of the images of some rows; 0 elsewhere."""
    kept = np.zeros_like(known)
    for item, _ in plan.places.values():
        images = plan.items[item[rows]]
        kept[images] = known[images]
    return kept


def rows_of(plan: Plan, items: Iterable[ItemFailure]) -> NDArray[np.bool_]:
    """Tell which rows have a failed item."""
    rows = np.zeros(len(plan.data), dtype=np.bool_)
    for failed in items:
        rows[plan.rows_of(failed.item)] = True
    return rows


def rows_failed(plan: Plan, rows: NDArray[np.bool_], items: Iterable[ItemFailure], table: Path) -> list[Failure]:
    """Say of some rows why they could not be measured."""
    reasons: dict[int, tuple[str, str]] = {}
    for failed in items:
        for row in plan.rows_of(failed.item).tolist():
            reasons.setdefault(row, (failed.file, failed.reason))
    other = ("", f"not all distances of {table.name} are known of it; name all of them to bring it back")
    names = plan.data.table["triplet"]
    return [Failure(str(names[row]), *reasons.get(row, other)) for row in np.flatnonzero(rows).tolist()]


def left_over(
    plan: Plan, values: Mapping[str, NDArray[np.float64]], names: set[str], rows: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Values]:
    """Find what is known and not in the table: values of rows that are left out, and of other distances."""
    there = np.zeros(len(plan), dtype=np.bool_)
    for item, _ in plan.places.values():
        there[item[rows]] = True
    kept = {name: np.where(there[:, None] & (name in names), np.nan, known) for name, known in values.items()}
    some = {name: known for name, known in kept.items() if not np.isnan(known).all()}
    marked = [~np.isnan(known).all(axis=1) for known in some.values()]
    chosen = np.flatnonzero(np.any(marked, axis=0)) if marked else np.zeros(0, dtype=np.int64)
    return chosen, {name: known[chosen] for name, known in some.items()}

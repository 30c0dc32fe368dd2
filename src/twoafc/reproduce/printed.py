"""What the paper prints: its tables, its slips, its arithmetic, and its data sets, against which ours are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from twoafc.table import Triplets

HEADINGS = {"euclidean": "Euclidean", "nlpd": "NLPD", "ssim": "SSIM", "pim": "PIM", "lpips": "LPIPS", "dists": "DISTS"}
"""The paper's six distances, in the order of its tables, and their names there."""
SETS = {"bapps": "BAPPS", "clic": "CLIC 2021"}
SPLITS = {"train": "training set", "test": "test set"}
TOLERANCE = 0.01
"""A split or a family is complete if its number of triplets differs from the paper's by at most this share."""


@dataclass(frozen=True)
class Slip:
    """Something that the paper prints wrongly, or that contradicts itself: where, what, and what is right."""

    id: str
    where: str
    says: str
    holds: str


@dataclass(frozen=True)
class PrintedRow:
    """One row of a printed table; its values are in the order of `HEADINGS`."""

    estimator: str  # "distance" is none: the distance alone decides
    measure: str
    split: str
    values: list[float]
    sd: list[float] | None = None  # over the paper's ten runs
    instead: list[float] | None = None  # the right values, if the row is printed wrongly
    slips: Mapping[str, str] = field(default_factory=dict)  # by distance, the id of a slip


@dataclass(frozen=True)
class PrintedTable:
    """A printed table of distances (columns) by estimators and measures (rows)."""

    name: str
    where: str
    set: str
    caption: str
    rows: list[PrintedRow]


@cache
def document() -> dict[str, Any]:
    """Read the file of printed values."""
    return dict(json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8")))


def slips() -> tuple[Slip, ...]:
    """List the slips, in the order of their numbers."""
    return tuple(Slip(**row) for row in document()["slips"])


def slip_number(id: str) -> int:
    """Number a slip, from 1."""
    return [slip.id for slip in slips()].index(id) + 1


@cache
def printed_tables() -> dict[str, PrintedTable]:
    """Return the tables of distances by measures, by name."""
    return {
        name: PrintedTable(name, **{**table, "rows": [PrintedRow(**row) for row in table["rows"]]})
        for name, table in document()["tables"].items()
    }


@dataclass(frozen=True)
class Aggregate:
    """Table 1 for one distance and measure, and the same pooled from the table by distortion.

    `by_true` weights the six distortions by their true numbers of triplets, `by_printed` by the printed numbers.
    """

    distance: str
    measure: str
    table_1: float
    by_true: float
    by_printed: float


def aggregates() -> list[Aggregate]:
    """Pool the paper's values by distortion over triplets, as a check on its arithmetic and on ours.

    Examples
    --------
    >>> next(row for row in aggregates() if (row.distance, row.measure) == ("lpips", "score_2afc"))
    Aggregate(distance='lpips', measure='score_2afc', table_1=68.94, by_true=68.93..., by_printed=67.34...)
    """
    table = document()["by_distortion"]
    first = {row.measure: row.values for row in printed_tables()["bapps"].rows if row.estimator == "density"}
    return [
        Aggregate(
            row["distance"],
            row["measure"],
            first[row["measure"]][list(HEADINGS).index(row["distance"])],
            float(np.average(row["values"], weights=table["triplets"])),
            float(np.average(row["values"], weights=table["triplets_as_printed"])),
        )
        for row in table["rows"]
    ]


@dataclass(frozen=True)
class DataMatch:
    """Which parts of a data set are the same as in the paper, so that scores on them can be compared."""

    splits: frozenset[str] = frozenset()  # those of train and test that are present and complete
    families: frozenset[str] = frozenset()  # distortions of the test set that are complete
    warnings: tuple[str, ...] = ()  # what is missing, and what is therefore not compared

    @property
    def complete(self) -> bool:
        """Whether all data are as in the paper."""
        return self.splits == frozenset(SPLITS)

    def compares(self, estimator: str, split: str, group: str = "all") -> bool:
        """Return whether a score depends on the same data as the paper's; P is always fitted to the training set."""
        if "train" not in self.splits and (split == "train" or estimator != "distance"):
            return False
        return split == "train" or ("test" in self.splits if group in ("all", "mean") else group in self.families)


def match_data(name: str, tables: Mapping[str, Triplets], *, limited: bool = False) -> DataMatch:
    """Compare the numbers of triplets of bapps or clic with the paper's; under a limit, fewer need no warning."""
    title, data = SETS[name], document()["data"][name]
    train_M, test_M = data["train"]["M"], data["test"]["M"]
    warnings = []
    if "test" not in tables:
        warnings.append(
            f"{title} has no test set here: test scores are cross-validated on the training set (M = {train_M}, not "
            f"{test_M}) and not compared with the paper's."
        )
    if "train" not in tables:
        warnings.append(
            f"{title} has no training set here: P is cross-validated on the test set, which also replaces the training "
            f"set (M = {test_M}, not {train_M}); only the distance alone is compared with the paper's."
        )
    splits, families = set(), frozenset[str]()
    for split, table in tables.items():
        expected = data[split].get("families", {})
        counts = dict(table.labels["group"].value_counts().iter_rows()) if "group" in table.labels.columns else {}
        complete = frozenset(family for family, count in expected.items() if _is_near(counts.get(family, 0), count))
        families = complete if split == "test" else families
        if len(complete) == len(expected) and _is_near(len(table), data[split]["count"]):
            splits.add(split)
            continue
        missing = [family for family in expected if family not in counts]
        if missing or not limited:
            lost = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; " if missing else ""
            warnings.append(
                f"{title}, {SPLITS[split]}: {lost}{len(table):,} of the paper's {data[split]['triplets']} triplets; "
                "values that depend on it are not compared with the paper's."
            )
    return DataMatch(frozenset(splits), families, tuple(warnings))


def _is_near(count: int, expected: int | None) -> bool:
    """Compare a number of triplets with the paper's; where that is not printed, there must be some."""
    return count > 0 if expected is None else abs(count - expected) <= TOLERANCE * expected

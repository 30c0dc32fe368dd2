"""The paper's tables in its own layout: printed values, ours with their errors, differences; and one page of it all."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import twoafc
from twoafc.files import write_text
from twoafc.inference import Record
from twoafc.reproduce.experiments import PaperDistance, in_paper_order
from twoafc.reproduce.printed import (
    HEADINGS,
    SETS,
    DataMatch,
    PrintedRow,
    PrintedTable,
    aggregates,
    document,
    printed_tables,
    slip_number,
    slips,
)
from twoafc.results import REPORT, Table, bibtex, fill_template, latex, markdown, note_lines
from twoafc.table import Triplets, write_frame

if TYPE_CHECKING:
    from twoafc.reproduce.figures import PaperFigure
    from twoafc.reproduce.run import Reproduction

METHODS = {"distance": "Distance only", "density": "Density estimation", "network": "Neural network"}
MEASURES = {
    "agreement": "AJ % ↑",
    "agreement_simulated": "AJ % ↑, simulated",
    "nll": "NLL ↓",
    "nll_simulated": "NLL ↓, simulated",
    "score_2afc": "2AFC % ↑",
    "score_2afc_distance": "2AFC % ↑",
}
POOLED = {"mean": "Mean of families", "all": "All triplets"}
DIGITS = {"nll": ".3f", "nll_simulated": ".3f"}
"""Formats of measures whose errors are smaller than the last digit that the paper prints."""
LEGEND = (
    "±: standard deviation over runs of the network, the paper's ten and ours; SE: standard error of the value, over "
    "triplets and, for the network, over runs."
)


@dataclass(frozen=True)
class Cell:
    """One value: as printed, and ours; standard deviations are over runs."""

    printed: float | None = None
    printed_sd: float | None = None
    ours: float | None = None
    se: float | None = None
    sd: float | None = None
    corrected: float | None = None  # the right value, if the printed one is wrong; the difference is taken from it
    slip: int = 0  # the number of the slip that affects it; 0 for none
    compared: bool = True  # whether ours depends on the paper's data, so that a difference is meaningful
    key: str = ""  # identifies the value wherever the paper prints it; empty if it does not

    @property
    def difference(self) -> float | None:
        """Ours less the paper's; None if that is meaningless."""
        against = self.printed if self.corrected is None else self.corrected
        return None if self.ours is None or against is None or not self.compared else self.ours - against

    def texts(self, printed_format: str, our_format: str) -> tuple[str, str, str]:
        """Format the printed value, ours, and the difference; – for none."""
        printed, ours, difference = "–", "–", "–"
        if self.printed is not None:
            sd = "" if self.printed_sd is None else f" ± {self.printed_sd:{printed_format}}"
            halves_up = self.printed * (1 + 1e-12)  # as the paper rounds: 63.095 is 63.10
            printed = f"{halves_up:{printed_format}}{sd}{f' [{self.slip}]' if self.slip else ''}"
        if self.ours is not None:
            sd = "" if self.sd is None else f" ± {self.sd:{our_format}}"
            ours = f"{self.ours:{our_format}}{sd}{'' if self.se is None else f' (SE {self.se:{our_format}})'}"
        if self.difference is not None:
            difference = f"{self.difference:+{our_format}}"
            difference = difference if float(difference) else difference[1:]  # a zero has no sign
        return printed, ours, difference


@dataclass(frozen=True)
class Row:
    """One row of a table: two labels, its cells, and the formats of the paper's values and ours."""

    labels: tuple[str, str]
    cells: tuple[Cell, ...]
    printed_format: str = ".2f"
    our_format: str = ".2f"

    def lines(self) -> list[tuple[str, tuple[str, ...]]]:
        """Format the row as up to three lines of text: paper, here and difference; empty ones are left out."""
        columns = zip(*(cell.texts(self.printed_format, self.our_format) for cell in self.cells), strict=True)
        named = zip(("paper", "here", "difference"), columns, strict=True)
        return [(name, texts) for name, texts in named if any(text != "–" for text in texts)]


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper with our values."""

    name: str  # the stem of its files
    title: str  # which table of the paper it is
    caption: str
    labels: tuple[str, str]  # headings of the two labels of a row
    columns: tuple[str, ...]  # the other headings
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    needs_data: bool = True  # whether our values depend on the data

    def text(self) -> Table:
        """Return the table as text, with two columns of labels."""
        lines: list[tuple[str, ...]] = []
        previous = ""
        for row in self.rows:
            for name, texts in row.lines():
                label = "" if row.labels[0] == previous else row.labels[0]
                lines.append((label, f"{row.labels[1]}, {name}", *texts))
                previous = row.labels[0]
        # LaTeX numbers tables itself, so the caption says which one of the paper's it is.
        whose = "The paper's " if self.title.startswith("Table") else ""
        return Table(f"{whose}{self.title}: {self.caption}", (*self.labels, *self.columns), tuple(lines))

    def frame(self) -> pl.DataFrame:
        """Return the table as numbers, with a row for each of printed, here, difference, and their errors.

        The first column says whether all our values of a row depend on the same data as the printed ones.
        """
        values = {"printed": "printed", "printed_sd": "printed_sd", "printed_corrected": "corrected"}
        values |= {"here": "ours", "here_se": "se", "here_sd": "sd", "difference": "difference"}
        rows = []
        for row in self.rows:
            comparable = all(cell.compared for cell in row.cells)
            for value, attribute in values.items():
                numbers = [getattr(cell, attribute) for cell in row.cells]
                if any(number is not None for number in numbers):
                    rows.append((comparable, *row.labels, value, *numbers))
        texts, numeric = dict.fromkeys((*self.labels, "value"), pl.String), dict.fromkeys(self.columns, pl.Float64)
        return pl.DataFrame(rows, schema={"comparable": pl.Boolean, **texts, **numeric}, orient="row")

    def footnotes(self, remarks: Sequence[str] = ()) -> list[str]:
        """List the notes below the table: remarks on the data, its own notes, and the slips that it refers to."""
        notes = [*(remarks if self.needs_data else ()), *self.notes]
        shown = " ".join([*notes, *(cell for row in self.text().rows for cell in row)])
        referred = [(number, slip) for number, slip in enumerate(slips(), 1) if f"[{number}]" in shown]
        return [*notes, *(f"[{number}] {slip.where}: {slip.says} {slip.holds}" for number, slip in referred)]

    def write(self, folder: Path, remarks: Sequence[str] = ()) -> None:
        """Write NAME.csv, NAME.md and NAME.tex, with remarks on the data below those that depend on it."""
        text, notes = self.text(), self.footnotes(remarks)
        write_frame(self.frame(), folder / f"{self.name}.csv")
        write_text("\n".join([markdown(text), note_lines(notes, "md")]), folder / f"{self.name}.md")
        write_text(latex(text, notes), folder / f"{self.name}.tex")


def score_tables(
    scores: Mapping[str, Sequence[Record]], chosen: Sequence[PaperDistance], matches: Mapping[str, DataMatch]
) -> list[PaperTable]:
    """Make every table whose data set has scores, in the order of the paper."""
    printed = [table for table in printed_tables().values() if table.set in scores]
    filled = [distance_table(table, scores[table.set], chosen, matches[table.set]) for table in printed]
    if "bapps" in scores:
        filled.append(family_table(scores["bapps"], chosen, matches["bapps"]))
    return filled


def distance_table(
    table: PrintedTable, scores: Sequence[Record], chosen: Sequence[PaperDistance], match: DataMatch
) -> PaperTable:
    """Make a table of distances (columns) by estimators and measures (rows)."""
    both_splits = len({row.split for row in table.rows}) > 1
    columns = in_paper_order(chosen)
    rows = []
    for row in table.rows:
        measure = MEASURES[row.measure] + (f", {row.split}" if both_splits else "")
        compared = match.compares(row.estimator, row.split)
        cells = tuple(replace(_distance_cell(row, item, scores, table.set), compared=compared) for item in columns)
        rows.append(Row((METHODS[row.estimator], measure), cells, our_format=DIGITS.get(row.measure, ".2f")))
    headings = tuple(item.heading for item in columns)
    notes = (LEGEND, *match.warnings)
    return PaperTable(table.name, table.where, table.caption, ("Method", "Measure"), headings, tuple(rows), notes)


def _distance_cell(row: PrintedRow, item: PaperDistance, scores: Sequence[Record], data: str) -> Cell:
    # The distance alone is scored beside every estimator.
    estimator = "density" if row.estimator == "distance" else row.estimator
    ours = _our_cell(scores, item.name, estimator, row.split, "all", row.measure)
    if item.paper is None:
        return ours
    place = list(HEADINGS).index(item.paper)
    slip = row.slips.get(item.paper)
    return replace(
        ours,
        printed=row.values[place],
        printed_sd=row.sd[place] if row.sd else None,
        corrected=row.instead[place] if row.instead and slip else None,
        slip=slip_number(slip) if slip else 0,
        key="/".join((data, row.split, row.estimator, row.measure, item.name, "all")),
    )


def family_table(scores: Sequence[Record], chosen: Sequence[PaperDistance], match: DataMatch) -> PaperTable:
    """Make the table by distortion: distances and measures (rows) by families, their mean, and all triplets."""
    table = document()["by_distortion"]
    rows = []
    for item in in_paper_order(chosen):
        for measure in ("agreement", "nll", "score_2afc"):
            cells, printed = [], _printed_by_family(item, measure)
            for group in (*table["columns"], *POOLED):
                ours = _our_cell(scores, item.name, "density", "test", group, measure)
                # The paper prints no mean of families.
                key = "" if group == "mean" else "/".join(("bapps", "test", "density", measure, item.name, group))
                compared = match.compares("density", "test", group)
                cells.append(replace(ours, printed=printed.get(group), sd=None, compared=compared, key=key))
            rows.append(Row((item.heading, MEASURES[measure]), tuple(cells), our_format=DIGITS.get(measure, ".2f")))
    notes = (
        "SE: standard error over triplets.",
        "The last two columns are not in the paper's table: the mean of its six values, and Table 1, which pools all "
        "triplets.",
        f"The paper's text prints the numbers of triplets under the wrong names [{slip_number('counts')}].",
        *match.warnings,
    )
    columns = (*table["headings"], *POOLED.values())
    labels = ("Distance", "Measure")
    return PaperTable("by-distortion", table["where"], table["caption"], labels, columns, tuple(rows), notes)


def _printed_by_family(item: PaperDistance, measure: str) -> dict[str, float]:
    """Return the printed values of a distance by family, with their mean and Table 1."""
    table = document()["by_distortion"]
    for row, pooled in zip(table["rows"], aggregates(), strict=True):
        if (row["distance"], row["measure"]) == (item.paper, measure):
            families = dict(zip(table["columns"], row["values"], strict=True))
            return {**families, "mean": float(np.mean(row["values"])), "all": pooled.table_1}
    return {}


def arithmetic_table() -> PaperTable:
    """Make a table of the paper's own arithmetic: its 2AFC scores by distortion, pooled, against its Table 1."""
    pooled = [row for row in aggregates() if row.measure == "score_2afc"]
    values = {
        "weighted by the true numbers of triplets": [row.by_true for row in pooled],
        f"weighted by the printed numbers [{slip_number('counts')}]": [row.by_printed for row in pooled],
    }
    rows = tuple(
        Row(
            (label, MEASURES["score_2afc"]),
            tuple(Cell(row.table_1, ours=value) for row, value in zip(pooled, ours, strict=True)),
        )
        for label, ours in values.items()
    )
    caption = "The paper's values by distortion, pooled over triplets, against its Table 1; this needs no data"
    columns = tuple(HEADINGS[row.distance] for row in pooled)
    title, labels = "A check of the arithmetic", ("Pooled", "Measure")
    return PaperTable("arithmetic", title, caption, labels, columns, rows, needs_data=False)


def cost_table(times: Mapping[str, Record]) -> PaperTable:
    """Make the table of what the two estimators cost, here and on the paper's machines."""
    table = document()["cost"]
    keys = ("train_s", "parameters", "infer_1_s", "infer_128_s")
    rows = tuple(
        Row(
            (METHODS[name], f"fastest of {record['fits']}"),
            tuple(Cell(float(table[name][key]), ours=float(record[key]), compared=False) for key in keys),
            ".4g",
            ".4g",
        )
        for name, record in times.items()
    )
    first = next(iter(times.values()))
    machines = " and ".join(f"{METHODS[name].lower()} on {machine}" for name, machine in table["machines"].items())
    triplets = document()["data"]["bapps"]["train"]["triplets"]
    notes = (
        f"Machines and programs differ: the paper ran {machines}; here it is {first['machine']}, numpy.",
        f"Fitted here to {first['triplets']:,} triplets of {SETS[first['set']]}, {first['distance']}; the paper's "
        f"training set of BAPPS has {triplets}, and it does not state which distance was timed.",
        "Our time of a fit includes the uniformisation of distances, and our time of inference is from raw distances "
        "to P; how the paper timed either is not stated.",
    )
    columns = ("Fit, s", "Parameters", "Inference, 1 sample, s", "Inference, 128 samples, s")
    return PaperTable("cost", table["where"], table["caption"], ("Method", "Fits"), columns, rows, notes)


def _our_cell(scores: Sequence[Record], distance: str, estimator: str, split: str, group: str, measure: str) -> Cell:
    """Find a score, over seeds if there are several; empty if there is none."""
    wanted = (distance, estimator, split, group)
    records = [r for r in scores if tuple(r[key] for key in ("distance", "estimator", "split", "group")) == wanted]
    if not records:
        return Cell()
    record = next((r for r in records if r.get("runs")), records[0])
    return Cell(ours=record[measure], se=record.get(f"{measure}_se"), sd=record.get(f"{measure}_sd"))


@dataclass(frozen=True)
class Closeness:
    """Absolute differences from the paper in one table and measure: how many, their median, and the largest."""

    table: str
    measure: str
    count: int
    median: float
    largest: float
    where: str


def closeness(compared: Sequence[PaperTable]) -> list[Closeness]:
    """Summarise the differences of each table by measure; each printed value counts once, and slips do not count."""
    summary = []
    counted: set[str] = set()
    for table in compared:
        by_measure: dict[str, list[tuple[float, str]]] = {}
        for row in table.rows:
            measure = row.labels[1].removesuffix(", train").removesuffix(", test")
            for cell, column in zip(row.cells, table.columns, strict=True):
                if cell.difference is not None and not cell.slip and cell.key and cell.key not in counted:
                    counted.add(cell.key)
                    by_measure.setdefault(measure, []).append((abs(cell.difference), f"{row.labels[0]}, {column}"))
        for measure, differences in by_measure.items():
            median = float(np.median([size for size, _ in differences]))
            summary.append(Closeness(table.title, measure, len(differences), median, *max(differences)))
    return summary


def page(
    reproduction: Reproduction,
    chosen: Sequence[PaperDistance],
    figures: Sequence[tuple[PaperFigure, Path]],
    data: Mapping[str, Mapping[str, Triplets]],
) -> str:
    """Write one self-contained page of HTML, without scripts or other files, from figures and their files."""
    return fill_template(
        Path(__file__).with_name("page.html"),
        Path(__file__).with_name("page.css"),
        reproduction=reproduction,
        chosen=chosen,
        tables=[(table, _blocks(table)) for table in reproduction.tables],
        closeness=[] if reproduction.warning else closeness(reproduction.tables),
        figures=[(figure, base64.b64encode(file.read_bytes()).decode("ascii")) for figure, file in figures],
        data=[_data_row(name, split, table) for name, splits in data.items() for split, table in splits.items()],
        # Standard errors are shown, not the intervals that the same words describe elsewhere.
        errors=[
            (SETS[name], result.error_bars.removeprefix("95 % intervals "))
            for name, result in reproduction.results.items()
        ],
        file=REPORT,
        settings=next(iter(reproduction.results.values())).card["settings"],
        version=twoafc.__version__,
        bibtex=bibtex(twoafc.__version__),
    )


def _blocks(table: PaperTable) -> list[tuple[str, list[tuple[str, list[tuple[str, tuple[str, ...]]]]], int]]:
    """Group consecutive rows by their first label: the label, its rows, and their number of lines."""
    rows = [(row.labels, lines) for row in table.rows if (lines := row.lines())]
    blocks = []
    for label, group in groupby(rows, key=lambda row: row[0][0]):
        members = [(labels[1], lines) for labels, lines in group]
        blocks.append((label, members, sum(len(lines) for _, lines in members)))
    return blocks


def _data_row(name: str, split: str, table: Triplets) -> dict[str, Any]:
    printed = document()["data"][name][split]
    low, high = int(table.M.min()), int(table.M.max())
    return {
        "set": f"{SETS[name]}, {split}",
        "triplets": f"{len(table):,}",
        "printed": printed["triplets"],
        "votes": f"{int(table.M.sum()):,}",
        "M": str(low) if low == high else f"{low} to {high}",
        "printed_M": printed["M"],
    }

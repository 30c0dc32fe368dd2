"""The paper's tables in its own layout: what is printed, what is found here with its error, and the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twoafc.reproduce.chosen import HEADINGS, Chosen
from twoafc.reproduce.printed import (
    PrintedRow,
    PrintedTable,
    aggregates,
    distances,
    document,
    printed_tables,
    slip_number,
)
from twoafc.scores import Record

METHODS = {"distance": "Distance only", "density": "Density estimation", "network": "Neural network"}
MEASURES = {
    "agreement": "AJ % ↑",
    "agreement_simulated": "AJ % ↑, simulated",
    "nll": "NLL ↓",
    "nll_simulated": "NLL ↓, simulated",
    "score_2afc": "2AFC % ↑",
    "score_2afc_distance": "2AFC % ↑",
}
FAMILIES = {
    "traditional": "Traditional",
    "cnn": "CNN",
    "color": "Color",
    "deblur": "Deblur",
    "frameinterp": "Frame interp.",
    "superres": "Super resolution",
}
WHOLE = {"mean": "Mean of families", "all": "All triplets"}
FINER = {"nll": ".3f", "nll_simulated": ".3f"}
"""Measures whose errors are smaller than the last digit that the paper prints."""


@dataclass(frozen=True)
class Cell:
    """One figure: as printed (with its deviation over runs), and as found here with its standard error.

    Parameters
    ----------
    printed, printed_sd : float or None
    ours, se, sd : float or None
        sd is over seeds.
    instead : float or None
        What the difference is taken from, where the printed figure is known to be wrong.
    slip : int
        The number of the slip that it is subject to; 0 for none.
    """

    printed: float | None = None
    printed_sd: float | None = None
    ours: float | None = None
    se: float | None = None
    sd: float | None = None
    instead: float | None = None
    slip: int = 0

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        against = self.printed if self.instead is None else self.instead
        return None if self.ours is None or against is None else self.ours - against


@dataclass(frozen=True)
class Line:
    """One row of a printed table: what names it, its cells, and how the paper's figures and ours are written."""

    labels: tuple[str, str]
    cells: tuple[Cell, ...]
    printed_form: str = ".2f"
    form: str = ".2f"


@dataclass(frozen=True)
class Layout:
    """A table of the paper's.

    Parameters
    ----------
    name : str
        What its files are called.
    title, caption : str
        Which table of the paper it is, and what it shows.
    names, columns : tuple of str
        Headings: of the two columns that name a row, and of the others.
    lines : tuple of Line
    notes : tuple of str
        What a reader must know of it.
    differences : bool or None
        Whether a difference from the paper's figure means anything; None: where the data are the paper's.
    """

    name: str
    title: str
    caption: str
    names: tuple[str, str]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    differences: bool | None = None


def by_distance(table: PrintedTable, scores: Sequence[Record], chosen: Sequence[Chosen]) -> Layout:
    """Lay out a table of distances (columns) by estimators and measures (rows)."""
    both = len({row.split for row in table.rows}) > 1
    lines = []
    for row in table.rows:
        measure = MEASURES[row.measure] + (f", {row.split}" if both else "")
        cells = tuple(_cell(row, each, scores) for each in chosen)
        lines.append(Line((METHODS[row.estimator], measure), cells, form=FINER.get(row.measure, ".2f")))
    columns = tuple(each.heading for each in chosen)
    return Layout(table.name, table.where, table.caption, ("Method", "Measure"), columns, tuple(lines))


def _cell(row: PrintedRow, each: Chosen, scores: Sequence[Record]) -> Cell:
    # The distance alone is scored beside every estimator.
    estimator = "density" if row.estimator == "distance" else row.estimator
    ours = _ours(shown(scores, each.name, estimator, row.split, "all"), row.measure)
    if each.paper is None:
        return ours
    place = distances().index(each.paper)
    slip = dict(row.slips).get(each.paper)
    return Cell(
        row.values[place],
        row.sd[place] if row.sd else None,
        ours.ours,
        ours.se,
        ours.sd,
        row.instead[place] if row.instead and slip else None,
        slip_number(slip) if slip else 0,
    )


def by_family(scores: Sequence[Record], chosen: Sequence[Chosen]) -> Layout:
    """Lay out the scores by distortion: distances and measures (rows) by families, their mean, and all pooled."""
    table = document()["by_distortion"]
    printed = {(row["distance"], row["measure"]): row["values"] for row in table["rows"]}
    pooled = {(each.distance, each.measure): each for each in aggregates()}
    lines = []
    for each in chosen:
        for measure in ("agreement", "nll", "score_2afc"):
            values = dict(zip(table["columns"], printed.get((each.paper, measure), ()), strict=False))
            if values:
                values["all"] = pooled[str(each.paper), measure].table_1
                values["mean"] = sum(values[name] for name in table["columns"]) / len(table["columns"])
            cells = []
            for group in (*table["columns"], *WHOLE):
                ours = _ours(shown(scores, each.name, "density", "test", group), measure)
                cells.append(Cell(values.get(group), None, ours.ours, ours.se))
            lines.append(Line((each.heading, MEASURES[measure]), tuple(cells), form=FINER.get(measure, ".2f")))
    notes = (
        "The last two columns are not in the paper's table: the mean of its six figures, and Table 1, which pools all "
        "triplets.",
        f"The paper's text prints the numbers of triplets under the wrong names [{slip_number('counts')}].",
    )
    columns = (*(FAMILIES[name] for name in table["columns"]), *WHOLE.values())
    return Layout(
        "by-distortion", table["where"], table["caption"], ("Distance", "Measure"), columns, tuple(lines), notes
    )


def arithmetic(measure: str = "score_2afc") -> Layout:
    """Lay out the paper's own arithmetic: its figures by distortion, pooled over triplets, against its Table 1."""
    found = {each.distance: each for each in aggregates() if each.measure == measure}
    rows = {
        "weighted by the true numbers of triplets": [each.by_true for each in found.values()],
        f"weighted by the printed numbers [{slip_number('counts')}]": [each.by_printed for each in found.values()],
    }
    lines = tuple(
        Line((label, MEASURES[measure]), tuple(Cell(each.table_1, ours=value) for each, value in pairs))
        for label, values in rows.items()
        if (pairs := list(zip(found.values(), values, strict=True)))
    )
    caption = (
        "The paper's figures by distortion, pooled over triplets, against its Table 1: no data are needed for this"
    )
    columns = tuple(HEADINGS[name] for name in found)
    return Layout("arithmetic", "A check of the arithmetic", caption, ("Pooled", "Measure"), columns, lines, (), True)


def of_cost(found: Mapping[str, Record]) -> Layout:
    """Lay out what the two estimators cost, here and on the paper's machines."""
    table = document()["cost"]
    keys = ("train_s", "parameters", "infer_1_s", "infer_128_s")
    lines = tuple(
        Line(
            (METHODS[name], f"quickest of {made['fits']}"),
            tuple(Cell(float(table[name][key]), ours=float(made[key])) for key in keys),
            ".4g",
            ".4g",
        )
        for name, made in found.items()
    )
    first = next(iter(found.values()))
    machines = " and ".join(f"{METHODS[name].lower()} on {machine}" for name, machine in table["machines"].items())
    notes = (
        f"Machines differ, and so do the programs: the paper ran {machines}; here it is {first['machine']}, numpy.",
        f"Fitted here to {first['triplets']:,} triplets; the time covers the uniformisation of distances.",
        "The paper's time of inference is that of one look at the fitted surface; ours goes from raw distances to P.",
    )
    columns = ("Fit, s", "Parameters", "Inference, 1 sample, s", "Inference, 128 samples, s")
    return Layout("cost", table["where"], table["caption"], ("Method", "Fits"), columns, lines, notes, False)


def shown(scores: Sequence[Record], distance: str, estimator: str, split: str, group: str) -> Record | None:
    """Find a score: over seeds where there are several; None where it was not made."""
    wanted = (distance, estimator, split, group)
    found = [r for r in scores if tuple(r[key] for key in ("distance", "estimator", "split", "group")) == wanted]
    return next((r for r in found if r.get("runs")), found[0] if found else None)


def _ours(record: Record | None, measure: str) -> Cell:
    if record is None:
        return Cell()
    return Cell(None, None, record[measure], record.get(f"{measure}_se"), record.get(f"{measure}_sd"))


def score_tables(results: Mapping[str, Sequence[Record]], chosen: Sequence[Chosen]) -> list[Layout]:
    """Lay out every table for whose data set there are scores, in the order of the paper."""
    tables = [table for table in printed_tables().values() if table.set in results]
    made = [by_distance(table, results[table.set], chosen) for table in tables]
    if "bapps" in results:
        made.append(by_family(results["bapps"], chosen))
    return made

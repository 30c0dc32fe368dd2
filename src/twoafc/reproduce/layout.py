"""The paper's tables in its own layout: what is printed, what is found here with its error, and the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from twoafc.inference import Record
from twoafc.reproduce.basis import Basis
from twoafc.reproduce.chosen import HEADINGS, Chosen, placed
from twoafc.reproduce.printed import (
    PrintedRow,
    PrintedTable,
    aggregates,
    distances,
    document,
    printed_tables,
    slip_number,
)
from twoafc.reproduce.sources import SETS

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
READING = (
    "±: standard deviation over runs of the network, the paper's ten and ours; SE: standard error of the value, over "
    "triplets and, of the network, over runs."
)
READING_FAMILIES = "SE: standard error over triplets."


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
    compared : bool
        Whether ours rests on the same data as the paper's, so that a difference means something.
    figure : str
        Which figure of the paper's it is, wherever it is printed; empty for what the paper does not print.
    """

    printed: float | None = None
    printed_sd: float | None = None
    ours: float | None = None
    se: float | None = None
    sd: float | None = None
    instead: float | None = None
    slip: int = 0
    compared: bool = True
    figure: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's; None where it would mean nothing."""
        against = self.printed if self.instead is None else self.instead
        return None if self.ours is None or against is None or not self.compared else self.ours - against


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
    of_data : bool
        Whether it depends on the data.
    """

    name: str
    title: str
    caption: str
    names: tuple[str, str]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    of_data: bool = True

    @property
    def heading(self) -> str:
        """Which table it is and what it shows: LaTeX numbers tables itself."""
        whose = "The paper's " if self.title.startswith("Table") else ""
        return f"{whose}{self.title}: {self.caption}"


def by_distance(table: PrintedTable, scores: Sequence[Record], chosen: Sequence[Chosen], basis: Basis) -> Layout:
    """Lay out a table of distances (columns) by estimators and measures (rows)."""
    both = len({row.split for row in table.rows}) > 1
    columns = placed(chosen)
    lines = []
    for row in table.rows:
        measure = MEASURES[row.measure] + (f", {row.split}" if both else "")
        compared = basis.compares(row.estimator, row.split)
        cells = tuple(replace(_cell(row, each, scores, table.set), compared=compared) for each in columns)
        lines.append(Line((METHODS[row.estimator], measure), cells, form=FINER.get(row.measure, ".2f")))
    headings = tuple(each.heading for each in columns)
    notes = (READING, *basis.warnings)
    return Layout(table.name, table.where, table.caption, ("Method", "Measure"), headings, tuple(lines), notes)


def _cell(row: PrintedRow, each: Chosen, scores: Sequence[Record], data: str) -> Cell:
    # The distance alone is scored beside every estimator.
    estimator = "density" if row.estimator == "distance" else row.estimator
    ours = _ours(shown(scores, each.name, estimator, row.split, "all"), row.measure)
    if each.paper is None:
        return ours
    place = distances().index(each.paper)
    slip = dict(row.slips).get(each.paper)
    return replace(
        ours,
        printed=row.values[place],
        printed_sd=row.sd[place] if row.sd else None,
        instead=row.instead[place] if row.instead and slip else None,
        slip=slip_number(slip) if slip else 0,
        figure=_figure(data, row.split, row.estimator, row.measure, each),
    )


def _figure(data: str, split: str, estimator: str, measure: str, each: Chosen, group: str = "all") -> str:
    return "/".join((data, split, estimator, measure, each.name, group))


def by_family(scores: Sequence[Record], chosen: Sequence[Chosen], basis: Basis) -> Layout:
    """Lay out the scores by distortion: distances and measures (rows) by families, their mean, and all pooled."""
    table = document()["by_distortion"]
    lines = []
    for each in placed(chosen):
        for measure in ("agreement", "nll", "score_2afc"):
            printed = _by_family(each, measure)
            cells = []
            for group in (*table["columns"], *WHOLE):
                ours = _ours(shown(scores, each.name, "density", "test", group), measure)
                # The paper prints no mean of families.
                figure = "" if group == "mean" else _figure("bapps", "test", "density", measure, each, group)
                compared = basis.compares("density", "test", group)
                cells.append(replace(ours, printed=printed.get(group), sd=None, compared=compared, figure=figure))
            lines.append(Line((each.heading, MEASURES[measure]), tuple(cells), form=FINER.get(measure, ".2f")))
    notes = (
        READING_FAMILIES,
        "The last two columns are not in the paper's table: the mean of its six figures, and Table 1, which pools all "
        "triplets.",
        f"The paper's text prints the numbers of triplets under the wrong names [{slip_number('counts')}].",
        *basis.warnings,
    )
    columns = (*(FAMILIES[name] for name in table["columns"]), *WHOLE.values())
    return Layout(
        "by-distortion", table["where"], table["caption"], ("Distance", "Measure"), columns, tuple(lines), notes
    )


def _by_family(each: Chosen, measure: str) -> dict[str, float]:
    """Give the figures that are printed for a distance, by family, with their mean and Table 1."""
    table = document()["by_distortion"]
    values = next((r["values"] for r in table["rows"] if (r["distance"], r["measure"]) == (each.paper, measure)), None)
    if values is None:
        return {}
    pooled = next(a.table_1 for a in aggregates() if (a.distance, a.measure) == (each.paper, measure))
    mean = sum(Decimal(str(value)) for value in values) / len(values)  # of what is printed, to the last digit
    return {**dict(zip(table["columns"], values, strict=True)), "mean": float(mean), "all": pooled}


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
    return Layout(
        "arithmetic", "A check of the arithmetic", caption, ("Pooled", "Measure"), columns, lines, of_data=False
    )


def of_cost(found: Mapping[str, Record]) -> Layout:
    """Lay out what the two estimators cost, here and on the paper's machines."""
    table = document()["cost"]
    keys = ("train_s", "parameters", "infer_1_s", "infer_128_s")
    lines = tuple(
        Line(
            (METHODS[name], f"quickest of {made['fits']}"),
            tuple(Cell(float(table[name][key]), ours=float(made[key]), compared=False) for key in keys),
            ".4g",
            ".4g",
        )
        for name, made in found.items()
    )
    first = next(iter(found.values()))
    machines = " and ".join(f"{METHODS[name].lower()} on {machine}" for name, machine in table["machines"].items())
    triplets = document()["data"]["bapps"]["train"]["triplets"]
    notes = (
        f"Machines differ, and so do the programs: the paper ran {machines}; here it is {first['machine']}, numpy.",
        f"Fitted here to {first['triplets']:,} triplets of {SETS[first['set']]}, {first['distance']}; the paper's "
        f"training set of BAPPS has {triplets}, and which distance was timed it does not state.",
        "Our time of a fit covers the uniformisation of distances, and our time of inference goes from raw distances "
        "to P; how the paper timed either is not stated.",
    )
    columns = ("Fit, s", "Parameters", "Inference, 1 sample, s", "Inference, 128 samples, s")
    return Layout("cost", table["where"], table["caption"], ("Method", "Fits"), columns, lines, notes)


def shown(scores: Sequence[Record], distance: str, estimator: str, split: str, group: str) -> Record | None:
    """Find a score: over seeds where there are several; None where it was not made."""
    wanted = (distance, estimator, split, group)
    found = [r for r in scores if tuple(r[key] for key in ("distance", "estimator", "split", "group")) == wanted]
    return next((r for r in found if r.get("runs")), found[0] if found else None)


def _ours(record: Record | None, measure: str) -> Cell:
    if record is None:
        return Cell()
    return Cell(None, None, record[measure], record.get(f"{measure}_se"), record.get(f"{measure}_sd"))


def score_tables(
    results: Mapping[str, Sequence[Record]], chosen: Sequence[Chosen], bases: Mapping[str, Basis]
) -> list[Layout]:
    """Lay out every table for whose data set there are scores, in the order of the paper."""
    tables = [table for table in printed_tables().values() if table.set in results]
    made = [by_distance(table, results[table.set], chosen, bases[table.set]) for table in tables]
    if "bapps" in results:
        made.append(by_family(results["bapps"], chosen, bases["bapps"]))
    return made

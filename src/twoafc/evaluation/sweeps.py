"""How much the kernel's width and the number of nodes matter: scores against sigma and grid size, with error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from math import ceil
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from twoafc import plots
from twoafc.arrays import Progress
from twoafc.diagnostics import Finding, check_overlap
from twoafc.estimators import Density
from twoafc.evaluation.evaluation import check_tables, only, worded
from twoafc.evaluation.loop import Data, crossed, joined, shared_distances
from twoafc.evaluation.records import BY_FORMULA, score, with_bars
from twoafc.evaluation.settings import Settings
from twoafc.files import OutputFolder
from twoafc.inference import COMPARED, Clustering, Record, Values, clustering_of, compare, corrected, errors
from twoafc.measurement import cores
from twoafc.plots import SweepCurve
from twoafc.results import Run, Table, latex, markdown, note_lines
from twoafc.table import Votes, assign_folds, split_note, write_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Parameter = Literal["sigma", "grid_size"]

PAPER = Density()
"""The paper's settings: sigma = 1/44 on 20 nodes."""
SIGMAS: tuple[float, ...] = tuple(float(f"{sigma:.2g}") for sigma in np.geomspace(0.0037, 1, 16))
GRID_SIZES = (5, 7, 10, 14, 20, 28, 40, 55, 75, 100)
"""Default values: the paper's ranges."""
MOST_NODES = 1000
"""Nodes along an axis, at most: memory grows with their square, and 1000 take some 160 MB for each setting at work."""


def nodes_for(sigma: float) -> int:
    """Nodes along an axis that the automatic rule of `Density` gives a kernel of this width."""
    return max(PAPER.grid_size, ceil(1.5 / sigma))


def settings_to_try(
    sigmas: Sequence[float] | None, grid_sizes: Sequence[int] | None, held: Density
) -> tuple[set[Density], set[Density]]:
    """Settings with other sigmas and with other grid sizes; the paper's are among them, so that they can be marked."""
    widths = [*(SIGMAS if sigmas is None else sigmas)]
    wrong = [width for width in widths if not isinstance(width, Real)]
    if wrong:
        raise ValueError(f"sigmas to sweep must be numbers; found {wrong[0]!r}")
    sizes = [*(GRID_SIZES if grid_sizes is None else grid_sizes)]
    if not widths and not sizes:
        raise ValueError("there is nothing to sweep; give sigmas, grid sizes, or both")
    large = next((size for size in (held.grid_size, *sizes) if size > MOST_NODES), None)
    if large is not None:
        raise ValueError(
            f"grid sizes to sweep must be at most {MOST_NODES}, since memory grows with their square; found {large}"
        )
    if widths:
        widths.append(float(PAPER.sigma))
    if sizes:
        nodes = nodes_for(float(held.sigma))
        sizes += [PAPER.grid_size, *([nodes] if nodes <= max(sizes) else [])]
    return {replace(held, sigma=float(width)) for width in widths}, {replace(held, grid_size=size) for size in sizes}


Swept = Literal["nll", "nll_per_vote", "agreement", "score_2afc", "average_precision"]
SWEPT: dict[int, tuple[Swept, ...]] = {
    2: ("nll", "nll_per_vote", "agreement", "score_2afc"),
    1: ("nll", "nll_per_vote", "agreement", "average_precision"),
}
"""Measures that are swept, of triplets (2) and of pairs (1)."""


@dataclass(frozen=True)
class Sweep:
    """Scores of the density estimator on triplets or pairs that it has not seen, setting by setting.

    Attributes
    ----------
    scores : list of records
        One per distance, parameter and value: see `frame`.
    held : Density
        The sigma under which grid sizes were swept, and the grid size on which sigmas were.
    automatic : dict of distance to Density
        Sigma, with as many nodes as it needs, that ``Density(sigma="auto")`` takes from the whole training table.
    comparisons : list of records
        The automatic sigma against the paper's, by ``distance``, paired: see `twoafc.inference.comparisons.compare`;
        ``p_holm`` is corrected over the distances.
    notes : list of str
        How the test was made, and what was left out.
    error_bars : str
        What the error bars are of, in words.
    tested : dict of distance to record
        The score of choosing sigma automatically, where sigmas were swept. Where the table is cross-validated, it is
        chosen anew in each fold, without the triplets that are scored: the point at `automatic` saw them all.
    findings : list of Finding
        What the two tables share: see `twoafc.check`.
    cross_validated : bool
        Whether there was no test table.
    row : {"triplet", "pair"}
        What a row of the tables is.
    """

    scores: list[Record]
    held: Density
    automatic: dict[str, Density]
    comparisons: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error_bars: str = ""
    tested: dict[str, Record] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    cross_validated: bool = False
    row: str = "triplet"

    @property
    def distances(self) -> list[str]:
        """Names of the distances."""
        return list(self.automatic)

    @property
    def parameters(self) -> list[Parameter]:
        """What was swept."""
        return list(dict.fromkeys(record["parameter"] for record in self.scores))

    def frame(self) -> pl.DataFrame:
        """Return the scores in long form.

        Columns are ``distance``, ``parameter`` (sigma or grid_size: the one that moves), ``sigma``, ``grid_size``,
        ``triplets`` (or ``pairs``), ``votes``, and each measure with ``_se``, ``_low``, ``_high``.
        """
        return pl.DataFrame(self.scores, infer_schema_length=None)

    def of(self, distance: str, parameter: Parameter) -> list[Record]:
        """Return the scores of one distance against one parameter, in the order of its values."""
        return [r for r in self.scores if (r["distance"], r["parameter"]) == (distance, parameter)]

    def at(self, distance: str, parameter: Parameter, value: float) -> Record:
        """Return the score of one distance at one value of a parameter."""
        return next(record for record in self.of(distance, parameter) if record[parameter] == value)

    def best(self, distance: str, parameter: Parameter) -> Record:
        """Return the score with the least NLL; slightly optimistic, since it is chosen on the tested votes."""
        return min(self.of(distance, parameter), key=lambda record: record["nll"])

    def curves(self, parameter: Parameter, measure: Swept = "nll") -> dict[str, SweepCurve]:
        """Return what `twoafc.plots.sweep` draws: by distance, values of a measure with their intervals."""
        ends = (parameter, measure, f"{measure}_low", f"{measure}_high")
        return {
            name: SweepCurve(*(np.array([r[end] for r in self.of(name, parameter)], dtype=np.float64) for end in ends))
            for name in self.distances
        }

    def automatic_values(self, parameter: Parameter) -> dict[str, float]:
        """Return the automatic values on the curves: each distance's sigma, or the nodes that the held sigma needs."""
        if parameter == "sigma":
            return {name: float(settings.sigma) for name, settings in self.automatic.items()}
        nodes = nodes_for(float(self.held.sigma))
        swept = {record["grid_size"] for record in self.scores if record["parameter"] == "grid_size"}
        return {name: float(nodes) for name in self.distances if nodes in swept}


AUTOMATIC, PAPERS = "the automatic sigma", "the paper's sigma"


def sweep(
    train: Votes,
    test: Votes | None = None,
    *,
    distances: Sequence[str] | None = None,
    sigmas: Sequence[float] | None = None,
    grid_sizes: Sequence[int] | None = None,
    grid_size: int = 100,
    sigma: float = 1 / 44,
    folds: int = 5,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Score the density estimator under many kernel widths and grid sizes, for every distance.

    Parameters
    ----------
    train, test : Triplets or Pairs
        As of `twoafc.evaluate`: without `test` the training table is cross-validated.
    distances : names, default all that both tables have
    sigmas : numbers, default 16 in [0.0037, 1]
        Widths to try on `grid_size` nodes; none for an empty sequence. The paper's and the automatic one are added.
    grid_sizes : whole numbers, default 10 in [5, 100]
        Nodes along an axis to try under `sigma`; none for an empty sequence. The paper's 20 are added, and the number
        that the automatic rule gives that sigma if it is in the range.
    folds, seed : int
        Parts for cross-validation, whole references at a time where they are known, and their seed.
    workers : int, default one for each core
        Settings tried at a time, in threads; results do not depend on their number.

    Examples
    --------
    >>> from twoafc import Triplets, worlds
    >>> table = Triplets.from_frame(worlds.simulate("weber", triplets=400, votes=3, seed=1))
    >>> result = sweep(table, sigmas=[0.01, 0.1], grid_sizes=(), grid_size=20, folds=2)
    >>> result.best("distance", "sigma")["sigma"] > 0.01
    True
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1; found {workers}")
    kept = Density(sigma=sigma, grid_size=grid_size)
    by_sigma, by_grid_size = settings_to_try(sigmas, grid_sizes, kept)
    check_tables(train, test, Settings())
    names, notes = shared_distances(train.distances, None if test is None else test.distances, distances)
    data = Data(train, test, None if test is not None else assign_folds(train, folds, seed=seed))
    if data.fold is not None:
        notes.append(f"no test table: {split_note(train, data.fold)}")
    clustering = clustering_of(data.tested)
    notes += clustering.weighting
    automatic: dict[str, Density] = {}
    scores: list[Record] = []
    tested: dict[str, Record] = {}
    pairs: dict[str, dict[str, Values]] = {}
    # In threads: they share the tables, and sums over kernels release Python's lock.
    with ThreadPoolExecutor(workers or cores()) as pool, ExitStack() as last:
        last.callback(pool.shutdown, cancel_futures=True)  # also after an error, or Ctrl-C
        for place, name in enumerate(names):
            own = data.of(name)
            automatic[name] = _automatic(own.train)
            chosen = replace(kept, sigma=automatic[name].sigma)
            widths = sorted(by_sigma | {chosen}, key=lambda each: each.sigma) if by_sigma else []
            todo: list[tuple[Parameter, Density]] = [("sigma", each) for each in widths]
            todo += [("grid_size", each) for each in sorted(by_grid_size, key=lambda each: each.grid_size)]
            anew = None
            if widths and test is None:
                anew = pool.submit(_score, own, clustering, ("sigma", chosen), anew=True)
            papers = replace(kept, sigma=PAPER.sigma)
            found: dict[Density, tuple[Record, Values]] = {}
            results = pool.map(partial(_score, own, clustering), todo)
            for done, ((line, settings), result) in enumerate(zip(todo, results, strict=True), 1):
                scores.append(result[0])
                if line == "sigma" and settings in (papers, chosen):  # values of all would take much memory
                    found[settings] = result
                if progress:
                    progress(place * len(todo) + done, len(names) * len(todo), f"{name}, {line}")
            if widths:
                tested[name], values = anew.result() if anew else found[chosen]
                pairs[name] = {PAPERS: found[papers][1], AUTOMATIC: values}
    error_bars = worded(f"{BY_FORMULA}; noise of training left out; {clustering.description}", train.row)
    shared = [] if test is None else check_overlap(only(train, names), only(test, names))
    compared = _compared(pairs, clustering, train.k)
    return Sweep(scores, kept, automatic, compared, notes, error_bars, tested, shared, test is None, train.row)


def _automatic(train: Votes) -> Density:
    """Return the settings that the automatic rule chooses for a table."""
    chosen = Density(sigma="auto").fit(train).settings
    return replace(chosen, sigma=float(chosen.sigma))


def _score(
    data: Data, clustering: Clustering, point: tuple[Parameter, Density], *, anew: bool = False
) -> tuple[Record, Values]:
    """Fit the settings of a point and score them; with `anew`, sigma is chosen anew in each fold."""
    (name,), (parameter, density) = data.train.distances, point

    def fit(train: Votes) -> Run:
        sigma = _automatic(train).sigma if anew else density.sigma
        return Run(name, "density", None, replace(density, sigma=sigma).fit(train))

    one = score(joined(crossed(fit, data), data.tested), Settings(), clustering)
    assert one.values is not None  # P of a density is always a number
    bars = errors(one.values, None, clustering)
    (scores,) = with_bars([record for record in one.records if record["group"] == "all"], bars)
    kept = [f"{measure}{end}" for measure in SWEPT[data.train.k] for end in ("", "_se", "_low", "_high")]
    head = {"distance": name, "parameter": parameter, **_plain_settings(density)}
    return head | {key: scores[key] for key in (f"{data.train.row}s", "votes", *kept)}, one.values


def _compared(pairs: Mapping[str, Mapping[str, Values]], clustering: Clustering, k: int) -> list[Record]:
    """Compare the automatic sigma with the paper's for every distance, p-values corrected over the distances."""
    nll = COMPARED[k]["nll"]
    records = [
        {"distance": name, **record}
        for name, values in pairs.items()
        for record in compare(values, clustering, estimator="density", measures={"nll": nll})
    ]
    return corrected(records, {"nll": nll})


SWEEP_FOLDER = OutputFolder("sweep.json", "sweeps")
SWEEP_READING = "± standard error; best: least NLL, chosen on the tested votes, so its NLL is slightly optimistic"
CHOSEN = {
    False: "automatic: chosen by leaving out triplets, or references, of the training table in turn",
    True: "automatic: chosen by leaving out triplets, or references, of the whole table in turn; its NLL is that of "
    "choosing anew in each fold, without the triplets that are scored",
}
"""What the automatic sigma is, with a test table and where the table is cross-validated."""


def write_sweep(result: Sweep, folder: str | Path, card: Mapping[str, Any]) -> None:
    """Write scores, tables and figures to a folder; an earlier sweep there is replaced as a whole.

    Parameters
    ----------
    card : mapping
        What made the sweep: see `twoafc.results.make_card`.
    """
    with SWEEP_FOLDER.whole(folder) as partial:
        write_frame(result.frame(), partial / "sweep.csv")
        shown = [sweep_table(result, parameter) for parameter in result.parameters]
        for ending, form in (("md", markdown), ("tex", latex)):
            text = [*(form(table) for table in shown), note_lines(sweep_remarks(result), ending)]
            (partial / f"tables.{ending}").write_text("\n".join(text), encoding="utf-8")
        measures: tuple[Swept, ...] = ("nll", "agreement")
        for parameter, measure in product(result.parameters, measures):
            stem = partial / "figures" / f"sweep-{parameter}-{measure}"
            plots.save(draw_sweep(result, parameter, measure), Path(f"{stem}.svg"), Path(f"{stem}.pdf"))
        content = {
            "held": _plain_settings(result.held),
            "chosen": _plain_settings(PAPER),
            "automatic": {name: _plain_settings(density) for name, density in result.automatic.items()},
            "scores": result.scores,
            "automatic_scores": list(result.tested.values()),
            "comparisons": result.comparisons,
            "findings": [asdict(finding) for finding in result.findings],
        }
        whole = {**card, "notes": result.notes, "error_bars": result.error_bars}
        SWEEP_FOLDER.write_card(partial, whole, content)


def _plain_settings(density: Density) -> dict[str, Any]:
    return {"sigma": density.sigma, "grid_size": density.grid_size}


def sweep_remarks(result: Sweep) -> list[str]:
    """Remarks below the tables."""
    automatic = [worded(CHOSEN[result.cross_validated], result.row)] if result.tested else []
    compared = [f"{record['distance']}: {record['sentence']}" for record in result.comparisons]
    remarks = [SWEEP_READING, *automatic, f"error bars: {result.error_bars}", *compared]
    return [*remarks, *(f"note: {note}" for note in result.notes), *map(str, result.findings)]


def sweep_table(result: Sweep, parameter: Parameter) -> Table:
    """Table of the best, the automatic and the paper's value for each distance, with the NLL of each."""
    automatic, chosen = result.automatic_values(parameter), float(getattr(PAPER, parameter))
    rows = []
    for name in result.distances:
        records = [result.best(name, parameter)]
        if automatic:
            own = result.tested[name] if parameter == "sigma" else result.at(name, parameter, automatic[name])
            records.append(own)
        records.append(result.at(name, parameter, chosen))
        rows.append((name, *(text for record in records for text in _cells(record, parameter))))
    heading, kept = "sigma", f"{result.held.grid_size} nodes an axis"
    if parameter == "grid_size":
        heading, kept = "nodes", f"sigma = {result.held.sigma:.3g}"
    kinds = ("best", *(("automatic",) if automatic else ()), "paper's")
    header = ("distance", *(text for kind in kinds for text in (f"{kind} {heading}", "NLL ↓")))
    first = result.scores[0]
    caption = f"NLL against {heading}, with {kept}: {first[f'{result.row}s']} {result.row}s, {first['votes']} votes"
    return Table(caption, header, tuple(rows))


def _cells(record: Record, parameter: Parameter) -> tuple[str, str]:
    value, se = record[parameter], record["nll_se"]
    error = "" if se is None else f" ± {se:.4f}"
    return f"{value:.3g}" if parameter == "sigma" else str(value), f"{record['nll']:.4f}{error}"


def draw_sweep(result: Sweep, parameter: Parameter, measure: Swept = "nll") -> Figure:
    """Draw a measure against a parameter for every distance, the paper's and the automatic values marked."""
    from matplotlib.figure import Figure

    labels = {
        "sigma": f"kernel width σ ({result.held.grid_size} nodes an axis)",
        "grid_size": f"nodes along an axis (σ = {result.held.sigma:.3g})",
    }
    measures = {
        "nll": f"NLL, nats per {result.row}",
        "nll_per_vote": "NLL, nats per vote",
        "agreement": "agreement AJ, %",
        "score_2afc": "2AFC score, %",
        "average_precision": "average precision, %",
    }
    figure = Figure(figsize=(4.4, 3.2), layout="constrained")
    plots.sweep(
        result.curves(parameter, measure),
        figure.subplots(),
        label=labels[parameter],
        measure=measures[measure],
        chosen=float(getattr(PAPER, parameter)),
        automatic=result.automatic_values(parameter),
        logarithmic=parameter == "sigma",
    )
    return figure

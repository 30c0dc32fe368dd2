"""The whole reproduction: from data sets to tables, figures and one page, in a folder where a run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoafc import plots
from twoafc.arrays import Progress
from twoafc.datasets import Dataset
from twoafc.errors import DataError
from twoafc.files import clear_partial, replaced, require_format, strict_json, write_text
from twoafc.reproduce import experiments, figures
from twoafc.reproduce.experiments import MeasuredSource, PaperDistance, choose_distances
from twoafc.reproduce.printed import SETS, DataMatch, Slip, match_data, slips
from twoafc.reproduce.sources import FETCH, generate, open_source
from twoafc.reproduce.tables import PaperTable, arithmetic_table, cost_table, page, score_tables
from twoafc.results import Result

FEWEST = 20
"""The least triplets of a split that can be fitted."""
CARD = "run.json"
OWN = frozenset({CARD, "index.html", "data", "results", "experiments", "tables", "figures", "synthetic"})
"""All entries of an output folder."""


@dataclass(frozen=True)
class Options:
    """What a reproduction depends on besides its data."""

    #: as for `twoafc measure`; None for those of the paper's six that can be measured here
    distances: tuple[str, ...] | None = None
    limit: int | None = None  #: triplets of each split, drawn before anything is measured; None for all
    seeds: int = 10  #: runs of the network
    seed: int = 0  #: of the draw and the generated sets, and the first of the network's

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < FEWEST:
            raise ValueError(f"limit must be at least {FEWEST}, or there is nothing to fit; found {self.limit}")
        for name, least in {"seeds": 1, "seed": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}; found {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The result of a reproduction."""

    folder: Path  #: the output folder; index.html is the page
    tables: list[PaperTable]  #: the paper's tables with our values
    results: Mapping[str, Result]  #: by data set, as `twoafc evaluate` writes them
    warning: str  #: why our values cannot be compared with the paper's; empty if they can
    notes: list[str]  #: for the reader: what was left out, merged or cross-validated
    slips: tuple[Slip, ...]  #: what the paper prints wrongly


def reproduce(
    out: str | Path,
    *,
    bapps: str | Path | None = None,
    clic: str | Path | None = None,
    synthetic: bool = False,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Run the paper's experiments and write its tables, its figures and one page.

    What was measured and fitted stays in the folder: the same call resumes a run that was stopped.

    Parameters
    ----------
    out : path
        Output folder: new, or of an earlier run with the same limit and seed, whose data sets are included.
    bapps, clic : path, optional
        Folders of the data sets; one is enough, and the other can be added by a later run.
    synthetic : bool
        Generate sets in the same layouts instead; the values are then meaningless.
    options : Options, optional
    progress : callable (done, total, what), optional
    """
    options, out = options or Options(), Path(out)
    given = {name: Path(path) for name, path in {"bapps": bapps, "clic": clic}.items() if path is not None}
    if synthetic and given:
        raise ValueError(f"synthetic sets replace the real ones; found {next(iter(given))} too; choose one")
    if not synthetic and not given:
        raise DataError(
            "a data set is needed; found none; name a folder of BAPPS (--bapps) or of CLIC 2021 (--clic), or "
            f"--synthetic; to get the data, run: {FETCH['bapps']} or {FETCH['clic']}"
        )

    def stage(name: str) -> Progress | None:
        return None if progress is None else lambda done, total, what: progress(done, total, f"{name}: {what}")

    limit, seeds, seed = options.limit, options.seeds, options.seed
    chosen, notes = choose_distances(options.distances, deep=not synthetic)
    sources, earlier = _open_sources(out, given, synthetic, options, progress)
    measured = {
        name: experiments.measure_source(name, splits, chosen, out, limit=limit, seed=seed, progress=stage(name))
        for name, splits in sources.items()
    }
    results = {
        name: experiments.score(data, chosen, out, seeds=seeds, seed=seed, progress=stage(name))
        for name, data in measured.items()
    }
    # BAPPS comes first, if it is there.
    main = next(iter(measured.values()))
    swept = experiments.vary_settings(main, chosen, out, seed=seed, progress=stage("robustness"))
    if progress:
        progress(0, 1, "taking times")
    times = experiments.take_times(main, chosen, out)
    matches = {
        name: DataMatch() if synthetic else match_data(name, data.tables, limited=limit is not None)
        for name, data in measured.items()
    }
    caution = caution_about(options, synthetic, matches)
    warning = " ".join([*caution, *(text for match in matches.values() for text in match.warnings)])
    notes += [*earlier, *(note for data in measured.values() for note in data.notes)]
    notes += [f"{name}: {note}" for name, result in results.items() for note in result.notes]
    scores = {name: result.scores for name, result in results.items()}
    tables = [*score_tables(scores, chosen, matches), cost_table(times), arithmetic_table()]
    reproduction = Reproduction(out, tables, results, warning, notes, slips())
    if progress:
        progress(0, 1, "drawing the figures")
    drawn = figures.paper_figures(measured, results, swept, chosen)
    _write(reproduction, measured, chosen, drawn, caution)
    return reproduction


def _open_sources(
    out: Path, given: Mapping[str, Path], synthetic: bool, options: Options, progress: Progress | None
) -> tuple[dict[str, dict[str, Dataset]], list[str]]:
    """Open the given data sets and those of earlier runs, or generate some; return also notes on earlier ones."""
    settings = {"limit": options.limit, "seed": options.seed, "synthetic": synthetic}
    earlier = {name: path for name, path in earlier_sets(out, settings).items() if name not in given}
    folders = {name: path for name in SETS if (path := ({**given, **earlier}).get(name))}
    sources = {}
    for name, folder in folders.items():
        try:
            sources[name] = open_source(name, folder, progress=progress)
        except DataError as error:
            if name in given:
                raise
            raise DataError(
                f"{out} has {SETS[name]} from an earlier run, which is no longer in {folder}; give its path with "
                f"--{name}, or name another output folder"
            ) from error
    claim(out, settings, folders)
    if synthetic:
        for name in SETS:
            made = generate(name, out / "synthetic", limit=options.limit, seed=options.seed, progress=progress)
            sources[name] = open_source(name, made, progress=progress)
    return sources, [f"{name}: from an earlier run into this folder, {path}" for name, path in earlier.items()]


def _write(
    reproduction: Reproduction,
    measured: Mapping[str, MeasuredSource],
    chosen: Sequence[PaperDistance],
    drawn: Sequence[figures.PaperFigure],
    caution: list[str],
) -> None:
    """Write the tables, the figures and the page."""
    out = reproduction.folder
    with replaced(out / "tables") as folder:
        for table in reproduction.tables:
            table.write(folder, caution)
    with replaced(out / "figures") as folder:
        for figure in drawn:
            plots.save(figure.drawn, *(folder / f"{figure.name}.{ending}" for ending in ("svg", "pdf")), dpi=200)
    shown = [(figure, out / "figures" / f"{figure.name}.svg") for figure in drawn]
    splits = {name: data.tables for name, data in measured.items()}
    write_text(page(reproduction, chosen, shown, splits), out / "index.html")


def caution_about(options: Options, synthetic: bool, matches: Mapping[str, DataMatch]) -> list[str]:
    """Return a caution about values from a sample or from generated sets; none if the data are the paper's."""
    if synthetic:
        return [
            "These are generated sets: distorted photographs and simulated observers. Nothing here is evidence about "
            "the paper's values, or about any distance."
        ]
    if options.limit is None or all(match.complete for match in matches.values()):
        return []
    return [
        f"A quick look: at most {options.limit:,} triplets of each split, drawn with seed {options.seed}. P is fitted "
        "to fewer votes than in the paper, so its values are not expected here."
    ]


def earlier_sets(folder: Path, settings: Mapping[str, Any]) -> dict[str, Path]:
    """Return the data sets that earlier runs into a folder used, and where they are.

    The folder may be new, empty, or of earlier runs with the same settings; others are refused.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; the tables and figures are written to a folder")
    entries = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    foreign = [name for name in entries if name not in OWN or CARD not in entries]
    if foreign:
        raise DataError(f"{folder} has other files ({foreign[0]}); name a new folder, or one of an earlier run only")
    if not entries:
        return {}
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        before, sets = card["settings"], {name: Path(path) for name, path in card["sets"].items()}
        changed = [name for name in settings if before[name] != settings[name]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder / CARD} is not from an earlier run; name a new folder") from error
    require_format(card.get("format", 0), experiments.FORMAT, str(folder / CARD), "name a new folder")
    for name in changed:
        old, new = ("none" if value is None else value for value in (before[name], settings[name]))
        raise DataError(
            f"all runs into a folder have the same {name}; {folder} has {old}, this run {new}; name another "
            "folder, or remove it"
        )
    return sets


def claim(folder: Path, settings: Mapping[str, Any], inputs: Mapping[str, Path]) -> None:
    """Make the output folder without leftovers of killed runs, and write its card: settings, folders of data sets."""
    for path in inputs.values():
        if path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path} lies in {folder}, the output folder; name another output folder")
    folder.mkdir(parents=True, exist_ok=True)
    for parent in (folder, folder / "results", folder / "synthetic"):
        clear_partial(parent)
    sets = {name: str(path.resolve()) for name, path in inputs.items()}
    card = {"format": experiments.FORMAT, "command": "twoafc reproduce", "settings": settings, "sets": sets}
    write_text(strict_json(card, indent=1), folder / CARD)

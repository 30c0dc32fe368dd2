"""The whole way: data sets to measured tables, to scores, to the paper's tables and figures, to one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from twoafc.errors import DataError
from twoafc.evaluation import Progress
from twoafc.folder import Results
from twoafc.kept import replaced, written
from twoafc.measurement import write_text
from twoafc.reproduce import experiments, figures
from twoafc.reproduce import synthetic as generated
from twoafc.reproduce.basis import Basis, basis
from twoafc.reproduce.chosen import Chosen, choose
from twoafc.reproduce.experiments import Measured
from twoafc.reproduce.layout import Layout, arithmetic, of_cost, score_tables
from twoafc.reproduce.page import Story, page
from twoafc.reproduce.printed import Slip, slips
from twoafc.reproduce.resume import claim, earlier, finish, is_finished, key_of
from twoafc.reproduce.sources import SETS, Source, find_bapps, find_clic
from twoafc.reproduce.written import as_frame, write_table
from twoafc.scores import Record
from twoafc.sweep import Sweep

FEWEST = 20
"""Triplets of a split below which there is nothing to fit."""
NEITHER = (
    "a data set is needed; name a folder of BAPPS (--bapps) or of CLIC 2021 (--clic), or --synthetic: "
    "twoafc fetch bapps_train bapps_val gets the first, 6.4 GB; twoafc fetch clic2021_valid clic2021_test the second, "
    "whose size is not published"
)


@dataclass(frozen=True)
class Options:
    """What a reproduction depends on beside its data.

    Parameters
    ----------
    distances : tuple of str or None
        As `twoafc measure` takes them; None takes the paper's six, but those that cannot be measured here.
    limit : int or None
        Triplets of each split, drawn by a seed before anything is measured; None takes all.
    seeds : int
        Runs of the network.
    seed : int
        Of the draw, of the generated sets, and the first of the network's.
    """

    distances: tuple[str, ...] | None = None
    limit: int | None = None
    seeds: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < FEWEST:
            raise ValueError(f"limit must be at least {FEWEST}, or there is nothing to fit; found {self.limit}")
        for name, least in {"seeds": 1, "seed": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}; found {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What came of it.

    Attributes
    ----------
    folder : Path
        Where it all is; index.html is the page.
    tables : list of Layout
        The paper's tables with the figures found here.
    results : mapping of data set to Results
        As `twoafc evaluate` writes them.
    warning : str
        What must be said first of figures that do not compare with the paper's; empty where they do.
    notes : list of str
        What a reader should know: what was left out, merged, or cross-validated.
    slips : tuple of Slip
        What the paper prints wrongly.
    """

    folder: Path
    tables: list[Layout]
    results: Mapping[str, Results]
    warning: str
    notes: list[str]
    slips: tuple[Slip, ...]


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

    What is finished is kept in the folder: the same call goes on where a run was stopped, and does nothing twice.

    Parameters
    ----------
    out : path
        Folder to write: new, or of an earlier run with the same limit and seed, whose data sets stay.
    bapps, clic : path, optional
        Folders of the data sets; either alone will do, and the other may come by a later run.
    synthetic : bool
        Generate sets in the same layouts instead: everything runs, and no figure means anything.
    options : Options, optional
    progress : callable (done, total, what), optional
    """
    options = options or Options()
    out = Path(out)
    given = {name: Path(path) for name, path in {"bapps": bapps, "clic": clic}.items() if path is not None}
    if synthetic and given:
        raise ValueError(f"synthetic sets take the place of the true ones; found {next(iter(given))} too: choose")
    if not synthetic and not given:
        raise DataError(NEITHER)
    chosen, notes = choose(options.distances, deep=not synthetic)
    kept = {} if synthetic else {name: path for name, path in earlier(out).items() if name not in given}
    folders = {name: path for name in SETS for path in [given.get(name) or kept.get(name)] if path}
    sources = {} if synthetic else _opened(folders, kept, out, progress)
    claim(out, {"limit": options.limit, "seed": options.seed, "synthetic": synthetic}, folders)
    if synthetic:
        sources = _opened(_generated(out, options, progress), {}, out, progress)
    notes += [f"{name}: of an earlier run into this folder, from {path}" for name, path in kept.items()]
    found = _experiments(out, options, chosen, sources, progress)
    bases = _bases(found, options, synthetic)
    worth = worth_of(options, synthetic, bases)
    lacking = [told for each in bases.values() for told in each.warnings]
    told = Story(" ".join([*worth, *lacking]), worth, chosen, [*notes, *found.notes], found.results)
    tables = [
        *score_tables({name: each.scores for name, each in found.results.items()}, chosen, bases),
        of_cost(found.cost),
        arithmetic(),
    ]
    shown = [
        told.warning,
        told.notes,
        [asdict(each) for each in chosen],
        [as_frame(each).write_csv() for each in tables],
    ]
    key = key_of(shown, found.swept.scores, [each.card["reproduce"] for each in found.results.values()])
    if not is_finished(out, key):
        _write(out, told, tables, found, progress)
        finish(out, key)
    return Reproduction(out, tables, found.results, told.warning, told.notes, slips())


def _opened(
    folders: Mapping[str, Path], kept: Mapping[str, Path], out: Path, progress: Progress | None
) -> dict[str, Source]:
    """Open data sets; say of one that an earlier run has left in the folder where it was, if it is there no more."""
    found = {}
    for name, folder in folders.items():
        try:
            found[name] = find_bapps(folder, progress=progress) if name == "bapps" else find_clic(folder)
        except DataError as error:
            if name not in kept:
                raise
            raise DataError(
                f"{out} has {SETS[name]} of an earlier run, which is not in {folder} any more; say where it is with "
                f"--{name}, or name another folder to write"
            ) from error
    return found


def _bases(found: _Found, options: Options, synthetic: bool) -> dict[str, Basis]:
    """Hold each data set against the paper's; generated ones have nothing to do with it."""
    if synthetic:
        return {name: Basis() for name in found.measured}
    return {name: basis(data, counted=options.limit is None) for name, data in found.measured.items()}


def _generated(out: Path, options: Options, progress: Progress | None) -> dict[str, Path]:
    root = out / "synthetic"
    return {
        "bapps": generated.write_bapps(root, limit=options.limit, seed=options.seed, progress=progress),
        "clic": generated.write_clic(root, limit=options.limit, seed=options.seed, progress=progress),
    }


@dataclass(frozen=True, eq=False)
class _Found:
    """What the experiments gave."""

    measured: Mapping[str, Measured]
    results: Mapping[str, Results]
    swept: Sweep
    cost: Mapping[str, Record]

    @property
    def main(self) -> Measured:
        """The data set of which there is one figure, not two."""
        return self.measured.get("bapps") or next(iter(self.measured.values()))

    @property
    def notes(self) -> list[str]:
        """What a reader should know of the data and of the fits."""
        of_data = [note for each in self.measured.values() for note in each.notes]
        return of_data + [f"{name}: {note}" for name, each in self.results.items() for note in each.card["notes"]]


def _experiments(
    out: Path, options: Options, chosen: Sequence[Chosen], sources: Mapping[str, Source], progress: Progress | None
) -> _Found:
    measured = {
        name: experiments.measured(
            source, chosen, out, limit=options.limit, seed=options.seed, progress=_stage(progress, name)
        )
        for name, source in sources.items()
    }
    results = {
        name: experiments.scored(
            data, chosen, out, seeds=options.seeds, seed=options.seed, progress=_stage(progress, name)
        )
        for name, data in measured.items()
    }
    main = measured.get("bapps") or next(iter(measured.values()))
    swept = experiments.robustness(main, chosen, out, seed=options.seed, progress=_stage(progress, "robustness"))
    if progress:
        progress(0, 1, "taking times")
    return _Found(measured, results, swept, experiments.times(main, chosen, out))


def _write(out: Path, told: Story, tables: Sequence[Layout], found: _Found, progress: Progress | None) -> None:
    """Write tables, figures and the page, each of them in the place of an earlier one."""
    with replaced(out / "tables") as folder:
        for table in tables:
            write_table(table, folder, told.worth)
    drawings = [
        figures.of_example(),
        *(
            each
            for data in found.measured.values()
            for each in figures.of_set(data, found.results[data.name], told.chosen)
        ),
        *figures.of_robustness(found.swept, told.chosen, SETS[found.main.name]),
    ]
    shown = []
    with replaced(out / "figures") as folder:
        for place, each in enumerate(drawings):
            if progress:
                progress(place, len(drawings), f"drawing {each.name}")
            shown.append(figures.save(each, folder))
    if progress:
        progress(len(drawings), len(drawings), "writing the page")
    data = {name: each.as_in_paper for name, each in found.measured.items()}
    with written(out / "index.html"):
        write_text(page(told, tables, shown, data), out / "index.html")


def worth_of(options: Options, synthetic: bool, bases: Mapping[str, Basis]) -> list[str]:
    """Say what figures are worth that are made of a draw, or of generated sets; nothing where they are the paper's.

    Examples
    --------
    >>> worth_of(Options(limit=500), False, {"bapps": Basis()})[0].partition(":")[0]
    'A quick look'
    """
    if synthetic:
        return [
            "These are generated sets: distorted photographs, and simulated people. Nothing here is evidence about the "
            "paper's figures, or about any distance."
        ]
    if options.limit is None or all(each.whole for each in bases.values()):
        return []
    return [
        f"A quick look: at most {options.limit:,} triplets of each split, drawn by seed {options.seed}. P is fitted to "
        "fewer votes than the paper's, so its figures cannot be expected here."
    ]


def _stage(progress: Progress | None, name: str) -> Progress | None:
    return None if progress is None else lambda done, total, what: progress(done, total, f"{name}: {what}")

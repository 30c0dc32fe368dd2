"""The experiments: distances are measured, both estimators fitted and scored, settings varied, times taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import twoafc
from twoafc import card, results
from twoafc.errors import DataError
from twoafc.estimators import Density, Estimator, Network
from twoafc.evaluation import Progress, Settings, evaluate
from twoafc.folder import Results
from twoafc.measurement import measure
from twoafc.reproduce import cost
from twoafc.reproduce.chosen import Chosen
from twoafc.reproduce.resume import key_of, remembered, rid_of_anchors
from twoafc.reproduce.sources import Source, drawn
from twoafc.scores import Record
from twoafc.sweep import Sweep, sweep
from twoafc.triplets import Triplets

ESTIMATORS: dict[str, Estimator] = {"density": Density(), "network": Network()}
"""With the paper's settings, which are their defaults."""


@dataclass(frozen=True, eq=False)
class Measured:
    """A data set of the paper's with its distances measured.

    Parameters
    ----------
    source : Source
        The images: drawn from where a limit was given, without anchors.
    train, test : Triplets
        test is None where the training table is cross-validated.
    notes : list of str
        What a reader should know.
    """

    source: Source
    train: Triplets
    test: Triplets | None
    notes: list[str]

    @property
    def name(self) -> str:
        """The data set's name: bapps or clic."""
        return self.source.name

    @property
    def tables(self) -> dict[str, Triplets]:
        """What there is, by split."""
        return {"train": self.train} | ({"test": self.test} if self.test is not None else {})

    @property
    def as_in_paper(self) -> dict[str, Triplets]:
        """What there is, by split of the paper's: a table that is cross-validated may be its test set."""
        return {self.source.alone: self.train} if self.source.alone else self.tables


def measured(
    source: Source,
    distances: Sequence[Chosen],
    folder: Path,
    *,
    limit: int | None,
    seed: int,
    progress: Progress | None = None,
) -> Measured:
    """Measure the distances on both splits of a data set; what is measured already is not measured again."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    notes = list(source.notes)
    sets, tables = {}, {}
    for role, data in source.splits.items():
        stem = folder / "data" / f"{source.name}-{role}"
        few = drawn(data, limit, seed=seed)
        if source.name == "clic":
            few = rid_of_anchors(few, stem.with_suffix(".anchors.json"), progress=progress)
            notes += [f"{source.name} {role}: {note}" for note in few.notes[len(data.notes) :]]
        file = stem.with_suffix(".parquet")
        found = measure(few, [each.asked for each in distances], file, progress=progress)
        if found.table is None:
            raise DataError(f"no triplet of {source.name} {role} could be measured; {found.failures[0]}")
        if found.failures:
            listed = f"{file.name}.failures.csv"
            notes.append(f"{source.name} {role}: {len(found.failures)} triplets could not be measured; see {listed}")
        sets[role], tables[role] = few, Triplets.read(file)
    rest = replace(source, train=sets["train"], test=sets.get("test"))
    return Measured(rest, tables["train"], tables.get("test"), notes)


def scored(
    data: Measured,
    distances: Sequence[Chosen],
    folder: Path,
    *,
    seeds: int,
    seed: int,
    progress: Progress | None = None,
) -> Results:
    """Fit and score both estimators on every distance; the results are a folder like any other of `evaluate`.

    A folder that was made from the same is not made again.
    """
    names = [each.name for each in distances]
    settings = Settings(seeds=seeds, seed=seed)
    described = {role: card.describe(table) for role, table in data.tables.items()}
    key = key_of(described, names, asdict(settings), {k: repr(v) for k, v in ESTIMATORS.items()}, twoafc.__version__)
    out = folder / "results" / data.name
    try:
        earlier = Results.read(out)
        if earlier.card.get("reproduce") == key:
            return earlier
    except DataError:
        pass
    found = evaluate(
        data.train, data.test, distances=names, estimators=ESTIMATORS, settings=settings, progress=progress
    )
    made = card.of_evaluation(described, ESTIMATORS, settings, found.runs)
    results.write(found, out, {**made, "reproduce": key})
    return Results.read(out)


def robustness(
    data: Measured, distances: Sequence[Chosen], folder: Path, *, seed: int, progress: Progress | None = None
) -> Sweep:
    """Vary sigma on a 100 x 100 grid, and the grid at the paper's sigma."""
    names = [each.name for each in distances]
    described = {role: card.describe(table) for role, table in data.tables.items()}

    def make() -> dict[str, Any]:
        found = sweep(data.train, data.test, distances=names, seed=seed, progress=progress)
        automatic = {name: asdict(settings) for name, settings in found.automatic.items()}
        return {"scores": found.scores, "held": asdict(found.held), "automatic": automatic}

    key = key_of(described, names, seed, twoafc.__version__)
    told = remembered(folder / "experiments" / f"robustness-{data.name}.json", key, make)
    automatic = {name: Density(**settings) for name, settings in told["automatic"].items()}
    return Sweep(told["scores"], Density(**told["held"]), Density(), automatic)


def times(data: Measured, distances: Sequence[Chosen], folder: Path) -> dict[str, Record]:
    """Take the times of fitting and asking both estimators, once on this machine: see `twoafc.reproduce.cost`."""
    name = distances[0].name
    table = data.train[name]

    def make() -> dict[str, Record]:
        timed = {"set": data.name, "distance": name}
        return {each: timed | made for each, made in cost.measured(table, ESTIMATORS).items()}

    key = key_of(card.describe(table), data.name, name, cost.machine(), twoafc.__version__)
    made: dict[str, Record] = remembered(folder / "experiments" / "cost.json", key, make)
    return made

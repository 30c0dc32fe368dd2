"""The paper's experiments: distances are measured, both estimators fitted and scored, settings varied, times taken."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import twoafc
from twoafc.arrays import Progress
from twoafc.datasets import Dataset, without_anchors
from twoafc.distances import DEEP, distance
from twoafc.errors import DataError
from twoafc.estimators import Density, Estimator, Network
from twoafc.evaluation import Settings, Sweep, evaluate, sweep
from twoafc.files import strict_json, write_text
from twoafc.inference import Record
from twoafc.measurement import make_candidates
from twoafc.reproduce.printed import HEADINGS
from twoafc.reproduce.sources import sample
from twoafc.results import Result, describe_table
from twoafc.table import Triplets

ESTIMATORS: dict[str, Estimator] = {"density": Density(), "network": Network()}
"""With the paper's settings, which are their defaults."""
FORMAT = 1
"""Version of the files that a run keeps for the next: its card and what it has computed."""
MOST_FITS, FIT_SECONDS = 10, 15.0
"""Fits of which the fastest is reported, as in the paper; none is started after this many seconds."""

OURS = {name: {"pim": "pim_1", "lpips": "lpips_alex"}.get(name, name) for name in HEADINGS}
"""Our variant of each of the paper's six distances."""
VARIANTS = {
    "euclidean": "square root of the summed squared differences, RGB",
    "rmse": "root mean squared difference, RGB: ranks images of one size as the Euclidean distance does",
    "nlpd": "on luma, as its authors published it in 2016",
    "nlpd_rgb": "on the three colours",
    "ssim": "1 - SSIM, mean over the three colours, Gaussian window of 11 pixels",
    "ssim_luma": "1 - SSIM on luma",
    "pim_1": "PIM-1, the published weights",
    "pim_5": "PIM-5, the published weights",
    "lpips_alex": "LPIPS 0.1, AlexNet with the published linear weights",
    "lpips_vgg": "LPIPS 0.1, VGG16 with the published linear weights",
    "lpips_squeeze": "LPIPS 0.1, SqueezeNet with the published linear weights",
    "dists": "DISTS, the published weights",
}


@dataclass(frozen=True)
class PaperDistance:
    """A distance as requested, the name of its columns, and the paper's name for it, if the paper has it."""

    requested: str
    name: str
    paper: str | None

    @property
    def heading(self) -> str:
        """The heading of its column."""
        if self.paper is None:
            return self.name
        return HEADINGS[self.paper] if OURS[self.paper] == self.name else f"{HEADINGS[self.paper]} ({self.name})"

    @property
    def variant(self) -> str:
        """A description of the variant."""
        return VARIANTS.get(self.name, "not a distance of the paper" if self.paper is None else "another variant")


def choose_distances(requested: Sequence[str] | None, *, deep: bool = True) -> tuple[list[PaperDistance], list[str]]:
    """Choose the distances to measure, and list which of the paper's are left out, and why.

    A requested distance, as for `twoafc measure`, must be available, or the error says how to get it. By default these
    are those of the paper's six that can be measured here; `deep` says whether those with a network are among them.
    """
    if requested is not None:
        names = [candidate.name for candidate in make_candidates(tuple(requested), "cpu", "fp32", {})]
        # A variant, such as lpips_vgg, has the paper's name before its own.
        papers = ["euclidean" if name == "rmse" else name.partition("_")[0] for name in names]
        return [
            PaperDistance(text, name, paper if paper in OURS else None)
            for text, name, paper in zip(requested, names, papers, strict=True)
        ], []
    chosen, notes = [], []
    for paper, name in OURS.items():
        reason = "" if deep or name not in DEEP else "generated sets use those without weights"
        try:
            if not reason:
                distance(name)
        except ImportError as error:
            reason = str(error)
        except DataError:
            reason = f"its weights are missing; run: twoafc fetch {name}"
        if reason:
            notes.append(f"{HEADINGS[paper]} ({name}) is left out: {reason}")
        else:
            chosen.append(PaperDistance(name, name, paper))
    return chosen, notes


def in_paper_order(chosen: Sequence[PaperDistance]) -> list[PaperDistance]:
    """Put distances in the order of the paper's six, with an entry for each that was not measured; others come last."""
    ordered: list[PaperDistance] = []
    for paper, name in OURS.items():
        ordered += [item for item in chosen if item.paper == paper] or [PaperDistance(name, name, paper)]
    return [*ordered, *(item for item in chosen if item.paper is None)]


def digest(*parts: Any) -> str:
    """Hash everything that a result depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def cached(path: Path, key: str, compute: Callable[[], Any]) -> Any:
    """Read the result of an earlier run with the same key and format, or compute and save it."""
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["key"] == key and saved["format"] == FORMAT:
            return saved["made"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    result = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(strict_json({"format": FORMAT, "key": key, "made": result}, indent=1), path)
    # Read back, so that this run uses the same values as the next.
    return json.loads(path.read_text(encoding="utf-8"))["made"]


@dataclass(frozen=True, eq=False)
class MeasuredSource:
    """A data set with its distances measured."""

    name: str  # bapps or clic
    splits: Mapping[str, Dataset]  # train, test or both, with images: a sample if a limit was given, without anchors
    tables: Mapping[str, Triplets]  # of the same splits
    notes: list[str]  # for the reader

    @property
    def train(self) -> Triplets:
        """The table to fit: a single split is cross-validated."""
        return next(iter(self.tables.values()))

    @property
    def test(self) -> Triplets | None:
        """The table to score; None if `train` is cross-validated."""
        return self.tables["test"] if len(self.tables) == 2 else None

    @property
    def description(self) -> dict[str, Any]:
        """Both tables as the card of an evaluation describes them."""
        roles = {"train": self.train} | ({} if self.test is None else {"test": self.test})
        return {role: describe_table(table) for role, table in roles.items()}


def measure_source(
    name: str,
    found: Mapping[str, Dataset],
    distances: Sequence[PaperDistance],
    folder: Path,
    *,
    limit: int | None,
    seed: int,
    progress: Progress | None = None,
) -> MeasuredSource:
    """Measure the distances on the splits of a data set; what an earlier run has measured is not measured again."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    notes, splits, tables = [], {}, {}
    for split, data in found.items():
        where, file = f"{name} {split}", folder / "data" / f"{name}-{split}.parquet"
        data = sample(data, limit, seed=seed)
        if name == "clic":
            data = _without_anchors(data, file.with_suffix(".anchors.json"), progress)
        notes += [f"{where}: {note}" for note in data.notes]
        outcome = twoafc.measure(data, [item.requested for item in distances], file, progress=progress)
        if outcome.table is None:
            raise DataError(f"no triplet of {where} could be measured; {outcome.failures[0]}")
        if outcome.failures:
            failed = len(outcome.failures)
            notes.append(f"{where}: {failed} triplets could not be measured; see {file.name}.failures.csv")
        splits[split], tables[split] = data, Triplets.read(file)
    return MeasuredSource(name, splits, tables, notes)


def _without_anchors(data: Dataset, path: Path, progress: Progress | None) -> Dataset:
    """Leave out anchors; the result is saved, because finding them reads every image."""

    def find() -> dict[str, Any]:
        rest = without_anchors(data, progress=progress)
        return {"kept": rest.table["triplet"].to_list(), "notes": list(rest.notes[len(data.notes) :])}

    saved = cached(path, digest(data.fingerprint()), find)
    rest = data.where(data.table["triplet"].is_in(pl.Series(saved["kept"], dtype=pl.String).implode()).to_numpy())
    return replace(rest, notes=(*data.notes, *saved["notes"]))


def score(
    data: MeasuredSource,
    distances: Sequence[PaperDistance],
    folder: Path,
    *,
    seeds: int,
    seed: int,
    progress: Progress | None = None,
) -> Result:
    """Fit and score both estimators on every distance, into a folder of results; an earlier one is used if valid."""
    names = [item.name for item in distances]
    settings = Settings(seeds=seeds, seed=seed)
    described = data.description
    key = digest(described, names, asdict(settings), {k: repr(v) for k, v in ESTIMATORS.items()}, twoafc.__version__)
    out = folder / "results" / data.name
    try:
        earlier = Result.read(out)
        if earlier.card.get("reproduce") == key:
            return earlier
    except DataError:
        pass
    result = evaluate(
        data.train, data.test, distances=names, estimators=ESTIMATORS, settings=settings, progress=progress
    )
    result.card["reproduce"] = key
    result.write(out)
    return Result.read(out)


def vary_settings(
    data: MeasuredSource,
    distances: Sequence[PaperDistance],
    folder: Path,
    *,
    seed: int,
    progress: Progress | None = None,
) -> Sweep:
    """Vary sigma on a grid of 100 x 100, and the grid at the paper's sigma."""
    names = [item.name for item in distances]

    def compute() -> dict[str, Any]:
        swept = sweep(data.train, data.test, distances=names, seed=seed, progress=progress)
        automatic = {name: asdict(settings) for name, settings in swept.automatic.items()}
        return {"scores": swept.scores, "held": asdict(swept.held), "automatic": automatic}

    key = digest(data.description, names, seed, twoafc.__version__)
    saved = cached(folder / "experiments" / f"robustness-{data.name}.json", key, compute)
    automatic = {name: Density(**settings) for name, settings in saved["automatic"].items()}
    return Sweep(saved["scores"], Density(**saved["held"]), automatic)


def take_times(data: MeasuredSource, distances: Sequence[PaperDistance], folder: Path) -> dict[str, Record]:
    """Time both estimators on one distance, once on this machine: the least of several runs, as in the paper."""
    name = distances[0].name
    table = data.train[name]

    def compute() -> dict[str, Record]:
        head = {"set": data.name, "distance": name, "triplets": len(table), "machine": _machine()}
        return {key: {**head, **_time(estimator, table)} for key, estimator in ESTIMATORS.items()}

    key = digest(describe_table(table), data.name, name, _machine(), twoafc.__version__)
    times: dict[str, Record] = cached(folder / "experiments" / "cost.json", key, compute)
    return times


def _time(estimator: Estimator, table: Triplets) -> Record:
    """Time fits and the inference of P for 1 and for 128 triplets, and count the parameters."""
    seconds: list[float] = []
    while len(seconds) < MOST_FITS and sum(seconds) < FIT_SECONDS:
        start = time.perf_counter()
        fit: Any = estimator.fit(table)
        seconds.append(time.perf_counter() - start)
    d0, d1 = (np.resize(column, 128) for column in (table.d0, table.d1))
    return {
        "train_s": min(seconds),
        "fits": len(seconds),
        "parameters": int((fit.surface if isinstance(estimator, Density) else fit.parameters).size),
        "infer_1_s": _seconds_per_call(lambda: fit.probability(d0[:1], d1[:1])),
        "infer_128_s": _seconds_per_call(lambda: fit.probability(d0, d1)),
    }


def _seconds_per_call(call: Callable[[], Any]) -> float:
    """Time one call: the least mean of five rounds of many calls each."""
    timer = timeit.Timer(call)
    number = max(timer.autorange()[0] // 10, 1)
    return min(timer.repeat(5, number)) / number


def _machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores"

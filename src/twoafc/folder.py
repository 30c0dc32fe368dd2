"""A finished folder of results, read back: what `compare`, `report`, `failures`, `query` and `explore` start from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from twoafc.errors import DataError
from twoafc.estimators import Loaded, load
from twoafc.inference import Record
from twoafc.metrics import Ties
from twoafc.table import ENDS

Key = tuple[str, str, int | None]
"""Distance, estimator and seed of a fit."""
COLUMNS = {"n", "M", "distance", "estimator", "seed", "diverged", "P", "nll"}


@dataclass(frozen=True, eq=False)
class Results:
    """What a folder that `twoafc evaluate` has written tells.

    Attributes
    ----------
    folder : Path
    told : dict
        The content of scores.json: card, scores, comparisons, ceiling, findings, goodness.
    """

    folder: Path
    told: dict[str, Any]

    @classmethod
    def read(cls, folder: str | Path) -> Results:
        """Read a folder of results of triplets; anything else is refused with a `DataError`."""
        folder = Path(folder)
        path = folder / "scores.json"
        if not path.is_file():
            raise DataError(f"{folder} is not a folder of results; it has no scores.json")
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            settings = told["card"]["settings"]
            _ = told["scores"], told["comparisons"], told["card"]["error_bars"], settings["ties"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is not that of a result; run twoafc evaluate again") from error
        return cls(folder, told)

    @property
    def row(self) -> str:
        """What a row of the tested table is: triplet or pair."""
        return "pair" if self.told["card"].get("kind") == "pairs" else "triplet"

    @property
    def card(self) -> dict[str, Any]:
        """What made the result: see `twoafc.card`."""
        return dict(self.told["card"])

    @property
    def scores(self) -> list[Record]:
        """One record per distance, estimator, seed, split and group."""
        return list(self.told["scores"])

    @property
    def comparisons(self) -> list[Record]:
        """Paired differences between distances."""
        return list(self.told["comparisons"])

    @property
    def error_bars(self) -> str:
        """What the error bars are of, in words."""
        return str(self.card["error_bars"])

    @property
    def ties(self) -> Ties:
        """What a tie is worth in a 2AFC score."""
        rule: Ties = self.card["settings"]["ties"]
        return rule

    @property
    def way(self) -> str:
        """How the error bars were made: analytic, bootstrap or refit."""
        return str(self.card["settings"].get("error_bars", "analytic"))

    @cached_property
    def triplets(self) -> pl.DataFrame:
        """P and NLL of every tested triplet, in long form."""
        path = self.folder / f"{self.row}s.parquet"
        if not path.is_file():
            raise DataError(f"{self.folder} tells nothing of single {self.row}s; it has no {path.name}")
        frame = _parquet(path)
        needed = COLUMNS | {self.row, *ENDS[1 if self.row == "pair" else 2]}
        if not set(frame.columns) >= needed:
            missing = ", ".join(sorted(needed - set(frame.columns)))
            raise DataError(f"{path} lacks {missing}; it was not written by twoafc evaluate")
        return frame

    @cached_property
    def votes(self) -> pl.DataFrame | None:
        """The single votes on the tested triplets, where their observers are known."""
        path = self.folder / "votes.parquet"
        return _parquet(path) if path.is_file() else None

    @property
    def fits(self) -> list[Key]:
        """Distance, estimator and seed of every fit, in the order of the scores."""
        train = (r for r in self.scores if (r["split"], r["group"]) == ("train", "all") and not r.get("runs"))
        return list(dict.fromkeys((r["distance"], r["estimator"], r["seed"]) for r in train))

    def choose(self, distance: str | None = None, estimator: str | None = None) -> tuple[str, str]:
        """Find what a user asked for among the distances and estimators; by default the first of each."""
        known = [(name, label) for name, label, _ in self.fits if self._model(name, label) is not None]
        if not known:
            raise DataError(f"{self.folder} holds no models")
        names, labels = (list(dict.fromkeys(each)) for each in zip(*known, strict=True))
        if distance is not None and distance not in names:
            raise DataError(f"no distance {distance!r} in {self.folder}; it has {', '.join(names)}")
        if estimator is not None and estimator not in labels:
            raise DataError(f"no estimator {estimator!r} in {self.folder}; it has {', '.join(labels)}")
        return names[0] if distance is None else distance, labels[0] if estimator is None else estimator

    def has_model(self, distance: str, estimator: str) -> bool:
        """Whether there is a model of a distance and estimator; an estimator of the user's own may leave none."""
        return self._model(distance, estimator) is not None

    def fit(self, distance: str, estimator: str) -> Loaded:
        """Load the model of a distance and estimator; of several seeds, the first."""
        path = self._model(distance, estimator)
        if path is None:
            raise DataError(f"{self.folder} has no model of {distance}, {estimator}")
        fit: Any = load(path)
        loaded: Loaded = fit
        return loaded

    def _model(self, distance: str, estimator: str) -> Path | None:
        files = dict(zip(self.fits, model_files(self.fits), strict=True))
        paths = [self.folder / "models" / file for key, file in files.items() if key[:2] == (distance, estimator)]
        return next((path for path in paths if path.is_file()), None)


def _parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {str(error).splitlines()[0]}") from error


def model_files(fits: Iterable[Key]) -> list[str]:
    """Name a file for each fit: distance-estimator.npz, with the seed where there are several.

    Examples
    --------
    >>> model_files([("ssim", "density", None), ("ssim", "network", 0), ("ssim", "network", 1)])
    ['ssim-density.npz', 'ssim-network-seed0.npz', 'ssim-network-seed1.npz']
    """
    keys = list(fits)
    several = len({seed for _, _, seed in keys if seed is not None}) > 1
    seeds = [f"-seed{seed}" if several and seed is not None else "" for _, _, seed in keys]
    stems = [f"{name}-{estimator}{seed}" for (name, estimator, _), seed in zip(keys, seeds, strict=True)]
    return file_names(stems)


def file_names(stems: Sequence[str]) -> list[str]:
    """Make names of models fit for files, told apart where they differ by odd signs alone.

    Examples
    --------
    >>> file_names(["a/b", "a b"])
    ['a_b.npz', 'a_b~1.npz']
    """
    plainly = [plain(stem) for stem in stems]
    taken = [plainly[:place].count(stem) for place, stem in enumerate(plainly)]
    return [f"{stem}~{count}.npz" if count else f"{stem}.npz" for stem, count in zip(plainly, taken, strict=True)]


def plain(name: str) -> str:
    """Make a name fit for a file, whatever the column of the table was called."""
    return re.sub(r"[^\w.+-]+", "_", name)

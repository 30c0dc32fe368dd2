"""The result of an evaluation as one object: made by `twoafc.evaluate`, written to a folder, and read back from it."""

from __future__ import annotations

import copy
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from twoafc.diagnostics import Finding
from twoafc.errors import DataError
from twoafc.estimators import Fit, FusionFit, HeadsFit, load
from twoafc.files import write_text
from twoafc.inference import Ceiling, Goodness, Record
from twoafc.metrics import Ties, log_likelihood
from twoafc.public import public
from twoafc.results import folder as folders
from twoafc.results import tables
from twoafc.results.compare import Comparison, compare_results, look_up
from twoafc.results.folder import HALVES, Key
from twoafc.results.verdict import verdict
from twoafc.table import ENDS, UNNAMED, to_native

if TYPE_CHECKING:
    from twoafc.results.figures import Figures

TESTED = ("distance", "estimator", "seed", "diverged", "P", "nll")
"""Columns of the tested rows, besides their labels, votes and distances."""


@dataclass(frozen=True)
class Run:
    """One fit of one estimator, with one seed, to one distance."""

    distance: str
    estimator: str
    seed: int | None
    fit: Fit

    @property
    def diverged(self) -> bool:
        """Whether the fit reports that it failed."""
        return bool(getattr(self.fit, "diverged", False))


@public
class Result:
    """Scores of distances on votes, with everything that they were computed from.

    Parameters
    ----------
    scores : list of records
        One per distance, estimator, seed, split and group, each measure with its error bar.
    triplets : polars.DataFrame or None
        P and NLL of every tested row, for each distance and estimator, in long form; None for counts.
    runs : list of Run
        The fits to the whole training table; from a folder, those whose models were saved.
    notes : list of str
        How the test was made, what was left out, which runs diverged.
    comparisons : list of records
        Paired differences between distances on the tested rows: see `twoafc.inference.comparisons`.
    goodness : mapping of (distance, estimator) to Goodness
        How well P describes the votes that it was tested on; with several seeds, the first that did not diverge.
    error_bars : str
        What the error bars describe, and by what rows are clustered.
    ceiling : Ceiling or None
        Floor and ceiling that the tested votes imply, whatever the distance; None for pairs.
    findings : list of Finding
        Problems and remarks about the tables: see `twoafc.check`.
    votes : polars.DataFrame or None
        The single votes on the tested rows, if their observers are known.
    row : "triplet" or "pair"
        Kind of the rows of the tables.
    card : dict
        Provenance: versions, tables with their hashes, settings, fits; ``frames``, the library of the training table.
    folder : Path, optional
        Folder to read `triplets`, `votes` and `runs` from when they are first used.
    digests : mapping of file name to SHA-256, optional
        The files with frames in the folder.
    """

    def __init__(
        self,
        scores: list[Record],
        triplets: pl.DataFrame | None = None,
        runs: Sequence[Run] | None = None,
        notes: Sequence[str] = (),
        *,
        comparisons: Sequence[Record] = (),
        goodness: Mapping[tuple[str, str], Goodness] | None = None,
        error_bars: str = "",
        ceiling: Ceiling | None = None,
        findings: Sequence[Finding] = (),
        votes: pl.DataFrame | None = None,
        row: str = "triplet",
        card: Mapping[str, Any] | None = None,
        folder: Path | None = None,
        digests: Mapping[str, str] | None = None,
    ) -> None:
        self.scores, self.notes, self.comparisons = list(scores), list(notes), list(comparisons)
        self.goodness, self.findings = dict(goodness or {}), list(findings)
        self.error_bars, self.ceiling, self.row = error_bars, ceiling, row
        self.card: dict[str, Any] = dict(card or {})
        self.folder = folder
        self._digests = dict(digests or {})
        if folder is None:
            self.triplets, self.votes, self.runs = triplets, votes, list(runs or ())

    def __repr__(self) -> str:
        table = tables.summary_table(self.scores, short=True)
        return "\n".join([*self.verdict(), "", tables.plain_text(table)])

    def _repr_html_(self) -> str:
        table = tables.summary_table(self.scores, short=True)
        verdict = "".join(f"<p>{html.escape(line)}</p>" for line in self.verdict())
        return f"{verdict}{tables.plain_html(table)}"

    @classmethod
    def read(cls, folder: str | Path) -> Result:
        """Read a folder that `write` has written; frames and models are read when they are first used.

        Anything else raises a `DataError`.
        """
        return cls(**folders.read_result(Path(folder)))

    def write(
        self,
        folder: str | Path,
        data: Mapping[str, pl.DataFrame] | None = None,
        *,
        images: str | Path | None = None,
    ) -> None:
        """Write scores, tables, rows, models, figures and the report to a folder; an earlier result is replaced.

        Parameters
        ----------
        images : path, optional
            Folder of the images that the tested table names, for the report.
        data : mapping of file name to frame, optional
            Tables to store beside the results.
        """
        folders.write_result(self, folder, data, images)

    def report(self, path: str | Path, images: str | Path | None = None) -> Path:
        """Write the report, one HTML file, and return its path.

        Parameters
        ----------
        images : path, optional
            Folder of the images that the tested table names.
        """
        from twoafc.results.report.page import report_page  # here, since it is slow to import

        write_text(report_page(self, images), Path(path))
        return Path(path)

    @property
    def plot(self) -> Figures:
        """Figures of the result: ``result.plot.differences()``, ``result.plot.surfaces()``, ..."""
        from twoafc.results.figures import Figures  # here, since it is slow to import

        return Figures(self)

    def replace(self, **changes: Any) -> Result:
        """Return a copy with other values of some attributes."""
        other = copy.copy(self)
        other.__dict__.update(changes)
        return other

    @property
    def name(self) -> str:
        """Name of the folder, for messages."""
        return "the result" if self.folder is None else str(self.folder)

    @cached_property
    def triplets(self) -> pl.DataFrame | None:
        """P and NLL of every tested row, for each distance and estimator, in long form; None for counts."""
        assert self.folder is not None
        return folders.read_rows(self.folder, f"{self.row}s.parquet", self._digests)

    @cached_property
    def votes(self) -> pl.DataFrame | None:
        """The single votes on the tested rows, if their observers are known."""
        assert self.folder is not None
        return folders.read_rows(self.folder, "votes.parquet", self._digests)

    @cached_property
    def runs(self) -> list[Run]:
        """The fits to the whole training table; from a folder, those whose models were saved."""
        return [*self._saved_runs(lambda key: True)]

    def _saved_runs(self, wanted: Callable[[Key], bool]) -> Iterator[Run]:
        """Load models one by one."""
        assert self.folder is not None
        for key, name in zip(self.fits, folders.model_files(self.fits), strict=True):
            if wanted(key) and (path := self.folder / "models" / name).is_file():
                yield Run(*key, load(path))

    @property
    def rows(self) -> pl.DataFrame:
        """`triplets`; a `DataError` if there are none, as for counts."""
        if self.triplets is None:
            raise DataError(
                f"single {self.row}s are needed; {self.name} has no {self.row}s.parquet (results of counts have none)"
            )
        return self.triplets

    @property
    def k(self) -> int:
        """Distances of a row: 2 for triplets, 1 for pairs."""
        return 1 if self.row == "pair" else 2

    @property
    def ties(self) -> Ties:
        """Value of a tie in a 2AFC score."""
        rule: Ties = self.card["settings"]["ties"]
        return rule

    @property
    def caveats(self) -> list[str]:
        """Caveats on all scores and comparisons: few references, images or observers, references also in train."""
        caveats = [*(self.card.get("caveats") or []), *(finding.caveat for finding in self.findings if finding.caveat)]
        return [*dict.fromkeys(caveats)]  # of train and test the same one

    @property
    def error_bar_method(self) -> str:
        """How the error bars were computed: analytic, fixed, bootstrap or refit."""
        return str(self.card["settings"].get("error_bars", "analytic"))

    @property
    def fits(self) -> list[Key]:
        """Distance, estimator and seed of every fit, in the order of the scores."""
        train = (r for r in self.scores if (r["split"], r["group"]) == ("train", "all") and not r.get("runs"))
        return list(dict.fromkeys((r["distance"], r["estimator"], r["seed"]) for r in train))

    @property
    def distances(self) -> list[str]:
        """Names of the distances that were tested, in their order."""
        return [str(name) for name in self.rows["distance"].unique(maintain_order=True)]

    @property
    def estimators(self) -> list[str]:
        """Names of the estimators that were tested, in their order."""
        return [str(name) for name in self.rows["estimator"].unique(maintain_order=True)]

    def require_triplets(self, command: str) -> None:
        """Raise a `DataError` if the rows are pairs."""
        if self.row != "triplet":
            raise DataError(
                f"{command} needs results of triplets; {self.name} has results of pairs; "
                "use twoafc report or twoafc compare"
            )

    def model(self, distance: str, estimator: str) -> Fit | None:
        """Return the fit of a distance and estimator, or None if none was saved.

        With several seeds it is the first that did not diverge or, if all did, the last.
        """
        wanted, fit = (distance, estimator), None
        read = "runs" in self.__dict__
        for run in self.runs if read else self._saved_runs(lambda key: key[:2] == wanted):
            if (run.distance, run.estimator) == wanted and hasattr(run.fit, "save"):
                fit = run.fit
                if not run.diverged:
                    break
        return fit

    def fit(self, distance: str, estimator: str) -> Any:
        """Return the fit of a distance and estimator as `model` does; a `DataError` if there is none."""
        fit = self.model(distance, estimator)
        if fit is None:
            raise DataError(f"{self.name} has no model of {distance}, {estimator}")
        return fit

    @property
    def fused(self) -> Any:
        """The distance that `twoafc.fuse` fitted to the whole training table: functions of its parts, or heads.

        Returns
        -------
        Fused or HeadsFit
        """
        name = self.card.get("fusion", self.card.get("heads", {})).get("name")
        fit = None if name is None else self.model(name, "auto")
        if isinstance(fit, HeadsFit):
            return fit
        if not isinstance(fit, FusionFit):
            raise DataError(f"{self.name} has no fused distance; twoafc fuse makes one")
        return fit.fused

    def table(self) -> Any:
        """Return the tested rows as a table for `twoafc.evaluate`: labels, n, M, and columns of every distance.

        If a fused distance was cross-validated, its value in each row is that of the fit that has not seen the row.
        """
        return to_native(self.wide(), self.card.get("frames"))

    def wide(self, estimator: str | None = None) -> pl.DataFrame:
        """Return `table` as a polars frame; the rows are those of an estimator, by default the first."""
        by_name = {name: self.outcome_rows(name, estimator) for name in self.distances}
        prefix = {name: "" if name == UNNAMED else f"{name}_" for name in by_name}
        columns = [rows[end].alias(f"{prefix[name]}{end}") for name, rows in by_name.items() for end in ENDS[self.k]]
        return next(iter(by_name.values())).drop(TESTED, ENDS[self.k], strict=False).with_columns(columns)

    def outcomes(self, distance: str | None = None, estimator: str | None = None) -> Any:
        """Return every tested row with its votes, distances, P and NLL, by default of the first distance and estimator.

        With several seeds, P is the mean over those that did not diverge, and the NLL is that of this P.

        Returns
        -------
        frame
            Labels, ``n``, ``M``, ``distance``, ``estimator``, the distances of the row, ``P``, ``nll``.
        """
        return to_native(self.outcome_rows(distance, estimator), self.card.get("frames"))

    def outcome_rows(self, distance: str | None = None, estimator: str | None = None) -> pl.DataFrame:
        """Return `outcomes` as a polars frame."""
        names, labels = self.distances, self.estimators
        distance = names[0] if distance is None else look_up("distance", distance, names, self.name)
        estimator = labels[0] if estimator is None else look_up("estimator", estimator, labels, self.name)
        rows = self.rows.drop(HALVES, strict=False).filter(distance=distance, estimator=estimator)
        runs = [run for run in rows.partition_by("seed", maintain_order=True) if not run["diverged"].any()]
        finite = [run for run in runs if run["P"].is_finite().all()]
        if not finite:
            raise DataError(f"every run of {distance}, {estimator} diverged; there is no P or NLL for its {self.row}s")
        first = finite[0].drop("seed", "diverged")
        if len(finite) == 1:
            return first
        P = np.mean([run["P"].to_numpy() for run in finite], axis=0)
        nll = -log_likelihood(first["n"].to_numpy(), first["M"].to_numpy(), P)
        return first.with_columns(P=pl.Series(P), nll=pl.Series(nll))

    def frame(self) -> Any:
        """Return the scores as a frame: every distance, estimator, split and group, each measure with its error bar."""
        return to_native(pl.DataFrame(self.scores, infer_schema_length=None), self.card.get("frames"))

    def summary(self) -> Any:
        """Return the scores on tested votes as a small frame, the best first; `frame` has all of them.

        Returns
        -------
        frame
            ``distance``, ``estimator``, ``nll`` with its standard error ``nll_se`` and, where all distances were
            compared, ``nll_letters`` (those that share one cannot be told apart), ``score_2afc`` (pairs:
            ``average_precision``) with its error, and ``explained`` in %.
        """
        records = tables.summary_records(self.scores)
        return to_native(pl.DataFrame(records, infer_schema_length=None), self.card.get("frames"))

    def verdict(self) -> list[str]:
        """State the result in a few sentences, the most important first: which distance leads, how clearly, caveats."""
        return verdict(self)

    def compare(
        self, *others: Result | str | Path, baseline: str | None = None, pairs: Sequence[tuple[str, str]] = ()
    ) -> Comparison:
        """Compare the distances of this result, and of others on the rows that all of them have.

        Parameters
        ----------
        others : results, or folders of results
        baseline : name of a distance, optional
            Compare every other distance with this one, instead of all with each other.
        pairs : list of two names each, optional
            Compare these pairs, instead of all.
        """
        wrong = [other for other in others if not isinstance(other, Result | str | Path)]
        if wrong:
            raise TypeError(f"compare takes other results or folders of results; got {type(wrong[0]).__name__}")
        results = [self, *(other if isinstance(other, Result) else Result.read(other) for other in others)]
        return compare_results(results, baseline=baseline, pairs=pairs)

    def remarks(self) -> list[str]:
        """Return the notes below the tables: caveats, floor and ceiling, notes, findings about the tables."""
        findings = [str(finding) for finding in self.findings if not finding.caveat]
        return [*self.caveats, *tables.ceiling_sentences(self.ceiling), *self.notes, *findings]

"""What a sweep found: scores by distance and setting, with the paper's and the automatic settings among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl

from twoafc.diagnostics import Finding
from twoafc.estimators import Density
from twoafc.inference import Record
from twoafc.plots import SweepCurve
from twoafc.sweep.points import Parameter, nodes_for

Measure = Literal["nll", "nll_per_vote", "agreement", "score_2afc"]
MEASURES: tuple[Measure, ...] = ("nll", "nll_per_vote", "agreement", "score_2afc")


@dataclass(frozen=True)
class Sweep:
    """Scores of the density estimator on triplets that it has not seen, setting by setting.

    Attributes
    ----------
    scores : list of records
        One per distance, parameter and value: see `frame`.
    held : Density
        The sigma under which grid sizes were swept, and the grid size on which sigmas were.
    chosen : Density
        The paper's settings.
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
    """

    scores: list[Record]
    held: Density
    chosen: Density
    automatic: dict[str, Density]
    comparisons: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error_bars: str = ""
    tested: dict[str, Record] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    cross_validated: bool = False

    @property
    def distances(self) -> list[str]:
        """Names of the distances."""
        return list(self.automatic)

    @property
    def parameters(self) -> list[Parameter]:
        """What was swept."""
        return list(dict.fromkeys(record["parameter"] for record in self.scores))

    def frame(self) -> pl.DataFrame:
        """Give the scores in long form.

        Columns are ``distance``, ``parameter`` (sigma or grid_size: the one that moves), ``sigma``, ``grid_size``,
        ``triplets``, ``votes``, and each measure with ``_se``, ``_low``, ``_high``.
        """
        return pl.DataFrame(self.scores, infer_schema_length=None)

    def of(self, distance: str, parameter: Parameter) -> list[Record]:
        """Give the scores of one distance against one parameter, in the order of its values."""
        return [r for r in self.scores if (r["distance"], r["parameter"]) == (distance, parameter)]

    def at(self, distance: str, parameter: Parameter, value: float) -> Record:
        """Give the score of one distance at one value of a parameter."""
        return next(record for record in self.of(distance, parameter) if record[parameter] == value)

    def best(self, distance: str, parameter: Parameter) -> Record:
        """Give the score with the least NLL; it was chosen by the tested votes, and flatters itself a little."""
        return min(self.of(distance, parameter), key=lambda record: record["nll"])

    def curves(self, parameter: Parameter, measure: Measure = "nll") -> dict[str, SweepCurve]:
        """Give what `twoafc.plots.sweep` draws: by distance, values of a measure with their intervals."""
        ends = (parameter, measure, f"{measure}_low", f"{measure}_high")
        return {
            name: SweepCurve(*(np.array([r[end] for r in self.of(name, parameter)], dtype=np.float64) for end in ends))
            for name in self.distances
        }

    def automatic_values(self, parameter: Parameter) -> dict[str, float]:
        """Give the automatic values on the curves: each distance's sigma, or the nodes that the held sigma needs."""
        if parameter == "sigma":
            return {name: float(settings.sigma) for name, settings in self.automatic.items()}
        nodes = nodes_for(float(self.held.sigma))
        swept = {record["grid_size"] for record in self.scores if record["parameter"] == "grid_size"}
        return {name: float(nodes) for name in self.distances if nodes in swept}

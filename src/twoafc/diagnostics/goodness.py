"""Everything that the votes on a table say about a fitted P, at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.diagnostics.calibration import Bin, Calibration, calibration
from twoafc.diagnostics.dispersion import intraclass_correlation
from twoafc.diagnostics.observed import asymmetry, lapses
from twoafc.diagnostics.residuals import ResidualMap, residual_map
from twoafc.inference.errorbars import Together
from twoafc.inference.intervals import Interval
from twoafc.table import Triplets


@dataclass(frozen=True, eq=False)
class Goodness:
    """How well a fitted P suits the votes of a table.

    Attributes
    ----------
    calibration : Calibration
        Whether P means what it says.
    intraclass : Interval or None
        Correlation of two votes on one triplet given P: what the distance leaves unexplained; None where M = 1.
    residuals : ResidualMap
        Where over the plane of the two distances P misses.
    asymmetry, lapses : dict
        A liking for one side, and a bound on votes cast at random.
    """

    calibration: Calibration
    intraclass: Interval | None
    residuals: ResidualMap
    asymmetry: dict[str, Any]
    lapses: dict[str, Any]

    def record(self) -> dict[str, Any]:
        """The same as plain values."""
        maps = {name: getattr(self.residuals, name).tolist() for name in ("residual", "se", "triplets", "p", "edges")}
        return {
            "calibration": self.calibration.record(),
            "intraclass": None if self.intraclass is None else self.intraclass._asdict(),
            "residuals": {**maps, "worst": self.residuals.worst()},
            "asymmetry": self.asymmetry,
            "lapses": self.lapses,
            "sentences": self.sentences(),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Goodness:
        """Restore what `record` gave, from JSON too, which has null for NaN."""
        calibration, intraclass, maps = record["calibration"], record["intraclass"], record["residuals"]
        bins = tuple(Bin(**{name: _number(value) for name, value in one.items()}) for one in calibration["bins"])
        numbers = {name: _number(calibration[name]) for name in calibration if name not in ("bins", "slope")}
        return cls(
            calibration=Calibration(bins=bins, slope=_interval(calibration["slope"]), **numbers),
            intraclass=None if intraclass is None else _interval(intraclass),
            residuals=ResidualMap(
                **{name: np.array(maps[name], dtype=np.float64) for name in ("residual", "se", "p", "edges")},
                triplets=np.array(maps["triplets"], dtype=np.int64),
            ),
            asymmetry=record["asymmetry"],
            lapses=record["lapses"],
        )

    def sentences(self) -> list[str]:
        """Tell what was found in words."""
        told = [self._confidence(), self._left_unexplained()]
        worst = self.residuals.worst()
        told.append(f"P misses most here: {worst}" if worst else "P misses nowhere that can be told from noise")
        return [*told, self.asymmetry["sentence"], self.lapses["sentence"]]

    def _confidence(self) -> str:
        slope = self.calibration.slope
        lost = f"{self.calibration.calibration:.4f} ± {self.calibration.calibration_se:.4f} nats per triplet"
        if not np.isfinite(slope.low):
            return f"whether P is as sure as it should be cannot be known; its scale costs {lost}"
        if slope.low <= 1 <= slope.high:
            return f"P is as sure as it should be (slope {slope.value:.2f}); its scale costs {lost}"
        sure = "too sure of itself" if slope.value < 1 else "not sure enough"
        ends = f"slope {slope.value:.2f}, 95 % interval {slope.low:.2f} to {slope.high:.2f}"
        return f"P is {sure} ({ends}); its scale costs {lost}"

    def _left_unexplained(self) -> str:
        found = self.intraclass
        if found is None:
            return "how much the distance leaves unexplained cannot be known from one vote per triplet"
        figures = f"{found.value:.3f}, 95 % interval {found.low:.3f} to {found.high:.3f}"
        what = "variation between triplets that the distance leaves unexplained, and the smoother's error"
        return f"two votes on one triplet correlate beyond P by {figures}: {what}"


def _number(value: Any) -> Any:
    return np.nan if value is None else value


def _interval(record: Mapping[str, Any]) -> Interval:
    return Interval(**{name: _number(value) for name, value in record.items()})


def goodness(table: Triplets, P: FloatArray, link: Together) -> Goodness:
    """Hold a fitted P against the votes of a table with one distance, which the fit has not seen."""
    n, M = table.n, table.M
    return Goodness(
        calibration=calibration(n, M, P, link),
        intraclass=intraclass_correlation(n, M, P, link),
        residuals=residual_map(n, M, P, table.d0, table.d1, link),
        asymmetry=asymmetry(table, P, link),
        lapses=lapses(n, M, P, link),
    )

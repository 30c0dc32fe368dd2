"""Figures: `(values, ax) -> Axes`; they draw what they are given and compute nothing."""

from __future__ import annotations

from twoafc.plots.cards import counts_nll, disagreement_card, triplet_card
from twoafc.plots.fit import reliabilities, reliability, residual_map, residual_maps
from twoafc.plots.forests import ForestRow, forest
from twoafc.plots.panels import colour_bar
from twoafc.plots.saving import save, svg
from twoafc.plots.scatters import scatter
from twoafc.plots.steps import worked_example
from twoafc.plots.style import COLOURS
from twoafc.plots.surfaces import standard_error, standard_errors, surface, surfaces
from twoafc.plots.sweeps import SweepCurve, sweep
from twoafc.plots.tally import votes, votes_by_M

__all__ = [
    "COLOURS",
    "ForestRow",
    "SweepCurve",
    "colour_bar",
    "counts_nll",
    "disagreement_card",
    "forest",
    "reliabilities",
    "reliability",
    "residual_map",
    "residual_maps",
    "save",
    "scatter",
    "standard_error",
    "standard_errors",
    "surface",
    "surfaces",
    "svg",
    "sweep",
    "triplet_card",
    "votes",
    "votes_by_M",
    "worked_example",
]

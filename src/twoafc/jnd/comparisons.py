"""By which measures distances are compared on pairs."""

from __future__ import annotations

from twoafc.inference.comparisons import Measure

COMPARED = {
    "nll": Measure(-1, "explains the votes better than", "nats per pair", 2, row="pair"),
    "average_precision": Measure(1, "puts same pairs first better than", "% average precision", 1, row="pair"),
}

"""Fit on one table, score on another: by distance, estimator, seed and group, with error bars and comparisons."""

from twoafc.evaluation.counted import evaluate_counts
from twoafc.evaluation.evaluation import evaluate
from twoafc.evaluation.settings import Progress, Settings

__all__ = ["Progress", "Settings", "evaluate", "evaluate_counts"]

"""Fit on one table, score on another: by distance, estimator, seed and group, with error bars and comparisons."""

from twoafc.evaluation.evaluation import Evaluation, evaluate
from twoafc.evaluation.loop import Run
from twoafc.evaluation.settings import Progress, Settings

__all__ = ["Evaluation", "Progress", "Run", "Settings", "evaluate"]

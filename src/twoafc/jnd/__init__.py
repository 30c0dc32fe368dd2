"""Pairs with "same" votes (just noticeable differences): P(same | d), the one-dimensional analogue of P(d0, d1).

Of M people who were shown two images, n saw no difference. `Pairs` is the table, `fit_curve` gives the chance of "same"
as a function of one distance, `evaluate` scores distances by it and by the field's average precision.
"""

from twoafc.jnd.curves import Curve, fit_curve
from twoafc.jnd.evaluation import PairsEvaluation, evaluate
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.precision import average_precision

__all__ = ["Curve", "Pairs", "PairsEvaluation", "average_precision", "evaluate", "fit_curve"]

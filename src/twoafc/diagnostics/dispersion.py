"""Do votes on one triplet go together more than P says? What a distance leaves unexplained between triplets."""

from __future__ import annotations

from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.errorbars import Together
from twoafc.inference.intervals import Interval, t_interval


def intraclass_correlation(n: IntArray, M: IntArray, P: FloatArray, link: Together) -> Interval | None:
    """Correlation of two votes on one triplet, given P; None where no triplet has two votes.

    It is the mean over pairs of votes (y - P)(y' - P), relative to P (1 - P). 0 where votes are Binomial(M, P). Above,
    triplets with the same distances differ in what people say: the variation that the distance leaves unexplained,
    plus the smoother's own error; it is not a fault of the observers.

    Examples
    --------
    >>> from twoafc.inference.dependence import Dependence
    >>> P = np.full(2, 0.5)
    >>> intraclass_correlation(np.array([2, 0]), np.array([2, 2]), P, Together(Dependence(2, (), ""), None)).value
    1.0
    """
    pairs = M * (M - 1)
    if not pairs.any():
        return None
    # Over ordered pairs of votes: the square of the residual less what each vote has with itself.
    together = (n - M * P) ** 2 - n * (1 - 2 * P) - M * P**2
    scale = pairs * P * (1 - P)
    total = float(scale.sum())
    if total == 0:
        return Interval(*[float("nan")] * 4)
    value = float(together.sum()) / total
    weight = scale / total
    influence = together / total - value * weight
    se = float(link.rows.variance(influence[:, None], weight)[0, 0] ** 0.5)
    return t_interval(value, se, float(link.rows.units(weight)[0]))

"""One mixture for every number of votes: it narrows the ceiling where it holds, and votes tell where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from twoafc.arrays import FloatArray
from twoafc.inference.ceiling import UNKNOWN, Ceiling, assemble, ceiling
from twoafc.inference.ceiling_bounds import bounds, functions_of
from twoafc.inference.ceiling_reach import across
from twoafc.inference.ceiling_votes import TRIPLETS, by_number_of_votes, checked, dependence_of, part
from twoafc.inference.dependence import Dependence
from twoafc.inference.intervals import p_value
from twoafc.inference.mixture import Function, Mixtures
from twoafc.inference.mixture_votes import Histogram


@dataclass(frozen=True)
class CommonMixture:
    """Whether one mixture serves all M, and what follows if it does.

    Attributes
    ----------
    rejected : bool
        Whether the votes refuse it at one minus the level.
    p : float
        At most so likely are votes so unlike one mixture, if there is one. The test errs on the side of the mixture.
    reason : str
        The same in words.
    ceiling : Ceiling or None
        With the narrower bounds; None where they would rest on an assumption that is rejected.
    """

    rejected: bool
    p: float
    reason: str
    ceiling: Ceiling | None


def common_mixture(
    n: ArrayLike, M: ArrayLike, *, clusters: ArrayLike | Dependence | None = None, level: float = 0.95
) -> CommonMixture:
    """Test whether the chances p spread alike whatever M, and bound the ceiling as if they did.

    M goes with p where, for instance, hard triplets were shown to more people. Two tests, at half the error each: the
    histograms of all M against the one mixture that fits them best, and people's agreement at each M against that at
    every other. Parameters are those of `ceiling`.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> M = rng.choice([1, 2, 5], 3000)
    >>> alike = common_mixture(rng.binomial(M, rng.beta(0.8, 0.8, 3000)), M)
    >>> alike.rejected, round(alike.ceiling.score_2afc_lowest, 1), round(alike.ceiling.score_2afc_highest, 1)
    (False, 72.5, 81.2)
    >>> common_mixture(rng.binomial(M, np.where(M == 2, 0.5, 0.9)), M).reason
    'one mixture for all M is rejected (p = ...): people agree .4... at M = 2 and .8... at M = 5'
    """
    n, M = checked(n, M)
    together = dependence_of(clusters, len(n))
    separate = ceiling(n, M, clusters=together, level=level)
    if not separate.known:
        return CommonMixture(False, 1.0, UNKNOWN, separate)
    histograms, rows = by_number_of_votes(n, M)
    voted = [each for each in histograms if each.M > 1]
    theirs = part(together, np.concatenate([at for each, at in zip(histograms, rows, strict=True) if each.M > 1]))
    mixtures = Mixtures(voted)
    misfit = across(voted, mixtures.fitted, theirs, common=False).p_value(mixtures.deviance(mixtures.fitted))
    unlike, told = _unlike_agreement(voted, theirs)
    p = min(1.0, 2 * min(misfit, unlike))
    if p < 1 - level:
        why = told if unlike < (1 - level) / 2 else "their numbers differ though people agree about equally often"
        return CommonMixture(True, p, f"one mixture for all M is rejected (p = {p:.2g}): {why}", None)
    limit = across(voted, mixtures.fitted, theirs, common=True).limit(level)
    found = bounds(mixtures, _averaged([(each.M, len(each.n) / len(n)) for each in histograms]), limit)
    reason = f"one mixture for all M is not rejected (p = {p:.2g}); the bounds assume it"
    return CommonMixture(False, p, reason, assemble(n, M, together, found, separate.by_votes, level))


def _averaged(shares: list[tuple[int, float]]) -> dict[str, Function]:
    """What the best function of a triplet gets on average over triplets with several M."""
    of_each = [(functions_of(m), share) for m, share in shares]

    def averaged(name: str) -> Function:
        return lambda q: np.sum([share * functions[name](q) for functions, share in of_each], axis=0)

    return {name: averaged(name) for name in of_each[0][0]}


def _unlike_agreement(histograms: list[Histogram], together: Dependence) -> tuple[float, str]:
    """Test whether people agree equally often whatever M, pair by pair: p-value, and the most unlike pair in words.

    A mixture has one rate of agreement, and pairs of M are compared on the images that they share.
    """
    M = np.repeat([each.M for each in histograms], [len(each.n) for each in histograms])
    n = np.concatenate([each.n for each in histograms])
    agree = (n * (n - 1) + (M - n) * (M - n - 1)) / (M * (M - 1))
    tests: list[tuple[float, str]] = []
    for a, b in combinations([each.M for each in histograms if len(each.n) >= TRIPLETS], 2):
        rows = np.flatnonzero((a == M) | (b == M))
        values, side = agree[rows], np.where(b == M[rows], 1, 0)
        sizes = np.bincount(side)
        means: FloatArray = np.bincount(side, values) / sizes
        influence = (2 * side - 1) * (values - means[side]) / sizes[side]
        weight, theirs = np.full(len(rows), 1 / len(rows)), part(together, rows)
        se = float(np.sqrt(theirs.variance(influence[:, None], weight)[0, 0]))
        p = p_value(float(means[1] - means[0]), se, float(theirs.units(weight)[0]))
        told = " and ".join(f"{mean:.3f} at M = {m}".lstrip("0") for mean, m in zip(means, (a, b), strict=True))
        tests.append((p if np.isfinite(p) else 1.0, f"people agree {told}"))
    if not tests:
        return 1.0, ""
    least, told = min(tests)
    return min(1.0, least * len(tests)), told

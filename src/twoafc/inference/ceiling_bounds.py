"""What the best function of a triplet could reach on triplets with one number of votes, as bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from twoafc.inference.ceiling_reach import Reach, within
from twoafc.inference.ceiling_votes import people_agree
from twoafc.inference.dependence import Dependence
from twoafc.inference.mixture import Function, Mixtures
from twoafc.inference.mixture_votes import Histogram
from twoafc.metrics import expected_nll_per_triplet


class Bounds(NamedTuple):
    """Bounds of a quantity: at the most likely mixture (low, high), and with its sampling error (lowest, highest)."""

    low: float
    high: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class VoteCeiling:
    """What the triplets with one number of votes say.

    Attributes
    ----------
    M, triplets : int
        Votes on each triplet, and the number of such triplets.
    kept : int
        So many votes of each are used for the mixture; fewer than M where M is large or such triplets are few.
    nll, gain, score_2afc : Bounds
        Of the best function of the triplet; see `Ceiling`.
    agreement, agreement_se : float
        Per cent of pairs of people who agree on a triplet; NaN where M = 1.
    p : float
        How likely votes so unlike any mixture are, at least, if they are independent draws; 1 where one fits exactly.
    """

    M: int
    triplets: int
    kept: int
    nll: Bounds
    gain: Bounds
    score_2afc: Bounds
    agreement: float
    agreement_se: float
    p: float


def functions_of(M: int) -> dict[str, Function]:
    """What the best function of a triplet gets with M votes, as functions of q."""
    return {
        # Adding 0 turns the -0 of a certain choice into 0.
        "nll": lambda q: expected_nll_per_triplet(M, q) + 0.0,
        "gain": lambda q: M * np.maximum(np.log(2) - entr(q) - entr(1 - q), 0.0),
        "score_2afc": lambda q: 100 * q,
    }


def bounds(mixtures: Mixtures, functions: dict[str, Function], limit: float) -> dict[str, Bounds]:
    """Bound the mean of each function, at the most likely mixture and within a limit of the deviance."""
    plausible = mixtures.plausible(list(functions.values()), limit)
    return {
        name: Bounds(*mixtures.identified(each), *ends)
        for (name, each), ends in zip(functions.items(), plausible, strict=True)
    }


def of_one_M(histogram: Histogram, together: Dependence, level: float) -> VoteCeiling:
    """Bound what the best function of a triplet gets on the triplets with one M; `together` is of these alone."""
    mixtures = Mixtures([histogram])
    # One vote identifies nothing: every mixture is within reach.
    reach = within(histogram, mixtures.fitted, together) if histogram.M > 1 else Reach(1, units=0.0)
    found = bounds(mixtures, functions_of(histogram.M), reach.limit(level))
    agree, se = people_agree(histogram.n, np.full(len(histogram.n), histogram.M), together)
    misfit = reach.p_value(mixtures.deviance(mixtures.fitted))
    return VoteCeiling(
        histogram.M, histogram.triplets, histogram.kept, **found, agreement=agree, agreement_se=se, p=misfit
    )

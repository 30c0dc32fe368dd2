"""What is known of one triplet under the distances of a view: numbers, for the page to show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.explore.data import Explored
from twoafc.explore.state import View
from twoafc.query import counts

ROLES = ("ref0", "x0", "ref", "ref1", "x1")
"""Labels that name images, in the order in which they are shown."""

SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Told:
    """What one distance says of a triplet.

    Attributes
    ----------
    P, nll, surprise : float
        As tested: by a fit that had not seen the triplet.
    whole : float or None
        P by the fit to the whole training table, where that is another one (cross-validation, several seeds).
    standard_error : float or None
        Of `whole`, or of P where it is the same.
    counts : array, shape (votes + 1,)
        NLL of each count j of x1 among the votes.
    """

    distance: str
    d0: float
    d1: float
    P: float
    nll: float
    surprise: float
    whole: float | None
    standard_error: float | None
    counts: FloatArray


@dataclass(frozen=True, eq=False)
class Facts:
    """A triplet: its labels and votes, the votes that its counts are told of, and what each distance says."""

    row: int
    labels: dict[str, str]
    n: int
    M: int
    votes: int
    told: tuple[Told, ...]

    @property
    def observed(self) -> int | None:
        """The count that was observed; None where the counts are of another number of votes."""
        return self.n if self.votes == self.M else None

    @property
    def images(self) -> dict[str, str]:
        """Names of the images, by role, in the order in which they are shown."""
        return {role: self.labels[role] for role in ROLES if role in self.labels}


def facts(explored: Explored, view: View) -> Facts | None:
    """Tell all about the triplet that a view has chosen; None where it has chosen none."""
    if view.row is None:
        return None
    n, M = int(explored.n[view.row]), int(explored.M[view.row])
    votes = view.votes or M
    names = (view.distance, *([view.other] if view.other else []))
    labels = {name: str(text) for name, text in explored.labels.row(view.row, named=True).items()}
    return Facts(view.row, labels, n, M, votes, tuple(_told(explored, view, name, votes) for name in names))


def _told(explored: Explored, view: View, distance: str, votes: int) -> Told:
    points, fit = explored.points(view, distance), explored.fit(view, distance)
    d0, d1, P, nll, bits = (float(getattr(points, each)[view.row]) for each in ("d0", "d1", "P", "nll", "surprise"))
    whole = error = None
    if fit is not None:
        given = float(fit.probability(d0, d1))
        # One triplet alone may be summed in another order than all of them at once.
        whole = None if abs(given - P) < SAME or not np.isfinite(given) else given
        error = float(fit.standard_error(d0, d1)) if hasattr(fit, "standard_error") else None
    listed = np.array([count["nll"] for count in counts(P, votes)])
    return Told(distance, d0, d1, P, nll, bits, whole, error, listed)

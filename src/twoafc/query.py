"""Questions to a fitted model: how likely each count of M votes is."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoafc.errors import DataError
from twoafc.estimators import Fit
from twoafc.metrics import log_likelihood

MOST_VOTES = 10_000


def ask(fit: Fit, d0: float, d1: float, votes: int, observed: int | None = None) -> dict[str, Any]:
    """Give P with its standard error and, for each j = 0..M, its probability and NLL.

    Examples
    --------
    >>> from twoafc import Density, Triplets
    >>> fit = Density(sigma=0.2).fit(Triplets.from_frame({"n": [2], "M": [2], "d0": [2.0], "d1": [1.0]}))
    >>> answer = ask(fit, 1.0, 1.0, votes=2, observed=1)
    >>> answer["P"], answer["standard_error"], [count["probability"] for count in answer["counts"]]
    (0.5, 0.0, [0.25, 0.5, 0.25])
    """
    if votes < 1:
        raise ValueError(f"votes must be at least 1; found {votes}")
    if votes > MOST_VOTES:
        raise ValueError(f"votes must be at most {MOST_VOTES}, since each count is listed; found {votes}")
    if observed is not None and not 0 <= observed <= votes:
        raise ValueError(f"observed must lie in [0, {votes}], the votes; found {observed}")
    if not (np.isfinite(d0) and np.isfinite(d1)):
        raise ValueError(f"distances must be finite; found d0={d0}, d1={d1}")
    P = float(fit.probability(d0, d1))
    if not np.isfinite(P):
        raise DataError("the model gives no P; the run that made it diverged")
    error = float(fit.standard_error(d0, d1)) if hasattr(fit, "standard_error") else None
    nll = -log_likelihood(np.arange(votes + 1), votes, P)
    counts = [
        {"j": j, "probability": float(np.exp(-nll[j])), "nll": float(nll[j]), "observed": j == observed}
        for j in range(votes + 1)
    ]
    return {"d0": d0, "d1": d1, "votes": votes, "P": P, "standard_error": error, "counts": counts}

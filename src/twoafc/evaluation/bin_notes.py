"""What a reader should know of the bins that triplets were counted in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from twoafc.counts.lattice import FINEST, HIGHEST, LOWEST
from twoafc.evaluation.binning import Binning
from twoafc.results import Run

BEYOND = 0.005
"""Share of the distances beyond the ends of the lattice from which on a reader is warned."""
WIDEST = 0.05
"""Share of the distances in one bin from which on a reader is warned: about twice the width of the paper's kernel."""


def bin_notes(runs: Sequence[Run]) -> Iterator[str]:
    """Say what the bins cost: of all runs the most, and a warning for each distance that they do not suit."""
    known = [(run, run.binning) for run in runs if run.binning is not None and run.binning.error_P_in_se is not None]
    if known:
        run, worst = max(known, key=lambda pair: pair[1].error_P_in_se or 0.0)
        yield (
            f"counted in bins, {worst.per_octave} for each doubling of a distance: P is moved by about "
            f"{worst.error_P:.2g} on average, {worst.error_P_in_se:.2g} of its standard error, in the worst fit "
            f"({run.distance}, {run.estimator})"
        )
    for run, found in known:
        if (found.error_P_in_se or 0.0) >= 1:
            yield (
                f"warning: {run.distance}, {run.estimator}: the bins cost more than a standard error of P on average, "
                f"{found.error_P_in_se:.2g}; {_remedy(found)}"
            )
    for distance, found in {run.distance: run.binning for run in runs if run.binning is not None}.items():
        if found.beyond >= BEYOND:
            ends = f"below {LOWEST:.0e} or above {HIGHEST:.0e}"
            yield f"warning: {distance}: {found.beyond:.1%} of the distances lie {ends}; {_remedy(found)}"
        elif found.widest >= WIDEST:
            yield f"warning: {distance}: one bin holds {found.widest:.0%} of the distances; {_remedy(found)}"


def _remedy(found: Binning) -> str:
    """Say how to count better: with more bins, or where there are none, a distance that is spread out more."""
    if found.beyond >= BEYOND:
        return "all of these share a bin, so multiply the distance by a constant"
    times = max(2.0, found.error_P_in_se or 0.0, found.widest / WIDEST)
    wanted = found.per_octave * 2 ** int(np.ceil(np.log2(times)))
    if wanted <= FINEST:
        return f"count again with --per-octave {wanted}"
    return "no number of bins will do: subtract from the distance what all have in common"

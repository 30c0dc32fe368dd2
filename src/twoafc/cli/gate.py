"""`twoafc gate`: a decision for continuous integration, in one line and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path

from twoafc.cli.options import Json, Quiet, Several, listed
from twoafc.cli.show import printed, say


def gate(
    *,
    baseline: Path,
    candidate: Path,
    max_loss: float,
    distance: Several = None,
    estimator: str | None = None,
    pass_undecided: bool = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Decide whether a candidate explains the votes worse than a baseline by more than a margin.

    The loss is the NLL per vote of the candidate less that of the baseline, on the same triplets. Exit code 0: its
    upper 95 % limit is below the margin. Exit code 1: its lower 95 % limit is above it. Exit code 3: the data cannot
    decide.

    Parameters
    ----------
    baseline
        Folder of results, as twoafc evaluate writes it.
    candidate
        Folder of results on the same triplets; the same folder to compare two of its distances.
    max_loss
        The margin: the largest acceptable loss, in nats per vote.
    distance
        Distance to compare, where a folder has several; given twice where the names differ, the baseline's first.
    estimator
        Estimator to compare by; default the first that both have.
    pass_undecided
        Exit with 0 where the data cannot decide.
    """
    from twoafc.planning import gate as decide

    decision = decide(baseline, candidate, max_loss=max_loss, distance=listed(distance), estimator=estimator)
    code = 0 if pass_undecided and decision.outcome == "undecided" else decision.exit_code
    if not printed(decision.record() | {"exit_code": code}, json, quiet):
        say(str(decision))
        for note in decision.notes[1:]:
            print(f"note: {note}", file=sys.stderr)
    if code:
        raise SystemExit(code)

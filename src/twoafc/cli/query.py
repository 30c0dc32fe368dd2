"""`twoafc query`: what a saved model says of one triplet."""

from __future__ import annotations

from pathlib import Path

import twoafc
from twoafc.cli.show import Switch, print_table


def query(
    model: Path,
    *,
    d0: float,
    d1: float,
    votes: int,
    observed: int | None = None,
    json: Switch = False,
) -> None:
    """Ask a saved model: the chance P that x1 is chosen, and how likely each count j of M votes is.

    Parameters
    ----------
    model: A model of a results folder, models/DISTANCE-ESTIMATOR.npz.
    d0: Distance of x0 from the reference.
    d1: Distance of x1 from the reference.
    votes: Number of votes M.
    observed: Count of votes for x1 to mark.
    json: Print JSON.
    """
    from twoafc.query import ask

    answer = ask(twoafc.load(model), d0, d1, votes, observed)
    if json:
        from twoafc.results import strict_json

        print(strict_json(answer))
        return
    error = "" if answer["standard_error"] is None else f" ± {answer['standard_error']:.4f} (standard error)"
    print(f"P = {answer['P']:.4f}{error}: the chance that x1 is chosen at d0 = {d0:g}, d1 = {d1:g}")
    rows = [
        (str(count["j"]), f"{count['probability']:.4f}", f"{count['nll']:.4f}", "observed" if count["observed"] else "")
        for count in answer["counts"]
    ]
    print_table(f"Counts of {votes} votes for x1", ("j", "probability", "NLL", ""), rows)

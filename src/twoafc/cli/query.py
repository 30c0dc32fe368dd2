"""`twoafc query`: what a saved model says of one triplet, or of one pair."""

from __future__ import annotations

from pathlib import Path

import twoafc
from twoafc.cli.pairs import ask_pairs
from twoafc.cli.show import Switch, print_table


def query(
    model: Path,
    *,
    d0: float | None = None,
    d1: float | None = None,
    d: float | None = None,
    votes: int,
    observed: int | None = None,
    json: Switch = False,
) -> None:
    """Ask a saved model: the chance P that x1 is chosen (of "same", for pairs), and how likely each count of votes is.

    Parameters
    ----------
    model
        A model of a results folder, models/DISTANCE-ESTIMATOR.npz.
    d0
        Distance of x0 from the reference.
    d1
        Distance of x1 from the reference.
    d
        Distance between the two images, for a model of pairs.
    votes
        Number of votes M.
    observed
        Count of votes for x1, or for "same", to mark.
    json
        Print JSON.
    """
    from twoafc.jnd.curves import FittedCurve
    from twoafc.query import ask

    fit = twoafc.load(model)
    if isinstance(fit, FittedCurve):
        answer, what, where = ask_pairs(fit, d, votes, observed), "same", f"the chance of same at d = {d}"
    elif d0 is None or d1 is None:
        raise ValueError("the model is of triplets and takes two distances; give --d0 and --d1")
    else:
        answer, what = ask(fit, d0, d1, votes, observed), "x1"
        where = f"the chance that x1 is chosen at d0 = {d0:g}, d1 = {d1:g}"
    if json:
        from twoafc.results import strict_json

        print(strict_json(answer))
        return
    error = "" if answer["standard_error"] is None else f" ± {answer['standard_error']:.4f} (standard error)"
    print(f"P = {answer['P']:.4f}{error}: {where}")
    rows = [
        (str(count["j"]), f"{count['probability']:.4f}", f"{count['nll']:.4f}", "observed" if count["observed"] else "")
        for count in answer["counts"]
    ]
    print_table(f"Counts of {votes} votes for {what}", ("j", "probability", "NLL", ""), rows)

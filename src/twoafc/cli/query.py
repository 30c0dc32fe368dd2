"""`twoafc query`: what a saved model says of one triplet or pair, and finished results of one that was tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import twoafc
from twoafc.cli.show import Several, Switch, hushed, print_table, say


def query(
    model: Path,
    *,
    d0: float | None = None,
    d1: float | None = None,
    d: float | None = None,
    votes: int | None = None,
    observed: int | None = None,
    triplet: str | None = None,
    distance: Several = None,
    estimator: str | None = None,
    images: Path | None = None,
    out: Path | None = None,
    json: Switch = False,
    quiet: Switch = False,
) -> None:
    """Ask a saved model: the chance P that x1 is chosen (of "same", for pairs), and how likely each count of votes is.

    With --triplet, ask a folder of results about a triplet that was tested, and draw its card.

    Parameters
    ----------
    model
        A model of a results folder, models/DISTANCE-ESTIMATOR.npz; with --triplet the folder itself.
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
    triplet
        Name of a tested triplet, as in the column triplet of the table.
    distance
        With --triplet: a distance to tell of, once for each; default all. The card is of those given, or of the first.
    estimator
        With --triplet: the estimator; default the first of the results.
    images
        With --triplet: folder of the images.
    out
        With --triplet: file of the card (.svg, .pdf, .png); default triplet-NAME.svg, none with --json.
    json
        Print JSON.
    quiet
        Print nothing but errors, and JSON where it is asked for.
    """
    of_results: dict[str, Any] = {"distance": distance, "estimator": estimator, "images": images, "out": out}
    of_model = {"d0": d0, "d1": d1, "d": d, "votes": votes, "observed": observed}
    with hushed(quiet and not json):
        if triplet is None:
            _refuse(of_results, "is asked of a folder of results; give --triplet too")
            _ask_model(model, d0, d1, d, votes, observed, json)
        else:
            _refuse(of_model, "is for a model; a tested triplet has distances and votes of its own")
            _ask_results(model, triplet, distance, estimator, images, out, json)


def _refuse(given: dict[str, Any], why: str) -> None:
    name = next((name for name, value in given.items() if value is not None), None)
    if name is not None:
        raise ValueError(f"--{name} {why}")


def _ask_model(
    model: Path,
    d0: float | None,
    d1: float | None,
    d: float | None,
    votes: int | None,
    observed: int | None,
    json: bool,
) -> None:
    from twoafc.estimators import DensityCurve, SplineCurve
    from twoafc.results import ask

    if model.is_dir():
        raise ValueError(f"{model} is a folder; ask one of its models, or ask it about a triplet with --triplet")
    if votes is None:
        raise ValueError("a model is asked about a number of votes; give --votes")
    fit = twoafc.load(model)
    if isinstance(fit, DensityCurve | SplineCurve):
        if d is None:
            raise ValueError("the model is of pairs and takes one distance; give --d instead of --d0 and --d1")
        answer, what = ask(fit, d, votes=votes, observed=observed), "same"
        where = f"the chance of same at d = {d}"
    elif d0 is None or d1 is None:
        raise ValueError("the model is of triplets and takes two distances; give --d0 and --d1")
    else:
        answer, what = ask(fit, d0, d1, votes=votes, observed=observed), "x1"
        where = f"the chance that x1 is chosen at d0 = {d0:g}, d1 = {d1:g}"
    if json:
        from twoafc.files import strict_json

        print(strict_json(answer))
        return
    error = "" if answer["standard_error"] is None else f" ± {answer['standard_error']:.4f} (standard error)"
    print(f"P = {answer['P']:.4f}{error}: {where}")
    rows = [
        (str(count["j"]), f"{count['probability']:.4f}", f"{count['nll']:.4f}", "observed" if count["observed"] else "")
        for count in answer["counts"]
    ]
    print_table(f"Counts of {_votes(votes)} for {what}", ("j", "probability", "NLL", ""), rows)


def _ask_results(
    folder: Path,
    triplet: str,
    names: tuple[str, ...] | None,
    estimator: str | None,
    images: Path | None,
    out: Path | None,
    json: bool,
) -> None:
    from twoafc.files import strict_json
    from twoafc.results import (
        Result,
        ask_triplet,
        check_ending,
        draw_card,
        missing_images,
        pictures_of,
        plain,
        save_card,
    )

    result = Result.read(folder)
    result.require_triplets("query --triplet")
    pictures = pictures_of(result, images)
    if out is None and not json:
        out = Path(f"triplet-{plain(triplet)}.svg")
    if out is not None:
        check_ending(out)
    told = ask_triplet(result, triplet, names=names, estimator=estimator)
    drawn = {name: told["answers"][name] for name in names or list(told["answers"])[:1]}
    if out is not None:
        save_card(draw_card(told, drawn, pictures), out)
    if json:
        print(strict_json(told, indent=1))
        return
    _tell(told)
    say(*(f"note: {note}" for note in missing_images([told], pictures)))
    say(f"Card of {', '.join(drawn)}: {out}")


def _tell(told: dict[str, Any]) -> None:
    """Print what each distance says of a triplet, and the NLL of every count under each."""
    answers: dict[str, dict[str, Any]] = told["answers"]
    labels = {name: told[name] for name in ("group", "ref", "ref0", "x0", "ref1", "x1") if name in told}
    say(f"Triplet {told['triplet']}: {told['n']} of {told['M']} chose x1")
    if labels:
        say(", ".join(f"{name} {value}" for name, value in labels.items()))
    apart = any(each["P_model"] not in (None, each["P"]) for each in answers.values())
    header = ("distance", "d0", "d1", "P", *(("P, model",) if apart else ()), "NLL")
    rows = [
        (
            *(
                name,
                f"{each['d0']:.4g}",
                f"{each['d1']:.4g}",
                _chance(each["P"], None if apart else each["standard_error"]),
            ),
            *((_chance(each["P_model"], each["standard_error"]),) if apart else ()),
            f"{each['nll']:.4f}",
        )
        for name, each in answers.items()
    ]
    print_table(f"What {told['estimator']} says of it", header, rows)
    if apart:
        print(
            "P is the one that was tested; the model in the folder was fitted with this triplet, or is one of several"
        )
    rows = [
        (
            str(j),
            *(f"{each['counts'][j]['nll']:.4f}" for each in answers.values()),
            "observed" if j == told["n"] else "",
        )
        for j in range(told["M"] + 1)
    ]
    print_table(f"NLL of each count j of {_votes(told['M'])} for x1", ("j", *answers, ""), rows)


def _votes(M: int) -> str:
    return "1 vote" if M == 1 else f"{M} votes"


def _chance(P: float | None, error: float | None) -> str:
    if P is None:
        return "–"
    return f"{P:.4f}" if error is None else f"{P:.4f} ± {error:.4f}"

"""`twoafc query`: what a saved model says of one triplet or pair, and finished results of one that was tested."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import twoafc
from twoafc.cli.options import Json, Quiet, Several, listed
from twoafc.cli.show import print_table, printed, say


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
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Ask a saved model: the chance P that x1 is chosen (of "same", for pairs), and the probability of each count.

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
        Number of votes M, to list how likely each count of them is.
    observed
        Count of votes for x1, or for "same", to mark.
    triplet
        Name of a tested triplet, as in the column triplet of the table.
    distance
        With --triplet: a distance to show, once for each; default all. The card shows those given, or the first.
    estimator
        With --triplet: the estimator; default the first of the results.
    images
        With --triplet: folder of the images.
    out
        With --triplet: file of the card (.svg, .pdf, .png); default triplet-NAME.svg, none with --json.
    """
    of_results: dict[str, Any] = {"distance": distance, "estimator": estimator, "images": images, "out": out}
    of_model: dict[str, Any] = {"d0": d0, "d1": d1, "d": d, "votes": votes, "observed": observed}
    if triplet is None:
        _refuse(of_results, "needs a folder of results and --triplet")
        _ask_model(model, **of_model, json=json, quiet=quiet)
    else:
        _refuse(of_model, "needs a model; a tested triplet has its own distances and votes")
        _ask_results(model, triplet, **of_results, json=json, quiet=quiet)


def _refuse(given: dict[str, Any], why: str) -> None:
    name = next((name for name, value in given.items() if value is not None), None)
    if name is not None:
        raise ValueError(f"--{name} {why}")


def _ask_model(
    model: Path,
    *,
    d0: float | None,
    d1: float | None,
    d: float | None,
    votes: int | None,
    observed: int | None,
    json: bool,
    quiet: bool,
) -> None:
    from twoafc.results import ask

    if model.is_dir():
        raise ValueError(f"{model} is a folder; ask one of its models, or ask it about a triplet with --triplet")
    if votes is None and observed is not None:
        raise ValueError("--observed needs the number of votes; give --votes")
    fit = twoafc.load(model)
    of_pairs = getattr(fit, "k", 2) == 1
    if of_pairs and d is None:
        raise ValueError("the model is of pairs and takes one distance; give --d instead of --d0 and --d1")
    if not of_pairs and None in (d0, d1):
        raise ValueError("the model is of triplets and takes two distances; give --d0 and --d1")
    asked: list[Any] = [d] if of_pairs else [d0, d1]
    answer = ask(fit, *asked, votes=1 if votes is None else votes, observed=observed)
    if votes is None:
        answer = {name: value for name, value in answer.items() if name in ("d", "d0", "d1", "P", "standard_error")}
    if printed(answer, json, quiet):
        return
    error = "" if answer["standard_error"] is None else f" ± {answer['standard_error']:.4f} (standard error)"
    where = f"of same at d = {d}" if of_pairs else f"that x1 is chosen at d0 = {d0:g}, d1 = {d1:g}"
    print(f"P = {answer['P']:.4f}{error}: the chance {where}")
    fitted = getattr(getattr(fit, "uniform", None), "values", None)
    if fitted is not None and not fitted[0] <= min(asked) <= max(asked) <= fitted[-1]:
        say(
            f"note: the model was fitted to distances from {fitted[0]:.4g} to {fitted[-1]:.4g}; outside this "
            "range P is taken at its nearest end"
        )
    if votes is None:
        return
    rows = [
        (str(count["j"]), f"{count['probability']:.4f}", f"{count['nll']:.4f}", "observed" if count["observed"] else "")
        for count in answer["counts"]
    ]
    header = ("j", "probability", "NLL", "")
    print_table(f"Counts of {_votes(votes)} for {'same' if of_pairs else 'x1'}", header, rows)


def _ask_results(
    folder: Path,
    triplet: str,
    *,
    distance: Several,
    estimator: str | None,
    images: Path | None,
    out: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    from twoafc import results as room

    result, names = room.Result.read(folder), listed(distance)
    pictures = room.pictures_of(result, images)
    if out is None and not json:
        out = Path(f"triplet-{room.plain(triplet)}.svg")
    asked = room.ask_triplet(result, triplet, names=names, estimator=estimator)
    drawn = {name: asked["answers"][name] for name in names or list(asked["answers"])[:1]}
    if out is not None:
        room.save_card(room.draw_card(asked, drawn, pictures), out)
    if printed(asked, json, quiet):
        return
    _print_triplet(asked)
    say(*(f"note: {note}" for note in room.missing_images([asked], pictures)))
    say(f"Card of {', '.join(drawn)}: {out}")


def _print_triplet(triplet: dict[str, Any]) -> None:
    """Print P and NLL of a triplet under each distance, and the NLL of every count."""
    answers: dict[str, dict[str, Any]] = triplet["answers"]
    labels = {name: triplet[name] for name in ("group", "ref", "ref0", "x0", "ref1", "x1") if name in triplet}
    say(f"Triplet {triplet['triplet']}: {triplet['n']} of {triplet['M']} chose x1")
    if labels:
        say(", ".join(f"{name} {value}" for name, value in labels.items()))
    models = [(answer["P"], answer["P_model"]) for answer in answers.values() if answer["P_model"] is not None]
    apart = any(not math.isclose(P, of_model, rel_tol=1e-9) for P, of_model in models)
    header = ("distance", "d0", "d1", "P", *(("P, model",) if apart else ()), "NLL")
    rows = []
    for name, answer in answers.items():
        model = _chance(answer["P_model"], answer["standard_error"])
        P = (_chance(answer["P"], None), model) if apart else (_chance(answer["P"], answer["standard_error"]),)
        rows.append((name, f"{answer['d0']:.4g}", f"{answer['d1']:.4g}", *P, f"{answer['nll']:.4f}"))
    print_table(f"Predictions of {triplet['estimator']}", header, rows)
    if apart:
        print("P is the tested one; the model in the folder was fitted with this triplet, or is one of several")
    counts = [
        (str(j[0]["j"]), *(f"{count['nll']:.4f}" for count in j), "observed" if j[0]["observed"] else "")
        for j in zip(*(answer["counts"] for answer in answers.values()), strict=True)
    ]
    print_table(f"NLL of each count j of {_votes(triplet['M'])} for x1", ("j", *answers, ""), counts)


def _votes(M: int) -> str:
    return "1 vote" if M == 1 else f"{M} votes"


def _chance(P: float | None, error: float | None) -> str:
    if P is None:
        return "–"
    return f"{P:.4f}" if error is None else f"{P:.4f} ± {error:.4f}"

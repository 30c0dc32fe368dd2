"""Ask a model or a result about one triplet, P and the probability of each count of votes, and draw its card."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc import plots
from twoafc.errors import DataError
from twoafc.estimators import Fit
from twoafc.metrics import log_likelihood
from twoafc.results.folder import plain
from twoafc.results.image_folder import Pictures, row_images
from twoafc.table import ENDS, LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twoafc.results.result import Result

MOST_COUNTS = 1000
"""Steps between the counts that are listed."""
Answer = dict[str, Any]
"""P, its standard error if known, d0, d1, votes, and for each count j its probability and NLL."""
TELLING = 10.0
"""Votes favour one of two distances if they are this many times as likely under it. Were the other one true, that would
happen at most one time in ten, and mostly far more rarely."""
LARGEST = 256
"""Pixels along a side of an image on a card, at most."""
DPI = 160
"""Dots per inch of cards."""
NAME_LENGTH = 60
"""Characters of a triplet's name in a file name, at most."""
Image = NDArray[np.uint8]


def ask(fit: Fit, *d: float, votes: int, observed: int | None = None) -> Answer:
    """Return P with its standard error and, for each count j = 0..M, its probability and NLL.

    Parameters
    ----------
    d : float
        d0 and d1 of a triplet, or the one distance of a pair.

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
    if observed is not None and not 0 <= observed <= votes:
        raise ValueError(f"observed must lie in [0, {votes}], the votes; found {observed}")
    named = dict(zip(ENDS[len(d)], d, strict=True))
    if not np.isfinite(d).all():
        shown = ", ".join(f"{name}={value}" for name, value in named.items())
        raise ValueError(f"distances must be finite; found {shown}")
    P = float(fit.probability(*d))
    if not np.isfinite(P):
        raise DataError("the model gives no P; the run that made it diverged")
    head = {**named, "votes": votes, "P": P, "standard_error": _error(fit, *d)}
    return head | {"counts": count_table(P, votes, observed)}


def count_table(P: float, votes: int, observed: int | None = None) -> list[dict[str, Any]]:
    """List the counts j = 0..M of votes for x1 with their probability and NLL, the observed one marked.

    Of more than a thousand, so many at equal steps, and the observed one.

    Examples
    --------
    >>> count_table(1.0, 1, observed=0)[0]
    {'j': 0, 'probability': 0.0, 'nll': inf, 'observed': True}
    """
    steps = np.linspace(0, votes, min(votes, MOST_COUNTS) + 1).round().astype(np.int64)
    counts = np.union1d(steps, [] if observed is None else [observed]).astype(np.int64)
    nll = -log_likelihood(counts, votes, P)
    return [
        {"j": j, "probability": float(np.exp(-value)), "nll": float(value), "observed": j == observed}
        for j, value in zip(counts.tolist(), nll, strict=True)
    ]


def _error(fit: Any, *d: float) -> float | None:
    return float(fit.standard_error(*d)) if hasattr(fit, "standard_error") else None


def ask_triplet(
    result: Result, triplet: str, *, names: Sequence[str] | None = None, estimator: str | None = None
) -> dict[str, Any]:
    """Return the votes on one tested triplet, and P and NLL under each distance.

    Parameters
    ----------
    triplet : str
        Its name.
    names : names of distances, default all
    estimator : str, default the first of the results

    Returns
    -------
    dict
        The triplet's labels, ``n``, ``M``, ``estimator``, and ``answers``: by distance an answer as `ask` gives it,
        with ``nll``. Its P is the tested one; ``P_model`` is that of the model in the folder, or None if there is none.
        They differ in cross-validation, where the tested fit has not seen the triplet, and with several seeds. The
        standard error is that of the model.
    """
    result.require_triplets("query --triplet")
    answers: dict[str, Answer] = {}
    head: dict[str, Any] = {}
    for name in result.distances if names is None else names:
        rows = result.outcome_rows(name, estimator)
        named = rows.filter(triplet=triplet)
        if len(named) > 1:
            raise DataError(f"{len(named)} triplets of {result.name} are named {triplet!r}; names must be unique")
        if named.is_empty():
            some = ", ".join(rows["triplet"].head(3))
            raise DataError(f"no triplet {triplet!r} in {result.name}; it has {len(rows)}, named {some} and so on")
        row = named.row(0, named=True)
        head = {label: row[label] for label in (*LABELS, "n", "M", "estimator") if label in row}
        answers[name] = answer(row, result.model(name, row["estimator"]))
    return head | {"answers": answers}


def model_answer(fit: Fit | None, *d: float) -> dict[str, float | None]:
    """Return ``P_model`` and its ``standard_error`` by a model, None where there is none."""
    P = None if fit is None else float(fit.probability(*d))
    return {"P_model": P, "standard_error": _error(fit, *d)}


def answer(row: Mapping[str, Any], fit: Fit | None) -> Answer:
    """Return P and NLL of one tested triplet, a row of `Result.outcomes`, beside the P of a model."""
    d0, d1 = row["d0"], row["d1"]
    return {
        **{"d0": d0, "d1": d1, "votes": row["M"], "P": row["P"], "nll": row["nll"]},
        **model_answer(fit, d0, d1),
        "counts": count_table(row["P"], row["M"], row["n"]),
    }


# Cards


def draw_card(
    labels: Mapping[str, Any],
    answers: Mapping[str, Answer],
    pictures: Pictures | None,
    *,
    remark: str = "",
) -> Figure:
    """Draw the card of a triplet under one distance, or under several side by side; without images, with grey boxes.

    ``labels`` are ``triplet``, ``estimator`` and, where known, the names of the images, and ``answers`` those of
    `ask_triplet`. The remark follows the triplet's name.
    """
    shown = triplet_images(labels, pictures)
    of = [*(answers if len(answers) == 1 else []), labels["estimator"]]
    title = f"{labels['triplet']} ({', '.join(of)}){remark and f': {remark}'}"
    if len(answers) == 1:
        return plots.triplet_card(shown, next(iter(answers.values())), title=title)
    return plots.disagreement_card(shown, answers, title=title, right=best_distance(answers))


def best_distance(answers: Mapping[str, Answer]) -> str:
    """Return the distance that the votes favour, or "" if the second best is about as likely."""
    (least, name), (next_least, _), *_ = sorted((values["nll"], name) for name, values in answers.items())
    return name if next_least - least >= math.log(TELLING) else ""


def triplet_images(labels: Mapping[str, Any], pictures: Pictures | None) -> list[Image | None]:
    """Return x0, the reference and x1 of a triplet, reduced in size; None for each that is missing or not an image.

    The two references of a quadruple are put side by side if they have the same height.
    """
    shown = row_images(labels, pictures, LARGEST)
    read = {part: np.asarray(image) for part, image in shown.items() if image is not None}
    ref = read.get("ref", read.get("ref0"))
    if {"ref0", "ref1"} <= set(read) and len(read["ref0"]) == len(read["ref1"]):
        ref = np.concatenate([read["ref0"], read["ref1"]], axis=1)
    return [read.get("x0"), ref, read.get("x1")]


def failure_cards(result: Result, rows: pl.DataFrame, pictures: Pictures | None) -> Iterator[tuple[str, Figure]]:
    """Draw the card of each row of `surprising` or `disagreements`, with a name for its file."""
    sides = {"": "distance"} if "distance" in rows.columns else {"_a": "a", "_b": "b"}
    fits = {side: result.model(rows[column][0], rows["estimator"][0]) for side, column in sides.items()}
    for place, row in enumerate(rows.iter_rows(named=True), start=1):
        answers = {
            row[column]: answer(row | {key: row[f"{key}{side}"] for key in ("d0", "d1", "P", "nll")}, fits[side])
            for side, column in sides.items()
        }
        remark = f"surprise {row['surprise']:.1f} bits" if "surprise" in row else f"P differs by {row['apart']:.2f}"
        figure = draw_card(row, answers, pictures, remark=remark)
        yield f"{place:03d}-{plain(row['triplet'])[:NAME_LENGTH]}", figure


def save_card(figure: Figure, path: Path) -> None:
    """Write a card as SVG, PDF or PNG, by the ending of its name."""
    plots.save(figure, path, dpi=DPI)

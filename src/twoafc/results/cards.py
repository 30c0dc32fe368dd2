"""The card of a triplet: its images, and the votes on it under one distance or several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc import plots
from twoafc.results.folder import plain
from twoafc.results.image_folder import Pictures, row_images
from twoafc.results.query import Answer, answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twoafc.results.result import Result

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


def draw_card(
    labels: Mapping[str, Any],
    answers: Mapping[str, Answer],
    pictures: Pictures | None,
    *,
    remark: str = "",
) -> Figure:
    """Draw the card of a triplet under one distance, or under several side by side.

    Parameters
    ----------
    labels : mapping
        ``triplet``, ``estimator`` and, where known, the names of the images.
    answers : mapping of distance to answer
        As `ask_triplet` gives them.
    pictures : Pictures or None
        The images; without them there are grey boxes.
    remark : str
        Written after the triplet's name.
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

"""Cards of tested triplets: their images, what distances say of them, and the votes; one, or a folder of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc import plots
from twoafc.errors import DataError
from twoafc.files import OutputFolder
from twoafc.images import ImageError, decode, eight_bits
from twoafc.results.failures import TELLING
from twoafc.results.folder import plain
from twoafc.results.image_folder import Pictures
from twoafc.results.query import Answer, answer
from twoafc.table import write_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twoafc.results.result import Result

Image = NDArray[np.uint8]
IMAGES = ("x0", "ref", "ref0", "ref1", "x1")
LARGEST = 256
"""Pixels along a side of an image on a card, at most; they are for people to look at."""
DPI = 160
"""Dots per inch of the images."""
ENDINGS = (".svg", ".pdf", ".png")
FOLDER = OutputFolder("failures.json", "failures")
NAME_LENGTH = 60
"""Letters of a triplet's name in a file's name, at most."""


def draw_card(
    labels: Mapping[str, Any],
    answers: Mapping[str, Answer],
    pictures: Pictures | None,
    *,
    remark: str = "",
) -> Figure:
    """Draw the card of a triplet under one distance, or under several beside one another.

    Parameters
    ----------
    labels : mapping
        ``triplet``, ``estimator`` and, where known, the names of the images.
    answers : mapping of distance to answer
        Of `twoafc.results.answer`.
    pictures : Pictures or None
        Where the images are; without them there are grey boxes.
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
    """Name the distance that the votes favour: "" where the next is about as likely."""
    (least, name), (next_least, _), *_ = sorted((values["nll"], name) for name, values in answers.items())
    return name if next_least - least >= math.log(TELLING) else ""


def triplet_images(labels: Mapping[str, Any], pictures: Pictures | None) -> list[Image | None]:
    """Return x0, the reference and x1 of a triplet, reduced; None for each that is missing or no image.

    The two references of a quadruple stand beside each other, where they are of one height.
    """
    if pictures is None:
        return [None, None, None]
    read = {name: _image(pictures, labels.get(name)) for name in IMAGES}
    ref, other = (read["ref"], None) if read["ref"] is not None else (read["ref0"], read["ref1"])
    if ref is not None and other is not None and len(ref) == len(other):
        ref = np.concatenate([ref, other], axis=1)
    return [read["x0"], ref, read["x1"]]


def _image(pictures: Pictures, name: str | None) -> Image | None:
    content = pictures.read(name) if name else None
    if not name or content is None:
        return None
    try:
        pixels = eight_bits(decode(content, name))
    except ImageError:
        return None
    step = -(-max(pixels.shape[1:]) // LARGEST)
    return np.ascontiguousarray(pixels[:, ::step, ::step].transpose(1, 2, 0))


def pictures_of(result: Result, folder: Path | None) -> Pictures | None:
    """Return the images of a folder, for a result that names images; None where no folder is given."""
    if folder is None:
        return None
    if not {"x0", "x1"} <= set(result.rows.columns):
        raise DataError(f"{result.name} names no images; the table that was tested had no columns ref, x0, x1")
    return Pictures(folder)


def missing_images(rows: Iterable[Mapping[str, Any]], pictures: Pictures | None) -> list[str]:
    """State how many images of some triplets are not in the folder, and name one of them."""
    if pictures is None:
        return []
    names = dict.fromkeys(row[part] for row in rows for part in IMAGES if row.get(part))
    absent = [name for name in names if pictures.path(name) is None]
    return [f"{len(absent)} of {len(names)} images are not in {pictures.folder} ({absent[0]})"] if absent else []


def check_ending(path: Path) -> None:
    """Raise a `ValueError` unless a file name ends as a picture does."""
    if path.suffix not in ENDINGS:
        raise ValueError(f"a card is written as {', '.join(ENDINGS)}; found {path.name}")


def save_card(figure: Figure, path: Path) -> None:
    """Write a card as SVG, PDF or PNG, by the ending of its name."""
    check_ending(path)
    with _odd_letters():
        plots.save(figure, path, dpi=DPI)


@contextmanager
def _odd_letters() -> Iterator[None]:
    with warnings.catch_warnings():
        # Matplotlib's own font lacks some scripts; a box in a name is no reason to trouble the user.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def failure_cards(result: Result, rows: pl.DataFrame, pictures: Pictures | None) -> Iterator[tuple[str, Figure]]:
    """Draw the card of each row of `surprising` or `disagreements`, with a name for its file."""
    sides = ("",) if "distance" in rows.columns else ("_a", "_b")
    columns = ("distance",) if sides == ("",) else ("a", "b")
    names = [rows[column][0] for column in columns]
    fits = [result.model(name, rows["estimator"][0]) for name in names]
    for place, row in enumerate(rows.iter_rows(named=True), start=1):
        answers = {
            name: answer(row | {key: row[f"{key}{side}"] for key in ("d0", "d1", "P", "nll")}, fit)
            for name, side, fit in zip(names, sides, fits, strict=True)
        }
        remark = f"surprise {row['surprise']:.1f} bits" if "surprise" in row else f"P differs by {row['apart']:.2f}"
        figure = draw_card(row, answers, pictures, remark=remark)
        yield f"{place:03d}-{plain(row['triplet'])[:NAME_LENGTH]}", figure


def check_failures_folder(folder: Path, results: Path) -> None:
    """Raise a `DataError` if a folder holds anything but an earlier list, or lies in the results."""
    if folder.resolve().is_relative_to(results.resolve()):
        raise DataError(
            f"{folder} lies in {results}, which is replaced as a whole by twoafc evaluate; name another folder"
        )
    FOLDER.check(folder, [results])


def write_failures(
    result: Result,
    rows: pl.DataFrame,
    folder: str | Path,
    *,
    pictures: Pictures | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write a list of failures and their cards to a folder; an earlier list there is replaced as a whole.

    There is the list as a table, each card as SVG, and all of them as the pages of one PDF.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_pdf import PdfPages

    with FOLDER.whole(folder) as partial:
        write_frame(rows, partial / "failures.csv")
        with (
            rc_context({"pdf.fonttype": 42}),
            PdfPages(partial / "cards.pdf", metadata={"CreationDate": None}) as pages,
        ):
            for done, (name, figure) in enumerate(failure_cards(result, rows, pictures)):
                if progress:
                    progress(done, len(rows), name)
                save_card(figure, partial / "figures" / f"{name}.svg")
                with _odd_letters():
                    pages.savefig(figure, dpi=DPI)
        FOLDER.write_card(partial, {"kind": "failures", "results": result.card}, {"failures": rows.to_dicts()})

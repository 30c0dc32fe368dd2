"""The report: a result as one HTML page, for triplets and for pairs."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twoafc.errors import DataError
from twoafc.files import whole_file
from twoafc.images import decode, eight_bits
from twoafc.inference import Record
from twoafc.results import tables
from twoafc.results.failures import surprising
from twoafc.results.pictures import Pictures
from twoafc.results.report import drawings, grids
from twoafc.results.report.verdict import ranking, verdict

if TYPE_CHECKING:
    from twoafc.results.result import Result

REPORT = "report.html"
TOP = 12
"""Surprising triplets that are shown."""
SIDE, QUALITY = 112, 82
"""Longest side of a thumbnail in pixels, and its JPEG quality."""
ELSEWHERE = ("files", "fits", "notes", "error_bars", "data", "estimators", "settings", "versions")
"""Parts of the card that the page shows elsewhere or in lines of their own; scores.json has all of it."""
EXPLAINED = "explained: how far the NLL comes on the way from the floor to the ceiling, 0 to 100 %, as an interval"
AUTHORS = "Hepburn, Alexander and Santos-Rodriguez, Raul and Portilla, Javier"
TITLE = "Evaluating Perceptual Distance Models by Fitting Binomial Distributions to Two-Alternative Forced Choice Data"


def report_page(result: Result, images: str | Path | Pictures | None = None) -> str:
    """Return the text of the page.

    Parameters
    ----------
    images : path or Pictures, optional
        Folder of the images of the most surprising triplets; without it their names are shown.
    """
    if images is not None and result.row == "pair":
        raise ValueError("--images shows triplets; these are results of pairs")
    pictures = images if isinstance(images, Pictures) or images is None else Pictures(Path(images))
    ranked, ceiling = ranking(result), result.ceiling
    best = result.goodness.get((ranked[0]["distance"], ranked[0]["estimator"])) if ranked else None
    return render(
        result.card,
        row=result.row,
        heading=heading(ranked),
        verdict=verdict(result),
        warnings=[finding for finding in result.findings if finding.level == "warning"],
        notes=[finding for finding in result.findings if finding.level != "warning"],
        remarks=result.notes,
        scores=grids.scores(result.scores, ceiling),
        reading=[
            tables.reading(result.scores),
            f"error bars: {result.error_bars}",
            *tables.ceiling_sentences(ceiling),
            *([EXPLAINED] if ceiling is not None and ceiling.known else []),
        ],
        forests=drawings.forests(ranked, drawings.scales(result, ranked)),
        differences=grids.differences(result.comparisons, ranked, result.k),
        surfaces=drawings.surfaces(result, ranked) if result.row == "triplet" else [],
        unsaved=drawings.unsaved(result, ranked) if result.row == "triplet" else [],
        curves=drawings.curves(result, ranked) if result.row == "pair" else [],
        reliabilities=drawings.reliabilities(result, ranked),
        suits=grids.suits(result.goodness, ranked),
        best=ranked[0] if ranked else None,
        goodness=[] if best is None else best.sentences(),
        groups=grids.groups(result.scores),
        many_groups=too_many_groups(result.scores),
        surprises=_surprises(result, ranked, pictures),
    )


def render(card: Mapping[str, Any], **values: Any) -> str:
    """Fill the template; text is escaped, whatever it holds."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("twoafc.results.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    version = card.get("versions", {}).get("twoafc", "?")
    return environment.get_template("report.html").render(
        style=(Path(__file__).parent / "style.css").read_text(encoding="utf-8"),
        card=card_lines(card),
        created=str(card.get("created", "")).partition("T")[0],
        version=version,
        bibtex=bibtex(version),
        **values,
    )


def write_page(path: Path, text: str) -> Path:
    """Write a page whole, in the place of an earlier one."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path


def heading(ranked: Sequence[Record]) -> str:
    """State what was tested on how many votes."""
    if not ranked:
        return "No scores"
    names = list(dict.fromkeys(record["distance"] for record in ranked))
    what = names[0] if len(names) == 1 else f"{len(names)} distances"
    rows = "pairs" if "pairs" in ranked[0] else "triplets"
    count, votes = ranked[0][rows], ranked[0]["votes"]
    rows = rows if count != 1 else rows[:-1]
    return f"{what} on {count:,} {rows} and {votes:,} {'votes' if votes != 1 else 'vote'}"


def too_many_groups(scores: Sequence[Record]) -> int:
    """Number of groups where they are too many for a table; else 0."""
    groups = {record["group"] for record in scores if record["split"] == "test"} - {"all", "mean"}
    return len(groups) if len(groups) + 2 > tables.MOST_GROUPS else 0


def card_lines(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Turn a card into pairs of a name and a value.

    Examples
    --------
    >>> card_lines({"seed": 0, "tie_rule": "a tie counts one half", "data": {"test": {"file": "t.csv", "votes": 1200}}})
    [('table, test', 'file t.csv, votes 1200'), ('seed', '0'), ('tie rule', 'a tie counts one half')]
    """
    lines = [("versions", _listed(card["versions"]))] if card.get("versions") else []
    lines += [(f"table, {role}", _listed(table)) for role, table in (card.get("data") or {}).items()]
    lines += [(f"estimator, {name}", _listed(settings)) for name, settings in (card.get("estimators") or {}).items()]
    lines += [("settings", _listed(card["settings"]))] if card.get("settings") else []
    return lines + [(name.replace("_", " "), _value(value)) for name, value in card.items() if name not in ELSEWHERE]


def _listed(values: Any) -> str:
    if not isinstance(values, Mapping):
        return _value(values)
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in values.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return f"({_listed(value)})"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(_value, value))
    return str(value)


def bibtex(version: str) -> str:
    """Return the entries of the method's paper and of the program as BibTeX.

    Examples
    --------
    >>> print(bibtex("0.1.0").splitlines()[-4])
      title   = {twoafc: perceptual distances scored on two-alternative forced-choice votes},
    """
    return "\n".join(
        [
            "@article{hepburn2024evaluating,",
            f"  author  = {{{AUTHORS}}},",
            f"  title   = {{{TITLE}}},",
            "  journal = {arXiv:2403.10390},",
            "  year    = {2024}",
            "}",
            "",
            "@software{twoafc,",
            "  author  = {{The twoafc developers}},",
            "  title   = {twoafc: perceptual distances scored on two-alternative forced-choice votes},",
            f"  version = {{{version}}},",
            "  note    = {Python package}",
            "}",
        ]
    )


def _surprises(result: Result, ranked: Sequence[Record], pictures: Pictures | None) -> dict[str, Any] | None:
    """The triplets that surprise the best distance most; None where there is none, or triplets are not known."""
    if not ranked or result.row != "triplet" or result.triplets is None:
        return None
    distance, estimator = ranked[0]["distance"], ranked[0]["estimator"]
    rows = [
        row | {"group": row.get("group") or "", "pictures": _pictures(row, pictures)}
        for row in surprising(result, distance, estimator=estimator, top=TOP).iter_rows(named=True)
    ]
    shown = sum(picture["address"] is not None for row in rows for picture in row["pictures"])
    return {"distance": distance, "estimator": estimator, "rows": rows, "images": shown}


def _pictures(row: Mapping[str, Any], pictures: Pictures | None) -> list[dict[str, Any]]:
    """Part, name and thumbnail (None if it is not available) of each image of a triplet."""
    return [
        {"part": part, "name": row[part], "address": _address(row[part], pictures)}
        for part in ("x0", "ref", "x1")
        if row.get(part)
    ]


def _address(name: str, pictures: Pictures | None) -> str | None:
    """A thumbnail as data; None where there is no such image, or it cannot be read."""
    content = None if pictures is None else pictures.read(name)
    if content is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, on files that it reads all the same
        try:
            return thumbnail(decode(content, name))
        except DataError:
            return None


def thumbnail(pixels: np.ndarray[Any, Any]) -> str:
    """Make a small JPEG of an image of shape (3, H, W), as the address of data.

    Examples
    --------
    >>> thumbnail(np.zeros((3, 500, 300), dtype=np.uint8))[:27]
    'data:image/jpeg;base64,/9j/'
    """
    from PIL import Image

    image = Image.fromarray(np.moveaxis(eight_bits(pixels), 0, -1))
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"

"""A folder of results to one page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twoafc import tables
from twoafc.files import whole_file
from twoafc.folder import Results
from twoafc.inference import Record
from twoafc.pictures import Pictures
from twoafc.report import drawings, grids
from twoafc.report.card import plainly
from twoafc.report.citation import bibtex
from twoafc.report.surprises import surprises
from twoafc.report.verdict import judged, reach, reach_in_words, sure, verdict

FILE = "report.html"


def page(results: Results, pictures: Pictures | None = None) -> str:
    """Write a folder of results as the text of a page.

    Parameters
    ----------
    pictures : Pictures, optional
        Where the images of the most surprising triplets are looked for; without it they are told by their names.
    """
    told = results.told
    findings, ranked = told.get("findings") or [], judged(told)
    return render(
        "triplets.html",
        results.card,
        heading=heading(ranked),
        verdict=verdict(told),
        warnings=[each for each in findings if each["level"] == "warning"],
        notes=[each for each in findings if each["level"] != "warning"],
        scores=grids.scores(results.scores, reach(told)),
        reading=[_reading(results), f"error bars: {results.error_bars}", *reach_in_words(told), *_explained(told)],
        forests=drawings.forests(ranked, drawings.scales(reach(told))),
        differences=grids.differences(results.comparisons, ranked),
        surfaces=drawings.surfaces(results),
        reliabilities=drawings.reliabilities(results),
        suits=grids.suits(told.get("goodness") or [], ranked),
        best=ranked[0] if ranked else None,
        goodness=sure(told, ranked[0]) if ranked else [],
        groups=grids.groups(results.scores),
        many_groups=too_many_groups(results.scores),
        surprises=surprises(results, pictures),
    )


def _reading(results: Results) -> str:
    return tables.READING if results.comparisons else tables.BARS


def _explained(told: Mapping[str, Any]) -> list[str]:
    found = reach(told)
    if found is None or not found.known:
        return []
    return ["explained: how far the NLL comes on the way from the floor to the ceiling, 0 to 100 %, as an interval"]


def render(template: str, card: Mapping[str, Any], **values: Any) -> str:
    """Fill a template of this folder; text is escaped, whatever it holds."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("twoafc.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    version = card.get("versions", {}).get("twoafc", "?")
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    told = {"card": plainly(card), "created": _day(card), "version": version, "bibtex": bibtex(version)}
    return environment.get_template(template).render(style=style, remarks=card.get("notes") or [], **told, **values)


def write(folder: str | Path, images: str | Path | None = None) -> Path:
    """Write report.html into a folder of results, in the place of an earlier one; give its path.

    Parameters
    ----------
    images : path, optional
        Folder of the images that the tested table names.
    """
    results = Results.read(folder)
    if results.row == "pair":
        from twoafc.report.pairs import pairs_page

        if images is not None:
            raise ValueError("--images shows triplets; these are results of pairs")
        return put(results.folder, pairs_page(results.folder))
    return put(results.folder, page(results, None if images is None else Pictures(Path(images))))


def put(folder: Path, text: str) -> Path:
    """Put a page into a folder of results, which lists it among its files from then on."""
    path = folder / "scores.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    files = told["card"].get("files", [])
    if FILE not in files:
        # Listed before it is there: what stands in the folder is always among its files.
        told["card"]["files"] = sorted([*files, FILE])
        _write(path, json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False))
    _write(folder / FILE, text)
    return folder / FILE


def _write(path: Path, text: str) -> None:
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def heading(ranked: Sequence[Record]) -> str:
    """Say what was tested on how many votes."""
    if not ranked:
        return "No scores"
    names = list(dict.fromkeys(record["distance"] for record in ranked))
    what = names[0] if len(names) == 1 else f"{len(names)} distances"
    rows = "pairs" if "pairs" in ranked[0] else "triplets"
    count, votes = ranked[0][rows], ranked[0]["votes"]
    told = f"{count:,} {rows if count != 1 else rows[:-1]} and {votes:,} {'votes' if votes != 1 else 'vote'}"
    return f"{what} on {told}"


def too_many_groups(scores: Sequence[Record]) -> int:
    """Number of groups where they are too many for a table; else 0."""
    found = {record["group"] for record in scores if record["split"] == "test"} - {"all", "mean"}
    return len(found) if len(found) + 2 > tables.MOST_GROUPS else 0


def _day(card: Mapping[str, Any]) -> str:
    return str(card.get("created", "")).partition("T")[0]

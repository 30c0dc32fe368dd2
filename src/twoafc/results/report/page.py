"""The report: a result as one HTML page, for triplets and for pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from twoafc.files import BREAKS, legible
from twoafc.inference import Record
from twoafc.results import tables
from twoafc.results.image_folder import Pictures
from twoafc.results.report import sections
from twoafc.results.verdict import ranking

if TYPE_CHECKING:
    from twoafc.results.result import Result

SHOWN = ("seed", "tie_rule", "simulated", "machine", "created")
"""Parts of the card that are shown besides versions, tables, estimators and settings; scores.json has all of it."""
BIBTEX = """\
@article{hepburn2024evaluating,
  author  = {Hepburn, Alexander and Santos-Rodriguez, Raul and Portilla, Javier},
  title   = {Evaluating Perceptual Distance Models by Fitting Binomial
             Distributions to Two-Alternative Forced Choice Data},
  journal = {arXiv:2403.10390},
  year    = {2024}
}

@software{twoafc,
  author  = {{The twoafc developers}},
  title   = {twoafc: perceptual distances scored on two-alternative forced-choice votes},
  version = {VERSION},
  note    = {Python package}
}"""


def report_page(result: Result, images: str | Path | Pictures | None = None) -> str:
    """Return the text of the page; without a folder of images their names are shown."""
    pictures = images if isinstance(images, Pictures) or images is None else Pictures(Path(images))
    ranked = ranking(result)
    best = result.goodness.get((ranked[0]["distance"], ranked[0]["estimator"])) if ranked else None
    caveats = [*result.caveats, *(_finding(finding) for finding in result.findings if finding.level == "warning")]
    cautions = {f"Caution: {caveat}." for caveat in result.caveats}  # shown separately
    return render(
        result.card,
        row=result.row,
        heading=heading(ranked, result.card),
        verdict=[sentence for sentence in result.verdict() if sentence not in cautions],
        caveats=list(dict.fromkeys(caveats)),
        brief=sections.brief(result, ranked) if ranked else None,
        examples=sections.examples(result, ranked, pictures) if ranked else [],
        fusion=sections.fusion(result),
        profiles=sections.profiles(result, ranked, pictures) if ranked else [],
        dots=0 if result.triplets is None or not ranked else min(sections.DOTS, ranked[0].get("triplets", 0)),
        reading=[
            tables.reading(result.scores),
            f"error bars: {result.error_bars}",
            *tables.ceiling_sentences(result.ceiling),
        ],
        explained=result.ceiling is not None and result.ceiling.known,
        goodness=[] if best is None else best.sentences(),
        matrices=sections.matrices(result, ranked),
        groups=sections.groups(result, ranked) if ranked else None,
        remarks=[*result.notes, *(_finding(finding) for finding in result.findings if finding.level != "warning")],
    )


def _finding(finding: Any) -> str:
    of = ", ".join(filter(None, (finding.table, finding.distance)))
    return f"{of}: {finding.message}; {finding.evidence}; {finding.remedy}"


def render(card: Mapping[str, Any], **values: Any) -> str:
    """Fill the template of the report."""
    version = card.get("versions", {}).get("twoafc", "?")
    return fill_template(
        Path(__file__).with_name("report.html"),
        Path(__file__).with_name("style.css"),
        card=card_lines(card),
        meta=" · ".join([*_fitted_to(card), f"twoafc {version}", *filter(None, [str(card.get("created", ""))[:10]])]),
        version=version,
        bibtex=bibtex(version),
        **values,
    )


def fill_template(template: Path, style: Path, **values: Any) -> str:
    """Fill a template of a page; all text is escaped, and control characters are replaced."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    def shown(value: Any) -> Any:
        return legible(value, keep=BREAKS) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    values["style"] = Markup(style.read_text(encoding="utf-8"))
    return environment.get_template(template.name).render(**values)


def heading(ranked: Sequence[Record], card: Mapping[str, Any]) -> str:
    """State which distances were tested on which data."""
    if not ranked:
        return "No scores"
    data = card.get("data") or {}
    file = _file(data.get("test") or data.get("train") or {})
    names = list(dict.fromkeys(record["distance"] for record in ranked))
    what = names[0] if len(names) == 1 else f"{len(names)} distances"
    rows = "pairs" if "pairs" in ranked[0] else "triplets"
    on = f"{_count(ranked[0][rows], rows)} and {_count(ranked[0]['votes'], 'votes')}"
    return f"{file}: {what} on {on}" if file else f"{what} on {on}"


def _fitted_to(card: Mapping[str, Any]) -> list[str]:
    """Name the training table, if it is not the tested one; otherwise state the cross-validation."""
    data = card.get("data") or {}
    train, folds = data.get("train") or {}, (card.get("settings") or {}).get("folds")
    if "test" not in data:
        return [f"cross-validated in {folds} folds"] if folds else []
    rows = next((rows for rows in ("triplets", "pairs") if rows in train), None)
    count = [] if rows is None else [_count(train[rows], rows)]
    return [f"fitted to {' of '.join([*count, *filter(None, [_file(train)])])}"] if train else []


def _file(table: Mapping[str, Any]) -> str:
    """Name the file of a table, or the first of several; empty if it came from no file."""
    several = [Path(path).name for path in table.get("files_sha256") or ()]
    first = str(table.get("file") or (several[0] if several else ""))
    return f"{first} and {len(several) - 1} more" if len(several) > 1 else first


def _count(number: int, what: str) -> str:
    return f"{number:,} {what if number != 1 else what[:-1]}"


def card_lines(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Turn a card into pairs of a name and a value; empty values are left out.

    Examples
    --------
    >>> card_lines({"seed": 0, "tie_rule": "a tie counts one half", "data": {"test": {"file": "t.csv", "votes": 1200}}})
    [('table, test', 'file t.csv, votes 1200'), ('seed', '0'), ('tie rule', 'a tie counts one half')]
    """
    named = [("versions", card.get("versions"))]
    for role, table in (card.get("data") or {}).items():
        # The path is valid on this machine only.
        named.append((f"table, {role}", {name: value for name, value in (table or {}).items() if name != "path"}))
    named += [(f"estimator, {name}", settings) for name, settings in (card.get("estimators") or {}).items()]
    named += [("settings", card.get("settings")), *((name.replace("_", " "), card.get(name)) for name in SHOWN)]
    return [(name, text) for name, value in named if value is not None and (text := _listed(value))]


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
    return BIBTEX.replace("VERSION", version)

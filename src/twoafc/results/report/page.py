"""The report: a result as one HTML page, for triplets and for pairs.

Page 1 has the verdict, the chart and three examples; the appendix every distance, all pairs, groups and the card.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from twoafc import plots
from twoafc.files import BREAKS, legible
from twoafc.inference import Record, places
from twoafc.metrics import log_likelihood
from twoafc.results import tables
from twoafc.results.failures import disagreements, most_surprising
from twoafc.results.figures import NODES, chart, curve_of, interval_of, map_of, of_leading_estimator, p_text
from twoafc.results.image_folder import Pictures, row_images
from twoafc.results.report import svg
from twoafc.results.tables import key_of
from twoafc.results.verdict import nll_text, ranking, with_error
from twoafc.table import ENDS

if TYPE_CHECKING:
    from twoafc.results.result import Result

TEMPLATE, STYLE = (Path(__file__).with_name(name) for name in ("report.html", "style.css"))
ALONE = {2: "2AFC of the distance alone, %", 1: "average precision, %"}
"""Heading of the second column of the chart, of triplets (2) and of pairs (1)."""
ERROR_NODES = 31
"""Nodes of the standard error of a surface along each axis."""
DOTS = 400
"""Tested triplets that are drawn on a surface."""
LARGE, SMALL, QUALITY = 240, 112, 80
"""Longest side of a thumbnail in pixels on page 1 and in the appendix, and its JPEG quality."""
NAMED_CELLS = 14
"""With more distances than this the matrix of pairs has marks instead of numbers."""
NAMED_GROUPS, AT_AN_END = 24, 8
"""Up to so many groups all have a line; of more, so many at either end."""
Panel = tuple[str, Markup | None, str]
"""Heading, drawing (None if there is nothing to draw), and a note below it."""
SHOWN = ("settings", "tie_rule", "simulated", "machine", "created")
"""Parts of the card that are shown besides versions, tables and estimators; scores.json has all of it."""
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


def report_page(result: Result, images: str | Path | None = None) -> str:
    """Return the text of the page; without a folder of images their names are shown."""
    pictures = None if images is None else Pictures(Path(images))
    ranked = ranking(result)
    best = result.goodness.get(key_of(ranked[0])) if ranked else None
    findings = {"warning": list[str](), "note": list[str]()}
    for finding in result.findings:
        findings[finding.level].append(str(finding).partition(": ")[2])
    cautions = {f"Caution: {caveat}." for caveat in result.caveats}  # shown separately
    version = result.card.get("versions", {}).get("twoafc", "?")
    made = [*_fitted_to(result.card), f"twoafc {version}", str(result.card.get("created", ""))[:10]]
    return fill_template(
        TEMPLATE,
        STYLE,
        card=card_lines(result.card),
        meta=" · ".join(filter(None, made)),
        version=version,
        bibtex=bibtex(version),
        row=result.row,
        heading=heading(ranked, result.card),
        verdict=[sentence for sentence in result.verdict() if sentence not in cautions],
        caveats=list(dict.fromkeys([*result.caveats, *findings["warning"]])),
        brief=brief(result, ranked) if ranked else None,
        examples=examples(result, ranked, pictures) if ranked else [],
        fusion=fusion(result),
        profiles=profiles(result, ranked, pictures) if ranked else [],
        dots=0 if result.triplets is None or not ranked else min(DOTS, ranked[0].get("triplets", 0)),
        reading=[
            tables.reading(result.scores),
            f"error bars: {result.error_bars}",
            *tables.ceiling_sentences(result.ceiling),
        ],
        explained=result.ceiling is not None and result.ceiling.known,
        goodness=[] if best is None else best.sentences(),
        matrices=matrices(result, ranked),
        groups=groups(result, ranked) if ranked else None,
        remarks=[*result.notes, *findings["note"]],
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
    data = card.get("data", {})
    file = _file(data.get("test", data.get("train", {})))
    names = list(dict.fromkeys(record["distance"] for record in ranked))
    what = names[0] if len(names) == 1 else f"{len(names)} distances"
    rows = f"{tables.row_of(ranked[0])}s"
    on = f"{_count(ranked[0][rows], rows)} and {_count(ranked[0]['votes'], 'votes')}"
    return f"{file}: {what} on {on}" if file else f"{what} on {on}"


def _fitted_to(card: Mapping[str, Any]) -> list[str]:
    """Name the training table, if it is not the tested one; otherwise state the cross-validation."""
    data = card.get("data", {})
    if "test" not in data:
        folds = card.get("settings", {}).get("folds")
        return [f"cross-validated in {folds} folds"] if folds else []
    counts = [_count(data["train"][rows], rows) for rows in ("triplets", "pairs") if rows in data["train"]]
    return [f"fitted to {' of '.join(filter(None, [*counts, _file(data['train'])]))}"]


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
    >>> card_lines({"tie_rule": "a tie counts one half", "data": {"test": {"file": "t.csv", "votes": 1200}}})
    [('table, test', 'file t.csv, votes 1200'), ('tie rule', 'a tie counts one half')]
    """
    named = {"versions": card.get("versions")}
    named |= {f"table, {role}": table for role, table in card.get("data", {}).items()}
    named |= {f"estimator, {name}": settings for name, settings in card.get("estimators", {}).items()}
    named |= {name.replace("_", " "): card.get(name) for name in SHOWN}
    return [(name, text) for name, value in named.items() if value is not None and (text := _value(value, "{}"))]


def _value(value: Any, form: str = "({})") -> str:
    """Write a value; a record by its names and values, without paths, which are valid on this machine only."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        known = {name: each for name, each in value.items() if each is not None and name != "path"}
        return form.format(", ".join(f"{name.replace('_', ' ')} {_value(each)}" for name, each in known.items()))
    return " ".join(map(_value, value)) if isinstance(value, list | tuple) else str(value)


def bibtex(version: str) -> str:
    """Return the entries of the method's paper and of the program as BibTeX.

    Examples
    --------
    >>> print(bibtex("0.1.0").splitlines()[-4])
      title   = {twoafc: perceptual distances scored on two-alternative forced-choice votes},
    """
    return BIBTEX.replace("VERSION", version)


# The chart


def brief(result: Result, ranked: Sequence[Record]) -> dict[str, Any]:
    """Draw the chart line by line, with the scores of the bare distances beside it."""
    shown, records, name = chart(result, ranked), of_leading_estimator(ranked), tables.BARE[result.k]
    zero: dict[str, plots.Reference] = {} if shown.kind == "scores" else {"zero": 0.0}
    values = [0.0 for _ in zero] + [end for row in shown.rows for end in row[1:4]]
    axis = svg.Axis.over(values, {**zero, **shown.reference}.items())
    bare, ceiling = None, result.ceiling
    scores = {own: interval_of(record, name) for own, record in records.items() if record.get(name) is not None}
    if scores and shown.kind != "pairs":
        marks: dict[str, plots.Reference] = {}
        if ceiling is not None and ceiling.known:
            marks = {
                "ceiling": (ceiling.score_2afc_lowest, ceiling.score_2afc_highest),
                "people": ceiling.human_triplets,
            }
        bare = svg.Axis.over([end for interval in scores.values() for end in interval], marks.items())
    narrowest = min((half for row in shown.rows if (half := (row.high - row.low) / 2) > 0), default=0.01)
    digits = places(narrowest, least=2, most=6)
    sign = "" if shown.kind == "scores" else "+"
    lines = []
    for row in shown.rows:
        if row.name == shown.to:
            words = f"NLL {nll_text(records[row.name])}"
        else:
            value, low, high = (f"{end:{sign}.{digits}f}".replace("-", svg.MINUS) for end in row[1:4])
            words = f"{value} ({low} to {high})" if math.isfinite(row.low) else value
        line = {"name": row.name, "words": words, "p": shown.p.get(row.name, ""), "score": ""}
        line["drawing"] = svg.interval(axis, row[1:4], f"{row.name}: {words}")
        if bare is not None and row.name in scores:
            text = f"{scores[row.name][0]:.1f} %"
            line |= {"score": text, "bare": svg.interval(bare, scores[row.name], f"{row.name}: {text}")}
        lines.append(line)
    return {
        "shown": shown,
        "lines": lines,
        "names": svg.names(axis),
        "scale": svg.scale(axis),
        "bare": bare and {"label": ALONE[result.k], "names": svg.names(bare), "scale": svg.scale(bare)},
    }


# Three examples


def examples(result: Result, ranked: Sequence[Record], pictures: Pictures | None) -> list[dict[str, Any]]:
    """Show a success and a failure of the leader, and a row on which it disagrees with the next distance."""
    if result.triplets is None:
        return []
    name, estimator = key_of(ranked[0])
    rows = result.outcome_rows(name, estimator)
    n, M = rows["n"].to_numpy(), rows["M"].to_numpy()
    floor = 0.5 if result.k == 2 else n.sum() / M.sum()
    guess = -log_likelihood(n, M, np.full(len(rows), floor))
    best = rows[int(np.argmax(guess - rows["nll"].to_numpy()))].row(0, named=True)
    worst = most_surprising(rows)
    example = _triplet if result.k == 2 else _pair
    shown = [
        {"title": f"A success of {name}", **example(best, {name: best}, pictures)},
        {"title": f"A failure of {name}", **example(worst, {name: worst}, pictures)},
    ]
    next_best = next((r["distance"] for r in ranked[1:] if r["estimator"] == estimator), None)
    if next_best is not None:
        listed = disagreements(result, name, next_best, estimator=estimator, top=3).to_dicts()
        seen = (best[result.row], worst[result.row])
        row = next((candidate for candidate in listed if candidate[result.row] not in seen), listed[0])
        both = {
            distance: {key: row[f"{key}{side}"] for key in ("P", *ENDS[result.k])}
            for distance, side in ((name, "_a"), (next_best, "_b"))
        }
        shown.append({"title": f"{name} and {next_best} disagree", **example(row, both, pictures)})
    return shown


def _pair(
    row: Mapping[str, Any], answers: Mapping[str, Mapping[str, float]], pictures: Pictures | None
) -> dict[str, Any]:
    """Show a pair: its images, how many people called them the same, and what the distances predict."""
    lines = [f"people: {row['n']} of {row['M']} said same"]
    lines += [f"{name}: d = {answer['d']:.4g}, P(same) = {answer['P']:.2f}" for name, answer in answers.items()]
    return {"name": f"pair {row['pair']}", "people": "", "columns": _images(row, pictures, LARGE), "lines": lines}


def _triplet(
    row: Mapping[str, Any], answers: Mapping[str, Mapping[str, float]], pictures: Pictures | None
) -> dict[str, Any]:
    """Show a triplet: x0, reference and x1, each with its image and those who chose it (the undecided: reference)."""
    n, M = row["n"], row["M"]
    choices = [("people", n / M, f"{max(n, M - n)} of {M}")]
    choices += [
        (name, answer["P"], f"{100 * max(answer['P'], 1 - answer['P']):.0f}\N{NO-BREAK SPACE}%")
        for name, answer in answers.items()
    ]
    columns = _images(row, pictures, LARGE)
    if len(columns) < 3:  # the table does not name all images
        columns = [{"part": part, "name": "", "address": None} for part in ("x0", "ref", "x1")]
    for column in columns:
        column["by"] = [(who, text) for who, P, text in choices if _choice(P) == column["part"]]
    columns[1]["by"] = [(who, "undecided") for who, P, _ in choices if P == 0.5]
    return {
        "name": f"triplet {row['triplet']}",
        "people": _choice(n / M),
        "columns": [column for column in columns if column["name"] or column["by"] or column["part"] != "ref"],
        "lines": [f"{name}: d0 = {answer['d0']:.4g}, d1 = {answer['d1']:.4g}" for name, answer in answers.items()],
    }


def _choice(P: float) -> str:
    return "" if P == 0.5 else "x1" if P > 0.5 else "x0"


def _images(row: Mapping[str, Any], pictures: Pictures | None, side: int) -> list[dict[str, Any]]:
    """List the images of a row: part, name, and a small JPEG as a data URL (None if it cannot be read)."""
    images: list[dict[str, Any]] = []
    for part, thumbnail in row_images(row, pictures, side).items():
        address = None
        if thumbnail is not None:
            file = io.BytesIO()
            thumbnail.save(file, format="JPEG", quality=QUALITY, optimize=True)
            address = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
        images.append({"part": part, "name": row[part], "address": address, "by": []})
    return images


# Every distance


def profiles(result: Result, ranked: Sequence[Record], pictures: Pictures | None) -> list[dict[str, Any]]:
    """Describe each fit, the best first: scores, panels, and the triplet that surprised it most."""
    columns = tables.columns_of(result.scores, short=True)
    several = len({record["estimator"] for record in ranked}) > 1
    shown = []
    for record in ranked:
        worst = None
        if result.row == "triplet" and result.triplets is not None:
            worst = most_surprising(result.outcome_rows(*key_of(record)))
            worst |= {"pictures": _images(worst, pictures, SMALL)}
        shown.append(
            {
                "name": record["distance"],
                "estimator": record["estimator"] if several else "",
                "measures": [(column.heading, tables.cell(record, column)) for column in columns],
                "panels": [*_fit_panels(result, record), *_reliability(result, record)],
                "worst": worst,
            }
        )
    return shown


def _fit_panels(result: Result, record: Record) -> list[Panel]:
    """Draw surface and standard error of triplets; the curve of pairs."""
    fit: Any = result.model(*key_of(record))
    name = record["distance"]
    if result.row == "pair":
        if fit is None:
            return [("curve", None, "not saved")]
        values = curve_of(result, fit, *key_of(record))
        return [("curve", svg.curve(values, f"Chance of same by {name}"), f"P {values.P[0]:.2f} to {values.P[-1]:.2f}")]
    tested = None if result.triplets is None else result.outcome_rows(*key_of(record))
    uniform = None if fit is None else map_of(fit, tested)
    if uniform is None:
        return [("surface", None, "the estimator saves no model"), ("standard error", None, "")]
    P, dots = plots.surface_values(fit.probability, uniform, NODES), None
    if tested is not None:
        some = tested[np.sort(np.random.default_rng(0).permutation(len(tested))[:DOTS])]
        dots = (uniform(some["d0"].to_numpy()), uniform(some["d1"].to_numpy()))
    panels: list[Panel] = [("surface", svg.surface(P, dots, f"P by {name}"), f"P {P.min():.2f} to {P.max():.2f}")]
    error = getattr(fit, "standard_error", None)
    if error is None:
        return [*panels, ("standard error", None, "not known")]
    se = plots.surface_values(error, uniform, ERROR_NODES)
    drawn = svg.error(se, f"Standard error of P by {name}")
    return [*panels, ("standard error", drawn, f"median {np.nanmedian(se):.3f}")]


def _reliability(result: Result, record: Record) -> list[Panel]:
    if key_of(record) not in result.goodness:
        return []
    calibration = result.goodness[key_of(record)].calibration
    slope = calibration.slope
    note = f"slope {with_error(slope.value, slope.se)}" if math.isfinite(slope.low) else ""
    return [
        ("reliability", svg.reliability(calibration.bins, f"Share of votes against P, by {record['distance']}"), note)
    ]


def fusion(result: Result) -> dict[str, Any] | None:
    """Draw the parts of a fused distance, with the change of NLL when a part is left out; None if nothing was fused."""
    about = result.card.get("fusion")
    if about is None:
        return None
    fused = result.fused
    functions = {name: fused.drawn(name) for name in fused.parts}
    top = max(float(f[-1]) for _, f in functions.values())
    without = {record["part"]: record for record in about["without"]}
    panels = []
    for name, (d, f) in sorted(functions.items(), key=lambda item: -item[1][1][-1]):
        thin = np.unique(np.linspace(0, len(d) - 1, NODES).astype(int))
        note = f"to {d[-1]:.3g}"
        if name in without:
            cost = [f"{without[name][key]:+.3f}".replace("-", svg.MINUS) for key in ("difference", "low", "high")]
            note += f"; without it NLL {cost[0]} ({cost[1]} to {cost[2]})"
        panels.append((name, svg.function(d[thin], f[thin], top, f"Contribution of {name}"), note))
    return {"name": about["name"], "panels": panels, "idle": [name for name in about["of"] if name not in fused.parts]}


# All pairs


def matrices(result: Result, ranked: Sequence[Record]) -> list[dict[str, Any]]:
    """Show how far each distance is ahead of those below it: by NLL above the diagonal, by the bare distance below.

    There is one matrix for each estimator under which all pairs were compared.
    """
    labels = list(dict.fromkeys(record["estimator"] for record in ranked))
    shown = []
    for estimator in labels:
        order = [record["distance"] for record in ranked if record["estimator"] == estimator]
        records = {
            (frozenset((r["a"], r["b"])), r["measure"]): r for r in result.comparisons if r["estimator"] == estimator
        }
        pairs = [frozenset((a, b)) for place, a in enumerate(order) for b in order[place + 1 :]]
        if len(order) < 3 or any((pair, "nll") not in records for pair in pairs):
            continue  # two distances are compared on page 1, and planned comparisons, too
        numbers = len(order) <= NAMED_CELLS
        rows = []
        for i, name in enumerate(order):
            cells: list[dict[str, Any] | None] = []
            for j in range(len(order)):
                better, other = order[min(i, j)], order[max(i, j)]
                measure = "nll" if i < j else tables.BARE[result.k]
                record = records.get((frozenset((better, other)), measure))
                cells.append(None if i == j else _ahead(record, better, other, measure, numbers=numbers))
            rows.append((name, cells))
        shown.append({"estimator": estimator if len(labels) > 1 else "", "rows": rows, "numbers": numbers})
    return shown


def _ahead(record: Record | None, better: str, other: str, measure: str, *, numbers: bool) -> dict[str, Any]:
    """Write the advantage of the better placed of two distances, and whether the two differ."""
    if record is None or record["difference"] is None:
        return {"text": "–", "differ": False, "words": f"{better}, {other}: not known"}
    difference = record["difference"] if record["a"] == better else -record["difference"]
    text = f"{-difference:.3f}".replace("0.", ".", 1) if measure == "nll" else f"{difference:.1f}"
    text = text.replace("-", svg.MINUS)
    return {
        "text": text if numbers else "●" if record["different"] else "○",
        "differ": record["different"],
        "words": f"{better} is ahead of {other} by {text}, {p_text(record)}",
    }


# Groups


def groups(result: Result, ranked: Sequence[Record]) -> dict[str, Any] | None:
    """Show the NLL of the leader in each group, the lowest first, and that of the others; None without groups."""
    name, estimator = key_of(ranked[0])
    by_group: dict[str, dict[str, Record]] = {}
    for record in tables.shown(result.scores, group=None):
        if record["estimator"] == estimator and record["group"] not in ("all", "mean"):
            by_group.setdefault(record["group"], {})[record["distance"]] = record
    leader = {group: records[name] for group, records in by_group.items() if name in records}
    known = [group for group, record in leader.items() if record["nll"] is not None]
    if len(known) < 2:
        return None
    known.sort(key=lambda group: (leader[group]["nll"], group))
    intervals = {group: interval_of(leader[group], "nll") for group in known}
    others = {
        group: _finite(record["nll"] for other, record in by_group[group].items() if other != name) for group in known
    }
    values = [*(value for value, _, _ in intervals.values()), *(value for nlls in others.values() for value in nlls)]
    # Intervals of small groups may be far wider than the groups are apart: these are cut at the ends of the axis.
    near = [("", end) for interval in intervals.values() for end in _finite(interval)]
    axis = replace(svg.Axis.over(values, near), marks=())
    lines = []
    for group in known if len(known) <= NAMED_GROUPS else [*known[:AT_AN_END], *known[-AT_AN_END:]]:
        words = nll_text(leader[group])
        count = leader[group].get("triplets", leader[group].get("pairs"))
        lines.append((group, count, words, svg.interval(axis, intervals[group], f"{group}: {words}", others[group])))
    return {
        "distance": name,
        "count": len(known),
        "lines": lines,
        "between": len(known) - len(lines),
        "at_an_end": AT_AN_END,
        "scale": svg.scale(axis),
        "others": any(others.values()),
    }


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]

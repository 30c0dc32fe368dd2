"""What the parts of a report show: the chart of page 1, three triplets, every distance, all pairs, and groups."""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from markupsafe import Markup

from twoafc import plots
from twoafc.arrays import FloatArray
from twoafc.core import Uniform
from twoafc.errors import DataError
from twoafc.images import decode, eight_bits
from twoafc.inference import Goodness, Record
from twoafc.metrics import log_likelihood
from twoafc.results import tables
from twoafc.results.failures import disagreements, surprising
from twoafc.results.pictures import Pictures
from twoafc.results.report import drawings
from twoafc.results.report.verdict import with_error
from twoafc.table import Pairs

if TYPE_CHECKING:
    from twoafc.results.result import Result

NODES, ERROR_NODES = 61, 31
"""Nodes of a surface, and of its standard error, along each axis."""
DOTS = 400
"""Tested triplets that are drawn on a surface."""
LARGE, SMALL, QUALITY = 240, 112, 80
"""Longest side of a thumbnail in pixels on page 1 and in the appendix, and its JPEG quality."""
NAMED_CELLS = 14
"""Distances up to which the matrix of pairs has numbers; more have marks alone."""
NAMED_GROUPS, AT_AN_END, CROWD = 24, 8, (3.0, 480.0)
"""Up to so many groups all have a line with a name; of more, so many at either end. The others have lines of so many
pixels, and so many together at most."""
BARE = {2: ("score_2afc_distance", "2AFC of the distance alone, %"), 1: ("average_precision", "average precision, %")}
"""What the second column of the chart shows, of triplets (2) and of pairs (1)."""
SIDES = ("x0", "ref", "ref0", "ref1", "x1")


@dataclass(frozen=True)
class Chart:
    """Paired differences of NLL, or scores where there are none: rows as `plots.forest` takes them, and references."""

    label: str
    rows: list[plots.ForestRow]
    reference: dict[str, drawings.Reference] = field(default_factory=dict)
    to: str | None = None
    """The distance that the others are compared with; None of scores, and of planned pairs."""
    p: dict[str, str] = field(default_factory=dict)

    def axis(self) -> drawings.Axis:
        """The axis of the page's chart."""
        ends = [end for row in self.rows for end in (row.value, row.low, row.high)]
        zero = [("zero", 0.0)] if self.label.startswith("difference") else []
        return drawings.Axis.over([*ends, *([0.0] if zero else [])], [*zero, *self.reference.items()])


def chart(result: Result, ranked: Sequence[Record]) -> Chart:
    """Differences to the leader, to the baseline, or of the planned pairs; scores where nothing was compared."""
    estimator = ranked[0]["estimator"]
    nll = {record["distance"]: float(record["nll"]) for record in ranked if record["estimator"] == estimator}
    compared = [
        record
        for record in result.comparisons
        if (record["measure"], record["estimator"]) == ("nll", estimator)
        and {record["a"], record["b"]} <= set(nll)
        and record["difference"] is not None
    ]
    unit, several = f"nats per {result.row}", len({record["estimator"] for record in ranked}) > 1
    by = f", by {estimator}" if several else ""
    if not compared:
        rows = [
            plots.ForestRow(r["distance"], r["nll"], _number(r.get("nll_low")), _number(r.get("nll_high")))
            for r in ranked
            if r["estimator"] == estimator
        ]
        return Chart(f"NLL{by}, {unit}", rows, _references(result, ranked[0]))
    common = set(nll).intersection(*({record["a"], record["b"]} for record in compared))
    leader = next(iter(nll))
    # Without planned comparisons each distance is compared with each, and so with the leader.
    whole = {leader} | {other for r in compared for other in (r["a"], r["b"]) if leader in (r["a"], r["b"])} == set(nll)
    if not whole and not common:
        rows = [_difference(record, record["a"], f"{record['a']} – {record['b']}") for record in compared]
        return Chart(
            f"difference of NLL{by}, {unit}",
            rows,
            p={row.name: p_text(r) for row, r in zip(rows, compared, strict=True)},
        )
    to = leader if whole else next(name for name in nll if name in common)
    mine = {
        other: record
        for record in compared
        for other in {record["a"], record["b"]} - {to}
        if to in (record["a"], record["b"])
    }
    rows = [
        _difference(mine[name], name, name) if name in mine else plots.ForestRow(name, 0.0, math.nan, math.nan)
        for name in nll
        if name in mine or name == to
    ]
    reference = _references(result, next(record for record in ranked if record["distance"] == to), nll[to])
    label = f"difference of NLL from {to}{by}, {unit}"
    return Chart(label, rows, reference, to, {name: p_text(record) for name, record in mine.items()})


def _difference(record: Record, first: str, name: str) -> plots.ForestRow:
    """A comparison as a row: the first distance minus the other, with the interval that belongs to the corrected p."""
    sign = 1 if record["a"] == first else -1
    ends = [record.get(f"{end}_holm", record[end]) for end in ("low", "high")]
    low, high = sorted(sign * _number(end) for end in ends)
    return plots.ForestRow(name, sign * record["difference"], low, high)


def _references(result: Result, record: Record, origin: float = 0.0) -> dict[str, drawings.Reference]:
    """Floor and ceiling of the NLL, less that of the distance which the others are compared with."""
    ceiling = result.ceiling
    if ceiling is None:
        floor = record.get("nll_floor")
        return {} if floor is None or not math.isfinite(floor) else {"constant P": floor - origin}
    best = {"ceiling": (ceiling.nll_lowest - origin, ceiling.nll_highest - origin)} if ceiling.known else {}
    return {**best, "P = 1/2": ceiling.floor_nll - origin}


def p_text(record: Record) -> str:
    """Write the p-value of a comparison; corrected where there was more than one test.

    Examples
    --------
    >>> p_text({"p_holm": 0.00002, "tests": 45}), p_text({"p_holm": 0.031, "tests": 1}), p_text({"p_holm": None})
    ('p < 0.0001 (Holm)', 'p = 0.031', '')
    """
    p = record["p_holm"]
    if p is None:
        return ""
    text = "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}" if p < 0.1 else f"p = {p:.2f}"
    return text if record.get("tests", 2) == 1 else f"{text} (Holm)"


def bare_axis(result: Result, records: Sequence[Record]) -> drawings.Axis:
    """The axis of the chart's second column: the bare distances, with what people and the best function reach."""
    name, ceiling = BARE[result.k][0], result.ceiling
    ends = [_number(record.get(f"{name}{end}")) for record in records for end in ("", "_low", "_high")]
    marks: list[tuple[str, drawings.Reference]] = []
    if ceiling is not None and ceiling.known:
        marks = [
            ("ceiling", (ceiling.score_2afc_lowest, ceiling.score_2afc_highest)),
            ("people", ceiling.human_triplets),
        ]
    return drawings.Axis.over(ends, marks)


def brief(result: Result, ranked: Sequence[Record]) -> dict[str, Any]:
    """The chart of page 1, line by line."""
    shown, records = chart(result, ranked), {record["distance"]: record for record in reversed(ranked)}
    axis, name = shown.axis(), BARE[result.k][0]
    known = [record for record in records.values() if record.get(name) is not None]
    bare = bare_axis(result, known) if known and shown.rows[0].name in records else None
    lines = []
    for row in shown.rows:
        words = _words(row, shown, records)
        line = {"name": row.name, "words": words, "p": shown.p.get(row.name, "")}
        line["drawing"] = drawings.interval(axis, row[1:4], f"{row.name}: {words}")
        if bare is not None and (record := records[row.name]).get(name) is not None:
            ends = [_number(record.get(f"{name}{end}")) for end in ("", "_low", "_high")]
            line |= {"bare": drawings.interval(bare, ends, f"{row.name}: {ends[0]:.1f} %"), "score": f"{ends[0]:.1f} %"}
        lines.append(line)
    return {
        "label": shown.label,
        "lines": lines,
        "names": drawings.names(axis),
        "scale": drawings.scale(axis),
        "of": "differences" if shown.to else "pairs" if shown.p else "scores",
        "to": shown.to,
        "reference": shown.reference,
        "corrected": all("low_holm" in record for record in result.comparisons),
        "bare": bare and {"label": BARE[result.k][1], "names": drawings.names(bare), "scale": drawings.scale(bare)},
    }


def _words(row: plots.ForestRow, shown: Chart, records: Mapping[str, Record]) -> str:
    """The value of a line with its interval; of the distance that the others are compared with, its NLL."""
    if row.name == shown.to:
        record = records[row.name]
        return f"NLL {with_error(record['nll'], record.get('nll_se', record.get('nll_sd')))}"
    sign, half = "" if shown.label.startswith("NLL") else "+", (row.high - row.low) / 2
    places = min(max(1 - math.floor(math.log10(half)), 2), 6) if half > 0 else 4
    value, low, high = (f"{each:{sign}.{places}f}".replace("-", "\N{MINUS SIGN}") for each in row[1:4])
    return f"{value} ({low} to {high})" if math.isfinite(row.low) else value


@dataclass
class Thumbnails:
    """Small copies of images as addresses of data; none where there is no folder."""

    pictures: Pictures | None
    shown: int = 0
    _made: dict[tuple[str, int], str | None] = field(default_factory=dict)

    def of(self, row: Mapping[str, Any], side: int) -> list[dict[str, Any]]:
        """Part, name and address (None if it is not available) of each image of a triplet, x0 first and x1 last."""
        images = [
            {"part": part, "name": row[part], "address": self.address(row[part], side), "by": []}
            for part in SIDES
            if row.get(part)
        ]
        self.shown += sum(image["address"] is not None for image in images)
        return images

    def address(self, name: str, side: int) -> str | None:
        """A thumbnail as data; None where there is no such image, or it cannot be read."""
        if (name, side) not in self._made:
            self._made[name, side] = self._make(name, side)
        return self._made[name, side]

    def _make(self, name: str, side: int) -> str | None:
        content = None if self.pictures is None else self.pictures.read(name)
        if content is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, on files that it reads all the same
            try:
                return thumbnail(decode(content, name), side)
            except DataError:
                return None


def thumbnail(pixels: np.ndarray[Any, Any], side: int) -> str:
    """Make a small JPEG of an image of shape (3, H, W), as the address of data.

    Examples
    --------
    >>> thumbnail(np.zeros((3, 500, 300), dtype=np.uint8), 112)[:27]
    'data:image/jpeg;base64,/9j/'
    """
    from PIL import Image

    image = Image.fromarray(np.moveaxis(eight_bits(pixels), 0, -1))
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def examples(result: Result, ranked: Sequence[Record], thumbnails: Thumbnails) -> list[dict[str, Any]]:
    """A success and a failure of the leader, and a triplet on which it disagrees with the next distance."""
    if result.row != "triplet" or result.triplets is None:
        return []
    name, estimator = _key(ranked[0])
    rows = result.outcomes(name, estimator)
    guess = -log_likelihood(rows["n"].to_numpy(), rows["M"].to_numpy(), np.full(len(rows), 0.5))
    best = rows[int(np.argmax(guess - rows["nll"].to_numpy()))].row(0, named=True)
    worst = surprising(result, name, estimator=estimator, top=1).row(0, named=True)
    shown = [
        _example(f"A success of {name}", best, {name: best}, thumbnails),
        _example(f"A failure of {name}", worst, {name: worst}, thumbnails),
    ]
    next_best = next((r["distance"] for r in ranked[1:] if r["estimator"] == estimator), None)
    if next_best is not None:
        listed = disagreements(result, name, next_best, estimator=estimator, top=3).to_dicts()
        row = next((each for each in listed if each["triplet"] not in (best["triplet"], worst["triplet"])), listed[0])
        both = {name: _side(row, "_a"), next_best: _side(row, "_b")}
        shown.append(_example(f"{name} and {next_best} disagree", row, both, thumbnails))
    return shown


def _side(row: Mapping[str, Any], side: str) -> dict[str, float]:
    return {key: row[f"{key}{side}"] for key in ("d0", "d1", "P")}


def _example(
    title: str, row: Mapping[str, Any], by: Mapping[str, Mapping[str, float]], thumbnails: Thumbnails
) -> dict[str, Any]:
    """A triplet: x0, reference and x1, each with its image and those who chose it (undecided ones at the reference)."""
    n, M = row["n"], row["M"]
    choices = [("people", n / M, f"{max(n, M - n)} of {M}")]
    choices += [
        (name, each["P"], f"{100 * max(each['P'], 1 - each['P']):.0f}\N{NO-BREAK SPACE}%") for name, each in by.items()
    ]
    columns = thumbnails.of(row, LARGE)
    if len(columns) < 3:  # the table does not name all images
        columns = [{"part": part, "name": "", "address": None} for part in ("x0", "ref", "x1")]
    for column in columns:
        column["by"] = [(who, text) for who, P, text in choices if _side_of(P) == column["part"]]
    columns[1]["by"] = [(who, "undecided") for who, P, _ in choices if P == 0.5]
    columns = [column for column in columns if column["name"] or column["by"] or column["part"] != "ref"]
    distances = [f"{name}: d0 = {each['d0']:.4g}, d1 = {each['d1']:.4g}" for name, each in by.items()]
    return {
        "title": title,
        "triplet": row["triplet"],
        "people": _side_of(n / M),
        "columns": columns,
        "distances": distances,
    }


def _side_of(P: float) -> str:
    return "" if P == 0.5 else "x1" if P > 0.5 else "x0"


def profiles(result: Result, ranked: Sequence[Record], thumbnails: Thumbnails) -> list[dict[str, Any]]:
    """One row for each fit, the best first: scores, panels, and the triplet that surprised it most."""
    columns = [
        column
        for column in tables.short(result.scores)
        if column.name != "explained" or any("explained_low" in record for record in ranked)
    ]
    single = result.row == "triplet" and result.triplets is not None
    shown = []
    for record in ranked:
        goodness = result.goodness.get(_key(record))
        worst = None
        if single:
            worst = surprising(result, record["distance"], estimator=record["estimator"], top=1).row(0, named=True)
            worst |= {"pictures": thumbnails.of(worst, SMALL)}
        shown.append(
            {
                "name": record["distance"],
                "estimator": record["estimator"] if len({r["estimator"] for r in ranked}) > 1 else "",
                "measures": [(column.heading, tables.cell(record, column)) for column in columns],
                "panels": [*_fitted(result, record), *_reliability(record, goodness)],
                "worst": worst,
            }
        )
    return shown


Panel = tuple[str, Markup | None, str]
"""Heading, drawing (None where there is nothing to draw), and what is to be noted below it."""


def _fitted(result: Result, record: Record) -> list[Panel]:
    """Surface and standard error of triplets; the curve of pairs."""
    fit: Any = result.model(*_key(record))
    name = record["distance"]
    if result.row == "pair":
        if fit is None:
            return [("curve", None, "not saved")]
        rows = result.rows.filter(distance=name, estimator=record["estimator"]).select("n", "M", "d")
        values = plots.curve_values(fit, Pairs.from_frame(rows))
        return [
            ("curve", drawings.curve(values, f"Chance of same by {name}"), f"P {values.P[0]:.2f} to {values.P[-1]:.2f}")
        ]
    tested = None if result.triplets is None else result.outcomes(*_key(record))
    uniform = None if fit is None else map_of(fit, tested)
    if uniform is None:
        return [("surface", None, "the estimator saves no model"), ("standard error", None, "")]
    P, dots = over_plane(fit.probability, uniform, NODES), None
    if tested is not None:
        some = tested[np.sort(np.random.default_rng(0).permutation(len(tested))[:DOTS])]
        dots = (uniform(some["d0"].to_numpy()), uniform(some["d1"].to_numpy()))
    panels: list[Panel] = [("surface", drawings.surface(P, dots, f"P by {name}"), f"P {P.min():.2f} to {P.max():.2f}")]
    error = getattr(fit, "standard_error", None)
    if error is None:
        return [*panels, ("standard error", None, "not known")]
    se = over_plane(error, uniform, ERROR_NODES)
    drawn = drawings.error(se, f"Standard error of P by {name}")
    return [*panels, ("standard error", drawn, f"median {np.nanmedian(se):.3f}")]


def _reliability(record: Record, goodness: Goodness | None) -> list[Panel]:
    if goodness is None:
        return []
    slope = goodness.calibration.slope
    note = f"slope {with_error(slope.value, slope.se)}" if math.isfinite(slope.low) else ""
    drawn = drawings.reliability(goodness.calibration.bins, f"Share of votes against P, by {record['distance']}")
    return [("reliability", drawn, note)]


def map_of(fit: Any, rows: pl.DataFrame | None) -> Uniform | None:
    """The map of a fit to the plane of its surface; that of the tested rows where it has none and these are known."""
    uniform = getattr(fit, "uniform", None)
    if isinstance(uniform, Uniform):
        return uniform
    return None if rows is None else Uniform.learn(rows["d0"].to_numpy(), rows["d1"].to_numpy())


def over_plane(function: Any, uniform: Uniform, size: int) -> FloatArray:
    """Values of a function of d0 and d1 over the uniformised plane, shape (size, size)."""
    d0, d1 = np.meshgrid(*[uniform.inverse(np.linspace(0, 1, size))] * 2, indexing="ij")
    return np.asarray(function(d0.ravel(), d1.ravel()), dtype=np.float64).reshape(size, size)


def _key(record: Record) -> tuple[str, str]:
    return record["distance"], record["estimator"]


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def matrices(result: Result, ranked: Sequence[Record]) -> list[dict[str, Any]]:
    """How far each distance is ahead of each that ranks below it: by NLL above the diagonal, as it is below.

    There is one for each estimator under which all pairs were compared.
    """
    first, second = "nll", BARE[result.k][0]
    shown = []
    for estimator in dict.fromkeys(record["estimator"] for record in ranked):
        order = [record["distance"] for record in ranked if record["estimator"] == estimator]
        found = {
            (frozenset((r["a"], r["b"])), r["measure"]): r for r in result.comparisons if r["estimator"] == estimator
        }
        pairs = [frozenset((a, b)) for place, a in enumerate(order) for b in order[place + 1 :]]
        if len(order) < 3 or any((pair, first) not in found for pair in pairs):
            continue  # two distances are compared on page 1, and planned comparisons, too
        numbers = len(order) <= NAMED_CELLS
        rows = [
            (
                name,
                [
                    None if i == j else _ahead(found, order, i, j, first if i < j else second, numbers=numbers)
                    for j in range(len(order))
                ],
            )
            for i, name in enumerate(order)
        ]
        label = estimator if len({record["estimator"] for record in ranked}) > 1 else ""
        shown.append({"estimator": label, "rows": rows, "numbers": numbers})
    return shown


def _ahead(
    found: Mapping[tuple[frozenset[str], str], Record],
    order: Sequence[str],
    i: int,
    j: int,
    measure: str,
    *,
    numbers: bool,
) -> dict[str, Any]:
    """The advantage of the better placed of two distances, and whether the two differ."""
    better, other = order[min(i, j)], order[max(i, j)]
    record = found.get((frozenset((better, other)), measure))
    if record is None or record["difference"] is None:
        return {"text": "–", "differ": False, "words": f"{better}, {other}: not known"}
    difference = record["difference"] if record["a"] == better else -record["difference"]
    ahead = -difference if measure == "nll" else difference
    text = f"{ahead:.3f}".replace("0.", ".", 1) if measure == "nll" else f"{ahead:.1f}"
    text = text.replace("-", "\N{MINUS SIGN}")
    return {
        "text": text if numbers else "●" if record["different"] else "○",
        "differ": record["different"],
        "words": f"{better} is ahead of {other} by {text}, {p_text(record)}",
    }


def groups(result: Result, ranked: Sequence[Record]) -> dict[str, Any] | None:
    """NLL of the leader in each group, the lowest first, with that of the other distances; None without groups."""
    name, estimator = _key(ranked[0])
    of: dict[str, dict[str, Record]] = {}
    for record in result.scores:
        if (record["split"], record["estimator"]) == ("test", estimator) and record["group"] not in ("all", "mean"):
            here = of.setdefault(record["group"], {})
            if record.get("runs") or not here.get(record["distance"], {}).get("runs"):
                here[record["distance"]] = record
    known = [(group, each) for group, each in of.items() if name in each and each[name]["nll"] is not None]
    if len(known) < 2:
        return None
    known.sort(key=lambda item: (item[1][name]["nll"], item[0]))
    ends = {group: [_number(each[name].get(f"nll{end}")) for end in ("", "_low", "_high")] for group, each in known}
    others = {group: _finite(r["nll"] for other, r in each.items() if other != name) for group, each in known}
    values = [*(value for value, _, _ in ends.values()), *(value for each in others.values() for value in each)]
    # Intervals of small groups may be far wider than the groups are apart: these are cut at the ends of the axis.
    near = [("", end) for each in ends.values() for end in _finite(each)]
    axis = replace(drawings.Axis.over(values, near), marks=())
    named = known if len(known) <= NAMED_GROUPS else [*known[:AT_AN_END], *known[-AT_AN_END:]]
    lines = []
    for group, each in named:
        record = each[name]
        words = with_error(record["nll"], record.get("nll_se", record.get("nll_sd")))
        label = f"{group}: {words}"
        count = record.get("triplets", record.get("pairs"))
        lines.append((group, count, words, drawings.interval(axis, ends[group], label, others[group])))
    between = [ends[group] for group, _ in known[AT_AN_END:-AT_AN_END]] if named is not known else []
    label = f"{len(between)} groups from {between[0][0]:.3f} to {between[-1][0]:.3f}" if between else ""
    crowd = drawings.crowd(axis, between, min(CROWD[0] * len(between), CROWD[1]), label) if between else None
    return {
        "distance": name,
        "estimator": estimator,
        "count": len(known),
        "lines": lines,
        "crowd": crowd,
        "between": len(between),
        "at_an_end": AT_AN_END,
        "scale": drawings.scale(axis),
        "others": any(others.values()),
    }


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]

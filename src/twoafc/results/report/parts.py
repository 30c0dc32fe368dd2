"""What the parts of a report show beside its chart: three triplets, every distance, all pairs, and groups."""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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
from twoafc.results.failures import disagreements, most_surprising
from twoafc.results.image_folder import Pictures
from twoafc.results.report import svg
from twoafc.results.report.chart import BARE, number, p_text
from twoafc.results.verdict import with_error
from twoafc.table import ENDS, Pairs

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
SIDES = ("x0", "ref", "ref0", "ref1", "x1", "x")
"""Labels that name images, in the order in which they are shown."""


def images_of(row: Mapping[str, Any], pictures: Pictures | None, side: int) -> list[dict[str, Any]]:
    """Part, name and thumbnail (None if it is not available) of each image of a row."""
    named = [part for part in SIDES if row.get(part)]
    return [
        {"part": part, "name": row[part], "address": _address(row[part], pictures, side), "by": []} for part in named
    ]


def _address(name: str, pictures: Pictures | None, side: int) -> str | None:
    """A thumbnail as the address of data; None where there is no such image, or it cannot be read."""
    content = None if pictures is None else pictures.read(name)
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


def examples(result: Result, ranked: Sequence[Record], pictures: Pictures | None) -> list[dict[str, Any]]:
    """A success and a failure of the leader, and a row on which it disagrees with the next distance."""
    if result.triplets is None:
        return []
    name, estimator = _key(ranked[0])
    rows = result.outcome_rows(name, estimator)
    n, M = rows["n"].to_numpy(), rows["M"].to_numpy()
    floor = 0.5 if result.k == 2 else n.sum() / M.sum()
    guess = -log_likelihood(n, M, np.full(len(rows), floor))
    best = rows[int(np.argmax(guess - rows["nll"].to_numpy()))].row(0, named=True)
    worst = most_surprising(rows)
    example = _triplet if result.k == 2 else _pair
    shown = [
        example(f"A success of {name}", best, {name: best}, pictures),
        example(f"A failure of {name}", worst, {name: worst}, pictures),
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
        shown.append(example(f"{name} and {next_best} disagree", row, both, pictures))
    return shown


def _pair(
    title: str, row: Mapping[str, Any], by: Mapping[str, Mapping[str, float]], pictures: Pictures | None
) -> dict[str, Any]:
    """A pair: its images, how many people called them the same, and what the distances say."""
    lines = [f"people: {row['n']} of {row['M']} said same"]
    lines += [f"{name}: d = {answer['d']:.4g}, P(same) = {answer['P']:.2f}" for name, answer in by.items()]
    return {
        "title": title,
        "name": f"pair {row['pair']}",
        "people": "",
        "columns": images_of(row, pictures, LARGE),
        "lines": lines,
    }


def _triplet(
    title: str, row: Mapping[str, Any], by: Mapping[str, Mapping[str, float]], pictures: Pictures | None
) -> dict[str, Any]:
    """A triplet: x0, reference and x1, each with its image and those who chose it (undecided ones at the reference)."""
    n, M = row["n"], row["M"]
    choices = [("people", n / M, f"{max(n, M - n)} of {M}")]
    choices += [
        (name, answer["P"], f"{100 * max(answer['P'], 1 - answer['P']):.0f}\N{NO-BREAK SPACE}%")
        for name, answer in by.items()
    ]
    columns = images_of(row, pictures, LARGE)
    if len(columns) < 3:  # the table does not name all images
        columns = [{"part": part, "name": "", "address": None} for part in ("x0", "ref", "x1")]
    for column in columns:
        column["by"] = [(who, text) for who, P, text in choices if _side_of(P) == column["part"]]
    columns[1]["by"] = [(who, "undecided") for who, P, _ in choices if P == 0.5]
    columns = [column for column in columns if column["name"] or column["by"] or column["part"] != "ref"]
    distances = [f"{name}: d0 = {answer['d0']:.4g}, d1 = {answer['d1']:.4g}" for name, answer in by.items()]
    return {
        "title": title,
        "name": f"triplet {row['triplet']}",
        "people": _side_of(n / M),
        "columns": columns,
        "lines": distances,
    }


def _side_of(P: float) -> str:
    return "" if P == 0.5 else "x1" if P > 0.5 else "x0"


def profiles(result: Result, ranked: Sequence[Record], pictures: Pictures | None) -> list[dict[str, Any]]:
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
            worst = most_surprising(result.outcome_rows(*_key(record)))
            worst |= {"pictures": images_of(worst, pictures, SMALL)}
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


def fusion(result: Result) -> dict[str, Any] | None:
    """What a fused distance is made of: a panel for each part, and what the NLL would be without it."""
    about = result.card.get("fusion")
    if about is None:
        return None
    fused = result.fused
    drawn = {name: fused.drawn(name) for name in fused.parts}
    top = max(float(f[-1]) for _, f in drawn.values())
    without = {record["part"]: record for record in about["without"]}
    panels = []
    for name, (d, f) in sorted(drawn.items(), key=lambda item: -item[1][1][-1]):
        thin = np.unique(np.linspace(0, len(d) - 1, NODES).astype(int))
        cost = without.get(name)
        note = f"to {d[-1]:.3g}" + ("" if cost is None else f"; without it NLL {signed(cost)}")
        panels.append((name, svg.function(d[thin], f[thin], top, f"Contribution of {name}"), note))
    return {"name": about["name"], "panels": panels, "idle": [name for name in about["of"] if name not in fused.parts]}


def signed(cost: Mapping[str, float]) -> str:
    """A difference with its sign, and its interval."""
    value, low, high = (f"{cost[key]:+.3f}".replace("-", svg.MINUS) for key in ("difference", "low", "high"))
    return f"{value} ({low} to {high})"


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
        return [("curve", svg.curve(values, f"Chance of same by {name}"), f"P {values.P[0]:.2f} to {values.P[-1]:.2f}")]
    tested = None if result.triplets is None else result.outcome_rows(*_key(record))
    uniform = None if fit is None else map_of(fit, tested)
    if uniform is None:
        return [("surface", None, "the estimator saves no model"), ("standard error", None, "")]
    P, dots = over_plane(fit.probability, uniform, NODES), None
    if tested is not None:
        some = tested[np.sort(np.random.default_rng(0).permutation(len(tested))[:DOTS])]
        dots = (uniform(some["d0"].to_numpy()), uniform(some["d1"].to_numpy()))
    panels: list[Panel] = [("surface", svg.surface(P, dots, f"P by {name}"), f"P {P.min():.2f} to {P.max():.2f}")]
    error = getattr(fit, "standard_error", None)
    if error is None:
        return [*panels, ("standard error", None, "not known")]
    se = over_plane(error, uniform, ERROR_NODES)
    drawn = svg.error(se, f"Standard error of P by {name}")
    return [*panels, ("standard error", drawn, f"median {np.nanmedian(se):.3f}")]


def _reliability(record: Record, goodness: Goodness | None) -> list[Panel]:
    if goodness is None:
        return []
    slope = goodness.calibration.slope
    note = f"slope {with_error(slope.value, slope.se)}" if math.isfinite(slope.low) else ""
    drawn = svg.reliability(goodness.calibration.bins, f"Share of votes against P, by {record['distance']}")
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


def matrices(result: Result, ranked: Sequence[Record]) -> list[dict[str, Any]]:
    """How far each distance is ahead of each that ranks below it: by NLL above the diagonal, as it is below.

    There is one for each estimator under which all pairs were compared.
    """
    first, second = "nll", BARE[result.k][0]
    shown = []
    for estimator in dict.fromkeys(record["estimator"] for record in ranked):
        order = [record["distance"] for record in ranked if record["estimator"] == estimator]
        for_pair = {
            (frozenset((r["a"], r["b"])), r["measure"]): r for r in result.comparisons if r["estimator"] == estimator
        }
        pairs = [frozenset((a, b)) for place, a in enumerate(order) for b in order[place + 1 :]]
        if len(order) < 3 or any((pair, first) not in for_pair for pair in pairs):
            continue  # two distances are compared on page 1, and planned comparisons, too
        numbers = len(order) <= NAMED_CELLS
        rows = [
            (
                name,
                [
                    None if i == j else _ahead(for_pair, order, i, j, first if i < j else second, numbers=numbers)
                    for j in range(len(order))
                ],
            )
            for i, name in enumerate(order)
        ]
        label = estimator if len({record["estimator"] for record in ranked}) > 1 else ""
        shown.append({"estimator": label, "rows": rows, "numbers": numbers})
    return shown


def _ahead(
    records: Mapping[tuple[frozenset[str], str], Record],
    order: Sequence[str],
    i: int,
    j: int,
    measure: str,
    *,
    numbers: bool,
) -> dict[str, Any]:
    """The advantage of the better placed of two distances, and whether the two differ."""
    better, other = order[min(i, j)], order[max(i, j)]
    record = records.get((frozenset((better, other)), measure))
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
    known = [
        (group, by_distance)
        for group, by_distance in of.items()
        if name in by_distance and by_distance[name]["nll"] is not None
    ]
    if len(known) < 2:
        return None
    known.sort(key=lambda item: (item[1][name]["nll"], item[0]))
    ends = {
        group: [number(by_distance[name].get(f"nll{end}")) for end in ("", "_low", "_high")]
        for group, by_distance in known
    }
    others = {
        group: _finite(r["nll"] for other, r in by_distance.items() if other != name) for group, by_distance in known
    }
    values = [*(value for value, _, _ in ends.values()), *(value for nlls in others.values() for value in nlls)]
    # Intervals of small groups may be far wider than the groups are apart: these are cut at the ends of the axis.
    near = [("", end) for interval in ends.values() for end in _finite(interval)]
    axis = replace(svg.Axis.over(values, near), marks=())
    named = known if len(known) <= NAMED_GROUPS else [*known[:AT_AN_END], *known[-AT_AN_END:]]
    lines = []
    for group, by_distance in named:
        record = by_distance[name]
        words = with_error(record["nll"], record.get("nll_se", record.get("nll_sd")))
        label = f"{group}: {words}"
        count = record.get("triplets", record.get("pairs"))
        lines.append((group, count, words, svg.interval(axis, ends[group], label, others[group])))
    between = [ends[group] for group, _ in known[AT_AN_END:-AT_AN_END]] if named is not known else []
    label = f"{len(between)} groups from {between[0][0]:.3f} to {between[-1][0]:.3f}" if between else ""
    crowd = svg.crowd(axis, between, min(CROWD[0] * len(between), CROWD[1]), label) if between else None
    return {
        "distance": name,
        "estimator": estimator,
        "count": len(known),
        "lines": lines,
        "crowd": crowd,
        "between": len(between),
        "at_an_end": AT_AN_END,
        "scale": svg.scale(axis),
        "others": any(others.values()),
    }


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]

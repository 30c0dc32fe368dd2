"""The drawings of a report as inline SVG: small files, in the colours of the page, light or dark.

Positions along x are in % of the width, so that text keeps its size on a phone and on paper.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from twoafc.arrays import FloatArray
from twoafc.files import legible
from twoafc.inference import Bin
from twoafc.plots import Curve, Reference

SIDE = 100
"""Units along a side of a square panel."""
LEVELS = {0.25: "quarter", 0.5: "half", 0.75: ""}
"""Contours of P, and their classes in the style sheet; without colour, both sides of 1/2 have the same greys."""
PROBABILITY = "7f3b08 b35806 e08214 fdb863 fee0b6 f7f7f7 d8daeb b2abd2 8073ac 542788 2d004b"
ERROR = "fcfbfd dadaeb bcbddc 9e9ac8 807dba 6a51a3 54278f 3f007d"
"""Colours of P from 0 to 1, and of the square root of its standard error from 0 to that of `LARGEST_ERROR`."""
LARGEST_ERROR = 0.25
EDGE, APART, LINE = 12.0, 30.0, 1.15
"""A name is not centred if it is nearer than EDGE % to an end, and LINE em higher if nearer than APART % to another."""
FEWEST = 2.5
"""Steps between ticks along an axis, at least."""
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Axis:
    """A linear axis with round ticks, and marks by name: a value (a line) or an interval (a band)."""

    low: float
    high: float
    marks: tuple[tuple[str, Reference], ...] = ()

    @classmethod
    def over(cls, values: Iterable[float], marks: Iterable[tuple[str, Reference]] = ()) -> Axis:
        """Make an axis that contains all values, and those marks that are not farther away than the values' range."""
        known = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(known), max(known)
        span = (high - low) or abs(high) or 1.0
        named = tuple(marks)
        for _, mark in named:
            for end in mark if isinstance(mark, tuple) else (mark,):
                low = end if low - span <= end < low else low
                high = end if high < end <= high + span else high
        margin = 0.04 * ((high - low) or span)
        return cls(low - margin, high + margin, named)

    def share(self, value: float) -> float:
        """Return the position of a value in % of the width, limited to the ends."""
        return min(max(100 * (value - self.low) / (self.high - self.low), 0.0), 100.0)

    def ticks(self) -> list[float]:
        """Return two to six round values.

        Examples
        --------
        >>> [round(tick, 2) for tick in Axis(-0.03, 0.27).ticks()]
        [0.0, 0.1, 0.2]
        """
        step = 10 ** math.floor(math.log10((self.high - self.low) / FEWEST))
        step *= next(times for times in (5, 2, 1) if (self.high - self.low) / (times * step) >= FEWEST)
        first = math.ceil(self.low / step)
        return [step * place for place in range(first, math.floor(self.high / step) + 1)]


def interval(axis: Axis, ends: Sequence[float], label: str, others: Iterable[float] = ()) -> Markup:
    """Draw one line of a chart: value, low and high of an interval, and values of others as small ticks."""
    drawn = [f'<line class="other" x1="{x}" x2="{x}" y1="30%" y2="70%"/>' for x in _shares(axis, others)]
    around = _shares(axis, ends[1:])
    if len(around) == 2:
        drawn.append(f'<line class="bar" x1="{around[0]}" x2="{around[1]}" y1="50%" y2="50%"/>')
    drawn += [f'<circle class="dot" cx="{x}" cy="50%" r="3.5"/>' for x in _shares(axis, ends[:1])]
    return _image("line", "".join([*_marks(axis), *drawn]), label)


def scale(axis: Axis) -> Markup:
    """Draw the numbers below a chart."""
    numbers = "".join(
        f'<line class="axis" x1="{x}" x2="{x}" y1="0" y2="4"/>{_text(x, 1.45, number)}'
        for tick in axis.ticks()
        for x, number in [(f"{axis.share(tick):.2f}%", f"{round(tick, 10):g}".replace("-", MINUS))]
    )
    return _image("scale", f'<line class="axis" x1="0" x2="100%" y1="0.5" y2="0.5"/>{numbers}', "")


def names(axis: Axis) -> Markup:
    """Write the names of marks above a chart: with an arrow if a mark is beyond an end, higher if two are close."""
    texts: list[str] = []
    last, height = -math.inf, 0
    for name, mark in sorted(axis.marks, key=lambda item: np.mean(item[1])):
        middle = (max(mark[0], axis.low) + min(mark[1], axis.high)) / 2 if isinstance(mark, tuple) else mark
        at, text = axis.share(middle), "" if name == "zero" else name  # the axis has it
        text = f"{text} →" if middle > axis.high else f"← {text}" if middle < axis.low else text
        height = 1 - height if at - last < APART else 0
        anchor = "start" if at < EDGE else "end" if at > 100 - EDGE else "middle"
        texts.append(_text(f"{at:.2f}%", -0.35 - LINE * height, text, anchor))
        last = at
    return _image("names", "".join(texts), "")


def _marks(axis: Axis) -> list[str]:
    drawn = []
    for name, mark in axis.marks:
        kind = f'class="mark {escape(name.split()[0])}"'
        if isinstance(mark, tuple):
            a, b = (axis.share(end) for end in mark)
            drawn.append(f'<rect {kind} x="{a:.2f}%" width="{b - a:.2f}%" y="0" height="100%"/>')
        elif axis.low <= mark <= axis.high:
            drawn.append(f'<line {kind} x1="{axis.share(mark):.2f}%" x2="{axis.share(mark):.2f}%" y1="0" y2="100%"/>')
    return drawn


def _shares(axis: Axis, values: Iterable[float]) -> list[str]:
    return [f"{axis.share(value):.2f}%" for value in values if math.isfinite(value)]


def _text(x: str, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y:g}em" text-anchor="{anchor}">{escape(text)}</text>'


def _image(kind: str, content: str, label: str, more: str = "") -> Markup:
    """Wrap a drawing; screen readers skip it if it has no label."""
    said = f'role="img" aria-label="{escape(legible(label))}"' if label else 'aria-hidden="true"'
    return Markup(f'<svg class="{kind}" {said}{more}>{content}</svg>')


def _panel(content: str, label: str) -> Markup:
    frame = f'<rect class="frame" x="0.5" y="0.5" width="{SIDE - 1}" height="{SIDE - 1}"/>'
    return _image("panel", content + frame, label, f' viewBox="0 0 {SIDE} {SIDE}"')


def surface(P: FloatArray, dots: tuple[FloatArray, FloatArray] | None, label: str) -> Markup:
    """Draw P over the plane, u0 across and u1 upwards, with contours, and some triplets, their u0 and u1, as dots.

    Row i of P, shape (K, K), has u0 = i / (K - 1), column j has u1 = j / (K - 1).
    """
    lines = "".join(
        f'<path class="contour {kind}" d="{_contour(P, level)}"/>'
        for level, kind in LEVELS.items()
        if P.min() < level < P.max()
    )
    content = _pixels(P, PROBABILITY)
    if dots is not None:
        places = dict.fromkeys(
            zip(*(np.rint(SIDE * u).astype(int).tolist() for u in (dots[0], 1 - dots[1])), strict=True)
        )
        content += f'<path class="dots" d="{"".join(f"M{x} {y}h0" for x, y in places)}"/>'
    return _panel(content + lines, label)


def error(se: FloatArray, label: str) -> Markup:
    """Draw the standard error of P over the plane."""
    return _panel(_pixels(np.sqrt(np.nan_to_num(se, nan=LARGEST_ERROR) / LARGEST_ERROR), ERROR), label)


def _contour(values: FloatArray, level: float) -> str:
    from contourpy import contour_generator

    nodes = np.linspace(0, SIDE, len(values))
    lines: Any = contour_generator(nodes, nodes[::-1], values.T).lines(level)
    return "".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in line) for line in lines)


def _pixels(values: FloatArray, colours: str) -> str:
    """Draw values in [0, 1] at the nodes of the plane as a small PNG."""
    from PIL import Image

    stops = np.array([list(bytes.fromhex(colour)) for colour in colours.split()])
    at = np.linspace(0, len(stops) - 1, 256)
    palette = np.stack([np.interp(at, range(len(stops)), channel) for channel in stops.T], axis=1)
    image = Image.fromarray(np.rint(255 * np.clip(values.T[::-1], 0, 1)).astype(np.uint8), mode="P")
    image.putpalette(np.rint(palette).astype(np.uint8).tobytes())
    file = io.BytesIO()
    image.save(file, format="PNG")
    # The outermost pixels are centred on 0 and 1, so half of each lies outside.
    half = SIDE / (len(values) - 1) / 2
    data = base64.b64encode(file.getvalue()).decode("ascii")
    box = f'x="{-half:.2f}" y="{-half:.2f}" width="{SIDE + 2 * half:.2f}" height="{SIDE + 2 * half:.2f}"'
    return f'<image {box} preserveAspectRatio="none" href="data:image/png;base64,{data}"/>'


def reliability(bins: Sequence[Bin], label: str) -> Markup:
    """Draw the share of votes against P, from 0 to 1 each, with intervals; on the diagonal P is right."""
    return _panel(
        f'<line class="axis" x1="0" y1="{SIDE}" x2="{SIDE}" y2="0"/>'
        + _points((bin.P, bin.share, bin.low, bin.high) for bin in bins),
        label,
    )


def curve(values: Curve, label: str) -> Markup:
    """Draw P along the uniformised distance of pairs, with a band of two standard errors, and shares of votes."""
    content = f'<path class="curve" d="{_path(values.u, values.P)}"/>'
    if values.se is not None:
        upper, lower = (np.clip(values.P + sign * 2 * values.se, 0, 1) for sign in (1, -1))
        around = _path(np.append(values.u, values.u[::-1]), np.append(upper, lower[::-1]))
        content = f'<path class="band" d="{around}Z"/>{content}'
    return _panel(content + _points(zip(values.middle, values.share, values.low, values.high, strict=True)), label)


def function(d: FloatArray, f: FloatArray, top: float, label: str) -> Markup:
    """Draw an increasing function of a distance, on an axis from 0 to 1.05 times `top`."""
    return _panel(f'<path class="curve" d="{_path(d / d[-1], f / (1.05 * top))}"/>', label)


def _path(x: FloatArray, y: FloatArray) -> str:
    """Join points of the unit square, y upwards."""
    return "M" + "L".join(f"{SIDE * a:.1f} {SIDE * (1 - b):.1f}" for a, b in zip(x, y, strict=True))


def _points(points: Iterable[tuple[float, float, float, float]]) -> str:
    drawn = []
    for x, y, low, high in points:
        ends = [SIDE * (1 - end) for end in ((low, high) if math.isfinite(low) and math.isfinite(high) else (y, y))]
        across = f"{SIDE * x:.1f}"
        drawn.append(f'<line class="hair" x1="{across}" x2="{across}" y1="{ends[0]:.1f}" y2="{ends[1]:.1f}"/>')
        drawn.append(f'<circle class="dot" cx="{across}" cy="{SIDE * (1 - y):.1f}" r="1.7"/>')
    return "".join(drawn)

"""What all figures share: sizes and colours, the plane of distances, panels side by side, and files."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twoafc.arrays import FloatArray
from twoafc.files import BREAKS, legible, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.text import Text

LABEL, SMALL = 8.0, 7.0
"""Font sizes in points: labels of axes and panels; numbers and remarks. Nothing is smaller than the last."""
COLUMN, PAGE = 3.35, 7.0
"""Widths of a figure in inches: of one column of print, and of two."""
LEFT, BAR, BOTTOM, TITLE, GAP = 0.44, 0.72, 0.4, 0.16, 0.11
"""Room beside panels in inches: for numbers and label, for a colour bar, below, for a line of a title, and between."""
LETTER = 0.062
"""Width of a letter of a title in inches, about."""
COLOURS = "PuOr"
"""Diverging about P = 1/2, distinguishable by colour-blind readers; in grey print the numbers on contours help."""
DARK, LIGHT, MARK = "#542788", "#998EC3", "#B35806"
"""From these colours: ink, a paler ink, and one that stands out from both."""
LINES = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, distinguishable by colour-blind readers, without the yellow, which is too pale for lines."""
UNKNOWN = "0.85"
"""Grey for unknown values."""
DASHES = ("-", (0, (4, 1.2)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (2.5, 1)), (0, (5, 1, 1, 1, 1, 1)))
"""Line styles, for print without colour; one fewer than colours, so that pairs of the two repeat late."""
SMOOTH = 50
"""From this number of pixels along an axis a surface looks smooth."""
DPI = 300
"""Dots per inch, of PNG files and of rasterised parts of others."""
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""Removes the time and matplotlib's version, so that the same figure gives the same file."""

T = TypeVar("T")


def tidy(ax: Axes) -> Axes:
    """Set the sizes of fonts and lines, and remove the top and right spines."""
    ax.tick_params(labelsize=SMALL, width=0.6, length=2.5, pad=2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_fontsize(LABEL)
        axis.offsetText.set_fontsize(SMALL)
    ax.title.set_fontsize(LABEL)
    ax.spines[:].set_linewidth(0.6)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def uniform_axes(ax: Axes) -> Axes:
    """Set the axes of the uniformised plane: d0 across, d1 upwards, each from 0 to 1."""
    unit_axes(ax).set(xlabel="d0 (uniformised)", ylabel="d1 (uniformised)")
    tidy(ax).spines[:].set_visible(True)
    return ax


def unit_axes(ax: Axes) -> Axes:
    """Set axes from 0 to 1, with numbers so short that panels may stand close together."""
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    return ax


def pixels(values: FloatArray, ax: Axes, **colours: Any) -> None:
    """Draw values at nodes from 0 to 1 as pixels, u0 across and u1 upwards; grey where they are NaN.

    The outermost pixels are centred on 0 and 1, so half of each lies outside the plane.
    """
    half = 0.5 / (len(values) - 1)
    extent = (-half, 1 + half, -half, 1 + half)
    # Viewers may blur a few large pixels; many small ones can be saved as they are.
    interpolation = "none" if len(values) >= SMOOTH else "nearest"
    ax.imshow(values.T, origin="lower", extent=extent, interpolation=interpolation, **colours)
    ax.set_facecolor(UNKNOWN)


def verbatim(text: Text) -> Text:
    """Show a user's name as it is: matplotlib would read text between two dollar signs as mathematics."""
    text.set_parse_math(False)
    return text


def side_by_side(
    named: Mapping[str, T], draw: Callable[[T, Axes], Axes], label: str | None, *, across: int
) -> Figure | None:
    """Draw panels under their names, with labels at the outer axes only, and one colour bar if it has a label.

    The figure is as wide as one column of print, or two. Places are given: finding them takes longer than drawing.
    """
    from matplotlib.figure import Figure

    if not named:
        return None
    across = min(len(named), across)
    down, width = -(-len(named) // across), COLUMN if across < 3 else PAGE
    side = (width - LEFT - (BAR if label else GAP) - GAP * (across - 1)) / across
    titles = [wrapped(name, int((side + GAP / 2) / LETTER)) for name in named]
    title = TITLE * max(text.count("\n") + 1 for text in titles) + 0.06
    height = BOTTOM + down * (side + title)
    figure = Figure(figsize=(width, height))
    for place, values in enumerate(named.values()):
        row, column = divmod(place, across)
        x, y = LEFT + column * (side + GAP), BOTTOM + (down - row - 1) * (side + title)
        ax = draw(values, figure.add_axes((x / width, y / height, side / width, side / height)))
        verbatim(ax.set_title(titles[place], fontsize=LABEL, pad=3))
        if place + across < len(named):
            ax.set(xlabel="", xticks=[])
        if column:
            ax.set(ylabel="", yticks=[])
    if label:
        x, tall = LEFT + across * (side + GAP), min(height - BOTTOM - title, 2 * side)
        at = (x / width, (BOTTOM + (height - BOTTOM - title - tall) / 2) / height, 0.09 / width, tall / height)
        first = figure.axes[0]
        _finish(figure.colorbar([*first.images, *first.collections][0], cax=figure.add_axes(at)), label)
    return figure


def panels(count: int, across: int, width: float, height: float, extra: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Lay out panels with one y axis in a figure of some width, each row of some height, and room for labels."""
    from matplotlib.figure import Figure

    down = -(-count // across)
    figure = Figure(figsize=(width, extra + down * height), layout="constrained")
    axes: Any = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for ax in axes[count:]:
        ax.set_visible(False)
    return figure, list(axes[:count])


def wrapped(name: str, most: int) -> str:
    r"""Break a long name into lines of at most so many letters, after a hyphen or an underscore where there is one.

    Examples
    --------
    >>> wrapped("lab_hist_hellinger", 12), wrapped("ssim", 12)
    ('lab_hist_\nhellinger', 'ssim')
    """
    lines = []
    while len(name) > most:
        cut = max(name.rfind(sign, 0, most) for sign in "_- ") + 1 or most
        lines.append(name[:cut])
        name = name[cut:]
    return "\n".join([*lines, name])


def colour_bar(axes: Axes | Sequence[Axes], label: str) -> Colorbar:
    """Add the colour scale of the first of the axes, beside all of them."""
    beside = [axes] if not isinstance(axes, Sequence) else list(axes)
    figure = beside[0].get_figure(root=True)
    shown = [*beside[0].images, *beside[0].collections]
    if figure is None or not shown:
        raise ValueError("a colour bar needs axes with a surface or points; these have none")
    return _finish(figure.colorbar(shown[0], ax=beside, shrink=0.9, pad=0.02), label)


def _finish(bar: Colorbar, label: str) -> Colorbar:
    bar.set_label(label, size=LABEL)
    bar.ax.tick_params(labelsize=SMALL, width=0.6, length=2.5)
    bar.outline.set_linewidth(0.6)
    return bar


def save(figure: Figure, *paths: str | Path, dpi: float = DPI) -> None:
    """Write a figure as SVG, PDF or PNG, by the suffix of each path, all with the same layout.

    In SVG, which is for screens, text stays text: it can be searched and read aloud, and glyphs that the font here
    lacks are shown. PDF, for print, embeds its fonts as TrueType, so that it looks the same everywhere.
    """
    kinds = {path: path.suffix[1:].lower() for path in map(Path, paths)}
    for path, kind in kinds.items():
        if kind not in METADATA:
            raise ValueError(f"figures are written as {', '.join(METADATA)}; found {path.name!r}; change its suffix")
    layout = figure.get_layout_engine()
    try:
        for path, kind in kinds.items():
            _write(figure, path, kind, dpi)
            figure.set_layout_engine("none")
    finally:
        figure.set_layout_engine(layout)


def _write(figure: Figure, path: Path, kind: str, dpi: float) -> None:
    drawn = io.BytesIO()  # first: on a full disk matplotlib fails in ways of its own
    with reproducible():
        figure.savefig(drawn, format=kind, dpi=dpi, metadata=METADATA[kind])
    content = drawn.getvalue()
    if kind == "svg":
        # Names may contain characters that are invalid in XML, and matplotlib writes them.
        content = legible(content.decode(), keep=BREAKS).encode()
    with whole_file(path) as partial:
        partial.write_bytes(content)


@contextmanager
def reproducible() -> Iterator[None]:
    """Write the same bytes for the same figure."""
    import matplotlib

    settings: Any = {"svg.hashsalt": "twoafc", "svg.fonttype": "none", "pdf.fonttype": 42}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Matplotlib's font lacks some scripts; a missing glyph in a title needs no warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield

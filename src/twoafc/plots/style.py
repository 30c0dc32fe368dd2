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

LABEL, SMALL, LEAST = 8.0, 7.0, 6.5
"""Font sizes in points: labels of axes and panels, numbers on axes, remarks. Nothing is smaller than the last."""
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
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")
    ax.set(xlabel="d₀ (uniformised)", ylabel="d₁ (uniformised)")
    tidy(ax).spines[:].set_visible(True)
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
    """Draw panels under their names, with labels at the outer axes only, and one colour bar if it has a label."""
    from matplotlib.figure import Figure

    if not named:
        return None
    across = min(len(named), across)
    down = -(-len(named) // across)
    figure = Figure(figsize=(1.9 * across + (0.8 if label else 0.3), 2.1 * down + 0.3), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for place, (ax, (name, values)) in enumerate(zip(axes, named.items(), strict=False)):
        verbatim(draw(values, ax).set_title(name, fontsize=LABEL))
        lowest = place + across >= len(named)
        ax.tick_params(labelbottom=lowest)
        ax.set(xlabel=ax.get_xlabel() if lowest else "", ylabel=ax.get_ylabel() if place % across == 0 else "")
    for ax in axes[len(named) :]:
        ax.set_axis_off()
    if label:
        colour_bar(list(axes), label)
    return figure


def colour_bar(axes: Axes | Sequence[Axes], label: str) -> Colorbar:
    """Add the colour scale of the first of the axes, beside all of them."""
    beside = [axes] if not isinstance(axes, Sequence) else list(axes)
    figure = beside[0].get_figure(root=True)
    shown = [*beside[0].images, *beside[0].collections]
    if figure is None or not shown:
        raise ValueError("a colour bar needs axes with a surface or points; these have none")
    bar = figure.colorbar(shown[0], ax=beside, shrink=0.9, pad=0.02)
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
    with _reproducible():
        figure.savefig(drawn, format=kind, dpi=dpi, metadata=METADATA[kind])
    content = drawn.getvalue()
    if kind == "svg":
        # Names may contain characters that are invalid in XML, and matplotlib writes them.
        content = legible(content.decode(), keep=BREAKS).encode()
    with whole_file(path) as partial:
        partial.write_bytes(content)


def svg(figure: Figure, *, dpi: float = 150) -> str:
    """Return a figure as the text of an SVG element, for a page.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> svg(Figure(figsize=(1, 1)))[:4]
    '<svg'
    """
    file = io.StringIO()
    with _reproducible():
        figure.savefig(file, format="svg", dpi=dpi, metadata=METADATA["svg"])
    text = file.getvalue()
    return legible(text[text.index("<svg") :], keep=BREAKS)


@contextmanager
def _reproducible() -> Iterator[None]:
    """Write the same bytes for the same figure."""
    import matplotlib

    settings: Any = {"svg.hashsalt": "twoafc", "svg.fonttype": "none", "pdf.fonttype": 42}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Matplotlib's font lacks some scripts; a missing glyph in a title needs no warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield

"""What all figures share: sizes for a column of print, colours that all readers tell apart, the plane of distances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twoafc.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text


COLUMN = 3.3
"""Width of one column of print, in inches: every figure can be read at this width."""
LABEL, SMALL, LEAST = 8.0, 7.0, 6.5
"""Sizes of type, in points: names of axes and panels, numbers on them, remarks; nothing is smaller than the last."""

COLOURS = "PuOr"
"""Diverging about P = 1/2, told apart by colour-blind readers; in grey print the numbers on contours tell."""
DARK, LIGHT, MARK = "#542788", "#998EC3", "#B35806"
"""The two ends of these colours, for what needs only one: ink, a paler ink, and what stands out from both."""
LINES = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, which colour-blind readers tell apart; the yellow, too pale for a line, is left out."""
UNKNOWN = "0.85"
"""Grey where a value is not known."""
DASHES = ("-", (0, (4, 1.2)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (2.5, 1)), (0, (5, 1, 1, 1, 1, 1)))
"""Styles of line, for print without colour; one fewer than colours, so that the two together repeat late."""


FINE = 50
"""Pixels along an axis from which on a surface looks smooth."""


def tidy(ax: Axes) -> Axes:
    """Set type and lines to the sizes above, with no frame where there are no values."""
    ax.tick_params(labelsize=SMALL, width=0.6, length=2.5, pad=2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_fontsize(LABEL)
        axis.offsetText.set_fontsize(SMALL)
    ax.title.set_fontsize(LABEL)
    ax.spines[:].set_linewidth(0.6)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plane(ax: Axes) -> Axes:
    """Set the axes of the uniformised plane: d0 across, d1 upwards, each from 0 to 1."""
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")
    ax.set(xlabel="d₀ (uniformised)", ylabel="d₁ (uniformised)")
    tidy(ax).spines[:].set_visible(True)
    return ax


def picture(values: FloatArray, ax: Axes, **colours: Any) -> None:
    """Draw values at nodes from 0 to 1 as pixels, u0 across and u1 upwards; grey where they are not numbers.

    The outermost pixels are centred on 0 and 1, so half of each lies beyond the plane.
    """
    half = 0.5 / (len(values) - 1)
    extent = (-half, 1 + half, -half, 1 + half)
    # Many small pixels go into a file as they are; of few large ones a reader's program might make a blur.
    interpolation = "none" if len(values) >= FINE else "nearest"
    ax.imshow(values.T, origin="lower", extent=extent, interpolation=interpolation, **colours)
    ax.set_facecolor(UNKNOWN)


def verbatim(text: Text) -> Text:
    """Take a user's name as it is: matplotlib would read what stands between two dollar signs as mathematics."""
    text.set_parse_math(False)
    return text

"""Several panels of one kind side by side, under their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from twoafc.plots.style import LABEL, SMALL, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

T = TypeVar("T")


def side_by_side(
    named: Mapping[str, T], draw: Callable[[T, Axes], Axes], label: str | None, *, across: int
) -> Figure | None:
    """Draw panels under their names, with axes named at the edges only and one colour bar where they have images."""
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
    """Add the scale of what the first of the axes shows, beside them all."""
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

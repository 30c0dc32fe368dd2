"""Cards of one triplet: its images, its distances, and how likely each outcome of the votes was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoafc.plots.style import DARK, LABEL, LIGHT, MARK, SMALL, UNKNOWN, tidy, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Image = NDArray[np.uint8]
Answer = Mapping[str, Any]
"""A result of `twoafc.results.ask`: P, standard_error, counts, and d0, d1 and P_model if known."""
LABELS = ("x0", "reference", "x1")
WIDE = 1.45
"""Width of a panel beside the images, whose width is 1."""
SMALL_IMAGE = 256
"""Images of up to this many pixels along a side are not resampled."""
INFINITE, PANEL = 1.1, 1.35
"""Heights of a bar of infinite NLL and of the panel, relative to the tallest finite bar."""
NUMBERED = 12
"""Up to this many votes all bars are numbered."""


def counts_nll(answer: Answer, ax: Axes) -> Axes:
    """Draw the NLL of each count j of votes for x1, with the observed one marked; a lower NLL is more likely.

    Parameters
    ----------
    answer : mapping
        Of `twoafc.results.ask`. A count that is impossible under P has an infinite NLL, marked ∞.
    """
    counts = answer["counts"]
    M = counts[-1]["j"]
    most = max((count["nll"] for count in counts if math.isfinite(count["nll"])), default=0.0) or 1.0
    height = [min(count["nll"], INFINITE * most) for count in counts]
    observed = [bool(count["observed"]) for count in counts]
    colours = [MARK if marked else LIGHT for marked in observed]
    places, width = [count["j"] for count in counts], 0.8 * max(1.0, M / len(counts))
    bars = ax.bar(places, height, width, color=colours, edgecolor="black", linewidth=0.5 if M <= NUMBERED else 0)
    for bar, count, marked in zip(bars, counts, observed, strict=True):
        if marked:
            bar.set(hatch="////", label=f"observed, j = {count['j']}")
            ax.legend(loc="upper center", fontsize=SMALL, frameon=False, handlelength=1.2, borderaxespad=0)
        if marked or M <= NUMBERED:
            number = f"{count['nll']:.2f}" if math.isfinite(count["nll"]) else "∞"
            above = (bar.get_x() + bar.get_width() / 2, bar.get_height())
            text = ax.annotate(number, above, (0, 1.5), textcoords="offset points", fontsize=SMALL, ha="center")
            text.set_fontweight("bold" if marked else "normal")
    ax.set(
        ylim=(0, PANEL * most),
        xlim=(-0.75 * width, M + 0.75 * width),
        xlabel=f"j, votes for x1 of {M}",
        ylabel="NLL of j, nats",
    )
    ax.locator_params(axis="x", integer=True)
    if M <= NUMBERED:
        ax.set_xticks(range(M + 1))
    return tidy(ax)


def triplet_card(
    images: Sequence[Image | None],
    answer: Answer,
    *,
    title: str = "",
    labels: tuple[str, str, str] = LABELS,
    d0: float | None = None,
    d1: float | None = None,
) -> Figure:
    """Draw x0, the reference and x1 with d0, P and d1 below, and the NLL of each count of votes beside them.

    Parameters
    ----------
    images : sequence of three arrays of uint8, each of shape (H, W, 3), or None
        x0, the reference, x1; a missing one is a grey box.
    answer : mapping
        Of `twoafc.results.ask`.
    title : str
        Above the card.
    labels : three of str
        Above the images.
    d0, d1 : float, optional
        The distances; default those of the answer.
    """
    figure, panels, (ax,) = _lay_out(images, labels, 1, title)
    d0, d1 = (answer.get("d0") if d0 is None else d0), (answer.get("d1") if d1 is None else d1)
    panels[1].set_xlabel(_probability(answer), fontsize=SMALL)
    _show_votes(answer, panels, _distances(d0, d1))
    counts_nll(answer, ax)
    return figure


def disagreement_card(
    images: Sequence[Image | None],
    answers: Mapping[str, Answer],
    *,
    title: str = "",
    labels: tuple[str, str, str] = LABELS,
    right: str,
) -> Figure:
    """Draw a triplet with the NLL of each count under several distances, and mark the one that was right.

    Parameters
    ----------
    images, title, labels
        As in `triplet_card`.
    answers : mapping of name to answer
        Of `twoafc.results.ask`, with the distances d0 and d1 of each.
    right : str
        The name of the distance that was right, or "" if the votes cannot decide.
    """
    if right and right not in answers:
        raise ValueError(f"right must name one of {', '.join(answers)}, or be empty; found {right!r}")
    figure, panels, axes = _lay_out(images, labels, len(answers), title)
    _show_votes(next(iter(answers.values())), panels, ("", ""))
    if not right:
        panels[1].set_xlabel("the votes\ndo not decide", fontsize=SMALL)
    top = max(counts_nll(answer, ax).get_ylim()[1] for answer, ax in zip(answers.values(), axes, strict=True))
    for ax, (name, answer) in zip(axes, answers.items(), strict=True):
        ax.set_ylim(0, top)
        distances = ", ".join(filter(None, _distances(answer.get("d0"), answer.get("d1"))))
        lines = [ax.get_xlabel(), distances, _probability(answer)]
        ax.set_xlabel("\n".join(filter(None, lines)), fontsize=SMALL)
        ax.set_ylabel(ax.get_ylabel() if ax is axes[0] else "")
        verbatim(ax.set_title(f"{name}: right" if name == right else name, fontsize=LABEL))
        ax.title.set(weight="bold" if name == right else "normal", color=DARK if name == right else "black")
    return figure


def _lay_out(
    images: Sequence[Image | None], labels: Sequence[str], beside: int, title: str
) -> tuple[Figure, list[Axes], list[Axes]]:
    """Lay out three images, with grey boxes for missing ones, and beside them a number of panels."""
    from matplotlib.figure import Figure

    if len(images) != 3:
        raise ValueError(f"a card has three images, x0, the reference and x1; found {len(images)}")
    widths = [1.0, 1.0, 1.0] + [WIDE] * beside
    figure = Figure(figsize=(1.35 * sum(widths) + 0.2, 2.1), layout="constrained")
    axes = list(figure.subplots(1, len(widths), width_ratios=widths))
    shapes = [image.shape for image in images if image is not None]
    for ax, image, label in zip(axes[:3], images, labels, strict=True):
        if image is None:
            ax.set(facecolor=UNKNOWN, box_aspect=shapes[0][0] / shapes[0][1] if shapes else 1)
            ax.text(0.5, 0.5, "no image", fontsize=SMALL, color="0.3", ha="center", va="center", transform=ax.transAxes)
        elif image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise ValueError(f"an image must be of uint8 and shape (H, W, 3); found {image.dtype} and {image.shape}")
        else:
            # Large images are resampled to the resolution of the figure.
            ax.imshow(image, interpolation="none" if max(image.shape) <= SMALL_IMAGE else "auto")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_linewidth(0.6)
        verbatim(ax.set_title(label, fontsize=LABEL))
    if title:
        verbatim(figure.suptitle(title, fontsize=LABEL, weight="bold", x=0.01, ha="left"))
    return figure, axes[:3], axes[3:]


def _distances(*d: float | None) -> list[str]:
    return ["" if value is None else f"d{which} = {value:.3g}" for which, value in enumerate(d)]


def _probability(answer: Answer) -> str:
    error, P_model = answer.get("standard_error"), answer.get("P_model")
    if P_model is not None and not math.isclose(P_model, answer["P"], rel_tol=1e-9):
        error = None  # it belongs to another fit than the tested one
    return f"P = {answer['P']:.3f}" + ("" if error is None else f" ± {error:.3f}")


def _show_votes(answer: Answer, panels: Sequence[Axes], texts: Sequence[str]) -> None:
    """Write texts and numbers of votes below x0 and x1, and frame the one with a majority."""
    M = answer["counts"][-1]["j"]
    observed = next((count["j"] for count in answer["counts"] if count["observed"]), None)
    for panel, text, n in zip((panels[0], panels[2]), texts, (M - (observed or 0), observed or 0), strict=True):
        lines = [text] if observed is None else [text, f"{n} of {M} votes"]
        panel.set_xlabel("\n".join(filter(None, lines)), fontsize=SMALL)
        if observed is not None and 2 * n > M:
            panel.spines[:].set(color=MARK, linewidth=1.6)

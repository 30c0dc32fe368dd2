"""Which distances are measured: the paper's six where they can be, or those that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twoafc.distances import DEEP, distance
from twoafc.errors import DataError
from twoafc.measurement import make_candidates

OURS = {
    "euclidean": "euclidean",
    "nlpd": "nlpd",
    "ssim": "ssim",
    "pim": "pim_1",
    "lpips": "lpips_alex",
    "dists": "dists",
}
"""The paper's six distances, and what this package calls the variant taken for each."""
HEADINGS = {
    "euclidean": "Euclidean",
    "nlpd": "NLPD",
    "ssim": "SSIM",
    "pim": "PIM",
    "lpips": "LPIPS",
    "dists": "DISTS",
}
VARIANTS = {
    "euclidean": "square root of the summed squared differences, RGB",
    "rmse": "root mean squared difference, RGB: of one order with the Euclidean distance where images have one size",
    "nlpd": "on luma, as its authors published it in 2016",
    "nlpd_rgb": "on the three colours",
    "ssim": "1 - SSIM, mean over the three colours, Gaussian window of 11 pixels",
    "ssim_luma": "1 - SSIM on luma",
    "pim_1": "PIM-1, the published weights",
    "pim_5": "PIM-5, the published weights",
    "lpips_alex": "LPIPS 0.1, AlexNet with the published linear weights",
    "lpips_vgg": "LPIPS 0.1, VGG16 with the published linear weights",
    "lpips_squeeze": "LPIPS 0.1, SqueezeNet with the published linear weights",
    "dists": "DISTS, the published weights",
}
FAMILIES = {"rmse": "euclidean", "pim": "pim", "lpips": "lpips", "ssim": "ssim", "nlpd": "nlpd"}


@dataclass(frozen=True)
class Chosen:
    """A distance as it is measured: what it is asked for by, its columns' name, and the paper's name for its kind.

    `paper` is None for a distance that the paper does not have.
    """

    asked: str
    name: str
    paper: str | None

    @property
    def heading(self) -> str:
        """What stands over its column."""
        if self.paper is None:
            return self.name
        return HEADINGS[self.paper] if OURS[self.paper] == self.name else f"{HEADINGS[self.paper]} ({self.name})"

    @property
    def variant(self) -> str:
        """Say which variant it is."""
        return VARIANTS.get(self.name, "no distance of the paper's" if self.paper is None else "another variant")


def choose(asked: Sequence[str] | None, *, deep: bool = True) -> tuple[list[Chosen], list[str]]:
    """Choose the distances; say of those of the paper's that are left out why.

    A distance that is asked for must be there, or the error says how to get it.

    Parameters
    ----------
    asked : sequence of str or None
        As `twoafc measure` takes them; None takes the paper's six, but those whose weights, or torch, are not there.
    deep : bool
        Whether those with a network are among the six.

    Examples
    --------
    >>> found, notes = choose(["ssim", "rmse"])
    >>> [(each.heading, each.paper) for each in found], notes
    ([('SSIM', 'ssim'), ('Euclidean (rmse)', 'euclidean')], [])
    """
    if asked is not None:
        names = [each.name for each in make_candidates(tuple(asked), "cpu", "fp32", {})]
        return [Chosen(text, name, paper_name(name)) for text, name in zip(asked, names, strict=True)], []
    notes = []
    there = []
    for paper, name in OURS.items():
        reason = "" if name not in DEEP else _absent(name) if deep else "generated sets use those that need no weights"
        if reason:
            notes.append(f"{HEADINGS[paper]} ({name}) is left out: {reason}")
        else:
            there.append(Chosen(name, name, paper))
    return there, notes


def _absent(name: str) -> str:
    """Say why a distance cannot be measured here; nothing where it can."""
    try:
        distance(name)
    except ImportError as error:
        return str(error)
    except DataError:
        return f"its weights are not at hand; run: twoafc fetch {name}"
    return ""


def paper_name(name: str) -> str | None:
    """Give the paper's name for a distance or a variant of it; None where the paper has nothing like it.

    Examples
    --------
    >>> paper_name("lpips_vgg"), paper_name("rmse"), paper_name("ms_ssim")
    ('lpips', 'euclidean', None)
    """
    if name in OURS:
        return name
    return FAMILIES.get(name) or FAMILIES.get(name.partition("_")[0])


def placed(chosen: Sequence[Chosen]) -> list[Chosen]:
    """Put distances in the order of the paper's six, with an entry for each that was not measured; others come last.

    Examples
    --------
    >>> [each.heading for each in placed(choose(["ssim", "ms_ssim", "rmse"])[0])]
    ['Euclidean (rmse)', 'NLPD', 'SSIM', 'PIM', 'LPIPS', 'DISTS', 'ms_ssim']
    """
    found: list[Chosen] = []
    for paper, name in OURS.items():
        found += [each for each in chosen if each.paper == paper] or [Chosen(name, name, paper)]
    return [*found, *(each for each in chosen if each.paper is None)]

"""Distances between images: one file each, and a name for each.

A distance is a callable ``(ref, x) -> (B,)`` on float batches (B, 3, H, W) in [0, 1], numpy arrays or torch tensors.
Its result is at least 0, and 0 for equal images; smaller means closer. Those with a network need torch and their
weights, and are made when asked for; they also have ``triplet(ref, x0, x1) -> (d0, d1)``, which is quicker. A user's
own callable, and other libraries' distances, come in by `distance` too.
"""

from __future__ import annotations

import importlib
from typing import Any, cast

from twoafc.distances.batches import Batch, Distance
from twoafc.distances.by_name import imported
from twoafc.distances.euclidean import euclidean, rmse
from twoafc.distances.ms_ssim import ms_ssim, ms_ssim_3
from twoafc.distances.nlpd import nlpd, nlpd_rgb
from twoafc.distances.nlpd_2017 import nlpd_2017, nlpd_2017_5
from twoafc.distances.own import OneByOne, Own, own
from twoafc.distances.ssim import ssim, ssim_luma

__all__ = [
    "ALIASES",
    "DEEP",
    "DISTANCES",
    "Batch",
    "Distance",
    "OneByOne",
    "Own",
    "distance",
    "euclidean",
    "ms_ssim",
    "ms_ssim_3",
    "nlpd",
    "nlpd_2017",
    "nlpd_2017_5",
    "nlpd_rgb",
    "own",
    "rmse",
    "ssim",
    "ssim_luma",
]

DISTANCES: dict[str, Distance] = {
    "euclidean": euclidean,
    "rmse": rmse,
    "ssim": ssim,
    "ssim_luma": ssim_luma,
    "ms_ssim": ms_ssim,
    "ms_ssim_3": ms_ssim_3,
    "nlpd": nlpd,
    "nlpd_rgb": nlpd_rgb,
    "nlpd_2017": nlpd_2017,
    "nlpd_2017_5": nlpd_2017_5,
}
# Distances with a network, and the module that makes each.
DEEP: dict[str, str] = {
    "lpips_alex": "lpips",
    "lpips_vgg": "lpips",
    "lpips_squeeze": "lpips",
    "dists": "dists",
    "pim_1": "pim",
    "pim_5": "pim",
}
ALIASES: dict[str, str] = {"lpips": "lpips_alex", "pim": "pim_1"}
# Libraries whose distances go by LIBRARY:NAME.
FOREIGN = ("pyiqa", "piq", "torchmetrics")


def distance(name: str | Distance, **settings: Any) -> Distance:
    """Give the distance of that name.

    Parameters
    ----------
    name : str or callable
        A name, or a short one: ``"lpips"`` is ``"lpips_alex"``, ``"pim"`` is ``"pim_1"``. Your own distance as
        ``"package.module:function"``, or the callable itself (see `twoafc.distances.own`; `twoafc.check_distance` tells
        whether it is one). A library's as ``"pyiqa:NAME"``, ``"piq:NAME"`` or ``"torchmetrics:NAME"`` (see
        `twoafc.distances.adapters`).
    **settings
        For a distance with a network: ``weights``, ``device``, ``precision``; for ``pim_5`` also ``draws``, ``seed``.
        For your own: ``takes``, ``device`` and whatever it takes itself; for a library's: ``device`` and its own.

    Examples
    --------
    >>> import numpy as np
    >>> distance("rmse")(np.zeros((1, 3, 8, 8)), np.ones((1, 3, 8, 8)))
    array([1.])
    """
    if not isinstance(name, str):
        ready = isinstance(name, Own) or name in DISTANCES.values() or hasattr(name, "triplet")
        return name if ready and not settings else own(name, **settings)
    full = ALIASES.get(name, name)
    if full in DEEP:
        module = importlib.import_module(f"twoafc.distances.{DEEP[full]}")
        made: Distance = getattr(module, full)(**settings)
        return made
    library, _, rest = name.partition(":")
    if library in FOREIGN and rest:
        adapters = importlib.import_module("twoafc.distances.adapters")
        return cast(Distance, adapters.foreign(name, **settings))
    if library and rest:
        return imported(name, **settings)
    if full not in DISTANCES:
        known = ", ".join((*DISTANCES, *DEEP, *ALIASES))
        raise ValueError(
            f"there is no distance {name!r}; the names are: {known}; your own goes by package.module:function"
        )
    if settings:
        raise TypeError(f"{name} has no settings; got {', '.join(settings)}")
    return DISTANCES[full]

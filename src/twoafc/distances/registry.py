"""Names of distances, and the function that turns a name into a distance."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from twoafc.distances.adapters import LIBRARIES, library_distance
from twoafc.distances.batches import Distance
from twoafc.distances.custom import Own, import_own, own
from twoafc.distances.laplacian import nlpd, nlpd_2017, nlpd_2017_5, nlpd_rgb
from twoafc.distances.pixelwise import euclidean, rmse
from twoafc.distances.structural import ms_ssim, ms_ssim_3, ssim, ssim_luma

PLAIN = (euclidean, rmse, ssim, ssim_luma, ms_ssim, ms_ssim_3, nlpd, nlpd_rgb, nlpd_2017, nlpd_2017_5)
DISTANCES: dict[str, Distance] = {function.__name__: function for function in PLAIN}
# Distances with a network, and the module of each.
DEEP: dict[str, str] = {
    name: name.partition("_")[0] for name in ("lpips_alex", "lpips_vgg", "lpips_squeeze", "dists", "pim_1", "pim_5")
}
ALIASES: dict[str, str] = {"lpips": "lpips_alex", "pim": "pim_1"}


def distance(name: str | Path | Distance, **settings: Any) -> Distance:
    """Return the distance of that name.

    Parameters
    ----------
    name : str, path or callable
        A name, or an alias: ``"lpips"`` is ``"lpips_alex"``, ``"pim"`` is ``"pim_1"``. Your own distance as
        ``"package.module:function"``, or the callable itself (see `twoafc.distances.own`; `twoafc.check_distance`
        checks whether it is a distance). One of another library as ``"pyiqa:NAME"``, ``"piq:NAME"`` or
        ``"torchmetrics:NAME"`` (see `twoafc.distances.adapters`). LPIPS with heads of your own as their file,
        ``"heads.npz"`` (see `twoafc.fuse`).
    **settings
        For a distance with a network: ``weights``, ``device``, ``precision``; for ``pim_5`` also ``draws``, ``seed``.
        For your own: ``takes``, ``device`` and its own arguments; for one of a library: ``device`` and the library's.

    Examples
    --------
    >>> import numpy as np
    >>> distance("rmse")(np.zeros((1, 3, 8, 8)), np.ones((1, 3, 8, 8)))
    array([1.])
    """
    name = str(name) if isinstance(name, Path) else name
    if not isinstance(name, str):
        ready = isinstance(name, Own) or name in DISTANCES.values() or hasattr(name, "triplet")
        return name if ready and not settings else own(name, **settings)
    full = ALIASES.get(name, name)
    if full in DEEP or full.endswith(".npz"):
        # Imported here, so that no other distance waits for torch.
        made: Distance = importlib.import_module(f"twoafc.distances.{DEEP.get(full, 'lpips')}").make(full, **settings)
        return made
    library, _, rest = name.partition(":")
    if library and rest:
        return library_distance(name, **settings) if library in LIBRARIES else import_own(name, **settings)
    if full not in DISTANCES:
        known = ", ".join((*DISTANCES, *DEEP, *ALIASES))
        raise ValueError(
            f"there is no distance {name!r}; the names are: {known}; your own goes by package.module:function"
        )
    if settings:
        raise TypeError(f"{name} has no settings; got {', '.join(settings)}")
    return DISTANCES[full]

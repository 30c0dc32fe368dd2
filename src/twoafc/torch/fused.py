"""A fused distance as a torch module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twoafc.distances import Own, distance
from twoafc.errors import DataError, require
from twoafc.estimators import FusionFit, last_slope, load
from twoafc.torch.psychometric import interpolated, monotone_cubic, with_slopes

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = require("torch", extra="torch")
    Tensor = torch.Tensor

POINTS = 40
"""Points of the smooth functions, evenly spaced in the normal scores of the training distances."""


class FusedDistance(torch.nn.Module):
    """A distance that `twoafc.fuse` made, on batches of images, with gradients where its parts have them.

    Its values are those of the fused distance. Its functions are straight between training distances, so that their
    slopes depend on the chance gaps between these. Gradients go through smooth ones: monotone cubics through 40 points
    evenly spaced in normal scores.

    Parameters
    ----------
    fused : FusionFit, or path of a saved one
    parts : mapping of name to callable, optional
        ``(ref, x) -> (B,)`` for each part; by default what it was measured with, or else the distance of its name.

    Examples
    --------
    >>> import numpy as np, torch, twoafc
    >>> from twoafc.torch import FusedDistance
    >>> rng = np.random.default_rng(0)
    >>> d = rng.lognormal(size=(4, 200))
    >>> n = rng.binomial(5, 1 / (1 + (d[1] * d[3] / d[0] / d[2]) ** 2))
    >>> votes = {"n": n, "M": [5] * 200, "rmse_d0": d[0], "rmse_d1": d[1], "ssim_d0": d[2], "ssim_d1": d[3]}
    >>> result = twoafc.fuse(votes, folds=2, error_bars="fixed")
    >>> module = FusedDistance(result.model("fused", "auto"))  # or the path of a file
    >>> ref = torch.rand(2, 3, 16, 16)
    >>> module(ref, ref)
    tensor([0., 0.])
    """

    def __init__(
        self, fused: FusionFit | str | Path, parts: Mapping[str, Callable[[Tensor, Tensor], Tensor]] | None = None
    ) -> None:
        super().__init__()
        model = load(fused) if isinstance(fused, str | os.PathLike) else fused
        if not isinstance(model, FusionFit):
            kind = getattr(model, "kind", type(model).__name__)
            raise DataError(f"the model must be a fused distance, from twoafc fuse; found a model of {kind}")
        self.names = model.fused.parts
        own = dict(parts or {})
        unknown = [name for name in own if name not in self.names]
        if unknown:
            raise DataError(f"the fused distance has no part {unknown[0]}; it has {', '.join(self.names)}")
        texts = {name: str(model.identities.get(name, {}).get("variant", name)) for name in self.names}
        self._distances: dict[str, Any] = {name: own.get(name) or _made(texts[name]) for name in self.names}
        for name, part in self._distances.items():
            if isinstance(part, torch.nn.Module):
                self.add_module(f"part_{self.names.index(name)}", part)
        for at, (knots, heights) in enumerate(zip(model.fused.knots, model.fused.heights, strict=True)):
            end = len(knots) - 1
            some = np.unique(np.linspace(0, end, min(POINTS, end) + 1).astype(int))
            buffers = {"knots": knots, "heights": heights, "smooth": with_slopes(knots[some], heights[some])}
            for name, array in buffers.items():
                self.register_buffer(f"{name}_{at}", torch.tensor(array, dtype=torch.float64))
            self.register_buffer(f"slope_{at}", torch.tensor(last_slope(knots, heights), dtype=torch.float64))

    def extra_repr(self) -> str:
        """Show the parts."""
        return " + ".join(self.names)

    def forward(self, ref: Tensor, x: Tensor) -> Tensor:
        """Return the distance of each pair of images, shape (B,), from batches (B, 3, H, W) in [0, 1]."""
        return self.fuse({name: part(ref, x) for name, part in self._distances.items()})

    def fuse(self, distances: Mapping[str, Tensor]) -> Tensor:
        """Return the fused distance of image pairs, from their distances by name."""
        values = [self._part(at, distances[name]) for at, name in enumerate(self.names)]
        return torch.stack(values).sum(dim=0)

    def _part(self, at: int, d: Tensor) -> Tensor:
        names = ("knots", "heights", "smooth", "slope")
        knots, heights, smooth, slope = (self.get_buffer(f"{name}_{at}") for name in names)
        wide = d.to(knots.dtype)
        gradual = monotone_cubic(smooth, wide)
        with torch.no_grad():
            exact = interpolated(knots, heights, wide) + slope * (wide - knots[-1]).clamp(min=0)
        return (gradual + (exact - gradual).detach()).to(torch.promote_types(d.dtype, torch.float32))


def _made(text: str) -> Any:
    """Make a distance; a user's own on tensors as it is, since its wrapper passes no gradients."""
    made = distance(text)
    return made.function if isinstance(made, Own) and made.takes == "torch" else made

"""The chance of a vote for x1 as a torch module: one to be learned, and one taken from a fitted spline.

Both return log P and log(1 - P), which are exact where P itself would round to 0 or 1.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.errors import DataError, require
from twoafc.estimators import SplineFit, load, spline_basis

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = require("torch", extra="torch")
    Tensor = torch.Tensor

MOST_LAPSE = 0.4
"""Lapse rates lie between 0 and this, as those of `twoafc.Spline`."""
STEP = 0.2
"""Normal scores between the knots of the smooth map that gradients of a fitted function go through."""


class Psychometric(torch.nn.Module):
    """Weber's law with a threshold and lapses, to be learned with the network.

    P = lapse / 2 + (1 - lapse) logistic(slope (log(d0 + threshold) - log(d1 + threshold))): above the threshold the
    ratio of the distances counts, below it their difference. The three parameters are positive by construction; what
    the optimiser sees are their logarithms (of the lapse rate, the logit of its share of 0.4).

    Parameters
    ----------
    slope, threshold, lapse : float
        Where they start. The threshold should start between the smallest and the usual distances.

    Examples
    --------
    >>> import torch
    >>> from twoafc.torch import Psychometric
    >>> log_p, log_q = Psychometric(slope=2.0)(torch.tensor([0.3, 0.9]), torch.tensor([0.3, 0.1]))
    >>> log_p.exp()
    tensor([0.5000, 0.9523], grad_fn=<ExpBackward0>)
    """

    def __init__(self, *, slope: float = 1.0, threshold: float = 0.1, lapse: float = 0.02) -> None:
        super().__init__()
        starts = {"slope": (slope, math.inf), "threshold": (threshold, math.inf), "lapse": (lapse, MOST_LAPSE)}
        for name, (value, most) in starts.items():
            if not 0 < value < most:
                raise ValueError(f"{name} must lie between 0 and {most}; found {value}")
        share = lapse / MOST_LAPSE
        self.log_slope = torch.nn.Parameter(torch.tensor(math.log(slope)))
        self.log_threshold = torch.nn.Parameter(torch.tensor(math.log(threshold)))
        self.lapse_logit = torch.nn.Parameter(torch.tensor(math.log(share / (1 - share))))

    @property
    def slope(self) -> float:
        """Steepness of the choice in the logarithm of the distances."""
        return self.log_slope.exp().item()

    @property
    def threshold(self) -> float:
        """The distance up to which differences count, not ratios."""
        return self.log_threshold.exp().item()

    @property
    def lapse(self) -> float:
        """Share of votes that are cast at random."""
        return MOST_LAPSE * self.lapse_logit.sigmoid().item()

    def extra_repr(self) -> str:
        """Show the values that the parameters stand for."""
        return f"slope={self.slope:.3g}, threshold={self.threshold:.3g}, lapse={self.lapse:.3g}"

    def forward(self, d0: Tensor, d1: Tensor) -> tuple[Tensor, Tensor]:
        """Return log P and log(1 - P), of the shape of d0 and d1."""
        threshold = self.log_threshold.exp()
        f = self.log_slope.exp() * (torch.log(d0 + threshold) - torch.log(d1 + threshold))
        log_sigmoid = torch.nn.functional.logsigmoid
        # log(lapse) and log(1 - lapse), without rounding where the rate is small.
        lapse = MOST_LAPSE * self.lapse_logit.sigmoid()
        log_lapse = math.log(MOST_LAPSE) + log_sigmoid(self.lapse_logit)
        return _with_lapses(log_sigmoid(f), log_sigmoid(-f), log_lapse, torch.log1p(-lapse))


class FittedPsychometric(torch.nn.Module):
    """The P of a fitted `twoafc.Spline`, as it is: it has no parameters to be learned.

    Its values are those of the fit. The fit sees a distance by its normal score, which between two neighbouring
    training distances is a straight line: its slope jumps at each of them, depends on the chance gap between the two,
    and is 0 outside their range. Gradients therefore go through a smooth map: the monotone cubic (Fritsch and Carlson,
    1980) through the scores at knots 0.2 normal scores apart, which goes on straight beyond the training distances.

    Parameters
    ----------
    fit : SplineFit, or path of a saved one
        Of triplets, such as ``models/NAME-auto.npz`` of a result. It is fitted to the distances of a table: after
        training, fit it again to those of the trained network.

    Notes
    -----
    It computes in double precision whatever the distances are, unless it is converted by ``.float()``, which devices
    without that precision need.

    Examples
    --------
    >>> import torch, twoafc
    >>> from twoafc.torch import FittedPsychometric
    >>> fit = twoafc.Spline().fit(twoafc.worlds.simulate("weber", triplets=500, votes=2))
    >>> log_p, log_q = FittedPsychometric(fit)(torch.tensor([2.0]), torch.tensor([1.0]))
    >>> round(log_p.exp().item(), 4) == round(float(fit.probability(2.0, 1.0)), 4)
    True
    """

    values: Tensor
    scores: Tensor
    smooth: Tensor
    knots: Tensor
    pieces: Tensor
    theta: Tensor

    def __init__(self, fit: SplineFit | str | Path) -> None:
        super().__init__()
        model = load(fit) if isinstance(fit, str | os.PathLike) else fit
        if not isinstance(model, SplineFit) or model.k != 2:
            kind = getattr(model, "kind", type(model).__name__)
            raise DataError(f"the model must be a spline fitted to triplets; found one of {kind}")
        if len(model.scores) < 2:
            raise DataError("a fit to one distance alone has no gradient; fit it to a table with several")
        self.link, self.lapse = model.link, model.lapse
        basis = spline_basis(model.size)
        i, j = np.triu_indices(model.size, 1)
        theta = np.zeros((model.size, model.size))
        theta[j, i] = model.theta[:-1]  # f = sum of theta (phi_j(z0) phi_i(z1) - phi_i(z0) phi_j(z1))
        buffers = {
            "values": model.uniform.values,
            "scores": model.scores,
            "smooth": _smooth_map(model.uniform.values, model.scores),
            "knots": basis.knots,
            "pieces": basis.spline.c,  # of all functions, between two knots: the coefficients of a cubic
            "theta": theta,
        }
        for name, array in buffers.items():
            self.register_buffer(name, torch.tensor(array, dtype=torch.float64))

    def extra_repr(self) -> str:
        """Show the form of the fit."""
        return f"{self.link}, lapse={self.lapse:.3g}, {len(self.values)} training distances"

    def forward(self, d0: Tensor, d1: Tensor) -> tuple[Tensor, Tensor]:
        """Return log P and log(1 - P), of the shape of d0 and d1, in the precision of this module."""
        left, right = (self._functions(self.score(d.to(self.values.dtype))) for d in (d0, d1))
        # Written so that equal distances give exactly 1/2.
        f = ((left @ self.theta) * right - (right @ self.theta) * left).sum(dim=-1)
        log_link = {"logit": torch.nn.functional.logsigmoid, "probit": torch.special.log_ndtr}[self.link]
        lapse = torch.tensor(self.lapse, dtype=f.dtype, device=f.device)
        return _with_lapses(log_link(f), log_link(-f), lapse.log(), torch.log1p(-lapse))

    def score(self, d: Tensor) -> Tensor:
        """Normal scores of distances as the fit has them, with the gradient of the smooth map."""
        smooth = self.smooth_score(d)
        with torch.no_grad():
            exact = interpolated(self.values, self.scores, d)
        return smooth + (exact - smooth).detach()

    def smooth_score(self, d: Tensor) -> Tensor:
        """Normal scores of distances by the smooth map alone."""
        return monotone_cubic(self.smooth, d)

    def _functions(self, z: Tensor) -> Tensor:
        """The functions of `spline_basis` at scores, along a new last axis: straight lines beyond the knots."""
        inside = z.clamp(self.knots[0], self.knots[-1])
        j = torch.searchsorted(self.knots, inside.detach().contiguous()).clamp(1, len(self.knots) - 1) - 1
        t = (inside - self.knots[j])[..., None]
        a, b, c, d = self.pieces[:, j]
        slope = (3 * a * t + 2 * b) * t + c
        values: Tensor = ((a * t + b) * t + c) * t + d + (z - inside)[..., None] * slope
        return values


def interpolated(x: Tensor, y: Tensor, d: Tensor) -> Tensor:
    """Straight lines through (x, y), flat outside, as `numpy.interp`."""
    j = torch.searchsorted(x, d.detach().contiguous()).clamp(1, len(x) - 1)
    share = ((d - x[j - 1]) / (x[j] - x[j - 1])).clamp(0, 1)
    return y[j - 1] + share * (y[j] - y[j - 1])


def monotone_cubic(smooth: Tensor, d: Tensor) -> Tensor:
    """Cubic pieces through points x, y with slopes there, `smooth` of shape (3, J), and straight lines beyond them."""
    x, y, slope = smooth.unbind()
    inside = d.clamp(x[0], x[-1])
    j = torch.searchsorted(x, inside.detach().contiguous()).clamp(1, len(x) - 1)
    h = x[j] - x[j - 1]
    t = (inside - x[j - 1]) / h
    rise = y[j] - y[j - 1]
    bend = t * (1 - t) * ((slope[j - 1] * h - rise) * (1 - t) - (slope[j] * h - rise) * t)
    return y[j - 1] + t * rise + bend + (d - inside) * torch.where(d > x[-1], slope[-1], slope[0])


def with_slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Points and the slopes there under which the cubic pieces never fall (Fritsch and Carlson), shape (3, J)."""
    h = np.diff(x)
    rise = np.diff(y) / h
    before, after = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    with np.errstate(divide="ignore"):  # a piece without rise makes the slopes at its ends 0
        inner = (before + after) / (before / rise[:-1] + after / rise[1:])
    return np.stack([x, y, np.concatenate([rise[:1], inner, rise[-1:]])])


def _with_lapses(log_p: Tensor, log_q: Tensor, log_lapse: Tensor, log_rest: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of lapse / 2 + (1 - lapse) p and of the same of q = 1 - p."""
    half = log_lapse - math.log(2)
    return torch.logaddexp(half, log_rest + log_p), torch.logaddexp(half, log_rest + log_q)


def _smooth_map(values: FloatArray, scores: FloatArray) -> FloatArray:
    """Knots of the monotone cubic, evenly spaced in scores: distances, scores and slopes there, shape (3, J)."""
    y = np.linspace(scores[0], scores[-1], max(2, math.ceil((scores[-1] - scores[0]) / STEP) + 1))
    return with_slopes(np.interp(y, scores, values), y)

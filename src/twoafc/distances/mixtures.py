"""Mixtures of Gaussians with unit covariance, one at each pixel, and the divergence of two of them, on torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoafc.distances.batches import Batch
from twoafc.errors import require


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture at each pixel of a batch.

    Parameters
    ----------
    means : tensor, shape (B, K, D, H, W)
        Means of the K Gaussians in D dimensions.
    logits : tensor, shape (B, K, H, W)
        Logarithms of the weights, up to a constant.
    """

    means: Batch
    logits: Batch

    def heights(self) -> Batch:
        """Give each Gaussian's part in the logarithm of the density that does not depend on the place: (B, K, H, W)."""
        return self.logits.log_softmax(1) - (self.means**2).sum(axis=2) / 2

    def projections(self, z: Batch) -> Batch:
        """Inner products of points z (..., D, H, W) with the means: shape (B, K, H, W)."""
        return (z.unsqueeze(-4) * self.means).sum(axis=2)

    def chosen(self, u: Batch) -> Batch:
        """Mean of the Gaussian in whose share of [0, 1] each u (H, W) falls: shape (B, D, H, W)."""
        # The last share ends at 1 whatever the rounding, so it is not compared.
        number = (u > self.logits.softmax(1).cumsum(1)[:, :-1]).sum(axis=1)
        index = number[:, None, None].expand(-1, 1, self.means.shape[2], -1, -1)
        return self.means.gather(1, index)[:, 0]


def divergence(a: Mixture, b: Mixture, *, draws: int, seed: list[int]) -> Batch:
    """Estimate KL(a, b) + KL(b, a), averaged over pixels, from random draws: shape (B,).

    Both directions, and all images of a batch, share the noise: so the estimate is symmetric, does not depend on the
    batch, and two estimates differ less by chance than by what they estimate. Draws come in pairs with opposite noise.
    Where both mixtures are single Gaussians the errors of a pair cancel exactly.

    Parameters
    ----------
    a, b : Mixture
    draws : int
        Even.
    seed : list of int
        What the noise is made from.
    """
    torch = require("torch", extra="torch")
    rng = np.random.default_rng(seed)
    # The density at z is exp(-|z|^2 / 2) times the sum of exp(height + z @ mean); the first factor cancels.
    heights = {a: a.heights(), b: b.heights()}
    total: Batch = 0.0
    for _ in range(draws // 2):
        noise = torch.from_numpy(rng.standard_normal(a.means.shape[2:], dtype=np.float32)).to(a.means)
        u = torch.from_numpy(rng.random(a.means.shape[3:], dtype=np.float32)).to(a.means)
        shifts = {mixture: mixture.projections(noise) for mixture in (a, b)}
        for p, q in ((a, b), (b, a)):
            centre = p.chosen(u)
            at_p, at_q = (heights[mixture] + mixture.projections(centre) for mixture in (p, q))
            for sign in (1, -1):
                ratio = (at_p + sign * shifts[p]).logsumexp(1) - (at_q + sign * shifts[q]).logsumexp(1)
                total = total + ratio.mean(axis=(1, 2))
    return total / draws

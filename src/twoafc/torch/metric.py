"""The likelihood of the votes as a metric of torchmetrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twoafc.errors import require
from twoafc.torch.loss import Measure, log_coefficient, require_one_of, votes_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torchmetrics import Metric
else:
    torch = require("torch", extra="torch")
    Tensor = torch.Tensor
    Metric = require("torchmetrics", extra="torchmetrics").Metric


class VoteNLL(Metric):
    """Negative log-likelihood of the votes, over all batches and devices: `twoafc.metrics.nll` of the whole table.

    It is the mean over all triplets (or votes), not a mean of means of batches, and sums in double precision.

    Parameters
    ----------
    measure : "nll" or "nll_per_vote"
        Over what the mean is taken: triplets, or votes.
    options
        Those of `torchmetrics.Metric`.

    Notes
    -----
    Values are taken to the metric's device: where that has no double precision, leave the metric on the CPU.

    Examples
    --------
    >>> import torch
    >>> from twoafc.torch import VoteNLL
    >>> metric = VoteNLL()
    >>> metric.update(torch.tensor([0.5, 0.5]), n=torch.tensor([1, 2]), M=2)
    >>> metric.update(torch.tensor([0.9]), n=torch.tensor([5]), M=torch.tensor([5]))
    >>> metric.compute()
    tensor(0.8687, dtype=torch.float64)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    total: Tensor
    over: Tensor

    def __init__(self, *, measure: Measure = "nll", **options: Any) -> None:
        super().__init__(**options)
        require_one_of("measure", measure, Measure)
        self.measure = measure
        for name in ("total", "over"):
            self.add_state(name, torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, P: Tensor, n: Tensor, M: Tensor | int, weight: Tensor | None = None) -> None:
        """Add a batch: P of each triplet, n votes for x1 of M, and optional sampling weights."""
        P = P.detach().to(self.total.device, torch.float64)
        n, M, weight = votes_of({"P": P}, n, M, weight)
        n, M = n.double(), M.double()
        nll = -(log_coefficient(n, M) + torch.special.xlogy(n, P) + torch.special.xlog1py(M - n, -P))
        weight = torch.ones_like(nll) if weight is None else weight.double()
        self.total += (weight * nll).sum()
        self.over += (weight * M if self.measure == "nll_per_vote" else weight).sum()

    def compute(self) -> Tensor:
        """Return the mean over all that was added."""
        return self.total / self.over

"""The likelihood of the votes as a loss."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from twoafc.errors import DataError, require
from twoafc.estimators import SplineFit
from twoafc.torch.psychometric import FittedPsychometric, Psychometric

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = require("torch", extra="torch")
    Tensor = torch.Tensor

Measure = Literal["nll", "nll_per_vote"]
Reduction = Literal["mean", "sum", "none"]


class VoteLoss(torch.nn.Module):
    """Negative log-likelihood of n of M votes for x1, given the distances of x0 and x1 to the reference.

    The votes of a triplet are Binomial(M, P(d0, d1)), so that split and unanimous votes, few and many, all count for
    what they are worth. The value is that of `twoafc.metrics.nll`, coefficient included, in nats.

    Parameters
    ----------
    psychometric : module, SplineFit or path, optional
        P as a function of the two distances. By default a `Psychometric`, whose parameters are learned with the
        network: give the optimiser ``loss.parameters()`` too. The fit of a `twoafc.Spline`, or the file of one, is
        taken as it is (`FittedPsychometric`). Any other module returns log P and log(1 - P).
    reduction : "mean", "sum" or "none"
        Of the values of the triplets.
    measure : "nll" or "nll_per_vote"
        Over what the mean is taken: triplets, or votes.

    Examples
    --------
    >>> import torch
    >>> from twoafc.torch import VoteLoss
    >>> loss = VoteLoss()
    >>> d0, d1 = torch.tensor([[0.4, 0.1], [0.2, 0.1]], requires_grad=True)
    >>> value = loss(d0, d1, n=torch.tensor([4, 2]), M=5)
    >>> value.backward()
    >>> print(f"{value:.4f}")
    1.2120
    """

    def __init__(
        self,
        psychometric: torch.nn.Module | SplineFit | str | Path | None = None,
        *,
        reduction: Reduction = "mean",
        measure: Measure = "nll",
    ) -> None:
        super().__init__()
        require_one_of("reduction", reduction, Reduction)
        require_one_of("measure", measure, Measure)
        if measure == "nll_per_vote" and reduction != "mean":
            raise ValueError(f"nll_per_vote is a mean over votes; found reduction={reduction!r}")
        if psychometric is None:
            psychometric = Psychometric()
        elif not isinstance(psychometric, torch.nn.Module):
            psychometric = FittedPsychometric(psychometric)
        self.psychometric, self.reduction, self.measure = psychometric, reduction, measure

    def forward(self, d0: Tensor, d1: Tensor, n: Tensor, M: Tensor | int, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        d0, d1 : tensor of any shape
            Distances of x0 and of x1 to the reference, finite and at least 0.
        n : tensor of that shape
            Votes for x1.
        M : tensor of that shape, or int
            All votes.
        weight : tensor of that shape, optional
            Sampling weights: one over a triplet's chance to be in the table.
        """
        n, M, weight = votes_of({"d0": d0, "d1": d1}, n, M, weight)
        log_p, log_q = self._log_chances(d0, d1)
        coefficient = log_coefficient(n, M).to(log_p.dtype)
        n, M = n.to(log_p.dtype), M.to(log_p.dtype)
        # A choice that nobody made counts nothing, even where its logarithm is minus infinity.
        zero = torch.zeros_like(log_p)
        chosen, others = torch.where(n > 0, log_p, zero), torch.where(n < M, log_q, zero)
        nll = -(coefficient + n * chosen + (M - n) * others)
        weight = torch.ones_like(nll) if weight is None else weight.to(nll.dtype)
        if self.reduction == "mean":
            over = weight * M if self.measure == "nll_per_vote" else weight
            return _as(d0, (weight * nll).sum() / over.sum())
        return _as(d0, (weight * nll).sum() if self.reduction == "sum" else weight * nll)

    def probability(self, d0: Tensor, d1: Tensor) -> Tensor:
        """Return P, the chance of a vote for x1."""
        return _as(d0, self._log_chances(d0, d1)[0].exp())

    def _log_chances(self, d0: Tensor, d1: Tensor) -> tuple[Tensor, Tensor]:
        # In single precision at least: half of it has no room for small distances.
        d0, d1 = (d.to(torch.promote_types(d.dtype, torch.float32)) for d in (d0, d1))
        with torch.autocast(d0.device.type, enabled=False):
            log_p, log_q = self.psychometric(d0, d1)
        return log_p, log_q


def log_coefficient(n: Tensor, M: Tensor) -> Tensor:
    """Log of the binomial coefficient, in double precision where the device has it: large terms cancel."""
    n, M = (votes.to(torch.float32 if votes.device.type == "mps" else torch.float64) for votes in (n, M))
    return torch.lgamma(M + 1) - torch.lgamma(n + 1) - torch.lgamma(M - n + 1)


def _as(d: Tensor, value: Tensor) -> Tensor:
    """Give a value in the precision of the distances, single at least."""
    return value.to(torch.promote_types(d.dtype, torch.float32))


def require_one_of(name: str, value: str, known: Any) -> None:
    """Raise a ValueError for a setting that is none of the known ones."""
    if value not in get_args(known):
        raise ValueError(f"{name} must be one of {', '.join(get_args(known))}; found {value!r}")


def votes_of(
    given: dict[str, Tensor], n: Tensor, M: Tensor | int, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Take votes to the device of what was computed from them, or raise a DataError that names the rule they break."""
    device, shape = next((tensor.device, tensor.shape) for tensor in given.values())
    n, M = torch.as_tensor(n, device=device), torch.as_tensor(M, device=device)
    weight = None if weight is None else torch.as_tensor(weight, device=device)
    named = {**given, "n": n} | ({"M": M} if M.dim() else {}) | ({} if weight is None else {"weight": weight})
    if any(tensor.shape != shape for tensor in named.values()):
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in named.items())
        raise DataError(f"{', '.join(list(named)[:-1])} and {list(named)[-1]} must have one shape; found {shapes}")
    if n.numel() == 0:
        raise DataError("there must be at least one triplet; found none")
    M = M.expand(shape)
    rules = {
        name: (
            f"{name} must lie in [0, 1]" if name == "P" else "a distance must be finite and at least 0",
            (tensor >= 0) & (tensor <= 1 if name == "P" else tensor.isfinite()),
        )
        for name, tensor in given.items()
    }
    rules["M"] = ("M must be at least 1", M >= 1)
    rules["n"] = ("n must lie in [0, M]", (n >= 0) & (n <= M))
    if weight is not None:
        rules["weight"] = ("weight must be positive and finite", (weight > 0) & weight.isfinite())
    # One question to the device for all rules.
    if not torch.stack([right for _, right in rules.values()]).all():
        _refuse(rules, {**named, "M": M})
    return n, M, weight


def _refuse(rules: dict[str, tuple[str, Tensor]], values: dict[str, Tensor]) -> None:
    for name, (rule, right) in rules.items():
        wrong = int((~right).sum())
        if wrong:
            index = int((~right).flatten().to(torch.uint8).argmax())
            named = ("n", "M") if name == "n" else (name,)
            shown = ", ".join(f"{key}={values[key].flatten()[index].item():g}" for key in named)
            raise DataError(f"{rule}; index {index} has {shown} ({wrong} of {right.numel()})")

"""Train a small distance from scratch on votes: python train_metric.py, about a minute on one core, no download.

The images are the demo's: patches of eight photographs, each distorted in two ways, judged by simulated observers. They
are not people, and what is learned here is their taste alone. Six photographs train the network, the other two test it:
no test image, nor any part of one, is seen in training.
"""

from __future__ import annotations

import itertools
import time

import polars as pl
import torch

import twoafc
from twoafc import metrics, worlds
from twoafc.torch import VoteLoss, VoteNLL

VOTES, BATCH = 5, 50
HELD_OUT = ("chelsea", "coffee")


class SmallMetric(torch.nn.Module):
    """Weighted mean differences of the features of three convolutions, at three resolutions: 0 for equal images."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        sizes = (3, width, 2 * width, 2 * width)
        self.layers = torch.nn.ModuleList(
            torch.nn.Conv2d(a, b, 5 if a == 3 else 3, stride=2, padding=2 if a == 3 else 1)
            for a, b in itertools.pairwise(sizes)
        )
        self.heads = torch.nn.ParameterList(torch.full((b,), -4.0) for b in sizes[1:])

    def forward(self, ref: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Distance of each pair of images (B, 3, H, W) in [0, 1]."""
        both = torch.cat([ref, x])
        d = torch.zeros(len(ref), device=ref.device)
        for layer, head in zip(self.layers, self.heads, strict=True):
            both = torch.nn.functional.leaky_relu(layer(both), 0.1)
            a, b = both.chunk(2)
            d = d + (a - b).abs().mean(dim=(2, 3)) @ torch.nn.functional.softplus(head)
        return d


def main(triplets_in_all: int = 4000, epochs: int = 8) -> twoafc.Result:
    """Simulate votes, train, and score before and after on photographs that were held out."""
    started = time.perf_counter()
    torch.manual_seed(0)
    triplets = worlds.photograph_triplets(triplets_in_all, seed=1)
    n, M, P = worlds.observers(triplets.ref, triplets.x0, triplets.x1, VOTES, seed=2)
    ref, x0, x1 = map(torch.from_numpy, (triplets.ref, triplets.x0, triplets.x1))
    n, M, P = map(torch.from_numpy, (n, M, P))
    held_out = torch.from_numpy(triplets.table["group"].is_in(HELD_OUT).to_numpy())
    train, test = (torch.nonzero(rows)[:, 0] for rows in (~held_out, held_out))

    metric, loss = SmallMetric(), VoteLoss()
    optimiser = torch.optim.Adam([*metric.parameters(), *loss.parameters()])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=epochs * (len(train) // BATCH))

    @torch.no_grad()
    def distances(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        d = [torch.cat([metric(ref[some], x[some]) for some in rows.split(200)]) for x in (x0, x1)]
        return d[0], d[1]

    columns = dict(zip(("untrained_d0", "untrained_d1"), distances(test), strict=True))
    print(f"{len(train)} triplets of six photographs to train on, {len(test)} of two others to test on")
    for epoch in range(epochs):
        seen = VoteNLL()
        for rows in train[torch.randperm(len(train))][: len(train) // BATCH * BATCH].split(BATCH):
            d0, d1 = metric(ref[rows], x0[rows]), metric(ref[rows], x1[rows])
            value = loss(d0, d1, n[rows], M[rows])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            schedule.step()
            seen.update(loss.probability(d0, d1), n[rows], M[rows])
        unseen = VoteNLL()
        unseen.update(loss.probability(*distances(test)), n[test], M[test])
        print(f"epoch {epoch + 1}: NLL {seen.compute():.4f} on train, {unseen.compute():.4f} on test")
    print(loss.psychometric)

    # All distances on the photographs that were held out, each with its own P, cross-validated by reference.
    columns |= dict(zip(("trained_d0", "trained_d1"), distances(test), strict=True))
    for name in ("rmse", "ssim"):
        for i, x in enumerate((x0, x1)):
            columns[f"{name}_d{i}"] = torch.from_numpy(twoafc.distance(name)(ref[test].numpy(), x[test].numpy()))
    columns |= {"n": n[test], "M": M[test]}
    table = pl.DataFrame({name: column.numpy() for name, column in columns.items()})
    result = twoafc.evaluate(table.with_columns(triplets.table["ref"][test.numpy()]), baseline="rmse")
    print(result)
    best = [score(*(each[test].numpy() for each in (n, M, P))) for score in (metrics.nll, metrics.score_2afc)]
    print(f"The P that the votes were drawn from has NLL {best[0]:.4f} and 2AFC {best[1]:.2f} %: expect no better.")
    print(f"{time.perf_counter() - started:.0f} s")
    return result


if __name__ == "__main__":
    main()

"""The network estimator against a plain torch loop on the paper's schedule: ``python -m benchmarks.network``.

One run trains all of them on the same simulated triplets (BAPPS in size, M = 2) and scores them on others (M = 5),
three seeds each. The ratio is of the least times, and torch's is that of its better number of threads.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from twoafc.core import log_pmf, uniformise
from twoafc.estimators import Network
from twoafc.table import Triplets
from twoafc.worlds import simulate, true_probability

SEEDS = (0, 1, 2)
WORLD, TRAIN, TEST = "weber", 151_400, 36_344
Surface = Callable[[np.ndarray, np.ndarray], np.ndarray]


def five_inputs(u0: np.ndarray, u1: np.ndarray) -> torch.Tensor:
    columns = (u0, u1, u0 - u1, u0 / (u1 + 0.1), u1 / (u0 + 0.1))
    return torch.tensor(np.stack(columns, axis=1), dtype=torch.float32)


def torch_loop(table: Triplets, seed: int) -> Surface:
    """Train as one would write it in torch: tensors in memory, no data loader, nothing else clever."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    uniform, u0, u1 = uniformise(table.d0, table.d1)
    X = torch.cat([five_inputs(u0, u1), five_inputs(u1, u0)])
    M = torch.tensor(np.tile(table.M, 2)[:, None], dtype=torch.float32)
    share = torch.tensor(np.r_[table.n, table.M - table.n][:, None], dtype=torch.float32) / M
    net = nn.Sequential(nn.Linear(5, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(5):
        for rows in torch.randperm(len(X), generator=generator).split(128):
            loss = binary_cross_entropy_with_logits(net(X[rows]), share[rows], weight=M[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()

    def probability(d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return torch.sigmoid(net(five_inputs(uniform(d0), uniform(d1)))).numpy()[:, 0].astype(np.float64)

    return probability


def ours(solver: str) -> Callable[[Triplets, int], Surface]:
    return lambda table, seed: Network(solver=solver, seed=seed).fit(table).probability


def measure(fit: Callable[[Triplets, int], Surface], train: Triplets, test: Triplets) -> tuple[float, np.ndarray]:
    """Give the least time of a fit, in seconds, and the test NLL of each seed."""
    seconds, nll = [], []
    for seed in SEEDS:
        start = time.perf_counter()
        probability = fit(train, seed)
        seconds.append(time.perf_counter() - start)
        nll.append(-log_pmf(test.n, test.M, probability(test.d0, test.d1)).mean())
    return min(seconds), np.array(nll)


def main() -> None:
    train = Triplets.from_frame(simulate(WORLD, triplets=TRAIN, votes=2, seed=0))
    test = Triplets.from_frame(simulate(WORLD, triplets=TEST, votes=5, seed=1))
    truth = -log_pmf(test.n, test.M, true_probability(WORLD, test.d0, test.d1)).mean()
    threads = torch.get_num_threads()
    ours("lbfgs")(train, 0)  # what is imported on first use is not to be timed
    results = {f"torch loop, {threads} threads": measure(torch_loop, train, test)}
    torch.set_num_threads(1)
    results["torch loop, 1 thread"] = measure(torch_loop, train, test)
    torch.set_num_threads(threads)
    best = min(seconds for seconds, _ in results.values())
    results |= {f"twoafc, {solver}": measure(ours(solver), train, test) for solver in ("adam", "lbfgs")}
    print(f"{TRAIN} triplets (M = 2), tested on {TEST} (M = 5), world {WORLD}; {platform.machine()}, {threads} cores")
    print(f"test NLL of the true P: {truth:.4f}\n")
    print(f"{'':24}{'seconds':>9}{'ratio':>7}{'test NLL':>10}{'above truth':>13}{'spread':>8}")
    for name, (seconds, nll) in results.items():
        above = nll.mean() - truth
        print(f"{name:24}{seconds:9.2f}{best / seconds:7.1f}{nll.mean():10.4f}{above:13.4f}{np.ptp(nll):8.4f}")


if __name__ == "__main__":
    main()

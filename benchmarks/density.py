"""The exact density fit against what one would write or call instead: time, error of P, peak memory.

Run: python -m benchmarks density (about a minute; needs the extra "bench")

Every peer is given the distances already uniformised, for nothing; ours starts from the raw table and also gives the
standard error and the log-likelihood. Each method runs in a process of its own: the best of several runs, then one more
to see the most memory that it held at once.
"""

from __future__ import annotations

import multiprocessing
import time
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np

from twoafc import Density, Spline, Triplets
from twoafc.core import uniformise

T, G, SIGMA, M = 151_400, 20, 1 / 44, 2
PRIOR = 1e-3
NODES = np.linspace(0, 1, G)
POINTS = np.stack(np.meshgrid(NODES, NODES, indexing="ij"), axis=-1).reshape(-1, 2)
REPEATS = {"ours": 15, "naive loop": 5}


def data() -> tuple[Triplets, np.ndarray, np.ndarray]:
    """Weber's world; the table, and its uniformised distances."""
    rng = np.random.default_rng(0)
    d0, d1 = rng.lognormal(size=(2, T))
    n = rng.binomial(M, d0**2 / (d0**2 + d1**2))
    table = Triplets.from_frame({"n": n, "M": np.full(T, M), "d0": d0, "d1": d1})
    return table, *uniformise(d0, d1)[1:]


def symmetric(N: np.ndarray, D: np.ndarray) -> np.ndarray:
    return (N + (D - N).T + PRIOR / 2) / (D + D.T + PRIOR)


def naive_loop(table: Triplets, u0: np.ndarray, u1: np.ndarray) -> np.ndarray:
    N, D = np.empty((2, G, G))
    for i, x in enumerate(NODES):
        for j, y in enumerate(NODES):
            K = np.exp(-((u0 - x) ** 2 + (u1 - y) ** 2) / (2 * SIGMA**2))
            N[i, j], D[i, j] = K @ table.n, K @ table.M
    return symmetric(N, D)


def by_count(
    table: Triplets, u0: np.ndarray, u1: np.ndarray, density: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """P from a density of the triplets of each count n, at the nodes: without weights, which slow packages down."""
    N, D = np.zeros((2, G, G))
    for n in range(M + 1):
        points = np.stack([u0, u1], axis=1)[table.n == n]
        # Back from a density to a sum of kernels with peak 1.
        K = density(points).reshape(G, G) * len(points) * 2 * np.pi * SIGMA**2
        N += n * K
        D += M * K
    return symmetric(N, D)


def scipy_kde(table: Triplets, u0: np.ndarray, u1: np.ndarray) -> np.ndarray:
    from scipy.stats import gaussian_kde

    def density(points: np.ndarray) -> np.ndarray:
        kde = gaussian_kde(points.T)
        kde.cho_cov = SIGMA * np.eye(2)  # the paper's round kernel, not one shaped by the data
        return kde(POINTS.T)

    return by_count(table, u0, u1, density)


def sklearn_kde(table: Triplets, u0: np.ndarray, u1: np.ndarray) -> np.ndarray:
    from sklearn.neighbors import KernelDensity

    return by_count(
        table, u0, u1, lambda points: np.exp(KernelDensity(bandwidth=SIGMA).fit(points).score_samples(POINTS))
    )


def statsmodels_kernel_reg(table: Triplets, u0: np.ndarray, u1: np.ndarray) -> np.ndarray:
    from statsmodels.nonparametric.kernel_regression import KernelReg

    # It gives the ratio alone, so the mirrored triplets must be there; the prior cannot be.
    exog = np.stack([np.concatenate([u0, u1]), np.concatenate([u1, u0])], axis=1)
    endog = np.concatenate([table.n, table.M - table.n]) / M
    model = KernelReg(endog, exog, var_type="cc", reg_type="lc", bw=[SIGMA, SIGMA])
    return model.fit(POINTS)[0].reshape(G, G)


METHODS: dict[str, Callable[[Triplets, np.ndarray, np.ndarray], np.ndarray]] = {
    "ours": lambda table, *_: Density().fit(table).surface,
    "naive loop": naive_loop,
    "scipy gaussian_kde per count": scipy_kde,
    "scikit-learn KDE per count": sklearn_kde,
    "statsmodels KernelReg": statsmodels_kernel_reg,
    "ours, sigma chosen": lambda table, *_: Density(sigma="auto").fit(table).surface,
    "ours, spline": lambda table, *_: Spline().fit(table).theta,
}
OTHER_SURFACES = ("ours, sigma chosen", "ours, spline")


def measure(name: str) -> tuple[float, float, float, np.ndarray]:
    """Wall and processor seconds of the best run, megabytes, and P at the nodes."""
    arguments = data()
    best = (float("inf"), float("inf"))
    for _ in range(REPEATS.get(name, 2)):
        wall, cpu = time.perf_counter(), time.process_time()
        METHODS[name](*arguments)
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    tracemalloc.start()
    P = METHODS[name](*arguments)
    return *best, tracemalloc.get_traced_memory()[1] / 2**20, P


def main(options: Sequence[str]) -> None:
    results = {}
    for name in METHODS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            results[name] = pool.apply(measure, (name,))
    exact, own = results["naive loop"][3], results["ours"][0]
    print(f"Density fit, T = {T}, G = {G}, sigma = 1/44, M = {M}; ratio = wall time over ours")
    print(f"{'method':28s} {'wall ms':>9s} {'CPU ms':>9s} {'ratio':>7s} {'max error of P':>15s} {'peak MB':>8s}")
    for name, (wall, cpu, peak, P) in results.items():
        error = "–" if name in OTHER_SURFACES else f"{np.abs(P - exact).max():.1e}"
        print(f"{name:28s} {1e3 * wall:9.1f} {1e3 * cpu:9.1f} {wall / own:7.1f} {error:>15s} {peak:8.0f}")

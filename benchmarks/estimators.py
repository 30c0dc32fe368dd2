"""The estimators' own error: expected NLL above that of the truth, in worlds where P is known.

Run: python -m benchmarks estimators [METHOD ...] (all: about five minutes, with the extra "bench")

Trained on votes with M = 2, tested against the true P of 20,000 new triplets with M = 5. Beside ours stand what a user
would try instead, each given the mirrored triplets too. A dash: not tried at that size. Last, the spline where half of
the triplets, in training and test, have distances on another scale: its error as a multiple of that on one scale. Where
both scales have the same distances the truth is the best function of d0 and d1, a mean over scales.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import multivariate_normal

from benchmarks.simulated import excess
from twoafc import Density, Network, Spline, Triplets, worlds
from twoafc.core import uniformise
from twoafc.worlds.models import CORRELATION, SPREAD

WORLDS = {
    "weber": ("weber", 0.0),
    "sqrt_noise": ("sqrt_noise", 0.0),
    "lapses": ("weber", 0.05),
    "thurstone": ("thurstone", 0.0),
    "saturating": ("saturating", 0.0),
    "turning": ("turning", 0.0),
    "useless": ("useless", 0.0),
}
SIZES = {300: 10, 5_000: 4, 150_000: 1}
"""Triplets, and the number of tables that are averaged."""
Surface = Callable[[np.ndarray, np.ndarray], np.ndarray]


def ours(settings: Any) -> Callable[[Triplets], Surface]:
    return lambda table: settings.fit(table).probability


def classifier(make: Callable[[], Any]) -> Callable[[Triplets], Surface]:
    """Fit a classifier to triplets and their mirrors, as weighted binary rows on log distances."""

    def fit(table: Triplets) -> Surface:
        X = np.log(np.stack([table.d0, table.d1], axis=1))
        inputs = np.concatenate([X, X, X[:, ::-1], X[:, ::-1]])
        choices = np.repeat([1, 0, 1, 0], len(table))
        weights = np.concatenate([table.n, table.M - table.n, table.M - table.n, table.n]).astype(float)
        kept = weights > 0
        model = make().fit(inputs[kept], choices[kept], sample_weight=weights[kept])

        def probability(d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
            P = model.predict_proba(np.log(np.stack([d0, d1], axis=1)))
            return P[:, 1] if P.ndim == 2 else P

        return probability

    return fit


def boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0)


def logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def additive() -> Any:
    from pygam import LogisticGAM, te

    class Weighted:
        def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray) -> Any:
            return LogisticGAM(te(0, 1)).gridsearch(X, y, weights=sample_weight, progress=False)

    return Weighted()


def torch_loop(table: Triplets) -> Surface:
    """The paper's network as one would write it in torch: tensors in memory, no data loader, nothing else clever."""
    import torch
    from torch import nn

    def inputs(u0: np.ndarray, u1: np.ndarray) -> torch.Tensor:
        columns = (u0, u1, u0 - u1, u0 / (u1 + 0.1), u1 / (u0 + 0.1))
        return torch.tensor(np.stack(columns, axis=1), dtype=torch.float32)

    torch.manual_seed(0)
    uniform, u0, u1 = uniformise(table.d0, table.d1)
    X = torch.cat([inputs(u0, u1), inputs(u1, u0)])
    M = torch.tensor(np.tile(table.M, 2)[:, None], dtype=torch.float32)
    share = torch.tensor(np.r_[table.n, table.M - table.n][:, None], dtype=torch.float32) / M
    net = nn.Sequential(nn.Linear(5, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(5):
        for rows in torch.randperm(len(X)).split(128):
            loss = nn.functional.binary_cross_entropy_with_logits(net(X[rows]), share[rows], weight=M[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()

    def probability(d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return torch.sigmoid(net(inputs(uniform(d0), uniform(d1)))).numpy()[:, 0].astype(np.float64)

    return probability


METHODS: dict[str, Callable[[Triplets], Surface]] = {
    "density (paper)": ours(Density()),
    "density (auto)": ours(Density(sigma="auto")),
    "network (paper)": ours(Network()),
    "network (lbfgs)": ours(Network(solver="lbfgs")),
    "network, torch loop": torch_loop,
    "spline": ours(Spline()),
    "gradient boosting": classifier(boosting),
    "logistic on log d": classifier(logistic),
    "pygam te(d0, d1)": classifier(additive),
}
MOST = {"pygam te(d0, d1)": 5_000}
"""The largest size that a method is tried at."""


def error_of(fit: Callable[[Triplets], Surface], world: str, T: int, seed: int) -> tuple[float, float]:
    """Expected NLL of five votes above that of the truth, and the seconds of the fit."""
    name, lapse = WORLDS[world]
    train = Triplets.from_frame(worlds.simulate(name, triplets=T, votes=2, lapse=lapse, seed=seed))
    test = worlds.simulate(name, triplets=20_000, votes=5, lapse=lapse, seed=10**6 + seed)
    start = time.perf_counter()
    probability = fit(train)
    seconds = time.perf_counter() - start
    return 5 * excess(test["P"].to_numpy(), probability(test["d0"].to_numpy(), test["d1"].to_numpy())), seconds


SCALES, SCALED, REPEATS = (1e-2, 1e-10), 5_000, 40
"""Other scales, triplets, and tables of each world."""


def scaled_error(world: str, scale: float, seed: int) -> float:
    """The spline's error where half of the triplets are on another scale."""
    name, lapse = WORLDS[world]
    rng = np.random.default_rng(seed)
    tables = {}
    for role, (T, votes, first) in {"train": (SCALED, 2, 0), "test": (20_000, 5, 10**6)}.items():
        frame = worlds.simulate(name, triplets=T, votes=votes, lapse=lapse, seed=first + seed)
        times = pl.Series(np.where(rng.random(T) < 0.5, scale, 1.0))
        tables[role] = frame.with_columns(d0=frame["d0"] * times, d1=frame["d1"] * times)
    d = np.stack([tables["test"]["d0"], tables["test"]["d1"]], axis=1)
    P = Spline().fit(Triplets.from_frame(tables["train"])).probability(*d.T)
    normal = multivariate_normal(cov=[[1, CORRELATION], [CORRELATION, 1]])
    density = [normal.pdf(np.log(d / times) / SPREAD) for times in (1.0, scale)]
    share = density[0] / (density[0] + density[1])
    Q = sum(
        part * worlds.true_probability(name, *(d / times).T, lapse=lapse)
        for part, times in ((share, 1.0), (1 - share, scale))
    )
    return 5 * excess(Q, P)


def two_scales() -> None:
    print(f"T = {SCALED}, mean of {REPEATS}: the spline's error on two scales, as a multiple of that on one")
    print(f"{'':20s}" + "".join(f"{world:>12s}" for world in WORLDS))
    one = [[error_of(ours(Spline()), world, SCALED, seed)[0] for seed in range(REPEATS)] for world in WORLDS]
    for scale in SCALES:
        two = [[scaled_error(world, scale, seed) for seed in range(REPEATS)] for world in WORLDS]
        ratios = (np.mean(b) / np.mean(a) for a, b in zip(one, two, strict=True))
        print(f"{f'half at {scale:g}':20s}" + "".join(f"{ratio:12.2f}" for ratio in ratios), flush=True)


def main(options: Sequence[str]) -> None:
    warnings.simplefilter("ignore")
    for T, repeats in SIZES.items():
        print(f"T = {T}, mean of {repeats}: nats per triplet of 5 votes above the truth")
        print(f"{'':20s}" + "".join(f"{world:>12s}" for world in WORLDS) + f"{'seconds':>10s}")
        for name in options or METHODS:
            fit = METHODS[name]
            if MOST.get(name, T) < T:
                print(f"{name:20s}" + f"{'–':>12s}" * len(WORLDS), flush=True)
                continue
            found = [[error_of(fit, world, T, seed) for seed in range(repeats)] for world in WORLDS]
            cells = "".join(f"{np.mean([value for value, _ in each]):12.5f}" for each in found)
            print(f"{name:20s}{cells}{np.median([s for each in found for _, s in each]):10.3f}", flush=True)
        print()
    if not options:
        two_scales()

"""How often 95 % intervals for P, P ± 1.96 standard errors, hold the truth, on average over new triplets.

Run: python -m benchmarks coverage (about four minutes)

The density's standard error tells its noise alone: where P bends within a kernel's width, its bias comes on top. In
the worlds of the first table the distance explains the votes; in the second it sees them with noise, so that votes on
one triplet, and with references those of one reference, are correlated beyond P.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.estimators import WORLDS
from twoafc import Density, Spline, Triplets, worlds

SIZES = {300: 40, 2_000: 30, 20_000: 30}
VOTES: dict[str, Any] = {"M = 2": 2, "M = 1..5": [1, 2, 3, 4, 5]}


def coverage(settings: Any, world: str, T: int, votes: Any, seed: int) -> float:
    name, lapse = WORLDS[world]
    fit = settings.fit(Triplets.from_frame(worlds.simulate(name, triplets=T, votes=votes, lapse=lapse, seed=seed)))
    test = worlds.simulate(name, triplets=3_000, votes=1, lapse=lapse, seed=10**6 + seed)
    d0, d1 = test["d0"].to_numpy(), test["d1"].to_numpy()
    error = np.abs(fit.probability(d0, d1) - test["P"].to_numpy())
    return float(np.mean(error <= 1.96 * fit.standard_error(d0, d1)))


def noisy(settings: Any, T: int, M: int, references: int | None, seed: int, noise: float = 0.5) -> float:
    """Coverage where log d is the truth plus noise, and each reference favours one side."""
    rng = np.random.default_rng(seed)

    def draw(rows: int) -> tuple[Triplets, np.ndarray]:
        x = rng.normal(size=(2, rows))
        seen, bias, labels = x + noise * rng.normal(size=(2, rows)), np.zeros(rows), {}
        if references:
            labels["ref"] = np.arange(rows) % references
            bias = 0.8 * rng.normal(size=references)[labels["ref"]]
        n = rng.binomial(M, expit(2 * (x[0] - x[1]) + bias))
        d = dict(zip(("d0", "d1"), np.exp(seen), strict=True))
        return Triplets.from_frame({"n": n, "M": np.full(rows, M), **d, **labels}), seen[0] - seen[1]

    (train, _), (test, apart) = draw(T), draw(2000)
    fit = settings.fit(train)
    # The truth given what is seen: a normal mixture of logistic curves, by Gauss and Hermite.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    shrunk = 1 / (1 + noise**2)
    spread = np.sqrt(4 * 2 * noise**2 * shrunk + (0.64 if references else 0))
    P = expit(2 * shrunk * apart[:, None] + spread * nodes) @ (weights / weights.sum())
    error = np.abs(fit.probability(test.d0, test.d1) - P)
    return float(np.mean(error <= 1.96 * fit.standard_error(test.d0, test.d1)))


def main(options: Sequence[str]) -> None:
    print(f"{'coverage, %':34s}" + "".join(f"{world:>12s}" for world in WORLDS))
    for label, settings in {"density (paper)": Density(), "spline": Spline()}.items():
        for name, votes in VOTES.items():
            for T, repeats in SIZES.items():
                found = [[coverage(settings, world, T, votes, seed) for seed in range(repeats)] for world in WORLDS]
                cells = "".join(f"{100 * np.mean(each):12.1f}" for each in found)
                print(f"{f'{label}, T = {T}, {name}':34s}{cells}", flush=True)
    print(f"\n{'with noise in the distance':34s}{'M = 2':>12s}{'M = 5':>12s}{'M = 2, refs':>13s}{'M = 5, refs':>13s}")
    for label, settings in {"density (paper)": Density(), "spline": Spline()}.items():
        for T in (300, 2_000):
            found = [
                np.mean([noisy(settings, T, M, references, seed) for seed in range(20)])
                for references in (None, 60)
                for M in (2, 5)
            ]
            print(f"{f'{label}, T = {T}':34s}" + "".join(f"{100 * each:12.1f}" for each in found), flush=True)

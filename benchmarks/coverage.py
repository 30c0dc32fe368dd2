"""How often 95 % intervals for P, P ± 1.96 standard errors, hold the truth, on average over new triplets.

Run: python -m benchmarks.coverage (about four minutes)

The density's standard error tells its noise alone: where P bends within a kernel's width, its bias comes on top.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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


def main() -> None:
    print(f"{'coverage, %':34s}" + "".join(f"{world:>12s}" for world in WORLDS))
    for label, settings in {"density (paper)": Density(), "spline": Spline()}.items():
        for told, votes in VOTES.items():
            for T, repeats in SIZES.items():
                found = [[coverage(settings, world, T, votes, seed) for seed in range(repeats)] for world in WORLDS]
                cells = "".join(f"{100 * np.mean(each):12.1f}" for each in found)
                print(f"{f'{label}, T = {T}, {told}':34s}{cells}", flush=True)


if __name__ == "__main__":
    main()

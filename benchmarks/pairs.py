"""Curves P(same | d) and the average precision against a known truth: own error, coverage of intervals, bias.

Run: python -m benchmarks pairs (about a minute)

People see no difference with a chance that falls with the logarithm of the distance, steeply or gently, and are wrong
about the obvious once in thirty times; each pair has three votes. The references of the second world have a liking of
their own, five pairs to a reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.simulated import excess
from twoafc import Density, Pairs, Spline
from twoafc.inference import Ranking, average_precision, clustering_of, share_interval

SIZES = {300: 100, 2_000: 60, 9_600: 40}
SLOPES = {"steep": 3.0, "gentle": 1.2}
SETTINGS: dict[str, Any] = {"density (paper)": Density(), "density (auto)": Density(sigma="auto"), "spline": Spline()}


def truth(z: Any, slope: float) -> Any:
    return 1 / 60 + (1 - 1 / 30) * expit(-slope * z - 0.5)


def drawn(T: int, slope: float, rng: np.random.Generator) -> Pairs:
    z = rng.normal(size=T)
    return Pairs.from_frame({"n": rng.binomial(3, truth(z, slope)), "M": np.full(T, 3), "d": np.exp(z)})


def linked(T: int, slope: float, rng: np.random.Generator) -> Pairs:
    ref = np.arange(T) // 5
    z = (rng.normal(size=T) + rng.normal(size=T)[ref]) / np.sqrt(2)
    n = rng.binomial(3, truth(z - rng.normal(size=T)[ref] / slope, slope))
    return Pairs.from_frame({"n": n, "M": np.full(T, 3), "d": np.exp(z), "ref": ref})


def curve(settings: Any, T: int, slope: float, seed: int) -> tuple[float, float]:
    """Expected NLL above that of the true P, per pair of three votes, and how often P ± 1.96 errors holds it."""
    rng = np.random.default_rng(seed)
    fit: Any = settings.fit(drawn(T, slope, rng))
    z = rng.normal(size=5_000)
    p, d = truth(z, slope), np.exp(z)
    q = fit.probability(d)
    return 3 * excess(p, q), float(np.mean(np.abs(p - q) <= 1.96 * fit.standard_error(d)))


def precision(draw: Any, T: int, slope: float, repeats: int) -> tuple[float, float, float]:
    """Average precision: its bias, the same in standard errors, and how often the 95 % interval holds the truth."""
    rng = np.random.default_rng(T)
    large = draw(1_000_000, slope, rng)
    true = average_precision(large.n, large.M, large.d)
    off, held = [], 0
    for _ in range(repeats):
        table = draw(T, slope, rng)
        link = clustering_of(table)
        values = Ranking.by(table.d).values(table.n / table.M)[:, None]
        weight = np.full(T, 1 / T)
        se = float(link.standard_errors((values - values.mean()) / T, weight)[0, 0])
        found = share_interval(float(values.mean()), se, float(link.units(weight)[0]))
        off.append((values.mean() - true, (values.mean() - true) / se))
        held += found.low <= true <= found.high
    return (*np.mean(off, axis=0).tolist(), held / repeats)


def main(options: Sequence[str]) -> None:
    print(f"{'curves: nats above the truth, coverage':40s}" + "".join(f"{name:>20s}" for name in SLOPES))
    for label, settings in SETTINGS.items():
        for T, repeats in SIZES.items():
            found = [np.mean([curve(settings, T, s, k) for k in range(repeats)], axis=0) for s in SLOPES.values()]
            cells = "".join(f"{above:12.5f}{100 * held:6.1f} %" for above, held in found)
            print(f"{f'{label}, T = {T}':40s}{cells}", flush=True)
    print(f"{'average precision: bias, in se, coverage':40s}" + "".join(f"{name:>22s}" for name in SLOPES))
    for label, draw in {"each pair alone": drawn, "clustered by ref": linked}.items():
        for T in SIZES:
            found = [precision(draw, T, slope, 400) for slope in SLOPES.values()]
            cells = "".join(f"{bias:8.2f}{in_se:6.2f}{100 * held:6.1f} %" for bias, in_se, held in found)
            print(f"{f'{label}, T = {T}':40s}{cells}", flush=True)

"""How often the ceiling's bounds hold the truth, and how wide they are, in worlds where every chance p is known.

Run: python benchmarks/ceilings.py (about six minutes) or python benchmarks/ceilings.py TABLE ... (bounds of real votes)

The truth is the mean over the population that triplets are drawn from. Coverage is joint: NLL, gain and 2AFC score all
within their bounds. Widths are means over the repetitions: with sampling error, and in brackets at the most likely
mixture. "low" and "high" say how often the truth lay below or above the bounds of the NLL or of the 2AFC score.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.stats import beta

from twoafc import Triplets
from twoafc.inference import Ceiling, best_scores, estimate_ceiling, find_dependence

EVENLY = (np.arange(20_000) + 0.5) / 20_000
WORLDS = {
    "beta(.8, .8)": beta.ppf(EVENLY, 0.8, 0.8),
    "beta(.2, .2)": beta.ppf(EVENLY, 0.2, 0.2),
    "0.1 or 0.7": np.where(EVENLY < 0.5, 0.1, 0.7),
    "constant 0.5": np.full_like(EVENLY, 0.5),
    "constant 0.9": np.full_like(EVENLY, 0.9),
}
VOTES = {"2": ([2], 100), "3": ([3], 100), "5": ([5], 50), "10": ([10], 20), "1..5": ([1, 2, 3, 4, 5], 20)}
SIZES = (300, 3_000, 36_000)
MEASURES = ("nll", "gain", "score_2afc")


def truth(world: str, M: np.ndarray) -> dict[str, float]:
    q = np.maximum(WORLDS[world], 1 - WORLDS[world])
    several, times = np.unique(M, return_counts=True)
    means = [{name: float(each(q).mean()) for name, each in best_scores(int(m)).items()} for m in several]
    return {name: float(times @ [each[name] for each in means] / len(M)) for name in MEASURES}


def sides(found: Ceiling, true: dict[str, float]) -> tuple[bool, bool]:
    """Whether any truth lies below, and above, its bounds."""
    below = any(true[name] < getattr(found, f"{name}_lowest") - 1e-9 for name in MEASURES)
    return below, any(true[name] > getattr(found, f"{name}_highest") + 1e-9 for name in MEASURES)


def width(found: Ceiling, name: str, ends: tuple[str, str]) -> float:
    return float(getattr(found, f"{name}_{ends[1]}") - getattr(found, f"{name}_{ends[0]}"))


def simulated() -> None:
    print(f"{'world':14s}{'M':>5s}{'T':>7s}{'held %':>8s}{'low':>5s}{'high':>5s}{'NLL':>8s}{'width':>16s}", end="")
    print(f"{'2AFC':>8s}{'width':>14s}{'ms':>6s}")
    for world, p in WORLDS.items():
        for told, (votes, repeats) in VOTES.items():
            for T in SIZES:
                missed, widths, spent = [], [], 0.0
                for seed in range(repeats):
                    rng = np.random.default_rng(seed)
                    M = rng.choice(votes, T)
                    n = rng.binomial(M, rng.choice(p, T))
                    start = time.process_time()
                    found = estimate_ceiling(n, M)
                    spent += time.process_time() - start
                    true = truth(world, M)
                    missed.append(sides(found, true))
                    ends = (("lowest", "highest"), ("low", "high"))
                    widths.append([width(found, name, pair) for name in ("nll", "score_2afc") for pair in ends])
                low, high = np.mean(missed, axis=0) * 100
                held = 100 * (1 - np.any(missed, axis=1).mean())
                nll, nll_in, score, score_in = np.mean(widths, axis=0)
                print(f"{world:14s}{told:>5s}{T:7d}{held:8.1f}{low:5.1f}{high:5.1f}{true['nll']:8.3f}", end="")
                print(f"{f'{nll:.3f} ({nll_in:.3f})':>16s}{true['score_2afc']:8.1f}", end="")
                print(f"{f'{score:.1f} ({score_in:.1f})':>14s}{1000 * spent / repeats:6.0f}", flush=True)


def real(path: str) -> None:
    table = Triplets.read(path)
    for told, clusters in {"each triplet alone": None, "by its labels": find_dependence(table.labels)}.items():
        found = estimate_ceiling(table.n, table.M, clusters=clusters)
        print(f"{path}, {told}: floor {found.floor_nll:.4f}; people agree {found.human_triplets:.2f} ± ", end="")
        print(f"{found.human_triplets_se:.2f} %, by pairs {found.human_pairs:.2f} ± {found.human_pairs_se:.2f} %")
        for name in MEASURES:
            ends = [getattr(found, f"{name}_{end}") for end in ("lowest", "low", "high", "highest")]
            print(f"  {name:12s}" + "".join(f"{end:10.4f}" for end in ends))
        print(f"  {found.note or 'nothing to note'}")


def main(paths: list[str] | None = None) -> None:
    for path in paths or []:
        real(path)
    if not paths:
        simulated()


if __name__ == "__main__":
    main(sys.argv[1:])

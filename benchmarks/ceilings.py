"""How often the ceiling's bounds contain the truth, and how wide they are, in worlds where every chance p is known.

Run: python -m benchmarks ceilings [TABLES] (100 of each kind: about fifteen minutes)

The truth is the mean over the population that triplets are drawn from. "covered" is the share of tables, in %, in which
NLL, gain and 2AFC score all lie within their bounds; "below" and "above" say on which side the truth was otherwise.
Widths are means over the tables: with sampling error, and in brackets as estimated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import entr
from scipy.stats import beta

from twoafc.inference import Ceiling, estimate_ceiling
from twoafc.metrics import expected_nll

EVENLY = (np.arange(20_000) + 0.5) / 20_000
WORLDS = {
    "beta(.8, .8)": beta.ppf(EVENLY, 0.8, 0.8),
    "beta(.2, .2)": beta.ppf(EVENLY, 0.2, 0.2),
    "beta(3, 3)": beta.ppf(EVENLY, 3, 3),
    "0.1 or 0.7": np.where(EVENLY < 0.5, 0.1, 0.7),
    "0.5 or 1": np.where(EVENLY < 0.5, 0.5, 1.0),
    "constant 0.5": np.full_like(EVENLY, 0.5),
    "constant 0.9": np.full_like(EVENLY, 0.9),
}
MEASURES = ("nll", "gain", "score_2afc")
Votes = Callable[[np.random.Generator, np.ndarray], np.ndarray]


class Design(NamedTuple):
    """Votes on each triplet, given its p; triplets; and how many of them share a reference, and with it p."""

    votes: Votes
    triplets: int
    per_reference: int = 1


def between(low: int, high: int) -> Votes:
    """Any number of votes, whatever p."""
    return lambda rng, p: rng.integers(low, high + 1, len(p))


def disputed(rng: np.random.Generator, p: np.ndarray) -> np.ndarray:
    """More votes where people disagree: 2 or 3 if they agree, else 10 to 40, the more the closer p is to 1/2."""
    doubt = 1 - np.abs(2 * p - 1)
    return np.where(doubt < 0.4, rng.integers(2, 4, len(p)), 10 + np.round(30 * doubt).astype(np.int64))


DESIGNS = {
    "M = 2, T = 300": Design(between(2, 2), 300),
    "M = 3, T = 300": Design(between(3, 3), 300),
    "M = 5, T = 300": Design(between(5, 5), 300),
    "M = 5, T = 36,344": Design(between(5, 5), 36_344),
    "M = 2..5, T = 300": Design(between(2, 5), 300),
    "M = 2..5, T = 36,344": Design(between(2, 5), 36_344),
    "M = 10, T = 300": Design(between(10, 10), 300),
    "M = 20..40, T = 300": Design(between(20, 40), 300),
    "M = 20..40, T = 1500": Design(between(20, 40), 1500),
    "M = 47, T = 1500": Design(between(47, 47), 1500),
    "M = 1..1000, T = 1500": Design(between(1, 1000), 1500),
    "M by p, T = 300": Design(disputed, 300),
    "M by p, T = 3000": Design(disputed, 3000),
    "M = 5, 60 references of 10": Design(between(5, 5), 600, 10),
    "M = 20..40, 60 references of 10": Design(between(20, 40), 600, 10),
}


def truth(p: np.ndarray, votes: Votes) -> dict[str, float]:
    """Scores of the best function, in expectation: every p equally often, and votes drawn for it."""
    drawn = [votes(np.random.default_rng(seed), p) for seed in range(20)]
    gain = np.mean(drawn, axis=0) @ (np.log(2) - entr(p) - entr(1 - p)) / len(p)
    best = 100 * float(np.maximum(p, 1 - p).mean())
    return {"nll": expected_nll(drawn[0], p), "gain": float(gain), "score_2afc": best}


def sides(ceiling: Ceiling, true: dict[str, float]) -> tuple[bool, bool]:
    """Whether any truth lies below, and above, its bounds."""
    below = any(true[name] < getattr(ceiling, f"{name}_lowest") - 1e-9 for name in MEASURES)
    return below, any(true[name] > getattr(ceiling, f"{name}_highest") + 1e-9 for name in MEASURES)


def width(ceiling: Ceiling, name: str, ends: tuple[str, str]) -> float:
    return float(getattr(ceiling, f"{name}_{ends[1]}") - getattr(ceiling, f"{name}_{ends[0]}"))


def main(options: Sequence[str]) -> None:
    tables = int(options[0]) if options else 100
    print(f"{'world':14s}{'votes':32s}{'covered':>8s}{'below':>6s}{'above':>6s}{'NLL':>8s}{'width':>16s}", end="")
    print(f"{'2AFC':>7s}{'width':>14s}{'ms':>6s}")
    for world, p in WORLDS.items():
        for name, design in DESIGNS.items():
            true, missed, widths, spent = truth(p, design.votes), [], [], 0.0
            for seed in range(tables):
                rng = np.random.default_rng(seed)
                chance = np.repeat(rng.choice(p, design.triplets // design.per_reference), design.per_reference)
                M = design.votes(rng, chance)
                n = rng.binomial(M, chance)
                clusters = np.arange(len(M)) // design.per_reference if design.per_reference > 1 else None
                start = time.process_time()
                ceiling = estimate_ceiling(n, M, clusters=clusters)
                spent += time.process_time() - start
                missed.append(sides(ceiling, true))
                ends = (("lowest", "highest"), ("low", "high"))
                widths.append([width(ceiling, score, pair) for score in ("nll", "score_2afc") for pair in ends])
            below, above = np.mean(missed, axis=0) * 100
            covered = 100 * (1 - np.any(missed, axis=1).mean())
            nll, nll_in, score, score_in = np.mean(widths, axis=0)
            print(f"{world:14s}{name:32s}{covered:8.1f}{below:6.1f}{above:6.1f}{true['nll']:8.3f}", end="")
            print(f"{f'{nll:.3f} ({nll_in:.3f})':>16s}{true['score_2afc']:7.1f}", end="")
            print(f"{f'{score:.1f} ({score_in:.1f})':>14s}{1000 * spent / tables:6.0f}", flush=True)

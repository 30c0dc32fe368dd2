"""All benchmarks in one run, or one of them with its options, from the repository's root.

Run: python -m benchmarks, or python -m benchmarks distances --device cuda
"""

from __future__ import annotations

import importlib
import sys

ALL = (
    "startup",
    "answer",
    "density",
    "network",
    "estimators",
    "coverage",
    "verdicts",
    "ceilings",
    "checks",
    "folds",
    "weights",
    "fusion",
    "heads",
    "planning",
    "inference",
    "pairs",
    "distances",
    "measure",
    "cluster",
    "explore",
    "engine",
)

if __name__ == "__main__":
    for name in sys.argv[1:2] or ALL:
        options = sys.argv[2:]
        main = importlib.import_module(f"benchmarks.{name}").main
        main(options) if options else main()
        print()

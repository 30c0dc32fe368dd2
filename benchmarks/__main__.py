"""All benchmarks in one run, or one of them with its options.

Run: python -m benchmarks, or python -m benchmarks distances --device cuda
"""

from __future__ import annotations

import importlib
import sys

ALL = (
    "answer", "density", "estimators", "coverage", "verdicts", "ceilings", "checks", "folds", "weights", "fusion",
    "heads", "planning", "pairs", "distances", "measure", "explore", "engine",
)  # fmt: skip
"""All but `ranking`, which is given tables."""

if __name__ == "__main__":
    for name in sys.argv[1:2] or ALL:
        importlib.import_module(f"benchmarks.{name}").main(sys.argv[2:])
        print()

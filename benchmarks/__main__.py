"""All benchmarks in one run: python -m benchmarks (from the repository's root; about ten minutes)."""

from __future__ import annotations

from benchmarks import coverage, density, estimators, network, startup

if __name__ == "__main__":
    for each in (startup, density, network, estimators, coverage):
        each.main()
        print()

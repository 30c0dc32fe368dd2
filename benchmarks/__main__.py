"""All benchmarks in one run: python -m benchmarks (from the repository's root; about two minutes)."""

from __future__ import annotations

from benchmarks import density, network, startup

if __name__ == "__main__":
    for each in (startup, density, network):
        each.main()
        print()

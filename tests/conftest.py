"""What several test files need: the folder of real data, and small simulated tables."""

from __future__ import annotations

import os
from pathlib import Path

# Two processes of tests on two cores: more threads in each would only wait for one another.
for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(library, "1")

import numpy as np  # noqa: E402 - after the number of threads is set
import pytest  # noqa: E402

from twoafc.triplets import Triplets  # noqa: E402


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real votes, golden values and weights, which is not part of the repository."""
    folder = os.environ.get("TWOAFC_SHARED")
    if not folder:
        pytest.skip("TWOAFC_SHARED is not set: the real data are not here")
    return Path(folder)


@pytest.fixture(scope="session")
def material(shared: Path) -> tuple[Triplets, Triplets]:
    folder = shared / "data" / "material"
    return Triplets.read(folder / "train.csv"), Triplets.read(folder / "test.csv")


def random_table(T: int = 200, M: int | None = None, seed: int = 0, **columns: object) -> Triplets:
    """Votes of a Weber-like world with ties and mixed M."""
    rng = np.random.default_rng(seed)
    d0, d1 = np.round(rng.lognormal(size=(2, T)), 2) + 0.01
    counts = rng.integers(1, 6, T) if M is None else np.full(T, M)
    n = rng.binomial(counts, d0**2 / (d0**2 + d1**2))
    return Triplets.from_frame({"n": n, "M": counts, "d0": d0, "d1": d1, **columns})


@pytest.fixture
def table() -> Triplets:
    return random_table()

"""Fixtures for tests of distances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distance_checks import any_tensors
from twoafc.distances import weights


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """On a busy machine, threads that wait for each other make small products take seconds."""
    try:
        import torch
    except ImportError:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def random_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "tensors", any_tensors)


@pytest.fixture
def published_weights(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(shared / "weights"))

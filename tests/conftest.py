"""What several test files need: the folder of real data, and small simulated tables."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Two processes of tests on two cores: more threads in each would only wait for one another.
for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(library, "1")

import numpy as np  # noqa: E402 - after the number of threads is set
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from drawing import plain_results, quick_pdf  # noqa: E402
from serving import Server, serving  # noqa: E402
from twoafc.table import Triplets  # noqa: E402

# No test is about time: what a loaded machine does slowly is right all the same.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session", autouse=True)
def _quick_pdf() -> Iterator[None]:
    """Let no test wait for fonts but those of how figures are saved."""
    with quick_pdf():
        yield


@pytest.fixture(scope="module")
def plain() -> Iterator[None]:
    """Folders of results without figures and pages, in a file of tests that looks at neither."""
    with plain_results():
        yield


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


# For pages: the browser of the system, without a window, a proxy or a word to its maker.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = "no-sandbox disable-gpu disable-dev-shm-usage no-proxy-server no-first-run disable-sync \
disable-background-networking disable-component-update disable-default-apps"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser, started once for each file of tests: while it lives, no other loop of asyncio can run here."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=found, args=[f"--{each}" for each in QUIET.split()])
        yield launched
        launched.close()


# For what fetches: a server of the test's own, and no other place or network.


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No places but folders of this test, and no proxy."""
    for variable, folder in (("TORCH_HOME", "torch"), ("TWOAFC_DATA", "data")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.delenv("TWOAFC_WEIGHTS", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)

"""Make the screenshots of the documentation, in a browser without a window: python docs/screenshots.py."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from twoafc import demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parent / "images"
QUIET = (
    "no-sandbox",
    "disable-gpu",
    "no-proxy-server",
    "no-first-run",
    "disable-sync",
    "disable-background-networking",
)


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser of the system."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as running:
        launched = running.chromium.launch(executable_path=found, args=[f"--{each}" for each in QUIET])
        yield launched
        launched.close()


def report(launched: Browser) -> None:
    """Show the head of the demonstration's report."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "demo"
        demo.run(folder, triplets=4000, seed=0)
        page = launched.new_page(viewport={"width": 1080, "height": 1240})
        page.goto((folder / "report.html").as_uri())
        save(page.screenshot(), IMAGES / "report.png")
        page.close()


def save(screenshot: bytes, path: Path) -> None:
    """Write a screenshot as a small PNG: a page has few colours."""
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    with browser() as launched:
        report(launched)

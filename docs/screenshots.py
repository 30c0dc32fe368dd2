"""Make the screenshots of the documentation, in a browser without a window: python docs/screenshots.py."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from twoafc import demo, worlds
from twoafc.cli import main
from twoafc.table import Triplets

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
    """Show page 1 of a report on a screen, on a phone and on paper, and the appendix in the dark."""
    with tempfile.TemporaryDirectory() as home:
        folder = judged(Path(home), triplets=2000, names=tuple(demo.DISTANCES))
        main(["report", str(folder), "--images", home, "--quiet"])
        for name, width, height, scheme in (
            ("report", 1280, 1180, "light"),
            ("report-phone", 400, 1180, "light"),
            ("report-dark", 1280, 720, "dark"),
            ("report-print", 794, 1123, "light"),
        ):
            page = launched.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto((folder / "report.html").as_uri())
            if name == "report-print":
                page.emulate_media(media="print")
                page.add_style_tag(content="body { padding: 14mm; }")  # the margins of the page
            if name == "report-dark":
                page.locator("summary").first.click()
                page.locator("details").first.evaluate("one => one.scrollIntoView()")
            save(page.screenshot(), IMAGES / f"{name}.png")
            page.close()


def explorer(launched: Browser) -> None:
    """Show the explorer with four distances, two beside each other, and in the dark on a phone."""
    from twoafc.explore import explorer as explore

    with tempfile.TemporaryDirectory() as home:
        folder = judged(Path(home), triplets=3000, names=tuple(demo.DISTANCES))
        server = explore(folder, images=home)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, width, height, scheme, query in (
            ("explorer", 1440, 940, "light", ""),
            ("explorer-two", 1440, 940, "light", "?other=nlpd&disagreement=0.2..&colour=votes"),
            ("explorer-phone", 400, 1180, "dark", ""),
        ):
            page = launched.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(f"http://{server.host}:{server.port}/{query}")
            page.wait_for_selector("#strip table")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(500)
            save(page.screenshot(), IMAGES / f"{name}.png")
            page.close()
        server.shutdown()


def judged(home: Path, *, triplets: int, names: tuple[str, ...]) -> Path:
    """Make photographs, votes of simulated people and results, as the demonstration does, and keep the images."""
    made = worlds.photograph_triplets(triplets, seed=0)
    votes = worlds.observers(made.ref, made.x0, made.x1, 5, seed=1)
    columns: dict[str, Any] = {"n": votes.n, "M": votes.M, "group": made.table["group"]}
    for role in ("ref", "x0", "x1"):
        (home / role).mkdir()
        columns[role] = [f"{role}/{row:04d}" for row in range(triplets)]
        for name, image in zip(columns[role], getattr(made, role), strict=True):
            Image.fromarray((255 * image.transpose(1, 2, 0)).round().astype("uint8")).save(home / f"{name}.png")
    for name in names:
        d = demo.DISTANCES[name]
        columns |= {f"{name}_d0": d(made.ref, made.x0), f"{name}_d1": d(made.ref, made.x1)}
    Triplets.from_frame(columns).write(home / "photographs.parquet")
    main(["evaluate", "--train", str(home / "photographs.parquet"), "--out", str(home / "photographs"), "--quiet"])
    return home / "photographs"


def save(screenshot: bytes, path: Path) -> None:
    """Write a screenshot as a small PNG: a page has few colours."""
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB")
    # An octree keeps the colours of small marks.
    picture.quantize(192, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    with browser() as launched:
        for one in (report, explorer):
            if one.__name__ in (sys.argv[1:] or ("report", "explorer")):
                one(launched)

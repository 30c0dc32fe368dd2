"""The explorer in a real browser: from a click to the triplet shown, and from a slider to the surface fitted and drawn.

Run: python -m benchmarks explore (about a minute; needs the extras "explore" and "test", and Chromium)

36,344 tested triplets, as many as BAPPS has, and a surface of 100 x 100 fitted to 151,400. Times are taken in the page,
from the event to the first frame in which what it asked for is painted. Goals: medians of 300 and 500 ms.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TRAIN, TEST, GRID = 151_400, 36_344, 100
CLICKS, MOVES = 25, 12
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run")

# Gives the time from an event to the second frame after something happened: by then it is on the screen.
WATCH = """([event, target, changed]) => new Promise(done => {
    let start = null;
    setTimeout(() => done(NaN), 10000);
    document.addEventListener(event, () => { start = performance.now(); }, {capture: true, once: true});
    const painted = () => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
    if (changed === "drawn") {
        const graph = document.querySelector(target + " .js-plotly-plot"), old = graph.data[0].z.bdata;
        graph.on("plotly_afterplot", () => { if (start !== null && graph.data[0].z.bdata !== old) painted(); });
    } else {
        const place = document.querySelector(target), old = place.textContent;
        new MutationObserver((_, self) => {
            if (start !== null && place.textContent !== old) { self.disconnect(); painted(); }
        }).observe(place, {childList: true, subtree: true, characterData: true});
    }
})"""
PLACE = """([u0, u1]) => {
    const graph = document.querySelector("#first-plane .js-plotly-plot"), at = graph.getBoundingClientRect();
    const {xaxis, yaxis} = graph._fullLayout;
    return [at.x + xaxis._offset + xaxis.l2p(u0), at.y + yaxis._offset + yaxis.l2p(u1)];
}"""


def table(triplets: int, votes: int, seed: int) -> dict[str, np.ndarray]:
    """Votes of Weber's world, and two distances that see it through more or less noise."""
    rng = np.random.default_rng(seed)
    d = rng.lognormal(size=(2, triplets))
    columns = {"n": rng.binomial(votes, d[0] ** 2 / (d**2).sum(axis=0)), "M": np.full(triplets, votes)}
    for name, noise in (("near", 0.3), ("far", 0.9)):
        seen = d * np.exp(noise * rng.normal(size=d.shape))
        columns |= {f"{name}_d0": seen[0], f"{name}_d1": seen[1]}
    return columns


def results(folder: Path) -> Path:
    from twoafc import Density, Triplets, evaluate

    tables = {"train": Triplets.from_frame(table(TRAIN, 2, 0)), "test": Triplets.from_frame(table(TEST, 5, 1))}
    estimators = {"density": Density(grid_size=GRID)}
    evaluate(**tables, estimators=estimators).write(folder / "results")
    tables["train"].write(folder / "train.csv")
    return folder / "results"


def timed(page: Any, watch: tuple[str, str, str], act: Callable[[], None]) -> float:
    """Milliseconds from an event that some act causes to what it changes."""
    page.evaluate(f"watch => {{ window.waiting = ({WATCH})(watch); }}", list(watch))
    page.wait_for_timeout(50)
    act()
    took = float(page.evaluate("() => window.waiting"))
    page.wait_for_timeout(600)  # for what else the page does then
    return took


def clicks(page: Any) -> list[float]:
    rng = np.random.default_rng(0)

    def click() -> None:
        page.mouse.click(*page.evaluate(PLACE, rng.uniform(0.05, 0.95, 2).tolist()))

    return [timed(page, ("mouseup", "#triplet", "shown"), click) for _ in range(CLICKS)]


def moves(page: Any) -> list[float]:
    page.locator("#sigma").focus()
    keys = ["ArrowRight"] * (MOVES // 2) + ["ArrowLeft"] * (MOVES // 2)
    # Half of the way back is over fits that are kept at hand; those are left out.
    took = [timed(page, ("input", "#first-plane", "drawn"), lambda key=key: page.keyboard.press(key)) for key in keys]
    return took[: MOVES // 2]


def told(what: str, times: list[float], goal: int) -> str:
    worst = max(times)
    return f"{what:44s} {statistics.median(times):8.0f} {worst:8.0f} {goal:8d}"


def main() -> None:
    from playwright.sync_api import sync_playwright

    from twoafc.explore import explorer

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise SystemExit(f"no browser is installed: none of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = explorer(results(Path(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        print(f"The explorer, {TEST:,} triplets, surface {GRID} x {GRID}, fitted to {TRAIN:,}; in {browser.version}")
        print(f"{'milliseconds':44s} {'median':>8s} {'worst':>8s} {'goal':>8s}")
        for planes, query in ((1, ""), (2, "&other=far")):
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(f"http://{server.host}:{server.port}/?estimator=refit&grid={GRID}{query}")
            page.wait_for_selector("#triplet h2")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(1000)
            many = "one distance" if planes == 1 else "two distances"
            print(told(f"click to triplet shown, {many}", clicks(page), 300))
            print(told(f"slider to surface and points drawn, {many}", moves(page), 500))
            page.close()
        browser.close()
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()

"""The explorer in a real browser: how long it takes from a click, key or letter to what it changes on the screen.

36,344 tested triplets and ten distances, fitted to 151,400 by the spline: the sizes of BAPPS. Medians in milliseconds
beside the goals, and the memory of the server.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TRAIN, TEST, DISTANCES, REPEATS = 151_400, 36_344, 10, 12
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
# From the event to the second frame after the change: by then it is on the screen.
WATCH = """([event, target]) => { window.waiting = new Promise(done => {
    let start = null;
    const timeout = setTimeout(() => done(NaN), 10000);
    document.addEventListener(event, () => { start ??= performance.now(); }, {capture: true, once: true});
    const place = document.querySelector(target), old = place.textContent + (place.dataset.drawn ?? "");
    const seen = new MutationObserver(() => {
        if (start === null || place.textContent + (place.dataset.drawn ?? "") === old) return;
        seen.disconnect();
        clearTimeout(timeout);
        requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
    });
    seen.observe(place, {childList: true, subtree: true, characterData: true, attributes: true});
}); }"""
PLACE = """async ([u0, u1]) => {
    const {MARGIN} = await import("/assets/plane.js");
    const host = document.getElementById("first-plane"), at = host.getBoundingClientRect();
    const side = host.clientHeight - MARGIN.top - MARGIN.bottom;
    return [at.x + MARGIN.left + side * u0, at.y + MARGIN.top + side * (1 - u1)];
}"""


def table(triplets: int, votes: int, seed: int) -> dict[str, Any]:
    """Votes of Weber's world, on named references, and distances that see it through more or less noise."""
    rng = np.random.default_rng(seed)
    d = rng.lognormal(size=(2, triplets))
    columns: dict[str, Any] = {
        "triplet": [f"{seed}/patch_{row:06d}" for row in range(triplets)],
        "group": [
            ("cnn", "traditional", "superres", "deblur", "colorization", "frameinterp")[row % 6]
            for row in range(triplets)
        ],
        "ref": [f"{seed}/ref/{row:06d}" for row in range(triplets)],
        "n": rng.binomial(votes, d[0] ** 2 / (d**2).sum(axis=0)),
        "M": np.full(triplets, votes),
    }
    for k in range(DISTANCES):
        seen = d * np.exp((0.2 + 0.1 * k) * rng.normal(size=d.shape))
        columns |= {f"distance{k}_d0": seen[0], f"distance{k}_d1": seen[1]}
    return columns


def results(folder: Path) -> Path:
    from twoafc import Triplets, evaluate

    train, test = Triplets.from_frame(table(TRAIN, 2, 0)), Triplets.from_frame(table(TEST, 5, 1))
    train.write(folder / "train.parquet")
    evaluate(train, test).write(folder / "results")
    return folder / "results"


def memory(process: int) -> float:
    """Largest memory of a process so far, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def timed(page: Any, event: str, target: str, act: Callable[[], Any]) -> float:
    """Milliseconds from an event that some act causes to what it changes."""
    page.evaluate(WATCH, [event, target])
    act()
    took = float(page.evaluate("() => window.waiting"))
    page.wait_for_timeout(400)  # for what else the page does then
    return took


def first_views(browser: Any, address: str) -> list[float]:
    """From the address to ranking, plane and triplet on the screen; every time in a new window without a cache."""
    times = []
    for _ in range(5):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        start = time.perf_counter()
        page.goto(address, wait_until="commit")
        page.wait_for_selector("#strip table")
        page.wait_for_selector("#first-plane[data-drawn]")
        times.append(1000 * (time.perf_counter() - start))
        page.close()
    return times


def report(what: str, times: list[float], goal: int | str) -> None:
    print(f"{what:52s} {statistics.median(times):8.0f} {max(times):8.0f} {goal:>8}", flush=True)


def main() -> None:
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise SystemExit(f"no browser is installed: none of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        place = results(Path(folder))
        command = [sys.executable, "-m", "twoafc", "explore", str(place)]
        start = time.perf_counter()
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = server.stdout.readline().split(" at ")[1].split()[0]
        started = 1000 * (time.perf_counter() - start)
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            print(f"The explorer, {TEST:,} triplets, {DISTANCES} distances, fitted to {TRAIN:,}; in {browser.version}")
            print(f"{'milliseconds':52s} {'median':>8s} {'worst':>8s} {'goal':>8s}")
            report("start of the server", [started], "")
            first = first_views(browser, address)
            report("first view, the very first", first[:1], 2000)
            report("first view", first, 2000)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(f"{address}?other=distance3")
            page.wait_for_selector("#sentence strong")
            page.wait_for_load_state("networkidle")
            rng = np.random.default_rng(0)

            def click() -> None:
                page.mouse.click(*page.evaluate(PLACE, rng.uniform(0.05, 0.95, 2).tolist()))

            report(
                "click on a point to its triplet",
                [timed(page, "pointerup", "#triplet", click) for _ in range(REPEATS)],
                200,
            )
            strip = [timed(page, "pointerup", "#strip", click) for _ in range(REPEATS)]
            report("click on a point to what all distances say", strip, 200)
            keys = [timed(page, "keydown", "#triplet", lambda: page.keyboard.press("n")) for _ in range(REPEATS)]
            report("key to the next triplet", keys, 200)
            page.locator("#search").focus()
            letters = "34567"
            searches = [timed(page, "input", "#count", lambda each=each: page.keyboard.type(each)) for each in letters]
            page.locator("#search").fill("")
            page.wait_for_timeout(600)
            report("letter in the search to count, table and plane", searches, 150)
            sentences, field = [], page.locator("#surprise-least")
            for least in range(1, REPEATS):
                field.fill("")
                page.wait_for_timeout(700)
                sentences.append(timed(page, "input", "#sentence", lambda least=least: field.fill(str(least / 4))))
            report("filter to the paired sentence", sentences, 300)
            field.fill("")
            page.wait_for_timeout(700)
            choose = [
                timed(
                    page,
                    "click",
                    "#first-title",
                    lambda k=k: page.locator("#ranking li button:first-child").nth(k).click(),
                )
                for k in range(4, DISTANCES)
            ]
            report("another distance, for the first time", choose, "")
            print(f"memory of the server: {memory(server.pid):.0f} MB")
        finally:
            browser.close()
            server.send_signal(signal.SIGINT)
            server.wait()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

"""The explorer in a real browser: how long it takes from a click, key or letter to what it changes on the screen.

36,344 tested triplets and ten distances, fitted to 151,400 by the spline: the sizes of BAPPS. Medians in milliseconds
beside the goals, and the memory of the server.
Run: python -m benchmarks explore (about two minutes; needs Chromium)
"""

from __future__ import annotations

import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.simulated import noisy_votes
from twoafc import Triplets, evaluate

TRAIN, TEST, DISTANCES, REPEATS = 151_400, 36_344, 10, 12
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


def results(folder: Path) -> Path:
    """Write the tables, and the folder of results that is explored."""
    noise = 0.2 + 0.1 * np.arange(DISTANCES)
    train, test = (
        Triplets.from_frame(noisy_votes(triplets, votes, seed, noise=noise, per_reference=1))
        for seed, (triplets, votes) in enumerate(((TRAIN, 2), (TEST, 5)))
    )
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


def main(options: Sequence[str]) -> None:
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("no browser is installed: neither chromium nor google-chrome")
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
            page.goto(f"{address}?other=noise3")
            page.wait_for_selector("#sentence strong")
            page.wait_for_load_state("networkidle")
            rng = np.random.default_rng(0)

            def click() -> None:
                page.mouse.click(*page.evaluate(PLACE, rng.uniform(0.05, 0.95, 2).tolist()))

            def next_triplet() -> None:
                page.keyboard.press("n")

            def repeated(event: str, target: str, act: Callable[[], Any]) -> list[float]:
                return [timed(page, event, target, act) for _ in range(REPEATS)]

            report("click on a point to its triplet", repeated("pointerup", "#triplet", click), 200)
            report("click on a point to what all distances say", repeated("pointerup", "#strip", click), 200)
            report("key to the next triplet", repeated("keydown", "#triplet", next_triplet), 200)
            page.locator("#search").focus()
            letters = [timed(page, "input", "#count", partial(page.keyboard.type, letter)) for letter in "34567"]
            report("letter in the search to count, table and plane", letters, 150)
            page.locator("#search").fill("")
            sentences, field = [], page.locator("#surprise-least")
            for least in range(1, REPEATS):
                field.fill("")
                page.wait_for_timeout(700)
                sentences.append(timed(page, "input", "#sentence", partial(field.fill, str(least / 4))))
            report("filter to the paired sentence", sentences, 300)
            field.fill("")
            page.wait_for_timeout(700)
            ranked = page.locator("#ranking li button:first-child")
            chosen = [timed(page, "click", "#first-title", ranked.nth(k).click) for k in range(4, DISTANCES)]
            report("another distance, for the first time", chosen, "")
            print(f"memory of the server: {memory(server.pid):.0f} MB")
        finally:
            browser.close()
            server.send_signal(signal.SIGINT)
            server.wait()

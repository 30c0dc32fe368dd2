"""The report in a real browser: from disk alone, for every reader, on a phone, and on paper."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from twoafc.cli import main
from twoafc.evaluation import Settings, evaluate
from twoafc.table import Triplets

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 812}
NASTY = '"><img src=x onerror=document.title=1>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results with names that would do harm, and images."""
    home = tmp_path_factory.mktemp("browser")
    rng = np.random.default_rng(0)
    T = 300
    d0, d1 = rng.lognormal(size=(2, T))
    columns: dict[str, Any] = {"n": rng.binomial(5, d0 / (d0 + d1)), "M": [5] * T}
    for name in ("near", "a_distance_with_a_long_name_that_does_not_end", "<b>far</b>"):
        noise = np.exp(rng.normal(size=(2, T)) * len(columns) / 8)
        columns |= {f"{name}_d0": d0 * noise[0], f"{name}_d1": d1 * noise[1]}
    columns["group"] = ["<script>document.title = 1</script>", "other"] * (T // 2)
    columns |= {"ref": [f"ref{row}" for row in range(T)], "x0": [NASTY] * T, "x1": [f"x1_{row}" for row in range(T)]}
    pl.DataFrame(columns).write_csv(home / "votes.csv")
    (home / "images").mkdir()
    Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(home / "noise.png")
    for row in range(T):
        os.link(home / "noise.png", home / "images" / f"ref{row}.png")
    main(["evaluate", "--train", str(home / "votes.csv"), "--folds", "2", "--out", str(home / "results"), "--quiet"])
    main(["report", str(home / "results"), "--images", str(home / "images"), "--quiet"])
    return home / "results"


def unfold(page: Page) -> None:
    """Open all that folds."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


@pytest.fixture(params=[(DESK, "light"), (DESK, "dark"), (PHONE, "light")], ids=["desk", "dark", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser, folder: Path) -> Iterator[Page]:
    size, scheme = request.param
    opened = browser.new_page(viewport=size, color_scheme=scheme)
    opened.goto((folder / "report.html").as_uri())
    unfold(opened)
    yield opened
    opened.close()


def test_it_opens_from_disk_and_asks_for_nothing(browser: Browser, folder: Path) -> None:
    page = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    address = (folder / "report.html").as_uri()
    page.goto(address, wait_until="load")
    assert [url for url in asked if not url.startswith("data:")] == [address]
    assert said == []
    assert page.title().startswith("votes.csv: 3 distances on 300 triplets")
    assert page.locator("details[open]").count() == 0
    shown = page.locator(".examples img")
    assert shown.count() == 3
    assert shown.evaluate_all("all => all.every(one => one.complete && one.naturalWidth > 0)")
    page.close()


def test_names_show_as_they_are(page: Page) -> None:
    assert page.locator("script").count() == 0
    assert page.get_by_text("<script>document.title = 1</script>").count() > 0
    assert page.get_by_text(NASTY).count() == 3 + 3
    assert page.locator("img[src=x]").count() == 0
    assert page.get_by_role("rowheader", name="<b>far</b>", exact=True).count() > 0


def test_nothing_bars_a_reader(page: Page) -> None:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response
    grave = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in grave] == []
    assert found["passes"]


def test_it_is_no_wider_than_the_screen(page: Page) -> None:
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide == seen
    out = """all => all.filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
                      .map(one => one.outerHTML.slice(0, 100))"""
    assert page.locator("main *:not(svg *)").evaluate_all(out) == []


def test_ten_distances_print_on_six_pages_at_most(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    T = 200
    d = rng.lognormal(size=(2, T))
    columns: dict[str, Any] = {"n": rng.binomial(5, d[0] / d.sum(axis=0)), "M": [5] * T, "group": ["a", "b"] * (T // 2)}
    for k in range(10):
        seen = d * np.exp(0.2 * k * rng.normal(size=(2, T)))
        columns |= {f"distance_number_{k}_d0": seen[0], f"distance_number_{k}_d1": seen[1]}
    table = Triplets.from_frame(columns)
    evaluate(table, table, estimators=["density"], settings=Settings(error_bars="fixed")).report(tmp_path / "r.html")
    page = browser.new_page(viewport={"width": 400, "height": 800})
    page.goto((tmp_path / "r.html").as_uri())
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.locator(".profiles > li").count() == 10
    assert pages(page) <= 6
    page.close()


def pages(page: Page) -> int:
    written = page.pdf(prefer_css_page_size=True)
    return written.count(b"/Type /Page\n") + written.count(b"/Type /Page ")


def test_it_prints_on_a4_with_nothing_cut(browser: Browser, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "report.html").as_uri())
    page.emulate_media(media="print")
    # The width that A4 leaves between the margins, in CSS pixels.
    page.set_viewport_size({"width": round((210 - 28) / 25.4 * 96), "height": 1000})
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= seen
    written = page.pdf(prefer_css_page_size=True)
    assert written.startswith(b"%PDF")
    # The appendix is printed though it is folded on the screen.
    assert 3 <= pages(page) <= 5
    assert re.search(rb"/MediaBox \[0 0 59[45]\.?\d* 84[12]\.?\d*\]", written)
    page.close()

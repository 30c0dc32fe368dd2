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


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser, folder: Path) -> Iterator[Page]:
    opened = browser.new_page(viewport=request.param)
    opened.goto((folder / "report.html").as_uri())
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
    assert page.title().startswith("3 distances on 300 triplets")
    shown = page.locator(".triplets img")
    assert shown.count() == 12
    assert shown.evaluate_all("all => all.every(one => one.complete && one.naturalWidth > 0)")
    page.close()


def test_names_show_as_they_are(page: Page) -> None:
    assert page.locator("script").count() == 0
    assert page.get_by_text("<script>document.title = 1</script>").count() > 0
    assert page.get_by_text(NASTY).count() == 12
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
    # Wide tables scroll in a place of their own, which the keyboard reaches.
    inside = "all => all.every(one => one.tabIndex === 0 && one.getAttribute('aria-label'))"
    assert page.locator(".scroll").evaluate_all(inside)
    out = """all => all.filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
                      .map(one => one.outerHTML.slice(0, 100))"""
    assert page.locator("main > *, figure, svg, p, h1, h2, pre, dl").evaluate_all(out) == []


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
    assert 2 <= written.count(b"/Type /Page\n") + written.count(b"/Type /Page ") <= 12
    assert re.search(rb"/MediaBox \[0 0 59[45]\.?\d* 84[12]\.?\d*\]", written)
    page.close()

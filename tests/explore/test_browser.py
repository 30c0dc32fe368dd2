from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import polars as pl
import pytest

from exploring import HOSTILE, colour, write_images, write_results
from twoafc.cli import main
from twoafc.explore import explorer
from twoafc.explore.data import Explored, facts
from twoafc.explore.state import REFIT, View, sigma_at
from twoafc.results import Result

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PLACE = """([id, u0, u1]) => {
    const graph = document.querySelector(`#${id} .js-plotly-plot`), at = graph.getBoundingClientRect();
    const {xaxis, yaxis} = graph._fullLayout;
    return [at.x + xaxis._offset + xaxis.l2p(u0), at.y + yaxis._offset + yaxis.l2p(u1)];
}"""
ANSWERS = "**/_dash-update-component*"
PIXEL = """image => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const drawn = canvas.getContext("2d");
    drawn.drawImage(image, 0, 0);
    return Array.from(drawn.getImageData(0, 0, 1, 1).data).slice(0, 3);
}"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("explored")
    write_results(home)
    write_images(home / "images")
    return home


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    server = explorer(home / "results", images=home / "images")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def explored(home: Path) -> Explored:
    return Explored(Result.read(home / "results"))


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One for all pages, so that the scripts are read once."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on(
        "request",
        lambda asked: wrong.append(asked.url) if not asked.url.startswith((address, "data:", "blob:")) else None,
    )
    yield page
    page.close()
    assert wrong == []


def opened(page: Page, address: str, query: str = "") -> Page:
    page.goto(address + query)
    page.wait_for_selector("#triplet h2")
    for side in ("first", "other") if "other=" in query else ("first",):
        page.wait_for_selector(f"#{side}-plane .ring", state="attached")
    page.wait_for_load_state("networkidle")
    return page


def name(page: Page) -> str:
    return page.locator("#triplet h2 span").inner_text()


def told(page: Page, query: str) -> str:
    """What the address says of one thing."""
    return parse_qs(urlsplit(page.url).query).get(query, [""])[0]


def choose(page: Page, control: str, option: str) -> None:
    page.locator(f"#{control}-select").select_option(option)


def reads(page: Page, place: str, wanted: str) -> None:
    """Wait until some place on the page begins with a text."""
    begins = "([place, wanted]) => document.querySelector(place).innerText.startsWith(wanted)"
    page.wait_for_function(begins, arg=[place, wanted])


def test_choose_a_distance_click_a_point_and_see_its_images_and_the_nll_that_query_prints(
    page: Page, address: str, explored: Explored, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(page, address)
    choose(page, "distance", "far")
    reads(page, "#first-title", "far")
    reads(page, "#triplet .said tbody th", "far")
    page.wait_for_timeout(300)  # until the plane is drawn
    points = explored.points(View.of({"distance": "far"}, explored.known))
    # The one that lies farthest from all others, so that the click can mean no other.
    apart = np.hypot(points.u0[:, None] - points.u0, points.u1[:, None] - points.u1) + 9 * np.eye(len(explored))
    row = int(np.argmax(apart.min(axis=1)))
    page.mouse.click(*page.evaluate(PLACE, ["first-plane", points.u0[row], points.u1[row]]))
    triplet = explored.known.triplets[row]
    reads(page, "#triplet h2 span", triplet)
    for role, number in (("x0", row), ("ref", row % 20), ("x1", row)):
        image = page.locator(f"#triplet img[alt^='{role}:']")
        image.evaluate("image => image.decode()")
        assert tuple(image.evaluate(PIXEL)) == colour(role, number)
    main(["query", str(home / "results"), "--triplet", triplet, "--distance", "far", "--json"])
    answer = json.loads(capsys.readouterr().out)["answers"]["far"]
    shown = page.locator("#triplet .counts tbody td > span").all_inner_texts()
    assert shown == [f"{count['nll']:.4f}" for count in answer["counts"]]
    observed = page.locator("#triplet .counts tr.observed")
    assert observed.locator("th").inner_text().split() == [str(explored.n[row]), "observed"]
    assert f"{explored.n[row]} of {explored.M[row]} chose x1" in page.locator("#triplet").inner_text()
    assert f"{answer['P']:.4f}" in page.locator("#triplet .said").inner_text()


def test_a_slider_fits_anew_and_the_link_restores_all_of_it(page: Page, address: str, explored: Explored) -> None:
    opened(page, address, "?other=far&votes=9")
    assert page.locator("#sigma-told").inner_text() == "0.1"
    assert page.locator("#grid-told").inner_text() == "20"
    reads(page, "#refit-note", "as evaluated; ")
    assert page.locator("#sigma").input_value() == "8.5"  # the nearest place
    page.locator("#sigma").focus()
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    view = View.of({"estimator": REFIT, "sigma": sigma_at(5.5)}, explored.known)
    nll = f"near: NLL {explored.points(view).nll.mean():.4f}"
    reads(page, "#first-title", nll)
    sigma = f"sigma={sigma_at(5.5):.4g}"
    page.wait_for_function("sigma => location.search.includes(sigma)", arg=sigma)
    known = facts(explored, replace(view, row=int(explored.order(View.of({}, explored.known))[0])))
    assert known is not None
    page.wait_for_function(
        "P => document.querySelector('#triplet .said').innerText.includes(P)", arg=f"{known.answers['near']['P']:.4f}"
    )
    assert page.locator("#estimator-select").input_value() == REFIT
    link, text = page.url, page.locator("#triplet").inner_text()
    assert "Counts j for x1 if 9 votes would be given" in text
    opened(page, "", link)
    assert page.locator("#triplet").inner_text() == text
    assert page.locator("#first-title").inner_text().startswith(nll)
    assert page.locator("#sigma").input_value() == "5.5"
    assert page.locator("#sigma-told").inner_text() == f"{sigma_at(5.5):.3g}"
    reads(page, "#refit-note", "σ or grid moved")
    assert page.locator("#other-title").is_visible()
    assert page.url == link
    assert told(page, "sigma") == f"{sigma_at(5.5):.4g}"


def test_keys_go_through_the_worst_and_leave_fields_alone(page: Page, address: str, explored: Explored) -> None:
    order = [explored.known.triplets[row] for row in explored.order(View.of({}, explored.known))]
    opened(page, address)
    assert name(page) == order[0]
    page.keyboard.press("n")
    reads(page, "#triplet h2 span", order[1])
    page.keyboard.press("ArrowRight")
    reads(page, "#triplet h2 span", order[2])
    page.keyboard.press("p")
    reads(page, "#triplet h2 span", order[1])
    page.wait_for_function(
        "wanted => document.querySelector('#table tr.chosen button')?.innerText === wanted", arg=order[1]
    )
    page.wait_for_function("wanted => new URLSearchParams(location.search).get('triplet') === wanted", arg=order[1])
    page.locator("#surprise").focus()
    page.keyboard.press("n")
    page.wait_for_timeout(200)
    assert name(page) == order[1]
    page.locator("#surprise").blur()
    for _ in range(3):  # faster than they are answered
        page.keyboard.press("p")
    reads(page, "#triplet h2 span", order[-2])
    reads(page, "#table nav span", "page 8 of 8")


def draw_box(page: Page, plane: str, *corners: tuple[float, float]) -> None:
    """Drag from one corner to the other; again, where a plot that was still being drawn has lost it."""
    from playwright.sync_api import TimeoutError as NotYetError

    for wait in (3_000, 6_000, 12_000):
        start, end = (page.evaluate(PLACE, [plane, *corner]) for corner in corners)
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(*end, steps=4)
        page.mouse.up()
        try:
            page.wait_for_function("() => location.search.includes('box=')", timeout=wait)
            return
        except NotYetError:
            continue
    raise AssertionError("no box was drawn")


def test_a_box_lists_what_it_holds_and_shows_its_worst(page: Page, address: str, explored: Explored) -> None:
    opened(page, address, "?other=far")
    draw_box(page, "other-plane", (0.1, 0.15), (0.6, 0.7))
    view = View.read(urlsplit(page.url).query, explored.known)
    assert view.side == "other"
    assert view.box == pytest.approx((0.1, 0.6, 0.15, 0.7), abs=0.02)
    order = explored.order(view)
    assert 0 < len(order) < len(explored)
    reads(page, "#count", f"{len(order)} of {len(explored)}")
    reads(page, "#triplet h2 span", explored.known.triplets[order[0]])


def test_an_answer_for_the_table_that_a_chosen_triplet_overtakes_is_given_after_all(
    page: Page, address: str, explored: Explored
) -> None:
    """The page drops an answer when the same is asked again; that which asks last must then answer for both."""
    opened(page, address, "?other=far")
    held: dict[str, list[Any]] = {"row.data": [], "table.children": []}

    def hold(route: Any) -> None:
        asked = json.loads(route.request.post_data)["output"]
        wanted = next((what for what in held if what in asked), None)
        if wanted:
            held[wanted].append(route)
        else:
            route.continue_()

    def until(what: str, count: int) -> None:
        for _ in range(1_000):
            if len(held[what]) >= count:
                return
            page.wait_for_timeout(20)
        raise AssertionError(f"{what} was not asked for {count} times")

    page.route(ANSWERS, hold)
    draw_box(page, "other-plane", (0.1, 0.15), (0.6, 0.7))
    until("row.data", 1)
    until("table.children", 1)
    held["row.data"][0].continue_()
    until("table.children", 2)
    for route in held["table.children"]:
        route.continue_()
    page.unroute(ANSWERS)
    view = View.read(urlsplit(page.url).query, explored.known)
    reads(page, "#count", f"{len(explored.order(view))} of {len(explored)}")


def test_the_table_is_sorted_filtered_turned_and_exported(page: Page, address: str, explored: Explored) -> None:
    opened(page, address)
    page.get_by_role("button", name="d0", exact=True).click()
    page.wait_for_selector("th[aria-sort=descending] [data-sort=d0]")
    page.locator("#surprise").fill("2")
    view = View.of({"sort": "-d0", "surprise": 2}, explored.known)
    order = explored.order(view)
    reads(page, "#count", f"{len(order)} of 90")
    turn = page.locator("#table [data-page]")
    if turn.first.is_enabled():  # to the first page
        turn.first.click()
        reads(page, "#table nav span", "page 1 ")
    page.get_by_role("button", name="on ›").click()
    reads(page, "#table nav span", "page 2 ")
    listed = page.locator("#table tbody button").all_inner_texts()
    assert listed == [explored.known.triplets[row] for row in order[12:24]]
    page.locator("#table tbody tr").nth(2).click()
    reads(page, "#triplet h2 span", listed[2])
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Export CSV").click()
    saved = pl.read_csv(waiting.value.path())
    assert saved["triplet"].to_list() == [explored.known.triplets[row] for row in order]


def test_what_needs_a_second_distance_waits_for_one_and_what_is_no_image_is_told(
    context: BrowserContext, address: str
) -> None:
    page = context.new_page()
    page.route("**/image/*/x0", lambda route: route.fulfill(status=404))
    opened(page, address)
    page.wait_for_selector("#triplet figure.broken")
    page.wait_for_selector("#triplet figure.broken img", state="hidden")
    page.wait_for_selector("#triplet figure:not(.broken) img")
    page.unroute("**/image/*/x0")
    page.keyboard.press("n")
    page.wait_for_selector("#triplet figure.broken", state="detached")
    page.wait_for_selector("#disagreement:disabled")
    choose(page, "other", "far")
    page.wait_for_selector("#disagreement:enabled")
    page.close()


def test_text_stays_text(page: Page, address: str) -> None:
    opened(page, address, "?sort=-group")
    assert page.title() == "twoafc explore"
    assert HOSTILE in page.locator("#table").inner_text() or page.locator("#table").inner_text().count("cnn") == 12
    choose(page, "group", HOSTILE)
    reads(page, "#count", "30 of 90")
    assert HOSTILE in page.locator("#table").inner_text()
    assert page.title() == "twoafc explore"


def test_nothing_sticks_out_and_nothing_is_hard_to_reach(page: Page, address: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    opened(page, address, "?other=far")
    for width in (1280, 900, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(200)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")] == []


def test_no_button_and_no_key_leads_to_another_host(page: Page, address: str) -> None:
    """Requests elsewhere fail every test of this file; windows that open are counted here."""
    opened(page, address)
    windows: list[Page] = []
    page.context.on("page", lambda window: windows.append(window))
    page.locator("#first-plane").hover()
    buttons = page.locator("#first-plane .modebar-btn")
    titles = [buttons.nth(k).get_attribute("data-title") for k in range(buttons.count())]
    assert titles == ["Download plot as a PNG", "Zoom", "Pan", "Box Select", "Reset axes"]
    for k in range(1, len(titles)):
        buttons.nth(k).click()
    for key in "abcdefghijklmnopqrstuvwxyz?":
        page.keyboard.press(key)
    page.wait_for_timeout(200)
    assert windows == []

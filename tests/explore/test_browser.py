from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import polars as pl
import pytest
from PIL import Image

from drawing import AS_SHOWN
from exploring import HOSTILE, colour, world, write_images, write_pairs, write_results
from twoafc.cli import main
from twoafc.estimators import Density
from twoafc.evaluation import evaluate
from twoafc.explore import explorer
from twoafc.explore.data import REFIT, Explored, Fitted
from twoafc.results import Result

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.usefixtures("plain")
NEAR, FAR = Fitted("near", "density"), Fitted("far", "density")
PLACE = """async ([id, u0, u1]) => {
    const {MARGIN} = await import("/assets/plane.js");
    const host = document.getElementById(id), at = host.getBoundingClientRect();
    const side = host.clientHeight - MARGIN.top - MARGIN.bottom;
    return [at.x + MARGIN.left + side * u0, at.y + MARGIN.top + side * (1 - u1)];
}"""
PIXEL = """image => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const drawn = canvas.getContext("2d");
    drawn.drawImage(image, 0, 0);
    return Array.from(drawn.getImageData(0, 0, 1, 1).data).slice(0, 3);
}"""
NO_WEBGL = """
const get = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
    return String(kind).startsWith("webgl") ? null : get.call(this, kind, ...more);
};
"""


@contextmanager
def served(folder: Path, **given: Any) -> Iterator[str]:
    server = explorer(folder, **given)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("explored")
    write_results(home)
    write_images(home / "images")
    return home


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    with served(home / "results", images=home / "images") as address:
        yield address


@pytest.fixture(scope="module")
def explored(home: Path) -> Explored:
    return Explored(Result.read(home / "results"))


@contextmanager
def watched(context: BrowserContext) -> Iterator[Page]:
    """A page on which nothing may go wrong, and that asks this machine alone."""
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    local = ("http://127.0.0.1:", "data:", "blob:")
    page.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(local) else None)
    yield page
    page.close()
    assert wrong == []


@pytest.fixture(params=["no webgl"])
def context(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """A browser without notes of an earlier test, without WebGL unless it is asked for."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    if request.param == "no webgl":
        context.add_init_script(NO_WEBGL)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    with watched(context) as page:
        yield page


with_webgl = pytest.param("webgl", marks=pytest.mark.slow)
either_way = pytest.mark.parametrize("context", [with_webgl, "no webgl"], indirect=True)


def opened(page: Page, address: str, query: str = "") -> Page:
    page.goto(address + query)
    page.wait_for_selector("body[data-ready] #triplet h2")
    page.wait_for_selector("#strip table")
    if "other=" in query:
        page.wait_for_selector("#sentence strong")
    return page


def name(page: Page) -> str:
    return page.locator("#triplet h2 span").inner_text()


def asked(page: Page, what: str) -> str:
    """What the address says of one thing."""
    return parse_qs(urlsplit(page.url).query).get(what, [""])[0]


def reads(page: Page, place: str, wanted: str) -> None:
    """Wait until some place on the page begins with a text."""
    begins = "([place, wanted]) => document.querySelector(place)?.innerText.startsWith(wanted)"
    page.wait_for_function(begins, arg=[place, wanted])


def addressed(page: Page, what: str, wanted: str | None) -> None:
    """Wait until the address says something."""
    page.wait_for_function(
        "([what, wanted]) => new URLSearchParams(location.search).get(what) === wanted", arg=[what, wanted]
    )


def counted(page: Page, kept: int, of: int = 90) -> None:
    reads(page, "#count", f"{kept} of {of} ")


def worst(explored: Explored, fitted: Fitted = NEAR) -> list[int]:
    bits = explored.points(fitted).surprise
    return sorted(range(len(explored)), key=lambda row: (-bits[row], row))


@either_way
def test_choose_a_distance_click_a_point_and_see_its_images_and_the_nll_that_query_prints(
    page: Page, address: str, explored: Explored, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(page, address)
    listed = page.locator("#ranking li").all_inner_texts()
    scores = {r["distance"]: r for r in explored.result.scores if (r["split"], r["group"]) == ("test", "all")}
    assert len(listed) == 2
    for text, distance in zip(listed, ("near", "far"), strict=True):
        record = scores[distance]
        assert text.split() == [
            *[distance, "vs", f"{record['nll']:.3f}", "±", f"{record['nll_se']:.3f}", record["nll_letters"]],
            f"{record['score_2afc_distance']:.1f}",
        ]
    reads(page, "#verdict", explored.result.verdict()[0])
    page.get_by_role("button", name="far", exact=True).first.click()
    reads(page, "#first-title", f"far: NLL {explored.points(FAR).nll.mean():.4f}")
    points = explored.points(FAR)
    # The one that lies farthest from all others, so that the click can mean no other.
    u0, u1 = points.u
    apart = np.hypot(u0[:, None] - u0, u1[:, None] - u1) + 9 * np.eye(len(explored))
    row = int(np.argmax(apart.min(axis=1)))
    page.mouse.move(*page.evaluate(PLACE, ["first-plane", u0[row], u1[row]]))
    triplet = explored.about()["names"][row]
    reads(page, "#peek strong", triplet)
    page.wait_for_selector("#peek img")
    page.mouse.click(*page.evaluate(PLACE, ["first-plane", u0[row], u1[row]]))
    reads(page, "#triplet h2 span", triplet)
    for role, number in (("x0", row), ("ref", row % 20), ("x1", row)):
        image = page.locator(f"#triplet img[alt^='{role}:']")
        image.evaluate("image => image.decode()")
        assert tuple(image.evaluate(PIXEL)) == colour(role, number)
    main(["query", str(home / "results"), "--triplet", triplet, "--distance", "far", "--json"])
    answer = json.loads(capsys.readouterr().out)["answers"]["far"]
    page.locator("#counts-fold summary").click()
    shown = page.locator("#counts tbody td").all_inner_texts()
    assert shown == [f"{count['nll']:.4f}" for count in answer["counts"]]
    observed = page.locator("#counts tr.observed th").inner_text()
    assert observed.split() == [str(explored.n[row]), "observed"]
    assert f"{explored.n[row]} of {explored.M[row]} chose x1" in page.locator("#triplet").inner_text()


@pytest.mark.slow
def test_every_distance_says_what_it_thinks_of_a_triplet(page: Page, address: str, explored: Explored) -> None:
    row = worst(explored)[3]
    opened(page, address, f"?triplet={explored.about()['names'][row].replace('&', '%26')}")
    said = explored.answers(row, {"near": NEAR, "far": FAR})
    order = sorted(said, key=lambda each: said[each]["nll"])
    lines = page.locator("#strip tbody tr")
    assert [line.split()[0] for line in lines.all_inner_texts()] == order
    people = np.sign(explored.n[row] / explored.M[row] - 0.5)
    for at, each in enumerate(order):
        text = lines.nth(at).inner_text()
        assert f"{said[each]['P']:.4f} ± {said[each]['standard_error']:.4f}" in " ".join(text.split())
        right = np.sign(said[each]["P"] - 0.5) == people
        assert ("✓" in text, "✗" in text) == (bool(right and people), bool(not right and people))


@pytest.mark.slow
def test_choices_are_marked_at_the_images(page: Page, address: str, explored: Explored) -> None:
    opened(page, address, "?other=far")
    rows = worst(explored)[:24]
    cards = page.locator("#wall .card")
    assert cards.count() == 24
    near, far = explored.points(NEAR).P, explored.points(FAR).P
    for at, row in enumerate(rows):
        n, M = explored.n[row], explored.M[row]
        for role, side in (("x0", -1), ("x1", 1)):
            figure = cards.nth(at).locator("figure", has=page.locator(f"b:text-is('{role}')"))
            wanted = [f"people {n if side > 0 else M - n} of {M}"] if np.sign(n / M - 0.5) == side else []
            wanted += [
                f"{who} {100 * max(p, 1 - p):.0f} %"
                for who, p in (("near", near[row]), ("far", far[row]))
                if np.sign(p - 0.5) == side
            ]
            assert figure.locator("figcaption span").all_inner_texts() == wanted
            assert ("chosen" in (figure.get_attribute("class") or "")) == (np.sign(n / M - 0.5) == side)


def test_the_sentence_is_of_the_selection(page: Page, address: str, explored: Explored) -> None:
    opened(page, address)
    assert page.locator("#sentence").inner_text() == ""
    page.get_by_role("button", name="compare with far").click()
    evaluated = next(r for r in explored.result.comparisons if r["measure"] == "nll")
    reads(page, "#sentence", f"On all 90 triplets: {evaluated['sentence']}. As evaluated.")
    page.locator("#group").select_option("cnn")
    keep = explored.labels["group"].to_numpy() == "cnn"
    sentence = explored.compared(NEAR, FAR, keep)["sentence"]
    reads(page, "#sentence", f"On these 60 triplets: {sentence}. Exploratory:")
    assert "the noise of training is not included" in page.locator("#sentence").inner_text()
    reads(page, "#other-title", "far: NLL")
    page.get_by_role("button", name="compare with far").click()
    page.wait_for_function("() => document.getElementById('sentence').innerText === ''")
    assert page.locator("#other-panel").is_hidden()


QUERIES = """async ([count, seed]) => {
    const {parse, link, start, COLUMNS} = await import("/assets/query.js");
    const about = await (await fetch("/about.json")).json();
    let state = seed;
    const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
    const one = (values) => values[Math.floor(random() * values.length)];
    const range = () => one([null, [1, null], [null, 3], [0.25, 0.5], [-2, 1e-3]]);
    const box = () => one([null, [0, 0.5, 0.25, 1], [-0.1, 1.2, 0.001, 0.9]]);
    const sorts = COLUMNS.flatMap((name) => [name, "-" + name]), wrong = [];
    for (let k = 0; k < count; k++) {
        const query = {
            ...start(about), distance: "near", other: one(["", "far"]), estimator: one(about.estimators),
            colour: one(["surprise", "votes", "group"]), show: one(["P", "error"]), votes: one([0, 3, 30]),
            search: one(["", "a b", "é&?=#%/+", "日本"]), tag: one(["", "odd one"]), triplet: one(["", ...about.names]),
            group: one(["", ...about.labels.group.names]), ref: one(["", ...about.labels.ref.names]),
            n: range(), M: range(), P: range(), surprise: range(), disagreement: range(), page: one([0, 7]),
            box: box(), side: one(["first", "other"]), zoom: box(), sort: one(sorts),
        };
        if (query.estimator === "refit") Object.assign(query, {sigma: one([0.1, 0.0234]), grid: one([20, 33])});
        if (!query.other) Object.assign(query, {side: "first", disagreement: null});
        const again = parse(link(query, about), about);
        const differs = Object.keys(query).some((name) => JSON.stringify(query[name]) !== JSON.stringify(again[name]));
        if (differs || Object.keys(again).length !== Object.keys(query).length) wrong.push([query, again]);
    }
    return wrong;
}"""


def test_an_address_restores_its_query(page: Page, address: str) -> None:
    opened(page, address)
    assert page.evaluate(QUERIES, [2000, 7]) == []


@pytest.mark.slow
def test_any_address_gives_a_query_that_can_be_shown(page: Page, address: str) -> None:
    opened(page, address)
    odd = [
        "%",
        "?%ff",
        "a" * 5000,
        "distance=<script>",
        "other=near",
        "box=1,2",
        "box=NaN,1,0,1",
        "n=..",
        "n=a..b",
        "P=1..2..3",
    ]
    odd += [
        "sigma=1e999",
        "sigma=-1",
        "grid=1e9",
        "page=-3",
        "sort=__proto__",
        "triplet=%00",
        "votes=1.5",
        "surprise=Infinity",
        "&&&===",
    ]
    kept = page.evaluate(
        """async (queries) => {
            const {parse, start, selected, listed, boxed, RANGES} = await import("/assets/query.js");
            const about = await (await fetch("/about.json")).json();
            return queries.map((search) => {
                const query = parse(search, about);
                const free = RANGES.every((name) => query[name] === null);
                return [query.distance, free, query.page, query.sort, query.other];
            });
        }""",
        odd,
    )
    assert kept == [["near", True, None, "-surprise", ""]] * len(odd)


def slowly(explored: Explored, **wanted: Any) -> list[int]:
    """Rows that pass filters, as one would write them, the most surprising first."""
    near, far, labels = explored.points(NEAR), explored.points(FAR), explored.about()
    values = {
        "n": explored.n,
        "M": explored.M,
        "P": near.P,
        "surprise": near.surprise,
        "disagreement": abs(near.P - far.P),
    }
    kept = []
    for row in worst(explored):
        names = [labels["names"][row], *(explored.labels[each][row] for each in ("group", "ref", "x0", "x1"))]
        if not all(word in " ".join(names).lower() for word in wanted.get("search", "").lower().split()):
            continue
        if any(explored.labels[each][row] != wanted[each] for each in ("group", "ref") if each in wanted):
            continue
        ends = {each: wanted[each] for each in values if each in wanted}
        if all(low <= values[each][row] <= high for each, (low, high) in ends.items()):
            kept.append(row)
    return kept


FILTERS: dict[str, Any] = {
    "search=X0/01": {"search": "x0/01"},
    "search=cnn 1/é": {"search": "cnn 1/é"},
    "group=cnn&n=1..2": {"group": "cnn", "n": (1, 2)},
    "ref=ref/003": {"ref": "ref/003"},
    "M=5..&P=..0.4": {"M": (5, 99), "P": (0, 0.4)},
    "other=far&disagreement=0.2&surprise=..3": {"disagreement": (0.2, 1), "surprise": (0, 3)},
    "n=7..": {"n": (7, 99)},
}


@pytest.mark.slow
def test_filters_as_one_would_write_them(page: Page, address: str, explored: Explored) -> None:
    names = explored.about()["names"]
    for query, wanted in FILTERS.items():
        rows = slowly(explored, **wanted)
        page.goto(f"{address}?{query}")
        counted(page, len(rows))
        assert page.locator("#table tbody th").all_inner_texts() == [names[row] for row in rows[:24]], query


def test_filters_are_typed_and_cleared_and_the_back_button_undoes_them(
    page: Page, address: str, explored: Explored
) -> None:
    opened(page, address)
    page.locator("#search").fill("x1/02")
    counted(page, len(slowly(explored, search="x1/02")))
    page.keyboard.press("Backspace")  # still the same search: one step back undoes all of it
    counted(page, len(slowly(explored, search="x1/0")))
    page.locator("#search").blur()
    page.locator("#P-least").fill("0.5")
    both = slowly(explored, search="x1/0", P=(0.5, 1))
    counted(page, len(both))
    page.locator("#group").select_option("cnn")
    counted(page, len([row for row in both if explored.labels["group"][row] == "cnn"]))
    page.go_back()
    counted(page, len(both))
    assert page.locator("#group").input_value() == ""
    page.go_back()
    counted(page, len(slowly(explored, search="x1/0")))
    page.go_back()
    counted(page, 90)
    assert page.locator("#search").input_value() == ""
    page.go_forward()
    counted(page, len(slowly(explored, search="x1/0")))
    page.locator("#clear").click()
    counted(page, 90)
    page.locator("#search").fill("no such name")
    counted(page, 0)
    assert page.locator("#triplet").inner_text() == "No triplet passes these filters."


@pytest.mark.slow
def test_the_table_is_sorted_turned_and_exported_with_notes(page: Page, address: str, explored: Explored) -> None:
    opened(page, address, "?other=far")
    page.locator("[data-sort=d0]").click()
    page.wait_for_selector("th[aria-sort=descending] [data-sort=d0]")
    near, far = explored.points(NEAR), explored.points(FAR)
    order = sorted(range(90), key=lambda row: -near.d[0][row])
    names = [explored.about()["names"][row] for row in order]
    assert page.locator("#table tbody th").all_inner_texts() == names[:24]
    page.locator("#listing nav [data-page='1']").click()
    reads(page, "#listing nav span", "page 2 of 4")
    assert page.locator("#table tbody th").all_inner_texts() == names[24:48]
    page.locator("#table tbody tr").nth(2).click()
    reads(page, "#triplet h2 span", names[26])
    reads(page, "#listing nav span", "page 2 of 4")
    page.locator("#notes summary").click()
    page.locator("#tags").fill("halo, odd")
    page.locator("#note").fill('said "why", twice')
    page.locator("#note").blur()
    with page.expect_download() as waiting:
        page.locator("#export").click()
    saved = pl.read_csv(waiting.value.path())
    assert saved["triplet"].to_list() == names
    np.testing.assert_array_equal(saved["far_P"].to_numpy(), far.P[order])
    np.testing.assert_array_equal(saved["near_nll"].to_numpy(), near.nll[order])
    np.testing.assert_allclose(saved["disagreement"].to_numpy(), abs(near.P - far.P)[order])
    gap = (far.nll - near.nll)[order]
    likelier = ["near" if g >= np.log(10) else "far" if g <= -np.log(10) else None for g in gap]
    assert saved["likelier"].to_list() == likelier
    assert saved.row(26, named=True)["tags"] == "halo odd"
    assert saved.row(26, named=True)["note"] == 'said "why", twice'
    assert saved["note"].null_count() == 89
    opened(page, address, "?tag=odd")  # kept in the browser
    counted(page, 1)
    assert name(page) == names[26]
    assert page.locator("#tag").input_value() == "odd"
    page.locator("#tags").fill("")
    page.locator("#note").fill("")
    page.locator("#note").blur()
    opened(page, address)
    assert page.locator("#tag").count() == 0


@pytest.mark.slow
def test_views_are_saved_and_forgotten(page: Page, address: str) -> None:
    opened(page, address, "?group=cnn&other=far&box=0.1,0.6,0.2,0.9")
    kept = page.url
    text = page.locator("#count").inner_text()
    page.locator("#views summary").click()
    page.locator("#view-name").fill("<b>a view")
    page.keyboard.press("Enter")
    page.wait_for_selector("#views li")
    opened(page, address)
    page.locator("#views summary").click()
    page.get_by_role("link", name="<b>a view").click()
    reads(page, "#count", text)
    assert parse_qs(urlsplit(page.url).query) == parse_qs(urlsplit(kept).query)
    page.locator("#views summary").click()
    page.get_by_role("button", name="forget <b>a view").click()
    page.wait_for_selector("#views li", state="detached")
    opened(page, address)
    page.locator("#views summary").click()
    page.wait_for_selector("#view-name")
    assert page.locator("#views li").count() == 0


@pytest.mark.slow
def test_keys_go_through_the_worst_and_leave_fields_alone(page: Page, address: str, explored: Explored) -> None:
    order = [explored.about()["names"][row] for row in worst(explored)]
    opened(page, address)
    assert name(page) == order[0]
    page.keyboard.press("n")
    reads(page, "#triplet h2 span", order[1])
    page.keyboard.press("ArrowRight")
    reads(page, "#triplet h2 span", order[2])
    page.keyboard.press("p")
    reads(page, "#triplet h2 span", order[1])
    assert page.locator("#table tr[aria-current] th").inner_text() == order[1]
    assert page.locator("#wall .card[aria-current] .name").inner_text() == order[1]
    assert asked(page, "triplet") == order[1]
    page.keyboard.press("/")
    page.keyboard.press("n")
    assert page.locator("#search").input_value() == "n"
    page.locator("#search").fill("")
    page.locator("#search").blur()
    for _ in range(3):  # faster than they are answered
        page.keyboard.press("p")
    reads(page, "#triplet h2 span", order[-2])
    reads(page, "#listing nav span", "page 4 of 4")
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open] kbd")
    page.keyboard.press("n")
    page.keyboard.press("Escape")
    page.wait_for_selector("#keys", state="hidden")
    assert name(page) == order[-2]


@pytest.mark.slow
def test_same_reference_and_next_disagreement(page: Page, address: str, explored: Explored) -> None:
    names, rows = explored.about()["names"], worst(explored)
    near, far, share = explored.points(NEAR).P, explored.points(FAR).P, explored.n / explored.M
    opened(page, address)
    # Alone: the distance and most people choose differently.
    wrong = [row for row in rows if (near[row] - 0.5) * (share[row] - 0.5) < 0]
    page.keyboard.press("d")
    reads(page, "#triplet h2 span", names[next(row for row in wrong if row != rows[0])])
    opened(page, address, "?other=far")
    apart = [row for row in rows if (near[row] - 0.5) * (far[row] - 0.5) < 0]
    page.locator("#next-disagreement").click()
    reads(page, "#triplet h2 span", names[next(row for row in apart if row != rows[0])])
    chosen = names.index(name(page))
    reference = explored.labels["ref"][chosen]
    page.locator("#same-reference").click()
    counted(page, len(slowly(explored, ref=reference)))
    assert name(page) == names[chosen]
    assert page.locator("#ref").input_value() == reference
    page.keyboard.press("r")
    counted(page, 90)


def draw_box(page: Page, plane: str, *corners: tuple[float, float]) -> None:
    start, end = (page.evaluate(PLACE, [plane, *corner]) for corner in corners)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()


@either_way
def test_a_box_lists_what_it_holds_and_shows_its_worst(page: Page, address: str, explored: Explored) -> None:
    opened(page, address, "?other=far")
    draw_box(page, "other-plane", (0.1, 0.15), (0.6, 0.7))
    page.wait_for_function("() => location.search.includes('box=')")
    ends = [float(end) for end in asked(page, "box").split(",")]
    assert ends == pytest.approx((0.1, 0.6, 0.15, 0.7), abs=0.02)
    assert asked(page, "side") == "other"
    u0, u1 = explored.points(FAR).u
    inside = [row for row in worst(explored) if ends[0] <= u0[row] <= ends[1] and ends[2] <= u1[row] <= ends[3]]
    assert 0 < len(inside) < 90
    counted(page, len(inside))
    reads(page, "#triplet h2 span", explored.about()["names"][inside[0]])
    page.get_by_role("button", name="Zoom to box").click()
    page.wait_for_function("() => location.search.includes('zoom=')")
    counted(page, len(inside))
    page.get_by_role("button", name="Whole plane").first.click()
    page.wait_for_function("() => !location.search.includes('zoom=')")
    page.get_by_role("button", name="drop the filter box on far").click()
    counted(page, 90)


@pytest.mark.slow
def test_a_slider_fits_anew_and_the_link_restores_all_of_it(page: Page, address: str, explored: Explored) -> None:
    opened(page, address, "?other=far")
    page.locator("#fit summary").click()
    assert page.locator("#sigma-value").inner_text() == "–"
    reads(page, "#refit-note", "σ or grid size moved: the density is fitted again.")
    page.locator("#sigma").focus()
    page.keyboard.press("ArrowLeft")
    addressed(page, "estimator", REFIT)
    sigma = float(asked(page, "sigma"))
    assert 0.08 < sigma < 0.1
    again = Fitted("near", REFIT, sigma, 20)
    nll = f"near: NLL {explored.points(again).nll.mean():.4f}"
    reads(page, "#first-title", nll)
    row = explored.about()["names"].index(name(page))
    page.wait_for_function(
        "P => document.querySelector('#strip').innerText.includes(P)", arg=f"{explored.points(again).P[row]:.4f}"
    )
    assert page.evaluate("() => document.activeElement.id") == "sigma"
    link, text = page.url, page.locator("#triplet").inner_text()
    opened(page, "", link)
    assert page.locator("#triplet").inner_text() == text
    assert page.locator("#first-title").inner_text() == nll
    page.locator("#fit summary").click()
    assert page.locator("#sigma-value").inner_text() == f"{sigma:.3g}"
    assert page.locator("#estimator").input_value() == REFIT
    page.locator("#show").select_option("error")
    addressed(page, "show", "error")


COLOUR_AT = """([u0, u1]) => {
    const canvas = document.querySelector("#first-plane canvas"), fine = canvas.width / canvas.clientWidth;
    const side = canvas.clientHeight - 8 - 44;
    const at = [66 + side * u0, 8 + side * (1 - u1)].map((each) => Math.round(each * fine));
    return Array.from(canvas.getContext("2d").getImageData(...at, 1, 1).data).slice(0, 3);
}"""


@either_way
@pytest.mark.slow
def test_the_plane_is_coloured_by_p_or_its_standard_error(page: Page, address: str) -> None:
    page.goto(f"{address}?n=9..")  # no points in the way
    counted(page, 0)
    page.wait_for_selector("#first-plane[data-drawn]")
    left, right = page.evaluate(COLOUR_AT, [0.05, 0.9]), page.evaluate(COLOUR_AT, [0.9, 0.05])
    assert left[0] > left[2] + 40  # orange: x0 is chosen
    assert right[2] > right[1] + 20  # purple: x1 is chosen
    page.goto(f"{address}?n=9..&show=error")
    counted(page, 0)
    page.wait_for_function("() => document.querySelector('#first-plane').dataset.drawn")
    both = [page.evaluate(COLOUR_AT, at) for at in ([0.05, 0.9], [0.9, 0.05])]
    assert both[0] == pytest.approx(both[1], abs=3)  # the error is the same on both sides


def opaque(page: Page) -> dict[str, Any]:
    return page.evaluate(
        """() => {
            const canvas = document.querySelector("#large canvas");
            return {role: canvas.dataset.role, size: [canvas.width, canvas.height],
                pixel: Array.from(canvas.getContext("2d").getImageData(3, 3, 1, 1).data).slice(0, 3)};
        }"""
    )


def shows(page: Page, role: str) -> dict[str, Any]:
    page.wait_for_selector(f"#large canvas[data-role='{role}']")
    return opaque(page)


@pytest.mark.slow
def test_images_are_enlarged_pixel_by_pixel_flicker_and_are_subtracted(
    page: Page, address: str, explored: Explored
) -> None:
    opened(page, address)
    row = explored.about()["names"].index(name(page))
    page.get_by_role("button", name="enlarge x0").first.click()
    assert shows(page, "x0") == {"role": "x0", "size": [8, 8], "pixel": list(colour("x0", row))}
    wide = page.locator("#large canvas").evaluate("canvas => canvas.getBoundingClientRect().width * devicePixelRatio")
    assert wide == pytest.approx(8)
    page.keyboard.press("2")
    assert shows(page, "ref")["pixel"] == list(colour("ref", row % 20))
    page.keyboard.press("3")
    assert shows(page, "x1")["pixel"] == list(colour("x1", row))
    page.keyboard.press("x")
    there, here = colour("ref", row % 20), colour("x1", row)
    wanted = [int(np.clip(128 + 4 * (a - b), 0, 255)) for a, b in zip(here, there, strict=True)]
    assert shows(page, "x1-difference")["pixel"] == wanted
    page.keyboard.press("x")
    shows(page, "x1")
    page.keyboard.press("f")
    for role in ("ref", "x1", "ref"):
        shows(page, role)
    page.keyboard.press("f")
    shows(page, "x1")
    page.wait_for_timeout(900)
    assert opaque(page)["role"] == "x1"
    page.keyboard.press("n")  # goes on, with the same image
    after = worst(explored)[1]
    page.wait_for_function(
        "name => document.querySelector('#large h2').innerText === name", arg=explored.about()["names"][after]
    )
    page.wait_for_function("() => document.querySelector('#large canvas').width === 8")
    assert shows(page, "x1")["pixel"] == list(colour("x1", after))
    page.keyboard.press("Escape")
    page.wait_for_selector("#large", state="hidden")
    assert explored.about()["names"].index(name(page)) == after


@pytest.mark.slow
def test_points_are_coloured_by_group_with_a_legend(page: Page, address: str) -> None:
    opened(page, address, "?colour=group")
    assert sorted(page.locator("#legend .dot").all_inner_texts()) == sorted(["cnn", HOSTILE])
    page.locator("#colour").select_option("votes")
    reads(page, "#legend", "Points: 0")
    addressed(page, "colour", "votes")


@pytest.mark.slow
def test_missing_images_are_counted_and_named_once(context: BrowserContext, home: Path, tmp_path: Path) -> None:
    images = write_images(tmp_path / "images")
    for row in range(90):
        (images / "x0" / f"{row:03}.png").unlink()
    page = context.new_page()
    with served(home / "results", images=images) as address:
        opened(page, address)
        reads(page, "#images-note", "90 of 200 images are not in the folder: x0/000, x0/001, x0/002, x0/003, x0/004, …")
        page.wait_for_selector("#triplet .broken")
        assert page.locator("#triplet .broken").count() == 1
        page.keyboard.press("e")
        page.wait_for_selector("#large[open]")
        reads(page, "#large [role=status]", "x0: ")
        page.wait_for_function("() => document.querySelector('#large [role=status]').innerText.endsWith('no image')")
    page.close()


@pytest.mark.slow
def test_without_images_names_are_shown(page: Page, home: Path) -> None:
    with served(home / "results") as address:
        opened(page, address)
        reads(page, "#images-note", "No images: start with twoafc explore RESULTS --images FOLDER")
        assert "x0/" in page.locator("#triplet .none").first.inner_text()
        page.keyboard.press("e")
        assert page.locator("#large").is_hidden()
        page.goto("about:blank")


@pytest.mark.slow
def test_an_answer_that_a_later_one_overtakes_is_dropped(page: Page, address: str, explored: Explored) -> None:
    opened(page, address)
    held: list[Any] = []
    page.route("**/points?distance=far*", lambda route: held.append(route))
    page.get_by_role("button", name="far", exact=True).first.click()
    addressed(page, "distance", "far")
    page.get_by_role("button", name="near", exact=True).first.click()
    addressed(page, "distance", None)
    page.keyboard.press("n")
    for route in held:
        route.continue_()
    page.unroute("**/points?distance=far*")
    page.wait_for_load_state("networkidle")
    reads(page, "#first-title", "near: NLL")
    assert name(page) == explored.about()["names"][worst(explored)[1]]


@pytest.mark.slow
def test_what_is_exported_is_named_by_the_data_that_are_shown(
    context: BrowserContext, address: str, explored: Explored
) -> None:
    page = opened(context.new_page(), address)
    held: list[Any] = []
    page.route("**/points?distance=far*", lambda route: held.append(route))
    page.get_by_role("button", name="far", exact=True).first.click()
    reads(page, "#message", "Loading …")
    with page.expect_download() as waiting:
        page.locator("#export").click()
    saved = pl.read_csv(waiting.value.path())
    assert "far_P" not in saved.columns
    np.testing.assert_array_equal(saved["near_P"].to_numpy(), explored.points(NEAR).P[worst(explored)])
    for route in held:
        route.fulfill(status=500, body="it broke")
    # What cannot be loaded is not shown under its name either.
    reads(page, "#message", "it broke")
    assert page.url == address
    assert page.locator("#ranking [aria-pressed=true]").inner_text() == "near"
    page.unroute("**/points?distance=far*")
    page.get_by_role("button", name="far", exact=True).first.click()
    reads(page, "#first-title", "far: NLL")
    page.wait_for_function("() => document.getElementById('message').innerText === ''")


@pytest.mark.slow
def test_notes_of_two_windows_and_unfinished_ones_are_kept(context: BrowserContext, address: str) -> None:
    pages = [opened(context.new_page(), address) for _ in range(2)]
    pages[1].keyboard.press("n")
    reads(pages[1], "#triplet .note", "2 of 90")
    for page, tag in zip(pages, ("alpha", "beta"), strict=True):
        page.locator("#notes summary").click()
        page.locator("#tags").fill(tag)  # and not left
    pages[0].wait_for_selector("#tag option[value=beta]", state="attached")
    for tag in ("alpha", "beta"):
        opened(pages[0], address, f"?tag={tag}")
        counted(pages[0], 1)
        assert pages[0].locator("#wall .card .tag").inner_text() == tag
    for page in pages:
        page.close()


@pytest.mark.slow
def test_a_click_after_a_note_is_not_lost_and_the_focus_stays(page: Page, address: str) -> None:
    opened(page, address)
    page.locator("#notes summary").click()
    page.locator("#note").fill("why")
    page.get_by_role("button", name="compare with far").click()
    addressed(page, "other", "far")
    page.locator("#ref").fill("ref/003")
    page.get_by_role("button", name="compare with far").click()
    addressed(page, "ref", "ref/003")
    addressed(page, "other", None)
    for place in (
        "#clear",
        "[data-sort=P]",
        "#same-reference",
        "#triplet [aria-label=next]",
        "[data-distance=far] button",
    ):
        page.locator(place).first.focus()
        before = page.evaluate("() => document.activeElement.innerText.trim().split(' ')[0]")
        page.keyboard.press("Enter")
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(50)
        after = page.evaluate("() => document.activeElement.innerText.trim().split(' ')[0]")
        assert after in (before, "All"), place  # of "Same reference", "All references"


@pytest.mark.slow
def test_the_counts_of_other_numbers_of_votes_stay_open(page: Page, address: str) -> None:
    opened(page, address)
    page.locator("#counts-fold summary").click()
    page.locator("#votes").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    reads(page, "#votes-value", "3 votes")
    assert page.locator("#counts tbody tr").count() == 4
    addressed(page, "votes", "3")
    assert page.evaluate("() => document.activeElement.id") == "votes"
    page.locator("#votes").blur()
    page.keyboard.press("n")
    reads(page, "#triplet .note", "2 of 90")
    page.wait_for_selector("#counts tbody tr:nth-child(4)")


@pytest.mark.slow
def test_a_box_stays_with_its_distance(page: Page, address: str, explored: Explored) -> None:
    u0, u1 = explored.points(FAR).u
    inside = int(((u0 >= 0.2) & (u0 <= 0.7) & (u1 >= 0.1) & (u1 <= 0.8)).sum())
    opened(page, address, "?other=far&box=0.2,0.7,0.1,0.8&side=other")
    counted(page, inside)
    page.get_by_role("button", name="far", exact=True).first.click()  # takes the first place
    addressed(page, "distance", "far")
    addressed(page, "side", None)
    counted(page, inside)
    page.get_by_role("button", name="compare with near").click()
    addressed(page, "other", None)
    counted(page, inside)
    page.get_by_role("button", name="near", exact=True).first.click()
    counted(page, 90)
    addressed(page, "box", None)


@pytest.mark.slow
def test_rows_of_one_name_and_of_names_that_scripts_know(page: Page, tmp_path: Path) -> None:
    frame = world(60, 6, "d").to_frame().select("n", "M", d0="near_d0", d1="near_d1")
    odd = ["dup", "dup", "dup", "constructor", "__proto__", "toString", "dup (2)", "row 10", "row 9"]
    frame = frame.with_columns(triplet=pl.Series([*odd, *(f"z{row}" for row in range(51))]))
    evaluate(frame, folds=2, estimators={"density": Density(sigma=0.1)}).write(tmp_path / "r")
    with served(tmp_path / "r") as address:
        opened(page, address, "?sort=name")
        shown = [
            "__proto__",
            "constructor",
            "dup",
            "dup (2)",
            "dup (3)",
            "dup (4)",
            "row 9",
            "row 10",
            "toString",
            "z0",
        ]
        assert page.locator("#table tbody th").all_inner_texts()[:10] == shown
        for each in shown:
            reads(page, "#triplet h2 span", each)
            assert page.locator("#tags").input_value() == ""
            page.locator("#tags").evaluate("field => { field.value = 't'; field.dispatchEvent(new Event('input')); }")
            page.keyboard.press("n")
        opened(page, address, "?tag=t")
        counted(page, 10, 60)
        page.goto("about:blank")


@pytest.mark.slow
def test_the_page_opens_on_the_estimator_of_the_verdict(page: Page, tmp_path: Path) -> None:
    estimators = {"coarse": Density(sigma=2.0), "fine": Density(sigma=0.1)}
    result = evaluate(world(400, 1, "a"), world(90, 2, "b"), estimators=estimators)
    result.write(tmp_path / "r")
    with served(tmp_path / "r") as address:
        opened(page, address)
        assert "fitted by fine" in " ".join(result.verdict())
        reads(page, "#ranking .note", "NLL, 2AFC %, by fine")
        page.goto("about:blank")


def test_text_stays_text(page: Page, address: str) -> None:
    opened(page, address, "?sort=group")
    assert page.title() == "twoafc explore"
    page.locator("#group").select_option(HOSTILE)
    counted(page, 30)
    assert HOSTILE in page.locator("#table").inner_text()
    assert page.title() == "twoafc explore"


@pytest.mark.slow
def test_report_and_explorer_lead_to_each_other(page: Page, home: Path, address: str) -> None:
    (home / "results/report.html").write_text(AS_SHOWN(Result.read(home / "results")))
    opened(page, address)
    page.get_by_role("link", name="Report").click()
    page.wait_for_selector("#explorer a")
    assert page.url == f"{address}report.html"
    page.locator("#explorer a").click()
    page.wait_for_selector("#triplet h2")
    assert page.url == address


# Other kinds of results.


@pytest.mark.slow
@either_way
def test_pairs_are_shown_as_curves(page: Page, tmp_path: Path) -> None:
    folder = write_pairs(tmp_path)
    write_images(tmp_path / "images", T=200)
    with served(folder, images=tmp_path / "images") as address:
        opened(page, address, "?other=far")
        reads(page, "#count", "200 of 200 pairs")
        reads(page, "#triplet h2", "Pair ")
        assert page.locator("#triplet img").count() == 2
        assert "said same" in page.locator("#triplet").inner_text()
        before = name(page)
        page.keyboard.press("n")
        page.wait_for_function("before => document.querySelector('#triplet h2 span').innerText !== before", arg=before)
        draw_box(page, "first-plane", (0.5, 0.0), (1.0, 0.6))
        page.wait_for_function("() => location.search.includes('box=')")
        page.wait_for_function("() => !document.getElementById('count').innerText.startsWith('200 ')")
        page.locator("#fit summary").click()
        page.locator("#sigma").fill("8")
        addressed(page, "estimator", REFIT)
        row = int(name(page).split()[-1])
        P = Explored(Result.read(folder)).points(Fitted("near", REFIT, float(asked(page, "sigma")), 20)).P[row]
        page.wait_for_function("P => document.querySelector('#strip').innerText.includes(P)", arg=f"{P:.4f}")
        page.goto("about:blank")


@pytest.mark.slow
def test_counts_are_shown_as_surfaces(page: Page, home: Path, tmp_path: Path) -> None:
    table = str(home / "train.csv")
    out = tmp_path / "counts"
    main(["evaluate", "--train", table, "--test", table, "--engine", "polars", "--out", str(out), "--quiet"])
    with served(out) as address:
        page.goto(address)
        reads(page, "#triplet", "Made from counts: there are surfaces, and no single triplets.")
        page.wait_for_selector("#first-plane[data-drawn]")
        assert page.locator("#ranking li").count() == 2
        page.get_by_role("button", name="far", exact=True).first.click()
        reads(page, "#first-title", "far")
        assert page.locator("#listing").is_hidden()
        for key in "npdre":
            page.keyboard.press(key)
        page.goto("about:blank")


@pytest.mark.slow
def test_one_distance_and_hundreds_of_groups(page: Page, tmp_path: Path) -> None:
    frame = world(400, 5, "c").to_frame().select("triplet", "n", "M", d0="near_d0", d1="near_d1")
    frame = frame.with_columns(group=pl.Series([f"group {row % 300:03}" for row in range(400)]))
    evaluate(frame, folds=2, estimators={"density": Density(sigma=0.1)}).write(tmp_path / "r")
    with served(tmp_path / "r") as address:
        opened(page, address, "?colour=group")
        assert page.locator("#ranking li").count() == 1
        assert page.locator("#disagreement-least").count() == 0
        assert page.locator("#group option").count() == 301
        reads(page, "#legend", "Points: group ")
        assert "and 288 more" in page.locator("#legend").inner_text()
        page.locator("#group").select_option("group 007")
        counted(page, 2, 400)
        assert page.locator("#wall").is_hidden()  # the table names no images
        page.goto("about:blank")


# Reach.


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_and_nothing_is_hard_to_reach(context: BrowserContext, address: str, scheme: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    def found(page: Page) -> list[tuple[str, str]]:
        violations: list[dict[str, Any]] = Axe().run(page).response["violations"]
        return [(each["id"], each["nodes"][0]["html"]) for each in violations]

    with watched(context) as page:
        page.emulate_media(color_scheme=scheme)
        opened(page, address, "?other=far&group=cnn")
        for fold in ("#fit", "#notes", "#counts-fold"):
            page.locator(f"{fold} summary").click()
        assert found(page) == []
        for width in (1280, 900, 400, 320):
            page.set_viewport_size({"width": width, "height": 800})
            page.wait_for_timeout(150)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert found(page) == []
        page.keyboard.press("e")
        page.wait_for_selector("#large canvas[data-role]")
        assert found(page) == []
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        page.wait_for_selector("#keys kbd")
        assert found(page) == []


@pytest.mark.slow
def test_no_button_and_no_key_leads_to_another_host(page: Page, address: str) -> None:
    """Requests elsewhere fail every test of this file; windows that open are counted here."""
    opened(page, address, "?other=far")
    windows: list[Page] = []
    page.context.on("page", lambda window: windows.append(window))
    for key in "abcdefghijklmnopqrstuvwxyz?/":
        page.keyboard.press(key)
        page.keyboard.press("Escape")
    # Every button there is, by its words: the page changes with each of them.
    named = "each => (each.ariaLabel || each.innerText || each.title).trim()"
    words = set(page.locator("button").evaluate_all(f"all => all.map({named})"))
    assert {"Export CSV", "Keys", "compare with far", "Next disagreement", "enlarge x0", "Clear"} <= words
    for each in sorted(words - {""}):
        page.evaluate(
            f"each => [...document.querySelectorAll('button')].find((one) => ({named})(one) === each)?.click()", each
        )
        page.keyboard.press("Escape")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="save the plane of near as a picture").click()
    assert Image.open(io.BytesIO(Path(waiting.value.path()).read_bytes())).width > 200
    assert windows == []

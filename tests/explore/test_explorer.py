from __future__ import annotations

import base64
import io
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from flask.testing import FlaskClient
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from commands import refused
from exploring import HOSTILE, write_images, write_results
from twoafc.errors import DataError
from twoafc.explore import explorer
from twoafc.explore.callbacks import Page
from twoafc.explore.data import Explored, Refits, facts, from_another_fit, refits
from twoafc.explore.figures import plane
from twoafc.explore.server import MOST_BYTES, application, listen
from twoafc.explore.state import COLUMNS, GRIDS, MOST_VOTES, REFIT, STEPS, Known, View, sigma_at
from twoafc.metrics import log_likelihood
from twoafc.results import Pictures, Result, ask_triplet, surprise

KNOWN = Known(("near", "far"), ("density", REFIT), ("a & b", HOSTILE), ("one", "two", "one", "ü/%&=#"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def explored(folder: Path) -> Explored:
    return Explored(Result.read(folder))


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory) -> Explored:
    return Explored(Result.read(write_results(tmp_path_factory.mktemp("crossed"), crossed=True)))


@pytest.fixture
def view(explored: Explored) -> View:
    return View.of({}, explored.known)


# The view and its link.

ENDS = st.floats(-0.2, 1.2).map(lambda end: float(f"{end:.4g}"))
BOXES = st.tuples(ENDS, ENDS, ENDS, ENDS).filter(lambda box: box[0] < box[1] and box[2] < box[3])
LEAST = st.floats(0, 50).map(lambda least: float(f"{least:.4g}"))
VIEWS = st.builds(
    View,
    distance=st.sampled_from(KNOWN.distances),
    estimator=st.just(REFIT),
    other=st.just(""),
    colour=st.sampled_from(["surprise", "votes"]),
    sigma=st.integers(int(2 * STEPS[0]), int(2 * STEPS[1])).map(lambda step: sigma_at(step / 2)),
    grid=st.integers(*GRIDS),
    votes=st.integers(0, MOST_VOTES),
    row=st.none() | st.integers(0, 3),
    group=st.sampled_from(["", *KNOWN.groups]),
    surprise=LEAST,
    disagreement=LEAST,
    box=st.none() | BOXES,
    sort=st.sampled_from([*COLUMNS, *(f"-{name}" for name in COLUMNS)]),
)


@given(VIEWS)
def test_a_link_restores_its_view(view: View) -> None:
    assert View.read(view.link(KNOWN), KNOWN) == view


@given(VIEWS)
def test_a_link_restores_its_view_of_two_distances(view: View) -> None:
    two = replace(view, distance="near", other="far", side="other")
    assert View.read(two.link(KNOWN), KNOWN) == two


def test_the_first_view_needs_no_link() -> None:
    assert View.of({}, KNOWN).link(KNOWN) == ""


def test_a_link_of_too_many_fields_is_none_of_ours() -> None:
    assert View.read("distance=far" + "&a=b" * 300, KNOWN) == View.of({}, KNOWN)


def test_sliders_start_where_the_results_were_made(explored: Explored, view: View) -> None:
    assert explored.evaluated(view) == (0.1, 20)
    assert (view.sigma, view.grid) == (sigma_at(8.5), 20)  # the nearest place to 0.1
    assert explored.evaluated(replace(view, estimator=REFIT)) is None
    far = Known(("a",), ("density",), sigma=9.0, grid=1000)
    assert (far.sigma, far.grid) == (sigma_at(STEPS[1]), GRIDS[1])


def test_the_best_distance_comes_first(folder: Path) -> None:
    results = Result.read(folder)
    names = {"near": "far", "far": "near"}
    results.__dict__["triplets"] = results.rows.with_columns(pl.col("distance").replace(names))
    assert Explored(results).known.distances == ("far", "near")


def test_a_distance_is_not_shown_beside_itself() -> None:
    assert View.read("?distance=far&other=far", KNOWN).other == ""


@given(st.text())
def test_any_query_gives_a_view_that_can_be_shown(query: str) -> None:
    view = View.read(query, KNOWN)
    assert view.distance in KNOWN.distances
    assert View.read(view.link(KNOWN), KNOWN) == view


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60)
@given(values=st.dictionaries(st.sampled_from([*View.__dataclass_fields__, "foreign"]), VALUES))
def test_whatever_a_page_posts_is_answered(explored: Explored, values: dict[str, Any]) -> None:
    page = Page(explored, images=False)
    view = page.view(values)
    assert 0 < view.sigma < 1
    assert page.link(**values)[1].startswith("/triplets.csv")


# Points, surfaces and fits.


def test_points_are_those_that_were_tested(explored: Explored, view: View) -> None:
    points, rows = explored.points(view, "far"), explored.result.outcomes("far")
    for name in ("d0", "d1", "P", "nll"):
        np.testing.assert_array_equal(getattr(points, name), rows[name].to_numpy())
    np.testing.assert_array_equal(points.surprise, surprise(explored.n, explored.M, points.P))
    assert 0 <= points.u0.min() <= points.u1.max() <= 1


def test_a_refit_with_the_same_settings_is_the_same(explored: Explored, view: View) -> None:
    again = explored._points("near", REFIT, 0.1, 20)
    np.testing.assert_allclose(again.P, explored.points(view).P, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(again.u0, explored.points(view).u0)
    surface = again.surface
    np.testing.assert_allclose(surface, explored.points(view).surface, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(surface + surface.T, np.ones((100, 100)))


def test_a_refit_of_crossed_results_leaves_out_the_same_triplets(crossed: Explored) -> None:
    view = View.of({}, crossed.known)
    again = crossed._points("near", REFIT, 0.1, 20)
    np.testing.assert_allclose(again.P, crossed.points(view).P, rtol=0, atol=1e-12)
    fit = crossed.points(view).fit
    assert fit is not None
    assert not np.allclose(again.P, fit.probability(again.d0, again.d1))


def test_another_sigma_gives_another_surface_and_the_nll_of_its_own_votes(explored: Explored, view: View) -> None:
    points = explored.points(replace(view, estimator=REFIT, sigma=sigma_at(10)))
    assert np.abs(points.P - explored.points(view).P).max() > 0.01
    np.testing.assert_allclose(points.nll, -log_likelihood(explored.n, explored.M, points.P))


def test_the_training_table_is_found_by_its_contents_or_asked_for(folder: Path, tmp_path: Path) -> None:
    results = Result.read(folder)
    assert isinstance(refits(results), Refits)  # beside the folder
    moved = tmp_path / "elsewhere" / "results"
    moved.parent.mkdir()
    moved.symlink_to(folder)
    (moved.parent / "train.csv").write_text("n,M,d0,d1\n1,2,0.5,0.25\n")
    alone = Result.read(moved)
    missing = "the training table (train.csv) is not beside the results; name it with --train"
    assert refits(alone) == missing
    (moved.parent / "train.csv").write_text("not a table")
    assert refits(alone) == missing
    assert isinstance(refits(alone, folder.parent / "train.csv"), Refits)
    assert Explored(alone).known.estimators == ("density",)


def test_another_training_table_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("n,M,d0,d1\n1,2,0.5,0.25\n")
    with pytest.raises(DataError) as caught:
        refits(Result.read(folder), other)
    assert str(caught.value) == f"the training table must be the one that was evaluated; {other} holds another"


def test_results_of_counts_cannot_be_refitted(folder: Path) -> None:
    results = Result.read(folder)
    del results.card["data"]["train"]["contents_sha256"]
    assert refits(results) == "the results were made from counts, not from a table"


def test_an_estimator_that_only_diverged_is_left_out(folder: Path) -> None:
    results = Result.read(folder)
    lost = results.rows.with_columns(estimator=pl.lit("network"), diverged=pl.lit(True), P=pl.lit(np.nan))
    results.__dict__["triplets"] = pl.concat([lost, results.rows])
    assert Explored(results).known.estimators == ("density", REFIT)
    results.__dict__["triplets"] = lost
    with pytest.raises(DataError) as caught:
        Explored(results)
    assert str(caught.value) == "every run of near, network diverged; there is nothing to tell of its triplets"


# Which triplets are kept, and in which order.


def test_order_and_filters_as_one_would_write_them(explored: Explored, view: View) -> None:
    asked = replace(
        view, other="far", group=HOSTILE, surprise=1.0, disagreement=0.05, box=(0.0, 0.9, 0.1, 1.0), sort="-nll"
    )
    near, far = explored.points(view, "near"), explored.points(view, "far")
    kept = [
        row
        for row in range(len(explored))
        if explored.labels["group"][row] == HOSTILE
        and near.surprise[row] >= 1
        and abs(near.P[row] - far.P[row]) >= 0.05
        and 0 <= near.u0[row] <= 0.9
        and 0.1 <= near.u1[row] <= 1
    ]
    assert 2 < len(kept) < 40
    assert explored.order(asked).tolist() == sorted(kept, key=lambda row: -near.nll[row])
    other_way = explored.order(replace(asked, side="other"))
    assert all(0.1 <= far.u1[row] <= 1 for row in other_way)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_sorts_both_ways(explored: Explored, view: View, name: str) -> None:
    two = replace(view, other="far")
    up = explored.column(two, name)[explored.order(replace(two, sort=name))]
    down = explored.column(two, name)[explored.order(replace(two, sort=f"-{name}"))]
    assert up.tolist() == sorted(up.tolist())
    assert down.tolist() == up.tolist()[::-1]


def test_the_worst_come_first(explored: Explored, view: View) -> None:
    bits = explored.points(view).surprise
    assert bits[explored.order(view)[0]] == bits.max()


def test_the_votes_speak_for_a_distance_only_where_they_are_ten_times_as_likely(explored: Explored, view: View) -> None:
    two = replace(view, other="far")
    gap = explored.points(view, "far").nll - explored.points(view, "near").nll
    expected = [1 if g >= np.log(10) else -1 if g <= -np.log(10) else 0 for g in gap]
    assert explored.likelier(two).tolist() == expected
    assert {1, 0} <= set(expected)


def test_the_export_has_all_columns_in_the_order_of_the_table(explored: Explored, view: View) -> None:
    two = replace(view, other="far", group="cnn")
    frame = explored.frame(two)
    order = explored.order(two)
    assert frame["triplet"].to_list() == [explored.known.triplets[row] for row in order]
    np.testing.assert_array_equal(frame["far_P"].to_numpy(), explored.points(two, "far").P[order])
    assert set(frame["likelier"]) <= {"near", "far", ""}


# One triplet, and the figures.


@pytest.mark.parametrize("kind", ["explored", "crossed"])
def test_a_triplet_is_told_as_query_tells_it(kind: str, request: pytest.FixtureRequest) -> None:
    one: Explored = request.getfixturevalue(kind)
    view = View.of({"row": 7, "other": "far"}, one.known)
    known = facts(one, view)
    assert known is not None
    told = ask_triplet(one.result, known.labels["triplet"])
    assert (known.n, known.M, known.votes, known.observed) == (told["n"], told["M"], told["M"], told["n"])
    assert list(known.answers) == ["near", "far"]
    for name, each in known.answers.items():
        assert each == told["answers"][name] | {"surprise": one.points(view, name).surprise[7]}
        assert from_another_fit(each) == (kind == "crossed")


def test_another_number_of_votes_changes_the_counts_alone(explored: Explored, view: View) -> None:
    few, many = (facts(explored, replace(view, row=3, votes=votes)) for votes in (0, 9))
    assert few is not None
    assert many is not None
    one, other = few.answers["near"], many.answers["near"]
    assert one["P"] == other["P"]
    assert (len(one["counts"]), len(other["counts"])) == (few.M + 1, 10)
    assert many.observed is None
    assert sum(count["probability"] for count in other["counts"]) == pytest.approx(1)
    assert facts(explored, view) is None


@pytest.mark.parametrize("colour", ["surprise", "votes"])
def test_a_figure_holds_every_triplet_once_at_its_place(explored: Explored, view: View, colour: str) -> None:
    points, share = explored.points(view), explored.n / explored.M
    figure = plane(points, share, np.arange(0, 90, 2), colour=colour)
    heat, _, *dots = figure["data"]
    rows = [unpacked({"dtype": "i4", "bdata": each["meta"]["rows"]}) for each in dots]
    assert sorted(np.concatenate(rows).tolist()) == list(range(0, 90, 2))
    for each, own in zip(dots, rows, strict=True):
        np.testing.assert_allclose(unpacked(each["x"]), points.u0[own], atol=1e-6)
        np.testing.assert_allclose(unpacked(each["y"]), points.u1[own], atol=1e-6)
        values = points.surprise[own] if colour == "surprise" else share[own]
        width = 4 if colour == "surprise" else 0.11
        assert len(own) == 0 or np.ptp(np.minimum(values, 9)) < width
    P = unpacked(heat["z"]).reshape(100, 100)
    np.testing.assert_allclose(P.T, explored.points(view).surface, atol=1e-6)
    assert heat["z"]["shape"] == "100, 100"


def unpacked(packed: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"])


# The server.


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outside = tmp_path_factory.mktemp("outside")
    Image.new("RGB", (4, 4), "red").save(outside / "secret.png")
    folder = write_images(outside / "images")
    (folder / "x0" / "001.png").unlink()
    (folder / "x0" / "001.png").symlink_to(outside / "secret.png")
    (folder / "x0" / "002.png").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>")
    (folder / "x0" / "003.png").unlink()
    Image.new("RGB", (4, 4), (1, 2, 3)).save(folder / "x0" / "003.tif")
    (folder / "x0" / "004.png").write_bytes((folder / "x0" / "005.png").read_bytes()[:40])
    (folder / "x0" / "006.png").write_text(EPS)
    for row, ending in ((7, "tif"), (8, "ppm")):
        (folder / "x0" / f"{row:03}.png").unlink()
        save_deep(folder / "x0" / f"{row:03}.{ending}")
    with (folder / "x0" / "009.png").open("r+b") as file:
        file.truncate(2**30)
    return folder


EPS = """%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 4 4
%%EndComments
0 0 4 4 rectfill
showpage
%%EOF
"""
DEEP = np.array([[0, 257 * 100], [257 * 200, 65535]], dtype=np.uint16)


def save_deep(path: Path) -> None:
    if path.suffix == ".tif":
        Image.fromarray(DEEP).save(path)
    else:
        path.write_bytes(b"P5 2 2 65535\n" + DEEP.astype(">u2").tobytes())


@pytest.fixture(scope="module")
def client(explored: Explored, images: Path) -> FlaskClient:
    return application(explored, Pictures(images)).test_client()


LOCAL = "http://127.0.0.1:8050"


def get(client: FlaskClient, path: str, base_url: str = LOCAL, **more: Any) -> Any:
    return client.get(path, base_url=base_url, **more)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8050", "192.168.0.7"]
)
@pytest.mark.parametrize("path", ["/", "/image/0/ref", "/_dash-layout", "/triplets.csv", "/assets/explore.js"])
def test_a_foreign_host_is_refused(client: FlaskClient, host: str, path: str) -> None:
    answer = get(client, path, f"http://{host}")
    assert answer.status_code == 403
    assert b"served as 127.0.0.1 or localhost alone" in answer.data


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "LOCALHOST:9", "localhost"])
def test_this_machine_is_welcome(client: FlaskClient, host: str) -> None:
    assert get(client, "/", f"http://{host}").status_code == 200


def test_a_foreign_page_is_refused(client: FlaskClient) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "https://localhost:8050"):
        headers = {"Origin": origin}
        answer = client.post("/_dash-update-component", base_url=LOCAL, json={}, headers=headers)
        assert answer.status_code == 403, origin
    assert get(client, "/", headers={"Origin": LOCAL}).status_code == 200


ROUTES = ("/_reload-hash", "/_alive_x", "/_mcp", "/image", "/image/", "/etc/passwd", "/_dash-config", "/results")


@pytest.mark.parametrize("path", ROUTES)
def test_nothing_else_is_served(client: FlaskClient, path: str) -> None:
    assert get(client, path).status_code == 404


def test_images_are_served_by_row_and_role(client: FlaskClient, images: Path) -> None:
    for row, role, file in ((0, "x0", "x0/000"), (21, "ref", "ref/001"), (89, "x1", "x1/089")):
        answer = get(client, f"/image/{row}/{role}")
        assert (answer.status_code, answer.mimetype) == (200, "image/png")
        assert answer.data == (images / f"{file}.png").read_bytes()
    turned = get(client, "/image/3/x0")  # a TIFF, which browsers do not show
    assert (turned.mimetype, turned.data[:4]) == ("image/png", b"\x89PNG")


ESCAPES = (
    "/image/0/..",
    "/image/0/../secret",
    "/image/0/..%2f..%2fsecret.png",
    "/image/0/%2e%2e/%2e%2e/secret.png",
    "/image/0/%2fetc%2fpasswd",
    "/image/0//etc/passwd",
    "/image/0/triplet",
    "/image/0/group",
    "/image/0/n",
    "/image/-1/ref",
    "/image/90/ref",
    "/image/0x1/ref",
    "/image/99999999999999999999/ref",
    "/image/ref/0",
    "/image/../../secret.png",
    "/assets/../server.py",
    "/assets/..%2fserver.py",
    "/assets/%2e%2e/server.py",
    "/assets//etc/passwd",
    "/assets/%2fetc%2fpasswd",
    "/_dash-component-suites/dash/../../../../etc/passwd",
    "/_dash-component-suites/dash/..%2f..%2f..%2fetc%2fpasswd",
)


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out_of_the_folder(client: FlaskClient, path: str) -> None:
    answer = get(client, path)
    assert answer.status_code in (301, 308, 400, 404)
    if answer.status_code != 404:
        answer = get(client, path, follow_redirects=True)
    assert answer.status_code != 200
    assert b"root:" not in answer.data


def test_links_out_text_and_halves_of_images_are_not_found(client: FlaskClient) -> None:
    for row in (1, 2, 4):
        assert get(client, f"/image/{row}/x0").status_code == 404


def test_what_takes_a_program_to_read_is_not_found(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **_: started.append(given))
    assert get(client, "/image/6/x0").status_code == 404
    assert started == []


def test_a_file_that_is_vast_is_not_found(client: FlaskClient) -> None:
    assert get(client, "/image/9/x0").status_code == 404


@pytest.mark.parametrize("row", [7, 8])
def test_sixteen_bits_are_shown_as_eight(client: FlaskClient, row: int) -> None:
    answer = get(client, f"/image/{row}/x0")
    assert answer.mimetype == "image/png"
    shown = np.asarray(Image.open(io.BytesIO(answer.data)))
    assert shown[..., 0].tolist() == [[0, 100], [200, 255]]
    assert (shown == shown[..., :1]).all()


def test_what_no_page_of_ours_asks_is_answered_without_a_word(
    client: FlaskClient, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for origin in ("http://[", "http://[::1", "//", "\x00"):
        assert get(client, "/", headers={"Origin": origin}).status_code == 403
    assert get(client, "/", headers={"Host": "["}).status_code in (400, 403)
    for path in ("dash/../server.py", "none/x.js", "dash/none.js", "dash", "dash/%00", "plotly/package_data/none.js"):
        assert 400 <= get(client, f"/_dash-component-suites/{path}").status_code < 500, path
    bodies: tuple[Any, ...] = ("", "{", "[]", "null", "1", "{}", '{"output": 1}', '{"output": "row.data", "inputs": 7}')
    for told in bodies:
        for kind in ("application/json", "text/plain"):
            answer = client.post("/_dash-update-component", base_url=LOCAL, data=told, content_type=kind)
            assert 400 <= answer.status_code < 500, told
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []


def test_what_fails_in_our_own_code_is_told(
    client: FlaskClient, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a mistake\x1b[2J of ours")

    monkeypatch.setattr(Explored, "frame", broken)
    answer = get(client, "/triplets.csv")
    assert answer.status_code == 500
    told = "GET /triplets.csv failed: RuntimeError: a mistake\ufffd[2J of ours"
    assert capsys.readouterr() == ("", f"twoafc: {told}\n")


@pytest.mark.parametrize(
    "name", ["../secret.png", "/etc/passwd", "..\\secret.png", "x0/../../secret.png", "%2e%2e/secret"]
)
def test_names_in_the_table_do_not_lead_out_either(folder: Path, images: Path, name: str) -> None:
    one = Explored(Result.read(folder))
    one.labels = one.labels.with_columns(ref=pl.lit(name))
    assert get(application(one, Pictures(images)).test_client(), "/image/0/ref").status_code == 404


def test_without_a_folder_there_are_no_images(explored: Explored) -> None:
    assert get(application(explored).test_client(), "/image/0/ref").status_code == 404


def test_every_answer_forbids_what_the_page_does_not_need(client: FlaskClient) -> None:
    for path in ("/", "/image/0/ref", "/nothing"):
        headers = get(client, path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy.split("style-src")[0]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"


def test_the_page_names_no_other_place(client: FlaskClient) -> None:
    text = get(client, "/").text
    assert "http://" not in text
    assert "https://" not in text


def test_the_export_follows_the_link(client: FlaskClient, explored: Explored) -> None:
    answer = get(client, "/triplets.csv?distance=far&group=cnn&sort=n")
    view = View.read("?distance=far&group=cnn&sort=n", explored.known)
    assert answer.mimetype == "text/csv"
    assert pl.read_csv(answer.data)["n"].to_list() == explored.frame(view)["n"].to_list()


def test_a_taken_port_is_told_and_the_next_one_found(explored: Explored) -> None:
    app = application(explored)
    first = listen(app)
    try:
        with pytest.raises(OSError, match=rf"^port {first.port} is taken; choose another with --port, or none$"):
            listen(app, first.port)
        second = listen(app)
        assert second.port > first.port
        assert second.host == "127.0.0.1"
        second.server_close()
    finally:
        first.server_close()


# The command.


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return refused(capsys, "explore", *arguments)


def test_mistakes_are_told_in_one_line(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    told = f"{tmp_path} is not a folder of results; it has no scores.json"
    assert failure(capsys, str(tmp_path)) == told
    missing = tmp_path / "none"
    assert failure(capsys, str(folder), "--images", str(missing)) == f"no such folder of images: {missing}"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = f"port {port} is taken; choose another with --port, or none"
        assert failure(capsys, str(folder), "--port", str(port)) == told
    told = "a port is a number from 1 to 65535; found 99999; choose another, or none"
    assert failure(capsys, str(folder), "--port", "99999") == told


def test_without_dash_the_line_to_install_it_is_told(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dash", None)
    assert failure(capsys, str(folder)) == "dash is not installed; run: pip install 'twoafc[explore]'"


def test_it_serves_until_it_is_interrupted_and_writes_nothing(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.parent.rglob("*")}
    command = [sys.executable, "-m", "twoafc", "explore", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line.startswith(f"Explore {folder} at http://127.0.0.1:")
        os.kill(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert (running.returncode, out, err) == (0, "ended\n", "")
    assert {path: path.stat().st_mtime_ns for path in folder.parent.rglob("*")} == before


def test_the_package_loads_no_dash_before_it_is_asked_to() -> None:
    program = (
        "import sys, twoafc, twoafc.cli, twoafc.explore; sys.exit('dash' in sys.modules or 'flask' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_explorer_reads_results_alone(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a folder of results; it has no scores\.json$"):
        explorer(tmp_path)


@pytest.mark.parametrize("value", [None, 7, 1e308, True, [], [1, 2], {"a": 1}, "9" * 500, "NaN"])
def test_values_that_no_page_sends_are_ignored(client: FlaskClient, value: object) -> None:
    """In the place of any input of any callback."""
    for callback in get(client, "/_dash-dependencies").json or []:
        if callback.get("clientside_function"):
            continue
        names = callback["output"].strip(".").split("...")
        outputs = [dict(zip(("id", "property"), name.split("@")[0].rsplit(".", 1), strict=True)) for name in names]
        asked = [*callback["inputs"], *callback["state"]]
        for wrong in range(len(asked)):
            sent = [each | {"value": value if place == wrong else ""} for place, each in enumerate(asked)]
            inputs, state = sent[: len(callback["inputs"])], sent[len(callback["inputs"]) :]
            several = outputs if callback["output"].startswith("..") else outputs[0]
            body = {"output": callback["output"], "outputs": several, "inputs": inputs, "state": state}
            answer = client.post("/_dash-update-component", base_url=LOCAL, json=body | {"changedPropIds": []})
            assert answer.status_code < 500, (callback["output"], asked[wrong])


def test_a_request_that_is_too_large_is_refused(client: FlaskClient) -> None:
    body = b'{"output": "' + b"a" * MOST_BYTES + b'"}'
    answer = client.post("/_dash-update-component", base_url=LOCAL, data=body, content_type="application/json")
    assert answer.status_code == 413

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from commands import refused
from drawing import plain_results
from exploring import ESTIMATORS, HOSTILE, world, write_images, write_pairs, write_results
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.estimators import Density
from twoafc.evaluation import Data, evaluate
from twoafc.explore.data import REFIT, Explored, Fitted, fitted_data, packed
from twoafc.explore.server import MOST_BYTES, application, listen
from twoafc.inference import COMPARED, clustering_of, compare, values_of, values_per_row
from twoafc.metrics import log_likelihood
from twoafc.results import Pictures, Result, ask_triplet, compare_rows, surprise
from twoafc.table import Pairs, Triplets

NEAR, FAR = Fitted("near", "density"), Fitted("far", "density")
AGAIN = Fitted("near", REFIT, 0.1, 20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def explored(folder: Path) -> Explored:
    return Explored(Result.read(folder))


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory) -> Explored:
    return Explored(Result.read(write_results(tmp_path_factory.mktemp("crossed"), crossed=True)))


# What the page knows at the start.


def test_the_page_starts_with_the_ranking(explored: Explored) -> None:
    about = explored.about()
    assert (about["row"], about["k"], about["estimators"]) == ("triplet", 2, ("density", REFIT))
    scores = {r["distance"]: r for r in explored.result.scores if (r["split"], r["group"]) == ("test", "all")}
    assert [each["distance"] for each in about["ranking"]] == list(about["distances"]) == ["near", "far"]
    for each in about["ranking"]:
        record = scores[each["distance"]]
        assert [each[name] for name in ("nll", "nll_low", "nll_high", "nll_letters")] == [
            record[name] for name in ("nll", "nll_low", "nll_high", "nll_letters")
        ]
        assert each["score"] == record["score_2afc_distance"]
    assert about["verdict"] == explored.result.verdict()
    json.dumps(about, allow_nan=False)


def test_names_are_written_once_and_mean_the_same(explored: Explored) -> None:
    about = explored.about()
    assert about["names"] == explored.result.outcomes("near")["triplet"].to_list()
    assert about["roles"] == ["x0", "ref", "x1"]
    for name, column in about["labels"].items():
        assert len(set(column["names"])) == len(column["names"])
        assert [column["names"][code] for code in column["codes"]] == explored.labels[name].to_list()
    assert set(about["labels"]["group"]["names"]) == {"cnn", HOSTILE}


def test_the_best_distance_comes_first(folder: Path) -> None:
    result = Result.read(folder)
    names = {"near": "far", "far": "near"}
    result.scores[:] = [record | {"distance": names[record["distance"]]} for record in result.scores]
    assert Explored(result).distances == ("far", "near")


def test_sliders_start_where_the_results_were_made(explored: Explored) -> None:
    assert (explored.about()["sigma"], explored.about()["grid"]) == (0.1, 20)


@given(st.lists(st.floats(allow_nan=False), max_size=5), st.text(max_size=9))
def test_packed_arrays_are_read_as_the_page_reads_them(values: list[float], name: str) -> None:
    content = packed({name: np.array(values), "b": np.array([2.0])})
    end = content.index(b"\n") + 1
    assert end % 8 == 0
    lengths = json.loads(content[:end])
    numbers = np.frombuffer(content[end:], dtype="<f8")
    if name != "b":
        assert lengths == {name: len(values), "b": 1}
        assert numbers.tolist() == [*values, 2.0]


# Points, surfaces and fits.


def test_points_are_those_that_were_tested(explored: Explored) -> None:
    points, rows = explored.points(FAR), explored.result.outcomes("far")
    for name, values in (("d0", points.d[0]), ("d1", points.d[1]), ("P", points.P), ("nll", points.nll)):
        np.testing.assert_array_equal(values, rows[name].to_numpy())
    np.testing.assert_array_equal(points.surprise, surprise(explored.n, explored.M, points.P))
    assert 0 <= points.u[0].min() <= points.u[1].max() <= 1
    arrays = points.arrays()
    assert arrays["surface"].shape == arrays["error"].shape == (10_000,)
    fit, uniform = points.fit, points.uniform
    assert fit is not None
    assert uniform is not None
    d = uniform.inverse(np.array([30 / 99, 80 / 99]))
    assert arrays["surface"][30 * 100 + 80] == pytest.approx(float(fit.probability(*d)), abs=1e-12)
    assert arrays["error"][30 * 100 + 80] == pytest.approx(float(fit.standard_error(*d)), abs=1e-12)  # type: ignore[attr-defined]


def test_a_refit_with_the_same_settings_is_the_same(explored: Explored) -> None:
    again, before = explored.points(AGAIN), explored.points(NEAR)
    np.testing.assert_allclose(again.P, before.P, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(again.u, before.u)
    surface = again.surface
    np.testing.assert_allclose(surface, before.surface, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(surface + surface.T, np.ones((100, 100)))


def test_a_refit_of_crossed_results_leaves_out_the_same_triplets(crossed: Explored) -> None:
    again, before = crossed.points(AGAIN), crossed.points(NEAR)
    np.testing.assert_allclose(again.P, before.P, rtol=0, atol=1e-12)
    assert before.fit is not None
    assert not np.allclose(again.P, before.fit.probability(*again.d))


def test_weighted_tables_are_refitted_and_compared_with_their_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    tables = {}
    for role, T in (("train", 300), ("test", 80)):
        frame = world(T, len(role), role).to_frame().with_columns(weight=pl.Series(rng.uniform(0.2, 4, T)))
        tables[role] = Triplets.from_frame(frame)
        tables[role].write(tmp_path / f"{role}.csv")
    evaluate(**tables, estimators=ESTIMATORS).write(tmp_path / "r")
    explored = Explored(Result.read(tmp_path / "r"))
    np.testing.assert_allclose(explored.points(AGAIN).P, explored.points(NEAR).P, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(explored.about()["weight"], tables["test"].weight)
    assert "weight" not in explored.about()["labels"]
    keep = np.arange(80) < 50
    gap = (explored.points(NEAR).nll - explored.points(FAR).nll)[keep]
    found = explored.compared(NEAR, FAR, keep)
    assert found["difference"] == pytest.approx(np.average(gap, weights=explored.weight[keep]))  # type: ignore[index]


def test_another_sigma_gives_another_surface_and_the_nll_of_its_own_votes(explored: Explored) -> None:
    points = explored.points(Fitted("near", REFIT, 0.13, 20))
    assert np.abs(points.P - explored.points(NEAR).P).max() > 0.005
    np.testing.assert_allclose(points.nll, -log_likelihood(explored.n, explored.M, points.P))


def test_the_training_table_is_found_by_its_contents_or_asked_for(folder: Path, tmp_path: Path) -> None:
    assert isinstance(fitted_data(Result.read(folder)), Data)  # beside the folder
    moved = tmp_path / "elsewhere" / "results"
    moved.parent.mkdir()
    moved.symlink_to(folder)
    (moved.parent / "train.csv").write_text("n,M,d0,d1\n1,2,0.5,0.25\n")
    alone = Result.read(moved)
    missing = "the training table (train.csv) is not beside the results; name it with --train"
    assert fitted_data(alone) == missing
    (moved.parent / "train.csv").write_text("not a table")
    assert fitted_data(alone) == missing
    assert isinstance(fitted_data(alone, folder.parent / "train.csv"), Data)
    assert Explored(alone).estimators == ("density",)


def test_an_ordinary_evaluation_remembers_where_its_training_table_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    table = Triplets.read(folder.parent / "train.csv")
    table.write(data / "votes of may.csv")
    monkeypatch.chdir(tmp_path)
    tables = ["--train", "data/votes of may.csv", "--test", "data/votes of may.csv"]
    with plain_results():
        main(["evaluate", *tables, "--out", "a/b/r", "--quiet"])
    card = json.loads(Path("a/b/r/scores.json").read_text())["card"]
    assert card["data"]["train"]["path"] == "../../../data/votes of may.csv"
    monkeypatch.chdir("/")
    assert isinstance(fitted_data(Result.read(tmp_path / "a" / "b" / "r")), Data)
    # A result that is read and written elsewhere names the same file.
    with plain_results():
        Result.read(tmp_path / "a" / "b" / "r").write(tmp_path / "copy")
    assert Result.read(tmp_path / "copy").card["data"]["train"]["path"] == str(data / "votes of may.csv")
    (data / "votes of may.csv").write_text("n,M,d0,d1\n1,2,0.5,0.25\n")
    missing = "the training table (votes of may.csv) is not beside the results; name it with --train"
    assert fitted_data(Result.read(tmp_path / "copy")) == missing


def test_another_training_table_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("n,M,d0,d1\n1,2,0.5,0.25\n")
    with pytest.raises(DataError) as caught:
        fitted_data(Result.read(folder), other)
    assert str(caught.value) == f"the training table must be the one that was evaluated; {other} is another"


def test_an_estimator_that_only_diverged_is_left_out(folder: Path) -> None:
    results = Result.read(folder)
    lost = results.rows.with_columns(estimator=pl.lit("network"), diverged=pl.lit(True), P=pl.lit(np.nan))
    results.__dict__["triplets"] = pl.concat([lost, results.rows])
    assert Explored(results).estimators == ("density", REFIT)
    results.__dict__["triplets"] = lost
    with pytest.raises(DataError) as caught:
        Explored(results)
    assert str(caught.value) == "every run of near, network diverged; there is no P or NLL for its triplets"


def test_counts_have_surfaces_and_no_rows(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = folder.parent / "train.csv"
    main(f"evaluate --train {table} --test {table} --engine polars --estimator density --out r --quiet".split())
    counted = Explored(Result.read("r"))
    about = counted.about()
    assert (len(counted), about["names"], about["roles"]) == (0, [], [])
    assert about["refit"] == "the results were made from counts, not from a table"
    assert [each["distance"] for each in about["ranking"]] == list(about["distances"])
    arrays = counted.points(Fitted("near", about["estimators"][0])).arrays()
    assert arrays["P"].size == 0
    assert np.ptp(arrays["surface"]) > 0.5


def test_pairs_have_curves(tmp_path: Path) -> None:
    explored = Explored(Result.read(write_pairs(tmp_path)))
    about = explored.about()
    assert (about["row"], about["k"], about["roles"]) == ("pair", 1, ["ref", "x"])
    assert about["refit"] is None
    again, same = explored.points(Fitted("near", REFIT, 0.1, 20)), explored.result.outcomes("near")
    table = Pairs.from_frame(same.drop("distance", "estimator", "P", "nll"))
    evaluated = evaluate(table, folds=2, estimators=Density(sigma=0.1)).outcomes()
    np.testing.assert_allclose(again.P, evaluated["P"].to_numpy(), rtol=0, atol=1e-12)
    points = explored.points(Fitted("near", about["estimators"][0]))
    arrays = points.arrays()
    assert arrays["surface"].shape == arrays["error"].shape == (100,)
    assert arrays["surface"][0] > arrays["surface"][-1]
    np.testing.assert_array_equal(arrays["d"], explored.result.outcomes("near")["d"].to_numpy())
    answer = explored.answers(3, {"near": Fitted("near", about["estimators"][0])})["near"]
    assert answer["d"] == [arrays["d"][3]]


# One row, and the comparison on some of them.


@pytest.mark.parametrize("kind", ["explored", "crossed"])
def test_a_triplet_is_told_as_query_tells_it(kind: str, request: pytest.FixtureRequest) -> None:
    one: Explored = request.getfixturevalue(kind)
    answers = one.answers(7, {"near": NEAR, "far": FAR})
    told = ask_triplet(one.result, one.about()["names"][7])["answers"]
    for name, each in answers.items():
        assert each["d"] == [told[name]["d0"], told[name]["d1"]]
        for key in ("P", "nll", "P_model", "standard_error"):
            assert each[key] == told[name][key]
        assert (abs(each["P_model"] - each["P"]) > 1e-9) == (kind == "crossed")


def test_a_comparison_on_some_rows_is_that_of_a_table_of_these_rows(explored: Explored) -> None:
    keep = explored.labels["group"].to_numpy() == "cnn"
    found = explored.compared(NEAR, FAR, keep)
    table = explored.result.outcome_rows("near").filter(pl.Series(keep))
    votes = Triplets.from_frame(table.select("triplet", "group", "ref", "x0", "x1", "n", "M", "d0", "d1"))
    dependence = clustering_of(votes)
    P = {name: explored.points(each).P[keep] for name, each in (("near", NEAR), ("far", FAR))}
    values = {name: values_of(votes, p, values_per_row(votes, p, draws=0), dependence) for name, p in P.items()}
    (wanted,) = compare(values, dependence, estimator="", measures={"nll": COMPARED[2]["nll"]})
    assert found == wanted | {"rows": int(keep.sum())}
    # The slow version of the difference.
    gap = [explored.points(NEAR).nll[row] - explored.points(FAR).nll[row] for row in np.flatnonzero(keep)]
    assert found["difference"] == pytest.approx(sum(gap) / len(gap))
    assert found["sentence"].startswith("near explains the votes better than far: ")


def test_on_all_rows_the_evaluated_comparison_is_shown(explored: Explored) -> None:
    every = np.ones(len(explored), dtype=bool)
    found = explored.compared(FAR, NEAR, every)
    wanted = next(r for r in explored.result.comparisons if r["measure"] == "nll")
    assert found == wanted | {"rows": 90, "evaluated": True}
    again = explored.compared(AGAIN, Fitted("far", REFIT, 0.1, 20), every)
    assert "evaluated" not in again
    assert again["difference"] == pytest.approx(wanted["difference"])


def test_a_single_row_cannot_be_compared(explored: Explored) -> None:
    keep = np.arange(len(explored)) == 3
    P = {name: explored.points(each).P for name, each in (("near", NEAR), ("far", FAR))}
    assert compare_rows(explored.result, P, keep) == {
        "rows": 1,
        "sentence": "two triplets at least are needed to compare",
    }


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
@pytest.mark.parametrize(
    "path", ["/", "/image/0/ref", "/about.json", "/points?distance=near", "/report.html", "/assets/page.js"]
)
def test_a_foreign_host_is_refused(client: FlaskClient, host: str, path: str) -> None:
    answer = get(client, path, f"http://{host}")
    assert answer.status_code == 403
    assert b"served only as 127.0.0.1 or localhost" in answer.data


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "LOCALHOST:9", "localhost"])
def test_this_machine_is_welcome(client: FlaskClient, host: str) -> None:
    assert get(client, "/", f"http://{host}").status_code == 200


def test_a_foreign_page_is_refused(client: FlaskClient) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "https://localhost:8050"):
        headers = {"Origin": origin}
        answer = client.post("/compare", base_url=LOCAL, query_string=ASKED, data=ALL, headers=headers)
        assert answer.status_code == 403, origin
    assert get(client, "/", headers={"Origin": LOCAL}).status_code == 200


ROUTES = (
    "/assets/",
    "/assets/none.js",
    "/static/page.js",
    "/image",
    "/image/",
    "/etc/passwd",
    "/scores.json",
    "/row/90",
)


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
    "/report.html/../scores.json",
    "/row/-1",
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


def test_large_images_are_shown_small_in_lists(explored: Explored, tmp_path: Path) -> None:
    (tmp_path / "x0").mkdir()
    Image.new("RGB", (1500, 900), (9, 99, 199)).save(tmp_path / "x0" / "000.png")
    Image.new("L", (100, 50), 7).save(tmp_path / "x0" / "001.png")
    client = application(explored, Pictures(tmp_path)).test_client()
    small, whole = (get(client, f"/image/0/x0{how}") for how in ("?small", ""))
    assert small.mimetype == "image/jpeg"
    assert Image.open(io.BytesIO(small.data)).size == (320, 192)
    assert whole.data == (tmp_path / "x0" / "000.png").read_bytes()
    assert get(client, "/image/1/x0?small").data == (tmp_path / "x0" / "001.png").read_bytes()
    assert get(client, "/image/2/x0?small").status_code == 404


def test_missing_images_are_counted_and_some_are_named(explored: Explored, tmp_path: Path) -> None:
    write_images(tmp_path / "images")
    client = application(explored, Pictures(tmp_path / "images")).test_client()
    assert get(client, "/missing.json").json == {"images": 200, "missing": 0, "names": []}
    for row in range(7):
        (tmp_path / "images" / "x1" / f"{row:03}.png").unlink()
    named = [f"x1/{row:03}" for row in range(5)]
    assert get(client, "/missing.json").json == {"images": 200, "missing": 7, "names": named}
    assert get(application(explored).test_client(), "/missing.json").status_code == 404


def test_the_report_is_served_and_leads_back(client: FlaskClient, folder: Path) -> None:
    answer = get(client, "/report.html")
    assert (answer.status_code, answer.mimetype) == (200, "text/html")
    assert 'href="/"' in answer.text
    assert 'href="http://127.0.0.1:8050/"' in (folder / "report.html").read_text(encoding="utf-8")
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src" not in policy
    assert "default-src 'none'" in policy


ASKED = {"distance": "near", "other": "far", "estimator": "density"}
ALL = np.packbits(np.arange(96) < 90, bitorder="little").tobytes()


def test_a_comparison_takes_the_rows_as_bits(client: FlaskClient, explored: Explored) -> None:
    for wanted in (range(90), range(0, 90, 2), [5, 6, 89]):
        bits = np.packbits(np.isin(np.arange(96), wanted), bitorder="little").tobytes()
        answer = client.post("/compare", base_url=LOCAL, query_string=ASKED, data=bits)
        assert answer.json["rows"] == len(wanted)
        keep = np.isin(np.arange(90), wanted)
        assert answer.json["sentence"] == explored.compared(NEAR, FAR, keep)["sentence"]


@pytest.mark.parametrize("value", ["-1", "1e308", "9" * 500, "NaN", "", "same", "None"])
@pytest.mark.parametrize("name", ["distance", "other", "estimator", "sigma", "grid"])
def test_values_that_no_page_sends_are_refused(client: FlaskClient, name: str, value: str) -> None:
    refit = {"distance": "near", "other": "far", "estimator": REFIT, "sigma": "0.1", "grid": "20"}
    assert client.post("/compare", base_url=LOCAL, query_string=refit, data=ALL).status_code == 200
    asked = refit | {name: value}
    assert client.post("/compare", base_url=LOCAL, query_string=asked, data=ALL).status_code in (400, 404)
    assert get(client, "/points", query_string=asked).status_code < 500
    assert get(client, "/row/3", query_string=asked).status_code < 500


@pytest.mark.parametrize("body", [b"", b"[]", ALL + b"x", b"\xff"])
def test_what_is_no_question_is_refused_without_a_word(
    client: FlaskClient, body: bytes, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert client.post("/compare", base_url=LOCAL, query_string=ASKED, data=body).status_code == 400
    for origin in ("http://[", "http://[::1", "//", "\x00"):
        assert get(client, "/", headers={"Origin": origin}).status_code == 403
    assert get(client, "/", headers={"Host": "["}).status_code in (400, 403)
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []


def test_a_request_that_is_too_large_is_refused(client: FlaskClient) -> None:
    answer = client.post("/compare", base_url=LOCAL, query_string=ASKED, data=b"a" * (MOST_BYTES + 1))
    assert answer.status_code == 413


def test_what_fails_in_our_own_code_is_told(
    client: FlaskClient, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a mistake\x1b[2J of ours")

    monkeypatch.setattr(Explored, "answers", broken)
    answer = get(client, "/row/0")
    assert answer.status_code == 500
    told = "GET /row/0 failed: RuntimeError: a mistake\ufffd[2J of ours"
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
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"


def test_the_page_names_no_other_place(client: FlaskClient) -> None:
    text = get(client, "/").text
    assert "http://" not in text
    assert "https://" not in text


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


def test_mistakes_are_told_in_one_line(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = f"port {port} is taken; choose another with --port, or none"
        assert failure(capsys, str(folder), "--port", str(port)) == told
    told = "a port must be a number from 1 to 65535; found 99999; choose another, or none"
    assert failure(capsys, str(folder), "--port", "99999") == told


def test_without_flask_the_line_to_install_it_is_told(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flask", None)
    assert failure(capsys, str(folder)) == "flask is not installed; run: pip install 'twoafc[explore]'"


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


def test_the_package_loads_no_flask_before_it_is_asked_to() -> None:
    program = "import sys, twoafc, twoafc.cli, twoafc.explore; sys.exit('flask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

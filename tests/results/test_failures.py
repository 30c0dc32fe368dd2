"""Surprise is fair over M; the lists, their cards and their folder."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import binom

from commands import refused
from conftest import random_table
from drawing import plain_results
from twoafc import Density, metrics
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.evaluation import evaluate
from twoafc.results import (
    Pictures,
    Result,
    ask,
    best_distance,
    by_chance,
    disagreements,
    failure_cards,
    missing_images,
    most_surprising,
    surprise,
    surprising,
    triplet_images,
)

chances = st.floats(0, 1, allow_subnormal=False)


def slow_surprise(n: int, M: int, P: float) -> float:
    """From the definition, count by count."""
    chance = [binom.pmf(j, M, P) for j in range(M + 1)]
    alike = [math.isclose(each, chance[n], rel_tol=1e-6) for each in chance]
    less = sum(p for p, same in zip(chance, alike, strict=True) if p < chance[n] and not same)
    mid = less + sum(p for p, same in zip(chance, alike, strict=True) if same) / 2
    return math.inf if mid == 0 else -math.log2(mid)


@given(st.integers(1, 30), st.floats(0.02, 0.98), st.data())
def test_surprise_is_the_mid_p_value_in_bits(M: int, P: float, data: st.DataObject) -> None:
    n = data.draw(st.integers(0, M))
    assert surprise(n, M, P) == pytest.approx(slow_surprise(n, M, P), rel=1e-6, abs=1e-9)


@given(st.integers(1, 40), chances)
def test_the_mid_p_value_is_one_half_on_average_whatever_M_and_P(M: int, P: float) -> None:
    j = np.arange(M + 1)
    mid = np.exp2(-surprise(j, M, np.full(M + 1, P)))
    assert np.sum(np.exp(metrics.log_likelihood(j, M, P)) * mid) == pytest.approx(0.5, abs=1e-6)


@given(st.integers(1, 40), chances, st.data())
def test_a_likelier_count_surprises_no_more_and_the_mirrored_one_as_much(M: int, P: float, data: st.DataObject) -> None:
    n, m = data.draw(st.integers(0, M)), data.draw(st.integers(0, M))
    one, other = surprise([n, m], [M, M], [P, P])
    if metrics.log_likelihood(n, M, P) > metrics.log_likelihood(m, M, P):
        assert one <= other + 1e-9
    if P == 1 - (1 - P):
        assert one == pytest.approx(float(surprise(M - n, M, 1 - P)), abs=1e-6)


def test_many_votes_on_a_triplet_take_neither_time_nor_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    M, P = np.full(5, 5000), np.array([0.5, 0.5, 0.3, 0.9, 0.02])
    n = np.round(M * P + np.array([0.0, 3.0, -2.0, 4.0, 5.0]) * np.sqrt(M * P * (1 - P))).astype(int)
    exact, expected = surprise(n, M, P), by_chance([1.0, 5.0], M, P)
    monkeypatch.setattr("twoafc.results.failures.MANY", 1000)
    np.testing.assert_allclose(surprise(n, M, P), exact, rtol=0.05, atol=0.05)
    np.testing.assert_allclose(by_chance([1.0, 5.0], M, P), expected, rtol=0.05)
    assert surprise(10**9, 10**9, 0.5) > 1e8
    assert surprise(0, 10**9, 0.0) == 0.0


def test_of_many_counts_some_are_listed_among_them_the_observed_one() -> None:
    fit = Density().fit(random_table())
    answer = ask(fit, 1.0, 2.0, votes=10_000, observed=1234)
    counts = answer["counts"]
    assert [counts[0]["j"], counts[-1]["j"], len(counts)] == [0, 10_000, 1002]
    (observed,) = (count for count in counts if count["observed"])
    assert (observed["j"], observed["nll"]) == (1234, pytest.approx(-binom.logpmf(1234, 10_000, answer["P"])))
    assert [count["j"] for count in ask(fit, 1.0, 2.0, votes=1000, observed=7)["counts"]] == list(range(1001))


def test_what_cannot_be_is_infinitely_surprising_and_what_must_be_one_bit() -> None:
    np.testing.assert_array_equal(surprise([3, 0, 3], [3, 3, 3], [0.0, 0.0, 1.0]), [np.inf, 1.0, 1.0])
    # Far in the tail, where the chance itself is no number any more.
    assert surprise(2000, 2000, 0.5) == pytest.approx(2000)
    assert 2000 < surprise(1000, 1000, 0.1) < 4000


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_the_most_surprising_row_is_that_of_the_whole_list(T: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    M, P = rng.integers(1, most + 1, T), rng.choice([0.0, 0.01, 0.3, 0.5, 0.9, 1.0], T)
    n = rng.integers(0, M + 1)
    rows = pl.DataFrame({"n": n, "M": M, "P": P, "nll": -metrics.log_likelihood(n, M, P)})
    found, bits = most_surprising(rows), surprise(n, M, P)
    assert found["surprise"] == bits.max()
    assert found["nll"] == rows["nll"].to_numpy()[bits == bits.max()].max()


def test_surprise_does_not_depend_on_how_many_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = random_table(300)
    P = np.random.default_rng(0).random(300)
    whole = surprise(table.n, table.M, P)
    monkeypatch.setattr("twoafc.results.failures.AT_ONCE", 7)
    np.testing.assert_array_equal(surprise(table.n, table.M, P), whole)
    np.testing.assert_array_equal(whole[:1], surprise(table.n[:1], table.M[:1], P[:1]))


def test_if_P_is_true_surprises_come_as_often_as_they_should() -> None:
    rng = np.random.default_rng(3)
    M, P = rng.integers(1, 12, 200_000), rng.random(200_000)
    n = rng.binomial(M, P)
    bits = surprise(n, M, P)
    levels = np.array([8.0, 2.0, 1.0, 5.0, 20.0])
    expected = by_chance(levels, M, P)
    for level, count in zip(levels, expected, strict=True):
        assert abs((bits >= level).sum() - count) < 4 * np.sqrt(count) + 1
    # The NLL, in contrast, lists the triplets that many people saw.
    nll = -metrics.log_likelihood(n, M, P)
    assert M[np.argsort(-nll)[:2000]].mean() > M[np.argsort(-bits)[:2000]].mean() + 0.5


def test_what_is_expected_by_chance_is_summed_over_all_counts() -> None:
    M, P = np.array([1, 4, 4, 7]), np.array([0.3, 0.5, 0.9, 0.05])
    levels = [0.5, 3.0, 1.0, 3.0]
    slow = [
        sum(binom.pmf(j, m, p) for m, p in zip(M, P, strict=True) for j in range(m + 1) if surprise(j, m, p) >= level)
        for level in levels
    ]
    np.testing.assert_allclose(by_chance(levels, M, P), slow)
    assert by_chance([0.0], M, P) == pytest.approx(4)


# Result folders


def table(T: int, seed: int) -> pl.DataFrame:
    frame = random_table(
        T, M=12, seed=seed, ref=[f"r{i % 9}" for i in range(T)], group=["g", "h"] * (T // 2)
    ).to_frame()
    rng = np.random.default_rng(seed + 100)  # other draws than those of the distances
    worse = {f"b_d{k}": frame[f"d{k}"].to_numpy() * rng.lognormal(sigma=0.7, size=T) for k in (0, 1)}
    named = {f"x{k}": pl.Series([f"x{k}/{i}" for i in range(T)]) for k in (0, 1)}
    triplet = pl.Series([f"t/{i}" for i in range(T)])
    return frame.rename({"d0": "a_d0", "d1": "a_d1"}).with_columns(**worse, **named, triplet=triplet)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Result of two distances, two estimators and two seeds, with images of some of the tested triplets beside."""
    place = tmp_path_factory.mktemp("failures")
    table(400, 1).write_csv(place / "train.csv")
    table(120, 2).write_csv(place / "test.csv")
    arguments = f"--train {place}/train.csv --test {place}/test.csv --out {place}/res --seeds 2 --quiet".split()
    with plain_results():
        main(["evaluate", *arguments, "--estimator", "density", "--estimator", "network"])
    for name in [f"x{k}/{i}.png" for k in (0, 1) for i in range(0, 120, 2)] + [f"r{i}.png" for i in range(9)]:
        path = place / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (hash(name) % 256, 90, 200)).save(path)
    return place


@pytest.fixture(scope="module")
def results(folder: Path) -> Result:
    return Result.read(folder / "res")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_outcomes_are_the_tested_ones_and_the_mean_over_seeds(results: Result) -> None:
    alone = results.outcomes("b", "density")
    rows = results.rows.filter(distance="b", estimator="density")
    assert alone["P"].to_list() == rows["P"].to_list()
    assert alone["nll"].to_list() == rows["nll"].to_list()
    seeds = results.rows.filter(distance="a", estimator="network").partition_by("seed", maintain_order=True)
    assert len(seeds) == 2
    mean = results.outcomes("a", "network")
    np.testing.assert_allclose(mean["P"], (seeds[0]["P"] + seeds[1]["P"]) / 2)
    np.testing.assert_allclose(mean["nll"], -metrics.log_likelihood(mean["n"], mean["M"], mean["P"]))
    assert results.outcomes()["distance"].unique().to_list() == ["a"]


def test_runs_that_diverged_have_no_say(results: Result) -> None:
    frame = results.rows.with_columns(diverged=pl.col("diverged") | (pl.col("seed") == 0))
    left = results.replace(triplets=frame)
    one = frame.filter(distance="a", estimator="network", seed=1)
    assert left.outcomes("a", "network")["P"].to_list() == one["P"].to_list()
    left = left.replace(triplets=frame.with_columns(diverged=pl.lit(True)))
    with pytest.raises(DataError) as caught:
        left.outcomes("a", "network")
    assert str(caught.value) == "every run of a, network diverged; there is no P or NLL for its triplets"


def test_the_most_surprising_come_first(results: Result) -> None:
    every = surprising(results, "b", top=1000)
    assert len(every) == 120
    assert every["surprise"].is_sorted(descending=True)
    np.testing.assert_array_equal(every["surprise"], surprise(every["n"], every["M"], every["P"]))
    assert every["by_chance"].is_sorted()
    np.testing.assert_allclose(every["by_chance"], by_chance(*(every[name] for name in ("surprise", "M", "P"))))
    assert surprising(results, "b", top=7).equals(every.head(7))
    assert set(every["distance"]) == {"b"}


def test_disagreements_are_found_without_the_votes_and_decided_by_them(results: Result) -> None:
    every = disagreements(results, "a", "b", top=1000)
    assert every["apart"].is_sorted(descending=True)
    one, other = (results.outcomes(name).sort("triplet") for name in ("a", "b"))
    by_name = every.sort("triplet")
    np.testing.assert_array_equal(by_name["apart"], np.abs(one["P"].to_numpy() - other["P"].to_numpy()))
    gap = other["nll"].to_numpy() - one["nll"].to_numpy()
    right = ["a" if g >= math.log(10) else "b" if g <= -math.log(10) else None for g in gap]
    assert by_name["right"].to_list() == right
    assert {"a", "b", None} == set(right)
    np.testing.assert_allclose(by_name["ratio"], np.exp(np.abs(gap)))
    turned = disagreements(results, "b", "a", top=1000)
    assert turned["right"].to_list() == every["right"].to_list()
    assert turned["P_b"].to_list() == every["P_a"].to_list()


def test_votes_impossible_under_one_decide_and_under_both_cannot(results: Result) -> None:
    frame = results.rows.filter(estimator="density").with_columns(n=pl.lit(1), M=pl.lit(1))
    frame = frame.with_columns(P=pl.when(distance="a").then(0.0).otherwise(1.0))
    frame = frame.with_columns(nll=pl.when(distance="a").then(math.inf).otherwise(0.0))
    made = results.replace(triplets=frame)
    assert set(disagreements(made, "a", "b", top=200)["right"]) == {"b"}
    made = made.replace(triplets=frame.with_columns(P=pl.lit(0.0), nll=pl.lit(math.inf)))
    assert set(disagreements(made, "a", "b", top=200)["right"]) == {None}
    assert surprising(made, "a")["surprise"].to_list() == [math.inf] * 20


def test_mistakes_are_told(results: Result) -> None:
    where = results.folder
    cases = [
        (lambda: surprising(results, "c"), f"no distance 'c' in {where}; it has a, b"),
        (lambda: surprising(results, estimator="spline"), f"no estimator 'spline' in {where}; it has density, network"),
        (lambda: surprising(results, top=0), "top must be at least 1; found 0"),
        (lambda: disagreements(results, "a", "b", top=-1), "top must be at least 1; found -1"),
        (lambda: disagreements(results, "a", "a"), "a disagreement needs two distances; found a twice"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
            call()
        assert str(caught.value) == message
    changed = results.rows.with_columns(n=pl.when(distance="a").then(0).otherwise(pl.col("n")))
    made = results.replace(triplets=changed)
    with pytest.raises(DataError) as caught:
        disagreements(made, "a", "b")
    assert str(caught.value) == f"a and b must be tested on the same triplets; those of {where} differ"


def test_the_command_prints_the_list(folder: Path, results: Result, capsys: pytest.CaptureFixture[str]) -> None:
    main(["failures", f"{folder}/res", "--distance", "b", "--top", "3"])
    said = capsys.readouterr().out
    for row in surprising(results, "b", top=3).iter_rows(named=True):
        line = next(line for line in said.splitlines() if f" {row['triplet']} " in line)
        assert f"{row['n']} of {row['M']}" in line
        assert f"{row['surprise']:.1f}" in line
        assert f"{row['nll']:.4f}" in line
    assert "by chance: how many of all 120 triplets would surprise as much, on average, if P were true" in said
    assert os.listdir() == []


def test_the_command_says_who_was_right(folder: Path, results: Result, capsys: pytest.CaptureFixture[str]) -> None:
    main(["failures", f"{folder}/res", "--versus", "b", "--top", "30", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [r["triplet"] for r in told["failures"]] == disagreements(results, "a", "b", top=30)["triplet"].to_list()
    right = [r["right"] for r in told["failures"]]
    assert told["notes"][0] == (
        f"of these 30 triplets, chosen without regard to the votes, a is right on {right.count('a')}, "
        f"b is right on {right.count('b')}; on {right.count(None)} the votes do not decide"
    )
    main(["failures", f"{folder}/res", "--versus", "b", "--top", "2"])
    assert told["notes"][1] in capsys.readouterr().out


def test_a_folder_has_the_list_and_a_card_of_each(folder: Path, results: Result, capsys: Any) -> None:
    command = ["failures", f"{folder}/res", "--top", "2", "--out", "out", "--images", f"{folder}/images"]
    main(command)
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "Failures: out"
    rows = surprising(results, top=2)
    names = [f"{i:03d}-{name.replace('/', '_')}.svg" for i, name in enumerate(rows["triplet"], start=1)]
    assert sorted(os.listdir("out/figures")) == names
    assert sorted(os.listdir("out")) == ["cards.pdf", "failures.csv", "failures.json", "figures"]
    assert pl.read_csv("out/failures.csv")["surprise"].to_list() == pytest.approx(rows["surprise"].to_list())
    assert json.loads(Path("out/failures.json").read_text())["card"]["results"]["data"]["test"]["file"] == "test.csv"
    images = [rows[each][i] for i in range(2) for each in ("x0", "ref", "x1")]
    absent = sorted({name for name in images if not name.startswith("r") and int(name.split("/")[1]) % 2})
    assert any(line.startswith(f"{len(absent)} of ") for line in said) == bool(absent)
    main(["failures", f"{folder}/res", "--top", "1", "--out", "out", "--versus", "b", "--quiet"])
    assert len(os.listdir("out/figures")) == 1
    Path("out/mine.txt").touch()
    message = "out contains other files (mine.txt); choose a new folder, or one with failures alone"
    assert refused(capsys, *command) == message


def test_the_card_marks_who_was_right_as_the_list_does(results: Result) -> None:
    rows = disagreements(results, "a", "b", top=120)
    some = pl.concat([rows.filter(pl.col("right").eq_missing(who)).head(1) for who in ("a", "b", None)])
    for row, (_, figure) in zip(some.iter_rows(named=True), failure_cards(results, some, None), strict=True):
        titles = [ax.get_title() for ax in figure.axes[3:]]
        assert [title.startswith(f"{name}: right") for name, title in zip("ab", titles, strict=True)] == [
            row["right"] == name for name in "ab"
        ]
    assert best_distance({"a": {"nll": 1.0}, "b": {"nll": 9.0}, "c": {"nll": 1.5}}) == ""
    assert best_distance({"a": {"nll": math.inf}, "b": {"nll": 9.0}}) == "b"
    assert best_distance({"a": {"nll": math.inf}, "b": {"nll": math.inf}}) == ""


def test_images_come_in_the_order_of_the_card_and_missing_ones_are_none(folder: Path) -> None:
    pictures = Pictures(folder / "images")
    labels = {"x0": "x0/4", "ref": "r1", "x1": "x1/5"}
    x0, ref, x1 = triplet_images(labels, pictures)
    assert x0 is not None
    assert ref is not None
    assert x1 is None
    assert x0.shape == (30, 40, 3)
    np.testing.assert_array_equal(x0, np.asarray(Image.open(folder / "images/x0/4.png")))
    assert triplet_images(labels, None) == [None, None, None]
    both = triplet_images({"x0": "x0/4", "ref0": "r1", "ref1": "r2", "x1": "x1/4"}, pictures)[1]
    assert both is not None
    assert both.shape == (30, 80, 3)
    assert triplet_images({"x0": "../test", "ref": "/etc/passwd", "x1": "x1/4"}, pictures)[:2] == [None, None]


def test_large_and_deep_images_are_made_small_and_broken_ones_are_left_out(here: Path) -> None:
    Image.fromarray(np.full((700, 300), 51 * 257, dtype=np.uint16)).save("deep.png")
    Path("broken.png").write_bytes(b"nothing")
    deep, broken, _ = triplet_images({"x0": "deep", "ref": "broken"}, Pictures(here))
    assert broken is None
    assert deep is not None
    assert deep.shape == (256, 110, 3)
    assert set(deep.ravel().tolist()) == {51}


def test_an_estimator_that_leaves_no_model_has_cards_without_an_error(folder: Path, here: Path) -> None:
    shutil.copytree(folder / "res", "res")
    shutil.rmtree("res/models")
    rows = disagreements(Result.read("res"), "a", "b", top=1)
    ((name, figure),) = failure_cards(Result.read("res"), rows, None)
    assert name.startswith("001-t_")
    said = [text.get_text() for ax in figure.axes for text in (ax.title, ax.xaxis.label)]
    assert f"P = {rows['P_a'].item():.3f}" in " ".join(said)
    assert "±" not in " ".join(said)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--images", "."], "--images needs --out, the folder for the cards"),
        (["--images", "none", "--out", "o"], "no such folder of images: none"),
        (["--distance", "x"], "no distance 'x' in RES; it has a, b"),
        (["--versus", "x"], "no distance 'x' in RES; it has a, b"),
        (
            ["--out", "RES/failures"],
            "RES/failures lies in RES, which is replaced as a whole by twoafc evaluate; name another folder",
        ),
    ],
)
def test_mistakes_get_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    res = f"{folder}/res"
    said = refused(capsys, "failures", res, *(option.replace("RES", res) for option in options))
    assert said == message.replace("RES", res)


def test_results_without_images_are_refused(folder: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = Result.read(folder / "res")
    with plain_results():
        found.replace(triplets=found.rows.drop("x0", "x1", "ref")).write("res")
    said = refused(capsys, "failures", "res", "--out", "o", "--images", ".")
    assert said == "res names no images; the table that was tested had no columns ref, x0, x1"


def test_the_real_material_is_drawn_with_its_images(shared: Path, material: Any) -> None:
    train, test = material
    made = evaluate(train.where(np.arange(len(train)) < 2000)["ssim"], test["ssim"])
    pictures = Pictures(shared / "data" / "material" / "images")
    rows = surprising(made, top=2)
    assert missing_images(rows.iter_rows(named=True), pictures) == []
    for row, (_, figure) in zip(rows.iter_rows(named=True), failure_cards(made, rows, pictures), strict=True):
        for ax, image in zip(figure.axes, triplet_images(row, pictures), strict=False):
            np.testing.assert_array_equal(ax.images[0].get_array(), image)
        assert f"surprise {row['surprise']:.1f} bits" in figure.get_suptitle()


def test_unanimous_votes_of_many_people_are_no_obstacle() -> None:
    rows = pl.DataFrame({"n": [20_000, 3], "M": [20_000, 5], "P": [0.9, 0.5]})
    rows = rows.with_columns(nll=-pl.Series(metrics.log_likelihood(rows["n"], rows["M"], rows["P"])))
    assert most_surprising(rows)["n"] == 20_000

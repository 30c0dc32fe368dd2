"""Comparing finished evaluations: on the triplets that they share, or a clear refusal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from commands import refused as refused_command
from drawing import plain_results
from pairs_world import world as pairs
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.estimators import Density, Network
from twoafc.evaluation import Settings, evaluate
from twoafc.inference import COMPARED, holm, sentence
from twoafc.results import Result
from twoafc.table import Pairs, Triplets

NO_REFERENCES = (
    "error bars take triplets as independent: the table has no column ref; they are too small where references recur"
)
NOISE = {"a": 0.1, "bb": 1.2}


def table(T: int, seed: int, noise: dict[str, float]) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    true = rng.lognormal(size=(2, T))
    n = rng.binomial(3, true[0] ** 2 / (true[0] ** 2 + true[1] ** 2))
    columns: dict[str, Any] = {"triplet": [f"t{k}" for k in range(T)], "n": n, "M": [3] * T}
    for name, each in noise.items():
        seen = true * np.exp(each * np.random.default_rng([seed, len(name)]).normal(size=(2, T)))
        columns |= {f"{name}_d0": seen[0], f"{name}_d1": seen[1]}
    return pl.DataFrame(columns)


def write(folder: Path, test: pl.DataFrame, estimators: dict[str, Any] | None = None, **settings: Any) -> Path:
    train = Triplets.from_frame(table(600, 1, {name: NOISE[name] for name in NOISE if f"{name}_d0" in test.columns}))
    chosen = estimators or {"density": Density(sigma=0.1)}
    found = evaluate(train, Triplets.from_frame(test), estimators=chosen, settings=Settings(**settings))
    with plain_results():
        found.write(folder)
    return folder


def test_a_folder_compares_as_it_did_when_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "r", table(400, 2, NOISE))
    found = Result.read(tmp_path / "r").compare()
    told = json.loads((tmp_path / "r" / "scores.json").read_text())
    assert found.comparisons == told["comparisons"]
    assert len(found.comparisons) == 3
    told_bars = "95 % intervals for other test triplets; noise of training included; triplets taken as independent"
    assert found.notes == [f"400 triplets; {told_bars}", NO_REFERENCES]
    assert [(r["distance"], r["letters"]) for r in found.letters if r["measure"] == "nll"] == [("a", "a"), ("bb", "b")]
    kept = pl.read_csv(tmp_path / "r" / "comparisons.csv")
    assert kept["sentence"].to_list() == [record["sentence"] for record in found.comparisons]
    record = next(r for r in told["scores"] if r["split"] == "test" and r["distance"] == "bb")
    assert record["nll_letters"] == "b"
    assert record["nll_low"] < record["nll"] < record["nll_high"]


def test_sentences_name_the_estimator_where_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {"wide": Density(sigma=0.1), "narrow": Density(sigma=0.03)}
    write(tmp_path / "two", table(400, 2, NOISE), chosen)
    main(["compare", str(tmp_path / "two")])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("wide: a explains the votes better than bb: ") for line in lines) == 1
    assert sum(line.startswith("narrow: a explains the votes better than bb: ") for line in lines) == 1
    write(tmp_path / "one", table(400, 2, NOISE))
    main(["compare", str(tmp_path / "one")])
    assert any(line.startswith("a explains the votes") for line in capsys.readouterr().out.splitlines())


def test_two_folders_are_compared_on_the_triplets_they_share(tmp_path: Path) -> None:
    whole = table(400, 2, NOISE)
    both = write(tmp_path / "both", whole, error_bars="fixed")
    first = write(tmp_path / "first", whole.drop("bb_d0", "bb_d1"), error_bars="fixed")
    # Half of the rows, in another order.
    part = whole.drop("a_d0", "a_d1")[::-1][:200]
    second = write(tmp_path / "second", part, error_bars="fixed")
    found = Result.read(first).compare(second)
    assert found.notes[0] == "first: 200 of 400 triplets are not in the others and are left out"
    long = pl.read_parquet(both / "triplets.parquet").filter(pl.col("triplet").is_in(part["triplet"].to_list()))
    a, b = (long.filter(distance=name)["nll"].to_numpy() for name in ("a", "bb"))
    (record,) = (r for r in found.comparisons if r["measure"] == "nll")
    assert (record["a"], record["b"]) == ("a", "bb")
    assert record["difference"] == pytest.approx(a.mean() - b.mean(), rel=1e-9)
    assert record["se"] == pytest.approx(np.std(a - b, ddof=1) / np.sqrt(200), rel=1e-6)


def test_seeds_are_averaged_over_those_that_did_not_diverge(tmp_path: Path) -> None:
    network = {"network": Network(epochs=1)}
    write(tmp_path / "r", table(150, 2, NOISE), network, seeds=2)
    found = Result.read(tmp_path / "r").compare()
    long = pl.read_parquet(tmp_path / "r" / "triplets.parquet")
    means = {name: long.filter(distance=name)["nll"].mean() for name in NOISE}
    (record,) = (r for r in found.comparisons if r["measure"] == "nll")
    assert record["difference"] == pytest.approx(-abs(means["a"] - means["bb"]), rel=1e-9)


def refused(tmp_path: Path, *folders: Path) -> str:
    with pytest.raises(DataError) as caught:
        Result.read(folders[0]).compare(*folders[1:])
    return str(caught.value).replace(str(tmp_path), "~")


def test_rows_without_names_are_recognised_by_their_images(tmp_path: Path) -> None:
    images = {name: pl.Series([f"{name}{k}" for k in range(60)]) for name in ("ref", "x0", "x1")}
    whole = table(60, 2, NOISE).drop("triplet").with_columns(**images)
    first, other = write(tmp_path / "first", whole), write(tmp_path / "other", whole[1:].reverse())
    notes = Result.read(first).compare(other).notes
    assert any(note.endswith("first: 1 of 60 triplets are not in the others and are left out") for note in notes)


def test_votes_of_observers_follow_rows_that_are_recognised_by_their_images() -> None:
    """Whatever the order of the rows, and which result comes first."""
    votes = observed(120, 12)
    row = pl.Series(np.repeat(np.arange(120), 4))
    named = votes.drop("triplet").with_columns(
        ref="r" + (row % 30).cast(str), x0=row.cast(str) + "a", x1=row.cast(str) + "b"
    )
    train = table(600, 1, NOISE)
    whole = {r["measure"]: r for r in evaluate(train, named).comparisons}
    shuffled = named[np.argsort(np.random.default_rng(4).permutation(120)[row], kind="stable")]
    one, other = evaluate(train, named, distances="a"), evaluate(train, shuffled, distances="bb")
    some = evaluate(train, shuffled.filter(pl.col("x0") != "7a"), distances="bb")
    for first, second in ((one, other), (other, one)):
        for record in first.compare(second).comparisons:
            for field in ("difference", "se", "p", "df"):
                assert record[field] == pytest.approx(whole[record["measure"]][field], rel=1e-9), field
    left_out = "1 of 120 triplets are not in the others and are left out"
    assert one.compare(some).notes[0] == f"result 1: {left_out}"
    assert some.compare(one).notes[0] == f"result 2: {left_out}"
    unlike = evaluate(train, named.with_columns(choice=pl.lit(1)), distances="bb")
    with pytest.raises(DataError, match=r"^folders are compared on the same test table; triplet r0 0a 0b has n="):
        one.compare(unlike)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    whole = table(60, 2, NOISE)
    good = write(tmp_path / "good", whole)
    assert refused(tmp_path, good, good) == "a folder of results is given twice"
    with pytest.raises(TypeError, match=r"^compare takes other results or folders of results; got NoneType$"):
        Result.read(good).compare(None)  # type: ignore[arg-type]
    other = write(tmp_path / "other", whole.with_columns(triplet=pl.lit("u") + pl.col("triplet")))
    assert refused(tmp_path, good, other) == (
        "the folders share no triplet, by triplet; compare results on the same test table"
    )
    votes = write(tmp_path / "votes", whole.with_columns(n=3 - pl.col("n")))
    told = refused(tmp_path, good, votes)
    assert re.fullmatch(
        r"folders are compared on the same test table; triplet t\d+ has n=\d, M=3 and, in ~/votes, n=\d, M=3 "
        r"\(60 of 60 triplets\); rows of different tables need different names",
        told,
    )
    twice = write(tmp_path / "twice", whole.with_columns(triplet=pl.lit("t")))
    assert refused(tmp_path, twice, good) == (
        "~/twice has triplets of one name; give them a column triplet with a name for each"
    )
    lone = write(tmp_path / "lone", whole.drop("bb_d0", "bb_d1"))
    assert refused(tmp_path, lone) == "two distances under one estimator are needed to compare; found a (density)"


def test_the_command_tells_it_in_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "r", table(400, 2, NOISE))
    main(["compare", str(tmp_path / "r")])
    told = capsys.readouterr().out
    assert "a explains the votes better than bb: 0." in told
    assert "Cells: how far the row is behind the column; * significant (paired test, 5 %)." in told
    assert re.search(r"2 bb +\d\.\d{4} +0\.\d{3}\*", told)
    main(["compare", str(tmp_path / "r"), "--measure", "score_2afc_distance"])
    assert "a agrees with more votes than bb: " in capsys.readouterr().out
    assert "note: 400 triplets; 95 % intervals for other test triplets" in told
    main(["compare", str(tmp_path / "r"), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["comparisons", "letters", "notes"]
    with pytest.raises(SystemExit) as caught:
        main(["compare"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == "twoafc: name at least one folder of results, as twoafc evaluate writes it\n"


def write_pairs(folder: Path, test: Pairs) -> Path:
    train = pairs(400, seed=1)
    if len(test.distances) == 1:
        train = train[next(iter(test.distances))]
    with plain_results():
        evaluate(train, test, estimators=["density"]).write(folder)
    return folder


def test_pairs_are_compared_within_a_folder_and_between_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = pairs(200, seed=2, pair=[f"p{k}" for k in range(200)], ref=[f"r{k % 50}" for k in range(200)])
    both = Result.read(write_pairs(tmp_path / "both", test)).compare()
    assert both.notes[0].startswith("200 pairs; ")
    good, poor = (write_pairs(tmp_path / name, test[name]) for name in ("good", "poor"))
    between = Result.read(good).compare(poor)
    assert between.notes == ["200 pairs; noise of training included; clustered by ref (50 references)"]
    assert [record["measure"] for record in between.comparisons] == ["nll", "average_precision"]
    for one, other in zip(both.comparisons, between.comparisons, strict=True):
        assert one["sentence"] == other["sentence"]
        for name in ("difference", "se", "p_holm"):
            assert one[name] == pytest.approx(other[name], rel=1e-9)
    assert both.letters == [pytest.approx(record) for record in between.letters]
    main(["compare", str(good), str(poor), "--measure", "nll", "--measure", "average_precision"])
    said = capsys.readouterr().out
    assert "good explains the votes better than poor: " in said
    assert "AP % ↑, distance only" in said
    message = "--measure must be one of nll, average_precision for these results; found score_2afc"
    assert refused_command(capsys, "compare", str(good), str(poor), "--measure", "score_2afc") == message
    triplets = write(tmp_path / "triplets", table(60, 2, NOISE))
    assert refused(tmp_path, good, triplets) == (
        "folders must have rows of one kind; ~/good has pairs, ~/triplets triplets"
    )


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    whole = table(200, 2, {"a": 0.1})
    one = write(tmp_path / "one" / "results", whole, {"any": Density(sigma=0.02)})
    two = write(tmp_path / "two" / "results", whole, {"any": Density(sigma=0.1)})
    record = Result.read(one).compare(two).comparisons[0]
    assert {record["a"], record["b"]} == {f"a ({one})", f"a ({two})"}
    record = Result.read(one).compare(two.rename(tmp_path / "new")).comparisons[0]
    assert {record["a"], record["b"]} == {"a (results)", "a (new)"}
    assert refused(tmp_path, one, tmp_path / "two" / ".." / "one" / "results") == "a folder of results is given twice"


def observed(T: int, observers: int) -> pl.DataFrame:
    """Single votes; observers differ in how well they see."""
    rng = np.random.default_rng(3)
    wide = table(T, 5, NOISE)
    row = np.repeat(np.arange(T), 4)
    observer = rng.integers(observers, size=4 * T)
    share = (wide["n"].to_numpy() / 3)[row]
    choice = rng.random(4 * T) < np.where(observer % 2, share, 1 - share)
    return wide.drop("n", "M")[row].with_columns(observer=observer, choice=choice.astype(int))


def test_between_folders_observers_ties_and_divergence_count_as_within_one(tmp_path: Path) -> None:
    votes = observed(120, 12)
    both = write(tmp_path / "both", votes, ties="x0")
    first = write(tmp_path / "first", votes.drop("bb_d0", "bb_d1"), ties="x0")
    second = write(tmp_path / "second", votes.drop("a_d0", "a_d1"), ties="x0")
    own, between = Result.read(both).compare(), Result.read(first).compare(second)
    assert between.notes[-3:] == [
        "120 triplets; noise of training negligible with 600 training triplets; triplets taken as independent; "
        "votes by observer too (12 observers); tests may be a little cautious",
        "only 12 observers: other observers could give quite different scores, and tests may miss real differences",
        NO_REFERENCES,
    ]
    for mine, other in zip(own.comparisons, between.comparisons, strict=True):
        assert mine["se"] == pytest.approx(other["se"], rel=1e-9)
        assert mine["difference"] == pytest.approx(other["difference"], rel=1e-9)
    half = write(tmp_path / "half", votes.drop("a_d0", "a_d1"))
    assert refused(tmp_path, first, half) == (
        "folders must have the same rule for ties; found half and x0: use the same --ties"
    )
    refit = write(tmp_path / "refit", votes.drop("a_d0", "a_d1"), ties="x0", error_bars="refit", draws=3)
    told = Result.read(first).compare(refit).notes[-1]
    assert told == "a folder has its error bars by refit; these are by formula, of the fitted surfaces"


def test_runs_that_diverged_are_left_out(tmp_path: Path) -> None:
    whole = table(80, 2, NOISE)
    good = write(tmp_path / "good", whole.drop("bb_d0", "bb_d1"))
    bad = write(tmp_path / "bad", whole.drop("a_d0", "a_d1"))
    found = Result.read(bad)
    with plain_results():
        found.replace(triplets=found.rows.with_columns(diverged=pl.lit(True))).write(bad)
    assert refused(tmp_path, good, bad) == "every run of bb diverged; there is nothing to compare"


THREE = {"a": 0.1, "bb": 0.3, "ccc": 1.2}


def three(**asked: Any) -> Result:
    train, test = (Triplets.from_frame(table(T, seed, THREE)) for T, seed in ((600, 1), (400, 2)))
    return evaluate(train, test, estimators="density", **asked)


def test_planned_comparisons_are_corrected_for_these_alone(tmp_path: Path) -> None:
    whole, planned = three(), three(baseline="bb")
    every = {frozenset((r["a"], r["b"])): r for r in whole.comparisons if r["measure"] == "nll"}
    kept = [r for r in planned.comparisons if r["measure"] == "nll"]
    assert [{r["a"], r["b"]} for r in kept] == [{"a", "bb"}, {"bb", "ccc"}]
    np.testing.assert_allclose([r["p_holm"] for r in kept], holm([r["p"] for r in kept]))
    assert [r["p"] for r in kept] == [every[frozenset((r["a"], r["b"]))]["p"] for r in kept]
    assert {r["tests"] for r in kept} == {2}
    assert "nll_letters" not in planned.scores[0]
    assert planned.card["planned"] == [["a", "bb"], ["ccc", "bb"]]
    assert planned.verdict()[0].startswith("Against bb, the baseline: one ")
    # The same from the folder, and from a folder with all comparisons.
    with plain_results():
        planned.write(tmp_path / "planned")
        whole.write(tmp_path / "whole")
    again = Result.read(tmp_path / "planned").compare()
    assert again.planned
    assert again.comparisons == json.loads((tmp_path / "planned" / "scores.json").read_text())["comparisons"]
    assert Result.read(tmp_path / "whole").compare(baseline="bb").comparisons == again.comparisons


def test_a_single_comparison_needs_no_correction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = three(pairs=[("ccc", "a")])
    for record in alone.comparisons:
        assert record["p_holm"] == record["p"]
        assert (record["low_holm"], record["high_holm"]) == (record["low"], record["high"])
        assert "Holm" not in record["sentence"]
    assert alone.verdict()[0].startswith("a explains the votes better than ccc: ")
    with plain_results():
        alone.write(tmp_path / "r")
    assert "a explains the votes better than ccc: " in (tmp_path / "r" / "tables.tex").read_text()
    main(["compare", str(tmp_path / "r")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == [
        "a explains the votes better than ccc",
        "a agrees with more votes than ccc",
    ]
    # A pair that was not planned is computed from the triplets.
    main(["compare", str(tmp_path / "r"), "--pair", "a", "bb", "--json"])
    record = json.loads(capsys.readouterr().out)["comparisons"][0]
    expected = next(r for r in three().comparisons if {r["a"], r["b"]} == {"a", "bb"})
    assert (record["se"], record["p"]) == pytest.approx((expected["se"], expected["p"]), rel=1e-9)


def test_comparisons_that_cannot_be_made_are_refused(tmp_path: Path) -> None:
    known = "no distance 'd' to compare; there are a, bb, ccc"
    for asked, message in (
        ({"baseline": "d"}, known),
        ({"pairs": [("a", "d")]}, known),
        ({"pairs": [("a", "a")]}, "a comparison needs two different distances; got a twice"),
        ({"pairs": ["a"]}, 'pairs must be a list of two names each, [("lpips", "ssim")]; got [\'a\']'),
        ({"pairs": ("a", "bb")}, "pairs must be a list of two names each, [(\"lpips\", \"ssim\")]; got ['a', 'bb']"),
        (
            {"distances": "a", "baseline": "a"},
            "a baseline needs another distance to compare with; the table has only a",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            three(**asked)
    drawn = three(pairs=[("a", "bb")], settings=Settings(error_bars="bootstrap", draws=20))
    with pytest.raises(DataError) as caught:
        drawn.compare(baseline="ccc")
    assert str(caught.value) == (
        "the result lacks some of these comparisons; with error bars by bootstrap they must be requested in "
        "twoafc evaluate"
    )


def test_ten_distances_are_compared_in_under_forty_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = {name: table(200, 3, {"a" * k: 0.1 * k for k in range(1, 11)}) for name in ("train", "test")}
    tables = {name: Triplets.from_frame(frame) for name, frame in frames.items()}
    with plain_results():
        evaluate(**tables, estimators="density").write(tmp_path / "r")
    main(["compare", str(tmp_path / "r")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 40
    ranks = [line.split()[0] for line in lines[4:14]]
    assert ranks == [str(rank) for rank in range(1, 11)]


def test_planned_pairs_beside_a_baseline_and_several_estimators_are_answered() -> None:
    both = three(baseline="bb", pairs=[("a", "ccc")], settings=None)
    assert both.verdict()[0].startswith("Against bb, the baseline: ")
    assert both.verdict()[1].startswith("a explains the votes better than ccc: ")
    train, test = (Triplets.from_frame(table(T, seed, THREE)) for T, seed in ((600, 1), (400, 2)))
    several = evaluate(train, test, estimators=["density", "auto"], pairs=[("a", "ccc")])
    assert [line.split(":")[0] for line in several.verdict()[:2]] == ["density", "auto"]


def test_the_leading_set_is_told_apart_from_the_leader_alone() -> None:
    """Two of the set may differ from each other: the sentence must not deny that."""
    whole = three()
    order = [record["distance"] for record in whole.summary().to_dicts()]
    changed = [
        record | {"different": {record["a"], record["b"]} == set(order[1:])} if record["measure"] == "nll" else record
        for record in whole.comparisons
    ]
    said = whole.replace(comparisons=changed).verdict()[0]
    assert said.startswith(
        f"All three distances share the lead: {order[0]} is nominally first, and {order[1]}, {order[2]} cannot be told "
        f"apart from it. {order[0]} is ahead of "
    )


@pytest.mark.parametrize(("low", "p", "shown"), [(-0.0021, 0.04, "0.002 to 0.212"), (0.0021, 0.055, "-0.002 to 0.212")])
def test_the_side_of_zero_on_which_an_interval_ends_is_seen(low: float, p: float, shown: str) -> None:
    assert f"95 % interval {shown}, p" in sentence(COMPARED[2]["nll"], "a", "b", (-0.107, 0.05, -0.212, low), p)

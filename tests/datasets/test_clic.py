"""CLIC 2021: judgements merged, twins dropped, anchors found where there are images."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trees
from twoafc.datasets import NO_IMAGES, open_bapps_jnd, open_clic, open_dataset, without_anchors
from twoafc.errors import DataError
from twoafc.images import read_pixels


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return trees.write_clic(tmp_path)


def message(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        open_clic(path)
    return str(caught.value)


# --- the real answers -------------------------------------------------------------------------------------------------


def test_the_real_answers_give_the_known_figures(shared: Path) -> None:
    data = open_dataset(shared / "data" / "clic2021" / "oracle.csv")
    assert data.name == "clic"
    assert data.notes == (
        "5220 judgements of 315 originals",
        "5220 votes on 4812 triplets: repeats are merged, of which 168 were shown the other way round",
        "2 of 4812 triplets (2 judgements) dropped: A and B are one file",
        NO_IMAGES,
    )
    # The two that are dropped were judged once.
    assert np.bincount(data.M, minlength=11)[1:].tolist() == [4550 - 2, 192, 45, 10, 2, 2, 3, 5, 2, 1]
    n, M = data.n, data.M
    assert (M * (M - 1) // 2).sum() == 757
    assert (n * (n - 1) // 2 + (M - n) * (M - n - 1) // 2).sum() == 588
    repeated = M >= 2
    agreeing = (n * (n - 1) + (M - n) * (M - n - 1))[repeated] / (M * (M - 1))[repeated]
    assert repeated.sum() == 262
    assert agreeing.mean() == pytest.approx(0.7598, abs=5e-5)


# --- merging ----------------------------------------------------------------------------------------------------------


def test_repeats_are_merged_and_twins_dropped(answers: Path) -> None:
    data = open_dataset(answers)
    assert data.notes == (
        "16 judgements of 3 originals",
        "16 votes on 10 triplets: repeats are merged, of which 3 were shown the other way round",
        "1 of 10 triplets (1 judgements) dropped: A and B are one file",
    )
    first = data.table.row(0, named=True)
    # A, then B, then B shown as A: two of three for A's place, of which none for x1 but the second.
    assert (first["triplet"], first["n"], first["M"]) == ("0", 1, 3)
    assert data.M.tolist() == [3, 1, 1] * 3
    assert data.group is None


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("OP"), st.sampled_from("ABC"), st.sampled_from("ABC"), st.booleans()), min_size=1
    )
)
def test_merging_is_that_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, votes: list[tuple[str, str, str, bool]]
) -> None:
    """The slow and plain way: count who preferred which file, by original and unordered pair."""
    preferred: dict[tuple[str, frozenset[str]], list[str]] = {}
    for original, a, b, second in votes:
        if a != b:
            preferred.setdefault((original, frozenset((a, b))), []).append(b if second else a)
    path = tmp_path_factory.mktemp("clic") / "answers.csv"
    path.write_text("".join(f"{o}.png,{a}.png,{b}.png,{int(t)}\n" for o, a, b, t in votes))
    if not preferred:
        return
    data = open_clic(path)
    assert len(data) == len(preferred)
    for row in data.table.iter_rows(named=True):
        o, a, b = (row[role].removesuffix(".png") for role in ("ref", "x0", "x1"))
        chosen = preferred[o, frozenset((a, b))]
        assert (chosen.count(b), len(chosen)) == (row["n"], row["M"])


def test_line_ends_quotes_and_a_byte_order_mark_do_not_matter(answers: Path) -> None:
    before = open_clic(answers)
    answers.write_bytes(b"\xef\xbb\xbf" + answers.read_bytes().replace(b"\n", b"\r\n"))
    assert open_dataset(answers).table.equals(before.table)
    answers.write_text(re.sub(r"(\w+\.png)", r'"\1"', answers.read_text(encoding="utf-8-sig")))
    assert open_dataset(answers).table.equals(before.table)


def test_a_folder_with_its_answers_and_images_elsewhere(answers: Path, tmp_path: Path) -> None:
    assert open_dataset(answers.parent).table.equals(open_dataset(answers).table)
    moved = tmp_path / "elsewhere.csv"
    moved.parent.mkdir(exist_ok=True)
    moved.write_bytes(answers.read_bytes())
    (tmp_path / "sub").mkdir()
    away = moved.rename(tmp_path / "sub" / "elsewhere.csv")
    assert NO_IMAGES in open_dataset(away).notes
    assert open_dataset(away, folder=tmp_path).missing().is_empty()


# --- anchors ----------------------------------------------------------------------------------------------------------


def test_anchors_are_kept_until_asked_and_then_removed(answers: Path) -> None:
    data = open_dataset(answers)
    calls: list[tuple[int, int, str]] = []
    kept = without_anchors(data, progress=lambda *call: calls.append(call))
    assert kept.notes == (
        *data.notes,
        "3 of 9 triplets dropped: a choice is pixel-identical to the reference (anchors)",
    )
    anchors = [
        any(np.array_equal(read_pixels(data.path("ref", row)), read_pixels(data.path(x, row))) for x in ("x0", "x1"))
        for row in range(len(data))
    ]
    assert kept.table.equals(data.table.filter(~pl.Series(anchors)))
    assert kept.files["x0"].to_list() == kept.table["x0"].to_list()
    assert calls[-1] == (15, 15, "looking for anchors")


def test_anchors_cannot_be_detected_without_images(answers: Path) -> None:
    for image in answers.parent.glob("*.png"):
        image.unlink()
    data = open_dataset(answers)
    assert data.notes[-1] == NO_IMAGES
    with pytest.raises(DataError) as caught:
        without_anchors(data)
    assert str(caught.value) == (
        "anchors (choices pixel-identical to the reference) cannot be detected without the images"
    )


def test_triplets_with_missing_images_are_kept(answers: Path) -> None:
    data = open_dataset(answers)
    data.path("x0", 0).unlink()  # shown in the first two triplets
    data = open_dataset(answers)
    assert data.notes[-1] == f"images of 2 of 9 rows are missing; triplet 0, x0: no such file: {data.path('x0', 0)}"
    kept = without_anchors(data)
    assert kept.notes[-2:] == (
        "3 of 9 triplets dropped: a choice is pixel-identical to the reference (anchors)",
        "2 triplets have images that cannot be read: whether they are anchors is not known",
    )


def test_anchors_are_of_triplets(tmp_path: Path) -> None:
    trees.write_jnd(tmp_path)
    with pytest.raises(ValueError, match=r"^anchors are choices of triplets, ref, x0, x1; the data set has ref, x$"):
        without_anchors(open_bapps_jnd(tmp_path))


# --- bad answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("o.png,a.png,b.png\n", "the file has questions only, O,A,B; expected answers too, O,A,B,T"),
        ("o.png,a.png\n", "expected four columns, O,A,B,T, without a header; found 2"),
        ("o.png,a.png,b.png,2\n", "choice must be 0 or 1; line 1 has choice=2 (1 of 1 rows)"),
        ("o.png,a.png,b.png,0\no.png,,b.png,0\n", "x0 must not be missing; line 2 has no x0 (1 of 2 rows)"),
        ("o.png,a.png,b.png,0\no.png,a.png,b.png,\n", "choice must not be missing; line 2 has no choice (1 of 2 rows)"),
    ],
)
def test_bad_answers(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(text)
    assert message(path) == f"{path}: {expected}"


def test_no_answers(tmp_path: Path) -> None:
    assert message(tmp_path / "answers.csv") == f"no such file: {tmp_path / 'answers.csv'}"
    path = tmp_path / "answers.csv"
    path.write_text('o.png,a.png,b.png,0\n"o.png,a.png\n')
    assert message(path).startswith(f"{path}: ")


def test_only_twins(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("o.png,a.png,a.png,0\n")
    assert message(path) == f"{path}: no triplet is left: A and B are one file in every row"

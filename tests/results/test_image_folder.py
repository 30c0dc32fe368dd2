"""Images are found by name inside one folder, and no name leads out of it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from twoafc.errors import DataError
from twoafc.results import Pictures


def draw(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(path)
    return path.resolve()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    draw(tmp_path / "secret.png")
    draw(tmp_path / "images" / "2afc" / "val" / "cnn" / "ref" / "000001.png")
    draw(tmp_path / "images" / "plum.jpg")
    (tmp_path / "images" / "notes.txt").write_text("no image")
    return tmp_path / "images"


@pytest.mark.parametrize("name", ["plum", "plum.jpg", "./plum.jpg"])
def test_names_with_and_without_ending(tree: Path, name: str) -> None:
    assert Pictures(tree).path(name) == (tree / "plum.jpg").resolve()


@pytest.mark.parametrize("inner", ["", "2afc", "2afc/val", "2afc/val/cnn"])
def test_measured_names_are_found_from_every_level(tree: Path, inner: str) -> None:
    """As `twoafc measure` names them, from the data set's folder down to the subset's."""
    wanted = (tree / "2afc/val/cnn/ref/000001.png").resolve()
    assert Pictures(tree / inner).path("val/cnn/ref/000001") == wanted


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "/", "../secret.png", "../secret", "a/../../secret.png", "..\\secret.png", "%2e%2e/secret.png"),
        *("notes.txt", "notes", "plum.png", "2afc", "x\0y.png", "C:/plum.jpg", "file:///plum.jpg", "none"),
        "pears/plum",
    ],
)
def test_nothing_else_is_given(tree: Path, name: str) -> None:
    assert Pictures(tree).path(name) is None


def test_few_and_many_names_miss_the_same(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = Pictures(tree)
    inside = [path.relative_to(tree).as_posix() for path in tree.rglob("*.png")]
    names = [*inside, *(name.removesuffix(".png") for name in inside), "none", "a/none.png"]
    few = pictures.missing(names)
    monkeypatch.setattr("twoafc.results.image_folder.MANY", 0)
    assert inside
    assert pictures.missing(names) == few == ["none", "a/none.png"]


def test_absolute_paths_are_refused_even_inside(tree: Path) -> None:
    assert Pictures(tree).path(str(tree / "plum.jpg")) is None


def test_links_may_lead_about_inside_but_not_out(tree: Path) -> None:
    (tree / "out.png").symlink_to(tree.parent / "secret.png")
    (tree / "in.png").symlink_to(tree / "plum.jpg")
    (tree / "text.png").symlink_to(tree / "notes.txt")
    (tree / "up").symlink_to(tree.parent)
    pictures = Pictures(tree)
    assert pictures.path("in.png") == (tree / "plum.jpg").resolve()
    assert [pictures.path(name) for name in ("out.png", "out", "text.png", "up/secret.png")] == [None] * 4


def test_a_sibling_of_the_same_beginning_is_outside(tree: Path) -> None:
    draw(tree.parent / "images2" / "near.png")
    (tree / "link.png").symlink_to(tree.parent / "images2" / "near.png")
    assert Pictures(tree).path("link.png") is None


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^no such folder of images: .*absent$"):
        Pictures(tmp_path / "absent")


@pytest.mark.parametrize("file", ["pear.PNG", "pear.Jpg", "pear.pgm", "pear.TIFF"])
def test_endings_are_those_of_all_images_however_they_are_written(tree: Path, file: str) -> None:
    path = tree / file
    path.write_bytes(b"pear")
    assert Pictures(tree).path("pear") == Pictures(tree).path(file) == path.resolve()


def test_what_is_found_is_read_unless_it_is_too_large(tree: Path) -> None:
    pictures = Pictures(tree)
    assert pictures.read("plum") == (tree / "plum.jpg").read_bytes()
    assert pictures.read("none") is None
    with (tree / "vast.png").open("wb") as file:
        file.truncate(2**40)  # a hole, which takes no room
    assert pictures.read("vast") is None


def test_a_file_that_is_gone_or_a_pipe_by_now_is_not_read(tree: Path) -> None:
    class Late(Pictures):
        def path(self, name: str) -> Path | None:
            found = super().path(name)
            assert found is not None
            found.unlink()
            if name == "plum":
                os.mkfifo(found)
            return found

    assert [Late(tree).read(name) for name in ("plum", "val/cnn/ref/000001")] == [None, None]

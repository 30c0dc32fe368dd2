"""Saved models: what is written is read back, and nothing else is."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twoafc
from conftest import random_table
from twoafc import Density, Network, Pairs, Spline, estimators
from twoafc.errors import DataError
from twoafc.estimators.models import READERS
from twoafc.files import read_archive, save_archive
from twoafc.table import Votes


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model.npz"
    Density(grid_size=4).fit(random_table(60)).save(path)
    return path


def some_pairs() -> Pairs:
    rng = np.random.default_rng(0)
    d = rng.lognormal(size=100)
    return Pairs.from_frame({"n": rng.binomial(3, 1 / (1 + d**2)), "M": np.full(100, 3), "d": d})


def rewritten(source: Path, target: Path, **changed: Any) -> Path:
    """The same model with some arrays changed and its checksum left as it was."""
    with np.load(source) as stored:
        np.savez(target, **{name: stored[name] for name in stored.files} | changed)
    return target


def card_of(path: Path) -> dict[str, Any]:
    with np.load(path) as stored:
        return json.loads(stored["card"].tobytes())


def as_card(card: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(card).encode(), dtype=np.uint8)


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        twoafc.load(path)
    return str(caught.value)


def test_a_truncated_file_is_refused(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path = tmp_path / "cut.npz"
        path.write_bytes(whole[:length])
        assert refusal(path).startswith(f"{path} is not a readable twoafc model: ")


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_flipped_byte_is_refused_or_harmless(saved: Path, tmp_path_factory: Any, data: st.DataObject) -> None:
    whole = bytearray(saved.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flipped") / "model.npz"
    path.write_bytes(bytes(whole))
    try:
        fit = twoafc.load(path)
    except DataError:
        return
    # Some bytes of an archive mean nothing (dates, attributes): then the model is the same.
    assert fit.probability(1.0, 2.0) == twoafc.load(saved).probability(1.0, 2.0)


def test_a_changed_model_is_refused(saved: Path, tmp_path: Path) -> None:
    card = card_of(saved)
    card["settings"]["prior"] = 1000.0
    with np.load(saved) as stored:
        sums = stored["sums"] * 2
    for changed in ({"sums": sums}, {"card": as_card(card)}):
        path = rewritten(saved, tmp_path / "model.npz", **changed)
        assert refusal(path) == f"{path} was changed after it was written; its contents do not match their checksum"


def test_a_file_that_holds_no_model_of_its_kind_is_refused_in_one_line(saved: Path, tmp_path: Path) -> None:
    name, kept, arrays = read_archive(saved)
    path = tmp_path / "model.npz"
    save_archive(path, name, kept | {"sigma": -1.0}, arrays)
    assert refusal(path) == f"{path} is not a usable model; sigma must be a positive number or auto; found -1.0"
    save_archive(path, name, kept | {"colour": "red"}, arrays)
    assert refusal(path).startswith(f"{path} is not a usable model; ")
    save_archive(path, name, kept, {key: array for key, array in arrays.items() if key != "at_most"})
    assert refusal(path) == f"{path} is not a usable model; it has no 'at_most'"


def test_other_kinds_of_file_are_refused(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    assert refusal(path) == f"no such file: {path}"
    np.savez(path, a=np.arange(3))
    assert refusal(path) == f"{path} is not a twoafc model; it has no card"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("card.npy", b"")
        archive.writestr("../escape.txt", b"x")
    assert refusal(path) == f"{path} is not a twoafc model; it has no card"
    # Before settings lost sigma_along and curves were saved as surfaces are.
    np.savez(path, card=as_card(card_of(saved) | {"format": "twoafc model 1"}))
    assert refusal(path) == (
        f"{path} is not a twoafc model that this version reads; expected 'twoafc model 2', found 'twoafc model 1'"
    )
    np.savez(path, card=as_card([1]))
    assert "expected 'twoafc model 2', found None" in refusal(path)
    save_archive(path, "oracle", {}, {})
    assert refusal(path) == f"{path} contains a model of kind 'oracle'; this version reads {', '.join(READERS)}"


def test_a_pickle_is_never_opened(saved: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "exploded",))

    for content in (pickle.dumps(Bomb()), None):
        path = tmp_path / "bomb.npz"
        if content is None:
            buffer = io.BytesIO()
            np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("card.npy", buffer.getvalue())
        else:
            path.write_bytes(content)
        assert refusal(path).startswith(f"{path} is not a readable twoafc model: ")
    assert not (tmp_path / "exploded").exists()


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twoafc.files.archive.LARGEST", 2**24)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for member in range(5):
            archive.writestr(f"{'card' if member == 0 else member}.npy", bytes(2**22))
    assert path.stat().st_size < 2**18
    assert refusal(path) == f"{path} is too large for a model; it unpacks to {2**24 + 2**22} bytes, {2**24} at most"


def test_a_full_disk_leaves_the_old_model(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(saved.read_bytes())
    code = f"""
import resource, twoafc
from conftest import random_table
fit = twoafc.Density().fit(random_table(5000))
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
fit.save({str(path)!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode != 0
    assert "File too large" in done.stderr
    assert path.read_bytes() == saved.read_bytes()
    assert os.listdir(tmp_path) == ["model.npz"]


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (Density(), "DensityFit(sigma=0.02273, grid_size=20, 200 triplets)"),
        (Spline(link="logit"), r"SplineFit\(logit, lapse=[\d.e-]+, dispersion=[\d.]+, 200 triplets\)"),
        (Network(epochs=1), r"NetworkFit\(adam, uniform inputs, seed 0, training NLL [\d.]+\)"),
    ],
)
def test_a_fit_is_shown_in_one_line(estimator: Any, expected: str) -> None:
    shown = repr(estimator.fit(random_table()))
    assert shown == expected or re.fullmatch(expected, shown)
    if not isinstance(estimator, Network):
        assert repr(estimator.fit(some_pairs())).endswith(", 100 pairs)")


SAVED: list[tuple[str, Any]] = [
    ("density", Density(sigma=0.1)),
    ("density", Density(sigma="auto")),
    ("spline", Spline(size=6)),
    ("network", Network(solver="lbfgs")),
    ("network", Network(epochs=1, inputs="raw", seed=2)),
    ("network", Network(learning_rate=1e30)),
    ("pairs-density", Density(sigma="auto")),
    ("pairs-spline", Spline()),
]


def test_every_kind_of_model_is_tried() -> None:
    assert {kind for kind, _ in SAVED} == set(READERS) - {"fused", "heads"}  # see their own tests


@pytest.mark.parametrize(("kind", "estimator"), SAVED)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_saved_model_gives_the_same_numbers(kind: str, estimator: Any, weighted: bool, tmp_path: Path) -> None:
    table: Votes = some_pairs() if kind.startswith("pairs-") else random_table()
    if weighted:
        table = dataclasses.replace(table, weight=np.random.default_rng(0).lognormal(size=len(table)))
    fit = estimator.fit(table)
    fit.save(tmp_path / "m.npz")
    again: Any = twoafc.load(tmp_path / "m.npz")
    assert (again.kind, again.k, type(again)) == (kind, fit.k, type(fit))
    assert again.settings == fit.settings
    assert str(again.summary()) == str(fit.summary())
    d = np.random.default_rng(0).uniform(0, 5, (again.k, 40))
    np.testing.assert_array_equal(again.probability(*d), fit.probability(*d))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fit.probability))(*d), fit.probability(*d))
    if hasattr(fit, "standard_error"):
        np.testing.assert_array_equal(again.standard_error(*d), fit.standard_error(*d))
    assert os.listdir(tmp_path) == ["m.npz"]


def test_a_fit_takes_as_many_distances_as_its_rows_have() -> None:
    for estimator in (Density(), Spline()):
        of_pairs, of_triplets = estimator.fit(some_pairs()), estimator.fit(random_table())
        for name in ("probability", "standard_error"):
            for fit, d in ((of_pairs, (1.0, 2.0)), (of_triplets, (1.0,))):
                with pytest.raises(TypeError, match="argument"):
                    getattr(fit, name)(*d)


def test_a_broken_file_of_a_users_estimator_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("myestimators_broken.py").write_text("1 / 0\n")
    message = "no estimator 'myestimators_broken:Mine'; importing myestimators_broken raised ZeroDivisionError: "
    with pytest.raises(ValueError, match=f"^{message}"):
        estimators.estimator("myestimators_broken:Mine")

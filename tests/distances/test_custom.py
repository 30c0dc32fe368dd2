"""A user's own distance: found by its name, wrapped, and given what it takes."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from twoafc import check_distance, distance
from twoafc.distances import OneByOne, Own, own, rmse

torch = pytest.importorskip("torch")
AXES = (1, 2, 3)

FILE = """
import numpy as np
import torch

def mae(ref, x):
    return abs(ref - x).mean(axis=(1, 2, 3))

def scaled(ref, x, *, by=1.0):
    return by * abs(ref - x).mean(axis=(1, 2, 3))

def tensors(ref, x):
    return (ref - x).abs().mean(dim=(1, 2, 3))

class Power:
    def __init__(self, power=2):
        self.power = power
    def __call__(self, ref, x):
        return (abs(ref - x) ** self.power).mean(axis=(1, 2, 3))

class Net(torch.nn.Module):
    def __init__(self, channels=2):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, channels, 3)
        self.drop = torch.nn.Dropout()
    def forward(self, ref, x):
        return (self.drop(self.layer(ref)) - self.drop(self.layer(x))).abs().mean(dim=(1, 2, 3))

class Mute:
    pass

class Needy:
    def __init__(self, power):
        pass

class Quitter:
    def __init__(self):
        raise SystemExit("no licence")

def quits(ref, x):
    raise SystemExit(3)

number = 3
"""


def images(seed: int, count: int = 3, side: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 3, side, side)).astype(np.float32)


def mean_difference(ref: np.ndarray, x: np.ndarray) -> np.ndarray:
    return abs(ref - x).mean(axis=AXES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a user's file in it that is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mydistances.py").write_text(FILE)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("mydistances")]:
        del sys.modules[name]


@pytest.mark.usefixtures("folder")
def test_a_function_of_the_current_folder() -> None:
    found = distance("mydistances:mae")
    assert repr(found) == "Own(name='mydistances:mae', takes='numpy', device='cpu')"
    ref, x = images(0), images(1)
    values = found(ref, x)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, mean_difference(ref, x))


def test_a_current_folder_that_was_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mydistances_arrays.py").write_text("def mae(ref, x): return abs(ref - x).mean(axis=(1, 2, 3))")
    (folder / "gone").mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    ref, x = images(0), images(1)
    np.testing.assert_allclose(distance("mydistances_arrays:mae")(ref, x), mean_difference(ref, x))


@pytest.mark.usefixtures("folder")
def test_settings_go_to_the_function_or_to_the_class() -> None:
    ref, x = images(0), images(1)
    np.testing.assert_allclose(distance("mydistances:scaled", by=3.0)(ref, x), 3 * mean_difference(ref, x), rtol=1e-6)
    np.testing.assert_allclose(distance("mydistances:Power", power=1)(ref, x), mean_difference(ref, x), rtol=1e-6)
    net = distance("mydistances:Net", channels=5, device="cpu")
    assert isinstance(net, Own)
    assert net.takes == "torch"
    assert net.function.layer.out_channels == 5  # type: ignore[attr-defined]
    np.testing.assert_array_equal(net(ref, x), net(ref, x))  # no longer in training mode, or drop-out would show


@pytest.mark.usefixtures("folder")
def test_a_function_of_tensors_receives_tensors() -> None:
    ref, x = images(0), images(1)
    found = distance("mydistances:tensors")
    assert isinstance(found, Own)
    assert found.takes == "torch"
    np.testing.assert_allclose(found(ref, x), mean_difference(ref, x), rtol=1e-6)


def test_a_declared_kind_comes_before_a_detected_one() -> None:
    def either(ref, x):
        seen.append(type(ref))
        return abs(ref - x).mean(axis=AXES)

    seen: list[type] = []
    assert own(either).takes == "numpy"
    assert own(either, takes="torch").takes == "torch"
    assert own(either, device="cpu:0").takes == "torch"
    either.takes = "torch"  # type: ignore[attr-defined]
    seen.clear()
    found = own(either)
    assert (found.takes, seen) == ("torch", [])
    found(images(0), images(1))
    assert seen == [torch.Tensor]


def test_numpy_stays_on_the_processor_whatever_the_device() -> None:
    def arrays_only(ref, x):
        if not isinstance(ref, np.ndarray):
            raise TypeError
        return abs(ref - x).mean(axis=AXES)

    assert repr(own(arrays_only, device="cpu:0")) == "Own(name='arrays_only', takes='numpy', device='cpu')"


@pytest.mark.parametrize("takes", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_in_tensors_out(takes, dtype) -> None:
    ref, x = (torch.from_numpy(images(seed)).to(getattr(torch, dtype)) for seed in range(2))
    ref.requires_grad_()
    values = own(mean_difference, takes=takes)(ref, x)
    assert values.dtype == ref.dtype
    assert not values.requires_grad
    np.testing.assert_allclose(values, mean_difference(images(0), images(1)), rtol=1e-6)


@pytest.mark.parametrize("takes", ["numpy", "torch"])
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_the_callers_images_are_not_changed(takes, kind) -> None:
    def vandal(ref, x):
        ref -= x
        return abs(ref).mean(axis=AXES)

    ref, x = images(0), images(1)
    given = (ref, x) if kind == "array" else (torch.from_numpy(ref.copy()), torch.from_numpy(x.copy()))
    own(vandal, takes=takes)(*given)
    np.testing.assert_array_equal(given[0], images(0))


@pytest.mark.parametrize("shape", [(-1, 1), (-1, 1, 1, 1), (-1,)])
def test_axes_of_length_1_are_dropped(shape) -> None:
    found = own(lambda ref, x: mean_difference(ref, x).reshape(shape))
    assert found(images(0), images(1)).shape == (3,)
    assert found(images(0)[:0], images(1)[:0]).shape == (0,)
    assert found(images(0)[:1], images(1)[:1]).shape == (1,)


def test_a_callable_itself_is_wrapped_and_ours_are_not() -> None:
    assert isinstance(distance(mean_difference), Own)
    assert distance(rmse) is rmse
    wrapped = distance(mean_difference)
    assert distance(wrapped) is wrapped


def test_image_by_image() -> None:
    ref, x = images(0), images(1)
    each = own(OneByOne(lambda ref, x: abs(ref - x).mean()), name="each")
    np.testing.assert_allclose(each(ref, x), mean_difference(ref, x), rtol=1e-6)
    assert own(OneByOne(lambda ref, x: (ref - x).abs().mean())).takes == "torch"
    assert OneByOne(mean_difference)(ref[:0], x[:0]).shape == (0,)


@pytest.mark.usefixtures("folder")
def test_it_can_be_sent_to_another_process() -> None:
    ref, x = images(0), images(1)
    for name in ("mydistances:mae", "mydistances:tensors", "mydistances:Net"):
        found = distance(name)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(found))(ref, x), found(ref, x))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            lambda ref: ref.mean(),
            "a distance gives one value for each image; f gave a single value for a batch of 3; a library's function "
            "often does so with reduction='none', and twoafc.distances.OneByOne calls any image by image",
        ),
        (
            lambda ref: ref.mean(axis=1),
            "a distance gives one value for each image; f gave shape (3, 16, 16) for a batch of 3; "
            "average or sum over the other axes",
        ),
        (
            lambda ref: ref.mean(axis=AXES)[None],
            "a distance gives one value for each image; f gave shape (1, 3) for a batch of 3; "
            "average or sum over the other axes",
        ),
    ],
)
def test_a_wrong_shape_is_refused(result, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        own(lambda ref, x: result(ref), name="f")(images(0), images(1))


def test_wrong_images_are_refused_as_by_all_distances() -> None:
    with pytest.raises(ValueError, match=r"^images must lie in \[0, 1\]; ref has values from "):
        own(mean_difference)(255 * images(0), 255 * images(1))


CALLABLE = "a distance must be callable, (ref, x) -> (B,); "


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nosuch:f", "there is no distance 'nosuch:f'; No module named 'nosuch'"),
        (
            "mydistances:number",
            f"{CALLABLE}mydistances:number is of type int; name a function, or a class with __call__",
        ),
        (
            "mydistances:Mute",
            f"{CALLABLE}mydistances:Mute is of type Mute; name a function, or a class with __call__",
        ),
        (
            "mydistances:Needy",
            "mydistances:Needy cannot be made with no arguments; it raised TypeError: Needy.__init__() missing 1 "
            "required positional argument: 'power'",
        ),
        (
            "mydistances:Quitter",
            "mydistances:Quitter cannot be made with no arguments; it raised SystemExit: no licence",
        ),
    ],
)
def test_a_wrong_name_is_reported_in_one_line(name, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        distance(name)


def test_what_is_not_callable_is_refused() -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(CALLABLE)}int is of type int$"):
        distance(3)  # type: ignore[arg-type]


def test_a_name_that_is_not_in_the_module_names_its_file(folder: Path) -> None:
    message = "there is no distance 'mydistances:nosuch'; module 'mydistances' has no attribute 'nosuch'; it was "
    with pytest.raises(ValueError, match=f"^{re.escape(message)}imported from {folder}/mydistances.py$"):
        distance("mydistances:nosuch")
    message = "there is no distance 'sys:nosuch'; module 'sys' has no attribute 'nosuch'; it was imported from "
    with pytest.raises(ValueError, match=f"^{re.escape(message)}Python itself$"):
        distance("sys:nosuch")


def test_a_file_hidden_by_an_installed_module_is_reported(folder: Path) -> None:
    (folder / "json.py").write_text("def f(ref, x): pass")
    message = f"there is no distance 'json:f'; module 'json' has no attribute 'f'; it was imported from {json.__file__}"
    hidden = f"; {folder / 'json.py'} is hidden by another module json: give it another name"
    with pytest.raises(ValueError, match=f"^{re.escape(message + hidden)}$"):
        distance("json:f")
    (folder / "json.py").unlink()
    (folder / "json").mkdir()
    (folder / "json" / "mine.py").write_text("def f(ref, x): pass")
    message = "there is no distance 'json.mine:f'; No module named 'json.mine'"
    hidden = f"; {folder / 'json'} is hidden by another module json: give it another name"
    with pytest.raises(ValueError, match=f"^{re.escape(message + hidden)}$"):
        distance("json.mine:f")


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ("def f(:\n", "SyntaxError: "),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("import sys\nsys.nosuch\n", "AttributeError: module 'sys' has no attribute 'nosuch'"),
    ],
)
def test_a_broken_file_is_reported_in_one_line(folder: Path, text: str, raised: str) -> None:
    (folder / "mydistances_broken.py").write_text(text)
    message = "there is no distance 'mydistances_broken:f'; importing mydistances_broken raised "
    with pytest.raises(ValueError, match=f"^{re.escape(message + raised)}"):
        distance("mydistances_broken:f")


@pytest.mark.usefixtures("folder")
def test_a_call_that_would_end_the_program_is_an_error() -> None:
    found = distance("mydistances:quits")
    with pytest.raises(RuntimeError, match=r"^it called sys\.exit\(3\)$"):
        found(images(0), images(1))
    assert check_distance(found).problems[0].startswith("it raises RuntimeError: it called sys.exit(3)")


def test_a_wrong_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^takes must be one of numpy, torch; f has 'jax'$"):
        own(mean_difference, name="f", takes="jax")  # type: ignore[arg-type]

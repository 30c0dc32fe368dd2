"""A user's own distance: found by its name, wrapped, and given what it takes."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from twoafc import distance
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
def test_who_takes_tensors_gets_them() -> None:
    ref, x = images(0), images(1)
    found = distance("mydistances:tensors")
    assert isinstance(found, Own)
    assert found.takes == "torch"
    np.testing.assert_allclose(found(ref, x), mean_difference(ref, x), rtol=1e-6)


def test_what_is_said_goes_before_what_is_tried() -> None:
    def either(ref, x):
        seen.append(type(ref))
        return abs(ref - x).mean(axis=AXES)

    seen: list[type] = []
    assert own(either).takes == "numpy"
    assert own(either, takes="torch").takes == "torch"
    assert own(either, device="meta").takes == "torch"
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

    assert repr(own(arrays_only, device="meta")) == "Own(name='arrays_only', takes='numpy', device='cpu')"


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
def test_the_callers_images_are_safe(takes, kind) -> None:
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


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nosuch:f", ValueError, "there is no distance 'nosuch:f'; No module named 'nosuch'"),
        (
            "mydistances:nosuch",
            ValueError,
            "there is no distance 'mydistances:nosuch'; module 'mydistances' has no attribute 'nosuch'",
        ),
        (
            "mydistances:number",
            TypeError,
            "a distance must be callable, (ref, x) -> (B,); mydistances:number is of type int",
        ),
    ],
)
def test_a_wrong_name_is_told_in_one_line(name, error, message) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        distance(name)


def test_a_broken_file_is_told_in_one_line(folder: Path) -> None:
    (folder / "mydistances_broken.py").write_text("def f(:\n")
    message = "there is no distance 'mydistances_broken:f'; importing mydistances_broken raised SyntaxError: "
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        distance("mydistances_broken:f")


def test_a_wrong_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^takes must be one of numpy, torch; f has 'jax'$"):
        own(mean_difference, name="f", takes="jax")  # type: ignore[arg-type]

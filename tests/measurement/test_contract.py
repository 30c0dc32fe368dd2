"""Checking a distance: planted faults are found and named, and what keeps its promises is left in peace."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from twoafc import check_distance, distance
from twoafc.distances import ALIASES, DEEP, DISTANCES, nlpd_2017, rmse, ssim
from twoafc.measurement import Report

AXES = (1, 2, 3)
Function = Callable[[Any, Any], Any]


def mae(ref, x):
    return abs(ref - x).mean(axis=AXES)


def histograms(images, low, high):
    return np.array([[np.histogram(c, 32, (low, high))[0] for c in image] for image in images]).reshape(len(images), -1)


def histogram_cosine(low: float, high: float) -> Function:
    def f(ref, x):
        a, b = (histograms(images, low, high).astype(float) for images in (ref, x))
        return 1 - (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))

    return f


def global_ssim(c1: float, c2: float) -> Function:
    def f(ref, x):
        a, b = ref.mean(axis=(2, 3), keepdims=True), x.mean(axis=(2, 3), keepdims=True)
        covariance = ((ref - a) * (x - b)).mean(axis=(2, 3))
        variances = ref.var(axis=(2, 3)) + x.var(axis=(2, 3))
        a, b = a[..., 0, 0], b[..., 0, 0]
        return ((2 * a * b + c1) * (2 * covariance + c2) / ((a * a + b * b + c1) * (variances + c2))).mean(axis=1)

    return f


REASONABLE: dict[str, Function] = {
    "mae": mae,
    "mse": lambda ref, x: ((ref - x) ** 2).mean(axis=AXES),
    "greatest difference": lambda ref, x: abs(ref - x).max(axis=AXES),
    "rmse of bytes": lambda ref, x: np.sqrt(((255 * ref - 255 * x) ** 2).mean(axis=AXES)),
    "rounded to bytes": lambda ref, x: abs(np.rint(255 * ref) - np.rint(255 * x)).mean(axis=AXES),
    "cosine of histograms": histogram_cosine(0, 1.0001),
    "1 - ssim": lambda ref, x: 1 - global_ssim(1e-4, 9e-4)(ref, x),
    "root of 1 - ssim": lambda ref, x: np.sqrt((1 - global_ssim(1e-4, 9e-4)(ref, x)).clip(0)),
    "saturating": lambda ref, x: 1 - np.exp(-((ref - x) ** 2).mean(axis=AXES)),
    "mae and mse": lambda ref, x: mae(ref, x) + ((ref - x) ** 2).mean(axis=AXES),
    "tiny": lambda ref, x: 1e-6 * mae(ref, x),
    "large": lambda ref, x: 1e6 * mae(ref, x),
    "weber": lambda ref, x: (abs(ref - x) / (ref + x + 0.1)).mean(axis=AXES),
    "logarithm": lambda ref, x: abs(np.log(ref + 0.01) - np.log(x + 0.01)).mean(axis=AXES),
    "gradients": lambda ref, x: abs(np.diff(ref) - np.diff(x)).mean(axis=AXES),
    "grey": lambda ref, x: abs(ref.mean(axis=1) - x.mean(axis=1)).mean(axis=(1, 2)),
    "float32": lambda ref, x: mae(ref.astype(np.float32), x.astype(np.float32)),
}


@pytest.mark.parametrize("name", list(REASONABLE))
@pytest.mark.parametrize("seed", [0, 1])
def test_what_keeps_its_promises_is_left_in_peace(name: str, seed: int) -> None:
    report = check_distance(REASONABLE[name], seed=seed)
    assert report.ok, report
    assert not report.notes, report
    assert str(report).count("\n") == 0


@pytest.mark.parametrize("name", list(DISTANCES))
def test_all_plain_distances_pass(name: str) -> None:
    report = check_distance(distance(name))
    assert report.ok, report
    assert report.name == name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DEEP if not name.startswith("pim")])
def test_all_distances_with_a_network_pass(name: str, shared, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(shared / "weights"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    report = check_distance(distance(name), size=32)
    torch.set_num_threads(threads)
    assert report.ok, report
    assert not report.notes
    assert name not in ALIASES


def test_a_function_of_tensors() -> None:
    pytest.importorskip("torch")
    assert check_distance(lambda ref, x: (ref - x).abs().mean(dim=AXES)).ok
    assert check_distance(distance(lambda ref, x: (ref - x).abs().mean(dim=AXES))).ok


def vandal(ref, x):
    ref -= x
    return abs(ref).mean(axis=AXES)


def wants_bytes(ref, x):
    if ref.max() <= 1:
        raise ValueError("images must be bytes")
    return mae(ref / 255, x / 255)


def wants_signs(ref, x):
    if ref.min() >= 0:
        raise ValueError("images must be in [-1, 1]")
    return mae(ref, x) / 2


def shaky(seed: int = 0) -> Function:
    rng = np.random.default_rng(seed)
    return lambda ref, x: mae(ref, x) * rng.uniform(0.9, 1.1, len(ref))


def dark_is_nan(ref, x):
    return np.where(ref.mean(axis=AXES) == 0, np.nan, mae(ref, x))


FAULTS: dict[str, tuple[Function, str]] = {
    "a single value": (
        lambda ref, x: abs(ref - x).mean(),
        r"wrong shape: a single value for a batch of 4; a library's function often does so with reduction='none', and "
        r"twoafc\.distances\.OneByOne calls any image by image",
    ),
    "a map": (
        lambda ref, x: abs(ref - x).mean(axis=1),
        r"wrong shape: shape \(4, 64, 64\) for a batch of 4; average or sum over the other axes",
    ),
    "negative": (
        lambda ref, x: (x - ref).mean(axis=AXES),
        r"negative values: down to -0\.\d+; a distance is at least 0",
    ),
    "offset": (
        lambda ref, x: mae(ref, x) + 0.01,
        r"d\(x, x\) is not 0: it is 0\.01 for a photograph and itself, and 0\.\d+ for a distorted one; "
        r"a distance starts at 0",
    ),
    "similarity": (
        lambda ref, x: 1 - ssim(ref, x),
        r"larger means closer: it is 1 for equal images and falls to 0\.\d+ for distorted ones; "
        r"return 1 - similarity, for example",
    ),
    "negated": (
        lambda ref, x: -rmse(ref, x),
        r"larger means closer: it is -?0 for equal images and falls to -0\.\d+ for distorted ones; "
        r"return 1 - similarity, for example",
    ),
    "nan": (
        dark_is_nan,
        r"not finite: it is nan for images of one colour \(2 of 4\); a table cannot have such values",
    ),
    "order": (
        lambda ref, x: mae(ref, x) * (1 + np.arange(len(ref))),
        r"depends on the batch: an image has \S+ in a batch of 4, \S+ with the batch in reverse order; "
        r"use nothing of the other images, or leave training mode",
    ),
    "batch": (
        lambda ref, x: mae(ref, x) / (mae(ref, x).max() + 1e-9),
        r"depends on the batch: an image has \S+ in a batch of 4, \S+ alone; "
        r"use nothing of the other images, or leave training mode",
    ),
    "not repeatable": (
        shaky(),
        r"not repeatable: \S+, then \S+ for the same images; fix its seed, or leave training mode; "
        r"nothing else was tested",
    ),
    "in place": (vandal, r"it changes its images: ref was not the same after the call; work on a copy"),
    "constant": (
        lambda ref, x: np.ones(len(ref)),
        r"it is constant: it is 1 for equal and for distorted photographs",
    ),
    "whole numbers": (
        lambda ref, x: (1000 * mae(ref, x)).astype(int),
        r"wrong type: its values are int64; return float32 or float64",
    ),
    "half precision": (
        lambda ref, x: mae(ref, x).astype(np.float16),
        r"wrong type: its values are float16; return float32 or float64",
    ),
    "nothing": (lambda ref, x: None, r"wrong type: its values are object; return float32 or float64"),
    "divided by 255": (
        lambda ref, x: mae(ref / 255, x / 255),
        r"wrong input range: black and white are 0\.00392 apart, and 1 if both are multiplied by 255; "
        r"images come in \[0, 1\]: do not divide by 255 again",
    ),
    "mse divided by 255": (
        lambda ref, x: ((ref / 255 - x / 255) ** 2).mean(axis=AXES),
        r"wrong input range: black and white are 1\.54e-05 apart, and 1 if both .*",
    ),
    "constants for 255": (
        lambda ref, x: 1 - global_ssim(6.5025, 58.5225)(ref, x),
        r"wrong input range: distorting a photograph changes it by \S+e-05, and by 0\.\d+ on \[0, 255\]; "
        r"images come in \[0, 1\]: multiply them by 255, or adapt its constants",
    ),
    "histograms for 255": (
        histogram_cosine(0, 255),
        r"wrong input range: distorting a photograph changes it by 0, .*",
    ),
    "cut to bytes": (
        lambda ref, x: abs(ref.astype(np.uint8).astype(float) - x.astype(np.uint8)).mean(axis=AXES),
        r"wrong input range: distorting a photograph changes it by 0, and by \d\.\d+ on \[0, 255\]; .*",
    ),
    "refuses [0, 1]": (
        wants_bytes,
        r"wrong input range: it raises ValueError: images must be bytes; "
        r"images come in \[0, 1\]: rescale them inside to \[0, 255\], on which it works",
    ),
    "refuses [0, 1] and [0, 255]": (
        wants_signs,
        r"wrong input range: it raises ValueError: images must be in \[-1, 1\]; "
        r"images come in \[0, 1\]: rescale them inside to \[-1, 1\], on which it works",
    ),
    "raises": (
        lambda ref, x: 1 / 0,
        r"it raises ZeroDivisionError: division by zero; "
        r"it is called as f\(ref, x\) with two batches in \[0, 1\] of shape \(4, 3, 64, 64\)",
    ),
    "raises on flat images": (
        lambda ref, x: mae(ref, x) if ref.std(axis=AXES).min() > 0 else 1 / 0,
        r"it raises ZeroDivisionError: division by zero, though it works on other images of 64 x 64 pixels",
    ),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_planted_faults_are_found_and_no_others(name: str) -> None:
    function, message = FAULTS[name]
    report = check_distance(function)
    assert not report.ok
    assert len(report.problems) == 1, report
    assert re.fullmatch(message, report.problems[0]), report
    assert str(report).startswith(f"{report.name} is not a valid distance (tried on 64 x 64 pixels")
    assert f"\n- {report.problems[0]}" in str(report)


def test_a_fault_with_two_sides_is_told_of_twice() -> None:
    def psnr(ref, x):
        return -10 * np.log10(((ref - x) ** 2).mean(axis=AXES))

    infinite, larger = check_distance(psnr).problems
    assert infinite == "not finite: it is inf for equal images (4 of 4); a table cannot have such values"
    assert larger.startswith("larger means closer: it is inf for equal images and falls to ")
    assert larger.endswith("; return a value that grows instead")


def test_drop_out_shows_and_the_wrapper_cures_it() -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = torch.nn.Dropout()

        def forward(self, ref, x):
            return (self.drop(ref) - self.drop(x)).abs().mean(dim=AXES)

    assert check_distance(Net()).problems[0].startswith("not repeatable: ")
    assert check_distance(distance(Net())).ok


NOTES: dict[str, tuple[Function, str]] = {
    "asymmetric": (
        lambda ref, x: (abs(ref - x) / (ref + 0.1)).mean(axis=AXES),
        r"not symmetric: d\(ref, x\) = \S+, d\(x, ref\) = \S+; the reference comes first",
    ),
    "rounding": (
        lambda ref, x: mae(ref, x) + 2e-6,
        r"d\(x, x\) is 2e-06, not quite 0, probably by rounding",
    ),
    "one more axis": (
        lambda ref, x: mae(ref, x)[:, None, None, None],
        r"its values have shape \(4, 1, 1, 1\); twoafc\.distance makes that \(4,\)",
    ),
    "expects [-1, 1]": (
        lambda ref, x: mae((ref + 1) / 2, (x + 1) / 2),
        r"black and white are 0\.5 apart, and 1 if black is -1; does it expect images in \[-1, 1\]\?",
    ),
    "large images": (
        nlpd_2017,
        r"on 64 x 64 pixels it raises ValueError: images must be at least 65 x 65 pixels for this distance; "
        r"got 64 x 64; so it was tried on 96 x 96",
    ),
}


@pytest.mark.parametrize("name", list(NOTES))
def test_what_is_allowed_is_noted(name: str) -> None:
    function, message = NOTES[name]
    report = check_distance(function)
    assert report.ok, report
    assert len(report.notes) == 1
    assert re.fullmatch(message, report.notes[0]), report
    assert f"\n  note: {report.notes[0]}" in str(report)


def test_the_least_size_is_found() -> None:
    assert [check_distance(f).least for f in (rmse, ssim, nlpd_2017)] == [1, 11, 65]
    assert check_distance(ssim, size=176).size == 176


def test_nothing_is_warned_of_or_left_behind() -> None:
    def noisy(ref, x):
        return mae(ref, x) + 0 * np.log(np.zeros(1) + 1) / (np.zeros(1) + 1) + 0 * np.sqrt(np.float64(ref.min()) ** 2)

    before = np.geterr()
    first, again = check_distance(noisy), check_distance(noisy)
    assert first == again
    assert np.geterr() == before


def test_a_report() -> None:
    assert (
        str(Report("f", 64, 8)) == "f keeps the promises of a distance (tried on 64 x 64 pixels, works from 8 x 8 on)"
    )
    assert str(Report("f", 64, None, ("p",), ("n",))) == (
        "f is not a valid distance (tried on 64 x 64 pixels)\n- p\n  note: n"
    )


@pytest.mark.parametrize("size", [7, 257])
def test_a_size_that_photographs_do_not_have_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^size must lie in \[8, 256\]; got {size}$"):
        check_distance(rmse, size=size)

"""Distances of other libraries: real ones where they can be imported, stand-ins with their interface where not."""

from __future__ import annotations

import importlib
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoafc import distance
from twoafc.distances import OneByOne, Own, rmse
from twoafc.distances.adapters import RULES

torch = pytest.importorskip("torch")

INSTEAD = "to turn it into a distance yourself, write a function and name it as package.module:function"
PIQ_FILE = """
import torch

def ssim(x, y, data_range=1., reduction='mean', kernel_size=11):
    assert data_range == 1 and reduction == 'none'
    return 1 - ((x - y) ** 2).mean(dim=(1, 2, 3)) / kernel_size

def gmsd(x, y, data_range=1., reduction='mean'):
    assert data_range == 1 and reduction == 'none'
    return (x - y).clip(min=0).mean(dim=(1, 2, 3))

class DISTS(torch.nn.Module):
    def __init__(self, reduction='mean'):
        super().__init__()
        assert reduction == 'none'
        self.weight = torch.nn.Parameter(torch.ones(1))
    def forward(self, x, y):
        return self.weight * (x - y).abs().mean(dim=(1, 2, 3)) * (2 if self.training else 1)

class LPIPS(torch.nn.Module):
    def __init__(self, reduction='mean'):
        raise OSError('no route to host')
"""
PYIQA_FILE = """
import torch

METRICS = {
    'nlpd': ('FR', True, '0, 1'), 'ssim': ('FR', False, '0, 1'), 'ckdn': ('FR', False, '0, 1'),
    'afine_fr': ('FR', True, '-2, 2'), 'niqe': ('NR', True, '~0, ~100'),
}

class InferenceModel(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.metric_mode, self.lower_better, self.score_range = METRICS[name]
    def forward(self, target, ref=None):
        change = (target - ref).clip(min=0).mean(dim=(1, 2, 3))[:, None]
        return change if self.lower_better else 1 - change

def create_metric(metric_name, as_loss=False, device=None, **kwargs):
    assert not as_loss and device == 'cpu'
    return InferenceModel(metric_name)

def list_models(metric_mode=None):
    return [name for name, (mode, *_) in METRICS.items() if metric_mode in (None, mode)]
"""


def images(seed: int, count: int = 3, side: int = 24) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 3, side, side)).astype(np.float32)


def library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # what a library meets on import may raise anything
        pytest.skip(f"{name} cannot be imported here: {error}")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder before all others, for packages in a library's name; what they leave is forgotten afterwards."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("piq", "pyiqa")}
    for name in kept:
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in ("piq", "pyiqa", "torchmetrics_absent")]:
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.mark.parametrize("name", RULES["torchmetrics"])
def test_torchmetrics(name: str) -> None:
    functional = library("torchmetrics.functional.image")
    found = distance(f"torchmetrics:{name}")
    side = 180 if name.startswith("multiscale") else 24
    ref, x = images(0, 2, side), images(1, 2, side)
    x[0] = ref[0]
    values = found(ref, x)
    # Its own value for a batch of one image, whatever its reduction.
    scaled = {"data_range": 1.0} if "structural" in name else {}
    theirs = float(getattr(functional, name)(torch.from_numpy(x[1:]), torch.from_numpy(ref[1:]), **scaled))
    assert values[0] == pytest.approx(0, abs=1e-6)
    assert values[1] == pytest.approx(1 - theirs if "structural" in name else theirs, rel=1e-5)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(found))(ref, x), values)


def test_torchmetrics_by_the_name_of_a_class_and_with_settings() -> None:
    library("torchmetrics")
    found = distance("torchmetrics:StructuralSimilarityIndexMeasure", kernel_size=7)
    assert repr(found) == "Own(name='torchmetrics:StructuralSimilarityIndexMeasure', takes='torch', device='cpu')"
    assert found(images(0), images(1)).shape == (3,)
    assert distance("torchmetrics:MultiScaleStructuralSimilarityIndexMeasure") is not None


@pytest.mark.parametrize("name", [name for name in RULES["piq"] if name.islower()])
def test_piq(name: str) -> None:
    piq = library("piq")
    side = 180 if name.startswith(("multi_scale_s", "information")) else 64
    ref, x = images(0, 2, side), images(1, 2, side)
    values = distance(f"piq:{name}")(ref, x)
    theirs = float(getattr(piq, name)(torch.from_numpy(x[1:]), torch.from_numpy(ref[1:])))
    assert values[1] == pytest.approx(1 - theirs if RULES["piq"][name].similarity else theirs, rel=1e-4)
    assert distance(f"piq:{name}")(ref, ref) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("name", ["nlpd", "gmsd", "mad", "ssim", "ssimc", "fsim", "vsi", "cw_ssim"])
def test_pyiqa(name: str) -> None:
    pyiqa = library("pyiqa")
    ref, x = images(0, 2, 64), images(1, 2, 64)
    values = distance(f"pyiqa:{name}")(ref, x)
    made = pyiqa.create_metric(name, device="cpu")
    theirs = float(made(torch.from_numpy(x[1:]), torch.from_numpy(ref[1:])))
    assert values[1] == pytest.approx(theirs if made.lower_better else 1 - theirs, rel=1e-4)
    assert distance(f"pyiqa:{name}")(ref, ref) == pytest.approx(0, abs=1e-5)


def test_piq_in_its_documented_interface(stand_in: Path) -> None:
    (stand_in / "piq.py").write_text(PIQ_FILE)
    ref, x = images(0), images(1)
    np.testing.assert_allclose(distance("piq:ssim", kernel_size=1)(ref, x), rmse(ref, x) ** 2, rtol=1e-5)
    # The image comes first there, the reference first here.
    np.testing.assert_allclose(distance("piq:gmsd")(ref, x), (x - ref).clip(0).mean(axis=(1, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(distance("piq:DISTS")(ref, x), abs(ref - x).mean(axis=(1, 2, 3)), rtol=1e-5)
    message = "piq:LPIPS cannot be made; piq did not get its weights: no route to host"
    with pytest.raises(OSError, match=f"^{message}$"):
        distance("piq:LPIPS")


def test_pyiqa_in_its_documented_interface(stand_in: Path) -> None:
    (stand_in / "pyiqa.py").write_text(PYIQA_FILE)
    ref, x = images(0), images(1)
    for name in ("nlpd", "ssim"):
        found = distance(f"pyiqa:{name}")
        np.testing.assert_allclose(found(ref, x), (x - ref).clip(0).mean(axis=(1, 2, 3)), rtol=1e-5)
        assert isinstance(found, Own)
        assert found.takes == "torch"
    unknown, names = "it is not known which value equal images have", "the names are: nlpd, ssim, ckdn, afine_fr"
    for name, reason in {"ckdn": unknown, "afine_fr": unknown, "niqe": names, "nosuch": names}.items():
        message = f"pyiqa:{name} is not known to be a distance; {reason}; {INSTEAD}"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            distance(f"pyiqa:{name}")


def test_functions_of_whole_batches_are_called_image_by_image() -> None:
    library("torchmetrics")
    found = distance("torchmetrics:spectral_distortion_index")
    assert isinstance(found, Own)
    assert isinstance(found.function, OneByOne)


@pytest.mark.parametrize("name", ["piq:vif_p", "piq:FID", "torchmetrics:spectral_angle_mapper"])
def test_functions_that_are_not_distances_are_refused_with_the_names(name: str, stand_in: Path) -> None:
    (stand_in / "piq.py").write_text(PIQ_FILE)
    kind = name.partition(":")[0]
    if kind == "torchmetrics":
        library(kind)
    message = f"{name} is not known to be a distance; the names are: {', '.join(RULES[kind])}; {INSTEAD}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        distance(name)


def test_functions_that_are_often_asked_for_are_refused_with_what_to_use() -> None:
    library("torchmetrics")
    for name, instead in {
        "learned_perceptual_image_patch_similarity": "it reads its network for each batch; lpips_alex is the same "
        "distance",
        "peak_signal_noise_ratio": "it grows without bound as images become equal; rmse orders images alike",
    }.items():
        with pytest.raises(ValueError, match=f"^torchmetrics:{name} cannot be used; {instead}$"):
            distance(f"torchmetrics:{name}")


def test_a_missing_library_is_reported_with_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(name=module.partition(".")[0])

    monkeypatch.setattr(importlib, "import_module", missing)
    for name in ("pyiqa", "piq", "torchmetrics"):
        with pytest.raises(ImportError, match=f"^{name} is not installed; run: pip install {name}$"):
            distance(f"{name}:ssim")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import nosuch.inside", "piq cannot be imported: nosuch is not installed; run: pip install nosuch"),
        ("raise ValueError('two\\nlines')", "piq cannot be imported: ValueError: two"),
    ],
)
def test_a_broken_library_is_reported_in_one_line(line: str, message: str, stand_in: Path) -> None:
    (stand_in / "piq.py").write_text(line)
    with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
        distance("piq:ssim")

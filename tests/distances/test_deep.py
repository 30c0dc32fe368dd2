"""Properties that all distances with a network share, with weights of any values."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from distance_checks import any_variables, images, keeps_deep_promises, pim_of, refuses_smaller, works_on_tensors
from twoafc.distances import Deep, distance, pim
from twoafc.errors import DataError

torch = pytest.importorskip("torch")

LEAST = {"lpips_alex": 31, "lpips_vgg": 16, "lpips_squeeze": 17, "dists": 16, "small pim_1": 8, "small pim_5": 8}


@pytest.fixture(params=list(LEAST))
def measure(request: pytest.FixtureRequest, random_weights: None) -> Deep:
    name = request.param
    if not name.startswith("small"):
        return distance(name)
    architecture = pim.Architecture(mixtures=int(name[-1]), levels=1, filters=(4, 4, 4, 3), latent=2)
    return pim_of(any_variables(architecture), architecture)


def test_promises(measure):
    keeps_deep_promises(measure, measure.least)


def test_tensors(measure):
    works_on_tensors(measure, max(measure.least, 16))


def test_smaller_images_are_refused(measure, request):
    assert measure.least == LEAST[request.node.callspec.params["measure"]]
    refuses_smaller(measure, measure.least)


def test_it_can_be_sent_to_another_process(measure):
    pair = images(0, 1, 3, 40, 40), images(1, 1, 3, 40, 40)
    assert pickle.loads(pickle.dumps(measure))(*pair) == pytest.approx(measure(*pair), rel=1e-6)


def test_torch_is_left_as_it_was(measure):
    cudnn = torch.backends.cudnn

    def settings():
        return cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, torch.is_grad_enabled()

    before = settings()
    measure(images(0, 1, 3, 40, 40), images(1, 1, 3, 40, 40))
    assert settings() == before


@pytest.mark.usefixtures("random_weights")
def test_pieces_cover_the_batch():
    ref, x = images(0, 7, 3, 40, 40), images(1, 7, 3, 40, 40)
    whole = distance("lpips_alex")
    cut = dataclasses.replace(whole, piece=2 * 2 * 40 * 40)
    np.testing.assert_allclose(cut(ref, x), whole(ref, x), rtol=1e-5)


@pytest.mark.usefixtures("random_weights")
def test_names_settings_and_digests():
    assert repr(distance("lpips")) == "Deep(name='lpips_alex', device='cpu', precision='fp32')"
    assert distance("lpips", precision="tf32").precision == "tf32"
    with pytest.raises(ValueError, match=r"^precision must be one of fp32, tf32; got 'fp16'$"):
        distance("lpips", precision="fp16")
    digests = distance("lpips_squeeze").weights
    assert list(digests) == ["squeezenet1_1", "lpips_squeeze_head"]
    assert digests["squeezenet1_1"].startswith("sha256 b8a52dc0")
    assert list(distance("dists").weights) == ["vgg16", "dists_alpha_beta"]


def test_without_weights_there_is_no_distance(monkeypatch, tmp_path):
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    files = {"lpips": "alexnet", "lpips_vgg": "vgg16", "lpips_squeeze": "squeezenet1_1", "dists": "vgg16"}
    for name, file in files.items():
        with pytest.raises(DataError, match=f"^the weights {file} are needed and not at hand; tried: "):
            distance(name)

"""LPIPS: golden values with the published weights, and its promises with any weights."""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest

from test_distances import golden_images, images
from test_ms_ssim import agrees_with_golden, of_kind
from twoafc.distances import backbones, distance, lpips, weights
from twoafc.distances.deep import Deep
from twoafc.distances.weights import published

torch = pytest.importorskip("torch")

LEAST = {"lpips_alex": 31, "lpips_vgg": 16, "lpips_squeeze": 17}
STAGES = {
    "lpips_alex": [(64, 15), (192, 7), (384, 3), (256, 3), (256, 3)],
    "lpips_vgg": [(64, 64), (128, 32), (256, 16), (512, 8), (512, 4)],
    "lpips_squeeze": [(64, 31), (128, 15), (256, 7), (384, 3), (384, 3), (512, 3), (512, 3)],
}
names = pytest.mark.parametrize("name", list(LEAST))


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def any_tensors(name: str, path: object = None) -> dict[str, torch.Tensor]:
    """Tensors of the published shapes with other numbers, none negative in the heads."""
    generator = torch.Generator().manual_seed(0)
    found = {}
    for tensor, (shape, _) in published()[name].tensors.items():
        values = torch.randn(shape, generator=generator) / np.sqrt(np.prod(shape[1:]) or 1)
        found[tensor] = values.abs() if name.endswith(("head", "beta")) else values
    return found


@pytest.fixture
def random_weights(monkeypatch):
    monkeypatch.setattr(lpips, "tensors", any_tensors)


@pytest.fixture
def published_weights(shared, monkeypatch):
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(shared / "weights"))


def keeps_deep_promises(measure: Deep, side: int) -> None:
    ref, x0, x1 = (images(seed, 5, 3, side, side + 3) for seed in range(3))
    x0[1] = ref[1]
    before = ref.copy(), x0.copy(), x1.copy()
    d0, d1 = measure.triplet(ref, x0, x1)
    assert d0.shape == d1.shape == (5,)
    assert d0.dtype == np.float64
    assert d0[1] == 0
    assert (np.delete(d0, 1) > 0).all()
    close = {"rtol": 1e-5, "atol": 1e-7}
    np.testing.assert_allclose(measure(ref, x0), d0, **close)
    np.testing.assert_allclose(measure(ref, x1), d1, **close)
    np.testing.assert_allclose(measure(x0, ref), d0, **close)
    np.testing.assert_allclose([measure(ref[[i]], x0[[i]])[0] for i in range(5)], d0, **close)
    np.testing.assert_array_equal((ref, x0, x1), before)
    assert (measure(ref, ref) == 0).all()
    assert measure(ref[:0], x0[:0]).shape == (0,)
    assert [d.shape for d in measure.triplet(ref[:0], x0[:0], x1[:0])] == [(0,), (0,)]


def works_on_tensors(measure: Deep, side: int) -> None:
    ref, x0, x1 = (images(seed, 3, 3, side, side) for seed in range(3))
    expected = measure.triplet(ref, x0, x1)
    for kind in ("torch float32", "torch float64"):
        batches = of_kind(kind, ref, x0, x1)
        batches[0].requires_grad_()
        found = measure.triplet(*batches)
        for d, e in zip(found, expected, strict=True):
            assert d.dtype == batches[0].dtype
            assert not d.requires_grad
            np.testing.assert_allclose(d, e, rtol=1e-5, atol=1e-7)


def refuses_smaller(measure: Deep, least: int) -> None:
    assert (measure(*(images(seed, 1, 3, least, least) for seed in range(2))) > 0).all()
    small = np.zeros((1, 3, least - 1, least + 1))
    message = f"images must be at least {least} x {least} pixels for this distance; got {least - 1} x {least + 1}"
    for call in (lambda: measure(small, small), lambda: measure.triplet(small, small, small)):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()


@pytest.mark.usefixtures("published_weights")
@names
def test_golden_values(name):
    variant = name.replace("_", ".")
    agrees_with_golden(distance(name), variant, "numpy float32")
    # The reference shared, on tensors; the large images are left out where they take seconds.
    groups = ("s64", "odd", "ex") if name == "lpips_vgg" else None
    agrees_with_golden(lambda ref, x: distance(name).triplet(ref, ref, x)[1], variant, "torch float32", groups)


@pytest.mark.usefixtures("published_weights")
def test_the_example_of_the_authors():
    d0, d1 = distance("lpips").triplet(*(golden_images("ex", which) for which in ("ref", "x0", "x1")))
    assert (d0.round(4), d1.round(4)) == (0.7219, 0.1376)


@pytest.mark.usefixtures("random_weights")
@names
def test_stages(name):
    backbone = lpips.BACKBONES[name][0]
    stages = backbone(any_tensors(lpips.BACKBONES[name][1]), torch.rand(1, 3, 64, 64))
    assert [(stage.shape[1], stage.shape[2]) for stage in stages] == STAGES[name]


@pytest.mark.usefixtures("random_weights")
@names
def test_promises(name):
    keeps_deep_promises(distance(name), LEAST[name])


@pytest.mark.usefixtures("random_weights")
@names
def test_tensors(name):
    works_on_tensors(distance(name), LEAST[name])


@pytest.mark.usefixtures("random_weights")
@names
def test_smaller_images_are_refused(name):
    refuses_smaller(distance(name), LEAST[name])


@pytest.mark.usefixtures("random_weights")
def test_pieces_cover_the_batch():
    ref, x = images(0, 7, 3, 40, 40), images(1, 7, 3, 40, 40)
    whole = distance("lpips_alex")
    cut = dataclasses.replace(whole, piece=2 * 2 * 40 * 40)
    np.testing.assert_allclose(cut(ref, x), whole(ref, x), rtol=1e-5)


@pytest.mark.usefixtures("random_weights")
def test_against_the_formula():
    ref, x = (torch.from_numpy(images(seed, 1, 3, 40, 50)).float() for seed in range(2))
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    stages = []
    for image in (ref, x):
        scaled = ((2 * image.movedim(1, -1) - 1) - shift) / scale
        stages.append(list(backbones.alexnet(any_tensors("alexnet"), scaled.movedim(-1, 1))))
    total = 0.0
    heads = any_tensors("lpips_alex_head").values()
    for a, b, head in zip(*stages, heads, strict=True):
        for i, j in np.ndindex(*a.shape[2:]):
            p, q = a[0, :, i, j].double(), b[0, :, i, j].double()
            difference = p / (p.norm() + 1e-10) - q / (q.norm() + 1e-10)
            total += float((head.flatten() * difference**2).sum()) / (a.shape[2] * a.shape[3])
    assert distance("lpips_alex")(ref, x).item() == pytest.approx(total, rel=1e-5)


def test_pixels_without_features():
    """Where a network sees nothing, the unit vector is 0; against the formula, in double precision."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 8, 2, 4)).astype(np.float32) * rng.choice([1e-6, 1, 1e4], (2, 3, 1, 2, 4))
    a[:, :, 0, :2] = 0
    b[:, :, 0, 1:3] = 0
    b[:, :, 1] = a[:, :, 1]
    weight = rng.random(8)
    a, b = a.astype(np.float32), b.astype(np.float32)
    units = [stage / (np.linalg.norm(stage.astype(float), axis=1, keepdims=True) + 1e-10) for stage in (a, b)]
    expected = np.einsum("bchw,c->b", (units[0] - units[1]) ** 2, weight) / 8
    parameters = {"lin0.model.1.weight": torch.from_numpy(weight).float().view(1, 8, 1, 1)}
    for one, other in ((a, b), (b, a)):
        found = lpips.compare(parameters, 0, torch.from_numpy(one), torch.from_numpy(other))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (lpips.compare(parameters, 0, torch.from_numpy(a), torch.from_numpy(a)) == 0).all()


@pytest.mark.usefixtures("random_weights")
def test_names_settings_and_digests():
    assert repr(distance("lpips")) == "Deep(name='lpips_alex', device='cpu', precision='fp32')"
    assert distance("lpips", precision="tf32").precision == "tf32"
    with pytest.raises(ValueError, match=r"^precision must be one of fp32, tf32; got 'fp16'$"):
        distance("lpips", precision="fp16")
    digests = distance("lpips_squeeze").weights
    assert list(digests) == ["squeezenet1_1", "lpips_squeeze_head"]
    assert digests["squeezenet1_1"].startswith("sha256 b8a52dc0")


@pytest.mark.usefixtures("random_weights")
def test_torch_is_left_as_it_was():
    cudnn = torch.backends.cudnn
    before = cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, torch.is_grad_enabled()
    distance("lpips")(images(0, 1, 3, 40, 40), images(1, 1, 3, 40, 40))
    assert before == (
        cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, torch.is_grad_enabled()
    )  # fmt: skip


@pytest.mark.usefixtures("random_weights")
def test_it_can_be_sent_to_another_process():
    ref, x = images(0, 1, 3, 40, 40), images(1, 1, 3, 40, 40)
    sent = pickle.loads(pickle.dumps(distance("lpips")))
    assert sent(ref, x) == pytest.approx(distance("lpips")(ref, x), rel=1e-6)


def test_without_weights_there_is_no_distance(monkeypatch, tmp_path):
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for name, file in (("lpips", "alexnet"), ("lpips_vgg", "vgg16"), ("lpips_squeeze", "squeezenet1_1")):
        with pytest.raises(weights.DataError, match=f"^the weights {file} are needed and not at hand; tried: "):
            distance(name)

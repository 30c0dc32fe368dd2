"""LPIPS: golden values with the published weights, and its properties with any weights."""

from __future__ import annotations

import numpy as np
import pytest

from distance_checks import (
    agrees_with_golden,
    any_tensors,
    golden_images,
    images,
)
from twoafc.distances import NEEDS, distance, lpips, weights
from twoafc.distances.deep import alexnet
from twoafc.errors import DataError
from twoafc.files import save_archive

torch = pytest.importorskip("torch")

LEAST = {"lpips_alex": 31, "lpips_vgg": 16, "lpips_squeeze": 17}
STAGES = {
    "lpips_alex": [(64, 15), (192, 7), (384, 3), (256, 3), (256, 3)],
    "lpips_vgg": [(64, 64), (128, 32), (256, 16), (512, 8), (512, 4)],
    "lpips_squeeze": [(64, 31), (128, 15), (256, 7), (384, 3), (384, 3), (512, 3), (512, 3)],
}
names = pytest.mark.parametrize("name", list(LEAST))


@pytest.mark.usefixtures("published_weights")
@pytest.mark.parametrize("name", ["lpips_alex", "lpips_squeeze", pytest.param("lpips_vgg", marks=pytest.mark.slow)])
def test_golden_values(name):
    variant = name.replace("_", ".")
    agrees_with_golden(distance(name), variant, "numpy float32")
    # Pairs of tensors; the large images are left out, as they take seconds.
    agrees_with_golden(distance(name), variant, "torch float32", ("s64", "odd", "ex"))


@pytest.mark.usefixtures("published_weights")
def test_the_example_of_the_authors():
    d0, d1 = distance("lpips").triplet(*(golden_images("ex", which) for which in ("ref", "x0", "x1")))
    assert (d0.round(4), d1.round(4)) == (0.7219, 0.1376)


@pytest.mark.usefixtures("random_weights")
@names
def test_stages(name):
    backbone, _ = lpips.BACKBONES[name]
    stages = backbone(any_tensors(NEEDS[name][0]), torch.rand(1, 3, 64, 64))
    assert [(stage.shape[1], stage.shape[2]) for stage in stages] == STAGES[name]


@pytest.mark.usefixtures("random_weights")
def test_against_the_formula():
    ref, x = (torch.from_numpy(images(seed, 1, 3, 40, 50)).float() for seed in range(2))
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    stages = []
    for image in (ref, x):
        scaled = ((2 * image.movedim(1, -1) - 1) - shift) / scale
        stages.append(list(alexnet(any_tensors("alexnet"), scaled.movedim(-1, 1))))
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


# --- heads ------------------------------------------------------------------------------------------------------------


def slow_channels(name, ref, x):
    """For each channel the mean over pixels of the squared difference of unit vectors, layer by layer."""
    parameters, _ = weights.network_tensors(name)
    backbone, _ = lpips.BACKBONES[name]
    stages = [list(lpips.layers(parameters, torch.from_numpy(each).float(), backbone=backbone)) for each in (ref, x)]
    means = []
    for a, b in zip(*stages, strict=True):
        a, b = (stage.double() / (stage.double().square().sum(1, keepdim=True).sqrt() + 1e-10) for stage in (a, b))
        means.append(((a - b) ** 2).mean(dim=(2, 3)))
    return torch.cat(means, dim=1).numpy()


@names
@pytest.mark.usefixtures("random_weights")
def test_channels_are_means_of_squared_differences(name):
    ref, x0, x1 = (images(seed, 2, 3, 40, 40) for seed in range(3))
    channels = lpips.lpips_channels(name)
    means = channels(ref, x0)
    assert means.shape == (2, *channels.width)
    np.testing.assert_allclose(means, slow_channels(name, ref, x0), rtol=1e-4, atol=1e-9)
    for own, both in zip((means, channels(ref, x1)), channels.triplet(ref, x0, x1), strict=True):
        np.testing.assert_allclose(own, both, rtol=1e-4, atol=1e-9)
    assert not channels(ref, ref).any()


@names
@pytest.mark.usefixtures("published_weights")
def test_published_heads_times_channels_are_the_distance(name):
    pair = images(0, 3, 3, 40, 40), images(1, 3, 3, 40, 40)
    channels = lpips.lpips_channels(name)
    np.testing.assert_allclose(channels(*pair) @ np.concatenate(channels.heads), distance(name)(*pair), rtol=1e-6)


def write_heads(path, name="lpips_alex", **changes):
    """Heads of random numbers, as twoafc fuse writes them."""
    rng = np.random.default_rng(0)
    own = any_tensors(NEEDS[name][1])
    arrays = {key: rng.random(tuple(tensor.shape)).astype(np.float32) for key, tensor in own.items()}
    digests = {file: weights.published()[file].digest for file in NEEDS[name]}
    save_archive(path, changes.pop("kind", "heads"), {"network": name, "weights": digests, **changes}, arrays)
    return np.concatenate([array.ravel() for array in arrays.values()])


@names
@pytest.mark.usefixtures("random_weights")
def test_heads_are_loaded_from_their_file(name, tmp_path):
    heads = write_heads(tmp_path / "mine.npz", name)
    pair = images(0, 2, 3, 40, 40), images(1, 2, 3, 40, 40)
    mine = distance(tmp_path / "mine.npz")
    np.testing.assert_allclose(mine(*pair), lpips.lpips_channels(name)(*pair) @ heads, rtol=1e-5)
    assert (mine.name, list(mine.weights)) == ("mine", [NEEDS[name][0], "heads"])
    assert mine.weights["heads"].startswith("sha256 ")


@pytest.mark.usefixtures("random_weights")
def test_files_that_are_no_heads_for_this_network_are_refused(tmp_path):
    path = tmp_path / "mine.npz"

    def wrong(**changes):
        write_heads(path, **changes)
        with pytest.raises(DataError) as caught:
            distance(str(path))
        return str(caught.value).removeprefix(f"{path} ")

    now = weights.published()["alexnet"].digest
    assert wrong(weights={"alexnet": "sha256 0"}) == f"was fitted to another alexnet: sha256 0, now {now}"
    assert wrong(kind="fused") == "is a sum of functions of other distances; twoafc measure computes it on images"
    assert wrong(kind="spline") == "is a model of P for one distance, not a distance; twoafc fuse makes distances"
    digests = {file: weights.published()[file].digest for file in NEEDS["lpips_vgg"]}
    assert wrong(network="lpips_vgg", weights=digests) == "has no heads of lpips_vgg; its arrays have other shapes"
    with pytest.raises(ValueError, match="channels are those of lpips_alex, lpips_vgg, lpips_squeeze; found 'dists'"):
        lpips.lpips_channels("dists")

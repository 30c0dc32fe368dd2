"""The likelihood of the votes in training loops: its values are those of numpy, its gradients those of differences."""

from __future__ import annotations

import copy
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator
from scipy.special import expit

import twoafc
from conftest import random_table
from twoafc import Density, Spline, metrics
from twoafc.errors import DataError
from twoafc.estimators import Chance, Fused, Fusion, FusionFit
from twoafc.table import Pairs, Triplets

torch = pytest.importorskip("torch")
pytest.importorskip("torchmetrics")

from twoafc.torch import FittedPsychometric, FusedDistance, Psychometric, VoteLoss, VoteNLL  # noqa: E402 - where torch is
from twoafc.torch.psychometric import monotone_cubic  # noqa: E402


def tensors(*arrays: Any, dtype: Any = torch.float64) -> list[Any]:
    return [torch.tensor(np.asarray(array), dtype=dtype) for array in arrays]


def batch(T: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    d0, d1 = rng.lognormal(size=(2, T))
    M = rng.integers(1, 6, T)
    return {"d0": d0, "d1": d1, "n": rng.binomial(M, 0.5), "M": M, "weight": rng.uniform(0.5, 2, T)}


@pytest.fixture(scope="module")
def table() -> Triplets:
    return random_table(400, seed=1)


@pytest.fixture(scope="module", params=["logit", "probit"])
def fit(table: Triplets, request: pytest.FixtureRequest) -> Any:
    return Spline(link=request.param).fit(table)


# --- values -----------------------------------------------------------------------------------------------------------


def test_the_learnable_function_is_its_formula() -> None:
    b = batch()
    psychometric = Psychometric(slope=1.7, threshold=0.2, lapse=0.05).double()
    P = 0.025 + 0.95 * expit(1.7 * (np.log(b["d0"] + 0.2) - np.log(b["d1"] + 0.2)))
    log_p, log_q = (each.detach().numpy() for each in psychometric(*tensors(b["d0"], b["d1"])))
    np.testing.assert_allclose(np.exp(log_p), P, rtol=1e-6)
    np.testing.assert_allclose(np.exp(log_q), 1 - P, rtol=1e-6)
    assert (psychometric.slope, psychometric.threshold, psychometric.lapse) == pytest.approx((1.7, 0.2, 0.05), rel=1e-6)
    assert repr(psychometric) == "Psychometric(slope=1.7, threshold=0.2, lapse=0.05)"


def test_p_of_a_fit_is_that_of_the_spline(table: Triplets, fit: Any) -> None:
    loss = VoteLoss(fit)
    outside = np.array([0.0, 1e-3, 1e3]), np.array([1e3, 0.0, 1.0])
    between = np.random.default_rng(0).lognormal(size=(2, 300))
    for d0, d1 in ((table.d0, table.d1), outside, between):
        P = loss.probability(*tensors(d0, d1))
        np.testing.assert_allclose(P, fit.probability(d0, d1), rtol=0, atol=1e-9)
    single = loss.probability(*tensors(table.d0, table.d1, dtype=torch.float32))
    np.testing.assert_allclose(single, fit.probability(table.d0, table.d1), rtol=0, atol=1e-6)
    assert (loss.probability(*tensors([0.3, 2.0], [0.3, 2.0])) == 0.5).all()
    assert list(loss.parameters()) == []


def test_a_fit_may_be_a_file(table: Triplets, fit: Any, tmp_path: Path) -> None:
    fit.save(tmp_path / "m.npz")
    d = tensors(table.d0, table.d1)
    assert torch.equal(VoteLoss(tmp_path / "m.npz").probability(*d), VoteLoss(fit).probability(*d))


def test_certain_votes_and_many_of_them() -> None:
    """A certain P that is right costs nothing, and the coefficient of many votes is exact in single precision."""

    class Given(torch.nn.Module):
        def forward(self, d0: torch.Tensor, d1: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return d0.log(), (1 - d0).log()

    P, M = torch.tensor([1.0, 0.0, 0.5, 0.3]), torch.tensor([5, 5, 100_000, 1000])
    n = torch.tensor([5, 0, 50_100, 290])
    found = VoteLoss(Given(), reduction="none")(P, P, n, M)
    expected = [metrics.nll([k], [m], [p]) for k, m, p in zip(n.tolist(), M.tolist(), P.tolist(), strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=0.01)
    assert found[:2].tolist() == [0.0, 0.0]
    assert found[3].item() == pytest.approx(expected[3], abs=1e-4)


@pytest.mark.parametrize("psychometric", ["learnable", "fitted"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_the_nll_of_the_metrics(psychometric: str, weighted: bool, fit: Any) -> None:
    b = batch()
    n, M, w = b["n"], b["M"], b["weight"] if weighted else np.ones(40)
    given = tensors(*(b[name] for name in ("d0", "d1", "n", "M")), *([w] if weighted else []))
    for reduction, measure in (("none", "nll"), ("sum", "nll"), ("mean", "nll"), ("mean", "nll_per_vote")):
        loss = VoteLoss(fit if psychometric == "fitted" else None, reduction=reduction, measure=measure).double()  # type: ignore[arg-type]
        P = loss.probability(*given[:2]).detach().numpy()
        rows = -metrics.log_likelihood(n, M, P) * w
        expected = {"none": rows, "sum": rows.sum(), "mean": rows.sum() / w.sum()}[reduction]
        if measure == "nll_per_vote":
            expected = rows.sum() / (w * M).sum()
        np.testing.assert_allclose(loss(*given).detach(), expected, rtol=1e-9)
    if not weighted:
        assert VoteLoss()(*tensors(b["d0"], b["d1"], n), M=5).item() > 0


@given(st.integers(0, 1000), st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
@settings(max_examples=10)
def test_any_precision_gives_about_the_same(seed: int, dtype: Any) -> None:
    b = batch(seed=seed)
    d0, d1 = tensors(b["d0"], b["d1"], dtype=dtype)
    n, M = tensors(b["n"], b["M"], dtype=torch.int64)
    loss = VoteLoss()
    found = loss(d0, d1, n, M)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(loss(d0.double(), d1.double(), n, M).item(), rel=1e-5)


def test_under_autocast(fit: Any) -> None:
    b = batch()
    layer = torch.nn.Linear(1, 1)
    given = tensors(b["d0"], dtype=torch.float32)[0][:, None], tensors(b["d1"], dtype=torch.float32)[0][:, None]
    n, M = tensors(b["n"], b["M"], dtype=torch.int64)
    for loss in (VoteLoss(), VoteLoss(fit)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            d0, d1 = (layer(each)[:, 0] ** 2 for each in given)
            value = loss(d0, d1, n, M)
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(loss(d0.double(), d1.double(), n, M).item(), rel=1e-5)
        value.backward()
        assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_votes_against_a_certain_p_stay_finite(dtype: Any) -> None:
    """P rounds to 0 and 1 here: the loss and its gradient do not."""
    d0 = torch.tensor([1e30, 0.0, 1e30, 0.0], dtype=dtype, requires_grad=True)
    d1 = torch.tensor([0.0, 1e30, 0.0, 1e30], dtype=dtype, requires_grad=True)
    loss = VoteLoss(Psychometric(slope=50, threshold=1e-6, lapse=1e-9), reduction="none").to(dtype)
    value = loss(d0, d1, torch.tensor([0, 5, 5, 0]), 5)
    value.sum().backward()
    np.testing.assert_allclose(value.detach(), [5 * np.log(2e9)] * 2 + [5 * 5e-10] * 2, rtol=1e-4)
    assert d0.grad.isfinite().all()
    assert d1.grad.isfinite().all()


# --- gradients --------------------------------------------------------------------------------------------------------


def test_gradients_of_the_learnable_loss_are_those_of_differences() -> None:
    b = batch(12)
    d0, d1, n, M, w = tensors(*(b[name] for name in ("d0", "d1", "n", "M", "weight")))
    names = ("log_slope", "log_threshold", "lapse_logit")

    def value(d0: Any, d1: Any, *parameters: Any) -> Any:
        given = {f"psychometric.{name}": each for name, each in zip(names, parameters, strict=True)}
        return torch.func.functional_call(loss, given, (d0, d1, n, M, w))

    loss = VoteLoss(Psychometric(slope=1.5, threshold=0.3, lapse=0.03), measure="nll_per_vote").double()
    parameters = [getattr(loss.psychometric, name).detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(value, (d0.requires_grad_(), d1.requires_grad_(), *parameters))


def test_gradients_of_a_fit_are_those_of_its_surface_and_the_smooth_map(fit: Any) -> None:
    """The surface is differentiated at the exact scores, the map by its smooth form: each against differences."""
    psychometric = FittedPsychometric(fit)
    d = torch.linspace(0.005, 40.0, 60, dtype=torch.float64).requires_grad_()  # beyond both ends, too
    assert torch.autograd.gradcheck(psychometric.smooth_score, d)
    exact = torch.tensor(np.interp(d.detach().numpy(), fit.uniform.values, fit.scores))
    np.testing.assert_allclose(psychometric.score(d).detach(), exact, rtol=0, atol=1e-12)
    by_score = copy.deepcopy(psychometric)
    by_score.score = lambda z: z  # type: ignore[method-assign, assignment]
    z0, z1 = exact.clone().requires_grad_(), exact.flip(0).clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z0, z1: by_score(z0, z1)[0], (z0, z1))
    # The whole: the product of the two.
    psychometric(d, d.detach().flip(0))[0].sum().backward()
    (slope,) = torch.autograd.grad(by_score(z0, z1)[0].sum(), z0)
    (rise,) = torch.autograd.grad(psychometric.smooth_score(d).sum(), d)
    np.testing.assert_allclose(d.grad, slope * rise, rtol=1e-9, atol=1e-12)


def test_the_smooth_map_is_monotone_close_and_straight_beyond(fit: Any) -> None:
    psychometric = FittedPsychometric(fit)
    x, y, _ = psychometric.smooth.numpy()
    d = np.geomspace(x[0], x[-1], 2000)
    found = psychometric.smooth_score(*tensors(d)).numpy()
    # scipy's monotone cubic, which differs in how it ends.
    inner = (d > x[1]) & (d < x[-2])
    np.testing.assert_allclose(found[inner], PchipInterpolator(x, y)(d[inner]), atol=1e-9)
    assert (np.diff(found) > 0).all()
    assert np.abs(found - np.interp(d, fit.uniform.values, fit.scores)).max() < 0.3
    beyond = psychometric.smooth_score(*tensors([x[-1], x[-1] + 1, x[-1] + 2])).numpy()
    assert np.diff(beyond) == pytest.approx([beyond[1] - beyond[0]] * 2)
    assert beyond[1] > beyond[0]


def test_a_scale_is_recovered_by_descent() -> None:
    """From votes of a known world, the learnable function finds its slope, threshold and lapse rate."""
    rng = np.random.default_rng(3)
    d0, d1 = rng.lognormal(size=(2, 20_000))
    P = 0.03 + 0.94 * expit(3.0 * (np.log(d0 + 0.5) - np.log(d1 + 0.5)))
    n = rng.binomial(5, P)
    loss = VoteLoss().double()
    given = tensors(d0, d1, n)
    optimiser = torch.optim.LBFGS(loss.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimiser.zero_grad()
        value = loss(*given, M=5)
        value.backward()
        return value

    optimiser.step(closure)
    found = loss.psychometric
    assert (found.slope, found.threshold) == pytest.approx((3.0, 0.5), rel=0.1)
    assert found.lapse == pytest.approx(0.06, abs=0.015)


def test_distances_that_lost_their_scale_find_it_again() -> None:
    """By the gradients of the smooth map, under the values of the fit."""
    rng = np.random.default_rng(0)
    d = rng.lognormal(size=(2, 2000))
    n = rng.binomial(5, expit(4 * (np.log(d[0] + 1) - np.log(d[1] + 1))))
    loss = VoteLoss(Spline().fit({"n": n, "M": [5] * 2000, "d0": d[0], "d1": d[1]}))
    d0, d1, n = tensors(*d, n)
    for start in (-2.0, 1.5):
        log_scale = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.Adam([log_scale], lr=0.2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 50)
        for _ in range(50):
            optimiser.zero_grad()
            loss(log_scale.exp() * d0, log_scale.exp() * d1, n, M=5).backward()
            optimiser.step()
            schedule.step()
        assert log_scale.item() == pytest.approx(0, abs=0.1)


# --- the metric -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["nll", "nll_per_vote"])
def test_the_metric_of_batches_is_that_of_the_table(measure: str) -> None:
    b = batch(50)
    P = b["d0"] / (b["d0"] + b["d1"])
    metric = VoteNLL(measure=measure)  # type: ignore[arg-type]
    for rows in np.array_split(np.arange(50), [3, 20, 21]):
        metric.update(*tensors(P[rows], b["n"][rows], b["M"][rows]))
    assert metric.compute().item() == pytest.approx(getattr(metrics, measure)(b["n"], b["M"], P), rel=1e-12)
    metric.reset()
    metric(*tensors(P, b["n"], b["M"], b["weight"]))
    rows = -metrics.log_likelihood(b["n"], b["M"], P) * b["weight"]
    over = b["weight"] * (b["M"] if measure == "nll_per_vote" else 1)
    assert metric.compute().item() == pytest.approx(rows.sum() / over.sum(), rel=1e-12)


def test_a_certain_p_scores_as_in_the_metrics() -> None:
    for n in (5, 4):
        metric = VoteNLL()
        metric.update(*tensors([1.0], [n], [5]))
        assert metric.compute().item() == metrics.nll([n], [5], [1.0])


PROCESS = """
import json, sys
import torch
from twoafc.torch import VoteNLL
rank, meet, rows = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
torch.distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
metric = VoteNLL()
metric.update(*map(torch.tensor, rows))
print(repr(metric.compute().item()))
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_have_one_value(tmp_path: Path) -> None:
    b = batch(30)
    P = (b["d0"] / (b["d0"] + b["d1"])).round(6)
    started = []
    for rank, part in enumerate((slice(0, 7), slice(7, 30))):
        rows = json.dumps([column[part].tolist() for column in (P, b["n"], b["M"])])
        command = [sys.executable, "-c", PROCESS, str(rank), f"file://{tmp_path}/meet", rows]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    for process in started:
        out, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert float(out) == pytest.approx(metrics.nll(b["n"], b["M"], P), rel=1e-6)


# --- mistakes ---------------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"d0": [0.1, 0.2], "d1": [0.3, 0.1], "n": [1, 2], "M": [2, 2]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"M": [2, 0], "n": [1, 0]}, "M must be at least 1; index 1 has M=0 (1 of 2)"),
        ({"n": [1, 3]}, "n must lie in [0, M]; index 1 has n=3, M=2 (1 of 2)"),
        ({"n": [-1, 3]}, "n must lie in [0, M]; index 0 has n=-1, M=2 (2 of 2)"),
        ({"d0": [0.1, np.nan]}, "a distance must be finite and at least 0; index 1 has d0=nan (1 of 2)"),
        ({"d1": [np.inf, 1]}, "a distance must be finite and at least 0; index 0 has d1=inf (1 of 2)"),
        ({"d1": [1, -0.5]}, "a distance must be finite and at least 0; index 1 has d1=-0.5 (1 of 2)"),
        ({"weight": [1, 0]}, "weight must be positive and finite; index 1 has weight=0 (1 of 2)"),
        ({"n": [[1], [2]]}, "d0, d1, n and M must have one shape; found d0 (2,), d1 (2,), n (2, 1), M (2,)"),
        ({"d1": [0.1]}, "d0, d1, n and M must have one shape; found d0 (2,), d1 (1,), n (2,), M (2,)"),
        ({name: [] for name in GOOD}, "there must be at least one triplet; found none"),
    ],
)
def test_what_is_wrong_with_a_batch_is_said(wrong: dict[str, Any], message: str) -> None:
    given = {name: torch.tensor(value, dtype=torch.float32) for name, value in (GOOD | wrong).items()}
    with pytest.raises(DataError) as caught:
        VoteLoss()(**given)
    assert str(caught.value) == message


def test_what_is_wrong_with_a_p_is_said() -> None:
    with pytest.raises(DataError, match=r"^P must lie in \[0, 1\]; index 0 has P=1\.5 \(1 of 1\)$"):
        VoteNLL().update(*tensors([1.5], [1], [2]))
    with pytest.raises(DataError, match=r"^P and n must have one shape; found P \(2,\), n \(1,\)$"):
        VoteNLL().update(*tensors([0.5, 0.5], [1]), M=2)


def test_what_is_wrong_with_settings_is_said(table: Triplets, tmp_path: Path) -> None:
    for wrong, message in (
        ({"reduction": "max"}, "reduction must be one of mean, sum, none; found 'max'"),
        ({"measure": "agreement"}, "measure must be one of nll, nll_per_vote; found 'agreement'"),
        ({"measure": "nll_per_vote", "reduction": "sum"}, "nll_per_vote is a mean over votes; found reduction='sum'"),
    ):
        with pytest.raises(ValueError, match="found") as caught:
            VoteLoss(**wrong)  # type: ignore[arg-type]
        assert str(caught.value) == message
    for wrong, message in (
        ({"slope": 0.0}, "slope must lie between 0 and inf; found 0.0"),
        ({"threshold": float("nan")}, "threshold must lie between 0 and inf; found nan"),
        ({"lapse": 0.5}, "lapse must lie between 0 and 0.4; found 0.5"),
    ):
        with pytest.raises(ValueError, match="found") as caught:
            Psychometric(**wrong)  # type: ignore[arg-type]
        assert str(caught.value) == message
    rule = "the model must be a spline fitted to triplets; found one of "
    Density().fit(table).save(tmp_path / "m.npz")
    pairs = Pairs.from_frame({"n": [0, 1, 2], "M": [2, 2, 2], "d": [0.3, 0.2, 0.1]})
    for model, kind in ((tmp_path / "m.npz", "density"), (Spline().fit(pairs), "pairs-spline"), (3, "int")):
        with pytest.raises(DataError) as caught:
            VoteLoss(model)  # type: ignore[arg-type]
        assert str(caught.value) == f"{rule}{kind}"
    one = Triplets.from_frame({"n": [0, 1, 2], "M": [2] * 3, "d0": [1.0] * 3, "d1": [1.0] * 3})
    with pytest.raises(DataError, match=r"^a fit to one distance alone has no gradient; "):
        VoteLoss(Spline().fit(one))


def test_the_name_hides_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "torch" not in twoafc.__all__
    assert twoafc.torch.VoteLoss is VoteLoss
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "twoafc.torch.metric")
    with pytest.raises(
        ImportError, match=r"^torchmetrics is not installed; run: pip install 'twoafc\[torchmetrics\]'$"
    ):
        __import__("twoafc.torch.metric")


@pytest.mark.slow
def test_the_example_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    result = importlib.import_module("train_metric").main(800, 5)
    nll = {r["distance"]: r["nll"] for r in result.scores if (r["split"], r["group"]) == ("test", "all")}
    assert nll["trained"] < nll["ssim"] < nll["rmse"]
    assert nll["trained"] < nll["untrained"] - 0.2


# --- fused distances --------------------------------------------------------------------------------------------------


def a_fusion(*parts: str) -> FusionFit:
    rng = np.random.default_rng(0)
    knots = tuple(np.concatenate([[0.0], np.sort(rng.lognormal(sigma=0.5, size=300)) / 8]) for _ in parts)
    fused = Fused(parts, knots, tuple(3 * np.sqrt(each) for each in knots))
    return FusionFit(Fusion(parts), fused, Chance(0.01))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_fused_distance_has_the_values_of_the_fit(dtype: torch.dtype) -> None:
    fit = a_fusion("rmse", "ssim")
    d = np.concatenate([[0.0], np.random.default_rng(1).uniform(0, 3, 200)])
    found = FusedDistance(fit).fuse(dict.fromkeys(("rmse", "ssim"), torch.tensor(d, dtype=dtype)))
    expected = fit.fused({"rmse": d, "ssim": d})
    assert found.dtype == dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6 if dtype == torch.float32 else 1e-12, atol=1e-6)
    images = torch.rand(3, 3, 32, 32, dtype=dtype)
    assert FusedDistance(fit)(images, images).tolist() == [0, 0, 0]


def test_gradients_of_a_fused_distance_are_those_of_smooth_functions() -> None:
    fit = a_fusion("rmse", "ssim")
    module = FusedDistance(fit)
    d = torch.linspace(0.05, 1, 40, dtype=torch.float64, requires_grad=True)
    module.fuse({"rmse": d, "ssim": d}).sum().backward()
    smooth = torch.stack([monotone_cubic(module.get_buffer(f"smooth_{at}"), d) for at in (0, 1)]).sum(dim=0)
    (expected,) = torch.autograd.grad(smooth.sum(), d)
    assert d.grad is not None
    torch.testing.assert_close(d.grad, expected)
    # 3 sqrt(d) for each part: the truth is near, though single pieces of a line are not.
    np.testing.assert_allclose(d.grad.numpy()[5:15], (3 / np.sqrt(d.detach().numpy()))[5:15], rtol=0.1)


def test_gradients_reach_images_and_the_users_own_module() -> None:
    class Mine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, ref: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return ((ref - x).square().mean(dim=(2, 3)) * self.weight).sum(dim=1)

    module = FusedDistance(a_fusion("mine", "ssim"), parts={"mine": Mine()})
    assert [name for name, _ in module.named_parameters()] == ["part_0.weight"]
    ref = torch.rand(2, 3, 32, 32)
    x = (0.8 * ref).requires_grad_()
    module(ref, x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_deep_distance_has_gradients_where_images_ask_for_them(shared: Path) -> None:
    lpips = twoafc.distance("lpips_alex", weights=shared / "weights")
    rng = torch.Generator().manual_seed(0)
    ref = torch.rand(1, 3, 32, 32, generator=rng)
    x = torch.rand(1, 3, 32, 32, generator=rng).mul(0.2).add(0.4)
    assert not lpips(ref, x).requires_grad
    x.requires_grad_()
    (slope,) = torch.autograd.grad(lpips(ref, x).sum(), x)
    step = 0.01 * slope / slope.norm()
    with torch.no_grad():
        risen = lpips(ref, (x + step).clamp(0, 1)) - lpips(ref, (x - step).clamp(0, 1))
    assert float(risen) == pytest.approx(0.02 * float(slope.norm()), rel=0.05)


def test_what_is_no_fused_distance_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the fused distance has no part hue; it has rmse, ssim"):
        FusedDistance(a_fusion("rmse", "ssim"), parts={"hue": torch.nn.Identity()})
    fit = twoafc.Spline().fit(twoafc.worlds.simulate("weber", triplets=100, votes=2))
    with pytest.raises(
        DataError, match="the model must be a fused distance, from twoafc fuse; found a model of spline"
    ):
        FusedDistance(fit)  # type: ignore[arg-type]

"""The network estimator: its arithmetic against torch, what it recovers, and what it says of a run that fails."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits

from twoafc.core import log_coefficient, log_pmf, uniformise
from twoafc.errors import DataError
from twoafc.estimators import Network, NetworkFit
from twoafc.estimators.network import (
    LATTICE,
    LAYERS,
    backward,
    counted_rows,
    descend_adam,
    forward,
    initial,
    layers,
    logits,
    losses,
    mean_loss,
    mirrored_rows,
)
from twoafc.table import Triplets
from twoafc.worlds import simulate, true_probability


def table(world="weber", triplets=1000, votes=(2, 5), seed=0):
    return Triplets.from_frame(simulate(world, triplets=triplets, votes=votes, seed=seed))


def some_rows(triplets):
    data = table(triplets=triplets)
    return mirrored_rows(data.d0, data.d1, data.n, data.M).astype(np.float64)


def torch_network(parameters):
    """The same network out of torch's own parts, in float64."""
    net = nn.Sequential(nn.Linear(5, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    start = 0
    with torch.no_grad():
        for layer, (units, columns) in zip((net[0], net[2], net[4]), LAYERS, strict=True):
            block = torch.tensor(parameters[start : start + units * columns].reshape(units, columns))
            layer.weight, layer.bias = nn.Parameter(block[:, :-1].clone()), nn.Parameter(block[:, -1].clone())
            start += units * columns
    return net


def flat(tensors):
    """Weights and biases of each layer, in the order of our vector."""
    weights, biases = tensors[::2], tensors[1::2]
    blocks = [torch.cat([w, b[:, None]], 1).ravel() for w, b in zip(weights, biases, strict=True)]
    return torch.cat(blocks).detach().numpy()


def torch_loss(net, rows):
    rows = torch.tensor(rows)
    n, M = rows[:, 6], rows[:, 7]
    return (M * binary_cross_entropy_with_logits(net(rows[:, :5])[:, 0], n / M, reduction="none")).mean()


def test_there_are_1281_parameters():
    fit = Network(solver="lbfgs").fit(table(triplets=20))
    assert fit.parameters.shape == (1281,)
    assert sum(p.numel() for p in torch_network(fit.parameters).parameters()) == 1281


def test_initial_parameters_fill_torchs_default_range():
    draws = np.array([initial(np.random.default_rng(seed)) for seed in range(300)])
    bound = np.concatenate([np.full(units * columns, (columns - 1) ** -0.5) for units, columns in LAYERS])
    assert (abs(draws) <= bound).all()
    assert (abs(draws).max(0) > 0.95 * bound).all()
    assert draws.std() == pytest.approx(np.sqrt(np.mean(bound**2) / 3), rel=0.01)


def test_inputs_are_the_papers_five_and_mirrors_follow():
    rows = mirrored_rows(np.array([0.3]), np.array([0.7]), np.array([1]), np.array([5]))
    expected = [
        [0.3, 0.7, -0.4, 0.3 / 0.8, 0.7 / 0.4, 1, 1, 5],
        [0.7, 0.3, 0.4, 0.7 / 0.4, 0.3 / 0.8, 1, 4, 5],
    ]
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


@pytest.mark.parametrize("size", [128, 37])
def test_logits_loss_and_gradient_are_those_of_torch(size):
    rows = some_rows(100)[:size]
    parameters = 2 * initial(np.random.default_rng(5))
    reference = torch_network(parameters)
    loss = torch_loss(reference, rows)
    loss.backward()
    weights = layers(parameters)
    entering, z = forward(weights, rows[:, :6])
    np.testing.assert_allclose(z, reference(torch.tensor(rows[:, :5])).detach()[:, 0], rtol=1e-12, atol=1e-13)
    assert losses(z, rows).mean() == pytest.approx(loss.item(), rel=1e-13)
    error = (rows[:, 7] / (1 + np.exp(-z)) - rows[:, 6]) / size
    gradient = backward(weights, entering, error)
    np.testing.assert_allclose(gradient, flat([p.grad for p in reference.parameters()]), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("learning_rate", [1e-3, 0.05])
def test_adam_takes_the_steps_of_torchs(learning_rate):
    rows = some_rows(150)  # 300 rows: two whole batches and one of 44
    ours, history = descend_adam(rows, Network(epochs=3, learning_rate=learning_rate, seed=7))
    rng = np.random.default_rng(7)
    reference = torch_network(initial(rng))
    adam = torch.optim.Adam(reference.parameters(), lr=learning_rate)
    for epoch in range(3):
        for chosen in np.split(rng.permutation(300), [128, 256]):
            adam.zero_grad()
            torch_loss(reference, rows[chosen]).backward()
            adam.step()
        assert history[epoch] == pytest.approx(torch_loss(reference, rows).item(), rel=1e-9)
    np.testing.assert_allclose(ours, flat(list(reference.parameters())), rtol=1e-6, atol=1e-8)


def test_float32_costs_adam_nothing_that_matters():
    rows = some_rows(1000)
    single, double = (descend_adam(rows.astype(dtype), Network(epochs=2)) for dtype in (np.float32, np.float64))
    np.testing.assert_allclose(single[1], double[1], rtol=1e-4)


def test_weighted_cross_entropy_less_the_coefficient_is_the_binomial_nll():
    data = table(triplets=300, votes=(1, 2, 5, 9))
    rows = mirrored_rows(data.d0, data.d1, data.n, data.M).astype(np.float64)[:300]
    z = logits(initial(np.random.default_rng(1)), rows[:, :6])
    P = 1 / (1 + np.exp(-z))
    entropy = binary_cross_entropy(torch.tensor(P), torch.tensor(data.n / data.M), reduction="none").numpy()
    nll = -log_pmf(data.n, data.M, P)
    np.testing.assert_allclose(data.M * entropy - log_coefficient(data.n, data.M), nll, rtol=1e-12)
    np.testing.assert_allclose(losses(z, rows) - log_coefficient(data.n, data.M), nll, rtol=1e-12)


def test_the_loss_of_a_sure_and_wrong_answer_is_large_but_finite():
    rows = np.array([[0, 0, 0, 0, 0, 1, 2, 2], [0, 0, 0, 0, 0, 1, 0, 2]], dtype=float)
    np.testing.assert_array_equal(losses(np.array([-1000.0, -1000.0]), rows), [2000, 0])
    np.testing.assert_array_equal(losses(np.array([1000.0, 1000.0]), rows), [0, 2000])


@pytest.mark.parametrize("inputs", ["uniform", "raw"])
def test_cells_hold_what_a_loop_over_mirrored_votes_puts_there(inputs):
    data = table(triplets=400)
    _, u0, u1 = uniformise(data.d0, data.d1)
    x0, x1 = (u0, u1) if inputs == "uniform" else (data.d0, data.d1)
    cells = {}
    for a, b, x, y, n, M in zip(u0, u1, x0, x1, data.n, data.M, strict=True):
        for key, row in (((a, b), (x, y, n)), ((b, a), (y, x, M - n))):
            cell = tuple(int(LATTICE * u) for u in key)
            cells[cell] = cells.get(cell, 0) + np.array([M * row[0], M * row[1], row[2], M])
    expected = np.array([cells[cell] for cell in sorted(cells)])
    expected[:, :2] /= expected[:, 3:]
    counted = counted_rows((u0, u1), (x0, x1), data.n, data.M, data.mass)
    np.testing.assert_allclose(counted[:, [0, 1, 6, 7]], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("solver", "inputs", "bound"),
    [("adam", "uniform", 0.05), ("adam", "raw", 0.025), ("lbfgs", "uniform", 0.015), ("lbfgs", "raw", 0.01)],
)
def test_a_known_P_is_recovered_from_5000_triplets(solver, inputs, bound):
    test = table(triplets=5000, seed=1)
    fit = Network(solver=solver, inputs=inputs).fit(table(triplets=5000, votes=5))
    error = abs(fit.probability(test.d0, test.d1) - true_probability("weber", test.d0, test.d1))
    assert error.mean() < bound
    assert not fit.diverged


def test_lbfgs_ends_lower_than_adam():
    train = table(triplets=20_000, votes=2)
    adam, lbfgs = (Network(solver=solver).fit(train) for solver in ("adam", "lbfgs"))
    assert lbfgs.training_nll[-1] < adam.training_nll[-1] < adam.training_nll[0] < adam.chance_nll


@pytest.mark.parametrize("inputs", ["uniform", "raw"])
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_the_training_nll_is_that_of_P_on_triplets_and_mirrors(solver, inputs):
    train = table()
    fit = Network(solver=solver, inputs=inputs).fit(train)
    both = [-log_pmf(t.n, t.M, fit.probability(t.d0, t.d1)).mean() for t in (train, train.mirrored())]
    assert fit.training_nll.shape == ((5,) if solver == "adam" else (1,))
    assert fit.training_nll[-1] == pytest.approx(np.mean(both), rel=1e-5)  # the run's own figure is from float32
    assert fit.chance_nll == pytest.approx(-log_pmf(train.n, train.M, 0.5).mean(), rel=1e-12)


def test_a_row_of_two_votes_is_two_rows_of_one():
    whole = table(triplets=800, votes=2)
    votes = {"n": np.r_[whole.n >= 1, whole.n == 2].astype(int), "M": np.ones(1600, int)}
    single = Triplets.from_frame(votes | {"d0": np.tile(whole.d0, 2), "d1": np.tile(whole.d1, 2)})
    a, b = (Network(solver="lbfgs").fit(t) for t in (whole, single))
    np.testing.assert_allclose(a.probability(whole.d0, whole.d1), b.probability(whole.d0, whole.d1), atol=1e-4)
    coefficient = log_coefficient(whole.n, whole.M).mean()
    assert a.training_nll[-1] + coefficient == pytest.approx(2 * b.training_nll[-1], rel=1e-5)


def test_a_table_four_times_over_changes_nothing_for_lbfgs(monkeypatch):
    # After 100 iterations the rounding errors of some processors have grown to 2e-3 of P.
    monkeypatch.setattr("twoafc.estimators.network.ITERATIONS", 40)
    once = table(triplets=500)
    often = Triplets.from_frame({name: np.tile(getattr(once, name), 4) for name in ("n", "M", "d0", "d1")})
    a, b = (Network(solver="lbfgs").fit(t) for t in (once, often))
    np.testing.assert_allclose(a.probability(once.d0, once.d1), b.probability(once.d0, once.d1), atol=1e-4)


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_seed_decides_every_bit(solver):
    train = table()
    first, again, other = (Network(solver=solver, seed=seed).fit(train) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.parameters, again.parameters)
    np.testing.assert_array_equal(first.training_nll, again.training_nll)
    assert (first.parameters != other.parameters).any()


def test_nothing_global_is_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    Network().fit(table(triplets=100))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert np.geterr()["over"] == "warn"


def test_a_run_that_explodes_stops_early_and_says_so():
    fit = Network(learning_rate=1e30).fit(table())
    assert fit.diverged
    assert len(fit.training_nll) == 1
    assert np.isnan(fit.probability(1.0, [2.0, 3.0])).all()


def test_a_run_worse_than_chance_says_so():
    fit = Network(learning_rate=1e3).fit(table())
    assert fit.diverged
    assert np.isfinite(fit.training_nll).all()
    assert len(fit.training_nll) == 5
    P = fit.probability(np.linspace(0, 5, 50), 1.0)
    assert ((P >= 0) & (P <= 1)).all()


def test_a_distance_that_says_nothing_is_no_failure_of_the_run():
    fit = Network().fit(table("useless", triplets=5000, votes=2))
    assert fit.training_nll[-1] == pytest.approx(fit.chance_nll, rel=0.002)
    assert not fit.diverged


def test_P_takes_any_shapes_that_broadcast_and_refuses_nan():
    fit = Network(solver="lbfgs").fit(table())
    d0, d1 = np.linspace(0.1, 2, 300)[:, None], np.array([0.5, 1.0])
    P = fit.probability(d0, d1)
    assert P.shape == (300, 2)
    assert P.dtype == np.float64
    np.testing.assert_allclose(fit.probability(d0[7, 0], d1[1]), P[7, 1], rtol=1e-12)
    with pytest.raises(ValueError, match=r"a distance must be a number; index 0 has nan \(1 of 2\)"):
        fit.probability([np.nan, 1.0], 1.0)
    assert fit.probability([], []).shape == (0,)


def test_certain_P_is_exactly_0_or_1_without_a_warning():
    parameters = np.zeros(1281)
    parameters[-1] = 800.0
    fit = NetworkFit(Network(), None, parameters, np.array([1.0]), 1.2)
    assert fit.probability(1.0, 2.0) == 1.0


def test_one_triplet_is_enough_and_none_is_not():
    one = Triplets.from_frame({"n": [2], "M": [2], "d0": [2.0], "d1": [1.0]})
    assert Network(solver="lbfgs").fit(one).probability(2.0, 1.0) > 0.9
    assert np.isfinite(Network().fit(one).training_nll).all()
    with pytest.raises(DataError, match=r"^the network needs at least one triplet to learn from; the table has none$"):
        Network().fit(one.where([False]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "sgd"}, "solver must be 'adam' or 'lbfgs'; found 'sgd'"),
        ({"inputs": "log"}, "inputs must be 'uniform' or 'raw'; found 'log'"),
        ({"epochs": 0}, "epochs must be a whole number, at least 1; found 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number, at least 1; found 2.5"),
        ({"seed": -1}, "seed must be a whole number, at least 0; found -1"),
        ({"learning_rate": 0}, "learning_rate must be a positive number; found 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a positive number; found nan"),
        ({"learning_rate": "fast"}, "learning_rate must be a positive number; found 'fast'"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Network(**settings)


def test_settings_take_numpys_integers_and_compare():
    assert Network(seed=np.int64(3)) == Network(seed=3)
    assert type(Network(seed=np.int64(3)).seed) is int
    assert hash(Network()) == hash(Network())


def test_the_mean_loss_does_not_depend_on_how_rows_fall_into_chunks():
    rows, parameters = some_rows(500), initial(np.random.default_rng(0))
    _, z = forward(layers(parameters), rows[:, :6])
    assert mean_loss(parameters, rows) == pytest.approx(losses(z, rows).mean(), rel=1e-12)

"""PyTorch modules: every bit there and back in float64, the same values, sentences for what is no chain; warm starts."""

from __future__ import annotations

import numpy as np
import pytest
from exchanged_networks import BUILT_IN, same_bits, sample
from numpy.testing import assert_allclose

import laybare as lb

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]'): its exchange is not tested here")
nn = torch.nn
SOLVED, RATE, SEEDS = 1e-8, 3e-3, 10
"""The squared error over the variance that counts as solved, Adam's step, teachers of each shape."""


@pytest.mark.parametrize("activation", BUILT_IN, ids=str)
@pytest.mark.parametrize(("outputs", "sizes"), [(None, (6, 5)), (3, (6, 5, 4, 3))])
def test_float64_keeps_every_bit_and_value(activation, outputs, sizes, rng):
    net, x = sample(rng, [activation], outputs, sizes)
    module = lb.to_torch(net)
    assert type(module) is nn.Sequential
    assert same_bits(lb.from_torch(module), net)
    y = module(torch.from_numpy(x)).detach().numpy()
    assert_allclose(y if outputs else y[:, 0], net(x), rtol=1e-12, atol=1e-12 * (1 + np.abs(net(x)).max()))


@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_deep_module_is_read_as_a_black_box_and_written_again(dtype, tol, rng):
    net, x = sample(rng, sizes=(10, 8, 6), outputs=2)
    box = lb.to_torch(net).to(dtype)
    found = lb.recover(lb.Oracle(box, budget=20_000, rng=0), lb.Lines(depth=None), rng=0)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, lb.from_torch(box)).max_error < tol
    y = lb.to_torch(found.network)(torch.from_numpy(x)).detach().numpy()
    assert_allclose(y, found(x), rtol=1e-12, atol=1e-12 * (1 + np.abs(y).max()))


def test_float32(rng):
    net, x = sample(rng)
    module = lb.to_torch(net, dtype="float32")
    y = module(torch.from_numpy(x).float()).detach().numpy()
    assert y.dtype == np.float32
    assert_allclose(y[:, 0], net(x), atol=1e-5)
    assert lb.compare(lb.from_torch(module), net).max_error < 1e-6


@pytest.mark.parametrize("outputs", [None, 2])
def test_linear_part_is_a_path_of_its_own(outputs, rng):
    net, x = sample(rng, outputs=outputs, linear=True)
    module = lb.to_torch(net)
    assert same_bits(lb.from_torch(module), net)
    assert_allclose(module(torch.from_numpy(x)).detach().numpy().reshape(net(x).shape), net(x), rtol=1e-12, atol=1e-12)


def test_module_is_trainable_and_no_view_of_the_network(rng):
    net, x = sample(rng)
    module = lb.to_torch(net)
    module(torch.from_numpy(x)).square().mean().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in module.parameters())
    with torch.no_grad():
        module[0].weight.zero_()
    assert net.layer.weights.any()
    back = lb.from_torch(module)
    with torch.no_grad():
        module[0].weight.fill_(7.0)
    assert not back.layer.weights.any()


def test_nested_modules_and_those_that_do_nothing(rng):
    first, last = nn.Linear(3, 4), nn.Linear(4, 1, bias=False)
    module = nn.Sequential(nn.Flatten(), nn.Sequential(first, nn.Softplus()), nn.Dropout(0.5), nn.Identity(), last)
    net, x = lb.from_torch(module), rng.normal(size=(9, 3))
    assert (net.architecture, net.activation, net.offset) == ("3-4-1", lb.softplus, 0.0)
    assert_allclose(module.eval()(torch.from_numpy(x).float()).detach().numpy()[:, 0], net(x), atol=1e-5)


@pytest.mark.parametrize(("parts", "sentence"), [
    (lambda: [nn.Linear(3, 2), nn.Linear(2, 1)], "two Linear in a row"),
    (lambda: [nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1), nn.Sigmoid()], "sigmoid at the end"),
    (lambda: [nn.ReLU(), nn.Linear(3, 2)], "ReLU where a Linear belongs"),
    (lambda: [nn.Linear(3, 2)], "1 Linear"),
    (lambda: [nn.Linear(3, 2), nn.ReLU6(), nn.Linear(2, 1)], r"a part ReLU6\(\)"),
    (lambda: [nn.Linear(3, 2), nn.GELU(approximate="tanh"), nn.Linear(2, 1)], "a part GELU"),
    (lambda: [nn.Linear(3, 2), nn.Softplus(beta=2), nn.Linear(2, 1)], "a part Softplus"),
    (lambda: [nn.Linear(3, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(2, 1)], "a part BatchNorm1d"),
])
def test_other_modules_are_refused_by_name(parts, sentence):
    with pytest.raises(lb.errors.InvalidInput, match=sentence):
        lb.from_torch(nn.Sequential(*parts()))


def test_custom_activations_are_refused():
    cube = lb.Activation.custom("cube", lambda t: t**3, lambda t: 3 * t**2, parity="odd", degree=3)
    with pytest.raises(lb.errors.InvalidInput, match="custom:cube units"):
        lb.to_torch(lb.Network(lb.Layer(np.ones((1, 1)), activation=cube), np.ones(1)))


# Warm starts

def module(dim, width, outputs, activation, seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(dim, width), activation, nn.Linear(width, outputs)).double()


def samples(dim, width, outputs, activation, seed):
    truth = lb.random_network(dim, width, activation, outputs, biases=0.5, rng=seed)
    x = np.random.default_rng(seed + 1000).normal(size=(2000, dim))
    return x, truth(x)


def test_module_gets_the_start_in_its_own_precision():
    x, y = samples(10, 5, 1, lb.relu, 0)
    model = module(10, 5, 1, nn.ReLU(), 0).float()
    weight = model[0].weight
    network = lb.export.initialise(model, lb.Samples(x, y))
    assert model[0].weight is weight  # an optimiser that holds the parameters trains the new values
    assert weight.dtype == torch.float32
    assert lb.compare(lb.from_torch(model), network).max_error < 1e-6


@pytest.mark.parametrize("model", [
    lambda: nn.Sequential(nn.Linear(10, 5, bias=False), nn.ReLU(), nn.Linear(5, 1)),
    lambda: nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 2)),
    lambda: nn.Sequential(nn.Linear(9, 5), nn.ReLU(), nn.Linear(5, 1)),
    lambda: nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1))])
def test_modules_of_another_shape_are_refused_and_left_alone(model):
    made = model()
    before = [parameter.detach().clone() for parameter in made.parameters()]
    with pytest.raises(lb.errors.InvalidInput, match="The mod"):
        lb.export.initialise(made, lb.Samples(*samples(10, 5, 1, lb.relu, 0)))
    assert all(torch.equal(old, new) for old, new in zip(before, made.parameters(), strict=True))


def steps_until_solved(model, x, y, most):
    """Steps of Adam on all rows until the squared error is 1e-8 of the variance; `most` if that is not reached."""
    x, y = torch.from_numpy(x), torch.from_numpy(y).reshape(len(y), -1)
    optimiser, variance = torch.optim.Adam(model.parameters(), lr=RATE), y.var()
    for step in range(most):
        optimiser.zero_grad()
        loss = (model(x) - y).square().mean() / variance
        if loss.item() < SOLVED:
            return step
        loss.backward()
        optimiser.step()
    return most


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "width", "outputs", "slope"), [(10, 5, 1, 0.0), (12, 6, 2, 0.0), (15, 8, 1, 0.1)])
def test_training_takes_a_tenth_of_the_steps(dim, width, outputs, slope):
    """Medians over ten seeds. The default initialisation may go on for ten times the median from `initialise`."""
    activation, unit = lb.leaky_relu(slope), nn.LeakyReLU(slope) if slope else nn.ReLU()
    ours, theirs = [], []
    for seed in range(SEEDS):
        x, y = samples(dim, width, outputs, activation, seed)
        model = module(dim, width, outputs, unit, seed)
        lb.export.initialise(model, lb.Samples(x, y))
        ours.append(steps_until_solved(model, x, y, 2000))
    most = 10 * int(np.median(ours))
    for seed in range(SEEDS):
        x, y = samples(dim, width, outputs, activation, seed)
        theirs.append(steps_until_solved(module(dim, width, outputs, unit, seed), x, y, most))
    solved = sum(steps < most for steps in theirs)
    print(f"{dim}-{width}-{outputs}: {np.median(ours)} steps from initialise; {solved} of {SEEDS} by default within {most}")
    assert np.median(ours) < 2000
    assert np.median(theirs) >= most

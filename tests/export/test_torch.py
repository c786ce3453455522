"""PyTorch modules: every bit there and back in float64, the same values, sentences for what is no chain."""

from __future__ import annotations

import numpy as np
import pytest
from exchanged_networks import BUILT_IN, same_bits, sample
from numpy.testing import assert_allclose

import laybare as lb

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]'): its exchange is not tested here")
nn = torch.nn


@pytest.mark.parametrize("activation", BUILT_IN, ids=str)
@pytest.mark.parametrize(("outputs", "sizes"), [(None, (6, 5)), (3, (6, 5, 4, 3))])
def test_float64_keeps_every_bit_and_value(activation, outputs, sizes, rng):
    net, x = sample(rng, [activation], outputs, sizes)
    module = lb.to_torch(net)
    assert type(module) is nn.Sequential
    assert same_bits(lb.from_torch(module), net)
    y = module(torch.from_numpy(x)).detach().numpy()
    assert_allclose(y if outputs else y[:, 0], net(x), rtol=1e-12, atol=1e-12 * (1 + np.abs(net(x)).max()))


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
    with pytest.raises(lb.InvalidInput, match=sentence):
        lb.from_torch(nn.Sequential(*parts()))


def test_custom_activations_are_refused():
    cube = lb.Activation.custom("cube", lambda t: t**3, lambda t: 3 * t**2, parity="odd", degree=3)
    with pytest.raises(lb.InvalidInput, match="custom:cube units"):
        lb.to_torch(lb.Network(lb.Layer(np.ones((1, 1)), activation=cube), np.ones(1)))

"""MLPRegressor, both ways."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.neural_network import MLPRegressor

import laybare as lb
from laybare.planted import random_network


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh, lb.sigmoid], ids=lambda activation: activation.name)
@pytest.mark.parametrize("outputs", [1, 3])
def test_there_and_back_is_the_same_network(activation: lb.Activation, outputs: int, rng: np.random.Generator) -> None:
    planted = random_network(4, 3, activation, outputs, rng=rng)
    network = lb.Network(planted.layer, planted.readout, np.arange(1.0, 4.0) if outputs == 3 else 0.7)
    mlp = lb.to_sklearn(network)
    x = rng.standard_normal((50, 4))
    assert_allclose(mlp.predict(x), network(x), rtol=1e-13)
    back = lb.from_sklearn(mlp)
    assert back.readout.shape == network.readout.shape
    assert lb.compare(back, network).max_error == 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("outputs", [1, 2])
def test_fitted_regressor_is_read_in_full(outputs: int, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((60, 3)), rng.standard_normal((60, outputs))
    mlp = MLPRegressor(hidden_layer_sizes=(5,), solver="lbfgs", max_iter=3, random_state=0).fit(x, y[:, 0] if outputs == 1 else y)
    assert_allclose(lb.from_sklearn(mlp)(x), mlp.predict(x), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_unfitted_deep_and_linear_regressors_are_refused(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    with pytest.raises(lb.InvalidInput, match="not fitted"):
        lb.from_sklearn(MLPRegressor())
    with pytest.raises(lb.InvalidInput, match="2 hidden layers"):
        lb.from_sklearn(MLPRegressor(hidden_layer_sizes=(3, 3), solver="lbfgs", max_iter=2).fit(x, y))
    with pytest.raises(lb.InvalidInput, match="identity"):
        lb.from_sklearn(MLPRegressor(hidden_layer_sizes=(3,), activation="identity", solver="lbfgs", max_iter=2).fit(x, y))


def test_outputs_that_are_not_linear_are_refused(rng: np.random.Generator) -> None:
    mlp = lb.to_sklearn(random_network(3, 2, rng=rng))
    mlp.out_activation_ = "exp"  # as with loss="poisson" in newer versions
    with pytest.raises(lb.InvalidInput, match="exp"):
        lb.from_sklearn(mlp)


def test_what_a_regressor_cannot_hold_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(lb.InvalidInput, match="leaky_relu"):
        lb.to_sklearn(random_network(3, 2, lb.leaky_relu(0.1), rng=rng))
    network = random_network(3, 2, rng=rng)
    with pytest.raises(lb.InvalidInput, match="linear part"):
        lb.to_sklearn(lb.Network(network.layer, network.readout, linear=np.ones(3)))

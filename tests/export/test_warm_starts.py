"""initialise: a start that the data show, in the model's own place, and training that goes on from it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.neural_network import MLPClassifier, MLPRegressor

import laybare as lb
from laybare.methods import Start

ROWS = 4000


def problem(seed, dim=10, width=5, activation=lb.relu, outputs=1):
    """A teacher and samples of it, inputs neither centred nor white."""
    truth, rng = lb.random_network(dim, width, activation, outputs, biases=0.5, rng=seed), np.random.default_rng(seed + 1000)
    x = rng.normal(size=(ROWS, dim)) @ np.diag(np.linspace(0.7, 1.3, dim)) + 0.1
    return truth, x, truth(x)


def share(y, fitted):
    return float(np.mean((y - fitted) ** 2) / np.var(y))


def test_start_of_a_regressor_is_close_to_the_teacher(seed):
    truth, x, y = problem(seed)
    mlp = MLPRegressor(hidden_layer_sizes=(5,))
    network = lb.export.initialise(mlp, lb.Samples(x, y), rng=seed)
    assert mlp.warm_start
    assert_allclose(mlp.predict(x), network(x), rtol=1e-12, atol=1e-12)
    assert share(y, network(x)) < 0.05  # largest of seeds 0-59: 0.010
    assert lb.compare(network, truth).weight_error < 0.5  # largest of seeds 0-59: 0.17


def test_readout_is_the_least_squares_fit(seed):
    _, x, y = problem(seed, outputs=2)
    network = lb.export.initialise(MLPRegressor(hidden_layer_sizes=5), lb.Samples(x, y), rng=seed)
    features = np.column_stack([network.features(x), np.ones(len(x))])
    best = np.linalg.lstsq(features, y, rcond=None)[0]
    assert_allclose(np.vstack([network.readout, network.offset]), best, rtol=1e-6, atol=1e-8)


def test_training_goes_on_from_there(seed):
    _, x, y = problem(seed)
    mlp = MLPRegressor(hidden_layer_sizes=(5,), solver="lbfgs", alpha=0.0, max_iter=60, random_state=0, tol=1e-12)
    before = share(y, lb.export.initialise(mlp, lb.Samples(x, y), rng=seed)(x))
    with warnings.catch_warnings(category=UserWarning, action="ignore"):
        mlp.fit(x, y)
    assert share(y, mlp.predict(x)) < 1e-3 * before


class ThreeUnits:
    """A method that always names the same three units."""

    activation, biases, search = lb.relu, True, None

    def start(self, source, width, *, rng, progress=None):
        return Start(lb.Network(lb.Layer(np.eye(3, source.dim)), np.ones(3)))


def test_models_that_are_wider_keep_some_of_their_own_units(seed):
    _, x, y = problem(seed)
    mlp = MLPRegressor(hidden_layer_sizes=(12,), max_iter=1, random_state=0)
    with warnings.catch_warnings(category=UserWarning, action="ignore"):
        mlp.fit(x, y)
    own = mlp.coefs_[0].T.copy()
    network = lb.export.initialise(mlp, lb.Samples(x, y), ThreeUnits(), rng=seed)
    assert network.width == 12
    assert_allclose(network.layer.weights[3:], own[3:], rtol=1e-15)
    assert np.abs(network.layer.weights[:3] - own[:3]).max() > 0.1


def test_what_has_no_start_is_refused(rng):
    _, x, y = problem(0)
    source = lb.Samples(x, y)
    for model, sentence in (
            (MLPRegressor(hidden_layer_sizes=(5, 4)), "hidden layers of 5, 4 units"),
            (MLPRegressor(hidden_layer_sizes=(5,), activation="identity"), "activation 'identity'"),
            (MLPClassifier(hidden_layer_sizes=(5,)), "MLPClassifier")):
        with pytest.raises(lb.errors.InvalidInput, match=sentence):
            lb.export.initialise(model, source)
    with pytest.raises(lb.errors.InvalidInput, match="for tanh units, the model has relu"):
        lb.export.initialise(MLPRegressor(hidden_layer_sizes=(5,)), source, lb.GeneralReLU(activation=lb.tanh))
    with pytest.raises(lb.errors.AssumptionViolated, match="names no units"):
        lb.export.initialise(MLPRegressor(hidden_layer_sizes=(5,)), source, lb.RandomStart())
    cubes = rng.normal(size=(ROWS, 10)) ** 3
    with pytest.raises(lb.errors.AssumptionViolated, match="not normal"):
        lb.export.initialise(MLPRegressor(hidden_layer_sizes=(5,)), lb.Samples(cubes, lb.random_network(10, 5)(cubes)))

"""MLPRegressor and MLPClassifier, both ways."""

from __future__ import annotations

import numpy as np
import pytest
from exchanged_networks import same_bits, sample
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neural_network import MLPClassifier, MLPRegressor

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
def test_unfitted_and_linear_regressors_are_refused(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    with pytest.raises(lb.errors.InvalidInput, match="not fitted"):
        lb.from_sklearn(MLPRegressor())
    with pytest.raises(lb.errors.InvalidInput, match="identity"):
        lb.from_sklearn(MLPRegressor(hidden_layer_sizes=(3,), activation="identity", solver="lbfgs", max_iter=2).fit(x, y))


def test_outputs_that_are_not_linear_are_refused(rng: np.random.Generator) -> None:
    mlp = lb.to_sklearn(random_network(3, 2, rng=rng))
    mlp.out_activation_ = "exp"  # as with loss="poisson" in newer versions
    with pytest.raises(lb.errors.InvalidInput, match="exp"):
        lb.from_sklearn(mlp)


def test_what_a_regressor_cannot_hold_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="leaky_relu"):
        lb.to_sklearn(random_network(3, 2, lb.leaky_relu(0.1), rng=rng))
    network = random_network(3, 2, rng=rng)
    with pytest.raises(lb.errors.InvalidInput, match="linear part"):
        lb.to_sklearn(lb.Network(network.layer, network.readout, linear=np.ones(3)))


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh, lb.sigmoid], ids=str)
@pytest.mark.parametrize("outputs", [None, 3])
def test_deep_networks_keep_every_bit(activation: lb.Activation, outputs: int | None, rng: np.random.Generator) -> None:
    network, x = sample(rng, [activation], outputs)
    mlp = lb.to_sklearn(network)
    assert same_bits(lb.from_sklearn(mlp), network)
    assert_allclose(mlp.predict(x), network(x), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_deep_fitted_regressor_is_read_in_full(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    mlp = MLPRegressor(hidden_layer_sizes=(5, 4, 3), solver="lbfgs", max_iter=3, random_state=0).fit(x, y)
    assert lb.from_sklearn(mlp).architecture == "3-5-4-3-1"
    assert_allclose(lb.from_sklearn(mlp)(x), mlp.predict(x), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classes", [2, 4])
def test_classifier_is_read_as_its_log_odds(classes: int, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((80, 3)), np.arange(80) % classes
    mlp = MLPClassifier(hidden_layer_sizes=(5, 4), solver="lbfgs", max_iter=5, random_state=0).fit(x, y)
    odds = lb.from_sklearn(mlp)(x)
    logarithms = mlp.predict_log_proba(x)
    seen = logarithms[:, 1] - logarithms[:, 0] if classes == 2 else logarithms - logarithms[:, :1]
    assert_allclose(odds if classes == 2 else odds - odds[:, :1], seen, rtol=1e-9, atol=1e-9)
    back = lb.to_sklearn(lb.from_sklearn(mlp), classes=range(classes))
    assert_array_equal(back.predict(x), mlp.predict(x))
    assert_allclose(back.predict_proba(x), mlp.predict_proba(x), rtol=1e-12)


def test_classifier_has_the_labels_that_were_given(rng: np.random.Generator) -> None:
    network, x = sample(rng)
    mlp = lb.to_sklearn(network, classes=["no", "yes"])
    assert_array_equal(mlp.predict(x) == "yes", network(x) > 0)
    assert same_bits(lb.from_sklearn(mlp), network)


@pytest.mark.parametrize("classes", [["one"], ["a", "b", "c"], ["b", "a"], ["a", "a"]])
def test_classes_that_do_not_fit_are_refused(classes: list[str], rng: np.random.Generator) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="classes"):
        lb.to_sklearn(sample(rng)[0], classes=classes)


def test_mixed_activations_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="relu, tanh, relu units"):
        lb.to_sklearn(sample(rng, [lb.relu, lb.tanh])[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", [
    {"solver": "adam"}, {"solver": "lbfgs"}, {"solver": "sgd", "early_stopping": True}], ids=lambda given: given["solver"])
def test_exported_model_can_be_trained_on(settings: dict[str, str], rng: np.random.Generator) -> None:
    network, x = sample(rng)
    mlp = lb.to_sklearn(network)
    before = mlp.predict(x)
    mlp.set_params(warm_start=True, max_iter=2, alpha=0.0, learning_rate_init=1e-9, **settings).fit(x, before)
    assert_allclose(mlp.predict(x), before, atol=1e-5)

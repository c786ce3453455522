"""Standard errors: against the scatter of estimates over repeated noise, and against laws they must obey."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import laybare as lb
from laybare.certificate import StandardErrors, spread, standard_errors
from laybare.certificate.fitted import State, state_of
from laybare.certificate.spread import spread_of
from laybare.planted import random_network
from laybare.refinement import normal
from laybare.refinement.minimise import minimise
from laybare.refinement.normal import network_of, point_of
from laybare.refinement.problem import pose
from laybare.shapes import Array

REPLICATES, SAMPLES, NOISE = 60, 150, 0.05


def flat(parts: StandardErrors) -> Array:
    return np.concatenate([np.ravel(part) for part in parts])


def scores(network: lb.Network, seed: int) -> Array:
    """(estimate - truth) / standard error of every parameter, over replicates of the noise at the same inputs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((SAMPLES, network.dim))
    y, rows = network(x), []
    for _ in range(REPLICATES):
        source = lb.Samples(x, y + NOISE * rng.standard_normal(y.shape))
        point = minimise(source, point_of(network, biases=True, offset=True, linear=False), 1.0).point
        found = network_of(point, vector=network.readout.ndim == 1)
        gap = StandardErrors(
            found.layer.weights - network.layer.weights, found.layer.biases - network.layer.biases,
            found.readout - network.readout, np.asarray(found.offset) - network.offset)
        rows.append(flat(gap) / flat(standard_errors(found, source, NOISE, biases=True, offset=True)))
    return np.array(rows)


def two_units(activation: lb.Activation, outputs: int) -> lb.Network:
    """Units well apart, so that the asymptotic errors hold at this size."""
    rows = np.array([[0.8, 0.6], [0.28, -0.96]]) * (1.0 if activation.degree is not None else 2.0)
    readout = np.array([[1.0, 0.5], [-0.8, 1.2]])
    return lb.Network(lb.Layer(rows, np.array([0.3, -0.4]), activation), readout[:, 0] if outputs == 1 else readout)


# Over 20 disjoint seed blocks the mean size was 0.994 ± 0.056 (ReLU, one output) and 1.011 ± 0.027 (tanh, two outputs), that of
# a single parameter 0.96-1.04 ± 0.12 or less; 4 sigmas are allowed.
@pytest.mark.parametrize(("activation", "outputs", "band"), [(lb.relu, 1, 0.23), (lb.tanh, 2, 0.12)], ids=["relu", "tanh"])
def test_estimates_scatter_as_the_standard_errors_say(activation: lb.Activation, outputs: int, band: float, seed: int) -> None:
    sizes = np.sqrt(np.mean(scores(two_units(activation, outputs), seed) ** 2, axis=0))
    assert abs(np.mean(sizes) - 1.0) < band
    assert np.all(np.abs(sizes - 1.0) < 0.48)


def test_twice_the_samples_divide_the_errors_by_root_two(rng: np.random.Generator) -> None:
    network, x = two_units(lb.relu, 2), rng.standard_normal((100, 2))
    once = standard_errors(network, lb.Samples(x, network(x)), 0.1, biases=True, offset=True)
    twice = standard_errors(network, lb.Samples(np.vstack([x, x]), network(np.vstack([x, x]))), 0.2, biases=True, offset=True)
    assert_allclose(flat(twice), np.sqrt(2.0) * flat(once), rtol=1e-8)


def test_lengths_of_rows_are_certain_where_the_scale_is_free(rng: np.random.Generator) -> None:
    """With |w| = 1 held fixed a row moves across itself only: in two dimensions (δw₁, δw₂) is parallel to (-w₂, w₁)."""
    network, x = two_units(lb.relu, 1), rng.standard_normal((100, 2))
    errors = standard_errors(network, lb.Samples(x, network(x)), 0.1, biases=True, offset=True).weights
    across = np.abs(network.layer.weights[:, ::-1])
    assert_allclose(errors[:, 0] / errors[:, 1], across[:, 0] / across[:, 1], rtol=1e-6)


def test_errors_have_the_shapes_of_the_parts(rng: np.random.Generator) -> None:
    for outputs in (1, 3):
        network, x = random_network(3, 2, outputs=outputs, rng=rng), rng.standard_normal((60, 3))
        errors = standard_errors(network, lb.Samples(x, network(x)), 0.1, biases=True, offset=True)
        shapes = [np.shape(part) for part in errors]
        assert shapes == [(2, 3), (2,), network.readout.shape, np.shape(network.offset)]
    bias_free = standard_errors(network, lb.Samples(x, network(x)), 0.1, biases=False, offset=True)
    assert not bias_free.biases.any()


@pytest.fixture
def noisy_state(rng: np.random.Generator) -> State:
    network = random_network(5, 3, biases=0.5, rng=rng)
    x = rng.standard_normal((800, 5))
    problem = pose(lb.Samples(x, network(x) + NOISE * rng.standard_normal(800)), biases=True, rng=rng)
    point = point_of(problem.white(network), biases=True, offset=True, linear=False)
    fitted = network_of(minimise(problem.used, point, problem.variation).point, vector=True)
    return state_of(problem.given(fitted), problem)


def test_single_precision_gives_the_same_errors(noisy_state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    double = spread_of(noisy_state, rng=np.random.default_rng(0))
    monkeypatch.setattr(normal, "LARGE_SYSTEM", 1)
    single = spread_of(noisy_state, rng=np.random.default_rng(0))
    assert_allclose(flat(single.errors), flat(double.errors), rtol=1e-2)
    assert single.gram is not None and double.gram is not None
    assert np.any(single.gram != double.gram)
    assert_allclose(single.gram, double.gram, rtol=1e-4, atol=1e-4 * np.abs(double.gram).max())


def test_numbers_that_are_poorly_known_are_taken_in_double_precision(noisy_state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    double = spread_of(noisy_state, rng=np.random.default_rng(0))
    monkeypatch.setattr(normal, "LARGE_SYSTEM", 1)
    monkeypatch.setattr(spread, "WELL_KNOWN", 1.0)
    assert_array_equal(spread_of(noisy_state, rng=np.random.default_rng(0)).gram, double.gram)

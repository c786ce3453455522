"""First-order baselines: the printed rate, resampling, divergence."""

from __future__ import annotations

import numpy as np
import pytest
from planted_problems import perturbed, planted

import laybare as lb
from laybare.errors import InvalidInput, TooFewSamples
from laybare.landscape.first_order import Descent, MiniBatches, adam, gradient, gradient_descent, largest_curvature, lbfgs
from laybare.solver.point import network_of, point_of


@pytest.fixture
def squares(rng):
    """Squared ReLU with signs ±1 and no biases: the setting of Zhong et al."""
    problem = planted(6, 3, 3000, rng, activation=lb.power_relu(2), biases=0.0)
    truth = lb.Network(problem.truth.layer, np.sign(problem.truth.readout))
    x, _ = problem.source.read(0, 3000)
    source = lb.Samples(x, truth(x), law=problem.source.law)
    return problem._replace(truth=truth, source=source)


def hidden_only(network):
    return point_of(network, biases=False, offset=False, linear=False)


def hessian(source, point, h=1e-5):
    """Hessian of the risk in the hidden rows by differences of the gradient."""
    columns = []
    for index in np.ndindex(point.units.shape):
        moved = [point.units.copy(), point.units.copy()]
        moved[0][index] += h
        moved[1][index] -= h
        slopes = [gradient(source, point.moved(units, point.coefficients)).rows for units in moved]
        columns.append((slopes[0] - slopes[1]).ravel() / (2 * h))
    return np.array(columns)


def test_rate_of_descent_is_one_minus_step_times_smallest_eigenvalue(squares, rng):
    truth = hidden_only(squares.truth)
    values = np.linalg.eigvalsh(hessian(squares.source, truth))
    step = 1.0 / values[-1]
    start = hidden_only(perturbed(squares.truth, 1e-4, rng))
    run = gradient_descent(squares.source, start, squares.scale, Descent(step=step, max_steps=150))
    losses = np.array([row.loss for row in run.trace.rows])
    rate = np.sqrt(losses[-1] / losses[-11]) ** 0.1
    assert rate == pytest.approx(1.0 - step * values[0], abs=2e-3)


def test_largest_curvature_is_that_of_the_hessian(squares, rng):
    point = hidden_only(squares.truth)
    assert largest_curvature(squares.source, point, rng=rng, iterations=60) == pytest.approx(
        np.linalg.eigvalsh(hessian(squares.source, point))[-1], rel=1e-3)


def test_resampling_uses_every_row_once(squares, rng):
    start = hidden_only(perturbed(squares.truth, 0.02, rng))
    run = gradient_descent(squares.source, start, squares.scale, Descent(step=0.02, max_steps=9, resample=True))
    assert run.trace.samples == squares.source.size
    assert run.trace.loss < run.trace.rows[0].loss


def test_more_steps_than_samples_is_refused(squares):
    with pytest.raises(TooFewSamples, match="parts"):
        gradient_descent(squares.source, hidden_only(squares.truth), squares.scale, Descent(max_steps=5000, resample=True))


def test_diverging_step_is_a_sentence_with_the_limit(squares, rng):
    start = hidden_only(perturbed(squares.truth, 0.3, rng))
    with np.errstate(all="ignore"), pytest.raises(InvalidInput, match="2/λ_max") as caught:
        gradient_descent(squares.source, start, squares.scale, Descent(step=5.0, max_steps=200))
    limit = caught.value.values["limit"]
    run = gradient_descent(squares.source, start, squares.scale, Descent(step=limit / 4, max_steps=50))
    assert run.trace.loss < run.trace.rows[0].loss


def test_lbfgs_descends(squares, rng):
    start = point_of(perturbed(squares.truth, 0.05, rng), biases=False, offset=True, linear=False)
    exact = lbfgs(squares.source, start, squares.scale)
    assert exact.trace.loss < 1e-10
    assert lb.compare(network_of(exact.point, vector=True), squares.truth).max_error < 1e-4


def test_adam_takes_the_printed_steps(squares, rng):
    """Three steps on all samples against the textbook, then a run that ends far below its start."""
    start = point_of(perturbed(squares.truth, 0.1, rng), biases=False, offset=True, linear=False)
    theta, cut = np.concatenate([start.units.ravel(), start.coefficients.ravel()]), start.units.size
    m = v = np.zeros_like(theta)
    for t in (1, 2, 3):
        point = start.moved(theta[:cut].reshape(start.units.shape), theta[cut:].reshape(start.coefficients.shape))
        slope = gradient(squares.source, point)
        g = np.concatenate([slope.rows.ravel(), slope.coefficients.ravel()])
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta = theta - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    found = adam(squares.source, start, squares.scale, MiniBatches(max_steps=3, size=3000), rng=rng).point
    np.testing.assert_allclose(np.concatenate([found.units.ravel(), found.coefficients.ravel()]), theta, rtol=1e-12)
    longer = adam(squares.source, start, squares.scale, MiniBatches(max_steps=300, size=500), rng=rng)
    assert longer.loss < 1e-3 * squares.scale * longer.trace.rows[0].loss

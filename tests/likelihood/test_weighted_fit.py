"""Gauss-Newton for any loss: the same minimum as least squares, as generalised linear models, as copies of rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from laybare.activations import relu, tanh
from laybare.likelihood.deviance_tests import LikelihoodFit, _group_scores
from laybare.likelihood.weighted_fit import constant_point, deviance_at, maximise_likelihood, sums_at
from laybare.solver.minimise import minimise
from laybare.solver.point import Model, Point, network_of, output_gradients, outputs_at
from laybare.source import Samples, Schedule, Unknown
from laybare.source.losses import LOSSES, Loss, likelihood_rows
from laybare.source.problem import total_variation

N, DIM = 400, 3


def rows_of(y, loss, weights=None, groups=None, x=None):
    x = inputs() if x is None else x
    return likelihood_rows(Samples(x, y), Loss(loss), weights, groups, schedule=Schedule(), law=Unknown())


def inputs():
    return np.random.default_rng(0).normal(size=(N, DIM))


def planted(activation=relu):
    rng = np.random.default_rng(1)
    return Point(rng.normal(size=(2, DIM + 1)), rng.normal(size=(3, 1)), activation, True, True, False)


@pytest.mark.parametrize("activation", [relu, tanh], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_that_of_the_deviance(name, activation):
    point = planted(activation)
    y = np.random.default_rng(2).integers(0, 2, size=N).astype(float)
    rows = rows_of(y, name, np.random.default_rng(3).uniform(0.5, 2.0, size=N))
    sums = sums_at(rows, point)
    move = np.random.default_rng(4).normal(size=point.size) * 1e-6

    def moved(sign):
        units, coefficients = np.split(sign * move, [point.units.size])
        return point.moved(point.units + units.reshape(2, -1), point.coefficients + coefficients[:, None])

    slope = deviance_at(rows, moved(1)) - deviance_at(rows, moved(-1))
    assert_allclose(slope, -4.0 * sums.gradient @ move, rtol=1e-4)
    assert_allclose(sums.deviance, deviance_at(rows, point))


def test_squared_loss_ends_where_least_squares_does():
    point = planted()
    y = outputs_at(point, inputs())[:, 0] + 0.1 * np.random.default_rng(2).normal(size=N)
    start = point.moved(point.units + 0.1, point.coefficients)
    source = Samples(inputs(), y)
    scale = total_variation(source)
    ours, plain = maximise_likelihood(rows_of(y, "squared"), start, scale), minimise(source, start, scale)
    assert_allclose(ours.loss, plain.loss, rtol=1e-3)


@pytest.mark.parametrize("name", ["poisson", "bernoulli"])
def test_without_units_it_is_a_generalised_linear_model(name):
    x, rng = inputs(), np.random.default_rng(5)
    eta = x @ [0.5, -0.3, 0.2] + 0.1
    y = rng.poisson(np.exp(eta)).astype(float) if name == "poisson" else (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)
    rows = rows_of(y, name)
    start = constant_point(rows, Model(relu, linear=True).start(np.zeros((0, DIM + 1)), 1))
    found = maximise_likelihood(rows, start, deviance_at(rows, start)).point.coefficients[:, 0]
    model = PoissonRegressor(alpha=0.0, tol=1e-10) if name == "poisson" else LogisticRegression(C=1e12, tol=1e-10)
    model.fit(x, y)
    assert_allclose(found, np.append(np.ravel(model.intercept_), np.ravel(model.coef_)), atol=2e-3)


def test_weights_are_copies():
    """Twice the weight is the row twice, but for the effective number of rows, which scales both sums alike."""
    point, rng = planted(), np.random.default_rng(6)
    y, copies = rng.poisson(2.0, size=N).astype(float), rng.integers(1, 4, size=N)
    weighted = sums_at(rows_of(y, "poisson", copies.astype(float)), point)
    repeated = sums_at(rows_of(np.repeat(y, copies), "poisson", x=np.repeat(inputs(), copies, axis=0)), point)
    factor = copies.sum() / np.sum(copies**2)
    for one, other in zip(weighted, repeated, strict=True):
        assert_allclose(one, factor * other, rtol=1e-10)


def test_effective_rows_and_groups():
    y = np.arange(N, dtype=float)
    half = rows_of(y, "squared", np.repeat([0.0, 3.0], N // 2), np.repeat(["a", "b", "c", "d"], N // 4))
    assert_allclose(half.effective, N // 2)
    assert half.groups == 4
    assert_allclose(np.unique(half.labels.groups), range(4))


def test_jacobian_of_several_outputs():
    rng = np.random.default_rng(7)
    point = Point(rng.normal(size=(2, DIM + 1)), rng.normal(size=(3, 2)), tanh, True, True, False)
    move = 1e-6 * rng.normal(size=point.size)
    units, coefficients = np.split(move, [point.units.size])
    there = point.moved(point.units + units.reshape(2, -1), point.coefficients + coefficients.reshape(3, 2))
    for output in range(2):
        change = (outputs_at(there, inputs()) - outputs_at(point, inputs()))[:, output]
        assert_allclose(output_gradients(point, inputs(), output) @ move, change, atol=1e-10)


@pytest.mark.parametrize("size", [1, 4, 40])
def test_scores_of_groups_are_those_of_the_fit_without_them(size):
    """A step from the fit without a group: (H - M)^-1 u, with fewer rows in a group than parameters, and with more."""
    point, rng = planted(tanh), np.random.default_rng(8)
    groups, y = rng.permutation(np.arange(N) // size), outputs_at(point, inputs())[:, 0] + rng.normal(size=N)
    rows = rows_of(y, "squared", rng.uniform(0.5, 2.0, size=N), groups)
    fitted = LikelihoodFit(network_of(point, vector=True), None, rows, rows, point)
    found, H = _group_scores(fitted) @ fitted.inverse.matrix, fitted.sums.information
    for group in range(3):
        own = rows.labels.groups == group
        J, w = output_gradients(point, inputs()[own], 0), rows.labels.weights[own]
        u = J.T @ (w * (y - outputs_at(point, inputs())[:, 0])[own])
        assert_allclose(found[group], np.linalg.solve(H - (J * w[:, None]).T @ J, u), rtol=1e-6, atol=1e-9)

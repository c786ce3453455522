"""Normal equations against dense Jacobians by finite differences."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.solver.dense import projected_system
from laybare.solver.matrix_free import GradientStatistic, ProductStatistic, joined
from laybare.solver.normal import Fit, FitStatistic, Step, StepStatistic, project, project_on
from laybare.solver.point import Model, Split, columns_of, keep_units, network_of, split

SMOOTH = [lb.sigmoid, lb.tanh, lb.erf, lb.softplus, lb.gelu, lb.exponential(0.5), lb.power_relu(2), lb.power_relu(3)]
KINKED = [lb.relu, lb.leaky_relu(0.1), lb.leaky_relu(-0.5), lb.absolute]
ALL = SMOOTH + KINKED


def model_at_random(activation, rng, *, biases=True, offset=True, linear=True, dim=4, width=3, outputs=2):
    model = Model(activation, biases=biases, offset=offset, linear=linear)
    point = model.start(rng.standard_normal((width, dim + biases)), outputs)
    return point.moved(point.units, rng.standard_normal(point.coefficients.shape))


def outputs(point, x):
    return network_of(point, vector=False)(x)


def dense_jacobian(point, x, h=1e-6):
    """Central differences of all outputs in all parameters, hidden rows first."""
    columns = []
    for which, array in (("units", point.units), ("coefficients", point.coefficients)):
        for index in np.ndindex(array.shape):
            sides = []
            for sign in (1.0, -1.0):
                moved = array.copy()
                moved[index] += sign * h
                pair = (moved, point.coefficients) if which == "units" else (point.units, moved)
                sides.append(outputs(point.moved(*pair), x))
            columns.append(((sides[0] - sides[1]) / (2 * h)).ravel())
    return np.column_stack(columns)


def samples_off_kinks(point, rng, n=60):
    """Inputs whose pre-activations stay away from the kinks, so that differences are derivatives."""
    x = rng.standard_normal((20 * n, point.units.shape[1] - point.biases))
    u = point.extended(x) @ point.units.T
    return x[np.abs(u).min(axis=1) > 1e-3][:n]


@pytest.mark.parametrize("free", [(True, True, True), (False, True, False), (True, False, False), (False, False, True)])
@pytest.mark.parametrize("activation", ALL, ids=lambda a: a.name)
def test_products_are_those_of_the_jacobian(activation, free, rng):
    point = model_at_random(activation, rng, biases=free[0], offset=free[1], linear=free[2])
    x = samples_off_kinks(point, rng)
    y = rng.standard_normal((len(x), 2))
    J = dense_jacobian(point, x)
    r = (y - outputs(point, x)).ravel()

    loss, *parts = GradientStatistic(point)(x, y)
    gradient = np.concatenate([part.ravel() for part in joined(point, Split(*parts))])
    assert_allclose(loss, r @ r, rtol=1e-12)
    for part, same in zip(GradientStatistic(point, curvature=True)(x, y), (loss, *parts), strict=False):
        assert_allclose(part, same, rtol=1e-12, atol=1e-12 * np.abs(same).max())
    assert_allclose(gradient, J.T @ r, rtol=1e-7, atol=1e-7 * np.abs(J.T @ r).max())

    v, w = rng.standard_normal(point.units.shape), rng.standard_normal(point.coefficients.shape)
    image = ProductStatistic(point, split(point, v, w))(x, y)
    product = np.concatenate([part.ravel() for part in joined(point, Split(*image))])
    expected = J.T @ (J @ np.concatenate([v.ravel(), w.ravel()]))
    assert_allclose(product, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("activation", ALL, ids=lambda a: a.name)
def test_projected_system_is_the_schur_complement(activation, rng):
    point = model_at_random(activation, rng)
    x = samples_off_kinks(point, rng)
    y = rng.standard_normal((len(x), 2))
    point, _ = project(point, Fit(*FitStatistic(point)(x, y)))  # at the best coefficients the two Jacobians belong together
    system = projected_system(Step(*StepStatistic(point)(x, y)), point)
    J = dense_jacobian(point, x)
    cut = point.units.size
    P = J[:, cut:] @ np.linalg.pinv(J[:, cut:])
    rows = J[:, :cut] - P @ J[:, :cut]
    r = (y - outputs(point, x)).ravel()
    assert_allclose(system.schur, rows.T @ rows, atol=1e-7 * np.abs(rows.T @ rows).max())
    assert_allclose(system.gradient, rows.T @ r, atol=1e-7 * np.abs(rows.T @ r).max() + 1e-7)


def test_projection_is_least_squares(rng):
    point = model_at_random(lb.relu, rng)
    x, y = rng.standard_normal((80, 4)), rng.standard_normal((80, 2))
    best, loss = project(point, Fit(*FitStatistic(point)(x, y)))
    F = point.features(x, point.extended(x) @ point.units.T)
    expected, residual, *_ = np.linalg.lstsq(F, y)
    assert_allclose(best.coefficients, expected, atol=1e-10)
    assert_allclose(loss, residual.sum(), rtol=1e-10)


def test_rows_that_overflow_have_no_loss(rng):
    """Minus infinity would compare as an improvement."""
    point = model_at_random(lb.relu, rng)
    x, y = rng.standard_normal((80, 4)), rng.standard_normal((80, 2))
    fit = Fit(*FitStatistic(point)(x, y))
    _, loss = project(point, fit._replace(gram=1e-160 * fit.gram, moment=1e150 * fit.moment))
    assert np.isnan(loss)


def test_single_precision_products_are_close(rng):
    point = model_at_random(lb.relu, rng, dim=30, width=8)
    x, y = rng.standard_normal((500, 30)), np.zeros((500, 2))
    v = split(point, rng.standard_normal(point.units.shape), rng.standard_normal(point.coefficients.shape))
    double = (*ProductStatistic(point, v)(x, y), *GradientStatistic(point, curvature=True)(x, y))
    single = (*ProductStatistic(point, v, np.float32)(x, y), *GradientStatistic(point, np.float32, curvature=True)(x, y))
    for a, b in zip(double, single, strict=True):
        assert b.dtype == np.float64
        assert_allclose(b, a, atol=1e-5 * np.abs(a).max())


WITH_CURVATURE = partial(GradientStatistic, curvature=True)


@pytest.mark.parametrize("statistic", [FitStatistic, StepStatistic, GradientStatistic, WITH_CURVATURE])
def test_sums_do_not_depend_on_the_blocks(statistic, rng):
    point = model_at_random(lb.relu, rng)
    x, y = rng.standard_normal((3000, 4)), rng.standard_normal((3000, 2))
    whole = lb.Samples(x, y, schedule=lb.source.Schedule(workers=1)).sum(statistic(point))
    pieces = lb.Samples(x, y, schedule=lb.source.Schedule(workers=2, block_bytes=1)).sum(statistic(point))
    for a, b in zip(whole, pieces, strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-10 * np.abs(a).max())


@pytest.mark.parametrize("linear", [False, True])
def test_columns_without_a_unit_are_some_of_those_with_it(linear, rng):
    point, kept = model_at_random(lb.tanh, rng, linear=linear, width=4), np.array([0, 2, 3])
    x, y = rng.standard_normal((50, 4)), rng.standard_normal((50, 2))
    whole, rest = (Step(*StepStatistic(one)(x, y)).gram for one in (point, keep_units(point, kept)))
    columns = columns_of(point, kept)
    assert_allclose(whole[np.ix_(columns, columns)], rest, rtol=1e-12)


def test_a_unit_that_is_hardly_on_gets_no_readout_whose_square_overflows(rng: np.random.Generator) -> None:
    """Its values are about 1e-160; as large as its readout would be, it would overflow wherever it is on."""
    x = rng.standard_normal((200, 2))
    point = Model(lb.gelu).start(np.array([[0.1, 0.2, -27.3], [1.0, 0.5, 0.2]]), 1)
    fitted, loss = project_on(lb.Samples(x, rng.standard_normal(200)), point)
    assert np.abs(fitted.coefficients).max() < 10.0 and 0.0 < loss < 300.0

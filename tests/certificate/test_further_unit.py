"""The loss of a further unit beside linearised others, against least squares on a dense Jacobian."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.certificate.further_unit import NEW, _Beside, linearised, settle_beside
from laybare.damping import Effort
from laybare.refinement.normal import Model, Point, StepStatistic
from laybare.shapes import Array
from laybare.studies.hostile_cases import FAMILIES


def jacobian(point: Point, x: Array) -> Array:
    """(n·m, P): rows, then coefficients feature by feature, of all outputs."""
    extended, (q, m) = point.extended(x), point.coefficients.shape
    u = extended @ point.units.T
    features, slopes = point.features(x, u), point.activation.derivative(u)
    readout = point.coefficients[: point.width]
    rows = np.einsum("nk,np,ko->nokp", slopes, extended, readout).reshape(len(x) * m, -1)
    rest = np.einsum("nq,or->noqr", features, np.eye(m)).reshape(len(x) * m, q * m)
    return np.hstack([rows, rest])


def dense_loss(point: Point, new: Array, x: Array, y: Array) -> float:
    """min over δ and a of |y - f - Jδ - Σ act(w_i·x̃) a_i|², by least squares."""
    extended, m = point.extended(x), y.shape[1]
    left = y - point.features(x, extended @ point.units.T) @ point.coefficients
    units = np.einsum("ni,or->noir", point.activation(extended @ new.T), np.eye(m)).reshape(len(x) * m, -1)
    design = np.hstack([jacobian(point, x), units])
    return float(np.sum((left.ravel() - design @ np.linalg.lstsq(design, left.ravel())[0]) ** 2))


def problem(units: int, outputs: int, activation: lb.Activation, rng: np.random.Generator) -> tuple[lb.Samples, Point]:
    x = rng.standard_normal((300, 3))
    rows = rng.standard_normal((units, 4))
    if activation.degree is not None:
        rows /= np.linalg.norm(rows[:, :3], axis=1)[:, None]
    point = Model(activation).start(rows, outputs)
    point = point.moved(rows, rng.standard_normal(point.coefficients.shape))
    return lb.Samples(x, rng.standard_normal((300, outputs))), point


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh], ids=lambda one: one.name)
@pytest.mark.parametrize(("units", "left_out"), [(3, None), (3, 1), (1, 0), (1, None)])
@pytest.mark.parametrize("outputs", [1, 2])
def test_loss_is_that_of_dense_least_squares(
    units: int, left_out: int | None, outputs: int, activation: lb.Activation, rng: np.random.Generator
) -> None:
    source, point = problem(units, outputs, activation, rng)
    (gram, *_) = source.sum(StepStatistic(point))
    others = linearised(gram, point, left_out)
    new = rng.standard_normal((1 if left_out is None else 2, 4))
    found = _Beside(source, others, 1.0).judge(new)
    assert_allclose(found.loss, dense_loss(others.point, new, source.x, source.y.reshape(300, outputs)), rtol=1e-7)


@pytest.mark.parametrize("outputs", [1, 2])
def test_single_precision_tells_the_same_loss(outputs: int, rng: np.random.Generator) -> None:
    source, point = problem(3, outputs, lb.relu, rng)
    others = linearised(source.sum(StepStatistic(point))[0], point, 1)
    new = rng.standard_normal((2, 4))
    double, single = (_Beside(source, others, 1.0, dtype).judge(new) for dtype in (np.float64, np.float32))
    assert_allclose(single.loss, double.loss, rtol=1e-5)
    assert_allclose(single.sums.gradient, double.sums.gradient, rtol=1e-3, atol=1e-4 * np.abs(double.sums.gradient).max())


@pytest.mark.parametrize("outputs", [1, 2])
def test_gradient_is_that_of_the_loss(outputs: int, rng: np.random.Generator) -> None:
    """The loss falls by 2 gradient·δ for a small δ: central differences of the projected loss."""
    source, point = problem(3, outputs, lb.tanh, rng)
    rule = _Beside(source, linearised(source.sum(StepStatistic(point))[0], point), 1.0)
    new, move = rng.standard_normal((2, 2, 4))
    step = 1e-5
    ahead, behind = (rule.judge(new + sign * step * move).loss for sign in (1.0, -1.0))
    assert_allclose((behind - ahead) / (2 * step), 2.0 * rule.judge(new).sums.gradient @ move.ravel(), rtol=1e-5)


def test_a_missing_unit_is_found_and_its_loss_is_that_of_a_refit(rng: np.random.Generator) -> None:
    truth = lb.random_network(3, 3, rng=2)
    x = rng.standard_normal((2000, 3))
    y = truth(x)
    unit = float(y.std())
    point = Model(lb.relu).start(truth.layer.rows[:2], 1)
    coefficients = np.array([*truth.readout[:2], truth.offset])[:, None] / unit
    others = linearised(lb.Samples(x, y).sum(StepStatistic(point.moved(point.units, coefficients)))[0],
                        point.moved(point.units, coefficients))
    near = truth.layer.rows[2:] + 0.2 * rng.standard_normal((1, 4))
    found = settle_beside(lb.Samples(x, y), others, near, unit, Effort(max_steps=30))
    assert found.loss < 1e3 * NEW * np.sum(y**2)  # the ridge of the elimination
    assert_allclose(found.point.units[2], truth.layer.rows[2], atol=1e-4)
    assert_allclose(found.point.coefficients[2, 0], truth.readout[2], rtol=1e-4)


def test_rows_that_overflow_explain_nothing(rng: np.random.Generator) -> None:
    source, point = problem(2, 1, lb.relu, rng)
    others = linearised(source.sum(StepStatistic(point))[0], point)
    without = dense_loss(point, np.empty((0, 4)), source.x, source.y)
    assert_allclose(_Beside(source, others, 1.0).judge(np.full((1, 4), 1e200)).loss, without, rtol=1e-9)


def test_an_interrupt_is_passed_on(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    source, point = problem(2, 1, lb.relu, rng)
    others = linearised(source.sum(StepStatistic(point))[0], point)

    def interrupt(self: _Beside, system: object, damping: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_Beside, "trial", interrupt)
    with pytest.raises(KeyboardInterrupt):
        settle_beside(source, others, rng.standard_normal((1, 4)), 1.0, Effort())


def test_a_rare_unit_is_looked_for_at_the_rows_with_the_largest_residuals() -> None:
    """80 noisy samples of three units, one of them on in three: two units were verified, since no start was near the third."""
    case = FAMILIES["units"](np.random.default_rng([161181, sum(map(ord, "units"))]))
    found = lb.recover(case.source, lb.RandomStart(), case.width, rng=161181)
    claim = next(claim for claim in found.certificate.claims if claim.name == "gain of one more unit")
    assert found.network.width == 2 and not claim.passed and claim.value > 1.5 * claim.threshold

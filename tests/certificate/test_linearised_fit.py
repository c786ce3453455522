"""The loss of a further unit beside linearised others, against least squares on a dense Jacobian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.certificate import ClaimName
from laybare.certificate.linearised_fit import (
    RIDGE,
    BatchScorer,
    CandidateUnit,
    LinearisedStep,
    NewUnits,
    confirm_on_all_rows,
    gauged_information,
    linearise_without,
    predicted_gains,
    settle_candidates,
)
from laybare.certificate.missing_unit import curvature_directions
from laybare.numerics.shapes import Array
from laybare.solver import Effort
from laybare.solver.normal import StepStatistic
from laybare.solver.point import Model, Point
from laybare.studies.hostile_cases import FAMILIES


def linearised(gram, point, left_out=None):
    return linearise_without(gauged_information(gram, point), point, left_out)


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
    (found,) = BatchScorer(source, point, 1.0, np.float64).score([NewUnits(new, others)])
    assert_allclose(found.loss, dense_loss(others.point, new, source.x, source.y.reshape(300, outputs)), rtol=1e-7)


@pytest.mark.parametrize("outputs", [1, 2])
def test_single_precision_tells_the_same_loss(outputs: int, rng: np.random.Generator) -> None:
    source, point = problem(3, outputs, lb.relu, rng)
    others = linearised(source.sum(StepStatistic(point))[0], point, 1)
    new = rng.standard_normal((2, 4))
    double, single = (
        BatchScorer(source, point, 1.0, dtype).score([NewUnits(new, others)])[0] for dtype in (np.float64, np.float32))
    assert_allclose(single.loss, double.loss, rtol=1e-5)
    assert_allclose(single.sums.gradient, double.sums.gradient, rtol=1e-3, atol=1e-4 * np.abs(double.sums.gradient).max())


@pytest.mark.parametrize("outputs", [1, 2])
def test_gradient_is_that_of_the_loss(outputs: int, rng: np.random.Generator) -> None:
    """The loss falls by 2 gradient·δ for a small δ: central differences of the projected loss."""
    source, point = problem(3, outputs, lb.tanh, rng)
    others = linearised(source.sum(StepStatistic(point))[0], point)
    new, move = rng.standard_normal((2, 2, 4))
    step = 1e-5
    places = [NewUnits(new + sign * step * move, others) for sign in (1.0, -1.0, 0.0)]
    ahead, behind, here = BatchScorer(source, point, 1.0, np.float64).score(places)
    assert_allclose((behind.loss - ahead.loss) / (2 * step), 2.0 * here.sums.gradient @ move.ravel(), rtol=1e-5)


def test_a_missing_unit_is_found_and_its_loss_is_that_of_a_refit(rng: np.random.Generator) -> None:
    truth = lb.random_network(3, 3, rng=2)
    x = rng.standard_normal((2000, 3))
    y = truth(x)
    unit = float(y.std())
    point = Model(lb.relu).start(truth.layer.rows[:2], 1)
    coefficients = np.array([*truth.readout[:2], truth.offset])[:, None] / unit
    point = point.moved(point.units, coefficients)
    others = linearised(lb.Samples(x, y).sum(StepStatistic(point))[0], point)
    near = truth.layer.rows[2:] + 0.2 * rng.standard_normal((1, 4))
    scorer = BatchScorer(lb.Samples(x, y), point, unit, np.float64)
    (found,) = settle_candidates(scorer, [NewUnits(near, others)], Effort(max_steps=30))
    assert found.loss < 1e3 * RIDGE[np.float64] * np.sum(y**2)  # the ridge of the elimination
    assert_allclose(found.point.units[2], truth.layer.rows[2], atol=1e-4)
    assert_allclose(found.point.coefficients[2, 0], truth.readout[2], rtol=1e-4)


def test_rows_that_overflow_explain_nothing(rng: np.random.Generator) -> None:
    source, point = problem(2, 1, lb.relu, rng)
    others = linearised(source.sum(StepStatistic(point))[0], point)
    without = dense_loss(point, np.empty((0, 4)), source.x, source.y)
    (found,) = BatchScorer(source, point, 1.0, np.float64).score([NewUnits(np.full((1, 4), 1e200), others)])
    assert_allclose(found.loss, without, rtol=1e-9)


def test_beside_a_readout_that_overflows_nothing_is_explained(rng: np.random.Generator) -> None:
    """A unit that is hardly on gets a readout of any size; the products of new units with its part have none."""
    source, point = problem(3, 1, lb.relu, rng)
    (gram, *_) = source.sum(StepStatistic(point))
    places = [NewUnits(rng.standard_normal((1, 4)), linearised(gram, point))]
    scorer = BatchScorer(source, point.moved(point.units, np.full_like(point.coefficients, 1e200)), 1.0, np.float64)
    (settled,) = settle_candidates(scorer, places, Effort())
    (predicted,) = predicted_gains(scorer, places, scorer.score(places))
    assert settled.loss == predicted.loss == np.inf and settled.point.width == 4


def test_an_interrupt_is_passed_on(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    source, point = problem(2, 1, lb.relu, rng)
    others = linearised(source.sum(StepStatistic(point))[0], point)

    def interrupt(self: LinearisedStep, system: object, damping: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LinearisedStep, "trial", interrupt)
    with pytest.raises(KeyboardInterrupt):
        settle_candidates(BatchScorer(source, point, 1.0, np.float64), [NewUnits(rng.standard_normal((1, 4)), others)], Effort())


@pytest.mark.parametrize("outputs", [1, 2])
def test_places_that_share_their_passes_end_where_each_ends_alone(outputs: int, rng: np.random.Generator) -> None:
    source, point = problem(3, outputs, lb.tanh, rng)
    (gram, *_) = source.sum(StepStatistic(point))
    places = [
        NewUnits(rng.standard_normal((1 if left is None else 2, 4)), linearised(gram, point, left)) for left in (None, 0, 2)]
    scorer, effort = BatchScorer(source, point, 1.0, np.float64), Effort(max_steps=4)
    alone = [settle_candidates(scorer, [place], effort)[0] for place in places]
    scored = scorer.score(places)
    assert settle_candidates(scorer, places, effort, scored)[0].loss == settle_candidates(scorer, places, effort)[0].loss
    for one, other in zip(settle_candidates(scorer, places, effort), alone, strict=True):
        assert_allclose(one.loss, other.loss, rtol=1e-9)
        assert_allclose(one.point.units, other.point.units, rtol=1e-6, atol=1e-9)


def test_what_a_step_promises_is_no_less_than_the_loss_falls_short_of(rng: np.random.Generator) -> None:
    source, point = problem(3, 1, lb.tanh, rng)
    place = NewUnits(rng.standard_normal((1, 4)), linearised(source.sum(StepStatistic(point))[0], point))
    scorer = BatchScorer(source, point, 1.0, np.float64)
    (here,) = scorer.score([place])
    (promised,) = predicted_gains(scorer, [place], [here])
    assert 0.0 < promised.loss < here.loss


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_confirmed_gain_is_that_of_a_regression_on_all_numbers(outputs: int, rng: np.random.Generator) -> None:
    """Where some rows are all rows: what dense least squares gains by the tangents of the new unit too."""
    source, point = problem(3, outputs, lb.tanh, rng)
    x, y = source.x, source.y.reshape(300, outputs)
    whole = linearised(source.sum(StepStatistic(point))[0], point)
    left = (y - point.features(x, point.extended(x) @ point.units.T) @ point.coefficients).ravel()
    J = jacobian(point, x)
    y = y - (J @ np.linalg.lstsq(J, left)[0]).reshape(y.shape)  # at a minimum
    rows, readouts = rng.standard_normal((1, 4)), rng.standard_normal((1, outputs))
    scorer = BatchScorer(lb.Samples(x, y), point, 1.0, np.float64)
    wide = point.moved(np.vstack([point.units, rows]), np.insert(point.coefficients, 3, readouts, axis=0))
    left = (y - point.features(x, point.extended(x) @ point.units.T) @ point.coefficients).ravel()
    design = jacobian(wide, x)
    dense = np.sum(left**2) - np.sum((left - design @ np.linalg.lstsq(design, left)[0]) ** 2)
    (found,) = confirm_on_all_rows(scorer, scorer, whole, [CandidateUnit(rows, readouts)])
    assert_allclose(found.gain, dense, rtol=1e-6)
    other = CandidateUnit(rng.standard_normal((2, 4)), readouts.repeat(2, 0))
    _, same = confirm_on_all_rows(scorer, scorer, whole, [other, found])
    (alone,) = confirm_on_all_rows(scorer, scorer, whole, [found])
    assert_allclose(same.gain, alone.gain, rtol=1e-6)


def test_a_confirmed_gain_from_some_rows_is_a_little_less_and_never_more(rng: np.random.Generator) -> None:
    truth = lb.random_network(8, 5, rng=3)
    x = rng.standard_normal((20_000, 8))
    source = lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(20_000))
    part = source.split(0.1, rng=0).first.kept()
    point = Model(lb.relu).start(truth.layer.rows, 1)
    point = point.moved(point.units, np.append(truth.readout, truth.offset)[:, None])
    some, every = (BatchScorer(one, point, 1.0, np.float64) for one in (part, source))
    rows, readouts = rng.standard_normal((1, 9)), np.ones((1, 1))
    of_part, of_all = (linearised(one.sum(StepStatistic(point))[0], point) for one in (part, source))
    (less,) = confirm_on_all_rows(some, every, of_part, [CandidateUnit(rows, readouts)])
    (most,) = confirm_on_all_rows(every, every, of_all, [CandidateUnit(rows, readouts)])
    assert 0.0 < less.gain < 1.02 * most.gain


def test_steps_of_a_confirmed_unit_lead_to_the_missing_one(rng: np.random.Generator) -> None:
    truth = lb.random_network(4, 3, rng=2)
    x = rng.standard_normal((3000, 4))
    source = lb.Samples(x, truth(x))
    point = Model(lb.relu).start(truth.layer.rows[:2], 1)
    point = point.moved(point.units, np.array([*truth.readout[:2], truth.offset])[:, None])
    scorer, whole = BatchScorer(source, point, 1.0, np.float64), linearised(source.sum(StepStatistic(point))[0], point)
    row = truth.layer.rows[2]
    found = CandidateUnit(row[None] + 0.2 * rng.standard_normal((1, 5)), 0.7 * np.array([[truth.readout[2]]]))
    before = np.linalg.norm(found.rows - row)
    for _ in range(6):
        (found,) = confirm_on_all_rows(scorer, scorer, whole, [found])
    assert np.linalg.norm(found.rows - row) < 0.1 * before
    assert_allclose(found.readouts[0, 0], truth.readout[2], rtol=0.05)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_residual_bends_along_a_missing_unit(outputs: int, rng: np.random.Generator) -> None:
    truth = lb.random_network(12, 4, outputs=outputs, rng=5)
    x = rng.standard_normal((20_000, 12))
    y = truth(x).reshape(20_000, outputs)
    point = Model(lb.relu).start(truth.layer.rows[:3], outputs)
    design = point.features(x, point.extended(x) @ point.units.T)
    source = lb.Samples(x, y + 0.1 * rng.standard_normal(y.shape))
    (row,) = curvature_directions(source, point.moved(point.units, np.linalg.lstsq(design, y)[0]), 1)
    across = np.linalg.qr(truth.layer.weights[:3].T)[0]  # what the others cannot follow
    missing = truth.layer.weights[3] - across @ (across.T @ truth.layer.weights[3])
    cosine = abs(row[:12] @ missing) / np.linalg.norm(row) / np.linalg.norm(missing)
    assert cosine > 0.8 and row[12] == 0.0  # 0.29 by chance


@pytest.mark.slow
def test_a_small_unit_missing_among_many_rows_is_seen() -> None:
    """A unit of a hundredth of the spread of y, beside 19 in 50 dimensions: some rows alone did not tell where it is."""
    for seed in range(21, 25):
        truth, rng = lb.random_network(50, 20, rng=seed), np.random.default_rng(seed + 100)
        readout = np.append(truth.readout[:-1], 0.1)
        truth = replace(truth, readout=readout)
        x = rng.standard_normal((100_000, 50))
        found = lb.recover(lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(100_000)), lb.RandomStart(), 19, rng=0)
        claim = next(claim for claim in found.certificate.checks if claim.name == ClaimName.ONE_UNIT_MORE)
        assert found.certificate.verdict == "refuted" and claim.value > 3.0 * claim.threshold


def test_a_rare_unit_is_looked_for_at_the_rows_with_the_largest_residuals() -> None:
    """80 noisy samples of three units, one of them on in three: two units were verified, since no start was near the third."""
    case = FAMILIES["units"](np.random.default_rng([161181, sum(map(ord, "units"))]))
    found = lb.recover(case.source, lb.RandomStart(), case.width, rng=161181)
    claim = next(claim for claim in found.certificate.checks if claim.name == ClaimName.ONE_UNIT_MORE)
    assert found.network.width == 2 and not claim.passed and claim.value > 1.5 * claim.threshold

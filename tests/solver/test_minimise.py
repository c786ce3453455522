"""Many samples: a part of the rows first, then all of them by products. Same minimum, few passes, no matrix of samples."""

from __future__ import annotations

import numpy as np
import pytest
from changed_options import change_options
from interrupted_fits import best_when_interrupted
from numpy.testing import assert_allclose
from planted_problems import full_point, perturbed, planted, standard

import laybare as lb
from laybare.networks import sign_free
from laybare.solver import matrix_free, options, subsampled
from laybare.solver import minimise as module
from laybare.solver.dense import levenberg_marquardt
from laybare.solver.matrix_free import DampedSystem, Direction, GradientStatistic, ProductStatistic, Tangents
from laybare.solver.minimise import minimise, part_rows
from laybare.solver.normal import Fit, FitStatistic, Step, StepStatistic, project, project_on
from laybare.solver.options import SOLVER
from laybare.solver.point import network_of, overfit, point_of, split
from laybare.solver.subsampled import SubsampledCurvature, metric_of, reduced_normal, subsampled_newton
from laybare.source.problem import prefix
from laybare.source.views import fits_one_block

KINDS = [lb.relu, lb.leaky_relu(0.1), lb.absolute, lb.power_relu(2), lb.tanh, lb.sigmoid, lb.erf, lb.softplus, lb.gelu]


@pytest.fixture(autouse=True)
def no_step_is_cheap(monkeypatch):
    """So that small problems, which are over in a moment anyway, go the way of large ones; parts of them stay cheap."""
    monkeypatch.setattr(module, "is_expensive", lambda source, start: source.size >= 3000)


def many(rng, *, dim=15, width=7, n=8000, size=0.05, **options):
    """More than three times the rows of a part, and more unknowns than dense finishing takes."""
    problem = planted(dim, width, n, rng, **options)
    start = full_point(perturbed(problem.truth, size, rng))
    assert problem.source.size >= 3 * part_rows(problem.source, start)
    assert start.size > SOLVER.products_from
    return problem, start


@pytest.mark.parametrize("activation", KINDS, ids=lambda a: a.name)
def test_noiseless_problems_end_at_rounding(activation, rng):
    problem, start = many(rng, activation=activation)
    refined = minimise(problem.source, start, problem.scale)
    assert refined.trace.loss < 1e-26
    assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 1e-10


def test_weights_are_right_to_the_last_digits(rng):
    problem, start = many(rng)
    refined = minimise(problem.source, start, problem.scale)
    assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 2e-15


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh, lb.softplus], ids=lambda a: a.name)
def test_all_rows_by_products_end_at_rounding_from_anywhere_near(activation, rng):
    """Without the part's own fit before it."""
    problem, start = many(rng, activation=activation)
    part = prefix(problem.source, part_rows(problem.source, start))
    refined = subsampled_newton(problem.source, SubsampledCurvature(part, problem.source.size), start, problem.scale)
    assert refined.trace.loss < 1e-24
    assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 1e-9


def test_several_outputs(rng):
    problem, start = many(rng, outputs=3, n=6000)
    refined = minimise(problem.source, start, problem.scale)
    assert lb.compare(network_of(refined.point, vector=False), problem.truth).max_error < 1e-12


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_sign_free_form_keeps_its_linear_part(noise, rng):
    problem = planted(15, 7, 8000, rng, noise=noise)
    start = full_point(perturbed(sign_free(problem.truth), 0.05, rng), linear=True)
    refined = minimise(problem.source, start, problem.scale)
    dense = levenberg_marquardt(problem.source, start, problem.scale)
    assert refined.loss <= dense.loss * (1 + 0.01 * overfit(problem.source, start)) + 1e-24 * problem.scale


def test_models_without_biases(rng):
    problem = planted(15, 8, 8000, rng, biases=0.0, activation=lb.tanh)
    bent = perturbed(problem.truth, 0.05, rng)
    network = lb.Network(lb.Layer(bent.layer.weights, None, lb.tanh), bent.readout)
    start = point_of(network, biases=False, offset=False, linear=False)
    refined = minimise(problem.source, start, problem.scale)
    assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 1e-12


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh], ids=lambda a: a.name)
def test_noise_ends_at_the_minimum_of_all_rows(activation, rng):
    """Within a hundredth of a residual variance per unknown: a tenth of a standard error; and in single precision."""
    problem, start = many(rng, activation=activation, noise=0.1)
    refined = minimise(problem.source, start, problem.scale)
    dense = levenberg_marquardt(problem.source, start, problem.scale)
    assert refined.trace.reason == "settled"
    assert abs(refined.loss - dense.loss) < 0.01 * overfit(problem.source, start) * dense.loss
    fit = Fit(*problem.source.sum(FitStatistic(refined.point)))
    assert refined.loss == pytest.approx(project(refined.point, fit)[1], rel=1e-12)


def test_the_excess_of_noise_is_the_theoretical_one(seed):
    """Clean mean square over sigma² P / n, P = 15·7 + 7 + 1: its sd is sqrt(2 / 113) = 13 % in one run; 4 sigma over 8 runs."""
    ratios = []
    for replicate in range(8):
        rng = np.random.default_rng([seed, replicate])
        problem, start = many(rng, noise=0.1)
        refined = minimise(problem.source, start, problem.scale)
        x, _ = problem.source.read(0, 8000)
        excess = np.mean((network_of(refined.point, vector=True)(x) - problem.truth(x)) ** 2)
        ratios.append(excess / (0.1**2 * 113 / 8000))
    assert abs(np.mean(ratios) - 1.0) < 4 * np.sqrt(2 / 113) / np.sqrt(8)


def test_a_start_at_the_minimum_is_not_spoiled_by_the_part(rng):
    problem, start = many(rng, noise=0.1)
    best = minimise(problem.source, start, problem.scale)
    again = minimise(problem.source, best.point, problem.scale)
    assert again.loss <= best.loss * (1 + 1e-12)
    on_all = [row for row in again.trace.rows if row.samples > 2 * problem.source.size]
    assert len(on_all) <= 3 and again.trace.samples < 12 * problem.source.size


def test_a_large_fit_takes_few_passes(rng):
    """The floor of noise from a start that is off by 0.2 costs at most thirty passes, of the price of a gradient each."""
    problem = planted(30, 12, 40_000, rng, noise=0.1)
    start = full_point(perturbed(problem.truth, 0.2 / np.sqrt(30), rng))
    refined = minimise(problem.source, start, problem.scale)
    assert refined.trace.reason == "settled"
    assert refined.trace.samples < 30 * problem.source.size


def test_sorted_rows_are_as_good_as_others(rng):
    problem, start = many(rng, noise=0.1, activation=lb.tanh)
    x, y = problem.source.read(0, problem.source.size)
    order = np.argsort(x[:, 0])
    found = minimise(lb.Samples(x[order], y[order], law=standard(15)), start, problem.scale)
    other = minimise(problem.source, start, problem.scale)
    assert abs(found.loss - other.loss) < 0.01 * overfit(problem.source, start) * other.loss
    assert found.trace.samples < 1.5 * other.trace.samples


def test_a_step_that_is_cheap_needs_no_part(rng, monkeypatch):
    problem, start = many(rng)
    monkeypatch.undo()
    cheap = minimise(problem.source, start, problem.scale)
    assert all(row.samples % problem.source.size == 0 for row in cheap.trace.rows)
    assert cheap.trace.rows[0].samples == problem.source.size


def test_few_unknowns_are_finished_by_normal_equations(rng, monkeypatch):
    problem = planted(5, 3, 3000, rng, noise=0.1)
    monkeypatch.setattr(module, "subsampled_newton", None)
    refined = minimise(problem.source, full_point(perturbed(problem.truth, 0.05, rng)), problem.scale)
    assert refined.trace.finished


def test_same_bits_for_any_number_of_workers(rng):
    problem, start = many(rng, noise=0.1, size=0.1)
    sources = [problem.source.with_schedule(lb.source.Schedule(workers=workers)) for workers in (1, 2, 3)]
    ends = [minimise(source, start, problem.scale).point.units for source in sources]
    assert np.array_equal(ends[0], ends[1]) and np.array_equal(ends[0], ends[2])


@pytest.mark.parametrize("where", ["in the part", "in all rows"])
def test_an_interrupt_keeps_what_there_is(where, rng):
    problem, start = many(rng, noise=0.1, size=0.1)
    events = []
    minimise(problem.source, start, problem.scale, progress=events.append)
    left = {"in the part": 2, "in all rows": len(events) - 1}[where]

    def interrupt(event):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    refined = best_when_interrupted(minimise, problem.source, start, problem.scale, progress=interrupt)
    assert refined.trace.interrupted
    rows = problem.source if where == "in all rows" else prefix(problem.source, part_rows(problem.source, start))
    _, loss = project_on(rows, refined.point)
    assert refined.loss == pytest.approx(loss, rel=1e-6)  # of the rows that were fitted, in single precision if all of them


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh], ids=lambda a: a.name)
@pytest.mark.parametrize("outputs", [1, 3])
def test_metric_of_all_rows_is_their_curvature(activation, outputs, rng):
    """If the part is everything, the metric inverts JᵀJ on the tangent spaces, up to the single precision of products."""
    problem = planted(6, 4, 2000, rng, activation=activation, outputs=outputs)
    point = full_point(problem.truth)
    metric = metric_of(SubsampledCurvature(problem.source, 2000).at(point), 0.0)
    system = DampedSystem(problem.source, point, metric)
    v = metric.solve(Direction(rng.standard_normal(point.units.shape), rng.standard_normal(point.coefficients.shape)))
    back = metric.solve(system.apply(v))
    for one, other in zip(v, back, strict=True):
        assert_allclose(other, one, atol=1e-3 * np.abs(one).max())


def test_readouts_beyond_the_square_root_of_the_largest_number_are_a_step_of_length_zero(rng):
    """Their products overflow: a rejected trial, as whatever is not finite, and no error."""
    problem = planted(6, 4, 2000, rng)
    point = full_point(problem.truth)
    metric = metric_of(SubsampledCurvature(problem.source, 2000).at(point), 0.0)
    huge = point.moved(point.units, 1e170 * point.coefficients)
    right = Direction(rng.standard_normal(point.units.shape), rng.standard_normal(point.coefficients.shape))
    with np.errstate(over="ignore", invalid="ignore"):  # as every recovery does
        found = DampedSystem(problem.source, huge, metric).solve(right, 0.1)
    assert found.gain == 0.0 and not found.step.rows.any() and not found.step.coefficients.any() and found.products == 1


def test_metric_of_a_part_is_symmetric_and_positive(rng):
    problem = planted(6, 4, 2000, rng)
    point = full_point(perturbed(problem.truth, 0.01, rng))
    curvature = SubsampledCurvature(problem.source.take(300), 2000)
    curvature.at(full_point(problem.truth))  # which serves for the next point too
    metric = metric_of(curvature.at(point), 0.01)

    def draw():
        return Direction(rng.standard_normal(point.units.shape), rng.standard_normal(point.coefficients.shape))

    v, w = draw(), draw()
    assert v.dot(metric.solve(w)) == pytest.approx(w.dot(metric.solve(v)), rel=1e-9)
    assert all(u.dot(metric.solve(u)) > 0 for u in (v, w))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_normal_equations_that_serve_several_steps_end_where_fresh_ones_do(noise, rng, monkeypatch):
    """All rows, products instead of a matrix for every step."""
    problem = planted(8, 3, 1500, rng, noise=noise)
    start = full_point(perturbed(problem.truth, 0.1, rng))
    dense = levenberg_marquardt(problem.source, start, problem.scale)
    change_options(monkeypatch, options, "COST", expensive=0.0)
    lagged = minimise(problem.source, start, problem.scale)
    close = 0.01 * overfit(problem.source, start) * dense.loss
    assert abs(lagged.loss - dense.loss) <= max(close, 1e-24 * problem.scale)


def test_curvature_serves_until_products_are_many_or_the_point_is_far(rng):
    problem = planted(6, 4, 2000, rng)
    point = full_point(problem.truth)
    curvature = SubsampledCurvature(problem.source, 2000)
    first = curvature.at(point).schur
    near = point.moved(point.units + 1e-3, point.coefficients)
    curvature.products = 3
    assert curvature.at(near).schur is first
    curvature.products = 50
    second = curvature.at(near).schur
    assert second is not first
    assert curvature.at(point.moved(point.units, -3.0 * point.coefficients)).schur is not second


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_refit_with_known_curvature_ends_where_others_do_without_normal_equations(noise, rng):
    """The curvature of all rows at the truth, for a start nearby: products alone, and the same minimum."""
    problem, start = many(rng, noise=noise)
    truth, stages = full_point(problem.truth), []
    nearby = reduced_normal(Step(*problem.source.sum(StepStatistic(truth))), truth)
    source = problem.source.with_progress(lambda event: stages.append(event.stage))
    refined = minimise(source, start, problem.scale, nearby=nearby)
    dense = levenberg_marquardt(problem.source, start, problem.scale)
    assert abs(refined.loss - dense.loss) <= max(0.01 * overfit(problem.source, start) * dense.loss, 1e-24 * problem.scale)
    assert "products" in stages and "normal equations" not in stages


def test_an_interrupted_refit_decides_nothing(rng):
    problem, start = many(rng)

    def interrupt(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minimise(problem.source, start, problem.scale, progress=interrupt)


def test_a_factor_serves_for_dampings_that_are_alike(rng):
    problem = planted(6, 4, 2000, rng)
    curvature = SubsampledCurvature(problem.source, 2000)
    normal = curvature.at(full_point(problem.truth))
    one, alike, other = (curvature.metric(normal, damping) for damping in (1e-2, 3e-3, 1e-3))
    assert alike.rows is one.rows and other.rows is not one.rows
    assert_allclose(alike.weight, 0.3 * one.weight)


class Recorded(np.ndarray):
    """An array that writes down every matrix product it takes part in, and the size of everything made from it."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        plain = [part.view(np.ndarray) if isinstance(part, Recorded) else part for part in inputs]
        if out is not None:
            options["out"] = tuple(part.view(np.ndarray) if isinstance(part, Recorded) else part for part in out)
        made = getattr(ufunc, method)(*plain, **options)
        if ufunc is np.matmul:
            Recorded.products.append((plain[0].shape, plain[1].shape))
        return self.kept(made)

    def __array_function__(self, function, types, given, options):
        """Recorded arrays go into NumPy's functions as plain ones."""
        plain = [part.view(np.ndarray) if isinstance(part, Recorded) else part for part in given]
        if function is np.dot:
            Recorded.products.append((plain[0].shape, plain[1].shape))
        return self.kept(function(*plain, **options))

    @staticmethod
    def kept(made):
        if not isinstance(made, np.ndarray):
            return made
        Recorded.largest = max(Recorded.largest, made.size)
        return made.view(Recorded)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["gradient", "slope", "product"])
def test_passes_are_matrix_products_and_form_no_matrix_of_samples_by_parameters(kind, dtype, rng, monkeypatch):
    """Inputs meet one matrix product forwards and one backwards, k columns wide or more; nothing is larger than they are."""
    n, dim, width = 500, 30, 8
    problem = planted(dim, width, n, rng)
    point = full_point(problem.truth)
    v = split(point, rng.standard_normal(point.units.shape), rng.standard_normal(point.coefficients.shape))
    with_ones = matrix_free.with_ones
    monkeypatch.setattr(matrix_free, "with_ones", lambda point, x, dtype: with_ones(point, x, dtype).view(Recorded))
    Recorded.products, Recorded.largest = [], 0
    statistics = {
        "gradient": GradientStatistic(point, dtype), "slope": GradientStatistic(point, dtype, curvature=True),
        "product": ProductStatistic(point, v, dtype)}
    statistics[kind](*problem.source.read(0, n))
    with_inputs = [shapes for shapes in Recorded.products if {(n, dim + 1), (dim + 1, n)} & set(shapes)]
    assert len(with_inputs) == 2
    assert all(min(*left, *right) >= width for left, right in with_inputs)
    assert Recorded.largest <= n * (dim + 1) < n * point.units.size / 5
    flops = sum(2 * left[0] * left[1] * right[1] for left, right in Recorded.products)
    assert flops <= {"gradient": 5, "slope": 8, "product": 8}[kind] * n * width * (dim + 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", [lb.relu, lb.absolute, lb.tanh], ids=lambda a: a.name)
def test_a_product_with_known_tangents_is_the_same(activation, dtype, rng):
    problem = planted(6, 4, 2000, rng, activation=activation, outputs=2)
    point, source = full_point(problem.truth), problem.source.kept()
    v = split(point, rng.standard_normal(point.units.shape), rng.standard_normal(point.coefficients.shape))
    assert fits_one_block(source, ProductStatistic(point, v, dtype))
    *gradient, values, slopes = source.sum(GradientStatistic(point, dtype, tangents=True))
    for one, other in zip(gradient, source.sum(GradientStatistic(point, dtype)), strict=True):
        np.testing.assert_array_equal(one, other)
    known = source.sum(ProductStatistic(point, v, dtype, Tangents(values, slopes)))
    for one, other in zip(known, source.sum(ProductStatistic(point, v, dtype)), strict=True):
        assert_allclose(one, other, rtol=0.0, atol=100 * np.finfo(dtype).eps * np.abs(other).max())


def test_tangents_wait_where_rows_are_one_block_only(rng, monkeypatch):
    """A fit on few kept rows asks for them, one on many rows or on rows that are read anew does not."""
    asked, plain = [], subsampled.GradientStatistic

    def statistic(*given, **named):
        asked.append(named.get("tangents", False))
        return plain(*given, **named)

    monkeypatch.setattr(subsampled, "GradientStatistic", statistic)
    for n, kept, wanted in ((2000, True, True), (2000, False, False), (60_000, True, False)):
        problem = planted(8, 4, n, rng, noise=0.1)
        source = problem.source.kept() if kept else problem.source
        asked.clear()
        start = full_point(perturbed(problem.truth, 0.05, rng))
        refined = subsampled_newton(source, SubsampledCurvature(source, source.size), start, problem.scale)
        assert any(asked) is wanted
        assert_allclose(refined.loss, levenberg_marquardt(problem.source, start, problem.scale).loss, rtol=1e-3)


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_curvature_of_readouts_that_single_precision_does_not_hold_is_double(size, rng):
    problem = planted(6, 4, 2000, rng)
    truth = full_point(problem.truth)
    point = truth.moved(truth.units, size * truth.coefficients)
    normal = reduced_normal(Step(*problem.source.sum(StepStatistic(point))), point, dtype=np.float32)
    assert normal.schur.dtype == (np.float32 if size == 1.0 else np.float64)
    assert np.isfinite(normal.schur).all() and np.all(np.diag(normal.schur) > 0)

"""The matrix-free solver agrees with the dense one and converges superlinearly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from changed_options import change_options
from interrupted_fits import best_when_interrupted
from planted_problems import full_point, perturbed, planted

import laybare as lb
from laybare.networks import sign_free
from laybare.solver import options
from laybare.solver.dense import levenberg_marquardt
from laybare.solver.matrix_free import matrix_free_newton
from laybare.solver.minimise import minimise
from laybare.solver.point import network_of


@pytest.mark.parametrize("activation", [lb.relu, lb.absolute, lb.tanh, lb.softplus, lb.power_relu(2)], ids=lambda a: a.name)
def test_ends_where_the_dense_solver_ends(activation, rng):
    problem = planted(8, 4, 1500, rng, activation=activation)
    start = full_point(perturbed(problem.truth, 0.05, rng))
    for solver in (matrix_free_newton, levenberg_marquardt):
        refined = solver(problem.source, start, problem.scale)
        assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 1e-9
        assert refined.trace.loss < 1e-24


def test_noisy_minimum_is_the_same(rng):
    problem = planted(8, 4, 1500, rng, activation=lb.tanh, noise=0.1)
    start = full_point(perturbed(problem.truth, 0.05, rng))
    dense = levenberg_marquardt(problem.source, start, problem.scale)
    free = matrix_free_newton(problem.source, start, problem.scale)
    assert abs(free.loss - dense.loss) < 1e-6 * dense.loss


def test_large_sign_free_problem_to_machine_precision(rng):
    problem = planted(60, 40, 8000, rng)
    assert problem.truth.layer.rows.size > options.SOLVER.dense_limit
    start = full_point(perturbed(sign_free(problem.truth), 0.05, rng), linear=True)
    refined = minimise(problem.source, start, problem.scale)
    assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 1e-12
    losses = np.array([row.loss for row in refined.trace.rows])
    late = [np.log10(b) / np.log10(a) for a, b in pairwise(losses) if 1e-20 < a < 1e-4]
    assert min(late) > 1.25  # superlinear: the exponent grows by more than a quarter at every step


def test_sub_samples_come_first_and_all_samples_last(rng, monkeypatch):
    problem = planted(5, 3, 6000, rng)
    change_options(monkeypatch, options, "SOLVER", far_loss=1e-6)
    start = full_point(perturbed(problem.truth, 0.3, rng))
    refined = matrix_free_newton(problem.source, start, problem.scale)
    touched = np.diff([row.samples for row in refined.trace.rows])
    assert 0 < touched[0] < problem.source.size  # the first step saw a part
    assert touched[-1] >= problem.source.size
    assert refined.trace.loss < 1e-24


def test_models_without_biases_offset_or_linear_part(rng):
    from laybare.solver.point import point_of

    problem = planted(8, 4, 800, rng, biases=0.0)
    start = point_of(perturbed(problem.truth, 0.05, rng), biases=False, offset=False, linear=False)
    refined = matrix_free_newton(problem.source, start, problem.scale)
    assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 1e-9


def test_interrupt_returns_the_best_so_far(rng):
    def interrupt(event):
        raise KeyboardInterrupt

    problem = planted(8, 4, 800, rng)
    start = full_point(perturbed(problem.truth, 0.3, rng))
    refined = best_when_interrupted(matrix_free_newton, problem.source, start, problem.scale, progress=interrupt)
    assert refined.trace.interrupted


def test_an_interrupt_on_the_sub_sample_ends_it(rng, monkeypatch):
    """It was forgotten, and all samples were gone through as well."""
    problem = planted(5, 3, 6000, rng)
    change_options(monkeypatch, options, "SOLVER", far_loss=1e-6)
    given = []

    def interrupt(event):
        given.append(event)
        raise KeyboardInterrupt

    start = full_point(perturbed(problem.truth, 0.3, rng))
    refined = best_when_interrupted(matrix_free_newton, problem.source, start, problem.scale, progress=interrupt)
    assert len(given) == 1 and refined.trace.interrupted
    assert refined.trace.samples < 3 * problem.source.size


def test_a_step_of_many_products_tells_of_them(rng, monkeypatch):
    """A clock that listens can stop it: one step of a large network took minutes."""
    problem = planted(8, 6, 1500, rng)
    change_options(monkeypatch, options, "SOLVER", cg_report_after=2)
    given = []
    matrix_free_newton(problem.source, full_point(perturbed(problem.truth, 0.3, rng)), problem.scale, progress=given.append)
    assert any(event.detail == "products of a step" and event.stage == "refining" for event in given)

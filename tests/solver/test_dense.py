"""The dense solver: exact where exactness is possible, at the floor with noise, honest about why it stopped."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from interrupted_fits import best_when_interrupted
from planted_problems import full_point, perturbed, planted

import laybare as lb
from laybare.errors import InvalidInput
from laybare.networks import sign_free
from laybare.solver import Effort
from laybare.solver.dense import levenberg_marquardt
from laybare.solver.normal import Fit, project
from laybare.solver.point import network_of, point_of
from laybare.source.problem import total_variation

KINDS = [lb.relu, lb.leaky_relu(0.1), lb.absolute, lb.power_relu(2), lb.tanh, lb.sigmoid, lb.erf, lb.softplus, lb.gelu]


@pytest.mark.parametrize("activation", KINDS, ids=lambda a: a.name)
def test_noiseless_start_ends_at_machine_precision(activation, rng):
    problem = planted(6, 4, 800, rng, activation=activation)
    start = full_point(perturbed(problem.truth, 0.05, rng))
    refined = levenberg_marquardt(problem.source, start, problem.scale)
    assert refined.trace.loss < 1e-26
    assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 1e-10


def test_several_outputs_are_solved_at_once(rng):
    problem = planted(5, 5, 300, rng, outputs=3)
    refined = levenberg_marquardt(problem.source, full_point(perturbed(problem.truth, 0.1, rng)), problem.scale)
    assert lb.compare(network_of(refined.point, vector=False), problem.truth).max_error < 1e-12


def test_sign_free_form_keeps_its_linear_part(rng):
    problem = planted(6, 4, 400, rng)
    start = full_point(perturbed(sign_free(problem.truth), 0.05, rng), linear=True)
    refined = levenberg_marquardt(problem.source, start, problem.scale)
    assert refined.trace.loss < 1e-26
    assert lb.compare(network_of(refined.point, vector=True), problem.truth).max_error < 1e-12


def test_convergence_is_quadratic_near_the_solution(rng):
    """Smooth units: the exponent of the loss at least x1.6 a step once it is below 1e-4, until rounding."""
    problem = planted(6, 3, 500, rng, activation=lb.tanh)
    refined = levenberg_marquardt(problem.source, full_point(perturbed(problem.truth, 0.05, rng)), problem.scale)
    losses = np.array([row.loss for row in refined.trace.rows])
    pairs = [(a, b) for a, b in pairwise(losses) if 1e-13 < a < 1e-4]
    assert len(pairs) >= 1
    assert all(np.log10(b) < 1.6 * np.log10(a) for a, b in pairs)


def test_noise_ends_at_the_statistical_floor(seed):
    """Excess of clean mean square over sigma² P / n: its mean over 24 data sets is 1 up to 4 sigma (sd sqrt(2/P)/sqrt(24))."""
    ratios = []
    for replicate in range(24):
        rng = np.random.default_rng([seed, replicate])
        problem = planted(4, 3, 1500, rng, activation=lb.tanh, noise=0.1)
        refined = levenberg_marquardt(problem.source, full_point(problem.truth), problem.scale)
        x = rng.standard_normal((20_000, 4))
        excess = np.mean((network_of(refined.point, vector=True)(x) - problem.truth(x)) ** 2)
        ratios.append(excess / (0.1**2 * (3 * 6 + 1) / 1500))
    assert abs(np.mean(ratios) - 1.0) < 4 * np.sqrt(2 / 19) / np.sqrt(24)


def test_the_loss_never_rises(small, rng):
    refined = levenberg_marquardt(small.source, full_point(perturbed(small.truth, 1.0, rng)), small.scale)
    losses = [row.loss for row in refined.trace.rows]
    assert all(b < a for a, b in pairwise(losses))
    assert refined.loss == losses[-1] * small.scale


def test_same_bits_for_any_number_of_workers(rng):
    problem = planted(6, 4, 4000, rng)
    start = full_point(perturbed(problem.truth, 0.3, rng))
    ends = [
        levenberg_marquardt(problem.source.with_schedule(lb.source.Schedule(workers=workers)), start, problem.scale).point.units
        for workers in (1, 2, 3)
    ]
    assert np.array_equal(ends[0], ends[1]) and np.array_equal(ends[0], ends[2])


def test_duplicate_and_zero_rows_are_survived(small, rng):
    """Two equal units make the Gram matrix singular, a zero row has no direction: neither may stop the others."""
    truth = small.truth
    rows = np.vstack([truth.layer.weights, truth.layer.weights[:1], np.zeros((1, 6))])
    layer = lb.Layer(rows, np.append(truth.layer.biases, [truth.layer.biases[0], 0.0]), lb.relu)
    start = full_point(perturbed(lb.Network(layer, np.append(truth.readout, [0.0, 0.0])), 0.0, rng))
    refined = levenberg_marquardt(small.source, start, small.scale)
    assert refined.trace.loss < 1e-24


def test_steps_run_out_honestly(small, rng):
    start = full_point(perturbed(small.truth, 0.5, rng))
    refined = levenberg_marquardt(small.source, start, small.scale, effort=Effort(max_steps=1))
    assert refined.trace.reason == "steps" and not refined.trace.finished
    assert "stopped: steps" in str(refined.trace)


def test_interrupt_returns_the_best_so_far(small, rng):
    def interrupt(event):
        if event.done == 2:
            raise KeyboardInterrupt

    start = full_point(perturbed(small.truth, 0.5, rng))
    refined = best_when_interrupted(levenberg_marquardt, small.source, start, small.scale, progress=interrupt)
    assert refined.trace.interrupted and not refined.trace.finished
    assert len(refined.trace.rows) == 3 and refined.loss == pytest.approx(refined.trace.loss * small.scale, rel=1e-15)


def test_step_activation_is_refused(rng):
    problem = planted(3, 2, 100, rng)
    layer = lb.Layer(problem.truth.layer.weights, problem.truth.layer.biases, lb.step)
    with pytest.raises(InvalidInput, match="derivative zero"):
        levenberg_marquardt(problem.source, full_point(lb.Network(layer, problem.truth.readout)), problem.scale)


def test_overflowing_start_is_refused(rng):
    problem = planted(3, 2, 100, rng, activation=lb.power_relu(3))
    layer = lb.Layer(1e200 * problem.truth.layer.weights, None, lb.power_relu(3))
    with np.errstate(all="ignore"), pytest.raises(InvalidInput, match="overflows"):
        levenberg_marquardt(problem.source, full_point(lb.Network(layer, problem.truth.readout)), problem.scale)


def test_data_that_turn_bad_midway_are_a_sentence(rng):
    """A file that changes under the solver: the pass that meets the NaN says so."""
    problem = planted(4, 2, 300, rng)
    x, y = (np.array(part) for part in problem.source.read(0, 300))
    source = lb.Samples(x, y, law=problem.source.law)

    def spoil(event):
        y[7] = np.nan

    with pytest.raises(InvalidInput, match="no longer finite"):
        levenberg_marquardt(source, full_point(perturbed(problem.truth, 0.5, rng)), problem.scale, progress=spoil)


def test_excess_error_of_ten_by_ten_is_the_theoretical_one(seed):
    """Noise 0.2, 10 inputs, units and outputs, n = 10,000: sigma² (kd + kl - k) / (n l). Sd of a run is sqrt(2/190) = 10 %."""
    ratios = []
    for replicate in range(8):
        rng = np.random.default_rng([seed, replicate])
        W, A = (np.linalg.qr(rng.standard_normal((10, 10)))[0] for _ in range(2))
        truth = lb.Network(lb.Layer(W, None, lb.relu), A.T)
        x = rng.standard_normal((10_000, 10))
        clean = truth(x)
        source = lb.Samples(x, clean + 0.2 * rng.standard_normal(clean.shape), law=lb.Gaussian(0, 1))
        start = point_of(truth, biases=False, offset=False, linear=False)
        refined = levenberg_marquardt(source, start, total_variation(source))
        excess = np.mean((network_of(refined.point, vector=False)(x) - clean) ** 2)
        ratios.append(excess / (0.2**2 * 190 / (10_000 * 10)))
    assert abs(np.mean(ratios) - 1.0) < 0.15  # 4 sigma: 4 · 0.103 / sqrt(8) = 0.146


@pytest.mark.parametrize("size", [1.0, 1e45])
def test_a_residual_that_is_explained_but_for_rounding_is_not_known_to_vanish(size, rng):
    """Readouts had grown to 1e60, each making up for the rounding of the last; less than nothing was left of a residual of 1e45,
    and that passed for an exact fit (`wrong activation` 401163 of the hostile cases)."""
    point = full_point(planted(2, 2, 50, rng).truth)
    columns = rng.standard_normal((50, 3))
    left = size * columns @ rng.standard_normal((3, 1)) * (1.0 + 1e-15 * rng.standard_normal((50, 1)))
    fit = Fit(columns.T @ columns, columns.T @ left * (1.0 + 1e-15), np.asarray(np.sum(left**2)), np.array(50.0))
    loss = project(point, fit)[1]
    assert 1e-16 * size**2 < loss < 1e-10 * size**2

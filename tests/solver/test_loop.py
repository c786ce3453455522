"""The damped loop on functions of one or two numbers: what it takes, what it refuses, why it stops, what it counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from interrupted_fits import best_when_interrupted

from laybare.errors import InvalidInput
from laybare.solver import Effort, FitScale, Iterate, Trial, damped_descent
from laybare.solver.loop import next_damping


@dataclass
class Curve:
    """Gauss-Newton on residuals r(t) with slopes J(t); counts what it is asked."""

    residuals: object
    slopes: object
    passes: ClassVar[int] = 2
    asked: list[str] = field(default_factory=list)

    def evaluate(self, point):
        self.asked.append("judge")
        with np.errstate(over="ignore", invalid="ignore"):
            return Iterate(point, float(np.sum(self.residuals(point) ** 2)), None)

    def system(self, here):
        self.asked.append("system")
        r, J = self.residuals(here.point), self.slopes(here.point)
        return here.point, J.T @ J, -J.T @ r

    def trial(self, system, damping):
        point, H, g = system
        delta = np.linalg.solve(H + damping * np.diag(np.diag(H)), g)
        return Trial(point + delta, float(delta @ (2 * g - H @ delta)), float(np.abs(delta).max()), 3)


def rosenbrock():
    return Curve(lambda t: np.array([10 * (t[1] - t[0] ** 2), 1 - t[0]]), lambda t: np.array([[-20 * t[0], 10], [-1, 0]]))


def noisy_line(rng, n=50):
    x, y = rng.standard_normal((n, 2)), rng.standard_normal(n)
    return Curve(lambda t: x @ t - y, lambda t: x), np.linalg.lstsq(x, y)[0]


def test_a_curved_valley_is_followed_to_its_end():
    end = damped_descent(rosenbrock(), np.array([-1.2, 1.0]), FitScale(1.0))
    assert end.point == pytest.approx([1.0, 1.0], abs=1e-14)
    assert end.trace.reason == "floor"
    assert all(b.loss < a.loss for a, b in pairwise(end.trace.rows))


def test_passes_are_counted():
    rule = rosenbrock()
    end = damped_descent(rule, np.array([-1.2, 1.0]), FitScale(1.0, rows=100, passes=5))
    judged, systems = rule.asked.count("judge"), rule.asked.count("system")
    assert end.trace.samples == 100 * (5 + judged + 2 * systems + 3 * (judged - 1))
    assert systems == len(end.trace.rows) - 1 and judged > systems  # some trials were refused


def test_noise_settles_where_a_step_promises_little(rng):
    rule, best = noisy_line(rng)
    end = damped_descent(rule, np.array([3.0, -4.0]), FitScale(1.0, overfit=2 / 48))
    assert end.trace.reason == "settled" and end.trace.finished
    J = rule.slopes(None)
    off, variance = end.point - best, end.loss / 48
    assert off @ J.T @ J @ off < 1e-3 * variance
    endless = Effort(gain_tol=0.0, kink_tol=0.0)
    assert damped_descent(rule, np.array([3.0, -4.0]), FitScale(1.0), effort=endless).trace.reason in ("flat", "stalled")


def test_the_last_step_is_taken_if_it_helps():
    """A promise that is small, here by decree, ends the run; what it brings is kept."""
    end = damped_descent(rosenbrock(), np.array([-1.2, 1.0]), FitScale(1.0), effort=Effort(gain_tol=10.0))
    assert end.trace.reason == "settled" and len(end.trace.rows) == 2


def test_damped_steps_promise_little_and_do_not_settle():
    rule = Curve(lambda t: np.array([1.0 + np.abs(t[0])]), lambda t: np.array([[0.5]]))  # a wrong slope at the minimum
    assert damped_descent(rule, np.zeros(1), FitScale(1.0)).trace.reason == "flat"


def test_two_steps_that_bring_little_settle():
    """A loss that is rough: steps keep promising and do not keep it."""
    rule = Curve(lambda t: np.array([2.0 - 1e-5 * np.tanh(t[0])]), lambda t: np.array([[-10.0]]))
    end = damped_descent(rule, np.zeros(1), FitScale(1.0))
    assert end.trace.reason == "settled" and len(end.trace.rows) == 3


def test_a_start_that_is_exact_is_left_alone():
    rule = rosenbrock()
    end = damped_descent(rule, np.array([1.0, 1.0 + 1e-17]), FitScale(1.0))
    assert end.trace.reason == "floor" and rule.asked == ["judge"]


def test_slow_progress_is_a_stall():
    rule = Curve(lambda t: np.array([2.0 - 0.1 * np.tanh(t[0])]), lambda t: np.array([[-10.0]]))
    end = damped_descent(rule, np.zeros(1), FitScale(1.0))
    assert end.trace.reason == "stalled" and len(end.trace.rows) == 11


def test_non_finite_trials_are_refused_and_non_finite_data_are_a_sentence():
    wall = Curve(lambda t: np.array([t[0] - 3.0 if t[0] < 1.0 else np.nan]), lambda t: np.array([[1.0]]))
    end = damped_descent(wall, np.zeros(1), FitScale(1.0))
    assert 0.5 < end.point[0] < 1.0
    with pytest.raises(InvalidInput, match="squared error is nan"):
        damped_descent(wall, np.array([2.0]), FitScale(1.0))
    answers = iter([1.0])
    spoiled = Curve(lambda t: np.array([next(answers, np.nan)]), lambda t: np.array([[1.0]]))
    spoiled.system = lambda here: (here.point, np.eye(1), np.ones(1))
    with pytest.raises(InvalidInput, match="no longer finite"):
        damped_descent(spoiled, np.zeros(1), FitScale(1.0))


def test_an_interrupt_keeps_the_best_so_far():
    def stop(event):
        assert event.detail.endswith("3 products")
        if event.done == 3:
            raise KeyboardInterrupt

    end = best_when_interrupted(damped_descent, rosenbrock(), np.array([-1.2, 1.0]), FitScale(1.0), progress=stop)
    assert end.trace.interrupted and len(end.trace.rows) == 4
    assert end.loss == end.trace.loss


def test_damping_follows_the_gain():
    floor = Effort().damping_floor
    assert next_damping(1.0, 1.0, 1.0, floor) == pytest.approx(0.1)  # as predicted: ten times less, never lower at once
    assert next_damping(1.0, 0.5, 1.0, floor) == pytest.approx(1.0)
    assert next_damping(1.0, 0.0, 1.0, floor) == pytest.approx(2.0)
    assert next_damping(floor, 1.0, 1.0, floor) == floor


def test_fields_of_version_0_2_are_still_understood():
    with pytest.deprecated_call():
        effort = Effort(settled=0.5, rough=0.25)
    assert (effort.gain_tol, effort.kink_tol) == (0.5, 0.25)
    with pytest.deprecated_call():
        assert effort.settled == 0.5

"""Algorithm 2 as printed: with and without fresh samples for every step, with the printed step and with a given one."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.landscape.first_order import Descent
from laybare.methods.printed.zhong_2017 import DescentRun, PrintedDescent, PrintedMoments
from laybare.methods.tensor_init import RefinedMoments
from laybare.theory.guarantees import conditioning
from laybare.theory.risk_curvature import expected_hessian

RELU2 = lb.power_relu(2)


def planted(dim: int, width: int, n: int, rng: np.random.Generator, condition: float = 1.5) -> tuple[lb.Network, lb.Samples]:
    truth = lb.random_network(dim, width, RELU2, biases=0, condition=condition, rng=rng)
    x = rng.standard_normal((n, dim))
    return truth, lb.Samples(x, truth(x), law=lb.Gaussian(0, 1))


def descend(source: lb.Samples, width: int, descent: Descent, rng: np.random.Generator, **options: Any) -> DescentRun:
    """Algorithm 2 from all samples, with the step of `descent` unless `printed_step` is given."""
    ways = {"route": PrintedMoments(partition=False), "printed_step": False, **options}
    return PrintedDescent(descent=descent, **ways).run(source, width, RELU2, rng=rng)


def error(network: lb.Network, truth: lb.Network) -> float:
    return lb.compare(network, truth).max_error


def test_without_resampling_it_converges(rng):
    truth, source = planted(5, 3, 10_000, rng)
    found = descend(source, 3, Descent(step=0.05, max_steps=400), rng)
    assert set(np.abs(found.start.readout)) == {1.0}
    np.testing.assert_array_equal(found.network.readout, found.start.readout)
    assert error(found.network, truth) < 1e-4 < error(found.start, truth)
    assert found.trace.samples == 401 * 10_000


def test_with_resampling_every_row_is_used_once(rng):
    """T + 1 parts and one for the last loss: the start sees its part alone, every step another."""
    truth, source = planted(5, 3, 620_000, rng)
    found = descend(source, 3, Descent(step=0.05, max_steps=60, resample=True), rng)
    alone = descend(source.between(0, 10_000), 3, Descent(max_steps=1), np.random.default_rng(0))
    assert found.trace.samples == source.size - 10_000
    assert len(found.trace.rows) == 61
    assert error(found.network, truth) < 0.1 * error(found.start, truth)
    np.testing.assert_allclose(np.sort(np.abs(found.start.layer.weights @ alone.start.layer.weights.T).max(axis=1)),
                               np.sort(np.sum(alone.start.layer.weights**2, axis=1)), rtol=0.2)


def test_printed_step_is_that_of_the_theorem(rng):
    truth, source = planted(8, 5, 20_000, rng, condition=2)
    found = descend(source, 5, Descent(max_steps=200), rng, printed_step=True)
    assert found.trace.rows[0].damping == 1 / conditioning(found.start).largest_curvature
    assert error(found.network, truth) < 0.1 * error(found.start, truth)


def test_printed_step_hides_a_constant(rng):
    """k σ₁² = 6.75, but the Hessian reaches 15: a step of 1/6.75 is above 2/15, and descent keeps jumping about."""
    truth, source = planted(5, 3, 10_000, rng)
    assert expected_hessian(truth, truth).extremes.largest > 2 * conditioning(truth).largest_curvature
    found = descend(source, 3, Descent(max_steps=200), rng, printed_step=True)
    assert error(found.network, truth) > 0.01


def test_any_start_can_be_given(rng):
    truth, source = planted(6, 3, 2000, rng)
    ours = descend(source, 3, Descent(max_steps=1), rng, route=RefinedMoments())
    printed = descend(source, 3, Descent(max_steps=1), rng)
    assert error(ours.start, truth) < error(printed.start, truth)


def test_too_many_parts_are_refused(rng):
    with pytest.raises(lb.errors.TooFewSamples, match="300 samples for 1,001 parts"):
        descend(planted(5, 3, 300, rng)[1], 3, Descent(max_steps=1000, resample=True), rng)

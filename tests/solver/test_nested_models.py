"""The one comparison of nested models."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.solver.minimise import log_likelihood_gain, schwarz_penalty


def test_parameters_that_follow_noise_gain_less_than_their_penalty():
    """Least squares on noise: 200 rows, 1 or 11 columns; the gain of ten columns is about 10, the penalty 53."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = rng.standard_normal((200, 11)), rng.standard_normal(200)
        few, many = (float(np.linalg.lstsq(part, y, rcond=None)[1][0]) for part in (x[:, :1], x))
        assert 0.0 < log_likelihood_gain(200, few, many) < schwarz_penalty(10, 200)


def test_the_gain_is_twice_the_log_likelihood_ratio():
    assert log_likelihood_gain(100, 2.0, 1.0) == pytest.approx(100 * np.log(2.0))
    assert log_likelihood_gain(100, 1.0, 2.0) == pytest.approx(-100 * np.log(2.0))


def test_exact_fits_are_compared_above_the_floor_of_rounding():
    assert log_likelihood_gain(100, 1e-30, 1e-33, floor=1e-20) == pytest.approx(0.0, abs=1e-7)
    assert log_likelihood_gain(100, 1.0, 0.0, floor=1e-20) > schwarz_penalty(20, 100)
    assert np.isfinite(log_likelihood_gain(100, 1.0, 0.0))

"""Losses: scores are derivatives of deviances, information their mean curvature, links each other's inverse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.errors import InvalidInput
from laybare.source.losses import LOSSES, Loss, as_loss

STEP = 1e-6


def outputs_and_labels(name):
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(50, 2))
    y = rng.poisson(np.exp(eta)) if name == "poisson" else rng.integers(0, 2, size=eta.shape) if name == "bernoulli" else (
        eta + rng.standard_t(3, size=eta.shape))
    return eta, y.astype(float)


@pytest.mark.parametrize("name", LOSSES)
def test_score_is_minus_half_the_slope_of_the_deviance(name):
    loss, (eta, y) = Loss(name), outputs_and_labels(name)
    slope = (loss.rows(eta + STEP, y).deviance - loss.rows(eta - STEP, y).deviance) / (2 * STEP)
    assert_allclose(loss.rows(eta, y).score, -0.5 * slope, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_information_is_the_curvature(name):
    """Exactly, for canonical links and away from the corners of Huber's loss."""
    loss, (eta, y) = Loss(name), outputs_and_labels(name)
    curvature = -(loss.rows(eta + STEP, y).score - loss.rows(eta - STEP, y).score) / (2 * STEP)
    assert_allclose(loss.rows(eta, y).information, curvature, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_deviance_is_smallest_at_the_label_and_links_invert_each_other(name):
    loss, (eta, y) = Loss(name), outputs_and_labels(name)
    assert (loss.rows(eta, y).deviance >= -1e-12).all()
    assert_allclose(loss.answer(loss.mean(eta)), eta, atol=1e-9)


def test_huber_scale_is_that_of_normal_residuals():
    residual = 3.0 * np.random.default_rng(0).normal(size=20_000)
    assert abs(Loss("huber").scaled_to(residual).scale / 3.0 - 1.0) < 0.04  # sd of the median of |g|: 0.012, allow 3
    assert Loss("poisson").scaled_to(residual) == Loss("poisson")


@pytest.mark.parametrize(("name", "y"), [("poisson", [-1.0, 2.0]), ("bernoulli", [0.0, 2.0])])
def test_labels_that_cannot_be_are_refused(name, y):
    with pytest.raises(InvalidInput, match="loss is for"):
        Loss(name).check(np.array(y))


def test_unknown_losses_are_refused():
    assert as_loss("huber") == as_loss(Loss("huber"))
    with pytest.raises(InvalidInput, match="squared, huber, poisson, bernoulli"):
        as_loss("absolute")

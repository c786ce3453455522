"""Expectations of two units in their plane: closed forms, and agreement of the two ways to integrate over the radius."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.activations import Activation, erf, gelu, power_relu, relu, sigmoid, tanh
from laybare.activations.hermite_coefficients import Factor, pair_moments

ANGLES = [0.0, 1e-6, 0.3, 1.2, np.pi / 2, 2.5, np.pi]


def of(act: Activation, scale: float = 1.0) -> Factor:
    return Factor(lambda t: act(scale * t), act.degree, scale)


@pytest.mark.parametrize("angle", ANGLES)
def test_relu_is_the_arc_cosine_kernel(angle):
    """E relu(u) relu(v) = (sin θ + (π - θ) cos θ)/2π; E[u>0, v>0] = (π - θ)/2π (Cho and Saul 2009)."""
    wanted = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    assert_allclose(pair_moments(of(relu), of(relu), np.cos(angle)).mean, wanted, atol=1e-14)
    steps = Factor(relu.derivative, 0.0, 1.0)
    assert_allclose(pair_moments(steps, steps, np.cos(angle)).mean, (np.pi - angle) / (2 * np.pi), atol=1e-8)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("angle", ANGLES)
def test_erf_is_an_arcsine(angle, scale):
    """E erf(su) erf(sv) = 2/π arcsin(2s² cos θ/(1 + 2s²)) (Williams 1998)."""
    wanted = 2 / np.pi * np.arcsin(2 * scale**2 * np.cos(angle) / (1 + 2 * scale**2))
    assert_allclose(pair_moments(of(erf, scale), of(erf, scale), np.cos(angle)).mean, wanted, atol=1e-13)


@pytest.mark.parametrize("act", [relu, power_relu(2), power_relu(3), power_relu(1.5)], ids=str)
def test_radius_in_closed_form_and_by_nodes_agree(act):
    nodes = of(act)._replace(degree=None)
    for exact, summed in zip(pair_moments(of(act), of(act), 0.4), pair_moments(nodes, nodes, 0.4), strict=True):
        assert_allclose(summed, exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("act", [tanh, sigmoid, gelu, relu], ids=str)
def test_moments_of_one_unit_are_its_hermite_coefficients(act):
    """With a constant as the other factor: E[act z₁] = c₁, E[act (z₁² - 1)] = c₂, and nothing along z₂."""
    found = pair_moments(of(act, 1.3), Factor(np.ones_like, 0.0, 1.0), 0.2)
    c = [float(act.hermite(j, 1.3)) for j in range(3)]
    assert_allclose([found.mean, *found.first, *found.second.ravel()], [c[0], c[1], 0, c[2] + c[0], 0, 0, c[0]], atol=1e-13)


def test_moments_turn_with_the_plane():
    """Exchanging the two units reflects the plane: E[FG zzᵀ] in the other basis."""
    c = 0.35
    s = np.sqrt(1 - c * c)
    one, two = pair_moments(of(tanh, 2.0), of(gelu), c), pair_moments(of(gelu), of(tanh, 2.0), c)
    mirror = np.array([[c, s], [s, -c]])
    assert_allclose(one.first, mirror @ two.first, atol=1e-13)
    assert_allclose(one.second, mirror @ two.second @ mirror, atol=1e-13)

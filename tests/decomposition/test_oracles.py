"""Agreement with other people's code, where theirs applies: pyRiemann on positive definite stacks, TensorLy on CP."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest
from decomposition import planted

from laybare.decomposition import AlternatingLeastSquares, GaussNewton, Jennrich, directions_of, ffdiag, tensor_power, uwedge


def _import(*names):
    """The first module that exists; importing it may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names[:-1]:
            try:
                return importlib.import_module(name)
            except ImportError:
                continue
        return pytest.importorskip(names[-1])


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_uwedge_agrees_with_pyriemann_on_positive_definite_slices(noise, rng):
    ajd = _import("pyriemann.geometry.ajd", "pyriemann.utils.ajd")
    u = planted.directions(6, 6, 3, rng)
    slices = planted.stack(rng.uniform(0.2, 2.0, (10, 6)), u)
    half = rng.standard_normal((10, 6, 6))
    slices += noise * half @ half.transpose(0, 2, 1) / 6
    assert np.linalg.eigvalsh(slices).min() > 0
    theirs = ajd.uwedge(slices, eps=1e-30, n_iter_max=60) if noise == 0 else _converged(ajd.uwedge, slices)
    for ours in (uwedge, ffdiag):
        assert planted.error(directions_of(ours(slices, np.eye(6)).rows), directions_of(theirs[0])) < 1e-8


def _converged(their_uwedge, slices):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when its own tolerance is below rounding
        return their_uwedge(slices, eps=0.0, n_iter_max=60)


def test_gauss_newton_finds_the_minimum_of_tensorly_als(rng):
    """Unsymmetric alternating least squares on a noisy symmetric tensor ends at the symmetric least-squares fit."""
    decomposition = _import("tensorly.decomposition")
    u, c = planted.directions(4, 4, 2, rng), planted.coefficients(4, rng)
    tensor = planted.tensor(c, u) + 0.02 * planted.symmetric_noise((4, 4, 4), rng)
    factors = [u.T * np.cbrt(c)] * 3
    weights, found = decomposition.parafac(tensor, rank=4, init=(np.ones(4), factors), n_iter_max=5000, tol=1e-15)
    theirs = np.linalg.norm(tensor - np.einsum("r,ar,br,cr->abc", weights, *found)) / np.linalg.norm(tensor)
    for ours in (GaussNewton(start=Jennrich()), AlternatingLeastSquares(start=Jennrich())):
        parts = ours(tensor, 4, rng=rng)
        assert planted.error(parts.directions, (found[0] / np.linalg.norm(found[0], axis=0)).T) < 1e-5
        assert parts.residual == pytest.approx(theirs, rel=1e-6)


def test_tensor_power_agrees_with_tensorly(rng):
    decomposition = _import("tensorly.decomposition")
    u, c = planted.directions(4, 6, 1, rng), np.array([3.0, 2.0, 1.5, 1.0])
    tensor = planted.tensor(c, u)
    np.random.seed(0)  # noqa: NPY002  (TensorLy draws from the global generator)
    weights, factor = decomposition.symmetric_parafac_power_iteration(tensor, rank=4, n_repeat=20, n_iteration=30)
    parts = tensor_power(tensor, 4, rng=rng)
    assert planted.error(parts.directions, (factor / np.linalg.norm(factor, axis=0)).T) < 1e-6
    np.testing.assert_allclose(np.sort(parts.coefficients), np.sort(weights), rtol=1e-6)

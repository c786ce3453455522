"""Distinguishing matrices: closed forms against averages, the factorisation of the detector, its bound, perturbations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.activations import leaky_relu
from laybare.moments import (
    augmented_matrix,
    detector,
    detector_gap_bound,
    distinguishability,
    distinguishing_matrices,
    gaussian_augmented,
    opposite_products,
    population_detector,
    svec,
)
from laybare.planted import perturb_inputs, perturb_weights, rademacher_inputs, random_unit_rows
from laybare.source import Samples


def inputs(x: np.ndarray) -> Samples:
    """A source for statistics of x alone."""
    return Samples(x, x[:, :1])


def test_averages_tend_to_the_closed_form(rng: np.random.Generator) -> None:
    """σ_min of the empirical M within 2 % at n = 400,000: its relative error was 0.004 ± 0.003 over 20 seeds."""
    W = random_unit_rows(5, 4, rng=rng)
    exact, found = gaussian_augmented(W), augmented_matrix(inputs(rng.standard_normal((400_000, 5))), W)
    assert_allclose(found, exact, atol=0.03)
    assert_allclose(distinguishability(found), distinguishability(exact), rtol=0.02)


def test_parts_of_the_closed_form(rng: np.random.Generator) -> None:
    """M without its last column is N, N - m I what the detector sees; m is -|w|²/π·… and never positive."""
    W = rng.standard_normal((4, 6))
    N = gaussian_augmented(W)
    assert_allclose(N[:, -1], svec(np.eye(6)))
    centred = N[:, :-1] - np.outer(svec(np.eye(6)), opposite_products(W))
    assert_allclose(centred, svec(distinguishing_matrices(W)).T, atol=1e-13)
    assert (opposite_products(W) <= 0).all()
    assert_allclose(opposite_products(np.array([[2.0, 0.0], [0.0, 3.0]])), -6 / np.pi)  # φ = π/2


@pytest.mark.parametrize("slope", [0.0, 0.3, -0.5])
def test_factorisation_of_the_detector(slope: float, rng: np.random.Generator) -> None:
    """T = (1-a)² M B C on finite symmetric points, to rounding, and its smallest singular value respects the bound."""
    half = rng.standard_normal((50, 4))
    x = np.concatenate([half, -half])
    W, A = rng.standard_normal((3, 4)), rng.standard_normal((3, 3))
    T = detector(Samples(x, leaky_relu(slope)(x @ W.T) @ A.T), A @ W, slope=slope)
    M = augmented_matrix(inputs(x), W)
    i, j = np.triu_indices(3, 1)
    t = x @ W.T
    B = np.vstack([np.eye(3), -np.minimum(t[:, i] * t[:, j], 0.0).mean(axis=0)])
    C = np.stack([svec(0.5 * (np.outer(A[:, p], A[:, q]) + np.outer(A[:, q], A[:, p]))) for p, q in zip(i, j, strict=True)])
    assert_allclose(T, (1 - slope) ** 2 * M @ B @ C, atol=1e-12 * (1 + np.abs(T).max()))
    assert np.linalg.svd(T, compute_uv=False)[2] >= detector_gap_bound(M, A, slope=slope)


@pytest.mark.parametrize("seed", range(20))
def test_bound_holds_in_the_population(seed: int) -> None:
    rng = np.random.default_rng(seed)
    W, A = random_unit_rows(4, 3, rng=rng), rng.standard_normal((3, 3))
    assert np.linalg.svd(population_detector(W, A), compute_uv=False)[2] >= detector_gap_bound(gaussian_augmented(W), A)


def test_printed_lemma_14_needs_the_root_of_two() -> None:
    """Its last factor, for a rotation by 45° (σ_min(A) = 1): |CF| = 1/√2, where the proof says at least 1."""
    A = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    CF = np.array([[A[0, 0] * A[0, 1], A[0, 0] * A[1, 1] + A[1, 0] * A[0, 1], A[1, 0] * A[1, 1]]])  # (AᵀUA)₁₂ of vec*(U)
    assert_allclose(np.linalg.norm(CF), 1 / np.sqrt(2))


def test_row_space_is_enough(rng: np.random.Generator) -> None:
    W = random_unit_rows(8, 3, rng=rng)
    rows = np.linalg.qr(W.T)[0].T
    M = augmented_matrix(inputs(rng.standard_normal((2000, 8))), W, rows)
    assert M.shape == (6, 4)
    assert distinguishability(M) > 0.01


def test_pairs_that_never_differ_are_seen(rng: np.random.Generator) -> None:
    """Parallel weights, and weights that the inputs never separate: zero."""
    W = random_unit_rows(4, 3, rng=rng)
    W[1] = 2 * W[0]
    assert distinguishability(gaussian_augmented(W)) < 1e-12
    x = rng.standard_normal((500, 4))
    assert distinguishability(augmented_matrix(inputs(x), W)) == 0.0


def test_smoothed_weights_become_distinguishable() -> None:
    """Equation 18: parallel weights plus ρN; σ_min of M, columns as they are, grows with ρ, in all of 10 seeds."""
    for seed in range(10):
        W = np.tile(random_unit_rows(8, 1, rng=seed), (3, 1))
        matrices = [gaussian_augmented(perturb_weights(W, rho, rng=seed)) for rho in (0.03, 0.1, 0.3)]
        sizes = [np.linalg.svd(matrix, compute_uv=False)[-1] for matrix in matrices]
        assert 0 < sizes[0] < sizes[1] < sizes[2]


def test_perturbed_inputs_mix_the_matrices(rng: np.random.Generator) -> None:
    """M of the (Q, λ)-perturbed law is (1-λ)M + λM_Q; with signs as inputs, degenerate units become distinguishable."""
    W, Q = np.array([[1.0, 0.2, 0.0], [1.0, -0.2, 0.0]]), rng.standard_normal((3, 3))
    x = rademacher_inputs(400_000, 3, rng=rng)
    plain = augmented_matrix(inputs(x), W)
    assert distinguishability(plain) == 0.0  # signs never separate the two
    mixed = augmented_matrix(inputs(perturb_inputs(x, Q, 0.3, rng=rng)), W)
    gaussian = augmented_matrix(inputs(rng.standard_normal((400_000, 3)) @ Q.T), W)
    assert_allclose(mixed, 0.7 * plain + 0.3 * gaussian, atol=0.02 * np.abs(gaussian).max())
    assert distinguishability(mixed) > 0.01

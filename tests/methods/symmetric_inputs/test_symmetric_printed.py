"""The printed algorithms: exact on symmetric point sets, rough from samples, as the paper says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.decomposition import best_of, joint_diagonalisation
from laybare.methods.printed.ge_2019 import (
    PracticalRoute,
    PrintedNeurons,
    leading_outputs,
    null_span,
    printed_detector,
    single_unit,
    solve_single_units,
)
from laybare.methods.start import AssumptionName
from laybare.methods.symmetric_neurons import Frame, assemble_network, neurons_from_detector, output_frame, polish_neurons
from laybare.moments import linear_product, population_detector
from laybare.networks import mean_squared_error, normalised_squared_errors
from laybare.planted import orthonormal_weights, random_unit_rows
from laybare.source import MixedOutputs
from laybare.studies.ge import Square


def symmetric_points(truth: lb.Network, rng: np.random.Generator, pairs: int = 80) -> lb.Samples:
    half = rng.standard_normal((pairs, truth.dim))
    x = np.concatenate([half, -half])
    return lb.Samples(x, truth(x), law=lb.Symmetric())


def orthonormal(k: int, rng: np.random.Generator) -> lb.Network:
    return lb.Network(lb.Layer(orthonormal_weights(k, k, rng=rng)), orthonormal_weights(k, k, rng=rng))


def test_algorithm_1(rng: np.random.Generator) -> None:
    truth = lb.Network(lb.Layer(rng.standard_normal((1, 6))), np.ones(1))
    assert_allclose(single_unit(symmetric_points(truth, rng)), truth.layer.weights, atol=1e-12)


@pytest.mark.parametrize("noise", [False, True], ids=["algorithm 2", "algorithm 3"])
def test_exact_moments_give_the_network(noise: bool, rng: np.random.Generator) -> None:
    """Theorems 4 and 5 on a finite symmetric set: nothing is lost but the digits of one pencil."""
    truth = lb.random_network(5, 4, lb.relu, 4, biases=0, rng=rng)
    found = PrintedNeurons(noise=noise, halves=False)(symmetric_points(truth, rng), 4, lb.relu, rng=rng)
    assert lb.compare(found.network, truth).max_error < 1e-6
    assert found.later.gap > 1e10


def test_algorithm_4(rng: np.random.Generator) -> None:
    """More outputs than units: P spans the readouts."""
    truth = lb.random_network(5, 3, lb.relu, 6, biases=0, rng=rng)
    source = symmetric_points(truth, rng)
    P = leading_outputs(source, 3)
    assert_allclose(P @ P.T @ truth.readout.T, truth.readout.T, atol=1e-12)
    assert lb.compare(PrintedNeurons(halves=False)(source, 3, lb.relu, rng=rng).network, truth).max_error < 1e-6


def test_noise_term_removes_the_bias(rng: np.random.Generator) -> None:
    """Every point with noise +s and -s: Algorithm 3 stays exact, Algorithm 2 is off."""
    truth = lb.random_network(5, 4, lb.relu, 4, biases=0, rng=rng)
    x = symmetric_points(truth, rng).x
    s = np.array([0.5, -1.0, 0.3, 0.8])
    noisy = lb.Samples(np.concatenate([x, x]), np.concatenate([truth(x) + s, truth(x) - s]), law=lb.Symmetric())
    errors = [
        lb.compare(PrintedNeurons(noise=noise, halves=False)(noisy, 4, lb.relu, rng=rng).network, truth).max_error
        for noise in (False, True)]
    assert errors[1] < 1e-6 < 1e-3 < errors[0]


def test_last_steps_given_the_pure_neurons(rng: np.random.Generator) -> None:
    """2.7: whatever the signs of z, W = ZL and A = PZ⁻¹ come out."""
    truth = lb.random_network(5, 4, lb.relu, 4, biases=0, rng=rng)
    source = symmetric_points(truth, rng)
    Z = np.array([1.0, -1.0, -2.0, 0.5])[:, None] * np.linalg.inv(truth.readout.T)
    assert lb.compare(solve_single_units(source, np.eye(4), Z), truth).max_error < 1e-12
    product = linear_product(source).product
    ours = assemble_network(source, product, Frame(np.eye(4), np.eye(4)), Z, lb.relu, slope=0.0)
    assert lb.compare(ours, truth).max_error < 1e-11


def test_span_and_its_diagonalisers(rng: np.random.Generator) -> None:
    """2.6: the null space is the span of zzᵀ; one pencil, joint diagonalisation and CP all find z in it."""
    W, A = random_unit_rows(5, 4, rng=rng), rng.standard_normal((4, 4))
    Z = np.linalg.inv(A)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    T = population_detector(W, A)
    found = neurons_from_detector(T, joint_diagonalisation, rng=rng)
    assert_allclose(np.abs(found.z @ Z.T).max(axis=0), 1.0, atol=1e-9)
    assert found.gap > 1e8
    X, Y = (np.einsum("i,ia,ib->ab", rng.standard_normal(4), Z, Z) for _ in range(2))
    vectors = np.real(np.linalg.eig(X @ np.linalg.inv(Y))[1])
    assert_allclose(np.abs(vectors.T @ Z.T).max(axis=0), 1.0, atol=1e-8)


def test_polish_mends_and_never_merges(rng: np.random.Generator) -> None:
    """Rows a little off come back; two rows that would fall into one place stay where they were."""
    W, A = random_unit_rows(5, 4, rng=rng), np.eye(4) + 0.2 * rng.standard_normal((4, 4))
    Z = np.linalg.inv(A)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    T = population_detector(W, A)
    off = Z + 0.05 * rng.standard_normal((4, 4))
    off /= np.linalg.norm(off, axis=1, keepdims=True)
    assert_allclose(np.abs(np.sum(polish_neurons(T, off) * Z, axis=1)), 1.0, atol=1e-10)
    aside = np.linalg.qr(Z[:2].T)[0][:, 1]
    twins = np.vstack([Z[0] + 0.3 * aside, Z[0] - 0.3 * aside, Z[2:]])
    twins /= np.linalg.norm(twins, axis=1, keepdims=True)
    assert_allclose(polish_neurons(T, twins)[:2], twins[:2])


def test_frame_whitens_the_even_part(rng: np.random.Generator) -> None:
    """Condition 1e5 of A and seven outputs: in the frame the readouts of four units are nearly orthogonal."""
    W = orthonormal_weights(6, 4, rng=rng)
    A = orthonormal_weights(7, 4, rng=rng).T * np.array([1.0, 1e-2, 1e-3, 1e-5])
    x = rng.standard_normal((20_000, 6))
    odd = linear_product(lb.Samples(x, np.maximum(x @ W.T, 0.0) @ A.T))
    frame = output_frame(odd.product, odd.residual, 4)
    assert_allclose(frame.reduce.T @ frame.lift, np.eye(4), atol=1e-8)
    assert np.linalg.cond(frame.reduce.T @ A) < 1.1
    assert_allclose(frame.lift @ (frame.reduce.T @ A), A, atol=1e-8)


def test_literal_from_samples_is_rough_and_ours_is_not(rng: np.random.Generator) -> None:
    """10x10, n = 10,000. Printed (no halves) errA: 0.07 to 0.6 in the mean of five, heavy tails; chance gives about 20."""
    truth = orthonormal(10, rng)
    x = rng.standard_normal((10_000, 10))
    source = lb.Samples(x, truth(x), law=lb.Symmetric())
    literal = lb.recover(source, lb.SymmetricInputs.literal(noise=False, halves=False), 10, rng=rng)
    assert 1e-4 < normalised_squared_errors(literal.start, truth).readout < 8
    assert lb.compare(lb.refine(source, literal.network).network, truth).max_error < 1e-10


def test_practical_variant(rng: np.random.Generator) -> None:
    """5x5, n = 5000: errA 0.006 ± 0.004 over 20 seeds; W after gradient descent is better than before."""
    truth = orthonormal(5, rng)
    x = rng.standard_normal((5000, 5))
    source = lb.Samples(x, truth(x), law=lb.Symmetric())
    found = PracticalRoute(max_steps=100)(source, 5, lb.relu, rng=rng).network
    before = PracticalRoute(max_steps=1, decompose=best_of(3, joint_diagonalisation))(source, 5, lb.relu, rng=rng).network
    errors = normalised_squared_errors(found, truth)
    assert errors.readout < 0.05 and errors.weights < 0.05
    assert normalised_squared_errors(before, truth).readout < 0.05


def test_practical_descent_ends_where_the_loss_falls_no_more() -> None:
    """Condition 10 of W: after 300 steps the outputs are nearly twice as far off as after the 1,182 that it takes."""
    rng = np.random.default_rng(3)
    problem = Square(4, 3000, mixture=True, w=10.0, fresh=2000).draw(rng)
    source = lb.Samples(problem.x, problem.truth(problem.x), law=lb.Symmetric())
    ends = [PracticalRoute(max_steps=most, decompose=joint_diagonalisation)(source, 4, lb.relu, rng=np.random.default_rng(0))
            for most in (20_000, 300)]
    whole, early = (mean_squared_error(end.network(problem.fresh), problem.truth(problem.fresh)) for end in ends)
    assert early > 1.5 * whole
    (claim,) = (claim for claim in ends[0].claims if claim.name == AssumptionName.DESCENT_STEPS)
    assert claim.passed and 500 < claim.value < 20_000 and "the loss falls no more" in claim.explanation
    assert not any(claim.passed for claim in ends[1].claims if claim.name == AssumptionName.DESCENT_STEPS)


def test_halves_are_disjoint(rng: np.random.Generator) -> None:
    """Algorithm 3: T from the first half, signs and V from the second. Labels of the second half negated turn V and A over."""
    truth = orthonormal(3, rng)
    x = symmetric_points(truth, rng).x
    y = truth(x)
    source = lb.Samples(np.concatenate([x, x]), np.concatenate([y, -y]), law=lb.Symmetric())
    found = PrintedNeurons()(source, 3, lb.relu, rng=rng).network
    negated = lb.Network(truth.layer, -truth.readout)
    assert lb.compare(found, negated).max_error < 1e-6


def test_printed_detector_in_its_own_coordinates(rng: np.random.Generator) -> None:
    """T vec*(uuᵀ) = f(u), and the span of its last singular vectors is that of zzᵀ."""
    truth = lb.random_network(4, 3, lb.relu, 3, biases=0, rng=rng)
    source = symmetric_points(truth, rng)
    x, y = source.read(0, source.size)
    u = rng.standard_normal(3)
    B = single_unit(source) / 2
    f = np.einsum("n,ni,nj->ij", 2 * (y @ u) * (x @ B.T @ u) - (y @ u) ** 2, x, x) / len(x)
    T = printed_detector(MixedOutputs(source, np.eye(3)), noise=False)
    found = T @ np.outer(u, u)[np.triu_indices(3)]
    row, column = np.triu_indices(4)
    assert_allclose(found / np.where(row == column, 1, np.sqrt(2)), f[row, column], atol=1e-11)
    span, _ = null_span(T)
    Z = np.linalg.inv(truth.readout.T)
    pure = (Z[:, :, None] * Z[:, None]).reshape(3, -1)
    rest = pure.T - span.reshape(3, -1).T @ np.linalg.lstsq(span.reshape(3, -1).T, pure.T, rcond=None)[0]
    assert np.abs(rest).max() < 1e-8


def test_printed_algorithms_are_for_relu(rng: np.random.Generator) -> None:
    truth = orthonormal(3, rng)
    for route in (PrintedNeurons(), PracticalRoute()):
        with pytest.raises(lb.errors.InvalidInput, match="printed algorithms are for ReLU"):
            route(symmetric_points(truth, rng), 3, lb.leaky_relu(0.1), rng=rng)

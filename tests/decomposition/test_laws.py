"""Laws that need no truth: turning, scaling and reordering the input of a decomposition; gauge, separation and duplicates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decomposition import planted
from numpy.testing import assert_allclose

from laybare.decomposition import (
    KCL,
    AfterWhitening,
    BestOf,
    Components,
    Diagonalisation,
    GaussNewton,
    Jennrich,
    JointDiagonalisation,
    best_of,
    deduplicate,
    definite_jacobi,
    fit_tensor_components,
    jennrich,
    joint_diagonalisation,
    joint_span,
    kcl,
    rows_for,
    separation,
    subspace_power,
    tensor_power,
)
from laybare.decomposition.components import in_canonical_form, powers, unit_rows
from laybare.decomposition.cp import draw_starts, gradient, newton_steps, power_iterations, power_steps, span_overlap
from laybare.decomposition.joint import isolating_weights, real_eigenvectors, split_plane

NOISY = {
    "joint": joint_diagonalisation,
    "no-polish": JointDiagonalisation(polish=False),
    "definite": definite_jacobi,
    "gauss-newton_steps": GaussNewton(start=definite_jacobi),
}
EXACT = {"jennrich": jennrich, "kcl": kcl, "subspace": subspace_power}


def problem(name, rng):
    u, c = planted.directions(5, 7, 2, rng), planted.coefficients(5, rng)
    noise = 0.01 if name in NOISY else 0.0
    return planted.tensor(c, u) + noise * planted.symmetric_noise((7, 7, 7), rng)


@pytest.mark.parametrize("name", [*NOISY, *EXACT])
def test_parts_turn_with_the_tensor(name, rng):
    tensor, decompose = problem(name, rng), (NOISY | EXACT)[name]
    turn = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    before = decompose(tensor, 5, rng=np.random.default_rng(1))
    after = decompose(np.einsum("abc,xa,yb,zc->xyz", tensor, turn, turn, turn, optimize=True), 5, rng=np.random.default_rng(1))
    assert planted.error(after.directions, before.directions @ turn.T) < 1e-7
    assert_allclose(after.coefficients, before.coefficients, rtol=1e-7)
    assert after.residual == pytest.approx(before.residual, abs=1e-9)


@pytest.mark.parametrize("name", [*NOISY, *EXACT])
def test_scale_goes_into_the_coefficients(name, rng):
    tensor, decompose = problem(name, rng), (NOISY | EXACT)[name]
    before = decompose(tensor, 5, rng=np.random.default_rng(1))
    after = decompose(-8.0 * tensor, 5, rng=np.random.default_rng(1))
    assert planted.error(after.directions, before.directions) < 1e-8
    assert_allclose(after.coefficients, 8.0 * before.coefficients, rtol=1e-8)
    assert after.separation == pytest.approx(before.separation, rel=1e-6)


@pytest.mark.parametrize("name", ["joint", "no-polish", "definite"])
def test_order_of_slices_does_not_matter(name, rng):
    slices = planted.stack(rng.standard_normal((9, 5)), planted.directions(5, 6, 2, rng))
    slices += 0.01 * planted.symmetric_noise(slices.shape, rng, 1)
    before = NOISY[name](slices, 5, rng=np.random.default_rng(1))
    after = NOISY[name](rng.permutation(slices), 5, rng=np.random.default_rng(1))
    assert planted.error(after.directions, before.directions) < 1e-8


def test_residual_is_the_relative_misfit(rng):
    tensor = problem("joint", rng)
    parts = joint_diagonalisation(tensor, 5, rng=rng)
    misfit = np.linalg.norm(tensor - planted.rank_one_sum(parts))
    assert parts.residual == pytest.approx(misfit / np.linalg.norm(tensor), rel=1e-9)


def test_gauge(rng):
    u = planted.directions(3, 4, 2, rng)
    odd = in_canonical_form(Components(np.array([1.0, -3.0, 2.0]), u, 0.0, 1.0, 3))
    even = in_canonical_form(Components(np.array([1.0, -3.0, 2.0]), -u, 0.0, 1.0, 4))
    assert_allclose(odd.coefficients, [3.0, 2.0, 1.0])
    assert_allclose(odd.directions[0], -u[1])
    assert_allclose(even.coefficients, [-3.0, 2.0, 1.0])
    assert all(row[np.argmax(np.abs(row))] > 0 for row in even.directions)
    assert_allclose(planted.rank_one_sum(odd), planted.tensor(np.array([1.0, -3.0, 2.0]), u), atol=1e-14)
    assert_allclose(planted.rank_one_sum(even, 2), planted.tensor(np.array([1.0, -3.0, 2.0]), u, 2), atol=1e-14)


def test_separation_by_hand():
    angle = 1e-5
    u = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    assert separation(np.eye(2), np.eye(2)) == 1.0
    assert separation(np.eye(2), u.T) == pytest.approx(np.sin(angle), rel=1e-9)  # nearly parallel loadings
    assert separation(u, np.eye(2)) == pytest.approx(np.sqrt(1 - np.cos(angle)), rel=1e-6)  # nearly parallel directions
    assert separation(np.eye(2), np.array([[1.0, 0.0], [0.0, 0.0]])) == 0.0
    assert separation(np.ones((1, 1)), np.ones((1, 1))) == 1.0
    overcomplete = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0] / np.sqrt(2)])
    assert separation(overcomplete, np.eye(3)) == 0.0
    assert separation(overcomplete, np.eye(3), 2) > 0.1


def test_separation_falls_as_parts_approach(rng):
    values = []
    for cosine in (0.0, 0.9, 0.99):
        u = np.array([[1.0, 0.0, 0.0], [cosine, np.sqrt(1 - cosine**2), 0.0], [0.0, 0.0, 1.0]])
        values.append(joint_diagonalisation(planted.tensor(np.ones(3), u), 3, rng=rng).separation)
    assert values[0] == pytest.approx(1.0)
    assert values[0] > 2 * values[1] > 4 * values[2]


def test_duplicates_keep_the_best(rng):
    u = np.array([[1.0, 0.0], [-0.999, np.sqrt(1 - 0.999**2)], [0.0, 1.0]])
    assert deduplicate(u, np.array([1.0, 2.0, 0.5])).tolist() == [1, 2]
    assert deduplicate(u, np.array([2.0, 1.0, 3.0])).tolist() == [2, 0]
    assert deduplicate(u, np.array([3.0, 2.0, 1.0]), cosine=0.9999).tolist() == [0, 1, 2]


def test_best_of_keeps_the_smallest_residual(rng):
    tensor = planted.symmetric_noise((6, 6, 6), rng)
    single = [Jennrich.literal()(tensor, 6, rng=generator) for generator in [np.random.default_rng(3)] for _ in range(8)]
    best = best_of(8, Jennrich.literal())(tensor, 6, rng=np.random.default_rng(3))
    assert best.residual == min(parts.residual for parts in single)
    assert best.residual < max(parts.residual for parts in single)  # there was a choice


@pytest.mark.parametrize("settled", [True, False])
def test_best_of_gives_tries_that_did_not_come_to_rest_longer(settled, rng):
    """The same starts again with more rounds, if none of them converged."""
    tensor = planted.symmetric_noise((4, 4, 4), rng)
    short = replace(Jennrich.literal()(tensor, 4, rng=rng), residual=0.5, converged=settled)
    drawn: list[float] = []

    def tried(tensor, rank, *, rng):
        drawn.append(rng.random())
        return short

    def longer(tensor, rank, *, rng):
        assert rng.random() in drawn
        return replace(short, residual=0.1, converged=True)

    assert BestOf(3, tried, longer)(tensor, 4, rng=rng).residual == (0.5 if settled else 0.1)


def test_complex_pairs_give_two_directions(rng):
    """A rotation has the eigenvectors (1, ±i)/√2: two real directions, not one twice."""
    values, vectors = np.linalg.eig(np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 5.0]]))
    rows = real_eigenvectors(values, vectors, None)
    assert np.linalg.cond(rows) < 1.01


def test_complex_pairs_are_resolved_by_the_other_slices(rng):
    """Planted parts inside the plane of a complex pair come back exactly, because all slices agree on them."""
    u = planted.directions(3, 3, 3, rng)
    slices = planted.stack(rng.standard_normal((4, 3)), u)
    mixing = np.array([[1.0, 1.0j, 0.0], [1.0, -1.0j, 0.0], [0.0, 0.0, 1.0]]).T / np.sqrt(2)
    rows = real_eigenvectors(np.array([1j, -1j, 2.0]), u.T @ mixing, slices)
    assert planted.error(rows, u) < 1e-12


def test_plane_parts_by_hand(rng):
    v = np.array([[1.0, 0.3], [-0.2, 1.0]])
    slices = planted.stack(rng.standard_normal((3, 2)), v)
    assert planted.error(unit_rows(split_plane(slices).T), unit_rows(v)) < 1e-12
    contradiction = np.array([np.eye(2)[::-1], np.diag([1.0, -1.0])])  # traceless: no real pair diagonalises both
    assert_allclose(split_plane(contradiction), np.eye(2))


def test_noisy_pencils_do_turn_complex(rng):
    """The case is real: among noisy pencils some have complex pairs, and the directions stay independent."""
    u, c = planted.directions(8, 8, 3, rng), planted.coefficients(8, rng)
    tensor = planted.tensor(c, u) + 0.02 * planted.symmetric_noise((8, 8, 8), rng)
    a, b = (np.tensordot(rng.standard_normal((60, 8)), tensor, 1) for _ in range(2))
    assert np.any(np.linalg.eigvals(a @ np.linalg.inv(b)).imag > 0)
    worst = [np.linalg.cond(Jennrich.literal()(tensor, 8, rng=rng).directions) for _ in range(60)]
    assert np.isfinite(worst).all()
    assert np.median(worst) < 100


def test_power_iterations_triple_their_digits():
    """Order 4, orthogonal: the tangent of the angle to the winning part is cubed a step."""
    tensor = planted.tensor(np.array([1.0, -1.0]), np.eye(2), 4)
    start = np.array([[1.0, 0.1]]) / np.hypot(1.0, 0.1)
    after = power_iterations(tensor, start, 1)[0]
    assert abs(after[1] / after[0]) == pytest.approx(1e-3, rel=1e-9)


def test_whitened_power_and_joint_diagonalisation_agree_on_noisy_definite_input(rng):
    u = planted.directions(4, 4, 2, rng)
    second = planted.tensor(np.ones(4), u, 2)
    tensor = planted.tensor(np.ones(4), u) + 1e-5 * planted.symmetric_noise((4, 4, 4), rng)
    first = AfterWhitening(second)(tensor, 4, rng=rng).directions
    assert planted.error(first, joint_diagonalisation(tensor, 4, rng=rng).directions) < 1e-3
    assert planted.error(tensor_power(tensor, 4, rng=rng).directions, u) > 1e-2  # without whitening it is wrong


def test_two_stage_projections_single_out_one_part(rng):
    """On exact input stage 2 does not move the answer of stage 1."""
    u, c = planted.directions(5, 5, 5, rng), planted.coefficients(5, rng)
    one, two = (KCL(stages=stages)(planted.tensor(c, u), 5, rng=np.random.default_rng(2)) for stages in (1, 2))
    assert planted.error(one.directions, two.directions) < 1e-12


def test_plug_in_projections_keep_one_part_each(rng):
    weights = rng.standard_normal((9, 4))
    kept = isolating_weights(weights) @ weights
    assert_allclose(kept, np.diag(np.diag(kept)), atol=1e-12)
    u = planted.directions(4, 4, 5, rng)
    assert planted.error(isolating_weights(u.T * planted.coefficients(4, rng)), rows_for(u)) < 1e-12  # the paper's projections


def test_better_start_wins(rng):
    """Two starts, one of them wrong, and a diagonaliser that leaves them as they are: the right one is kept in either order."""
    u, c = planted.directions(4, 4, 3, rng), planted.coefficients(4, rng)

    def wrong(tensor, rank, *, rng):
        return fit_tensor_components(planted.tensor(c, u), planted.directions(rank, rank, 2, np.random.default_rng(5)))

    for starts in ((wrong, jennrich), (jennrich, wrong)):
        joint = JointDiagonalisation(
            starts=starts, polish=False, diagonalise=lambda slices, start: Diagonalisation(start, 0, 0.0))
        assert planted.error(joint(planted.tensor(c, u), 4, rng=rng).directions, u) < 1e-9


@pytest.mark.parametrize("phase", [0.3, 1.2, 2.5])
def test_phase_of_complex_eigenvectors_does_not_matter(phase, rng):
    """x ± iy are turned so that x and y are orthogonal, which leaves them as independent as they can be."""
    x, y = planted.directions(2, 2, 1, rng) * np.array([[0.9], [0.4]])
    v = np.exp(1j * phase) * (x + 1j * y)
    rows = real_eigenvectors(np.array([1j, -1j]), np.stack([v, np.conj(v)], axis=1), None)
    assert abs(rows[0] @ rows[1]) < 1e-12


def test_climbing_raises_every_start(rng):
    u = planted.directions(6, 6, 3, rng)
    span = joint_span([planted.stack(rng.standard_normal((8, 6)), u)], 6)
    starts = unit_rows(rng.standard_normal((50, 6)))
    one, many = power_steps(span, starts, 1), power_steps(span, starts, 300)
    assert np.all(span_overlap(span, one) > span_overlap(span, starts) - 1e-12)
    assert np.mean(span_overlap(span, many) > 1 - 1e-6) > 0.5
    step = 1e-6 * np.eye(6)
    slopes = np.stack([span_overlap(span, starts + e) - span_overlap(span, starts - e) for e in step], axis=1) / 2e-6
    assert_allclose(gradient(span, starts), slopes / 4, atol=1e-8)  # order 2: ∇F / 2l


@pytest.mark.parametrize("order", [2, 3])
def test_newton_squares_the_error(order, rng):
    """Around the maxima of a noisy span: at those of an exact one part of the Hessian has no effect."""
    u = planted.directions(5, 5, 2, rng)
    stack = (rng.standard_normal((7, 5)) @ powers(u, order)).reshape(7, *(5,) * order)
    stack += 0.1 * planted.symmetric_noise(stack.shape, rng, 1)
    span = joint_span([stack], 5)
    top = newton_steps(span, power_steps(span, u, 2000), 20)
    assert np.all(span_overlap(span, top) < 0.9999)
    begin = unit_rows(top + 1e-3 * rng.standard_normal(top.shape))
    errors = [np.linalg.norm(newton_steps(span, begin, steps) - top, axis=1).max() for steps in (0, 1, 2)]
    assert errors[1] < 30 * errors[0] ** 2
    assert errors[2] < 1e-9


def test_later_starts_avoid_the_parts_already_found(rng):
    """With all parts but one known, one element of the span is left: all starts are its main direction."""
    u = planted.directions(5, 5, 3, rng)
    span = joint_span([planted.stack(rng.standard_normal((7, 5)), u)], 5)
    starts = draw_starts(span, 20, u[1:], rng)
    assert_allclose(np.abs(starts @ starts.T), 1.0, atol=1e-10)


def test_literal_choices():
    assert Jennrich.literal() == Jennrich(pencils=1, resolve=False)
    assert KCL.literal().stages == 2


def test_explain_ranks_by_size(rng):
    u, c = planted.directions(4, 4, 2, rng), np.array([0.1, 3.0, -2.0, 1.0])
    assert_allclose(fit_tensor_components(planted.tensor(c, u), u).coefficients, [3.0, 2.0, 1.0, 0.1], rtol=1e-10)

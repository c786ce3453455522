"""Joint diagonalisers: what their fixed points satisfy on noisy input, where no truth is needed, and how they transform."""

from __future__ import annotations

import numpy as np
import pytest
from decomposition import planted
from numpy.testing import assert_allclose

from laybare.decomposition import directions_of, ffdiag, jacobi, qrj1d, rows_for, uwedge
from laybare.decomposition.diagonalisers import (
    best_shear,
    compress_slices,
    disjoint_pair_rounds,
    jacobi_angles,
    move_slices_last,
    off_diagonal_share,
    rotation_matrix,
)

SKEWED = {"ffdiag": ffdiag, "uwedge": uwedge, "qrj1d": qrj1d}


@pytest.fixture
def noisy(rng):
    """Indefinite slices, directions of condition 3, 3 % noise."""
    u = planted.directions(6, 6, 3, rng)
    slices = planted.stack(rng.standard_normal((9, 6)), u)
    return u, slices + 0.03 * planted.symmetric_noise(slices.shape, rng, 1)


def inside(slices, rows):
    return rows @ slices @ rows.T


@pytest.mark.parametrize("dim", [2, 3, 6, 32])
@pytest.mark.parametrize("name", SKEWED)
def test_exact_stack_becomes_diagonal(name, dim, rng):
    u = planted.directions(dim, dim, 5, rng)
    slices = planted.stack(rng.standard_normal((12, dim)), u)
    found = SKEWED[name](slices, np.eye(dim))
    assert found.off < 1e-20
    assert planted.error(directions_of(found.rows), u) < 1e-10


@pytest.mark.parametrize("dim", [2, 3, 6, 32])
def test_jacobi_diagonalises_an_orthogonal_stack(dim, rng):
    u = planted.directions(dim, dim, 1, rng)
    found = jacobi(planted.stack(rng.standard_normal((12, dim)), u), np.eye(dim))
    assert found.off < 1e-20
    assert planted.error(found.rows, u) < 1e-12
    assert found.steps <= 12  # quadratic end: 6 to 8 sweeps were seen


def test_jacobi_ends_where_no_rotation_helps(noisy):
    """The derivative of the off-diagonal energy by the angle of pair (i, j) is −2 Σ_l (M_ii − M_jj) M_ij."""
    _, slices = noisy
    rows = jacobi(slices, np.eye(6)).rows
    m = inside(slices, rows)
    diagonal = np.einsum("lii->li", m)
    assert_allclose(np.einsum("lij,lij->ij", m, diagonal[:, :, None] - diagonal[:, None, :]), 0.0, atol=1e-10)
    assert_allclose(rows @ rows.T, np.eye(6), atol=1e-13)
    assert _off(m) < _off(slices)


def _off(m):
    return np.sum(m**2) - np.sum(np.einsum("lii->li", m) ** 2)


@pytest.mark.parametrize("diagonalise", [ffdiag, uwedge])
def test_gauss_fixed_point(diagonalise, noisy):
    """FFDIAG and UWEDGE end where off-diagonal entries are uncorrelated with the diagonals, over the slices."""
    u, slices = noisy
    m = inside(slices, diagonalise(slices, np.eye(6)).rows)
    left = np.einsum("lij,ljj->ij", m, m)
    np.fill_diagonal(left, 0.0)
    assert_allclose(left, 0.0, atol=1e-12)
    assert planted.error(directions_of(diagonalise(slices, np.eye(6)).rows), u) < 0.2


def test_ffdiag_and_uwedge_agree(noisy):
    _, slices = noisy
    first, second = (directions_of(f(slices, np.eye(6)).rows) for f in (ffdiag, uwedge))
    assert planted.error(first, second) < 1e-11


def test_qrj1d_ends_where_no_shear_helps(noisy):
    """Σ_l Σ_{m≠i} M_im M_jm = 0: half the derivative of the off-diagonal energy of row i by a shear with row j."""
    u, slices = noisy
    rows = qrj1d(slices, np.eye(6)).rows
    m = inside(slices, rows)
    both = np.einsum("lim,ljm->ij", m, m) - np.einsum("lii,lji->ij", m, m)
    np.fill_diagonal(both, 0.0)
    assert_allclose(both, 0.0, atol=1e-10)
    assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-13)
    assert planted.error(directions_of(rows), u) < 0.2


@pytest.mark.parametrize("name", SKEWED)
def test_result_turns_with_the_slices(name, noisy, rng):
    """B for A_l is B Qᵀ for Q A_l Qᵀ, and the order, signs and mixing of the slices do not matter."""
    _, slices = noisy
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    mix = np.linalg.qr(rng.standard_normal((9, 9)))[0]
    before = directions_of(SKEWED[name](slices, np.eye(6)).rows)
    after = directions_of(SKEWED[name](turn @ slices @ turn.T, turn.T).rows)
    mixed = directions_of(SKEWED[name](np.tensordot(mix, slices, 1), np.eye(6)).rows)
    scaled = directions_of(SKEWED[name](-7.0 * slices[::-1], np.eye(6)).rows)
    assert planted.error(after, before @ turn.T) < 1e-9
    assert planted.error(mixed, before) < 1e-9
    assert planted.error(scaled, before) < 1e-9


def test_angle_is_the_best_of_all(rng):
    """Against a grid of angles, on slices that no rotation diagonalises."""
    slices = planted.symmetric_noise((4, 2, 2), rng, 1)
    p, q = np.array([0]), np.array([1])
    theta = float(jacobi_angles(move_slices_last(slices), p, q)[0])
    grid = np.linspace(-np.pi / 4, np.pi / 4, 20001)
    energy = [_off(inside(slices, rotation_matrix(2, p, q, np.array([angle])))) for angle in grid]
    assert theta == pytest.approx(grid[int(np.argmin(energy))], abs=1e-4)


def test_shear_is_the_best_of_all(rng):
    """Row i after row_i += a row_j has the energy of a parabola in a; its lowest point, from three of its values."""
    slices = planted.symmetric_noise((4, 5, 5), rng, 1)
    i, j = np.array([1]), np.array([3])

    def row_energy(a):
        matrix = np.eye(5)
        matrix[1, 3] = a
        row = (matrix @ slices)[:, 1]  # the columns are changed by the same shear, but column i is on the diagonal of row i
        return np.sum(np.delete(row, 1, axis=1) ** 2)

    quadratic = np.polyfit([-1.0, 0.0, 1.0], [row_energy(a) for a in (-1.0, 0.0, 1.0)], 2)
    assert float(best_shear(move_slices_last(slices), i, j)[0]) == pytest.approx(-quadratic[1] / (2 * quadratic[0]), rel=1e-9)


def test_off_share_of_known_stack():
    slices = np.array([[[1.0, 0.5], [0.5, 1.0]]])
    assert off_diagonal_share(slices, np.eye(2)) == pytest.approx(0.5 / 2.5)
    assert off_diagonal_share(slices, np.diag([3.0, -2.0])) == pytest.approx(0.5 / 2.5)  # scale is a gauge


def test_rows_and_directions_are_inverse(rng):
    u = planted.directions(5, 5, 10, rng)
    assert planted.error(directions_of(rows_for(u)), u) < 1e-13


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
def test_rounds_visit_every_pair_once(size):
    pairs = [pair for p, q in disjoint_pair_rounds(size) for pair in zip(p.tolist(), q.tolist(), strict=True)]
    assert sorted(pairs) == [(p, q) for p in range(size) for q in range(p + 1, size)]
    assert all(len({*p.tolist(), *q.tolist()}) == 2 * len(p) for p, q in disjoint_pair_rounds(size))


def test_compression_keeps_what_a_diagonaliser_sees(rng):
    slices = planted.stack(rng.standard_normal((40, 4)), planted.directions(4, 6, 3, rng))
    fewer = compress_slices(slices)
    assert len(fewer) == 4
    assert_allclose(np.einsum("lab,lcd->abcd", fewer, fewer), np.einsum("lab,lcd->abcd", slices, slices), atol=1e-12)

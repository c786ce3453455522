"""Conditioning of Khatri-Rao powers, and what perturbation does to degenerate weights."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.moments.packed import khatri_rao_gap, needed_order, smoothed_width
from laybare.planted import perturb_network, random_unit_rows


def test_gap_of_orthonormal_weights_is_one() -> None:
    for order in (1, 2, 3):
        assert khatri_rao_gap(3.0 * np.eye(4), order) == pytest.approx(1.0)


def test_gap_is_that_of_the_powers_written_out(rng: np.random.Generator) -> None:
    rows = random_unit_rows(3, 5, rng=rng)
    columns = np.stack([np.kron(w, w) for w in rows], axis=1)
    assert_allclose(khatri_rao_gap(2.0 * rows, 2), np.linalg.svd(columns, compute_uv=False)[-1], rtol=1e-12)
    assert khatri_rao_gap(rows, 1) == 0.0  # five vectors in three dimensions


@pytest.mark.parametrize("order", [1, 2, 3])
def test_higher_powers_are_never_worse_for_unit_vectors(order: int, rng: np.random.Generator) -> None:
    """Gram matrices of powers are elementwise products; a factor with unit diagonal never lowers the least eigenvalue (Schur)."""
    rows = random_unit_rows(5, 4, rng=rng)
    assert khatri_rao_gap(rows, order + 1) >= khatri_rao_gap(rows, order) - 1e-12


def test_widths_and_orders() -> None:
    assert [smoothed_width(8, order) for order in (1, 2, 3)] == [7, 35, 118]
    assert [needed_order(8, width) for width in (8, 9, 36, 37, 120, 121)] == [1, 2, 2, 3, 3, None]


def test_perturbation_tells_equal_units_apart() -> None:
    """Ten units along five directions: gap 0. With ρ = 0.1 it is of the order of ρ or more (Corollary 3.3), for every seed."""
    same = lb.Network(lb.Layer(np.repeat(random_unit_rows(5, 5, rng=0), 2, axis=0), np.linspace(-1, 1, 10)), np.ones(10))
    assert khatri_rao_gap(same.layer.weights, 2) < 1e-12
    gaps = [khatri_rao_gap(perturb_network(same, 0.1, rng=seed).layer.weights, 2) for seed in range(50)]
    assert min(gaps) > 0.1**2 / 10
    assert_allclose(np.linalg.norm(perturb_network(same, 0.1, rng=0).layer.weights, axis=1), 1.0)

"""What cannot be decomposed is refused, in sentences with numbers; silence would be a wrong answer."""

from __future__ import annotations

import numpy as np
import pytest
from decomposition import planted

from laybare.decomposition import (
    KCL,
    AfterWhitening,
    AlternatingLeastSquares,
    GaussNewton,
    best_of,
    definite_jacobi,
    dense_subspace,
    detect_rank,
    jennrich,
    joint_diagonalisation,
    kcl,
    shifted_power,
    subspace_power,
    tensor_power,
)
from laybare.errors import AssumptionViolated, InvalidInput, Unidentifiable

STACKS = [joint_diagonalisation, definite_jacobi, jennrich, kcl, AlternatingLeastSquares()]
TENSORS = [tensor_power, GaussNewton()]


@pytest.fixture
def tensor(rng):
    return planted.tensor(planted.coefficients(3, rng), planted.directions(3, 4, 2, rng))


@pytest.mark.parametrize("decompose", [*STACKS, *TENSORS])
@pytest.mark.parametrize("rank", [0, 5])
def test_rank_outside_of_the_dimension(decompose, rank, tensor, rng):
    with pytest.raises(InvalidInput, match=f"Rank {rank} was asked of slices of dimension 4") as caught:
        decompose(tensor, rank, rng=rng)
    assert caught.value.values["rank"] == rank


@pytest.mark.parametrize("decompose", [*STACKS, *TENSORS, subspace_power])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none(decompose, bad, tensor, rng):
    tensor[1, 2, 3] = bad
    with pytest.raises(InvalidInput, match="1 of 64 entries are NaN or infinite"):
        decompose(tensor, 3, rng=rng)


@pytest.mark.parametrize("decompose", [*STACKS, subspace_power])
def test_slices_that_are_not_symmetric(decompose, tensor, rng):
    tensor[:, 0, 1] += 0.1
    with pytest.raises(InvalidInput, match="not symmetric"):
        decompose(tensor, 3, rng=rng)


@pytest.mark.parametrize("decompose", TENSORS)
def test_stack_where_a_symmetric_tensor_is_needed(decompose, tensor, rng):
    with pytest.raises(InvalidInput, match="changes when its axes are exchanged"):
        decompose(tensor[::-1], 3, rng=rng)


@pytest.mark.parametrize("decompose", [*STACKS, *TENSORS, subspace_power])
def test_nothing_but_zeros(decompose, rng):
    with pytest.raises(Unidentifiable, match="Every entry is zero"):
        decompose(np.zeros((4, 4, 4)), 2, rng=rng)


@pytest.mark.parametrize("decompose", STACKS)
def test_pencil_without_information(decompose, rng):
    one = planted.stack(np.ones((1, 3)), planted.directions(3, 3, 2, rng))
    with pytest.raises(Unidentifiable, match="multiples of one matrix"):
        decompose(np.concatenate([one, -2 * one, 5 * one]), 3, rng=rng)
    with pytest.raises(Unidentifiable, match="multiples of one matrix"):
        decompose(one, 3, rng=rng)


@pytest.mark.parametrize("decompose", [*STACKS, *TENSORS])
def test_span_smaller_than_the_rank(decompose, tensor, rng):
    with pytest.raises(Unidentifiable, match="span only 3 dimensions and rank 4 was asked") as caught:
        decompose(tensor, 4, rng=rng)
    assert caught.value.values == {"rank": 4, "span": 3}


@pytest.mark.parametrize("shape", [(4,), (4, 4), (3, 4, 5), (0, 4, 4), (2, 2, 2, 2)])
def test_shapes_that_are_no_stack(shape, rng):
    with pytest.raises(InvalidInput, match="stack of square slices"):
        joint_diagonalisation(np.ones(shape), 1, rng=rng)


@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4), (2,) * 5])
def test_shapes_that_are_no_tensor(shape, rng):
    with pytest.raises(InvalidInput, match="order 3 or 4"):
        tensor_power(np.ones(shape), 1, rng=rng)


def test_whitening_with_both_signs(tensor, rng):
    second = planted.tensor(np.array([1.0, -1.0, 1.0]), planted.directions(3, 4, 2, rng), 2)
    with pytest.raises(AssumptionViolated, match="2 positive and 1 other eigenvalues among its 3 largest"):
        AfterWhitening(second)(tensor, 3, rng=rng)


def test_no_definite_combination(rng):
    """Every combination of these two slices has trace zero, and joint diagonalisation does not mind."""
    slices = np.array([np.diag([1.0, -1.0, 0.0]), np.diag([0.0, 1.0, -1.0])])
    with pytest.raises(AssumptionViolated, match="nearest to the identity"):
        definite_jacobi(slices, 3, rng=rng)
    assert planted.error(joint_diagonalisation(slices, 3, rng=rng).directions, np.eye(3)) < 1e-10


def test_subspace_power_limits(rng):
    with pytest.raises(Unidentifiable, match="Every vector of the span is a maximum"):
        subspace_power(rng.standard_normal((3, 5)), 2, rng=rng)
    with pytest.raises(InvalidInput, match="Beyond 6 parts"):
        subspace_power(planted.symmetric_noise((9, 4, 4), rng, 1), 7, rng=rng)
    with pytest.raises(Unidentifiable, match="2 tensors span 2 dimensions and rank 3 was asked"):
        subspace_power(planted.symmetric_noise((2, 4, 4), rng, 1), 3, rng=rng)
    with pytest.raises(InvalidInput, match=r"shape \(2, 3, 4\)"):
        subspace_power(np.ones((2, 3, 4)), 1, rng=rng)


def test_choices_that_make_no_sense():
    with pytest.raises(InvalidInput, match="0 tries"):
        best_of(0, jennrich)
    with pytest.raises(InvalidInput, match="3 stages"):
        KCL(stages=3)
    with pytest.raises(InvalidInput, match="1 projections"):
        KCL(projections=1)


@pytest.mark.parametrize("find", [lambda matrix, dim, rank, rng: dense_subspace(matrix, dim, rank), shifted_power])
def test_subspaces_that_do_not_exist(find, rng):
    with pytest.raises(InvalidInput, match="dimension 6 was asked of an operator of dimension 5"):
        find(np.eye(5), 5, 6, rng=rng)
    with pytest.raises(InvalidInput, match="not symmetric"):
        find(np.triu(np.ones((5, 5))), 5, 2, rng=rng)
    with pytest.raises(InvalidInput, match="1 NaN or infinite"):
        find(np.diag([1.0, 2.0, 3.0, 4.0, np.nan]), 5, 2, rng=rng)


def test_spectra_that_cannot_be_judged():
    with pytest.raises(InvalidInput, match="1 of 2 values of the spectrum"):
        detect_rank(np.array([1.0, np.nan]), 0.1)
    with pytest.raises(InvalidInput, match="0 of 0 values"):
        detect_rank(np.zeros(0), 0.1)
    with pytest.raises(InvalidInput, match="noise level is NaN"):
        detect_rank(np.ones(3), np.nan)

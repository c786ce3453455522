"""Shapes and types of laybare are checked in the tests of single rooms: arguments, results, fields, one size per letter."""

from __future__ import annotations

import os

import numpy as np
import pytest
from beartype.roar import BeartypeCallHintParamViolation, BeartypeCallHintReturnViolation
from typechecker import checked, late

import laybare as lb
from laybare.networks import max_angle
from laybare.numerics.linear_algebra import solve_spd
from laybare.numerics.shapes import Biases, Weights

late_checked = late(typechecker=checked)


@late_checked
def scaled(weights: Weights, factors: Biases) -> Weights:
    return (factors[:, None] * weights)[: 1 if factors[0] == 0 else None, : 1 if factors[0] < 0 else None]


def test_arguments_and_results_are_checked() -> None:
    assert scaled(np.ones((2, 3)), np.ones(2)).shape == (2, 3)
    with pytest.raises(BeartypeCallHintParamViolation, match="weights"):
        scaled(np.ones(3), np.ones(2))
    with pytest.raises(BeartypeCallHintParamViolation, match="factors"):
        scaled(np.ones((2, 3)), np.ones(2, dtype=int))


def test_a_letter_has_one_size_in_a_call() -> None:
    with pytest.raises(BeartypeCallHintParamViolation, match="factors"):
        scaled(np.ones((2, 3)), np.ones(3))
    with pytest.raises(BeartypeCallHintReturnViolation):
        scaled(np.ones((2, 3)), np.array([0.0, 1.0]))
    with pytest.raises(BeartypeCallHintReturnViolation):
        scaled(np.ones((2, 3)), np.array([-1.0, 1.0]))


@pytest.mark.skipif(os.environ.get("LAYBARE_TYPECHECK") == "0", reason="LAYBARE_TYPECHECK=0 asks for no checks")
def test_the_library_is_checked() -> None:
    with pytest.raises(BeartypeCallHintParamViolation):
        solve_spd("no matrix", np.ones(2))
    with pytest.raises(BeartypeCallHintParamViolation, match="true"):
        max_angle(np.ones((2, 3)), np.ones((3, 3)))
    with pytest.raises(BeartypeCallHintParamViolation):
        lb.Search(spares="many")


def test_nothing_is_checked_where_that_is_asked_for(unchecked: None) -> None:
    assert scaled(np.ones((1, 2)), np.ones(1, dtype=int)).shape == (1, 2)

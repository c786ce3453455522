"""Black boxes that answer nonsense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from laybare.errors import InvalidInput
from laybare.source import GRAIN, Gaussian, Oracle, Symmetric, Unknown

pytestmark = pytest.mark.usefixtures("unchecked")


def total(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    return (y.sum(axis=0),)


@pytest.mark.parametrize(("f", "sentence"), [
    (lambda x: x[:5, 0], r"shape \(5,\) for 1024 rows.*\(1024,\) or \(1024, outputs\)"),
    (lambda x: 1.0, r"shape \(\) for 1024 rows"),
    (lambda x: x.T, r"shape \(3, 1024\) for 1024 rows"),
    (lambda x: x[:, None], r"shape \(1024, 1, 3\) for 1024 rows"),
    (lambda x: x[:, :0], r"shape \(1024, 0\) for 1024 rows"),
    (lambda x: None, "answer of the black box has dtype object"),
    (lambda x: ["yes"] * len(x), "has dtype <U3"),
    (lambda x: x[:, 0] > 0, "has dtype bool"),
    (lambda x: x[:, 0] + 1j, "has dtype complex128"),
    (lambda x: [[1], [1, 2]], "is not an array"),
    (lambda x: np.where(np.arange(len(x)) == 7, np.inf, 1.0), "answered inf to query 7"),
])
def test_bad_answers(f: Any, sentence: str) -> None:
    oracle = Oracle(f, 3, budget=5000)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=sentence):
            oracle.sum(total)
    assert oracle.spent == GRAIN  # counted once, and never asked again


def test_number_of_outputs_must_not_change() -> None:
    answers = iter([(GRAIN,), (GRAIN, 2)])
    oracle = Oracle(lambda x: np.ones(next(answers)), 3, budget=5000)
    with pytest.raises(InvalidInput, match=r"shape \(1024, 2\) for 1024 rows.*\(1024, 1\), as before"):
        oracle.sum(total)
    assert oracle.read(0, GRAIN).y.shape == (GRAIN, 1)


@pytest.mark.parametrize("points", [np.zeros(3), np.zeros((2, 4)), np.full((2, 3), np.nan), [["a", "b", "c"]], None])
def test_bad_points(points: Any) -> None:
    oracle = Oracle(lambda x: x[:, 0], 3, budget=10)
    with pytest.raises(InvalidInput):
        oracle.ask(points)
    assert oracle.spent == 0


def test_bad_answers_to_chosen_points_are_counted() -> None:
    oracle = Oracle(lambda x: np.log(x[:, 0]), 1, budget=100)
    with np.errstate(divide="ignore"), pytest.raises(InvalidInput, match="answered -inf to query 1"):
        oracle.ask(np.array([[1.0], [0.0]]))
    assert oracle.spent == 2
    assert oracle.ask(np.ones((1, 1))) == 0


@pytest.mark.parametrize("wrong", [
    {"dim": 0}, {"dim": 2.5}, {"dim": True}, {"budget": 0}, {"budget": 1}, {"budget": 1e5}, {"target": 3}, {"law": Symmetric()},
    {"law": Unknown()}, {"batch": 0}, {"batch": 2.5}, {"memory": -1}, {"link": "probit"}, {"box": (1, 0)}, {"dim": None}])
def test_bad_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Oracle(**{"target": np.sum, "dim": 3, **wrong})


@pytest.mark.parametrize(("inputs", "sentence"), [
    (lambda rng, n: rng.standard_normal((n, 2)), r"shape \(1024, 2\).*dimension 3"),
    (lambda rng, n: rng.standard_normal((5, 3)), r"shape \(5, 3\)"),
    (lambda rng, n: np.full((n, 3), np.nan), "with NaN or infinity"),
    (lambda rng, n: "abc", "has dtype <U3"),
    (lambda rng, n: np.random.default_rng().standard_normal((n, 3)), "different rows for the same generator"),
])
def test_bad_inputs(inputs: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Oracle(lambda x: x[:, 0], 3, law=Gaussian(), inputs=inputs)

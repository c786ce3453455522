"""Data that cannot be what it should be: each a sentence, never a traceback from inside NumPy, never a silent answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import laybare as lb
from laybare.errors import InvalidInput
from laybare.source import Gaussian, Oracle, Samples

pytestmark = pytest.mark.usefixtures("unchecked")
X = np.random.default_rng(0).standard_normal((3000, 4))
Y = X[:, 0] + X[:, 1]


def poisoned(array: np.ndarray, where: tuple[int, ...], value: float) -> np.ndarray:
    array = array.copy()
    array[where] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 1023, 1024, 2999])
def test_the_first_bad_row_is_named(row: int, value: float) -> None:
    later = poisoned(poisoned(X, (row, 2), value), (2999, 3), np.nan)
    with pytest.raises(InvalidInput, match=f"x is {value} in row {row}, column 2") as caught:
        Samples(later, Y)
    assert caught.value.values == {"row": row, "column": 2}
    with pytest.raises(InvalidInput, match=f"y is {value} in row {row}, column 0"):
        Samples(X, poisoned(Y, (row,), value))
    with pytest.raises(InvalidInput, match=f"y is {value} in row {row}, column 1"):
        Samples(X, poisoned(np.stack([Y, Y], 1), (row, 1), value))


@pytest.mark.parametrize("row", [1023, 1024, 2500])
def test_the_first_bad_row_is_counted_from_the_beginning(row: int) -> None:
    wide = np.random.default_rng(0).standard_normal((3000, 600))  # so wide that a block has 1024 rows only
    with pytest.raises(InvalidInput, match=f"x is nan in row {row}, column 599"):
        Samples(poisoned(wide, (row, 599), np.nan), Y)


def test_infinities_that_cancel_are_found() -> None:
    with pytest.raises(InvalidInput, match="row 7, column 0"):
        Samples(poisoned(poisoned(X, (7, 0), np.inf), (8, 0), -np.inf), Y)


def test_huge_finite_numbers_are_accepted() -> None:
    Samples(poisoned(X, (slice(None), 0), 1.7e308), Y)  # their sum overflows; none of them is infinite


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bad_rows_of_memory_maps_are_named(dtype: type, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", poisoned(X, (2500, 1), np.nan).astype(dtype))
    with pytest.raises(InvalidInput, match="row 2500, column 1"):
        Samples(np.load(tmp_path / "x.npy", mmap_mode="r"), Y)


@pytest.mark.parametrize(("x", "y", "sentence"), [
    (X, Y[:-1], "x has 3000 rows and y has 2999"),
    (X[:1], Y[:1], "There is 1 row"),
    (X[:0], Y[:0], "There are 0 rows"),
    (X[:, 0], Y, r"x has shape \(3000,\)"),
    (X[:, :0], Y, r"x has shape \(3000, 0\)"),
    (X[None], Y, r"x has shape \(1, 3000, 4\)"),
    (np.float64(3), Y, r"x has shape \(\)"),
    (X, Y.reshape(-1, 1, 1), r"y has shape \(3000, 1, 1\)"),
    (X, np.empty((3000, 0)), r"y has shape \(3000, 0\)"),
    (X, np.float64(1), r"y has shape \(\)"),
    (X, np.full(3000, 0.1), "All 3000 rows of y are the same"),
    (X, np.full((3000, 2), 0.1), "All 3000 rows of y are the same"),
    (np.ones((3000, 4)), Y, "All 3000 rows of x are the same"),
    (X.astype(object), Y, "x has dtype object"),
    (X.astype(str), Y, "x has dtype <U"),
    (X > 0, Y, "x has dtype bool"),
    (X, Y + 1j, "y has dtype complex128"),
    (X, [None] * 3000, "y has dtype object"),
    (X, np.zeros(3000, "M8[s]"), "y has dtype datetime64"),
    ([[1, 2], [3]], [1, 2], "x is not an array"),
    (None, Y, "x has dtype object"),
    (np.ma.masked_array(X, X > 3), Y, "masked entries"),
])
def test_wrong_arrays(x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Samples(x, y)


def test_one_constant_output_of_several_is_accepted() -> None:
    assert Samples(X, np.stack([Y, np.ones(3000)], axis=1)).outputs == 2


@pytest.mark.parametrize(("law", "sentence"), [
    (lambda: Gaussian(mean=np.zeros(3)), r"mean has shape \(3,\).*dimension 4"),
    (lambda: Gaussian(cov=np.eye(5)), r"cov has shape \(5, 5\).*dimension 4"),
    (lambda: Gaussian(cov=np.diag([1.0, 1, 0, 1])), "Column 2 is constant"),
    (lambda: Gaussian(cov=np.diag([1.0, 1, -1, 1])), "Column 2 is constant"),
    (lambda: Gaussian(cov=np.ones((4, 4))), "linearly dependent"),
    (lambda: Gaussian(cov=np.triu(np.ones((4, 4)))), "not symmetric"),
    (lambda: Gaussian(cov=np.ones((4, 3))), "not symmetric"),
    (lambda: Gaussian(cov=np.ones(4)), r"cov has shape \(4,\)"),
    (lambda: Gaussian(cov=0.0), "variance is 0.0"),
    (lambda: Gaussian(mean=np.full(4, np.nan)), "not finite"),
    (lambda: Gaussian(mean="zero"), "has dtype <U4"),  # type: ignore[arg-type]
])
def test_wrong_laws(law: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Samples(X, Y, law())
    with pytest.raises(InvalidInput, match=sentence):
        Oracle(lambda x: x[:, 0], 4, law=law())


def test_no_smaller_width_is_advised_where_there_is_none() -> None:
    """Twenty rows of ten inputs: more rows are the only advice."""
    x = np.random.default_rng(0).standard_normal((20, 10))
    with pytest.raises(lb.errors.TooFewSamples) as refused:
        lb.recover(x, np.maximum(x[:, 0], 0.0))
    assert "smaller width" not in str(refused.value) and "width 0" not in str(refused.value)

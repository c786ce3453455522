"""A box is never left: the caller checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import laybare as lb
from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array
from laybare.source import Box, Symmetric, Uniform

pytestmark = pytest.mark.usefixtures("unchecked")


class Fenced:
    """Remembers how far it was asked."""

    def __init__(self, dim: int) -> None:
        self.low, self.high, self.rows = np.full(dim, np.inf), np.full(dim, -np.inf), 0

    def __call__(self, x: Array) -> Array:
        self.low, self.high = np.minimum(self.low, x.min(axis=0)), np.maximum(self.high, x.max(axis=0))
        self.rows += len(x)
        return np.abs(x).sum(axis=1)


@pytest.mark.parametrize("box", [(0.0, 1.0), (-2, 2), (np.array([0, -5.0, 1e6]), np.array([1, 5.0, 1e6 + 1]))])
def test_drawn_rows_fill_the_box_and_stay_inside(box: tuple[Any, Any], seed: int) -> None:
    fenced = Fenced(3)
    oracle = lb.Oracle(fenced, 3, box=box, budget=20_000, rng=seed)
    x = oracle.read(0, 20_000).x
    low, high = (np.broadcast_to(end, 3) for end in box)
    assert (fenced.low >= low).all() and (fenced.high <= high).all()
    assert fenced.rows == oracle.spent == 20_000
    # Uniform: the mean of 20,000 rows has sd (high-low)/sqrt(12 n) = 0.002 of the width; 4 sigma
    assert_allclose((x.mean(axis=0) - low) / (high - low), 0.5, atol=0.0082)
    # The gap between the outermost row and the side is exponential with mean width/n; P(> 20 of them) = 2e-9 each
    assert_allclose((fenced.high - fenced.low) / (high - low), 1.0, atol=0.002)


def test_whitening_is_exact_and_symmetric() -> None:
    oracle = lb.Oracle(Fenced(2), 2, box=([0, 10], [2, 40]), budget=50_000)
    white = oracle.whitened()
    assert oracle.spent == 0
    assert isinstance(white.law, Symmetric)
    (gram,) = white.sum(lambda x, y: (x.T @ x,))
    # the mean of z^2 (variance 0.8 for uniform z) over 50,000 rows has sd 0.004; 4 sigma
    assert_allclose(gram / 50_000, np.eye(2), atol=0.018)


def test_chosen_points_outside_are_refused_and_not_asked() -> None:
    fenced = Fenced(2)
    oracle = lb.Oracle(fenced, 2, box=(0, 1), budget=100)
    with pytest.raises(InvalidInput, match=r"Point 1 has 1.5 in coordinate 0.*1 of 2 points.*The box allows 0 to 1 there"):
        oracle.ask(np.array([[0.5, 0.5], [1.5, 0.5]]))
    assert (fenced.rows, oracle.spent) == (0, 0)
    oracle.ask(np.array([[0.0, 1.0]]))  # the sides belong to it


@pytest.mark.parametrize(("box", "sentence"), [
    ((1, 0), "from 1 to 0 in coordinate 0"), ((0, np.inf), "from 0 to inf"), ((0, 0), "from 0 to 0"), (3, "cannot be read"),
    ((0, np.ones(5)), "cannot be read"), ((0, 1, 2), "cannot be read"), (("a", "b"), "cannot be read"), ((0, np.nan), "to nan")])
def test_what_is_no_box(box: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        lb.Oracle(Fenced(2), 2, box=box)


def test_inputs_of_ones_own_must_lie_inside() -> None:
    with pytest.raises(InvalidInput, match="outside of the box"):
        lb.Oracle(Fenced(2), 2, box=(0, 1), inputs=lambda rng, n: rng.standard_normal((n, 2)))
    inside = lb.Oracle(Fenced(2), 2, box=(0, 1), law=Symmetric(), inputs=lambda rng, n: rng.random((n, 2)))
    assert inside.law == Symmetric()


def test_a_gaussian_law_and_a_box_exclude_each_other() -> None:
    with pytest.raises(InvalidInput, match="Gaussian inputs leave every box"):
        lb.Oracle(Fenced(2), 2, box=(0, 1), law=lb.Gaussian(0.5, 0.1))
    assert isinstance(lb.Oracle(Fenced(2), 2, box=(0, 1)).law, Uniform)


def test_the_span_of_a_line(rng: np.random.Generator) -> None:
    box = Box.of((-1.0, np.array([1.0, 2.0, 3.0])), 3)
    for _ in range(50):
        point, direction = rng.uniform(-1, 1, 3), rng.standard_normal(3) * rng.integers(0, 2, 3)
        start, stop = box.span(point, direction)
        for t in (start, stop):
            if np.isfinite(t):
                on_side = point + t * direction
                assert len(box.outside(point[None] + 0.999999 * t * direction)) == 0
                assert min(np.abs(on_side - box.low).min(), np.abs(on_side - box.high).min()) < 1e-12
        assert start <= 0 <= stop
    assert box.span(np.array([5.0, 0, 0]), np.array([0.0, 1, 0])).start == np.inf
    assert_array_equal(box.middle, [0, 0.5, 1])

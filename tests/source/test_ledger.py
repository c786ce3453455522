"""What was paid for is kept: drawn rows are drawn once, chosen points are samples, and queries are booked by purpose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array
from laybare.source import GRAIN, Gaussian, Oracle

pytestmark = pytest.mark.usefixtures("unchecked")


class Counted:
    """Sums of squares, and how many rows were asked."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, x: Array) -> Array:
        self.rows += len(x)
        return np.stack([(x**2).sum(axis=1), x[:, 0]], axis=1)


def test_everything_asked_is_a_source(rng: np.random.Generator) -> None:
    box = Counted()
    oracle = Oracle(box, 3, budget=5000)
    first, second = rng.standard_normal((700, 3)), rng.standard_normal((600, 3))
    oracle.ask(first)
    drawn = oracle.read(0, 100)
    oracle.ask(second)
    answered = oracle.answered()
    assert (answered.size, answered.dim, answered.outputs) == (GRAIN + 1300, 3, 2)
    rows = answered.read(0, answered.size)
    assert_array_equal(rows.x[:100], drawn.x)
    assert_array_equal(rows.x[GRAIN:], np.concatenate([first, second]))
    assert_array_equal(rows.y[:, 0], (rows.x**2).sum(axis=1))
    assert_array_equal(answered.sum(lambda x, y: (y.sum(axis=0),))[0], rows.y.sum(axis=0))
    assert box.rows == oracle.spent == answered.size


def test_a_snapshot_does_not_grow(rng: np.random.Generator) -> None:
    oracle = Oracle(Counted(), 2, budget=5000)
    oracle.ask(rng.standard_normal((10, 2)))
    before = oracle.answered()
    rows = before.read(0, 10).x.copy()
    oracle.ask(rng.standard_normal((3000, 2)))
    assert before.size == 10
    assert_array_equal(before.read(0, 10).x, rows)


@given(sizes=st.lists(st.integers(1, 1500), min_size=1, max_size=6), cuts=st.tuples(st.integers(0, 9000), st.integers(0, 9000)))
def test_chosen_points_come_back_in_their_order(sizes: list[int], cuts: tuple[int, int]) -> None:
    oracle = Oracle(lambda x: x[:, 0], 1, budget=10_000)
    points = np.arange(float(sum(sizes)))[:, None]
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        oracle.ask(points[end - size : end])
    if len(points) > 1:
        start, stop = sorted(cut % len(points) for cut in cuts)
        assert_array_equal(oracle.answered().read(start, stop).x, points[start:stop])


def test_purposes_are_counted_and_can_be_read_apart(rng: np.random.Generator) -> None:
    oracle = Oracle(Counted(), 2, budget=9000)
    oracle.ask(rng.standard_normal((7, 2)), purpose="kinks")
    with oracle.purpose("gradients"):
        oracle.ask(rng.standard_normal((5, 2)))
        with oracle.purpose("checks"):
            oracle.ready(0, 10, None)
        oracle.ask(rng.standard_normal((4, 2)))
    oracle.ask(rng.standard_normal((3, 2)))
    oracle.ready(0, GRAIN + 1, None)
    assert oracle.queries == {"kinks": 7, "gradients": 9, "checks": GRAIN, "chosen": 3, "drawn": GRAIN}
    assert sum(oracle.queries.values()) == oracle.spent
    assert oracle.answered("gradients").size == 9
    assert oracle.answered("kinks", "checks").size == 7 + GRAIN
    assert oracle.answered().size == oracle.spent
    with pytest.raises(InvalidInput, match=r"Nothing has been answered for polish so far"):
        oracle.answered("polish")


def test_a_known_point_is_not_paid_for_twice(rng: np.random.Generator) -> None:
    box = Counted()
    oracle = Oracle(box, 2, budget=1000)
    points = rng.standard_normal((20, 2))
    first = oracle.ask(points[:10], reuse=True)
    mixed = points[[3, 12, 5, 12, 13, 3]]
    assert_array_equal(oracle.ask(mixed, reuse=True), np.stack([(mixed**2).sum(axis=1), mixed[:, 0]], axis=1))
    assert box.rows == oracle.spent == 12
    assert_array_equal(oracle.ask(points[:10], reuse=True), first)
    assert box.rows == oracle.spent == 12
    oracle.ask(points[:1])  # without reuse it is: that is how noise is seen
    assert box.rows == oracle.spent == 13


@pytest.mark.parametrize("law", [Gaussian(), Gaussian(np.ones(6), np.eye(6) + 0.5)])
def test_rows_that_are_kept_have_the_bits_of_rows_that_are_drawn_again(law: Gaussian) -> None:
    kept, none, some = (Oracle(Counted(), 6, law=law, budget=5000, memory=memory) for memory in (1 << 30, 0, 8 * 6 * 1500))
    for start, stop in ((0, 5000), (900, 1600), (1400, 1501), (0, 1), (4000, 4000)):
        rows = kept.read(start, stop)
        for other in (none, some):
            again = other.read(start, stop)
            assert_array_equal(again.x, rows.x)
            assert_array_equal(again.y, rows.y)


def test_kept_rows_are_drawn_once() -> None:
    draws = []

    def inputs(rng: np.random.Generator, n: int) -> Array:
        draws.append(n)
        return rng.standard_normal((n, 2))

    oracle = Oracle(Counted(), 2, budget=4 * GRAIN, inputs=inputs)
    oracle.sum(lambda x, y: (y.sum(axis=0),))
    before = len(draws)
    for _ in range(3):
        oracle.sum(lambda x, y: (y.sum(axis=0),))
    assert len(draws) == before


def test_inputs_that_are_read_cannot_be_written_to() -> None:
    oracle = Oracle(Counted(), 2, budget=100)
    oracle.ask(np.ones((3, 2)))
    for x in (oracle.read(0, 10).x, oracle.answered("chosen").read(0, 3).x):
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1


def test_points_beyond_the_memory_are_answered_and_not_kept(rng: np.random.Generator) -> None:
    oracle = Oracle(Counted(), 2, budget=5000, memory=8 * 2 * 1200)
    for _ in range(3):
        assert oracle.ask(rng.standard_normal((500, 2))).shape == (500, 2)
    assert (oracle.spent, oracle.answered().size) == (1500, 1200)


def test_unusable_answers_are_gaps_if_asked_for() -> None:
    def box(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.log(x[:, 0])

    oracle = Oracle(box, 1, budget=100)
    answers = oracle.ask(np.array([[1.0], [0.0], [np.e]]), gaps=True)
    assert_array_equal(np.isnan(answers[:, 0]) | np.isinf(answers[:, 0]), [False, True, False])
    assert oracle.answered().size == 2

"""A black box as a source: rows that can be drawn again, queries that are paid once."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import ThreadpoolController

from laybare.errors import BudgetExhausted, InvalidInput
from laybare.numerics.shapes import Array, Event, Sums
from laybare.planted import laplace_inputs
from laybare.source import GRAIN, Gaussian, Oracle, Schedule, Symmetric

# A runtime check of a protocol looks at every property, `outputs` among them, which buys the first grain.
pytestmark = pytest.mark.usefixtures("unchecked")


class Box:
    """Counts its queries and where they come from; may fail at one call, or answer NaN at one row."""

    def __init__(self, outputs: int | None = None, fail_at: int = -1, bad_row: int = -1) -> None:
        self.outputs, self.fail_at, self.bad_row = outputs, fail_at, bad_row
        self.calls = self.rows = 0
        self.threads: set[int] = set()

    def __call__(self, x: Array) -> Array:
        self.threads.add(threading.get_ident())
        self.calls += 1
        if self.calls - 1 == self.fail_at:
            raise ConnectionError("the line is dead")
        y = np.sin(x @ np.arange(1.0, x.shape[1] + 1))
        if self.rows <= self.bad_row < self.rows + len(x):
            y[self.bad_row - self.rows] = np.nan
        self.rows += len(x)
        x[:] = np.nan  # must not matter to anybody
        return y if self.outputs is None else np.repeat(y[:, None], self.outputs, axis=1)


def both(x: Array, y: Array) -> Sums:
    return x.T @ y, y.sum(axis=0), x.T @ x


@given(ends=st.lists(st.integers(0, 5000), min_size=2, max_size=12), seed=st.integers(0, 9))
def test_reads_do_not_depend_on_their_order(ends: list[int], seed: int) -> None:
    whole = Oracle(Box(), 3, budget=5000, rng=seed).read(0, 5000)
    oracle = Oracle(Box(), 3, budget=5000, rng=seed)
    for start, stop in itertools.pairwise(ends):
        start, stop = sorted((start, stop))
        read = oracle.read(start, stop)
        assert_array_equal(read.x, whole.x[start:stop])
        assert_array_equal(read.y, whole.y[start:stop])


@pytest.mark.parametrize("law", [Gaussian(), Gaussian(np.ones(40), np.eye(40) + 0.5), Gaussian(2.0, 9.0)])
def test_the_box_sees_the_rows_that_are_read(law: Gaussian) -> None:
    seen = []

    def box(x: Array) -> Array:
        seen.append(x.copy())
        return x[:, 0]

    oracle = Oracle(box, 40, law=law, budget=3000)
    read = oracle.with_schedule(Schedule(workers=2)).read(0, 3000)
    assert_array_equal(np.concatenate(seen), read.x)
    assert_array_equal(read.y[:, 0], read.x[:, 0])
    assert [len(x) for x in seen] == [1024, 1024, 952]


def test_inputs_follow_the_law_and_differ_between_grains() -> None:
    oracle = Oracle(Box(), 2, law=Gaussian(np.array([5.0, 0.0]), np.diag([4.0, 1.0])), budget=20 * GRAIN)
    x = oracle.read(0, oracle.size).x
    # n = 20480: sd of the means 0.014 and 0.007, of the variances 0.04 and 0.01; 4 sigma
    assert_allclose(x.mean(axis=0), [5, 0], atol=0.056)
    assert_allclose(x.var(axis=0), [4, 1], atol=0.16)
    assert len(np.unique(x[:, 0])) == len(x)


def test_seeds_and_generators_fix_the_inputs() -> None:
    def draw(rng: np.random.Generator | int) -> Array:
        return Oracle(Box(), 2, budget=10, rng=rng).read(0, 10).x

    assert_array_equal(draw(3), draw(np.random.default_rng(3)))
    assert not np.allclose(draw(3), draw(4))


def test_inputs_do_not_depend_on_the_budget() -> None:
    few, many = (Oracle(Box(), 2, budget=budget).read(0, 1500).x for budget in (1500, 90_000))
    assert_array_equal(few, many)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_sums_are_paid_once_from_the_calling_thread(workers: int) -> None:
    box = Box()
    oracle = Oracle(box, 3, budget=20_000, schedule=Schedule(workers=workers, block_bytes=1))
    sums = oracle.sum(both)
    again = oracle.sum(both)
    assert (box.rows, oracle.spent, box.threads) == (20_000, 20_000, {threading.get_ident()})
    x, y = oracle.read(0, 20_000)
    for found, repeated, wanted in zip(sums, again, both(x, y), strict=True):
        assert_array_equal(found, repeated)
        assert_allclose(found, wanted, atol=1e-9)


def test_nothing_is_bought_before_it_is_needed() -> None:
    box = Box()
    oracle = Oracle(box, 3, budget=10_000)
    first, second = oracle.split(0.3, rng=0)
    assert (box.rows, oracle.spent) == (0, 0)
    assert first.outputs == 1
    assert oracle.spent == GRAIN
    first.sum(both)
    assert oracle.spent == 3 * GRAIN  # 3000 rows, in whole grains
    second.sum(both)
    assert (oracle.spent, first.size, second.size) == (10_000, 3000, 7000)


def test_parts_are_disjoint_and_complete() -> None:
    oracle = Oracle(Box(), 2, budget=3000)
    parts = [part.read(0, part.size).x for part in oracle.split(0.37, rng=0)]
    assert_array_equal(np.concatenate(parts), oracle.read(0, 3000).x)


@pytest.mark.parametrize("outputs", [None, 1, 3])
def test_one_or_several_outputs(outputs: int | None) -> None:
    oracle = Oracle(Box(outputs), 2, budget=3000)
    assert oracle.outputs == (outputs or 1)
    assert oracle.read(5, 25).y.shape == (20, outputs or 1)


def test_answers_cannot_be_written_to() -> None:
    y = Oracle(Box(), 2, budget=100).read(0, 100).y
    with pytest.raises(ValueError, match="read-only"):
        y[0] = 1


def test_purchases_report_progress() -> None:
    events: list[Event] = []
    Oracle(Box(), 2, budget=2500).with_progress(events.append).sum(both, stage="gram")
    bought = [Event("queries", rows, 2500) for rows in (1024, 2048, 2500)]
    assert events == [*bought, Event("gram", 1, 1)]


def test_an_oracle_knows_its_law_and_is_not_whitened() -> None:
    box = Box()
    oracle = Oracle(box, 4, budget=1000)
    assert oracle.law == Gaussian(0.0, 1.0)
    assert oracle.whitened().transform.trivial
    assert box.rows == 0


def test_own_inputs_are_drawn_and_whitened_by_estimate() -> None:
    oracle = Oracle(Box(), 3, law=Symmetric(), budget=4000, inputs=lambda rng, n: 5 * laplace_inputs(n, 3, rng=rng))
    assert_array_equal(oracle.read(100, 3000).x, oracle.read(0, 4000).x[100:3000])
    gram = oracle.whitened().sum(both)[2]
    assert_allclose(gram / 4000, np.eye(3), atol=1e-12)


def test_inputs_are_drawn_with_one_blas_thread() -> None:
    seen = []

    def inputs(rng: np.random.Generator, n: int) -> Array:
        seen.extend(library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info())
        return rng.standard_normal((n, 2))

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        Oracle(Box(), 2, budget=100, inputs=inputs).read(0, 100)
    assert set(seen) == {1}  # else a product in a law could differ in its last bit between the query and a later pass


def test_chosen_points_count_and_leave_less_to_draw() -> None:
    box = Box()
    oracle = Oracle(box, 2, budget=2000)
    points = np.ones((300, 2))
    answers = oracle.ask(points)
    assert answers.shape == (300, 1)
    assert_allclose(answers, np.sin(3.0))
    assert_array_equal(points, 1)  # the box wrote into its own copy
    assert (oracle.spent, oracle.size) == (300, 1700)
    oracle.sum(both)
    assert oracle.spent == box.rows == 2000
    with pytest.raises(BudgetExhausted, match="1 more queries were asked for and 0 are left"):
        oracle.ask(points[:1])
    assert box.rows == 2000


def test_rows_beyond_the_budget_are_not_bought() -> None:
    box = Box()
    oracle = Oracle(box, 2, budget=2000)
    part = oracle.take(2000)
    oracle.ask(np.zeros((500, 2)))
    for attempt in (lambda: part.sum(both), lambda: oracle.read(0, 2001)):
        with pytest.raises(BudgetExhausted, match="allows 1500 drawn rows"):
            attempt()
    assert box.rows == 500


@given(fail_at=st.integers(0, 5), budget=st.integers(2, 6000))
def test_a_failure_costs_nothing_that_was_paid(fail_at: int, budget: int) -> None:
    box = Box(fail_at=fail_at)
    oracle = Oracle(box, 2, budget=budget)
    if fail_at * GRAIN < budget:
        with pytest.raises(InvalidInput, match="ConnectionError") as caught:
            oracle.sum(both)
        assert isinstance(caught.value.__cause__, ConnectionError)
        assert caught.value.values["kept"] == oracle.spent == box.rows == fail_at * GRAIN
    sums = oracle.sum(both)
    assert box.rows == oracle.spent == budget
    for found, wanted in zip(sums, Oracle(Box(), 2, budget=budget).sum(both), strict=True):
        assert_array_equal(found, wanted)


@given(bad_row=st.integers(1, 4999))
def test_a_bad_answer_keeps_those_before_it_and_is_not_bought_again(bad_row: int) -> None:
    box = Box(bad_row=bad_row)
    oracle = Oracle(box, 2, budget=5000)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=f"answered nan to query {bad_row}, output 0") as caught:
            oracle.sum(both)
        assert caught.value.values["row"] == bad_row
    assert box.rows == oracle.spent == min(5000, (bad_row // GRAIN + 1) * GRAIN)
    clean = Oracle(Box(), 2, budget=5000).read(0, bad_row)
    assert_array_equal(oracle.read(0, bad_row).y, clean.y)

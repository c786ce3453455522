"""Adding up: equal to plain NumPy, the same bits for any number of workers, and little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from laybare.numerics.shapes import Array, Event, Sums
from laybare.source import GRAIN, Samples, Schedule, block_rows, sum_blocks
from laybare.source.sums import balance_two_blocks, balanced_block_rows


def gram(x: Array, y: Array) -> Sums:
    return x.T @ x, x.T @ y, np.asarray((y**2).sum())


def samples(n: int, dim: int, outputs: int, seed: int, schedule: Schedule = Schedule()) -> Samples:
    rng = np.random.default_rng(seed)
    return Samples(rng.standard_normal((n, dim)), rng.standard_normal((n, outputs)), schedule=schedule)


@given(n=st.integers(2, 5 * GRAIN), dim=st.integers(1, 7), outputs=st.integers(1, 3), seed=st.integers(0, 99))
def test_sum_is_the_plain_sum(n: int, dim: int, outputs: int, seed: int) -> None:
    source = samples(n, dim, outputs, seed, Schedule(block_bytes=1))
    expected = gram(*source.read(0, n))
    for found, wanted in zip(source.sum(gram), expected, strict=True):
        assert found.shape == wanted.shape
        assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * n)


@given(blocks=st.integers(1, 40), seed=st.integers(0, 99))
def test_bits_do_not_depend_on_workers(blocks: int, seed: int) -> None:
    source = samples(blocks * GRAIN - 5, 3, 1, seed)
    results = [source.with_schedule(Schedule(workers=workers, block_bytes=1)).sum(gram) for workers in (1, 2, 3)]
    for other in results[1:]:
        for found, wanted in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_block_size_matters_only_by_rounding(rng: np.random.Generator) -> None:
    source = samples(20 * GRAIN + 7, 4, 2, int(rng.integers(100)))
    small, large = (source.with_schedule(Schedule(block_bytes=size)).sum(gram) for size in (1, 1 << 30))
    for found, wanted in zip(small, large, strict=True):
        assert_allclose(found, wanted, rtol=1e-12, atol=1e-10)


def test_summation_is_pairwise(unchecked: None) -> None:
    # 2^16 blocks of one grain, each contributing 0.1: a running sum would be off by about 1e-9, the tree by one rounding a level.
    def tenth(x: Array, y: Array) -> Sums:
        return (np.array(0.1),)

    def read(start: int, stop: int) -> tuple[Array, Array]:
        return np.empty((0, 1)), np.empty((0, 1))

    (total,) = sum_blocks(read, GRAIN << 16, 1, tenth, Schedule(workers=1, block_bytes=1))
    assert abs(float(total) - 6553.6) <= 17 * np.spacing(6553.6)


def test_a_statistic_gets_two_dimensional_outputs_and_whole_grains(rng: np.random.Generator) -> None:
    seen = []

    def watch(x: Array, y: Array) -> Sums:
        seen.append((x.shape, y.shape))
        return (np.zeros(1),)

    Samples(rng.standard_normal((3000, 2)), rng.standard_normal(3000), schedule=Schedule(workers=1, block_bytes=1)).sum(watch)
    assert seen == [((1024, 2), (1024, 1)), ((1024, 2), (1024, 1)), ((952, 2), (952, 1))]


def test_a_hungry_statistic_gets_smaller_blocks(rng: np.random.Generator) -> None:
    rows = []

    class Outer:
        row_floats = 100_000

        def __call__(self, x: Array, y: Array) -> Sums:
            rows.append(len(x))
            return (np.zeros(1),)

    source = samples(4 * GRAIN, 2, 1, 0)
    source.sum(Outer())
    assert max(rows) == GRAIN < block_rows(3)


def test_progress_tells_every_block(rng: np.random.Generator) -> None:
    events: list[Event] = []
    samples(4 * GRAIN, 2, 1, 0, Schedule(workers=2, block_bytes=1)).with_progress(events.append).sum(gram, stage="gram")
    assert events == [Event("gram", done, 4) for done in (1, 2, 3, 4)]


def test_memory_stays_at_a_few_blocks(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((200_000, 20)).astype(np.float32), rng.standard_normal(200_000)
    source = Samples(x, y, schedule=Schedule(workers=2))
    tracemalloc.start()
    source.sum(gram)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 14e6  # one converted block of 4 MB for each of two workers; the whole would be 32 MB


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_are_refused(workers: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Schedule(workers=workers)


@pytest.mark.parametrize("size", [1, 1024, 5000, 7344, 40_000, 10**6])
@pytest.mark.parametrize("most", [1024, 4096, 6144])
def test_few_blocks_are_an_even_number_of_about_one_size(size, most):
    rows = balanced_block_rows(size, most)
    blocks = -(-size // rows)
    assert rows <= most and rows % GRAIN == 0
    if 1 < -(-size // most) <= 16:
        assert blocks % 2 == 0 or rows == GRAIN
        assert size - (blocks - 1) * rows > rows - 2 * GRAIN * blocks


def test_a_statistic_in_single_precision_gets_kept_rows_with_a_one_behind(rng):
    x, y = rng.standard_normal((3000, 4)), rng.standard_normal(3000)

    class Single:
        single = True

        def __call__(self, x, y):
            return x.T @ x, np.array(x.dtype == np.float32, dtype=float), y.T @ y

    kept = Samples(x, y).kept()
    gram, single, squares = kept.sum(Single())
    assert gram.shape == (5, 5) and gram[4, 4] == 3000 and single >= 1
    assert_allclose(gram[:4, :4], x.T @ x, rtol=1e-4, atol=0.1)
    assert_allclose(squares, [[y @ y]], rtol=1e-12)
    plain, _, _ = Samples(x, y).sum(Single())
    assert plain.shape == (4, 4)
    tight = Samples(x, y, schedule=Schedule(keep_bytes=8 * 3000 * 5)).kept()
    assert tight.sum(Single())[0].shape == (4, 4)


@given(rows=st.integers(1, 100 * GRAIN))
def test_an_even_pair_is_nearly_as_many_rows(rows: int) -> None:
    pair = balance_two_blocks(rows)
    assert abs(pair - rows) <= rows / 8
    assert pair == rows or pair % (2 * GRAIN) == 0
    assert balance_two_blocks(pair) == pair

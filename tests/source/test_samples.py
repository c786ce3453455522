"""Samples and views of them: nothing is copied, nothing is lost."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array, Sums
from laybare.source import GRAIN, Oracle, Samples, Source, WhitenedSource


def numbered(n: int, dim: int = 2) -> Samples:
    """Row i holds i: what a view reads tells which rows it has."""
    x = np.repeat(np.arange(n, dtype=float)[:, None], dim, axis=1)
    return Samples(x, -np.arange(n, dtype=float))


def row_numbers(source: Source) -> Array:
    x, y = source.read(0, source.size)
    assert_array_equal(x[:, 0], -y[:, 0])
    return x[:, 0].astype(int)


def test_contiguous_float64_is_not_copied(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((50, 3)), rng.standard_normal((50, 2))
    read = Samples(x, y).read(10, 20)
    assert np.shares_memory(read.x, x)
    assert np.shares_memory(read.y, y)
    assert_array_equal(read.x, x[10:20])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, ">f8", np.longdouble])
def test_every_real_dtype_reads_as_float64(dtype: object, rng: np.random.Generator) -> None:
    x, y = rng.integers(0, 9, (30, 2)).astype(dtype), rng.integers(0, 9, 30).astype(dtype)  # type: ignore[call-overload]
    read = Samples(x, y).read(0, 30)
    assert (read.x.dtype, read.y.dtype, read.y.shape) == (np.float64, np.float64, (30, 1))
    assert read.x.dtype.isnative
    assert_array_equal(read.x, x.astype(float))


def test_lists_fortran_order_and_strides_are_accepted(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    for given_x, given_y in ((x.tolist(), y.tolist()), (np.asfortranarray(x), y), (np.repeat(x, 2, 1)[:, ::2], y[::-1][::-1])):
        read = Samples(given_x, given_y).read(5, 25)
        assert_array_equal(read.x, x[5:25])
        assert read.x.flags.c_contiguous
        assert_array_equal(read.y[:, 0], y[5:25])


def test_data_frames_are_accepted(rng: np.random.Generator) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rng.standard_normal((20, 3)), columns=["a", "b", "y"])
    source = Samples(frame[["a", "b"]], frame["y"])
    assert (source.dim, source.outputs, source.size) == (2, 1, 20)


def test_memory_maps_stay_on_disk(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5000, 4))
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = Samples(mapped, x[:, 0])
    assert np.shares_memory(source.read(100, 200).x, mapped)
    first, _ = source.split(0.5, rng=0)
    assert np.shares_memory(first.origin.read(100, 200).x, mapped)  # type: ignore[attr-defined]


@given(n=st.integers(4, 3000), fraction=st.floats(0.3, 0.7), seed=st.integers(0, 99))
def test_split_is_disjoint_and_complete(n: int, fraction: float, seed: int) -> None:
    source = numbered(n)
    first, second = source.split(fraction, rng=seed)
    a, b = row_numbers(first), row_numbers(second)
    assert len(a) == first.size == round(fraction * n)
    assert_array_equal(np.sort(np.concatenate([a, b])), np.arange(n))
    assert (np.diff(a) > 0).all()
    assert (np.diff(b) > 0).all()


def test_split_is_random_and_repeatable() -> None:
    source = numbered(1000)
    same, again, other = (row_numbers(source.split(0.5, rng=seed).first) for seed in (1, 1, 2))
    assert_array_equal(same, again)
    common = np.isin(same, other).sum()
    assert abs(common - 250) < 4 * 7.9  # hypergeometric(1000, 500, 500): sd 7.9


@given(seed=st.integers(0, 999))
def test_views_of_views_keep_track_of_their_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source: Source = numbered(4000)
    expected = np.arange(4000)
    for _ in range(4):
        if rng.random() < 0.5:
            source, part = source.split(0.8, rng=int(rng.integers(99)))
            numbers = row_numbers(source)
            assert not set(numbers) & set(row_numbers(part))
            assert set(numbers) | set(row_numbers(part)) == set(expected)
            expected = numbers
        else:
            source, expected = source.take(len(expected) - 7), expected[:-7]
        assert_array_equal(row_numbers(source), expected)
        start = int(rng.integers(0, source.size - 1))
        assert_array_equal(source.read(start, source.size).x[:, 0], expected[start:])


def test_few_rows_far_apart_take_little_memory(rng: np.random.Generator) -> None:
    x = rng.standard_normal((300_000, 10), dtype=np.float32)
    first, _ = Samples(x, x[:, 0]).split(0.001, rng=rng)
    tracemalloc.start()
    (total,) = first.sum(lambda x, y: (x.sum(axis=0),))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6  # one converted stretch of 4 MB; all of them would be 26 MB
    assert first.size == 300
    np.testing.assert_allclose(total, x[first.rows].astype(float).sum(axis=0), rtol=1e-12)  # type: ignore[attr-defined]


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, 1.5, 1e-6, 1 - 1e-6, float("nan")])
def test_empty_parts_are_refused(fraction: float) -> None:
    with pytest.raises(InvalidInput, match="leaves one part empty"):
        numbered(100).split(fraction, rng=0)


def test_ranges_of_ranges_and_of_chosen_rows() -> None:
    source = numbered(100)
    assert_array_equal(row_numbers(source.between(20, 60).between(5, 10)), np.arange(25, 30))
    chosen = source.split(0.5, rng=0).first
    assert_array_equal(row_numbers(chosen.between(7, 9)), row_numbers(chosen)[7:9])
    parts = [row_numbers(part) for part in source.between(20, 60).split(0.5, rng=0)]
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(20, 60))


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, -1), (0, 101), (-1, 5), (7, 7), (8, 7)])
def test_ranges_know_their_limits(start: int, stop: int) -> None:
    with pytest.raises(InvalidInput, match="none beyond 100"):
        numbered(100).between(start, stop)
    with pytest.raises(InvalidInput, match="none beyond 100"):
        numbered(100).take(101)


def test_every_kind_is_a_source() -> None:
    samples = numbered(10, dim=1)
    oracle = Oracle(lambda x: x[:, 0], 2, budget=GRAIN)
    for source in (samples, samples.take(5), samples.split(0.5, rng=0).first, samples.whitened(), oracle, oracle.take(5)):
        assert isinstance(source, Source)
    assert isinstance(samples.whitened(), WhitenedSource)
    assert not isinstance(samples, WhitenedSource)


def test_statistics_of_views_are_those_of_their_rows(rng: np.random.Generator) -> None:
    def cross(x: Array, y: Array) -> Sums:
        return (x.T @ y,)

    x, y = rng.standard_normal((5000, 3)), rng.standard_normal((5000, 2))
    source = Samples(x, y)
    first, second = source.split(0.3, rng=rng)
    np.testing.assert_allclose(first.sum(cross)[0] + second.sum(cross)[0], x.T @ y, atol=1e-10)

"""Rows that occur more than once, against a count by hand, and what finding them out takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import laybare as lb
from laybare.source.problem import count_distinct_inputs, group_rows, split_groups


def lattice(rng: np.random.Generator, rows: int = 3000) -> lb.Samples:
    return lb.Samples(rng.integers(0, 3, (rows, 5)).astype(float), rng.integers(0, 2, rows).astype(float))


def test_groups_are_those_of_a_count_by_hand(rng: np.random.Generator) -> None:
    source = lattice(rng)
    groups = group_rows(source)
    assert groups is not None
    seen: dict[bytes, int] = {}
    first = [i for i in range(source.size) if seen.setdefault(source.x[i].tobytes() + source.y[i].tobytes(), i) == i]
    np.testing.assert_array_equal(groups.first, first)
    numbers: dict[bytes, int] = {}
    for row, group in zip(groups.first, groups.group, strict=True):
        assert numbers.setdefault(source.x[row].tobytes(), int(group)) == group
    assert len(set(numbers.values())) == len(numbers) == groups.inputs == count_distinct_inputs(source)


def test_rows_whose_input_and_output_change_places_are_different() -> None:
    source = lb.Samples(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), np.array([0.0, 1.0, 0.0]))
    groups = group_rows(source)
    assert groups is not None and groups.first.tolist() == [0, 1]


def test_no_input_occurs_twice_and_zero_has_one_sign(rng: np.random.Generator) -> None:
    x = rng.standard_normal((5000, 3))
    assert group_rows(lb.Samples(x, x[:, 0])) is None
    x[17], x[4000] = 0.0, -0.0
    assert count_distinct_inputs(lb.Samples(x, x[:, 0])) == 4999


@pytest.mark.parametrize("block_bytes", [1, 1 << 16, 1 << 22])
def test_groups_do_not_depend_on_blocks_nor_workers(block_bytes: int, rng: np.random.Generator) -> None:
    source = lattice(rng, 5000)
    other = lb.Samples(source.x, source.y, schedule=lb.source.Schedule(workers=3, block_bytes=block_bytes))
    one, two = group_rows(source), group_rows(other)
    assert one is not None and two is not None
    for here, there in zip(one, two, strict=True):
        np.testing.assert_array_equal(here, there)


def test_one_input_lies_on_one_side_of_a_split(rng: np.random.Generator) -> None:
    source = lattice(rng)
    groups = group_rows(source)
    assert groups is not None
    used, fresh = split_groups(source, groups, 60, rng=rng)
    there = {row.tobytes() for row in fresh.read(0, fresh.size).x}
    assert fresh.size >= 60 and used.size + fresh.size == len(groups.first)
    assert not any(row.tobytes() in there for row in used.read(0, used.size).x)


def test_whether_inputs_repeat_takes_eight_bytes_a_row(rng: np.random.Generator) -> None:
    x = rng.standard_normal((400_000, 2))
    source = lb.Samples(x, x[:, 0].copy(), schedule=lb.source.Schedule(workers=2))
    tracemalloc.start()
    assert group_rows(source) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 400_000 + 16e6  # and a few blocks for each worker; sorting copies twice over took 64 bytes a row

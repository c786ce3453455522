"""Nested random prefixes of the rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import laybare as lb
from laybare.source import problem
from laybare.source.problem import RUNG_FACTOR, ladder_from, prefix, prefix_and_next, prefix_and_rest, prefix_or_all


def numbered(size: int) -> lb.Samples:
    """Rows that are their own numbers."""
    numbers = np.arange(size, dtype=float)
    return lb.Samples(numbers[:, None], numbers)


def numbers_of(source: lb.Source) -> list[int]:
    return [int(number) for number in source.read(0, source.size).x[:, 0]]


def test_of_two_prefixes_one_contains_the_other() -> None:
    source = numbered(2000)
    parts = [set(numbers_of(prefix(source, rows))) for rows in (10, 11, 400, 1999)]
    assert [len(part) for part in parts] == [10, 11, 400, 1999]
    assert all(few < more for few, more in itertools.pairwise(parts))


def test_a_prefix_is_random_and_the_same_in_every_call() -> None:
    """Files are often sorted: the mean of the chosen numbers is that of all, within four standard deviations."""
    source = numbered(100_000)
    chosen = numbers_of(prefix(source, 1000))
    assert chosen == sorted(chosen) == numbers_of(prefix(source, 1000))
    assert abs(np.mean(chosen) - 50_000) < 4 * 100_000 / np.sqrt(12 * 1000)


@pytest.mark.parametrize("rows", [1, 37, 999])
def test_keys_are_drawn_in_blocks_of_any_size(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = numbers_of(prefix(numbered(1000), rows))
    monkeypatch.setattr(problem, "KEY_BLOCK", 64)
    assert numbers_of(prefix(numbered(1000), rows)) == whole


def test_the_rest_and_the_next_rows_are_others() -> None:
    source = numbered(1000)
    first, rest = map(numbers_of, prefix_and_rest(source, 300))
    assert sorted(first + rest) == numbers_of(source)
    few, following = map(numbers_of, prefix_and_next(source, 100, 200))
    assert sorted(few + following) == first
    assert len(prefix_and_next(source, 300, 300).second.read(0, 700).x) == 700


def test_the_ladder_ends_with_all_rows() -> None:
    source = numbered(1000)
    sizes = [part.size for part in ladder_from(source, 20)]
    assert sizes == [20, 20 * RUNG_FACTOR, 20 * RUNG_FACTOR**2, 1000]
    assert [part.size for part in ladder_from(source, 600)] == [1000]
    assert prefix_or_all(source, 501) is source

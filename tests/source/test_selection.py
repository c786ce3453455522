"""Rows picked by a key, and outputs replaced by a function of them."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.source.relabelled import Relabelled
from laybare.source.selection import closest_rows


def test_closest_rows_are_the_smallest_keys_in_order(rng):
    x = rng.standard_normal((5000, 2))
    found = closest_rows(lb.Samples(x, x[:, 0]), lambda x, y: np.where(x[:, 1] > 0, np.abs(x[:, 0]), np.inf), 50)
    wanted = np.flatnonzero((x[:, 1] > 0) & (np.abs(x[:, 0]) <= np.sort(np.abs(x[x[:, 1] > 0, 0]))[49]))
    assert np.array_equal(found.x, x[wanted]) and np.array_equal(found.y[:, 0], x[wanted, 0])


def test_no_row_may_be_wanted(rng):
    x = rng.standard_normal((100, 2))
    found = closest_rows(lb.Samples(x, x[:, 0]), lambda x, y: np.full(len(x), np.inf), 5)
    assert found.x.shape == (0, 2) and found.y.shape == (0, 1)


def test_blocks_do_not_change_the_choice(rng):
    x = rng.standard_normal((5000, 2))
    small = lb.Samples(x, x[:, 0], schedule=lb.Schedule(block_bytes=1))
    key = lambda x, y: np.abs(x[:, 1])  # noqa: E731
    assert np.array_equal(closest_rows(small, key, 70).x, closest_rows(lb.Samples(x, x[:, 0]), key, 70).x)


def test_relabelled_outputs_through_splits_and_sums(rng):
    x = rng.standard_normal((3000, 2))
    source = Relabelled(lb.Samples(x, np.column_stack([x[:, 0], x[:, 1]])), lambda y: (y > 0).all(axis=1))
    assert source.outputs == 1 and source.dim == 2 and source.size == 3000
    (total,) = source.sum(lambda x, y: (y.sum(axis=0),))
    assert total[0] == np.sum((x > 0).all(axis=1))
    first, second = source.split(0.5, rng=0)
    parts = [part.sum(lambda x, y: (y.sum(axis=0),))[0][0] for part in (first, second)]
    assert sum(parts) == pytest.approx(total[0])

"""Rows with the smallest keys, relabelled outputs, projected inputs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import laybare as lb
from laybare.source.derived import ProjectedInputs, RelabelledOutputs
from laybare.source.views import rows_with_smallest_key


def test_closest_rows_are_the_smallest_keys_in_order(rng):
    x = rng.standard_normal((5000, 2))
    found = rows_with_smallest_key(lb.Samples(x, x[:, 0]), lambda x, y: np.where(x[:, 1] > 0, np.abs(x[:, 0]), np.inf), 50)
    wanted = np.flatnonzero((x[:, 1] > 0) & (np.abs(x[:, 0]) <= np.sort(np.abs(x[x[:, 1] > 0, 0]))[49]))
    assert np.array_equal(found.x, x[wanted]) and np.array_equal(found.y[:, 0], x[wanted, 0])


def test_no_row_may_be_wanted(rng):
    x = rng.standard_normal((100, 2))
    found = rows_with_smallest_key(lb.Samples(x, x[:, 0]), lambda x, y: np.full(len(x), np.inf), 5)
    assert found.x.shape == (0, 2) and found.y.shape == (0, 1)


def test_blocks_do_not_change_the_choice(rng):
    x = rng.standard_normal((5000, 2))
    small = lb.Samples(x, x[:, 0], schedule=lb.source.Schedule(block_bytes=1))
    key = lambda x, y: np.abs(x[:, 1])  # noqa: E731
    assert np.array_equal(rows_with_smallest_key(small, key, 70).x, rows_with_smallest_key(lb.Samples(x, x[:, 0]), key, 70).x)


def test_relabelled_outputs_through_splits_and_sums(rng):
    x = rng.standard_normal((3000, 2))
    source = RelabelledOutputs(lb.Samples(x, np.column_stack([x[:, 0], x[:, 1]])), lambda y: (y > 0).all(axis=1))
    assert source.outputs == 1 and source.dim == 2 and source.size == 3000
    (total,) = source.sum(lambda x, y: (y.sum(axis=0),))
    assert total[0] == np.sum((x > 0).all(axis=1))
    first, second = source.split(0.5, rng=0)
    parts = [part.sum(lambda x, y: (y.sum(axis=0),))[0][0] for part in (first, second)]
    assert sum(parts) == pytest.approx(total[0])


def test_rows_are_projected_and_outputs_kept(rng):
    x, y = rng.standard_normal((50, 5)), rng.standard_normal((50, 2))
    basis = np.linalg.qr(rng.standard_normal((5, 3)))[0]
    view = ProjectedInputs(lb.Samples(x, y), basis)
    assert (view.dim, view.outputs, view.size) == (3, 2, 50)
    rows = view.read(10, 20)
    assert_allclose(rows.x, (x @ basis)[10:20], atol=1e-15)
    assert_array_equal(rows.y, y[10:20])


def test_sums_are_those_of_projected_samples(rng):
    x, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    basis = np.linalg.qr(rng.standard_normal((4, 2)))[0]
    view, copy = ProjectedInputs(lb.Samples(x, y), basis), lb.Samples(x @ basis, y)
    for one, other in zip(*(source.sum(lambda z, t: (z.T @ z, z.T @ t)) for source in (view, copy)), strict=True):
        assert_allclose(one, other, rtol=1e-12)
    first, _ = view.split(0.5, rng=rng)
    assert first.dim == 2 and first.size == 150

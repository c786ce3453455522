"""A source seen through a few directions: the same rows, other inputs, the same sums."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import laybare as lb
from laybare.source import Projected


def test_rows_are_projected_and_outputs_kept(rng):
    x, y = rng.standard_normal((50, 5)), rng.standard_normal((50, 2))
    basis = np.linalg.qr(rng.standard_normal((5, 3)))[0]
    view = Projected(lb.Samples(x, y), basis)
    assert (view.dim, view.outputs, view.size) == (3, 2, 50)
    rows = view.read(10, 20)
    assert_allclose(rows.x, (x @ basis)[10:20], atol=1e-15)
    assert_array_equal(rows.y, y[10:20])


def test_sums_are_those_of_projected_samples(rng):
    x, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    basis = np.linalg.qr(rng.standard_normal((4, 2)))[0]
    view, copy = Projected(lb.Samples(x, y), basis), lb.Samples(x @ basis, y)
    for one, other in zip(*(source.sum(lambda z, t: (z.T @ z, z.T @ t)) for source in (view, copy)), strict=True):
        assert_allclose(one, other, rtol=1e-12)
    first, _ = view.split(0.5, rng=rng)
    assert first.dim == 2 and first.size == 150

"""Jennrich on packed tensors: more parts than dimensions, exactly, and no more parts than there are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.decomposition.joint import flattened_jennrich, flattened_spectrum
from laybare.moments import veronese
from laybare.planted import random_unit_rows


@pytest.mark.parametrize("last", [1, 2])
@pytest.mark.parametrize(("side", "dim", "rank"), [(1, 6, 6), (2, 5, 12), (3, 3, 8)])
def test_parts_of_either_sign_are_found(side: int, dim: int, rank: int, last: int, rng: np.random.Generator) -> None:
    directions, coefficients = random_unit_rows(dim, rank, rng=rng), rng.uniform(0.5, 1.5, rank) * rng.choice([-1, 1], rank)
    order = 2 * side + last
    packed = coefficients @ veronese(directions, order)
    spectrum = flattened_spectrum(packed, dim, side, order)
    assert int(np.sum(spectrum > 1e-10 * spectrum[0])) == rank
    parts = flattened_jennrich(packed, dim, side, last, rank, rng=rng)
    cosines = parts.directions @ directions.T
    pairs = np.abs(cosines).argmax(axis=1)
    signs = np.sign(cosines[np.arange(rank), pairs])
    assert sorted(pairs) == list(range(rank))
    assert_allclose(signs[:, None] * parts.directions, directions[pairs], atol=1e-10)
    assert_allclose(signs**order * parts.coefficients, coefficients[pairs], atol=1e-9)
    assert parts.residual < 1e-11

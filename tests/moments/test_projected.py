"""A projected source is a source: its moments are those of the projected inputs."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import laybare as lb
from laybare.moments import packed_moments
from laybare.moments.projected import Projected
from laybare.source import Source


def test_moments_are_those_of_projected_inputs(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((500, 5)), rng.standard_normal((500, 2))
    basis = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    seen = Projected(lb.Samples(x, y, law=lb.Gaussian(0, 1)), basis)
    assert isinstance(seen, Source)
    assert (seen.dim, seen.outputs, seen.size) == (2, 2, 500)
    assert_allclose(packed_moments(seen, 3).values, packed_moments(lb.Samples(x @ basis, y), 3).values, atol=1e-13)
    first, second = seen.split(0.5, rng=0)
    assert_allclose(first.read(0, 3).x, (x @ basis)[first.rows[:3]])
    assert second.size == 250

"""critical_points counts what is there."""

from __future__ import annotations

import numpy as np
import pytest
from landscapes import drawn, teacher

import laybare as lb
from laybare.landscape import critical_points, pairs_on_spheres, population_g, population_tensor_risk, tensor_risk
from laybare.moments import PackedQuartic, packed_moments


def test_only_the_truth_is_a_minimum_of_g(rng: np.random.Generator) -> None:
    truth = teacher(3, 3, rng, orthonormal=True, ratio=2.0)
    found = lb.landscape.critical_points(population_g(truth, mu=1.0, strength=2.0), starts=6, rng=rng)
    assert len(found.minima) == 1 and found.minima[0].distance < 1e-6 and found.minima[0].runs >= 6
    assert found.saddles and all(point.smallest < 0 and point.value > found.minima[0].value for point in found.saddles)
    assert f"1 minima and {len(found.saddles)} saddles from 6 starts" in str(found)


def test_spurious_minimum_is_found_where_it_is() -> None:
    """Appendix F of Ge, Lee and Ma (2018): from that point P′ does not move, P′ + R goes to the truth."""
    a, r = np.array([1.0, 2.5, 2.5, 2.5]), np.sqrt(0.5)
    start = np.array([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, r, r]])
    stuck = critical_points(pairs_on_spheres(a, np.eye(4)), [start], saddles=False)
    freed = critical_points(pairs_on_spheres(a, np.eye(4), mu=0.05), [start], saddles=False)
    assert stuck.minima[0].kind == "flat minimum" and abs(stuck.minima[0].value - 2) < 1e-9 and stuck.minima[0].distance > 0.5
    assert freed.minima[0].distance < 1e-6


def test_truth_is_optional(rng: np.random.Generator) -> None:
    truth = teacher(3, 3, rng, orthonormal=True, ratio=1.0)
    moments = packed_moments(drawn(truth, 3000, rng), 4)
    objective = tensor_risk(moments.tensor(2)[0], PackedQuartic.of(moments), lb.relu, 3)
    assert np.isnan(critical_points(objective, 2, saddles=False).found[0].distance)
    assert critical_points(objective, 2, saddles=False, truth=truth.directions).found[0].distance < 1.5


def test_same_seed_same_points(rng: np.random.Generator) -> None:
    objective = population_tensor_risk(teacher(3, 3, rng, orthonormal=True))
    one, other = (critical_points(objective, 1, rng=7) for _ in range(2))
    assert [p.value for p in one.found] == [p.value for p in other.found]


def test_no_starts_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="explored from somewhere"):
        critical_points(population_tensor_risk(teacher(3, 3, rng)), 0)

"""One small planted problem for the solvers."""

from __future__ import annotations

import numpy as np
import pytest
from planted_problems import Problem, planted


@pytest.fixture
def small(rng: np.random.Generator) -> Problem:
    return planted(6, 4, 400, rng)

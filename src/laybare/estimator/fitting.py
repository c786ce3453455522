"""What `fit` is given, as `recover` takes it: rows with or without weights, a seed, a number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source import Schedule


def generator_of(random_state: Any) -> np.random.Generator:
    """A generator from what scikit-learn calls a random state: None, a seed, or a RandomState, which moves on."""
    return np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def schedule_of(n_jobs: int | None) -> Schedule:
    """Threads for every pass; None and -1: one for each core. The result is the same for any number."""
    return Schedule(workers=None if n_jobs == -1 else n_jobs)


def weighted_rows(x: Array, sample_weight: Any) -> Array:
    """Which rows count, (n,) of bools. Weights that are zero or equal mean that; others are refused, with the reason.

    Every number of the certificate (noise, standard errors, the tests for missing units) and the split into used and fresh rows
    take the rows to be alike. With unequal weights they would be wrong without a sign of it.
    """
    weights = _check_sample_weight(sample_weight, x, ensure_non_negative=True)  # and not all zero
    counted: Array = weights > 0.0
    kept = weights[counted]
    if kept.min() != kept.max():
        raise InvalidInput(
            f"The sample weights run from {kept.min():.3g} to {kept.max():.3g}.",
            "The certificate judges noise, error bars and fresh rows as if all rows were alike, so only weights that are zero or "
            "equal have a meaning here.",
            "Leave sample_weight out, give zeros for rows to drop, or draw rows in proportion to their weights.")
    return counted

"""TensorLy on the moment tensor that our methods decompose: directions from E[y He4(x)], the rest by least squares."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tasks import Array, Given, Outcome, System, of_parts

import laybare as lb

ORDER = 4
"""The third moment of ReLU units without biases vanishes."""


def tensorly_system(decompose: Callable[[Array, int, int], Array]) -> System:
    """A network from the rank-one parts that `decompose(tensor, rank, seed)` finds."""

    def system(given: Given) -> Outcome:
        source = lb.Samples(given.x, given.y, lb.Gaussian(0, 1))
        tensor = lb.moments.packed_moments(source, ORDER).tensor(ORDER).reshape((given.task.dim,) * ORDER)
        rows = decompose(tensor, given.task.width, given.seed)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return Outcome(_read_out(given, rows), given.task.samples)

    return system


def _read_out(given: Given, rows: Array) -> lb.Network:
    """The fourth moment does not see the sign of a row: of both the one with the larger coefficient, then least squares."""
    none, width = np.zeros(len(rows)), len(rows)
    both = np.maximum(given.x @ np.vstack([rows, -rows]).T, 0.0)
    first = np.linalg.lstsq(both, given.y, rcond=None)[0]
    rows = np.where((np.abs(first[:width]) >= np.abs(first[width:]))[:, None], rows, -rows)
    readout = np.linalg.lstsq(np.maximum(given.x @ rows.T, 0.0), given.y, rcond=None)[0]
    return of_parts(rows, none, readout)


def _als(tensor: Array, rank: int, seed: int) -> Array:
    from tensorly.decomposition import parafac

    found = parafac(tensor, rank, init="random", random_state=seed, n_iter_max=500, tol=1e-10)
    return np.asarray(found.factors[0]).T


def _power(tensor: Array, rank: int, seed: int) -> Array:
    from tensorly.decomposition import symmetric_parafac_power_iteration

    np.random.seed(seed)  # noqa: NPY002  (TensorLy draws from NumPy's own generator here)
    _, factors = symmetric_parafac_power_iteration(tensor, rank, n_repeat=20, n_iteration=50)
    return np.asarray(factors).T


def systems() -> dict[str, System]:
    """By the names of the table."""
    return {"TensorLy CP-ALS, 4th moment": tensorly_system(_als), "TensorLy power iteration, 4th moment": tensorly_system(_power)}

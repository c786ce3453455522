"""Solving with symmetric positive semi-definite matrices that may be close to singular.

Cholesky factors by LAPACK and solutions with them, in place, while other threads run.

The functions of `scipy.linalg.lapack` and `scipy.linalg.blas` hold the interpreter lock and so block other threads
(`tests/numerics/test_lapack.py` counts that). Here ctypes calls the same routines at the addresses SciPy publishes for Cython
and releases the lock. Matrices are square, in Fortran order, single or double; only the lower triangle is read. A small matrix is
done before another thread would notice: SciPy's own functions then save most of the time of the call.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
from scipy.linalg import cython_blas, cython_lapack, lapack

from laybare.numerics.levels import GRAM, TINY
from laybare.numerics.shapes import Array

LOWER, PLAIN, TRANSPOSED, GENERAL = b"L", b"N", b"T", b"N"
"""Flags of BLAS for a triangular matrix: which triangle, plain or transposed, with a general diagonal."""

Integer = ctypes.c_int64
"""Integers for LAPACK, which reads four or eight bytes of them: the same number on little-endian machines."""


SMALL = 64
"""Rows of a matrix up to which the interpreter lock is held. Derived: 64³/3 operations, about as long as a call by ctypes."""

FACTOR = {np.dtype(np.float64): lapack.dpotrf, np.dtype(np.float32): lapack.spotrf}
SOLVE = {np.dtype(np.float64): lapack.dpotrs, np.dtype(np.float32): lapack.spotrs}


def factor_in_place(matrix: Array) -> bool:
    """Overwrite the lower triangle by L of L Lᵀ; False if the matrix is not definite. The upper triangle stays as it was."""
    if 0 < len(matrix) <= SMALL:
        return bool(FACTOR[matrix.dtype](matrix, lower=1, clean=0, overwrite_a=1)[1] == 0)
    return _call("potrf", matrix) == 0


def solve_in_place(lower: Array, columns: Array) -> None:
    """Overwrite columns (p, c), in Fortran order as well, by the solution of L Lᵀ z = columns."""
    assert columns.flags.f_contiguous and columns.dtype == lower.dtype and len(columns) == len(lower)
    if columns.size > 0 and len(lower) <= SMALL:
        SOLVE[lower.dtype](lower, columns, lower=1, overwrite_b=1)
    else:
        _call("potrs", lower, columns)


def solve_one_in_place(lower: Array, column: Array) -> None:
    """The same for a single one, (p,): a quarter of the time that LAPACK takes for a matrix of one column."""
    assert lower.flags.f_contiguous and column.flags.c_contiguous and column.dtype == lower.dtype and len(column) == len(lower)
    size, leading, stride = Integer(len(lower)), Integer(max(1, len(lower))), Integer(1)
    trsv = _routine(_letter(lower) + "trsv", 8)
    for form in (PLAIN, TRANSPOSED):
        trsv(
            LOWER, form, GENERAL, ctypes.byref(size), lower.ctypes.data, ctypes.byref(leading), column.ctypes.data,
            ctypes.byref(stride))


def invert_in_place(lower: Array) -> None:
    """Overwrite the lower triangle, which is L, by that of the inverse of L Lᵀ."""
    _call("potri", lower)


def _call(name: str, matrix: Array, columns: Array | None = None) -> int:
    """Call a routine in place; 0 if it succeeded."""
    assert matrix.flags.f_contiguous and matrix.ndim == 2
    size, leading, info = Integer(len(matrix)), Integer(max(1, len(matrix))), Integer(0)
    right = () if columns is None else (columns.ctypes.data, ctypes.byref(leading))
    count = () if columns is None else (ctypes.byref(Integer(columns.shape[1])),)
    _routine(_letter(matrix) + name, 5 + len(right) + len(count))(
        LOWER, ctypes.byref(size), *count, matrix.ctypes.data, ctypes.byref(leading), *right, ctypes.byref(info))
    return info.value


def _letter(matrix: Array) -> str:
    """The letter of the precision in names of LAPACK routines."""
    return "s" if matrix.dtype == np.float32 else "d"


@cache
def _routine(name: str, arguments: int) -> Callable[..., None]:
    """The routine at the address that SciPy publishes under this name."""
    capsule = (cython_lapack.__pyx_capi__ | cython_blas.__pyx_capi__)[name]
    name_of, address_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address_of(capsule, name_of(capsule)))


Precision: TypeAlias = type[np.floating[Any]]

RIDGES: dict[Precision, tuple[float, ...]] = {np.float64: (1e-13, 1e-10, 1e-7, 1e-4), np.float32: (1e-6, 1e-5, 1e-4, 1e-3)}
"""Shares of the diagonal added in turn until the factor exists. Derived: from the rounding of the precision upwards."""


TRANSPOSE_BLOCK = 128
"""Rows and columns of a block that is transposed in cache. Derived: 128² doubles are 128 kB, an L2 cache."""


def inner(left: Array, right: Array) -> Array:
    """leftᵀ right of contiguous arrays, for statistics that run in several threads.

    NumPy's `@` holds the interpreter lock if the result has at most 500 entries, whatever the number of rows; `dot` releases it,
    but copies slices.
    """
    return np.asarray(np.dot(left.T, right))


class SPDFactor(NamedTuple):
    """A symmetric matrix that stands for another one nearby, factored: L Lᵀ = scale · matrix · scale."""

    lower: Array
    scale: Array

    def solve(self, right: Array) -> Array:
        """Solution for one right-hand side (p,) or several (p, columns), in double precision if the factor is."""
        scale = self.scale.reshape(-1, *[1] * (right.ndim - 1))
        scaled = (scale * right).astype(self.lower.dtype, copy=False)
        if scaled.size > len(scaled):
            columns = np.array(scaled, order="F")
            solve_in_place(self.lower, columns)
            return np.asarray(scale * columns)
        solve_one_in_place(self.lower, scaled.reshape(-1))
        return np.asarray(scale * scaled)


def factor_spd(matrix: Array, dtype: Precision = np.float64) -> SPDFactor:
    """Cholesky factor, with as much ridge as it takes for a matrix that is singular up to rounding: P³/3 operations."""
    with np.errstate(over="ignore", invalid="ignore"):
        diagonal = matrix.diagonal()
        scale = 1.0 / np.sqrt(np.maximum(np.maximum(diagonal, 1e-3 * diagonal.mean()), TINY))
    for ridge in RIDGES[dtype]:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.array(matrix.T, dtype=dtype, order="F")  # in the order of LAPACK, which may overwrite it
            scaled *= scale.astype(dtype)[:, None]
            scaled *= scale.astype(dtype)
        scaled.T.ravel()[:: len(matrix) + 1] += ridge
        if factor_in_place(scaled):
            return SPDFactor(scaled, scale)
    return SPDFactor(np.asfortranarray(np.eye(len(matrix), dtype=dtype)), scale)


def solve_spd(matrix: Array, right: Array) -> Array:
    """Solution of matrix · z = right: Cholesky on the unit-diagonal scaling, or the pseudo-inverse when that breaks down.

    `right` is (p,) or (p, columns). Scaling to a unit diagonal is within a factor √p of the best diagonal scaling
    (van der Sluis 1969), so that units of very different size do not spoil each other. Where a number is not finite, or becomes
    so by scaling, the solution is NaN: a solver then rejects the step. (LAPACK's eigenvalue routines may never return from NaN,
    nor from numbers of very different size: in a definite matrix of unit diagonal none is beyond 1, and what is, is rounding.)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scale = _to_unit_diagonal(matrix)
        scaled = matrix * scale[:, None] * scale
        columns = right.reshape(len(right), -1) * scale[:, None]
        if not (math.isfinite(scaled.sum()) and math.isfinite(columns.sum())):
            return np.full(right.shape, np.nan)
    factor, solved = np.array(scaled, float, order="F"), np.array(columns, float, order="F")
    if factor_in_place(factor) and np.square(factor.diagonal()).min(initial=1.0) >= GRAM:
        solve_in_place(factor, solved)
    else:
        values, vectors = scipy.linalg.eigh(np.clip(scaled, -1.0, 1.0), check_finite=False)
        kept = values > GRAM * values[-1]
        V = vectors[:, kept]
        solved = V @ ((V.T @ columns) / values[kept, None])
    with np.errstate(over="ignore"):
        solution: Array = (solved * scale[:, None]).reshape(right.shape)
    return solution


def inverse_spd(matrix: Array) -> Array:
    """The inverse, by a factor of the unit-diagonal scaling; the pseudo-inverse of `solve_spd` when that breaks down.

    In the place of one copy: for a thousand rows, new memory took longer than the inverse.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scale = _to_unit_diagonal(matrix)
        inverse: Array = matrix * scale[:, None]
        inverse *= scale
        lower = inverse.T  # in Fortran order, and the same matrix
        if not factor_in_place(lower) or not np.square(lower.diagonal()).min(initial=1.0) >= GRAM:
            return solve_spd(matrix, np.eye(len(matrix)))
        invert_in_place(lower)
        inverse *= scale[:, None]
        inverse *= scale
        _mirror_upper(inverse)
        return inverse


def _to_unit_diagonal(matrix: Array) -> Array:
    """Scales that make the diagonal 1; 0 where there is none, or by rounding a negative one: nothing is known of that unknown,
    and its solution is 0."""
    diagonal = matrix.diagonal()
    return np.asarray(np.where(diagonal <= 0.0, 0.0, 1.0 / np.sqrt(np.maximum(diagonal, TINY))))


def _mirror_upper(matrix: Array) -> None:
    """Make a square matrix symmetric by its upper triangle, block by block."""
    for start in range(0, len(matrix), TRANSPOSE_BLOCK):
        rows = slice(start, start + TRANSPOSE_BLOCK)
        for left in range(0, start, TRANSPOSE_BLOCK):
            matrix[rows, left : left + TRANSPOSE_BLOCK] = matrix[left : left + TRANSPOSE_BLOCK, rows].T
        own = matrix[rows, rows]
        own[:] = np.triu(own) + np.triu(own, 1).T

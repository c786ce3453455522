"""Cholesky factors by LAPACK and solutions with them, in place, while other threads run.

The functions of `scipy.linalg.lapack` and `scipy.linalg.blas` hold the interpreter lock and so block other threads
(`tests/numerics/test_lapack.py` counts that). Here ctypes calls the same routines at the addresses SciPy publishes for Cython
and releases the lock. Matrices are square, in Fortran order, single or double; only the lower triangle is read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from laybare.numerics.shapes import Array

LOWER, PLAIN, TRANSPOSED, GENERAL = b"L", b"N", b"T", b"N"
"""Flags of BLAS for a triangular matrix: which triangle, plain or transposed, with a general diagonal."""

Integer = ctypes.c_int64
"""Integers for LAPACK, which reads four or eight bytes of them: the same number on little-endian machines."""


def factor_in_place(matrix: Array) -> bool:
    """Overwrite the lower triangle by L of L Lᵀ; False if the matrix is not definite. The upper triangle stays as it was."""
    return _call("potrf", matrix) == 0


def solve_in_place(lower: Array, columns: Array) -> None:
    """Overwrite columns (p, c), in Fortran order as well, by the solution of L Lᵀ z = columns."""
    assert columns.flags.f_contiguous and columns.dtype == lower.dtype and len(columns) == len(lower)
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

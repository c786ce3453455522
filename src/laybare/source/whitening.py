"""Mean, second moment and whitening of the inputs, in passes that lose no digits to a large mean.

Let S be the covariance, D the diagonal matrix of standard deviations and R = D⁻¹ S D⁻¹ the correlations. We whiten by
z = (x - mean) D⁻¹ R^(-1/2). Scaling the columns first makes the accuracy independent of their units; the symmetric root then
keeps every z_i as close to its own standardised x_i as whitening allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import qr

from laybare.errors import InvalidInput, TooFewSamples
from laybare.numerics.linear_algebra import inner
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Affine, Source

SMALLEST_CORRELATION_EIGENVALUE = 1e-12
"""Smaller eigenvalues of the correlations count as zero. Derived: at this value the spread is 1e-6 of the usual one, and
whitening, which divides by it, leaves about ten of sixteen digits."""

DEPENDENCE_SHARE = 1e-4
"""Smallest coefficient, relative to the largest, of a column in a linear dependence that an error message names.
Checked by `pytest tests/source/test_whitening.py`."""


def whitening_map(source: Source, *, centred: bool = True) -> Affine:
    """The whitening map of the law of `source`; if not centred, by the second moment about 0."""
    transform = source.law.whitening(source)
    if centred or not transform.mean.any():
        return transform
    origin = np.zeros(source.dim)
    return Affine(origin, inverse_root(second_moment(source, origin), input_names(source)))


def input_mean(source: Source) -> Array:
    """Mean of the inputs; one pass. Differences to the first row are summed, so that the mean of a constant column is exact."""
    first = source.read(0, 1).x[0].copy()

    def differences(x: Array, y: Array) -> Sums:
        with np.errstate(over="ignore", invalid="ignore"):
            return (np.sum(x - first, axis=0),)

    (total,) = source.sum(differences, stage="input mean")
    mean: Array = first + total / source.size
    return mean


def second_moment(source: Source, mean: Array) -> Array:
    """Mean of (x - mean)(x - mean)ᵀ, divided by n; one pass."""
    if source.size <= source.dim:
        raise TooFewSamples(
            f"{source.size} sample{'s' * (source.size > 1)} in dimension {source.dim}.",
            "The covariance is singular, so they cannot be whitened.",
            f"Give more than {source.dim} samples (ten times as many for a usable estimate), or give the law with its mean and "
            "covariance.", samples=source.size, dim=source.dim, needed=source.dim + 1)

    def gram(x: Array, y: Array) -> Sums:
        with np.errstate(over="ignore", invalid="ignore"):  # `inverse_root` raises if it is not finite
            centred = x - mean
            return (inner(centred, centred),)

    (total,) = source.sum(gram, stage="input covariance")
    moment: Array = total / source.size
    return moment


def inverse_root(cov: Array, names: Sequence[str] = ()) -> Array:
    """The matrix D⁻¹ R^(-1/2) that whitens rows (see the module); the error for a singular covariance names its columns."""
    variances = np.diag(cov)
    if not np.isfinite(cov).all():
        columns = np.flatnonzero(~np.isfinite(cov).all(axis=0))
        raise InvalidInput(
            f"The covariance of the inputs overflows ({_list_columns(columns, names)}).",
            "Squares of numbers above 1e154 overflow.",
            "Give such columns in another unit: divide them by their standard deviation.", columns=columns.tolist())
    constant = np.flatnonzero(~(variances > 0))
    if len(constant):
        raise InvalidInput(
            f"{_list_columns(constant, names)} {'is' if len(constant) == 1 else 'are'} constant "
            f"(variance {variances[constant[0]]:g}).",
            "A direction without spread cannot be whitened, and weights along it cannot be distinguished from biases.",
            f"Leave such columns out{_how_to_drop(constant, names)}.", columns=constant.tolist())
    spread = np.sqrt(variances)
    values, vectors = np.linalg.eigh(cov / np.outer(spread, spread))
    null = vectors[:, values < SMALLEST_CORRELATION_EIGENVALUE]
    if null.size:
        columns = _dependent(null)
        raise InvalidInput(
            f"{_list_columns(columns, names)} are linearly dependent (smallest eigenvalue of the correlations {values[0]:.1e}).",
            "Weights along a direction without spread cannot be determined.",
            f"Leave out one of these columns ({null.shape[1]} in all must go){_how_to_drop(columns[-1:], names)}.",
            columns=columns.tolist(), eigenvalue=float(values[0]))
    root: Array = (vectors / np.sqrt(values)) @ vectors.T / spread[:, None]
    return root


def input_names(source: Source) -> tuple[str, ...]:
    """Names of the inputs, if the source or what it is a view of has them."""
    while not hasattr(source, "columns") and hasattr(source, "origin"):
        source = source.origin
    names: tuple[str, ...] = getattr(getattr(source, "columns", None), "inputs", ())
    return names if len(names) == source.dim else ()


def _dependent(null: Array) -> Array:
    """Columns of the sparsest linear dependence: the sparsest row of the echelon form of the null space."""
    *_, pivots = qr(null.T, mode="economic", pivoting=True)
    pivots = pivots[: null.shape[1]]
    involved = np.abs(null @ np.linalg.inv(null[pivots])) > DEPENDENCE_SHARE
    columns: Array = np.flatnonzero(involved[:, np.argmin(involved.sum(axis=0))])
    return columns


def _how_to_drop(columns: Array, names: Sequence[str]) -> str:
    return f", of a file with drop={','.join(names[column] for column in columns)!r}" if names else ""


def _list_columns(columns: Array, names: Sequence[str]) -> str:
    shown = [names[column] if names else str(column) for column in columns[:6]] + (["..."] if len(columns) > 6 else [])
    return f"Column {shown[0]}" if len(shown) == 1 else f"Columns {', '.join(shown[:-1])} and {shown[-1]}"

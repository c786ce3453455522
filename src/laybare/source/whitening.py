"""Mean, second moment and whitening of the inputs, in passes that lose no digits to a large mean.

Let S be the covariance, D the diagonal matrix of standard deviations and R = D⁻¹ S D⁻¹ the correlations. We whiten by
z = (x - mean) D⁻¹ R^(-1/2): the columns are first brought to one unit, so that a column in millimetres beside one in light years
costs no accuracy; then the symmetric root keeps every z_i as close to its own standardised x_i as whitening allows.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr

from laybare.errors import InvalidInput, TooFewSamples
from laybare.linear_algebra import inner
from laybare.shapes import Array, Sums
from laybare.source.affine import Affine
from laybare.source.protocol import Source

SINGULAR = 1e-12
"""Smallest accepted eigenvalue of the correlations: a direction with a millionth of the usual spread keeps about ten digits."""


def whitening_map(source: Source, *, centred: bool = True) -> Affine:
    """The map to white inputs that the law of `source` asks for; without centring, by the second moment about 0."""
    transform = source.law.whitening(source)
    if centred or not transform.mean.any():
        return transform
    origin = np.zeros(source.dim)
    return Affine(origin, inverse_root(second_moment(source, origin)))


def input_mean(source: Source) -> Array:
    """Mean of the inputs; one pass. Differences to the first row are added, so that a constant column gives itself exactly."""
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
            f"{source.size} samples in dimension {source.dim}.",
            "Their covariance is singular whatever the inputs are, so they cannot be whitened.",
            f"Give more than {source.dim} samples (ten times as many for a usable estimate), or give the law with its mean and "
            "covariance.", samples=source.size, dim=source.dim, needed=source.dim + 1)

    def gram(x: Array, y: Array) -> Sums:
        with np.errstate(over="ignore", invalid="ignore"):  # `inverse_root` refuses what is not finite
            centred = x - mean
            return (inner(centred, centred),)

    (total,) = source.sum(gram, stage="input covariance")
    moment: Array = total / source.size
    return moment


def inverse_root(cov: Array) -> Array:
    """The matrix D⁻¹ R^(-1/2) that whitens rows (see the module); refuses a singular covariance by naming its columns."""
    variances = np.diag(cov)
    if not np.isfinite(cov).all():
        columns = np.flatnonzero(~np.isfinite(cov).all(axis=0))
        raise InvalidInput(
            f"The covariance of the inputs overflows ({_named(columns)}).", "Squares of numbers beyond 1e154 are no numbers.",
            "Give such columns in another unit: divide them by their standard deviation.", columns=columns.tolist())
    constant = np.flatnonzero(~(variances > 0))
    if len(constant):
        raise InvalidInput(
            f"{_named(constant)} {'is' if len(constant) == 1 else 'are'} constant (variance {variances[constant[0]]:g}).",
            "A direction without spread cannot be whitened, and weights along it cannot be told from biases.",
            "Leave such columns out.", columns=constant.tolist())
    spread = np.sqrt(variances)
    values, vectors = np.linalg.eigh(cov / np.outer(spread, spread))
    null = vectors[:, values < SINGULAR]
    if null.size:
        columns = _dependent(null)
        raise InvalidInput(
            f"{_named(columns)} are linearly dependent (smallest eigenvalue of the correlations {values[0]:.1e}).",
            "Weights along a direction without spread cannot be determined.",
            f"Leave out one of these columns ({null.shape[1]} in all must go).", columns=columns.tolist(),
            eigenvalue=float(values[0]))
    root: Array = (vectors / np.sqrt(values)) @ vectors.T / spread[:, None]
    return root


def _dependent(null: Array) -> Array:
    """Columns of the shortest dependence: reduce the null space to echelon form, take its sparsest vector."""
    *_, pivots = qr(null.T, mode="economic", pivoting=True)
    pivots = pivots[: null.shape[1]]
    involved = np.abs(null @ np.linalg.inv(null[pivots])) > 1e-4
    columns: Array = np.flatnonzero(involved[:, np.argmin(involved.sum(axis=0))])
    return columns


def _named(columns: Array) -> str:
    shown = [str(column) for column in columns[:6]] + (["..."] if len(columns) > 6 else [])
    return f"Column {shown[0]}" if len(shown) == 1 else f"Columns {', '.join(shown[:-1])} and {shown[-1]}"

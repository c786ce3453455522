"""What lies above the recovered layer, as a function of its features: a polynomial, or any regressor of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from laybare.errors import InvalidInput
from laybare.moments import least_squares
from laybare.networks import Layer
from laybare.networks.polynomials import Polynomial, count_multilinear, monomials, multilinear, with_powers
from laybare.shapes import Array, Sums
from laybare.source import Source

MOST_MONOMIALS = 600
ROWS_A_MONOMIAL = 20
"""Above so many monomials, or below so many rows for each, the degree is lowered."""

FEWEST = 20
"""Rows in which a monomial must not vanish to get a coefficient of its own."""

MOST_ROWS = 50_000
"""Rows that a regressor which needs all of them at once is given."""


@dataclass(frozen=True, eq=False)
class Top:
    """A fitted function of features (n, width) -> (n,) or (n, outputs), and its R² on rows that it was not fitted to."""

    function: Callable[[Array], Array]
    r2: float

    def __call__(self, features: Array) -> Array:
        """Outputs at the rows of `features`."""
        return np.asarray(self.function(features))


@runtime_checkable
class TopFitter(Protocol):
    """A way to fit the function above a layer."""

    def fit(self, source: Source, layer: Layer) -> Callable[[Array], Array]:
        """A function of the layer's features, fitted to the outputs of `source`."""


@dataclass(frozen=True, kw_only=True)
class MonomialTop:
    """Least squares on products of up to `degree` different features and powers of single ones.

    `degree` None means 3, or less if the rows do not allow it; powers up to the third enter unless features are 0 or 1. Deep tops
    had a held-out R² of 0.98 to 0.997, more than boosting on the same features.
    """

    degree: int | None = None

    def fit(self, source: Source, layer: Layer) -> Polynomial:
        """The polynomial of least squares; one pass."""
        exponents = _seen(source, layer, self.exponents(layer, source.size))
        fit = least_squares(source, lambda x: monomials(exponents, layer(x)))
        return Polynomial(exponents, fit.coefficients[:, 0] if source.outputs == 1 else fit.coefficients)

    def exponents(self, layer: Layer, rows: int) -> Array:
        """Monomials that `rows` rows allow."""
        powers = 1 if layer.activation.degree == 0 else 3
        room = min(MOST_MONOMIALS, rows // ROWS_A_MONOMIAL) - (powers - 1) * layer.width
        allowed = [degree for degree in (3, 2, 1) if count_multilinear(layer.width, degree) <= room]
        degree = self.degree if self.degree is not None else next(iter(allowed), 1)
        return with_powers(multilinear(layer.width, degree), powers)


def _seen(source: Source, layer: Layer, exponents: Array) -> Array:
    """Monomials that are not zero in at least FEWEST rows; the others are products of units that hardly ever fire together."""

    def count(x: Array, y: Array) -> Sums:
        return (np.count_nonzero(monomials(exponents, layer(x)), axis=0),)

    (rows,) = source.sum(count, stage="top")
    return np.asarray(exponents[rows >= FEWEST])


@dataclass(frozen=True, eq=False)
class RegressorTop:
    """Any regressor with fit(X, y) and predict(X), such as those of scikit-learn; a copy of it is fitted to the features."""

    regressor: Any

    def fit(self, source: Source, layer: Layer) -> Callable[[Array], Array]:
        """`predict` of the fitted copy."""
        if not all(callable(getattr(self.regressor, name, None)) for name in ("fit", "predict")):
            raise InvalidInput(
                f"The regressor is a {type(self.regressor).__name__}.", "It needs fit(X, y) and predict(X).",
                "Give one of scikit-learn's regressors, or MonomialTop().")
        from sklearn.base import clone

        x, y = source.read(0, min(source.size, MOST_ROWS))
        model = clone(self.regressor).fit(layer(x), y[:, 0] if source.outputs == 1 else y)
        predict: Callable[[Array], Array] = model.predict
        return predict


def held_out_r2(source: Source, layer: Layer, function: Callable[[Array], Array]) -> float:
    """1 - Σ(y - top)² / Σ(y - mean)² over all outputs; one pass."""

    def squares(x: Array, y: Array) -> Sums:
        residual = y - np.asarray(function(layer(x))).reshape(y.shape)
        return np.asarray(np.sum(residual**2)), y.sum(axis=0), (y**2).sum(axis=0)

    left, first, second = source.sum(squares, stage="top")
    whole = float(np.sum(second - first**2 / source.size))
    return 1.0 - float(left) / whole if whole > 0 else float("nan")

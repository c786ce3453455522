"""A polynomial above a layer that is given, and what it leaves unexplained on rows that nothing has seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from laybare.certificate import Claim
from laybare.errors import InvalidInput
from laybare.moments import least_squares
from laybare.networks import Layer
from laybare.networks.polynomials import Polynomial, monomials, multilinear
from laybare.shapes import Array, Sums
from laybare.source import Source

EXACT = 1e-6
"""Root mean square residual over the spread of y: exact fits end near 1e-13, tops of another form above 1e-2."""

FEW_UNITS, DEGREE = 8, 3
"""Up to so many units all products enter; of more units those of so many."""


def check_one_output(source: Source) -> None:
    """Refuse several outputs."""
    if source.outputs > 1:
        raise InvalidInput(
            f"There are {source.outputs} outputs.", "Smooth and exponential units are fitted to one.",
            "Give one output at a time; step and ReLU units take several.", outputs=source.outputs)


def polynomial_above(source: Source, layer: Layer) -> Polynomial:
    """The multilinear polynomial of least squares above `layer`; one pass."""
    exponents = multilinear(layer.width, layer.width if layer.width <= FEW_UNITS else DEGREE)
    return Polynomial(exponents, least_squares(source, lambda x: monomials(exponents, layer(x))).coefficients[:, 0])


def exact_on_fresh(relative: float, rows: int) -> Claim:
    """Nothing but rounding left on rows that nothing has seen."""
    return Claim(
        "held-out residual over the spread of y", relative, EXACT, relative <= EXACT, "tested",
        f"root mean square on {rows:,} fresh rows; more than rounding means label noise, or a top of another form than the "
        "polynomial that was fitted, and then directions may be off by hundredths of a radian.")


def relative_residual(source: Source, function: Callable[[Array], Array]) -> float:
    """Root mean square of y - function(x) over the spread of y; one pass."""

    def squares(x: Array, y: Array) -> Sums:
        return np.asarray(np.sum((y[:, 0] - function(x)) ** 2)), y.sum(axis=0), np.asarray(np.sum(y**2))

    left, first, second = (part.item() for part in source.sum(squares, stage="residual"))
    return float(np.sqrt(left / max(second - first**2 / source.size, np.finfo(float).tiny)))

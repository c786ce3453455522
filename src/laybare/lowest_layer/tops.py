"""The function above the layer: a polynomial or any regressor of its features, or a polynomial fitted together with the units.

The joint fit f ≈ Σ_S c_S Π_{i∈S} act(w_i·x + b_i) is for smooth units: Levenberg-Marquardt in all parameters at once. With M the
monomials of the features and J_i = (∂P/∂X_i) act'(u_i) (x, 1), a step solves the damped normal equations of [J, M]; they come
from one pass, with the residual formed inside it. It needs directions that are right to 0.1 or 0.2 rad, whatever the first
thresholds; a top of another form leaves a residual.
Source: ours; Goel and Panigrahy (2019) leave smooth units at the accuracy of moments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.moments import least_squares
from laybare.networks import Layer
from laybare.networks.polynomials import Polynomial, count_multilinear, monomials, multilinear, with_powers
from laybare.numerics.linear_algebra import solve_spd
from laybare.numerics.shapes import Array, Progress, Sums
from laybare.solver import Effort, FitScale, Iterate, Trace, Trial, damped_descent
from laybare.source import Source
from laybare.source.problem import total_variation


@dataclass(frozen=True, kw_only=True)
class TopOptions:
    """Sizes of the functions above a layer."""

    max_monomials: int = 600  # beyond it the degree is lowered. Checked by `pytest tests/lowest_layer`.
    rows_per_monomial: int = 20  # with fewer rows the degree is lowered. Checked by `pytest tests/lowest_layer`.
    nonzero_rows: int = 20  # in which a monomial must not vanish to have a coefficient. Checked by `pytest tests/lowest_layer`.
    regressor_rows: int = 50_000  # rows that a regressor is given at once. Checked by `pytest tests/lowest_layer`.
    few_units: int = 8  # up to it all products enter a multilinear top, 2⁸ = 256. Checked by `pytest tests/lowest_layer`.
    product_degree: int = 3  # largest product of more units. Checked by `pytest tests/lowest_layer`.


TOP = TopOptions()


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

    `degree` None means 3, or less if the rows do not allow it; powers up to the third enter unless features are 0 or 1.
    """

    degree: int | None = None

    def fit(self, source: Source, layer: Layer) -> Polynomial:
        """The polynomial of least squares; one pass."""
        exponents = _monomials_in_use(source, layer, self.exponents(layer, source.size))
        fit = least_squares(source, lambda x: monomials(exponents, layer(x)))
        return Polynomial(exponents, fit.coefficients[:, 0] if source.outputs == 1 else fit.coefficients)

    def exponents(self, layer: Layer, rows: int) -> Array:
        """Monomials that `rows` rows allow."""
        powers = 1 if layer.activation.degree == 0 else 3
        room = min(TOP.max_monomials, rows // TOP.rows_per_monomial) - (powers - 1) * layer.width
        allowed = [degree for degree in (3, 2, 1) if count_multilinear(layer.width, degree) <= room]
        degree = self.degree if self.degree is not None else next(iter(allowed), 1)
        return with_powers(multilinear(layer.width, degree), powers)


def _monomials_in_use(source: Source, layer: Layer, exponents: Array) -> Array:
    """Monomials that do not vanish in enough rows; the others are products of units that are hardly ever active together."""
    (rows,) = source.sum(lambda x, y: (np.count_nonzero(monomials(exponents, layer(x)), axis=0),), stage="top")
    return np.asarray(exponents[rows >= TOP.nonzero_rows])


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

        x, y = source.read(0, min(source.size, TOP.regressor_rows))
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


def check_one_output(source: Source) -> None:
    """Refuse several outputs."""
    if source.outputs > 1:
        raise InvalidInput(
            f"There are {source.outputs} outputs.", "Smooth and exponential units are fitted to one.",
            "Give one output at a time; step and ReLU units take several.", outputs=source.outputs)


def fit_polynomial(source: Source, layer: Layer) -> Polynomial:
    """The multilinear polynomial of least squares above `layer`; one pass."""
    exponents = multilinear(layer.width, layer.width if layer.width <= TOP.few_units else TOP.product_degree)
    return Polynomial(exponents, least_squares(source, lambda x: monomials(exponents, layer(x))).coefficients[:, 0])


def relative_residual(source: Source, function: Callable[[Array], Array]) -> float:
    """Root mean square of y - function(x) over the spread of y; one pass."""

    def squares(x: Array, y: Array) -> Sums:
        return np.asarray(np.sum((y[:, 0] - function(x)) ** 2)), y.sum(axis=0), np.asarray(np.sum(y**2))

    left, first, second = (part.item() for part in source.sum(squares, stage="residual"))
    return float(np.sqrt(left / max(second - first**2 / source.size, np.finfo(float).tiny)))


class JointModel(NamedTuple):
    """Hidden rows (k, d + 1) = [w, b], and the polynomial of their features."""

    rows: Array
    top: Polynomial
    activation: Activation

    @property
    def layer(self) -> Layer:
        return Layer(self.rows[:, :-1], self.rows[:, -1], self.activation)

    def __call__(self, x: Array) -> Array:
        """Outputs, (n,)."""
        return self.top(self.layer(x))


class JointFit(NamedTuple):
    """Where the solver stopped, the residual sum of squares and the normal matrix (rows first) there, and how it got there."""

    joint: JointModel
    loss: float
    normal: Array
    trace: Trace


@dataclass(frozen=True, eq=False)
class _Normal:
    """Statistic: [J, M]ᵀ[J, M], [J, M]ᵀr, r·r."""

    joint: JointModel

    @property
    def row_floats(self) -> int:
        return 3 * (self.joint.rows.size + len(self.joint.top.coefficients))

    def __call__(self, x: Array, y: Array) -> Sums:
        rows, top, activation = self.joint
        x1 = np.column_stack([x, np.ones(len(x))])
        u = x1 @ rows.T
        features = activation(u)
        M = monomials(top.exponents, features)
        slopes = top.gradient(features) * activation.derivative(u)
        J = (slopes[:, :, None] * x1[:, None, :]).reshape(len(x), -1)
        both = np.hstack([J, M])
        r = y[:, 0] - M @ top.coefficients
        return both.T @ both, both.T @ r, np.asarray(r @ r)


def joint_model_at(source: Source, weights: Array, thresholds: Array, exponents: Array, activation: Activation) -> JointModel:
    """Least-squares coefficients on top of given rows."""
    layer = Layer(weights, -thresholds, activation)
    fit = least_squares(source, lambda x: monomials(exponents, layer(x)))
    return JointModel(layer.rows, Polynomial(exponents, fit.coefficients[:, 0]), activation)


def fit_joint(source: Source, start: JointModel, *, progress: Progress | None = None) -> JointFit:
    """Minimise the squared error from `start`; one pass per step and one per trial."""
    scale = FitScale(total_variation(source), source.size, passes=2)
    end = damped_descent(_JointStep(source), start, scale, effort=Effort(), progress=progress)
    return JointFit(end.point, end.loss, end.sums.normal, end.trace)


@dataclass(frozen=True, eq=False)
class _JointStep:
    """The step rule: all parameters at once; one pass gives the loss of a point and its normal equations."""

    source: Source
    passes: ClassVar[float] = 0.0

    def evaluate(self, point: JointModel) -> Iterate[JointModel, _Sums]:
        with np.errstate(over="ignore", invalid="ignore"):
            normal, gradient, loss = self.source.sum(_Normal(point), stage="normal equations")
        return Iterate(point, float(loss), _Sums(normal, gradient, float(loss)))

    def system(self, here: Iterate[JointModel, _Sums]) -> Iterate[JointModel, _Sums]:
        return here

    def trial(self, system: Iterate[JointModel, _Sums], damping: float) -> Trial[JointModel]:
        (normal, gradient, _), (rows, top, _) = system.sums, system.point
        delta = solve_spd(normal + damping * np.diag(np.diag(normal)), gradient)
        predicted = float(delta @ (2.0 * gradient - normal @ delta))
        moved = Polynomial(top.exponents, top.coefficients + delta[rows.size :])
        point = system.point._replace(rows=rows + delta[: rows.size].reshape(rows.shape), top=moved)
        return Trial(point, predicted, float(np.abs(delta).max()))


class _Sums(NamedTuple):
    normal: Array
    gradient: Array
    loss: float

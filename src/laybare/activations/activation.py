"""The activation as an object: a frozen record of functions and symmetries. What a user writes is checked once, on 78 points.

Second derivatives of a user's activation are differences of the derivative that never straddle a kink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from laybare.activations.hermite_coefficients import Properties, at_zero_bias, expected_product, measure
from laybare.errors import InvalidInput, LaybareError
from laybare.numerics.checks import as_reals, check_number, check_whole, show_value
from laybare.numerics.shapes import Array

Number: TypeAlias = float | int | np.number[Any]
Numbers: TypeAlias = Array | Number
CUSTOM = "custom:"

LARGEST_POWER = 100.0
"""Largest p of t₊^p. Derived: beyond it moments leave the range of a float."""

MAX_ORDER = 170
"""Largest order of a Hermite coefficient. Derived: 171! is no float."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Activation:
    """An elementwise function with all that recovery needs to know about it.

    Made by the built-in names (`relu`, `leaky_relu(0.1)`, ...) or by `Activation.custom`, not by hand. Two built-in
    activations are equal if they have the same name and parameter, two custom ones if they have the same two callables too.

    Attributes
    ----------
    name : str; `activation_named(name)` gives the activation back, except for custom ones, whose name starts with "custom:"
    kinks : where the function or its derivative jumps
    degree : p if act(ct) = c^p act(t) for all c > 0, else None
    centre : c if act(t) + act(-t) = 2c, that is if act - c is odd (almost everywhere, for the step), else None
    mirror : m if act(t) - act(-t) = m·t, so that a unit equals its mirror image plus a linear part, else None; 0 means even
    """

    name: str
    value: Callable[[Array], Array] = field(compare=False)
    slope: Callable[[Array], Array] = field(compare=False)
    curvature: Callable[[Array], Array] | None = field(default=None, compare=False)
    kinks: tuple[float, ...] = ()
    degree: float | None = None
    centre: float | None = None
    mirror: float | None = None
    coefficients: Callable[[int, Array, Array], Array] | None = field(default=None, compare=False)
    origin: tuple[Callable[[Array], Array], ...] = ()
    """The user's callables: two custom activations of one name are equal only if these are."""

    @staticmethod
    def custom(
        name: str,
        value: Callable[[Array], Array],
        derivative: Callable[[Array], Array],
        *,
        kinks: Sequence[Number] = (),
        degree: Number | None = None,
        parity: str | None = None,
        centre: Number | None = None,
        mirror: Number | None = None,
    ) -> Activation:
        """An activation from two callables, each mapping a float array to one of the same shape.

        Parameters
        ----------
        name : any text; the activation's name becomes "custom:" + name, and files that hold it cannot be loaded
        value, derivative : the function and its derivative; checked against each other at 78 points of [-4, 4]
        kinks : every point where the function or a derivative jumps: Hermite coefficients are integrals split there
        degree, centre, mirror : as in the attributes, and checked; leave out what does not hold
        parity : "odd" is short for centre=0, "even" for mirror=0

        Examples
        --------
        >>> from scipy.special import expit
        >>> swish = Activation.custom("swish", lambda t: t * expit(t), lambda t: expit(t) * (1 + t * expit(-t)), mirror=1.0)
        >>> round(float(swish.hermite(1)), 12)
        0.5
        """
        if parity is not None and not (isinstance(parity, str) and parity in ("odd", "even")):
            raise InvalidInput(
                f"The parity is {show_value(parity)}.", "A function is odd, even or neither.", 'Give "odd", "even" or None.')
        if (parity == "odd" and centre) or (parity == "even" and mirror):
            raise InvalidInput(
                f"The parity {parity!r} comes with centre {centre} and mirror {mirror}.",
                "Odd means centre 0, even means mirror 0.", "Give the parity alone, or the numbers alone.")
        claims = Claims(
            kinks=_kinks(kinks),
            degree=None if degree is None else check_number("degree", degree, -LARGEST_POWER, LARGEST_POWER),
            centre=0.0 if parity == "odd" else None if centre is None else check_number("centre", centre),
            mirror=0.0 if parity == "even" else None if mirror is None else check_number("mirror", mirror))
        check_claims(name, value, derivative, claims)
        return Activation(name=CUSTOM + name, value=value, slope=derivative, origin=(value, derivative), **claims._asdict())

    @property
    def parity(self) -> str | None:
        """The word "odd" or "even", or None."""
        if self.centre == 0:
            return "odd"
        return "even" if self.mirror == 0 else None

    @overload
    def __call__(self, t: Array) -> Array: ...
    @overload
    def __call__(self, t: float) -> float: ...
    def __call__(self, t: Numbers) -> Array | float:
        """act(t), elementwise."""
        return _elementwise(self.value, t)

    @overload
    def derivative(self, t: Array) -> Array: ...
    @overload
    def derivative(self, t: float) -> float: ...
    def derivative(self, t: Numbers) -> Array | float:
        """act'(t), elementwise; at a kink that of the piece on the left, and 0 for the absolute value."""
        return _elementwise(self.slope, t)

    def in_precision(self, t: Array) -> Array:
        """act(t) in the precision of t, single or double, in memory of its own.

        A user's callables always see doubles, and may return their argument itself.
        """
        return self(t).astype(t.dtype) if self.origin else self.value(t)

    def value_and_slope(self, t: Array) -> tuple[Array, Array]:
        """Value and derivative in the precision of t, as `in_precision`."""
        return self.in_precision(t), self.derivative(t).astype(t.dtype) if self.origin else self.slope(t)

    @overload
    def second_derivative(self, t: Array) -> Array: ...
    @overload
    def second_derivative(self, t: float) -> float: ...
    def second_derivative(self, t: Numbers) -> Array | float:
        """act''(t) between the kinks, elementwise; at a kink that of the piece on the left, without the jump of act'.

        In closed form for built-in activations, by central differences of the derivative (1e-8) for custom ones.
        """
        return _elementwise(self.curvature or partial(differentiate_slope, self.slope, self.kinks), t)

    @overload
    def hermite(self, order: int, scale: float = 1.0, bias: float = 0.0) -> float: ...
    @overload
    def hermite(self, order: int, scale: Numbers = 1.0, bias: Numbers = 0.0) -> Array: ...
    @np.errstate(all="ignore")
    def hermite(self, order: int, scale: Numbers = 1.0, bias: Numbers = 0.0) -> Array | float:
        """Hermite coefficient E[act(scale·g + bias) He_order(g)], g ~ N(0, 1), He unnormalised (He₂ = g² - 1).

        For f(x) = Σᵢ aᵢ act(wᵢ·x + bᵢ) and x ~ N(0, I), the moment E[f(x) He_k(x)] is Σᵢ aᵢ c_k(|wᵢ|, bᵢ) (wᵢ/|wᵢ|)^⊗k:
        this number says how much of the weights the moment shows. A zero (order 3 of bias-free ReLU) shows nothing.

        scale > 0 and bias may be arrays that broadcast. Closed form for all built-in activations but sigmoid, tanh, softplus
        and fractional powers with a bias; those and custom ones use kink-split quadrature, with absolute error below 1e-12
        for orders up to 8, scales up to 10 and |bias| up to 8. Zeros that a symmetry demands are exact.
        """
        k, s, b = _check_arguments(order, scale, bias)
        coefficients = self._by_quadrature if self.coefficients is None else self.coefficients
        found: Array = coefficients(k, s.ravel(), b.ravel()).reshape(s.shape)
        return found[()]

    @np.errstate(all="ignore")
    def properties(self, scale: Number = 1.0) -> Properties:
        """Properties 3.1-3.3 of Zhong et al. (2017) for units whose weights have norm `scale`."""
        _, checked, _ = _check_arguments(0, scale, 0.0)
        return measure(self.derivative, self.kinks, self.degree, checked.item())

    def _by_quadrature(self, order: int, scale: Array, bias: Array) -> Array:
        found = expected_product(self.value, order, scale, bias, self.kinks)
        exact = at_zero_bias(order, scale, self.centre, self.mirror)
        return found if exact is None else np.where(bias == 0, exact, found)

    def __repr__(self) -> str:
        return self.name


def _elementwise(function: Callable[[Array], Array], t: Numbers) -> Array | float:
    """The function of an array, or of a number by way of an array of one; floats even where a user's callable returns bools."""
    array = t if isinstance(t, np.ndarray) and t.dtype == float else np.asarray(_as_numbers(t), dtype=float)
    with np.errstate(all="ignore"):  # whatever the caller set: exp(-1e5) is 0
        found = np.asarray(function(array if array.ndim else array[None]), dtype=float)
    return found if array.ndim else found[0]


def _as_numbers(t: Numbers) -> Array:
    return np.asarray(t, dtype=float) if isinstance(t, bool | np.bool_) else as_reals("t", t)


def _check_arguments(order: int, scale: Numbers, bias: Numbers) -> tuple[int, Array, Array]:
    """Order as an int, scale and bias as float arrays of one shape."""
    k, scales, biases = check_whole("order", order, 0, MAX_ORDER), as_reals("scale", scale), as_reals("bias", bias)
    try:
        s, b = np.broadcast_arrays(np.asarray(scales, dtype=float), np.asarray(biases, dtype=float))
    except ValueError as error:
        raise InvalidInput(
            f"A Hermite coefficient was asked for with scale and bias of shapes {scales.shape} and {biases.shape} ({error}).",
            "Scale and bias are numbers or arrays that broadcast.",
            "Give, for example, hermite(2, scale=1.5, bias=0.0).") from None
    if not (np.isfinite(s) & (s > 0)).all():
        raise InvalidInput(
            f"The scale is {s[~(np.isfinite(s) & (s > 0))].flat[0]}.",
            "It is the norm of a unit's weights; a unit with norm 0 is a constant, and a sign belongs to the weights.",
            "Give finite scales > 0.")
    if not np.isfinite(b).all():
        raise InvalidInput(f"The bias is {b[~np.isfinite(b)].flat[0]}.", "Its expectation does not exist.", "Give finite biases.")
    return k, s, b


CHECK_STEP = 1e-5
"""Of the central difference. Derived: its error is about 1e-10 for a function with features of unit length."""
PROBES = 0.1 * np.arange(1, 40) + 0.003 * np.cos(np.arange(1, 40))
"""Positive points, used with both signs. Convention: irregular, so that no pattern of a function falls in with them."""

Function = Callable[[Array], Array]


class Claims(NamedTuple):
    """What is declared beside the two callables; meanings as in `Activation`."""

    kinks: tuple[float, ...]
    degree: float | None
    centre: float | None
    mirror: float | None


def check_claims(name: str, value: Function, derivative: Function, claims: Claims) -> None:
    """Raise InvalidInput unless value, derivative and declared symmetries agree on the probes."""
    kinks, degree, centre, mirror = claims
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"The activation's name is {name!r}.", "Reports and errors speak of it by name.", "Give some text.")
    if not all(isfinite(number) for number in (*kinks, *(c for c in (degree, centre, mirror) if c is not None))):
        raise InvalidInput(
            f"Activation {name} declares kinks {kinks}, degree {degree}, centre {centre}, mirror {mirror}.",
            "They are finite numbers.", "Leave out what does not apply.")
    _check_derivative(name, value, derivative, kinks)
    t = PROBES
    up, down = _evaluate(name, value, t), _evaluate(name, value, -t)
    if degree is not None:
        for sign, here in ((1, up), (-1, down)):
            twice = _evaluate(name, value, sign * 2 * t)
            _check_equal(name, f"degree {degree:g}", "act(2t) = 2^degree act(t)", twice, 2**degree * here)
    if centre is not None:
        _check_equal(name, f"centre {centre:g}", "act(t) + act(-t) = 2 centre", up + down, np.full_like(t, centre) * 2)
    if mirror is not None:
        _check_equal(name, f"mirror {mirror:g}", "act(t) - act(-t) = mirror t", up - down, mirror * t)


def _check_derivative(name: str, value: Function, derivative: Function, kinks: tuple[float, ...]) -> None:
    t = np.concatenate([-PROBES, PROBES])
    for kink in kinks:
        t = t[np.abs(t - kink) > 10 * CHECK_STEP]
    slope = _evaluate(name, derivative, t)
    above, below = _evaluate(name, value, t + CHECK_STEP), _evaluate(name, value, t - CHECK_STEP)
    seen = (above - below) / (2 * CHECK_STEP)
    error = np.abs(seen - slope)
    worst = int(np.argmax(error))
    if error[worst] > 1e-5 * (1 + np.abs(slope).max() + np.abs(above).max()):
        raise InvalidInput(
            f"Activation {name} has derivative {slope[worst]:.6g} at {t[worst]:.4g}, but its values there have slope "
            f"{seen[worst]:.6g}.",
            "A wrong derivative stops every refinement short of the answer.",
            "Correct the derivative, or declare a kink at that point.", where=float(t[worst]))


def _check_equal(name: str, claim: str, meaning: str, left: Array, right: Array) -> None:
    worst = float(np.max(np.abs(left - right)))
    if worst > 1e-9 * (1 + np.abs(left).max()):
        raise InvalidInput(
            f"Activation {name} declares {claim}, but {meaning} is off by {worst:.1e}.",
            "Networks are compared and recovered modulo the symmetries that their activation declares.",
            "Correct the function, or leave the declaration out.", error=worst)


def _kinks(given: Any) -> tuple[float, ...]:
    found = as_reals("kinks", given).astype(float)
    if found.ndim != 1:
        raise InvalidInput(
            f"kinks is {show_value(given)}.", "It lists the points where the function or a derivative jumps.",
            "Give a tuple of numbers, such as (0.0,).")
    return tuple(sorted({float(kink) for kink in found}))


def _evaluate(name: str, function: Function, t: Array) -> Array:
    try:
        found = function(t)
    except LaybareError:
        raise
    except Exception as error:  # the user's own code
        raise InvalidInput(
            f"A callable of activation {name}, {show_value(function)}, raised {type(error).__name__} ({error}).",
            f"It is called on whole arrays, here of shape {t.shape}.", "Write it with NumPy functions, elementwise.") from error
    if not isinstance(found, np.ndarray) or found.shape != t.shape or found.dtype.kind not in "fiub":
        raise InvalidInput(
            f"A callable of activation {name} returned {type(found).__name__} of shape {np.shape(found)} for an array of "
            f"shape {t.shape}.", "It is called on whole arrays.", "Write it with NumPy functions, elementwise.")
    if not np.isfinite(found).all():
        raise InvalidInput(
            f"A callable of activation {name} is not finite at {t[~np.isfinite(found)][0]:.4g}.",
            "An activation is finite everywhere.", "Find where the NaN or infinity arises.")
    return found.astype(float)


CURVATURE_STEP = 1e-4
"""Of the central difference of a derivative. Derived: its error is about 1e-8, its rounding 1e-12."""


def differentiate_slope(slope: Callable[[Array], Array], kinks: tuple[float, ...], t: Array) -> Array:
    """Derivative of `slope` at `t`; within two steps of a kink the point moves away from it, to the left if it is the kink."""
    for kink in kinks:
        near = np.abs(t - kink) < 2 * CURVATURE_STEP
        t = np.where(near, kink + np.where(t > kink, 2 * CURVATURE_STEP, -2 * CURVATURE_STEP), t)
    above, below = (np.asarray(slope(t + side * CURVATURE_STEP), dtype=float) for side in (1, -1))
    curvature: Array = (above - below) / (2 * CURVATURE_STEP)
    return curvature

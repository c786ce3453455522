"""The activation as an object: a frozen record of functions and symmetries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import index
from typing import Any, TypeAlias, overload

import numpy as np

from laybare.activations.checks import Claims, check_claims
from laybare.activations.differences import bend_of
from laybare.activations.hermite import at_zero_bias
from laybare.activations.properties import Properties, measure
from laybare.activations.quadrature import expected_product
from laybare.errors import InvalidInput
from laybare.shapes import Array

Number: TypeAlias = float | int | np.number[Any]
Numbers: TypeAlias = Array | Number
CUSTOM = "custom:"


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
    bend: Callable[[Array], Array] | None = field(default=None, compare=False)
    kinks: tuple[float, ...] = ()
    degree: float | None = None
    centre: float | None = None
    mirror: float | None = None
    coefficients: Callable[[int, Array, Array], Array] | None = field(default=None, compare=False)
    origin: tuple[Callable[[Array], Array], ...] = ()
    """The user's callables, which tell two custom activations of one name apart."""

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
        if parity not in (None, "odd", "even"):
            raise InvalidInput(f"The parity is {parity!r}.", "A function is odd, even or neither.", 'Give "odd", "even" or None.')
        if (parity == "odd" and centre) or (parity == "even" and mirror):
            raise InvalidInput(
                f"The parity {parity!r} comes with centre {centre} and mirror {mirror}.",
                "Odd means centre 0, even means mirror 0.", "Give the parity alone, or the numbers alone.")
        claims = Claims(
            kinks=tuple(sorted({float(kink) for kink in kinks})),
            degree=None if degree is None else float(degree),
            centre=0.0 if parity == "odd" else None if centre is None else float(centre),
            mirror=0.0 if parity == "even" else None if mirror is None else float(mirror))
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
        return _elementwise(self.bend or partial(bend_of, self.slope, self.kinks), t)

    @overload
    def hermite(self, order: int, scale: float = 1.0, bias: float = 0.0) -> float: ...
    @overload
    def hermite(self, order: int, scale: Numbers = 1.0, bias: Numbers = 0.0) -> Array: ...
    def hermite(self, order: int, scale: Numbers = 1.0, bias: Numbers = 0.0) -> Array | float:
        """Hermite coefficient E[act(scale·g + bias) He_order(g)], g ~ N(0, 1), He unnormalised (He₂ = g² - 1).

        For f(x) = Σᵢ aᵢ act(wᵢ·x + bᵢ) and x ~ N(0, I), the moment E[f(x) He_k(x)] is Σᵢ aᵢ c_k(|wᵢ|, bᵢ) (wᵢ/|wᵢ|)^⊗k:
        this number says how much of the weights the moment shows. A zero (order 3 of bias-free ReLU) shows nothing.

        scale > 0 and bias may be arrays that broadcast. Closed form for all built-in activations but sigmoid, tanh, softplus
        and fractional powers with a bias; those and custom ones use kink-split quadrature, with absolute error below 1e-12
        for orders up to 8, scales up to 10 and |bias| up to 8. Zeros that a symmetry demands are exact.
        """
        k, s, b = _checked(order, scale, bias)
        coefficients = self._by_quadrature if self.coefficients is None else self.coefficients
        found: Array = coefficients(k, s.ravel(), b.ravel()).reshape(s.shape)
        return found[()]

    def properties(self, scale: Number = 1.0) -> Properties:
        """Properties 3.1-3.3 of Zhong et al. (2017) for units whose weights have norm `scale`."""
        _, checked, _ = _checked(0, scale, 0.0)
        return measure(self.derivative, self.kinks, self.degree, checked.item())

    def _by_quadrature(self, order: int, scale: Array, bias: Array) -> Array:
        found = expected_product(self.value, order, scale, bias, self.kinks)
        exact = at_zero_bias(order, scale, self.centre, self.mirror)
        return found if exact is None else np.where(bias == 0, exact, found)

    def __repr__(self) -> str:
        return self.name


def _elementwise(function: Callable[[Array], Array], t: Numbers) -> Array | float:
    """The function of an array, or of a number by way of an array of one; floats even where a user's callable returns bools."""
    array = np.asarray(t, dtype=float)
    found = np.asarray(function(array if array.ndim else array[None]), dtype=float)
    return found if array.ndim else found[0]


def _checked(order: int, scale: Numbers, bias: Numbers) -> tuple[int, Array, Array]:
    """Order as an int, scale and bias as float arrays of one shape."""
    try:
        k = index(order)
        s, b = np.broadcast_arrays(np.asarray(scale, dtype=float), np.asarray(bias, dtype=float))
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"A Hermite coefficient was asked for with order {order!r} and scale and bias of shapes {np.shape(scale)} and "
            f"{np.shape(bias)} ({error}).", "The order is a whole number; scale and bias are numbers or arrays that broadcast.",
            "Give, for example, hermite(2, scale=1.5, bias=0.0).") from None
    if k < 0:
        raise InvalidInput(f"The Hermite order is {k}.", "Orders count from 0.", "Give 0, 1, 2, ...", order=k)
    if not (np.isfinite(s) & (s > 0)).all():
        raise InvalidInput(
            f"The scale is {s[~(np.isfinite(s) & (s > 0))].flat[0]}.",
            "It is the norm of a unit's weights; a unit with norm 0 is a constant, and a sign belongs to the weights.",
            "Give finite scales > 0.")
    if not np.isfinite(b).all():
        raise InvalidInput(f"The bias is {b[~np.isfinite(b)].flat[0]}.", "Its expectation does not exist.", "Give finite biases.")
    return k, s, b

"""The built-in activations, and their names as text.

Different names are different functions: leaky_relu(0) and power_relu(1) are relu, leaky_relu(-1) is absolute.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from laybare.activations import hermite_coefficients as hermite
from laybare.activations import values
from laybare.activations.activation import CUSTOM, LARGEST_POWER, Activation, Number
from laybare.errors import InvalidInput
from laybare.numerics.checks import check_number, show_value

_homogeneous = partial(partial, hermite.homogeneous)

relu = Activation(
    name="relu", value=values.relu, slope=values.relu_slope, curvature=values.flat, kinks=(0.0,), degree=1.0, mirror=1.0,
    coefficients=_homogeneous(right=1.0, left=0.0, power=1))
absolute = Activation(
    name="absolute", value=values.absolute, slope=values.absolute_slope, curvature=values.flat, kinks=(0.0,), degree=1.0,
    mirror=0.0, coefficients=_homogeneous(right=1.0, left=1.0, power=1))
step = Activation(
    name="step", value=values.step, slope=values.step_slope, curvature=values.flat, kinks=(0.0,), degree=0.0, centre=0.5,
    coefficients=_homogeneous(right=1.0, left=0.0, power=0))
sigmoid = Activation(
    name="sigmoid", value=values.sigmoid, slope=values.sigmoid_slope, curvature=values.sigmoid_curvature, centre=0.5)
tanh = Activation(name="tanh", value=values.tanh, slope=values.tanh_slope, curvature=values.tanh_curvature, centre=0.0)
erf = Activation(
    name="erf", value=values.erf, slope=values.erf_slope, curvature=values.erf_curvature, centre=0.0, coefficients=hermite.erf)
softplus = Activation(name="softplus", value=values.softplus, slope=values.sigmoid, curvature=values.sigmoid_slope, mirror=1.0)
gelu = Activation(
    name="gelu", value=values.gelu, slope=values.gelu_slope, curvature=values.gelu_curvature, mirror=1.0,
    coefficients=hermite.gelu)


def leaky_relu(slope: Number) -> Activation:
    """t for t > 0, slope·t for t ≤ 0."""
    a = _check_parameter("leaky_relu", slope)
    if a == 1:
        raise InvalidInput(
            "leaky_relu(1) is the identity.", "No data determine the weights of linear units.",
            "Give another slope.", slope=a)
    if a in (0, -1):
        return relu if a == 0 else absolute
    return Activation(
        name=f"leaky_relu({_format_parameter(a)})", value=partial(values.leaky, slope=a),
        slope=partial(values.leaky_slope, slope=a), curvature=values.flat, kinks=(0.0,), degree=1.0, mirror=1 + a,
        coefficients=_homogeneous(right=1.0, left=-a, power=1))


def power_relu(power: Number) -> Activation:
    """max(t, 0)^power for a real power ≥ 1."""
    p = _check_parameter("power_relu", power)
    if not 1 <= p <= LARGEST_POWER:
        raise InvalidInput(
            f"The power is {_format_parameter(p)}.", "Below 1 the derivative is infinite at 0; above 100 moments overflow.",
            "Give a power from 1 to 100.", power=p)
    if p == 1:
        return relu
    whole = _homogeneous(right=1.0, left=0.0, power=int(p))
    return Activation(
        name=f"power_relu({_format_parameter(p)})", value=partial(values.power, power=p),
        slope=partial(values.power_slope, power=p), curvature=partial(values.power_curvature, power=p), kinks=(0.0,), degree=p,
        coefficients=whole if p.is_integer() else partial(hermite.fractional_power, power=p))


def exponential(rho: Number) -> Activation:
    """exp(rho·t)."""
    rate = _check_parameter("exponential", rho)
    if rate == 0:
        raise InvalidInput("exponential(0) is a constant.", "It does not depend on the weights.", "Give another rate.", rho=rate)
    return Activation(
        name=f"exponential({_format_parameter(rate)})", value=partial(values.exponential, rate=rate),
        slope=partial(values.exponential_slope, rate=rate), curvature=partial(values.exponential_curvature, rate=rate),
        coefficients=partial(hermite.exponential, rate=rate))


class _Family(NamedTuple):
    make: Callable[[float], Activation]
    example: str


_PLAIN = {act.name: act for act in (relu, absolute, sigmoid, tanh, erf, softplus, gelu, step)}
_FAMILIES = {
    "leaky_relu": _Family(leaky_relu, "leaky_relu(0.1)"),
    "power_relu": _Family(power_relu, "power_relu(2)"),
    "exponential": _Family(exponential, "exponential(0.5)"),
}


def activation_named(text: str) -> Activation:
    """The built-in activation of that name, such as "relu" or "leaky_relu(0.1)": the inverse of `act.name`.

    The text is matched, never evaluated. InvalidInput for unknown names, and for custom activations, which no text holds.
    """
    if isinstance(text, str) and text.startswith(CUSTOM):
        raise InvalidInput(
            f"{show_value(text)} is an activation that a user made from callables.",
            "Text and files hold its name, not its code.",
            "Make it again with Activation.custom, and the network from its arrays.", name=text)
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text) if isinstance(text, str) else None
    name, inside = (match[1], match[2]) if match else (text, None)
    if name in _PLAIN and inside is None:
        return _PLAIN[name]
    if name in _FAMILIES and inside is not None:
        return _FAMILIES[name].make(_parse_parameter(text, inside))
    known = ", ".join([*_PLAIN, *(family.example for family in _FAMILIES.values())])
    raise InvalidInput(
        f"No activation is called {show_value(text)}.",
        "A name stands for one built-in activation, with its number where it has one.",
        f"Known are {known}.", name=text)


def as_activation(given: Any) -> Activation:
    """An activation, by itself or by its name."""
    if isinstance(given, Activation):
        return given
    if isinstance(given, str):
        return activation_named(given)
    shown = f"the function {given.__name__}" if inspect.isfunction(given) else show_value(given)
    raise InvalidInput(
        f"The activation is {shown}.", "Units need a value, a derivative and their symmetries.",
        "Give lb.relu, lb.leaky_relu(0.1) (with its number), a name such as 'tanh', or Activation.custom(value, derivative).")


def _parse_parameter(text: str, inside: str) -> float:
    try:
        return float(inside)
    except ValueError:
        raise InvalidInput(
            f"{text!r} has {inside!r} where a number belongs.", "The number is part of the activation.",
            "Write it as in leaky_relu(0.1).", name=text) from None


def _check_parameter(family: str, given: Number) -> float:
    try:
        return check_number(family, given)
    except InvalidInput:
        raise InvalidInput(
            f"{family} was given {show_value(given)}.", "Its parameter is a finite number.",
            f"Write, for example, {_FAMILIES[family].example}.") from None


def _format_parameter(number: float) -> str:
    """The shortest text that float() reads back exactly, whole numbers without a point."""
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)

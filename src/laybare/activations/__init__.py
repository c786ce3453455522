"""Activations: objects that know their value, derivative, Hermite coefficients and symmetries.

`relu(t)`, `relu.derivative(t)`, `relu.hermite(order, scale, bias)`, `relu.properties(scale)`. A user's own activation comes
from two callables with `Activation.custom`; a name, as files and the command line hold it, becomes an object with
`activation_named`.
"""

from laybare.activations.activation import Activation
from laybare.activations.built_in import (
    absolute,
    activation_named,
    as_activation,
    erf,
    exponential,
    gelu,
    leaky_relu,
    power_relu,
    relu,
    sigmoid,
    softplus,
    step,
    tanh,
)
from laybare.activations.hermite_coefficients import Properties

__all__ = [
    "Activation",
    "Properties",
    "absolute",
    "activation_named",
    "as_activation",
    "erf",
    "exponential",
    "gelu",
    "leaky_relu",
    "power_relu",
    "relu",
    "sigmoid",
    "softplus",
    "step",
    "tanh",
]

"""The model that is fitted in place of a network whose signs would get in the way."""

from __future__ import annotations

from laybare.activations import Activation, absolute
from laybare.assembly.unfold import folding
from laybare.refinement.normal import Model


def sign_free_model(activation: Activation, *, biases: bool) -> Model:
    """A model in which turning a unit over changes nothing but the linear part; the plain one where there is no such form."""
    if folding(activation) is not None:
        return Model(absolute, biases=biases, offset=True, linear=True)
    return Model(activation, biases=biases, offset=True, linear=bool(activation.mirror))

"""scikit-learn's MLPRegressor, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from laybare.activations import Activation, relu, sigmoid, tanh
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network

if TYPE_CHECKING:
    from sklearn.neural_network import MLPRegressor

ACTIVATIONS: dict[str, Activation] = {"relu": relu, "tanh": tanh, "logistic": sigmoid}


def from_sklearn(mlp: MLPRegressor) -> Network:
    """The network inside a fitted MLPRegressor with one hidden layer, in double precision."""
    if not hasattr(mlp, "coefs_"):
        raise InvalidInput("This MLPRegressor is not fitted.", "It has no weights yet.", "Call fit first.")
    if len(mlp.coefs_) != 2:
        raise InvalidInput(
            f"This MLPRegressor has {len(mlp.coefs_) - 1} hidden layers.", "A Network has one.",
            "Use hidden_layer_sizes=(width,).", layers=len(mlp.coefs_) - 1)
    if mlp.activation not in ACTIVATIONS:
        raise InvalidInput(
            f"This MLPRegressor has activation {mlp.activation!r}.", f"Known are {sorted(ACTIVATIONS)}.",
            "A network of identity units is a linear map; there are no hidden units to find.")
    if mlp.out_activation_ != "identity":
        raise InvalidInput(
            f"The outputs of this MLPRegressor pass through {mlp.out_activation_!r}.", "Those of a Network are linear.",
            'Use loss="squared_error".', output=mlp.out_activation_)
    hidden, readout = mlp.coefs_
    layer = Layer(hidden.T, mlp.intercepts_[0], ACTIVATIONS[mlp.activation])
    if readout.shape[1] == 1:
        return Network(layer, readout[:, 0], float(mlp.intercepts_[1][0]))
    return Network(layer, readout, mlp.intercepts_[1])


def to_sklearn(network: Network) -> MLPRegressor:
    """A fitted MLPRegressor that computes the network."""
    from sklearn.neural_network import MLPRegressor

    names = {activation.name: name for name, activation in ACTIVATIONS.items()}
    if network.activation.name not in names:
        raise InvalidInput(
            f"The network has {network.activation.name} units.", f"MLPRegressor knows {sorted(ACTIVATIONS)} only.",
            "Save it with network.save instead.")
    if network.linear is not None:
        raise InvalidInput(
            "The network has a linear part.", "MLPRegressor has none.",
            "Turn it into two units with laybare.assembly.unfold.absorb_linear.")
    readout, offset, _ = network.columns
    mlp = MLPRegressor(hidden_layer_sizes=(network.width,), activation=names[network.activation.name])
    mlp.coefs_ = [np.array(network.layer.weights.T), np.array(readout)]
    mlp.intercepts_ = [np.array(network.layer.biases), offset]
    mlp.n_features_in_, mlp.n_outputs_, mlp.n_layers_, mlp.out_activation_ = network.dim, network.outputs, 3, "identity"
    return mlp

"""scikit-learn's MLPRegressor and MLPClassifier of any depth, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from laybare.activations import Activation, relu, sigmoid, tanh
from laybare.errors import InvalidInput
from laybare.export.chains import AffineMap, Chain, chain_from_network, network_from_chain
from laybare.networks import Network
from laybare.numerics.checks import show_value

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    MLP: TypeAlias = MLPRegressor | MLPClassifier

ACTIVATIONS: dict[str, Activation] = {"relu": relu, "tanh": tanh, "logistic": sigmoid}


def from_sklearn(mlp: MLP) -> Network:
    """The network inside a fitted MLPRegressor or MLPClassifier, in double precision.

    That of a classifier gives what goes into its softmax (several classes) or its logistic function (two): the log-odds.
    """
    kind = type(mlp).__name__
    if not all(hasattr(mlp, part) for part in ("activation", "hidden_layer_sizes")):
        raise InvalidInput(
            f"mlp is {show_value(mlp)}.", "It should be an MLPRegressor or an MLPClassifier of scikit-learn.",
            "Give one that is fitted; other models are asked: Oracle(model, dim).")
    if not hasattr(mlp, "coefs_"):
        raise InvalidInput(f"This {kind} is not fitted.", "It has no weights yet.", "Call fit first.")
    if mlp.activation not in ACTIVATIONS:
        raise InvalidInput(
            f"This {kind} has activation {mlp.activation!r}.", f"Known are {sorted(ACTIVATIONS)}.",
            "A network of identity units is a linear map; there are no hidden units to find.")
    if mlp.out_activation_ != "identity" and not hasattr(mlp, "classes_"):
        raise InvalidInput(
            f"The outputs of this {kind} pass through {mlp.out_activation_!r}.", "Those of a Network are linear.",
            'Use loss="squared_error".', output=mlp.out_activation_)
    maps = [AffineMap(weights.T, biases) for weights, biases in zip(mlp.coefs_, mlp.intercepts_, strict=True)]
    return network_from_chain(Chain(maps, [ACTIVATIONS[mlp.activation]] * (len(maps) - 1)))


def to_sklearn(network: Network, classes: Sequence[Any] | None = None) -> MLP:
    """A fitted MLPRegressor that computes the network; with `classes`, an MLPClassifier whose log-odds it gives.

    Two classes go with one output (the log-odds of the second), more classes with an output each. With warm_start=True the
    model can be trained on from there.
    """
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    chain, name = chain_from_network(network), _activation(network)
    classes = None if classes is None else _classes(classes)
    settings = {"hidden_layer_sizes": network.widths, "activation": name}
    if classes is None:
        mlp, out = MLPRegressor(**settings), "identity"
    else:
        mlp, out = MLPClassifier(**settings), "logistic" if len(classes) == 2 else "softmax"
        _set_classes(mlp, classes, network.outputs)
    write_mlp_weights(mlp, chain.maps)
    mlp.out_activation_ = out
    return mlp


def write_mlp_weights(mlp: MLP, maps: Sequence[AffineMap]) -> None:
    """Make the maps the fitted weights of an MLP, with nothing trained yet."""
    mlp.coefs_ = [np.array(weights.T, order="C") for weights, _ in maps]
    mlp.intercepts_ = [np.array(biases) for _, biases in maps]
    mlp.n_features_in_, mlp.n_outputs_, mlp.n_layers_ = maps[0].weights.shape[1], len(maps[-1].biases), len(maps) + 1
    mlp.n_iter_, mlp.t_, mlp.loss_curve_ = 0, 0, []
    mlp._best_coefs, mlp._best_intercepts = [w.copy() for w in mlp.coefs_], [b.copy() for b in mlp.intercepts_]
    mlp._no_improvement_count, mlp.best_loss_ = 0, np.inf
    mlp.validation_scores_, mlp.best_validation_score_ = [], -np.inf


def _activation(network: Network) -> str:
    """scikit-learn's name of the one activation of all layers; a linear part is refused."""
    names = {activation.name: name for name, activation in ACTIVATIONS.items()}
    if network.activations not in names:
        raise InvalidInput(
            f"The network has {network.activations} units.",
            f"An MLP of scikit-learn has one of {sorted(ACTIVATIONS)} throughout.",
            "Save it with network.save, or use to_torch or to_onnx.")
    if network.linear is not None:
        raise InvalidInput(
            "The network has a linear part.", "An MLP of scikit-learn has no path beside its units.",
            "Use to_torch or to_onnx; a single ReLU layer takes it up in two more units per output with "
            "laybare.assembly.sign_decoding.absorb_linear.")
    return names[network.activations]


def _classes(given: Any) -> Sequence[Any]:
    """A sequence of labels."""
    listed = given.tolist() if isinstance(given, np.ndarray) and given.ndim == 1 else given
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes) or not all(map(np.isscalar, listed)):
        raise InvalidInput(
            f"classes is {show_value(given)}.", "It lists the labels of a classifier.", "Give, for example, (0, 1).")
    return listed


def _set_classes(mlp: MLPClassifier, classes: Sequence[Any], outputs: int) -> None:
    from sklearn.preprocessing import LabelBinarizer

    needed = 1 if len(classes) == 2 else len(classes)
    if len(classes) < 2 or len(set(classes)) != len(classes) or outputs != needed:
        raise InvalidInput(
            f"{outputs} outputs for the classes {list(classes)}.",
            "Two classes go with one output, more with an output each, all of them different.",
            "Give a class for each output, or two for a single one.", outputs=outputs, classes=len(classes))
    if list(classes) != sorted(classes):
        raise InvalidInput(
            f"The classes {list(classes)} are not in order.", "scikit-learn numbers its classes in order.",
            "Sort the classes, and the outputs with them.", classes=list(classes))
    mlp._label_binarizer = LabelBinarizer().fit(list(classes))
    mlp.classes_ = mlp._label_binarizer.classes_

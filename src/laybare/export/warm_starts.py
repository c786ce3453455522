"""Initial weights for training elsewhere: units from moments of the data, written into a PyTorch module or an MLPRegressor."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.errors import AssumptionViolated, InvalidInput
from laybare.export.chains import chain_from_network
from laybare.export.sklearn import ACTIVATIONS, write_mlp_weights
from laybare.export.torch import from_torch, write_module_weights
from laybare.methods import GeneralReLU, Method, Start
from laybare.methods.general_relu import without_linear_part
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array, Progress
from laybare.solver.normal import Fit, FitStatistic, project
from laybare.solver.point import network_of, point_of
from laybare.source import Source
from laybare.source.problem import pose_parts

if TYPE_CHECKING:
    from sklearn.neural_network import MLPRegressor
    from torch import nn

    Model: TypeAlias = nn.Module | MLPRegressor


def initialise(
    model: Model, source: Source, method: Method | None = None, *, rng: Generator | int = 0, progress: Progress | None = None
) -> Network:
    """Write initial weights from the data into a model with one hidden layer, in place; train it on from there.

    Parameters
    ----------
    model : nn.Sequential of Linear, an activation and Linear, or an MLPRegressor (fitted or not), which gets warm_start=True
    source : Source
        Samples, files or an oracle, with the model's inputs and outputs.
    method : Method, optional
        Whose start is taken, before any solver; by default GeneralReLU, from moments of normal inputs.
    rng : Generator or int
    progress : callable, optional

    Returns
    -------
    Network
        What was written. Hidden units come from the method; where it finds fewer than the model has, the model's own stay (drawn
        at random if it has none yet). The readout is the least-squares fit to all of them: one pass.
    """
    rng = np.random.default_rng(rng)
    own = _own_units(model, source, rng)
    method = GeneralReLU(activation=own.activation) if method is None else method
    _check_shapes(own, source, method)
    problem = pose_parts(source, source, biases=True)
    start = method.start(problem.used, own.width, rng=rng, progress=progress)
    units = problem.given(without_linear_part(_network_of_start(start))).layer.rows[: own.width]
    network = _fit_readout(np.vstack([units, own.rows[len(units) :]]), own.activation, source)
    _write(model, network)
    return network


def _own_units(model: Model, source: Source, rng: Generator) -> Layer:
    """The hidden layer that the model has now."""
    if not hasattr(model, "hidden_layer_sizes"):
        network = from_torch(model)
        _check_depth(network.widths, network.linear is not None)
        return network.layer
    if hasattr(model, "predict_proba") or model.activation not in ACTIVATIONS:
        raise InvalidInput(
            f"The model is a {type(model).__name__} with activation {model.activation!r}.",
            "A start is known for regressors with relu, tanh or logistic units.", "Give an MLPRegressor of that kind.")
    widths = tuple(np.atleast_1d(model.hidden_layer_sizes).tolist())
    _check_depth(widths, False)
    shape, activation = (widths[0], source.dim), ACTIVATIONS[model.activation]
    if hasattr(model, "coefs_") and model.coefs_[0].T.shape == shape:
        return Layer(model.coefs_[0].T, model.intercepts_[0], activation)
    return Layer(rng.standard_normal(shape) / np.sqrt(source.dim), rng.standard_normal(widths[0]), activation)


def _fit_readout(rows: Array, activation: Activation, source: Source) -> Network:
    """Units with the readout and offset that fit the outputs best."""
    layer, m = Layer(rows[:, :-1], rows[:, -1], activation), source.outputs
    blank = point_of(Network(layer, np.zeros((layer.width, m))), biases=True, offset=True, linear=False)
    fitted, _ = project(blank, Fit(*source.sum(FitStatistic(blank), stage="readout")))
    return network_of(fitted, vector=m == 1)


def _write(model: Model, network: Network) -> None:
    chain = chain_from_network(network)
    if hasattr(model, "hidden_layer_sizes"):
        write_mlp_weights(model, chain.maps)
        model.out_activation_ = "identity"
        model.set_params(warm_start=True)
    else:
        write_module_weights(model, chain.maps)


def _network_of_start(start: Start) -> Network:
    if start.network is None:
        why = " ".join(claim.explanation for claim in start.claims) or "It begins at random."
        raise AssumptionViolated(
            "The method names no units to begin with.", why,
            "Train from the model's own initial weights, or recover the network: recover(source).")
    return start.network


def _check_depth(widths: tuple[int, ...], linear: bool) -> None:
    if len(widths) != 1 or linear:
        raise InvalidInput(
            f"The model has hidden layers of {', '.join(map(str, widths))} units{' and a linear part' * linear}.",
            "Moments show the units of a single hidden layer.", "Give a model with one hidden layer.", widths=widths)


def _check_shapes(own: Layer, source: Source, method: Method) -> None:
    if own.dim != source.dim:
        raise InvalidInput(
            f"The model takes {own.dim} inputs, the source has {source.dim}.", "They describe different functions.",
            "Give a model of the source's shape.", dim=own.dim)
    if method.activation is not None and method.activation != own.activation:
        raise InvalidInput(
            f"The method is for {method.activation.name} units, the model has {own.activation.name}.",
            "They contradict each other.", "Give a method with the model's activation, or none.")

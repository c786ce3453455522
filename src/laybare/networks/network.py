"""Layers and networks: f(x) = h A + x L + c with h = act(… act(x W₁ᵀ + b₁) … W_lᵀ + b_l), hidden weights as rows.

The linear part L is there because ReLU and its mirror image differ by one: relu(u) = relu(-u) + u.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from laybare.activations import Activation, absolute, as_activation, relu
from laybare.errors import InvalidInput
from laybare.networks.canonical import ComposedTop, Stack, Units, canonical_stack, canonical_units
from laybare.numerics.checks import as_reals, as_rows, show_value
from laybare.numerics.shapes import Array, Biases, Weights

Top: TypeAlias = Callable[[Array], Array]
"""A black box on the features of the highest layer: (n, width) -> (n,) or (n, outputs)."""


@dataclass(frozen=True, eq=False, repr=False)
class Layer:
    """Hidden units act(w·x + b): `weights` (width, dim) with one unit per row, `biases` (width,)."""

    weights: Weights
    biases: Biases | None = None
    activation: Activation = relu

    if TYPE_CHECKING:  # names of activations become activations

        def __init__(self, weights: Weights, biases: Biases | None = None, activation: Activation | str = relu) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", as_activation(self.activation))
        weights = _as_finite("weights", self.weights, 2)
        biases = np.zeros(len(weights)) if self.biases is None else _as_finite("biases", self.biases, 1)
        if biases.shape != weights.shape[:1]:
            raise InvalidInput(
                f"{len(biases)} biases for {len(weights)} rows of weights.", "Every hidden unit has one bias.",
                "Give weights of shape (width, dim) and biases of shape (width,).", shapes=(weights.shape, biases.shape))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)

    @np.errstate(all="ignore")
    def __call__(self, x: Array) -> Array:
        """Activations of the units, (n, width)."""
        return self.activation(self.before(as_rows(x, self.dim, "layer")))

    def before(self, x: Array) -> Array:
        """Pre-activations x Wᵀ + b, (n, width)."""
        u: Array = x @ self.weights.T
        u += self.biases
        return u

    @property
    def rows(self) -> Array:
        """Weights and bias of each unit side by side, (width, dim + 1)."""
        return np.column_stack([self.weights, np.asarray(self.biases)])

    def __repr__(self) -> str:
        return f"Layer(dim={self.dim}, width={self.width}, activation={self.activation.name})"

    @property
    def dim(self) -> int:
        return int(self.weights.shape[1])

    @property
    def width(self) -> int:
        return int(self.weights.shape[0])


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Network:
    """Hidden layers and a linear readout.

    Parameters
    ----------
    layers : Layer, or Layers from the lowest up, each as wide as the next one's dim
    readout : array (width,) for one output, (width, outputs) for several; it reads the highest layer
    offset : float, or array (outputs,)
    linear : array (dim,) or (dim, outputs), optional; added to the output as x @ linear
    top
        Callable, optional; a black box on the highest layer's features, whose values are added to the output: what lies above
        the layers that are known. Such a network is a partial result: it is evaluated and compared layer by layer, not saved.

    Attributes
    ----------
    layers : tuple of Layer; `depth` is their number, `widths` their widths
    layer, width, activation : the lowest layer, its number of units, its activation: all there is if the depth is 1
    """

    layers: tuple[Layer, ...]
    readout: Array
    offset: Array | float
    linear: Array | None
    top: Top | None

    def __init__(
        self, layers: Layer | Collection[Layer], readout: Array, offset: Array | float = 0.0, linear: Array | None = None, *,
        top: Top | None = None,
    ) -> None:
        stacked: tuple[Layer, ...] = _as_layers(layers)
        _check_layer_sizes(stacked)
        readout = _as_finite("readout", readout)
        width, dim, tail = stacked[-1].width, stacked[0].dim, readout.shape[1:]
        if readout.ndim not in (1, 2) or len(readout) != width:
            raise InvalidInput(
                f"The readout has shape {readout.shape} for {width} hidden units.",
                "Every hidden unit has one weight per output.", "Give shape (width,) or (width, outputs).", shape=readout.shape)
        offset = np.asarray(_as_finite("offset", offset))
        if offset.shape not in ((), tail):
            raise InvalidInput(
                f"The offset has shape {offset.shape} for {tail[0] if tail else 1} outputs.", "Every output has one offset.",
                "Give a number, or one for each output.", shape=offset.shape)
        linear = None if linear is None else _as_finite("linear", linear)
        if linear is not None and linear.shape != (dim, *tail):
            raise InvalidInput(
                f"The linear part has shape {linear.shape}.", f"Inputs have dimension {dim}.",
                "Give shape (dim,) or (dim, outputs), as the readout has.", shape=linear.shape)
        if top is not None and not callable(top):
            raise InvalidInput(
                f"top is {show_value(top)}.", "It is a function of the highest layer's features.",
                "Give a function (n, width) -> (n,) or (n, outputs), or None.")
        constant = float(offset) if not tail else np.broadcast_to(offset, tail).copy()
        for name, value in zip(("layers", "readout", "offset", "linear", "top"), (stacked, readout, constant, linear, top),
                               strict=True):
            object.__setattr__(self, name, value)

    @np.errstate(all="ignore")
    def __call__(self, x: Array) -> Array:
        """Outputs at the rows of x: (n,) if the readout is a vector, else (n, outputs)."""
        x = as_rows(x, self.dim, "network")
        h = self.features(x)
        y: Array = h @ self.readout
        if self.linear is not None:
            y += x @ self.linear
        if self.top is not None:
            y += np.reshape(self.top(h), y.shape)
        y += self.offset
        return y

    def predict(self, x: Array) -> Array:
        """The same as calling it, as scikit-learn names it."""
        return self(x)

    def features(self, x: Array) -> Array:
        """Activations of the highest layer at the rows of x, (n, width of that layer)."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __repr__(self) -> str:
        linear = "" if self.linear is None else ", with a linear part"
        return f"Network({self.architecture}, {self.activations}{linear})"

    @property
    def architecture(self) -> str:
        """Dim, widths and outputs as text, such as "80-40-20-1"; a black box above the layers is shown as "?"."""
        top = () if self.top is None else ("?",)
        return "-".join(map(str, (self.dim, *self.widths, *top, self.outputs)))

    @property
    def activations(self) -> str:
        """The activations as text: one name if all layers have it, else one per layer."""
        names = [layer.activation.name for layer in self.layers]
        return names[0] if len(set(names)) == 1 else ", ".join(names)

    @np.errstate(all="ignore")
    def canonical(self) -> Network:
        """The one representative of all networks that differ by symmetries only; the function stays the same.

        Unit rows where the scale is free, a positive first weight where the sign is, no zero or duplicate units, and the
        units of every layer sorted by weights, then bias. What that changes in a layer is carried to the columns and biases of
        the next one. The sign of a ReLU-like unit is free only in a single layer with a linear part to take up the difference.
        See `laybare.networks.canonical` for the symmetries and what rounding can do to the order.
        """
        if self.depth == 1 and self.top is None:
            w, b, a, c, linear, _ = canonical_units(self.units, self.activation, self.linear is not None)
            return self._like(Layer(w, b, self.activation), a, c, None if self.linear is None else linear)
        return self._from_stack(canonical_stack(self.stack))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file: complete or not at all, float64 bit for bit. `load` reads it."""
        from laybare.networks.network_files import save

        save(self, path)

    def _repr_html_(self) -> str:
        from laybare.report.notebook import network_html

        return network_html(self)

    @property
    def layer(self) -> Layer:
        """The lowest layer."""
        return self.layers[0]

    @property
    def depth(self) -> int:
        """Number of hidden layers."""
        return len(self.layers)

    @property
    def dim(self) -> int:
        return self.layers[0].dim

    @property
    def width(self) -> int:
        """Units of the lowest layer."""
        return self.layers[0].width

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of every layer, from the lowest up."""
        return tuple(layer.width for layer in self.layers)

    @property
    def outputs(self) -> int:
        return 1 if self.readout.ndim == 1 else int(self.readout.shape[1])

    @property
    def activation(self) -> Activation:
        """That of the lowest layer."""
        return self.layers[0].activation

    @property
    def columns(self) -> tuple[Array, Array, Array]:
        """Readout (width, outputs), offset (outputs,) and linear part (dim, outputs; zero if absent), whatever the form given.

        For one hidden layer: what reads these arrays knows of no other, and would take the highest layer for the lowest.
        """
        if len(self.layers) > 1 or self.top is not None:
            box = "" if self.top is None else " under a black box"
            raise InvalidInput(
                f"The network {self.architecture} has {self.depth} hidden layer{'s' * (self.depth > 1)}{box}.",
                "This function is for a single hidden layer with a linear readout.",
                "Work on network.layers one by one, or use compare, canonical and the exports, which take any depth.",
                depth=self.depth)
        m = self.outputs
        linear = np.zeros((self.dim, m)) if self.linear is None else self.linear.reshape(self.dim, m)
        return self.readout.reshape(self.width, m), np.reshape(self.offset, (m,)).astype(float), linear

    @property
    def units(self) -> Units:
        """The same in the form that `laybare.networks.canonical` works on."""
        readout, offset, linear = self.columns
        parts = tuple((i,) for i in range(self.width))
        return Units(self.layer.weights, np.asarray(self.layer.biases), readout, offset, linear, parts)

    @property
    def stack(self) -> Stack:
        """The layers in the form that `laybare.networks.canonical` works on; under a black box the readout is the identity."""
        k, m = self.widths[-1], self.outputs
        readout, offset = (self.readout.reshape(k, m), np.reshape(self.offset, (m,)).astype(float)) if self.top is None else (
            np.eye(k), np.zeros(k))
        return Stack.of([(layer.weights, np.asarray(layer.biases), layer.activation) for layer in self.layers], readout, offset)

    def _like(self, layer: Layer, readout: Array, offset: Array, linear: Array | None) -> Network:
        """A network from columns, in the form (vector or matrix) that this one has."""
        tail = self.readout.shape[1:]
        return Network(
            layer, readout.reshape(layer.width, *tail), offset.reshape(tail),
            None if linear is None else linear.reshape(layer.dim, *tail))

    def _from_stack(self, stack: Stack) -> Network:
        """A network from a stack of layers, with this one's linear part and top."""
        layers = [Layer(*level) for level in zip(stack.weights, stack.biases, stack.activations, strict=True)]
        if self.top is None:
            tail = self.readout.shape[1:]
            return Network(layers, stack.readout.reshape(len(stack.readout), *tail), stack.offset.reshape(tail), self.linear)
        # the highest features that were h are h R + r now
        return Network(
            layers, stack.readout @ self.readout, self.offset + stack.offset @ self.readout, self.linear,
            top=ComposedTop(stack.readout, stack.offset, self.top))


def sign_free(network: Network) -> Network:
    """The same function with units |w·x + b|, whose signs do not matter, and a linear part that holds what did.

    For a homogeneous activation of degree 1, act(u) = (r - l)/2 · u + (r + l)/2 · |u| with r = act(1), l = act(-1):
    relu(u) = (u + |u|)/2.
    """
    activation = network.activation
    if activation.degree != 1:
        raise InvalidInput(
            f"{activation.name} is not homogeneous of degree 1.", "Only such an activation is a sum of t and |t|.",
            "Use canonical(), which takes out the signs that are free.", degree=activation.degree)
    right, left = activation(np.array([1.0, -1.0]))
    w, b, a, c, linear, _ = network.units
    odd, even = (right - left) / 2, (right + left) / 2
    return network._like(Layer(w, b, absolute), even * a, c + odd * (b @ a), linear + odd * (w.T @ a))


def _check_layer_sizes(layers: Collection[Layer]) -> None:
    if not layers:
        raise InvalidInput("No layers.", "A network has at least one.", "Give a Layer, or a tuple of them from the lowest up.")
    for number, (lower, upper) in enumerate(pairwise(layers), 2):
        if lower.width != upper.dim:
            raise InvalidInput(
                f"Layer {number} takes {upper.dim} inputs, and the layer below it has {lower.width} units.",
                "Every unit of a layer is an input of the next.", "Give the layers from the lowest up.",
                widths=(lower.width, upper.dim))


def _as_layers(given: object) -> tuple[Any, ...]:
    """The layers of a network, which may have only one."""
    layers = (given,) if isinstance(given, Layer) else tuple(given) if isinstance(given, Sequence) else (None,)
    if not all(isinstance(layer, Layer) for layer in layers):
        raise InvalidInput(
            f"layers is {show_value(given)}.", "A network is made of layers.",
            "Give Layer(weights, biases, activation), or a tuple of them from the lowest up.")
    return layers


def _as_finite(name: str, values: object, ndim: int | None = None) -> Array:
    """A float64 copy that nobody can write to, or a sentence that names the first bad entry."""
    array = np.array(as_reals(name, values), dtype=np.float64)
    if ndim is not None and array.ndim != ndim:
        raise InvalidInput(
            f"{name} has {array.ndim} dimensions.", f"It should have {ndim}.", "Weights are (width, dim), biases (width,).",
            shape=array.shape)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInput(
            f"{name}{list(where)} is {array[where]}.", "A network with a NaN or an infinity has no finite output.",
            "Find where it arose, or drop that unit.", where=where)
    array.setflags(write=False)
    return array

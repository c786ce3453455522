"""Layers and networks: f(x) = act(x Wᵀ + b) A + x L + c, with hidden weights as rows.

The linear part L is there because ReLU cannot be told from its mirror image without it: relu(u) = relu(-u) + u.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from laybare.activations import Activation, absolute, activation_named, relu
from laybare.errors import InvalidInput
from laybare.networks.canonical import Units, canonical_units
from laybare.networks.storage import Contents, read, write
from laybare.shapes import Array, Biases, Weights

FORMAT, VERSION = "network", 1
"""What a file says it holds; the version changes when an old reader would misread it."""


@dataclass(frozen=True, eq=False, repr=False)
class Layer:
    """Hidden units act(w·x + b): `weights` (width, dim) with one unit a row, `biases` (width,)."""

    weights: Weights
    biases: Biases | None = None
    activation: Activation = relu

    def __post_init__(self) -> None:
        weights = _finite("weights", self.weights, 2)
        biases = np.zeros(len(weights)) if self.biases is None else _finite("biases", self.biases, 1)
        if biases.shape != weights.shape[:1]:
            raise InvalidInput(
                f"{len(biases)} biases for {len(weights)} rows of weights.", "Every hidden unit has one bias.",
                "Give weights of shape (width, dim) and biases of shape (width,).", shapes=(weights.shape, biases.shape))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)

    def __call__(self, x: Array) -> Array:
        """Activations of the units, (n, width)."""
        return self.activation(self.before(x))

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


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """One hidden layer and a linear readout.

    Parameters
    ----------
    layer : Layer
    readout : array (width,) for one output, (width, outputs) for several
    offset : float, or array (outputs,)
    linear : array (dim,) or (dim, outputs), optional; added to the output as x @ linear
    """

    layer: Layer
    readout: Array
    offset: Array | float = 0.0
    linear: Array | None = field(default=None)

    def __post_init__(self) -> None:
        readout = _finite("readout", self.readout, np.ndim(self.readout))
        if readout.ndim not in (1, 2) or len(readout) != self.layer.width:
            raise InvalidInput(
                f"The readout has shape {readout.shape} for {self.layer.width} hidden units.",
                "Every hidden unit has one weight an output.", "Give shape (width,) or (width, outputs).", shape=readout.shape)
        tail = readout.shape[1:]
        offset = np.asarray(_finite("offset", self.offset, np.ndim(self.offset)))
        if offset.shape not in ((), tail):
            raise InvalidInput(
                f"The offset has shape {offset.shape} for {self.outputs} outputs.", "Every output has one offset.",
                "Give a number, or one for each output.", shape=offset.shape)
        object.__setattr__(self, "readout", readout)
        object.__setattr__(self, "offset", float(offset) if not tail else np.broadcast_to(offset, tail).copy())
        if self.linear is not None:
            linear = _finite("linear", self.linear, np.ndim(self.linear))
            if linear.shape != (self.layer.dim, *tail):
                raise InvalidInput(
                    f"The linear part has shape {linear.shape}.", f"Inputs have dimension {self.layer.dim}.",
                    "Give shape (dim,) or (dim, outputs), as the readout has.", shape=linear.shape)
            object.__setattr__(self, "linear", linear)

    def __call__(self, x: Array) -> Array:
        """Outputs at the rows of x: (n,) if the readout is a vector, else (n, outputs)."""
        x = np.asarray(x, dtype=float)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise InvalidInput(
                f"x has shape {x.shape}.", f"This network takes rows of dimension {self.dim}.",
                f"Give an array of shape (n, {self.dim}).", shape=x.shape)
        y: Array = self.layer(x) @ self.readout
        if self.linear is not None:
            y += x @ self.linear
        y += self.offset
        return y

    def __repr__(self) -> str:
        linear = "" if self.linear is None else ", with a linear part"
        return f"Network({self.dim}-{self.width}-{self.outputs}, {self.activation.name}{linear})"

    def canonical(self) -> Network:
        """The one representative of all networks that differ by symmetries only; the function stays the same.

        Unit rows where the scale is free, a positive first weight where the sign is, no zero or duplicate units, and the
        units sorted by weights, then bias. The sign of a ReLU-like unit is free only if there is a linear part to take up the
        difference. See `laybare.networks.canonical` for the symmetries and what rounding can do to the order.
        """
        w, b, a, c, linear, _ = canonical_units(self.units, self.activation, self.linear is not None)
        return self._like(Layer(w, b, self.activation), a, c, None if self.linear is None else linear)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file: complete or not at all, float64 bit for bit. `load` reads it."""
        try:
            builtin = activation_named(self.activation.name) == self.activation
        except InvalidInput:
            builtin = False
        if not builtin:
            raise InvalidInput(
                f"The activation {self.activation.name} is not built in.", "A file holds numbers and names, no code.",
                "Save the arrays weights, biases, readout and offset, and keep the activation in your program.")
        arrays = {"weights": self.layer.weights, "biases": self.layer.biases, "readout": self.readout, "offset": self.offset}
        linear = {} if self.linear is None else {"linear": self.linear}
        write(path, Contents(arrays | linear, {  # type: ignore[arg-type]
            "format": FORMAT, "version": VERSION, "activation": self.activation.name,
            "outputs": None if self.readout.ndim == 1 else self.outputs}))

    @property
    def dim(self) -> int:
        return self.layer.dim

    @property
    def width(self) -> int:
        return self.layer.width

    @property
    def outputs(self) -> int:
        return 1 if self.readout.ndim == 1 else int(self.readout.shape[1])

    @property
    def activation(self) -> Activation:
        return self.layer.activation

    @property
    def columns(self) -> tuple[Array, Array, Array]:
        """Readout (width, outputs), offset (outputs,) and linear part (dim, outputs; zero if absent), whatever the form given."""
        m = self.outputs
        linear = np.zeros((self.dim, m)) if self.linear is None else self.linear.reshape(self.dim, m)
        return self.readout.reshape(self.width, m), np.reshape(self.offset, (m,)).astype(float), linear

    @property
    def units(self) -> Units:
        """The same in the form that `laybare.networks.canonical` works on."""
        readout, offset, linear = self.columns
        parts = tuple((i,) for i in range(self.width))
        return Units(self.layer.weights, np.asarray(self.layer.biases), readout, offset, linear, parts)

    def _like(self, layer: Layer, readout: Array, offset: Array, linear: Array | None) -> Network:
        """A network from columns, in the form (vector or matrix) that this one has."""
        tail = self.readout.shape[1:]
        return Network(
            layer, readout.reshape(layer.width, *tail), offset.reshape(tail),
            None if linear is None else linear.reshape(layer.dim, *tail))


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


def load(path: str | os.PathLike[str]) -> Network:
    """The network that `network.save(path)` wrote. Anything else is refused with the reason; nothing in a file is ever run."""
    arrays, description = read(path)
    where = f"{os.fspath(path)} does not hold a network that this version can read"
    for key, wanted in (("format", FORMAT), ("version", VERSION)):
        _expect(where, key, description.get(key), wanted)
    _expect(where, "description", sorted(description), ["activation", "format", "outputs", "version"])
    _expect(where, "arrays", sorted({*arrays} - {"linear"}), ["biases", "offset", "readout", "weights"])
    _expect(where, "number of dimensions of weights", arrays["weights"].ndim, 2)
    width, dim = arrays["weights"].shape
    tail = () if description["outputs"] is None else (description["outputs"],)
    shapes = {"weights": (width, dim), "biases": (width,), "readout": (width, *tail), "offset": tail, "linear": (dim, *tail)}
    for name, array in arrays.items():
        _expect(where, f"shape of {name}", array.shape, shapes[name])
    try:
        layer = Layer(arrays["weights"], arrays["biases"], activation_named(str(description["activation"])))
        return Network(layer, arrays["readout"], arrays["offset"], arrays.get("linear"))
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.seen}", error.why, error.do, **error.values) from None


def _expect(where: str, what: str, found: Any, wanted: Any) -> None:
    if found != wanted or type(found) is not type(wanted):
        raise InvalidInput(
            f"{where}: {what} {found!r} instead of {wanted!r}.", "It may come from a newer laybare, or from another hand.",
            "Update laybare, or write the file again with network.save(path).", found=found, wanted=wanted)


def _finite(name: str, values: object, ndim: int) -> Array:
    """A float64 copy that nobody can write to, or a sentence that names the first bad entry."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} cannot be read as numbers ({error}).", "A network is made of real numbers.",
            f"Give {name} as an array of floats.") from None
    if array.ndim != ndim:
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

"""The arguments of `recover`: models, pairs and files become sources, names and classes become objects.

    recover(model)   recover(x, y)   recover((x, y))   recover("data.npz")   activation="tanh"
    method="tensor-init"   TensorInit without parentheses
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from os import PathLike, fspath
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from laybare.activations import Activation, as_activation
from laybare.errors import InvalidInput
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.methods.lines import Lines
from laybare.networks import Network
from laybare.numerics.checks import check_memory, check_number, check_whole, show_value
from laybare.numerics.shapes import Array
from laybare.pipeline.monitor import SearchLimit
from laybare.source import DaskSamples, Oracle, Samples, Source, as_law, open_samples
from laybare.source.protocol import is_source
from laybare.source.sample_files import holds_samples
from laybare.source.samples import is_dask

METHOD_NAMES: dict[str, Callable[..., Method]] = {
    "general-relu": GeneralReLU, "landscape-design": LandscapeDesign, "lines": Lines, "random-start": RandomStart,
    "symmetric-inputs": SymmetricInputs, "tensor-init": TensorInit, "tensor-init-literal": TensorInit.literal}
"""Names of methods, here and on the command line."""

SEARCH_COPIES = 10
"""Copies of all weights in a search. Derived: at least the point, its trial, gradients, steps, and spare units, of two runs."""


class Predictor(Protocol):
    """A fitted model in the manner of scikit-learn."""

    def predict(self, X: Array, /) -> ArrayLike: ...


SourceLike: TypeAlias = (
    Source | tuple[ArrayLike, ArrayLike] | str | PathLike[str] | Network | Predictor | Callable[[Array], ArrayLike])
"""A source, pairs (x, y), a file, or a black box: anything that an Oracle asks."""

LimitLike: TypeAlias = SearchLimit | float | None
MethodLike: TypeAlias = Method | type[Method] | str | None
"""A method, or its class or name for the defaults."""


class RecoverArguments(NamedTuple):
    """The arguments of `recover`, checked and converted."""

    source: Source
    method: Method | None
    width: int | None
    activation: Activation | None


def parse_arguments(source: Any, further: tuple[Any, ...] = (), *, law: Any = None, **named: Any) -> RecoverArguments:
    """Check and convert the arguments of `recover`; an error says what to write.

    `further` arguments stand after the source without a name: the outputs if the source is inputs, then method, width, activation
    in that order, of which any may be `named`.
    """
    pair = None
    if further and _is_array(source) and _is_array(further[0]):
        pair, further = (source, further[0]), further[1:]
    elif isinstance(source, tuple | list) and len(source) == 2 and all(map(_is_array, source)):
        pair = (source[0], source[1])
    given = _by_name(further, named)
    activation = None if given["activation"] is None else as_activation(given["activation"])
    method = as_method(given["method"], activation)
    rows = _source(source, pair, law)
    return RecoverArguments(rows, method, as_width(given["width"], rows.dim, method), activation)


def as_limit(given: Any) -> SearchLimit | None:
    """A limit, or seconds of wall time; None for the default."""
    if given is None or isinstance(given, SearchLimit):
        return given
    return SearchLimit(check_number("seconds", given, above=0, finite=False))


def _by_name(further: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Method, width and activation, wherever they stood; a number in the first place is the width."""
    given: dict[str, Any] = {"method": None, "width": None, "activation": None} | named
    places = list(given)[1:] if further and isinstance(further[0], int | np.integer) else list(given)
    twice = [name for name, _ in zip(places, further, strict=False) if given[name] is not None]
    if twice or len(further) > len(places):
        raise InvalidInput(
            f"{twice[0]} was given twice." if twice else f"{len(further)} arguments stand after the source.",
            "After the source, or after x and y, stand method, width and activation.", "Name them: method=..., width=...")
    return given | dict(zip(places, further, strict=False))


def _source(source: Any, pair: tuple[Any, Any] | None, law: Any) -> Any:
    if pair is not None:
        kind = DaskSamples if is_dask(pair[0]) else Samples
        return kind(*pair) if law is None else kind(*pair, law=as_law(law))
    if is_source(source):
        if law is not None:
            raise InvalidInput(
                f"law={show_value(law)} was given beside a source.", "A source has a law already.",
                "Give the law to the source: Samples(x, y, law=lb.Gaussian()).")
        return source
    if _is_array(source):
        raise InvalidInput(
            f"Inputs ({show_value(source)}) were given without outputs.", "A network is recovered from pairs.",
            "Write recover(x, y), or recover(Oracle(f, dim)) for a black box f.")
    if isinstance(source, str | PathLike) and holds_samples(fspath(source)):
        return open_samples(source) if law is None else open_samples(source, law=as_law(law))
    return Oracle(source) if law is None else Oracle(source, law=as_law(law))


def as_method(method: Any, activation: Activation | None) -> Method | None:
    """A method, or its class or name for the defaults; None for a choice by the data."""
    if isinstance(method, str):
        return _method_named(method, activation)
    if _is_array(method):
        raise InvalidInput(
            f"{show_value(method)} stands where the method belongs.",
            "Outputs belong to inputs, not to a source.",
            "Write recover(x, y, method), or recover(Samples(x, y), method).")
    if inspect.isclass(method) and hasattr(method, "activation"):
        made: Callable[..., Any] = method
        method = made() if activation is None else made(activation=activation)
    if method is not None and not isinstance(method, Method):
        raise InvalidInput(
            f"The method is {show_value(method)}.", "It does not find whole networks.",
            "Use recover_layer() with HighThreshold, or a method such as lb.RandomStart() here.")
    return method


def _method_named(name: str, activation: Activation | None) -> Method:
    """"tensor-init", "tensor_init" or "TensorInit", with its defaults."""
    known = {one.replace("-", ""): made for one, made in METHOD_NAMES.items()}
    made = known.get(name.strip().lower().replace("-", "").replace("_", ""))
    if made is None:
        raise InvalidInput(
            f"The method is {show_value(name)}.", "No method has that name.",
            f"Give one of {', '.join(METHOD_NAMES)}, or an object such as lb.TensorInit() that carries its choices.")
    return made() if activation is None else made(activation=activation)


def as_width(width: Any, dim: int, method: Method | None) -> int | None:
    """The number of hidden units, if it is given; with the spare ones of the method it fits into memory."""
    units = None if width is None else check_whole("width", width)
    wide = (units or 0) + (getattr(getattr(method, "search", None), "spares", None) or 0)
    check_memory(
        f"A search for {wide} units on {dim} inputs", SEARCH_COPIES * wide * (dim + 2), "Give a smaller width, or fewer spares.")
    return units


def _is_array(given: Any) -> bool:
    """Numbers in rows: arrays, data frames, series, tensors, sparse matrices, nested lists; no model and no text."""
    if isinstance(given, list):
        return bool(given) and (np.isscalar(given[0]) or isinstance(given[0], list | tuple)) and not isinstance(given[0], str)
    rows = hasattr(given, "__array__") or hasattr(given, "toarray")
    return is_dask(given) or (rows and hasattr(given, "shape") and not inspect.isclass(given))

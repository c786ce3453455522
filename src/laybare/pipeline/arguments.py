"""What a caller meant: models, pairs and files become sources, names and classes become objects; the rest is one sentence.

    recover(model)   recover(x, y)   recover((x, y))   recover("data.npz")   activation="tanh"   TensorInit without parentheses
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from laybare.activations import Activation, activation_named
from laybare.errors import InvalidInput
from laybare.methods import Method
from laybare.methods.lines import Lines
from laybare.source import DaskSamples, Oracle, Samples, Source, as_law, open_samples
from laybare.source.dask_samples import is_dask

TABLES = (".npz", ".npy", ".csv", ".parquet")
"""Endings of files that hold pairs; any other text names a black box."""


class Meant(NamedTuple):
    """The arguments of `recover` as it works with them."""

    source: Source
    method: Method | Lines | None
    width: int | None
    activation: Activation | None


def meant(source: Any, further: tuple[Any, ...] = (), *, law: Any = None, **named: Any) -> Meant:
    """The arguments as they were meant, or a sentence that says what to write.

    `further` stand after the source without a name: the outputs if the source is inputs, then method, width, activation in that
    order, of which any may be `named`.
    """
    pair = None
    if further and _is_array(source) and _is_array(further[0]):
        pair, further = (source, further[0]), further[1:]
    elif isinstance(source, tuple | list) and len(source) == 2 and all(map(_is_array, source)):
        pair = (source[0], source[1])
    given = _by_name(further, named)
    activation = as_activation(given["activation"])
    method = _method(given["method"], activation)
    return Meant(_source(source, pair, law), method, _width(given["width"]), activation)


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


def as_activation(given: Any) -> Activation | None:
    """An activation, by itself or by its name."""
    if given is None or isinstance(given, Activation):
        return given
    if isinstance(given, str):
        return activation_named(given)
    shown = f"the function {given.__name__}" if inspect.isfunction(given) else f"a {type(given).__name__}"
    raise InvalidInput(
        f"The activation is {shown}.", "Units need a value, a derivative and their symmetries.",
        "Give lb.relu, lb.leaky_relu(0.1) (with its number), a name such as 'tanh', or Activation.custom(value, derivative).")


def _source(source: Any, pair: tuple[Any, Any] | None, law: Any) -> Any:
    if pair is not None:
        kind = DaskSamples if is_dask(pair[0]) else Samples
        return kind(*pair) if law is None else kind(*pair, law=as_law(law))
    if is_source(source):
        if law is not None:
            raise InvalidInput(
                f"law={law!r} was given beside a source.", "A source has a law already.",
                "Give the law to the source: Samples(x, y, law=lb.Gaussian()).")
        return source
    if _is_array(source):
        raise InvalidInput(
            f"Inputs of shape {np.shape(source)} were given without outputs.", "A network is recovered from pairs.",
            "Write recover(x, y), or recover(Oracle(f, dim)) for a black box f.")
    if isinstance(source, str | PathLike) and _is_table(fspath(source)):
        return open_samples(source) if law is None else open_samples(source, law=as_law(law))
    return Oracle(source) if law is None else Oracle(source, law=as_law(law))


def _method(method: Any, activation: Activation | None) -> Method | Lines | None:
    if isinstance(method, str):
        raise InvalidInput(
            f"The method is {method!r}.", "Methods are objects that carry their choices.",
            "Give one, for example lb.TensorInit() or lb.RandomStart().")
    if _is_array(method):
        raise InvalidInput(
            f"An array of shape {np.shape(method)} stands where the method belongs.",
            "Outputs belong to inputs, not to a source.",
            "Write recover(x, y, method), or recover(Samples(x, y), method).")
    if inspect.isclass(method) and hasattr(method, "activation"):
        made: Callable[..., Any] = method
        method = made() if activation is None else made(activation=activation)
    if isinstance(getattr(method, "activation", None), str):
        method = replace(method, activation=activation_named(method.activation))
    return cast("Method | Lines | None", method)


def _width(width: Any) -> int | None:
    if width is not None and (isinstance(width, bool) or not isinstance(width, int | np.integer) or width < 1):
        raise InvalidInput(
            f"width={width!r}.", "A network has at least one hidden unit.", "Give a positive integer, or None to detect it.")
    return None if width is None else int(width)


def _is_array(given: Any) -> bool:
    """Numbers in rows: arrays, data frames, series, tensors, nested lists; no model and no text."""
    if isinstance(given, list):
        return bool(given) and (np.isscalar(given[0]) or isinstance(given[0], list | tuple)) and not isinstance(given[0], str)
    return is_dask(given) or (hasattr(given, "__array__") and hasattr(given, "shape") and not inspect.isclass(given))


def is_source(given: Any) -> bool:
    """By its class alone: to look at the number of outputs of an oracle would cost queries."""
    return all(hasattr(type(given), verb) for verb in ("sum", "split", "read"))


def _is_table(path: str) -> bool:
    return path.lower().endswith(TABLES) or ("://" not in path and Path(path).is_dir())

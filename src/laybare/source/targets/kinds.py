"""Which kind of black box was given. No library is imported to find out: who has a model of its kind has imported it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks import Network, load
from laybare.source.targets.endpoint import Endpoint
from laybare.source.targets.onnx_models import is_session, onnx_file, onnx_session
from laybare.source.targets.sklearn_models import is_estimator, sklearn_model
from laybare.source.targets.target import Target, digest
from laybare.source.targets.torch_modules import is_module, torch_module

ACCEPTED = (
    "Give a function f(x) of x (n, dim), a network, a fitted scikit-learn model, a torch module, an ONNX session, a file "
    ".onnx or .safetensors, 'module:function', or an http(s) address; for pairs that are there already use Samples.")


def as_target(given: Any) -> Target:
    """The black box behind whatever was given; a sentence if it is none."""
    if isinstance(given, str | PathLike):
        return _named(str(given))
    for fits, make in _KINDS:
        if fits(given):
            return make(given)
    if inspect.isclass(given) or not callable(given):
        shown = f"the class {given.__name__}" if inspect.isclass(given) else f"a {type(given).__name__}"
        raise InvalidInput(f"The black box is {shown}.", "It is called with inputs (n, dim) and returns outputs.", ACCEPTED)
    return Target(given, _name_of(given))


def _network(network: Network) -> Target:
    arrays = (network.layer.weights, network.layer.biases, network.readout, network.offset)
    extra = () if network.linear is None else (network.linear,)
    return Target(network, f"{network.activation.name} network {digest((*arrays, *extra))}", network.dim)


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Target]], ...] = (
    (lambda given: isinstance(given, Target), lambda given: given),
    (lambda given: isinstance(given, Endpoint), lambda given: given.target()),
    (lambda given: isinstance(given, Network), _network),
    (is_module, torch_module),
    (is_session, onnx_session),
    (is_estimator, sklearn_model),
)


def _named(text: str) -> Target:
    if text.startswith(("http://", "https://")):
        return Endpoint(text).target()
    if text.lower().endswith(".onnx"):
        return onnx_file(Path(text))
    if text.lower().endswith(".safetensors"):
        return as_target(load(text))
    module, _, attribute = text.partition(":")
    if not attribute or not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise InvalidInput(f"The black box is {text!r}.", "That names no file, function or address.", ACCEPTED, target=text)
    return _imported(text, module, attribute)


def _imported(text: str, module: str, attribute: str) -> Target:
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"{text!r} cannot be imported ({error}).", "The part before the colon is a module, the part after it a name inside.",
            "Check both, and that the module can be imported from here (PYTHONPATH).", target=text) from None
    target = as_target(found)
    return Target(target.ask, text if target.ask is found else f"{text} {target.name}", target.dim, target.batch)


def _name_of(given: Callable[..., Any]) -> str:
    """Module and name of a function, or of the class of an object that can be called."""
    told = given if hasattr(given, "__qualname__") else type(given)
    return f"{getattr(told, '__module__', '')}.{told.__qualname__}" if not isinstance(given, np.ufunc) else given.__name__

"""What can be asked: functions, networks, models of scikit-learn, torch and ONNX, files and addresses. All become a `Target`.

Of a scikit-learn classifier `predict_proba` is asked, of other estimators and pipelines `predict`. Torch modules are asked in
evaluation mode, without gradients, in their own precision. No library is imported to recognise a model: its owner has done so.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks import Network, load
from laybare.networks.state_dicts import STATE_DICT_REMARK, is_state_dict, load_state_dict
from laybare.numerics.checks import has_methods
from laybare.numerics.redaction import describe_error, redact
from laybare.numerics.shapes import Array
from laybare.source.oracle.endpoint import Endpoint
from laybare.source.oracle.links import CLASSES_ARE_NOT_ENOUGH
from laybare.source.oracle.onnx_models import is_session, open_file, open_session
from laybare.source.oracle.regions import InputRegion, batch_norm_region, scaler_region


@dataclass(frozen=True)
class Target:
    """A black box: the function x (n, dim) -> answers, its name in logs, its dimension if known, its largest batch.

    What a model says about itself: `region`, where its own scaler puts inputs; `link`, what its last operator does; `remark`,
    what it is, if that is no chain of layers.
    """

    ask: Callable[[Array], Any]
    name: str
    dim: int | None = None
    batch: int | None = None
    region: InputRegion | None = None
    link: str | None = None
    remark: str = ""


def digest(arrays: Iterable[Any]) -> str:
    """A hash of parameters, 16 hex digits."""
    found = blake2b(digest_size=8)
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def is_estimator(given: Any) -> bool:
    """Whether it has the methods of a scikit-learn estimator."""
    return not isinstance(given, type) and has_methods(given, "fit", "predict", "get_params")


def sklearn_model(model: Any) -> Target:
    """A fitted model; a classifier must have probabilities."""
    name = type(model).__name__
    dim = getattr(model, "n_features_in_", None)
    if dim is None:
        raise InvalidInput(f"The {name} has not been fitted.", "It has no weights yet.", "Call fit first.", model=name)
    classifies = hasattr(model, "classes_") or getattr(model, "_estimator_type", None) == "classifier"
    if classifies and not hasattr(model, "predict_proba"):
        raise InvalidInput(
            f"The {name} predicts classes and has no predict_proba.",
            CLASSES_ARE_NOT_ENOUGH,
            "Give its decision_function as the black box, or a model with probabilities.", model=name)
    ask = _without_name_warning(model.predict_proba if classifies else model.predict)
    return Target(ask, f"{name} {digest(_parameters(model))}", int(dim), region=scaler_region(model))


def _without_name_warning(predict: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """`predict` without the warning that rows without column names were given to a model fitted with names."""

    def ask(x: Array) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*valid feature names.*")
            return predict(x)

    return ask


def _parameters(model: Any) -> list[Any]:
    """Fitted arrays of all steps: weights, means and scales."""
    steps = [step for _, step in getattr(model, "steps", [])] or [model]
    names = ("coefs_", "intercepts_", "coef_", "intercept_", "mean_", "scale_", "var_", "min_", "components_")
    found = []
    for step in steps:
        for name in names:
            value = getattr(step, name, None)
            found += value if isinstance(value, list) else [] if value is None else [value]
    return found


def is_module(given: Any) -> bool:
    """Whether it is a torch module; torch is not imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)


def torch_module(module: Any) -> Target:
    """A module from (n, dim) to (n,) or (n, outputs); dim is that of its first linear layer."""
    import torch

    tensors = list(module.state_dict().values())
    first = next((tensor for tensor in tensors if tensor.is_floating_point()), torch.zeros(1))

    def ask(x: Array) -> Array:
        training = module.training
        module.eval()  # dropout would be noise
        try:
            with torch.no_grad():
                answer = module(torch.as_tensor(x, dtype=first.dtype, device=first.device))
        finally:
            module.train(training)
        if not isinstance(answer, torch.Tensor):
            raise InvalidInput(
                f"The torch module returned a {type(answer).__name__}.", "One tensor with a row for every input is needed.",
                "Wrap it in a function that returns that tensor.", returned=type(answer).__name__)
        return np.asarray((answer.double() if answer.is_floating_point() else answer).cpu().numpy())

    dims = (getattr(part, "in_features", None) for part in module.modules())
    name = f"{type(module).__name__} {digest(tensor.double().cpu().numpy() for tensor in tensors)}"
    return Target(ask, name, next((int(dim) for dim in dims if dim is not None), None), region=batch_norm_region(module))


ACCEPTED_KINDS = (
    "Give a function f(x) of x (n, dim), a network, a fitted scikit-learn model, a torch module, an ONNX session, a file "
    ".onnx or .safetensors, 'module:function', or an http(s) address; for given pairs (x, y) use Samples.")


def as_target(given: Any) -> Target:
    """The black box of any of these kinds; raises InvalidInput for anything else."""
    if isinstance(given, str | PathLike):
        return _named(str(given))
    for fits, make in _KINDS:
        if fits(given):
            return make(given)
    if inspect.isclass(given) or not callable(given):
        shown = f"the class {given.__name__}" if inspect.isclass(given) else f"a {type(given).__name__}"
        raise InvalidInput(f"The black box is {shown}.", "It is called with inputs (n, dim) and returns outputs.", ACCEPTED_KINDS)
    return Target(given, _name_of(given))


def _network(network: Network) -> Target:
    arrays = (network.layer.weights, network.layer.biases, network.readout, network.offset)
    extra = () if network.linear is None else (network.linear,)
    return Target(network, f"{network.activation.name} network {digest((*arrays, *extra))}", network.dim)


def _endpoint(endpoint: Endpoint) -> Target:
    return Target(endpoint.ask, endpoint.name, batch=endpoint.batch)


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Target]], ...] = (
    (lambda given: isinstance(given, Target), lambda given: given),
    (lambda given: isinstance(given, Endpoint), _endpoint),
    (lambda given: isinstance(given, Network), _network),
    (is_module, torch_module),
    (is_session, lambda given: Target(*open_session(given))),
    (is_estimator, sklearn_model),
)


def _named(text: str) -> Target:
    if "://" in text:
        return _endpoint(Endpoint(text))
    if text.lower().endswith(".onnx"):
        return Target(*open_file(Path(text)))
    if text.lower().endswith(".safetensors"):
        own = not is_state_dict(text)
        return _network(load(text)) if own else replace(_network(load_state_dict(text)), remark=STATE_DICT_REMARK)
    if text.lower().endswith((".pt", ".pth", ".pkl", ".pickle", ".joblib")):
        raise InvalidInput(
            f"{text} is a pickle.", "Whoever opens one runs the program inside of it, so laybare does not.",
            "Export the model to ONNX (torch.onnx.export), or name a function that loads and calls it: module:function.",
            target=text)
    module, _, attribute = text.partition(":")
    if not attribute or not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise InvalidInput(
            f"The black box is {redact(text)!r}.", "That is not the name of a file, function or address.", ACCEPTED_KINDS,
            target=redact(text))
    found = named_object(text)
    target = as_target(found)
    return replace(target, name=text if target.ask is found else f"{text} {target.name}")


def named_object(text: str) -> Any:
    """What "module:name" is, imported."""
    module, _, attribute = text.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module is a program of its own, and may raise anything
        do = f"Write {module.removesuffix('.py')}:{attribute}." if module.endswith(".py") else (
            "Check both, and that the module can be imported from here (PYTHONPATH).")
        raise InvalidInput(
            f"{text!r} cannot be imported: {describe_error(error)}.", "Before the colon stands a module, after it a name in it.",
            do, target=text) from (None if isinstance(error, ImportError | AttributeError) else error)
    return found


def _name_of(given: Callable[..., Any]) -> str:
    """Module and name of a function, or of the class of a callable object."""
    if isinstance(given, np.ufunc):
        return given.__name__
    named = given if inspect.isroutine(given) else type(given)
    return f"{getattr(named, '__module__', '')}.{named.__qualname__}"

"""PyTorch modules, both ways: nn.Sequential of Linear and activations, any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import laybare.activations as act
from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.export.chains import AffineMap, Chain, chain_from_network, import_optional, network_from_chain
from laybare.networks import Network
from laybare.numerics.checks import check_choice
from laybare.numerics.shapes import Array

if TYPE_CHECKING:
    from torch import nn

SOFTPLUS_THRESHOLD = 40.0
"""PyTorch's softplus returns t beyond it. Derived: log(1 + e^t) is t to the last bit there; the default, 20, errs by 2e-9."""

PASS_THROUGH_MODULES = ("Identity", "Dropout", "AlphaDropout", "Flatten")
"""Modules that leave rows as they are when a model is evaluated."""


def to_torch(network: Network, dtype: Literal["float64", "float32"] = "float64") -> nn.Module:
    """An nn.Sequential of Linear and activation modules that computes the network, (n, dim) -> (n, outputs).

    In float64 every weight keeps its bits and `from_torch` gives the network back. A linear part becomes a path of its own
    beside the Sequential (`laybare.export.torch_modules.WithLinearPart`): exact, and trainable like the rest.
    """
    torch = import_optional("torch", "to make a module")
    check_choice("dtype", dtype, ("float64", "float32"))
    from laybare.export.torch_modules import WithLinearPart

    chain, kind = chain_from_network(network), getattr(torch, dtype)
    modules: list[Any] = [_linear(torch, *chain.maps[0], kind)]
    for activation, following in zip(chain.activations, chain.maps[1:], strict=True):
        modules += [_module(activation), _linear(torch, *following, kind)]
    units = torch.nn.Sequential(*modules)
    if chain.linear is None:
        return units
    return WithLinearPart(units, _linear(torch, chain.linear.T, None, kind))


def from_torch(module: nn.Module) -> Network:
    """The network that an nn.Sequential of Linear and activations computes in evaluation mode, in float64.

    Sequentials may be nested; Identity, Dropout and Flatten are passed over. Anything else is refused by name: the order in
    which a module of one's own calls its parts cannot be read from it.
    """
    torch = import_optional("torch", "to read a module")
    from laybare.export.torch_modules import WithLinearPart

    beside = isinstance(module, WithLinearPart)
    maps: list[AffineMap] = []
    activations: list[Activation] = []
    for part in _parts(torch, module.units if beside else module):
        if isinstance(part, torch.nn.Linear):
            _check_order(len(maps) == len(activations), "two Linear in a row", "One linear map would do the same.")
            maps.append(_map(part))
        else:
            _check_order(len(maps) == len(activations) + 1, f"{type(part).__name__} where a Linear belongs",
                        "Every layer begins with a linear map.")
            activations.append(_activation(part))
    _check_order(len(maps) > 1, f"{len(maps)} Linear", "A network has a hidden layer and a readout.")
    _check_order(len(maps) == len(activations) + 1, f"{activations[-1].name if activations else 'nothing'} at the end",
                "The outputs of a Network are linear.")
    return network_from_chain(Chain(maps, activations, _map(module.linear).weights.T if beside else None))


def write_module_weights(module: nn.Module, maps: Sequence[AffineMap]) -> None:
    """Copy maps into the Linear parts of a module that `from_torch` reads, in the module's own precision and place."""
    torch = import_optional("torch", "to write into a module")
    linears = [part for part in _parts(torch, module) if isinstance(part, torch.nn.Linear)]
    for linear, given in zip(linears, maps, strict=True):
        if linear.bias is None or linear.weight.shape != given.weights.shape:
            out, into = given.weights.shape
            raise InvalidInput(
                f"The module has {linear}.", f"What is written has {into} inputs, {out} outputs, and biases.",
                "Give a module of that shape.")
    for linear, given in zip(linears, maps, strict=True):
        _copy(torch, linear, *given)


def _linear(torch: Any, weights: Array, biases: Array | None, kind: Any) -> Any:
    made = torch.nn.Linear(weights.shape[1], weights.shape[0], bias=biases is not None, dtype=kind)
    _copy(torch, made, weights, biases)
    return made


def _copy(torch: Any, linear: Any, weights: Array, biases: Array | None) -> None:
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(np.array(weights)))
        if biases is not None:
            linear.bias.copy_(torch.from_numpy(np.array(biases)))


def _map(linear: Any) -> AffineMap:
    weights = linear.weight.detach().cpu().double().numpy()
    biases = np.zeros(len(weights)) if linear.bias is None else linear.bias.detach().cpu().double().numpy()
    return AffineMap(weights, biases)


def _module(activation: Activation) -> Any:
    """The module of an activation; custom ones have none."""
    from torch import nn

    from laybare.export import torch_modules as ours

    plain: dict[str, Callable[[], Any]] = {
        "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "gelu": nn.GELU, "absolute": ours.Absolute, "erf": ours.Erf,
        "step": ours.ModuleStep, "softplus": lambda: nn.Softplus(threshold=SOFTPLUS_THRESHOLD)}
    families: dict[str, Callable[[float], Any]] = {
        "leaky_relu": nn.LeakyReLU, "power_relu": ours.PowerReLU, "exponential": ours.Exponential}
    name, _, number = activation.name.rstrip(")").partition("(")
    if name in plain:
        return plain[name]()
    if name in families:
        return families[name](float(number))
    raise InvalidInput(
        f"The network has {activation.name} units.", "A module would need its code.",
        "Build the module yourself from network.layers.", activation=activation.name)


def _activation(module: Any) -> Activation:
    """The activation of a module, or a sentence that names what is not known."""
    from torch import nn

    from laybare.export import torch_modules as ours

    known: dict[Any, Callable[[Any], Activation | None]] = {
        nn.ReLU: lambda m: act.relu, nn.Sigmoid: lambda m: act.sigmoid, nn.Tanh: lambda m: act.tanh,
        nn.GELU: lambda m: act.gelu if m.approximate == "none" else None,
        nn.Softplus: lambda m: act.softplus if m.beta == 1 and m.threshold >= SOFTPLUS_THRESHOLD / 2 else None,
        nn.LeakyReLU: lambda m: act.leaky_relu(m.negative_slope), ours.Absolute: lambda m: act.absolute,
        ours.Erf: lambda m: act.erf, ours.ModuleStep: lambda m: act.step, ours.PowerReLU: lambda m: act.power_relu(m.power),
        ours.Exponential: lambda m: act.exponential(m.rate)}
    found = known.get(type(module), lambda m: None)(module)
    if found is None:
        raise InvalidInput(
            f"The module has a part {module}.", f"Known are Linear, {', '.join(kind.__name__ for kind in known)}.",
            "Put the others outside, or query the module: Oracle(module, ...).", part=type(module).__name__)
    return found


def _parts(torch: Any, module: Any) -> Iterator[Any]:
    """The modules in the order of their calls, nested Sequentials opened, those that do nothing left out."""
    if isinstance(module, torch.nn.Sequential):
        for part in module:
            yield from _parts(torch, part)
    elif type(module).__name__ not in PASS_THROUGH_MODULES:
        yield module


def _check_order(right: bool, seen: str, why: str) -> None:
    if not right:
        raise InvalidInput(
            f"The module has {seen}.", why,
            "Give a Sequential of Linear, activation, Linear, …, Linear; module[:-1] leaves the last part away.")

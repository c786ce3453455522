"""Lay bare the hidden layer: recover a neural network's weights from samples or queries, with a certificate.

    samples / files / oracle           ->  Source
    Source.sum(statistics)             ->  sums                (one verb for every pass over the data)
    sums                               ->  Network             (a method finds a start)
    Network + Source.sum(statistics)   ->  Network             (refinement: machine precision, or the statistical floor)
    Network + fresh samples            ->  Certificate         (claims with numbers; never silently wrong)
    Recovery                           ->  report | save | predict

Slow libraries (scikit-learn, matplotlib, click, rich) are imported by the functions that need them, methods when first named.
"""

from typing import TYPE_CHECKING

from laybare.activations import (
    Activation,
    absolute,
    activation_named,
    erf,
    exponential,
    gelu,
    leaky_relu,
    power_relu,
    relu,
    sigmoid,
    softplus,
    step,
    tanh,
)
from laybare.certificate import Certificate, Claim
from laybare.errors import (
    AssumptionViolated,
    BudgetExhausted,
    InvalidInput,
    LaybareError,
    NotSeparated,
    TooFewSamples,
    Unidentifiable,
)
from laybare.export import from_sklearn, to_sklearn
from laybare.lazy import on_demand
from laybare.methods import RandomStart
from laybare.networks import Layer, Match, Network, compare, load
from laybare.pipeline import Recovery, recover, refine
from laybare.planted import random_network
from laybare.source import Gaussian, Oracle, Samples, Schedule, Symmetric, Unknown, open_samples

if TYPE_CHECKING:
    from laybare import decomposition, landscape, moments, planted, theory
    from laybare.lowest_layer import HighThreshold
    from laybare.lowest_layer.loop import LayerRecovery, learn_union, recover_layer
    from laybare.methods import GeneralReLU, LandscapeDesign, SymmetricInputs, TensorInit

__version__ = "0.1.0"

__getattr__ = on_demand(__name__, {
    "GeneralReLU": "laybare.methods",
    "HighThreshold": "laybare.lowest_layer",
    "LandscapeDesign": "laybare.methods",
    "SymmetricInputs": "laybare.methods",
    "TensorInit": "laybare.methods",
    "LayerRecovery": "laybare.lowest_layer.loop",
    "decomposition": "laybare.decomposition",
    "landscape": "laybare.landscape",
    "moments": "laybare.moments",
    "planted": "laybare.planted",
    "theory": "laybare.theory",
    "learn_union": "laybare.lowest_layer.loop",
    "recover_layer": "laybare.lowest_layer.loop",
})

__all__ = [
    "Activation",
    "AssumptionViolated",
    "BudgetExhausted",
    "Certificate",
    "Claim",
    "Gaussian",
    "GeneralReLU",
    "HighThreshold",
    "InvalidInput",
    "LandscapeDesign",
    "Layer",
    "LayerRecovery",
    "LaybareError",
    "Match",
    "Network",
    "NotSeparated",
    "Oracle",
    "RandomStart",
    "Recovery",
    "Samples",
    "Schedule",
    "Symmetric",
    "SymmetricInputs",
    "TensorInit",
    "TooFewSamples",
    "Unidentifiable",
    "Unknown",
    "absolute",
    "activation_named",
    "compare",
    "decomposition",
    "erf",
    "exponential",
    "from_sklearn",
    "gelu",
    "landscape",
    "leaky_relu",
    "learn_union",
    "load",
    "moments",
    "open_samples",
    "planted",
    "power_relu",
    "random_network",
    "recover",
    "recover_layer",
    "refine",
    "relu",
    "sigmoid",
    "softplus",
    "step",
    "tanh",
    "theory",
    "to_sklearn",
]


def __dir__() -> list[str]:
    return __all__

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
from laybare.lazy import on_demand
from laybare.methods import RandomStart
from laybare.networks import Layer, Match, Network, compare, load
from laybare.pipeline import Recovery, recover, refine
from laybare.planted import random_network
from laybare.source import Endpoint, Gaussian, Oracle, Samples, Schedule, Symmetric, Unknown, open_samples

if TYPE_CHECKING:
    from laybare import landscape
    from laybare.export import (
        from_json,
        from_npz,
        from_onnx,
        from_sklearn,
        from_torch,
        to_json,
        to_npz,
        to_onnx,
        to_sklearn,
        to_torch,
    )
    from laybare.insight import Insight, first_look
    from laybare.lowest_layer import (
        Annealing,
        DeltaAscent,
        FacetSearch,
        HalfSpaces,
        HighThreshold,
        LayerRecovery,
        MonomialTop,
        OneByOne,
        PrintedRoute,
        RandomSearch,
        RegressorTop,
        Simultaneous,
        ThirdMoments,
        UnionOfHalfSpaces,
        learn_union,
        recover_layer,
    )
    from laybare.methods import GeneralReLU, LandscapeDesign, SymmetricInputs, TensorInit

__version__ = "0.1.0"

__getattr__ = on_demand(__name__, {
    "GeneralReLU": "laybare.methods",
    "HighThreshold": "laybare.lowest_layer",
    "Insight": "laybare.insight",
    "LandscapeDesign": "laybare.methods",
    "SymmetricInputs": "laybare.methods",
    "TensorInit": "laybare.methods",
    "first_look": "laybare.insight",
    "from_json": "laybare.export",
    "from_npz": "laybare.export",
    "from_onnx": "laybare.export",
    "from_sklearn": "laybare.export",
    "from_torch": "laybare.export",
    "to_json": "laybare.export",
    "to_npz": "laybare.export",
    "to_onnx": "laybare.export",
    "to_sklearn": "laybare.export",
    "to_torch": "laybare.export",
    "landscape": "laybare.landscape",
    **dict.fromkeys((
        "Annealing", "DeltaAscent", "FacetSearch", "HalfSpaces", "LayerRecovery", "MonomialTop", "OneByOne", "PrintedRoute",
        "RandomSearch", "RegressorTop", "Simultaneous", "ThirdMoments", "UnionOfHalfSpaces", "learn_union", "recover_layer",
    ), "laybare.lowest_layer"),
})

__all__ = [
    "Activation",
    "Annealing",
    "AssumptionViolated",
    "BudgetExhausted",
    "Certificate",
    "Claim",
    "DeltaAscent",
    "Endpoint",
    "FacetSearch",
    "Gaussian",
    "GeneralReLU",
    "HalfSpaces",
    "HighThreshold",
    "Insight",
    "InvalidInput",
    "LandscapeDesign",
    "LaybareError",
    "Layer",
    "LayerRecovery",
    "Match",
    "MonomialTop",
    "Network",
    "NotSeparated",
    "OneByOne",
    "Oracle",
    "PrintedRoute",
    "RandomSearch",
    "RandomStart",
    "Recovery",
    "RegressorTop",
    "Samples",
    "Schedule",
    "Simultaneous",
    "Symmetric",
    "SymmetricInputs",
    "TensorInit",
    "ThirdMoments",
    "TooFewSamples",
    "Unidentifiable",
    "UnionOfHalfSpaces",
    "Unknown",
    "absolute",
    "activation_named",
    "compare",
    "erf",
    "exponential",
    "first_look",
    "from_json",
    "from_npz",
    "from_onnx",
    "from_sklearn",
    "from_torch",
    "gelu",
    "landscape",
    "leaky_relu",
    "learn_union",
    "load",
    "open_samples",
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
    "to_json",
    "to_npz",
    "to_onnx",
    "to_sklearn",
    "to_torch",
]


def __dir__() -> list[str]:
    return __all__

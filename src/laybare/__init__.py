"""Lay bare the hidden layer: recover a neural network's weights from samples or queries, with a certificate.

    samples / files / black box        ->  Source              (every pass over the data is source.sum(statistic))
    Source                             ->  Problem             (posed once: used and fresh rows, white, kept if they fit)
    Problem                            ->  Start               (a method says where units may be: rows and claims)
    Start + Source.sum(Gauss-Newton)   ->  Network             (one search: spares, repairs, pruning, signs)
    Network + fresh rows               ->  Certificate         (claims with numbers; never silently wrong)
    Recovery                           ->  report | save | predict

Slow libraries (scikit-learn, matplotlib, click, rich) are imported by the functions that need them, everything else
when it is first named: `import laybare` costs next to nothing, and so does `laybare --help`.
"""

from typing import TYPE_CHECKING

from laybare.lazy import homes_of, on_demand
from laybare.version import __version__ as __version__

if TYPE_CHECKING:
    from laybare import decomposition, landscape, moments, planted, theory
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
    from laybare.damping import Effort
    from laybare.errors import (
        AssumptionViolated,
        BudgetExhausted,
        ClusterFailure,
        InvalidInput,
        LaybareError,
        NotSeparated,
        TooFewSamples,
        Unidentifiable,
    )
    from laybare.estimator import NetworkRecovery, UnionOfHalfSpaces
    from laybare.export import (
        from_json,
        from_npz,
        from_onnx,
        from_sklearn,
        from_torch,
        initialise,
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
        HalfSpaceUnion,
        HighThreshold,
        LayerRecovery,
        MonomialTop,
        OneByOne,
        PrintedRoute,
        RandomSearch,
        RegressorTop,
        Simultaneous,
        ThirdMoments,
        learn_union,
        recover_layer,
        slab_correlations,
    )
    from laybare.methods import (
        AnnihilatorRoute,
        GeneralReLU,
        JointSpan,
        LandscapeDesign,
        Lines,
        Method,
        PolarRoute,
        PracticalRoute,
        PrintedDescent,
        PrintedDesign,
        PrintedMoments,
        PrintedNeurons,
        PrintedReLU,
        RandomStart,
        RefinedMoments,
        Route,
        SpectralRoute,
        Start,
        SymmetricInputs,
        TensorInit,
        TensorRoute,
        WhitenedRoute,
    )
    from laybare.methods.choosing import Choice, choose
    from laybare.networks import Layer, LayerMatch, Match, Network, compare
    from laybare.pipeline import Audit, Recovery, audit, load, recover, refine
    from laybare.planted import random_network
    from laybare.refinement.descent import Descent
    from laybare.refinement.hunt import Search
    from laybare.source import (
        DaskEngine,
        DaskSamples,
        Endpoint,
        Gaussian,
        Oracle,
        Samples,
        Schedule,
        Simulation,
        Source,
        Symmetric,
        Unknown,
        open_samples,
    )

ROOMS = (
    "activations", "certificate", "damping", "decomposition", "errors", "landscape", "moments", "networks", "pipeline", "planted",
    "refinement", "shapes", "source", "theory")
"""Packages that are reached as lb.room without an import of their own."""

__getattr__ = on_demand(__name__, {room: f"laybare.{room}" for room in ROOMS} | homes_of({
    "laybare.activations": (
        "Activation absolute activation_named erf exponential gelu leaky_relu power_relu relu sigmoid softplus step tanh"),
    "laybare.errors": (
        "AssumptionViolated BudgetExhausted ClusterFailure InvalidInput LaybareError NotSeparated TooFewSamples Unidentifiable"),
    "laybare.networks": "Layer LayerMatch Match Network compare",
    "laybare.planted": "random_network",
    "laybare.source": (
        "DaskEngine DaskSamples Endpoint Gaussian Oracle Samples Schedule Simulation Source Symmetric Unknown open_samples"),
    "laybare.certificate": "Certificate Claim",
    "laybare.damping": "Effort",
    "laybare.refinement.descent": "Descent",
    "laybare.refinement.overwide": "Search",
    "laybare.estimator": "NetworkRecovery UnionOfHalfSpaces",
    "laybare.export": (
        "from_json from_npz from_onnx from_sklearn from_torch initialise to_json to_npz to_onnx to_sklearn to_torch"),
    "laybare.insight": "Insight first_look",
    "laybare.lowest_layer": (
        "Annealing DeltaAscent FacetSearch HalfSpaces HalfSpaceUnion HighThreshold LayerRecovery MonomialTop OneByOne "
        "PrintedRoute RandomSearch RegressorTop Simultaneous ThirdMoments learn_union recover_layer "
        "slab_correlations"),
    "laybare.methods": (
        "Method RandomStart Route Start AnnihilatorRoute "
        "GeneralReLU JointSpan LandscapeDesign Lines PolarRoute PracticalRoute PrintedDescent PrintedDesign "
        "PrintedMoments PrintedNeurons PrintedReLU RefinedMoments SpectralRoute SymmetricInputs TensorInit TensorRoute "
        "WhitenedRoute"),
    "laybare.methods.choosing": "Choice choose",
    "laybare.pipeline": "Audit audit Recovery load recover refine",
}))

__all__ = [
    "Activation",
    "Annealing",
    "AnnihilatorRoute",
    "AssumptionViolated",
    "Audit",
    "BudgetExhausted",
    "Certificate",
    "Choice",
    "Claim",
    "ClusterFailure",
    "DaskEngine",
    "DaskSamples",
    "DeltaAscent",
    "Descent",
    "Effort",
    "Endpoint",
    "FacetSearch",
    "Gaussian",
    "GeneralReLU",
    "HalfSpaces",
    "HalfSpaceUnion",
    "HighThreshold",
    "Insight",
    "InvalidInput",
    "JointSpan",
    "LandscapeDesign",
    "LaybareError",
    "Layer",
    "LayerMatch",
    "LayerRecovery",
    "Lines",
    "Match",
    "Method",
    "MonomialTop",
    "Network",
    "NetworkRecovery",
    "NotSeparated",
    "OneByOne",
    "Oracle",
    "PolarRoute",
    "PracticalRoute",
    "PrintedDescent",
    "PrintedDesign",
    "PrintedMoments",
    "PrintedNeurons",
    "PrintedReLU",
    "PrintedRoute",
    "RandomSearch",
    "RandomStart",
    "Recovery",
    "RefinedMoments",
    "RegressorTop",
    "Route",
    "Samples",
    "Schedule",
    "Search",
    "Simulation",
    "Simultaneous",
    "Source",
    "SpectralRoute",
    "Start",
    "Symmetric",
    "SymmetricInputs",
    "TensorInit",
    "TensorRoute",
    "ThirdMoments",
    "TooFewSamples",
    "Unidentifiable",
    "UnionOfHalfSpaces",
    "Unknown",
    "WhitenedRoute",
    "absolute",
    "activation_named",
    "audit",
    "choose",
    "compare",
    "decomposition",
    "erf",
    "exponential",
    "first_look",
    "from_json",
    "from_npz",
    "from_onnx",
    "from_sklearn",
    "from_torch",
    "gelu",
    "initialise",
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
    "slab_correlations",
    "softplus",
    "step",
    "tanh",
    "theory",
    "to_json",
    "to_npz",
    "to_onnx",
    "to_sklearn",
    "to_torch",
]


def __dir__() -> list[str]:
    return __all__

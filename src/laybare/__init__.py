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

from laybare.numerics.lazy import homes_of, on_demand
from laybare.version import __version__ as __version__

if TYPE_CHECKING:
    from laybare import (  # noqa: F401 (rooms, reached as lb.room)
        activations,
        auditing,
        certificate,
        decomposition,
        errors,
        estimator,
        export,
        landscape,
        likelihood,
        lines,
        lowest_layer,
        methods,
        moments,
        networks,
        numerics,
        pipeline,
        planted,
        report,
        search,
        solver,
        source,
        studies,
        theory,
    )
    from laybare.activations import (
        Activation,
        absolute,
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
    from laybare.auditing import Audit, audit
    from laybare.certificate import Certificate, Claim
    from laybare.errors import LaybareError
    from laybare.estimator import NetworkClassifier, NetworkRecovery, UnionOfHalfSpaces
    from laybare.export import from_onnx, from_sklearn, from_torch, to_onnx, to_sklearn, to_torch
    from laybare.export.recovery_files import load
    from laybare.lines.look import first_look
    from laybare.lowest_layer import HighThreshold, recover_layer
    from laybare.methods import (
        GeneralReLU,
        LandscapeDesign,
        Lines,
        Method,
        RandomStart,
        Start,
        SymmetricInputs,
        TensorInit,
    )
    from laybare.methods.choosing import choose
    from laybare.networks import Layer, Match, Network, compare, simplify
    from laybare.pipeline import Recovery, recover, refine
    from laybare.planted import random_network
    from laybare.search.settings import Search
    from laybare.source import DaskSamples, Gaussian, Oracle, Samples, Source, Symmetric, Unknown, open_samples

ROOMS = (
    "activations", "auditing", "certificate", "decomposition", "errors", "estimator", "export", "landscape", "likelihood",
    "lines", "lowest_layer", "methods", "moments", "networks", "numerics", "pipeline", "planted", "report", "search",
    "solver", "source", "studies", "theory")
"""Packages that are reached as lb.room without an import of their own."""

MOVED = homes_of({
    "laybare.activations": "activation_named",
    "laybare.errors": "AssumptionViolated BudgetExhausted ClusterFailure InvalidInput NotSeparated TooFewSamples Unidentifiable",
    "laybare.networks": "LayerMatch",
    "laybare.source": "DaskEngine Endpoint Schedule Simulation",
    "laybare.landscape": "Descent",
    "laybare.solver": "Effort",
    "laybare.export": "from_json from_npz initialise to_json to_npz",
    "laybare.lines": "Insight",
    "laybare.lowest_layer": (
        "Annealing DeltaAscent FacetSearch HalfSpaces HalfSpaceUnion LayerRecovery MonomialTop OneByOne PrintedRoute "
        "RandomSearch RegressorTop Simultaneous ThirdMoments learn_union slab_correlations"),
    "laybare.methods": (
        "AnnihilatorRoute Choice JointSpan PolarRoute PracticalRoute PrintedDescent PrintedDesign PrintedMoments PrintedNeurons "
        "PrintedReLU RefinedMoments Route SpectralRoute TensorRoute WhitenedRoute"),
})
"""Names that stood here until version 0.2, and the rooms they are in."""

__getattr__ = on_demand(
    __name__,
    {room: f"laybare.{room}" for room in ROOMS} | homes_of({
        "laybare.activations": (
            "Activation absolute erf exponential gelu leaky_relu power_relu relu sigmoid softplus step tanh"),
        "laybare.errors": "LaybareError",
        "laybare.networks": "Layer Match Network compare simplify",
        "laybare.planted": "random_network",
        "laybare.source": "DaskSamples Gaussian Oracle Samples Source Symmetric Unknown open_samples",
        "laybare.certificate": "Certificate Claim",
        "laybare.search.settings": "Search",
        "laybare.estimator": "NetworkClassifier NetworkRecovery UnionOfHalfSpaces",
        "laybare.export": "from_onnx from_sklearn from_torch to_onnx to_sklearn to_torch",
        "laybare.lines.look": "first_look",
        "laybare.lowest_layer": "HighThreshold recover_layer",
        "laybare.methods": "GeneralReLU LandscapeDesign Lines Method RandomStart Start SymmetricInputs TensorInit",
        "laybare.methods.choosing": "choose",
        "laybare.export.recovery_files": "load",
        "laybare.auditing": "Audit audit",
        "laybare.pipeline": "Recovery recover refine",
    }),
    renamed={name: f"{room}.{name}" for name, room in MOVED.items()})

__all__ = [
    "Activation",
    "Audit",
    "Certificate",
    "Claim",
    "DaskSamples",
    "Gaussian",
    "GeneralReLU",
    "HighThreshold",
    "LandscapeDesign",
    "LaybareError",
    "Layer",
    "Lines",
    "Match",
    "Method",
    "Network",
    "NetworkClassifier",
    "NetworkRecovery",
    "Oracle",
    "RandomStart",
    "Recovery",
    "Samples",
    "Search",
    "Source",
    "Start",
    "Symmetric",
    "SymmetricInputs",
    "TensorInit",
    "UnionOfHalfSpaces",
    "Unknown",
    "absolute",
    "audit",
    "choose",
    "compare",
    "erf",
    "exponential",
    "first_look",
    "from_onnx",
    "from_sklearn",
    "from_torch",
    "gelu",
    "leaky_relu",
    "load",
    "open_samples",
    "power_relu",
    "random_network",
    "recover",
    "recover_layer",
    "refine",
    "relu",
    "sigmoid",
    "simplify",
    "softplus",
    "step",
    "tanh",
    "to_onnx",
    "to_sklearn",
    "to_torch",
]


def __dir__() -> list[str]:
    return sorted([*__all__, *ROOMS])

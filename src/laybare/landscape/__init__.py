"""Objectives without bad minima, and what their landscapes look like: Ge, Lee & Ma (2018), in the population and from samples.

    Teacher                                 a known network, for population objectives
    ReLURisk, series_risk                   the squared loss f, in closed form and as Hermite series
    population_tensor_risk, tensor_risk     f′: tensors of orders 2 and 4 decomposed together
    population_g, orthogonal_design         G, for orthonormal weights
    population_f, general_design            F, for independent weights, with δ if there are fewer than dimensions
    whitened_design                         F in whitened coordinates, where it is well conditioned
    pairs_on_spheres                        P′ and R
    SampledRisk, SampledPenalty             the squared loss, and F's penalty, over a source or one batch
    descend, lbfgs, trust_region            deterministic descent, out of saddles
    stochastic_descent, polar_iteration     fresh samples at every step; all components at once
    gradient_descent, adam                  first-order fits of a network, as printed, for comparison
    second_order, critical_points           is this a minimum? which others are there?
    algorithm_1, algorithm_2, from_inverse  from a minimum to the network
    theorem_2_3, theorem_b_1, ...           what μ, λ, δ the theorems ask for
"""

from laybare.landscape.designs import (
    Bounds,
    Design,
    DesignParameters,
    LandscapeUnits,
    NearMinimum,
    NormPenalty,
    Penalty,
    SampledPenalty,
    algorithm_1,
    algorithm_2,
    corrected_readout,
    from_inverse,
    general_design,
    orthogonal_design,
    pairs_on_spheres,
    population_f,
    population_g,
    theorem_2_3,
    theorem_b_1,
    theorem_b_1_nearness,
    theorem_c_4,
    theorem_c_5,
    whitened_design,
)
from laybare.landscape.first_order import (
    Descent,
    DescentPath,
    Response,
    SampledRisk,
    StepSchedule,
    Stream,
    adam,
    batch_stream,
    even_response,
    gradient_descent,
    response_of,
    stochastic_descent,
)
from laybare.landscape.minimisers import (
    CriticalPoint,
    CriticalPoints,
    Minimum,
    SecondOrder,
    StoppingPoint,
    critical_points,
    descend,
    lbfgs,
    second_order,
    trust_region,
)
from laybare.landscape.objective import (
    Domain,
    FourthMoment,
    FreeSpace,
    LocalDerivatives,
    Objective,
    RankOneQuartic,
    Teacher,
    TurnedQuartic,
    UnitRows,
    ValueAndGradient,
    coefficient,
    polar_iteration,
    whitening,
)
from laybare.landscape.risks import (
    ReLURisk,
    SeriesRisk,
    TensorRisk,
    least_risk,
    order_energy,
    population_tensor_risk,
    series_risk,
    tensor_risk,
)

__all__ = [
    "Domain", "FreeSpace", "UnitRows", "Objective", "LocalDerivatives", "ValueAndGradient",
    "Teacher", "FourthMoment", "RankOneQuartic", "TurnedQuartic", "coefficient",
    "ReLURisk", "SeriesRisk", "series_risk", "TensorRisk", "tensor_risk", "population_tensor_risk",
    "order_energy", "least_risk",
    "Design", "orthogonal_design", "general_design", "whitened_design", "population_g", "population_f", "pairs_on_spheres",
    "Penalty", "NormPenalty", "SampledPenalty", "SampledRisk", "Response", "response_of", "even_response",
    "Bounds", "DesignParameters", "NearMinimum", "theorem_2_3", "theorem_b_1", "theorem_b_1_nearness",
    "theorem_c_4", "theorem_c_5",
    "StoppingPoint", "lbfgs", "trust_region", "SecondOrder", "second_order", "Minimum", "descend",
    "StepSchedule", "Stream", "DescentPath", "batch_stream", "stochastic_descent", "polar_iteration", "whitening",
    "LandscapeUnits", "algorithm_1", "algorithm_2", "corrected_readout", "from_inverse",
    "CriticalPoint", "CriticalPoints", "critical_points", "Descent", "adam", "gradient_descent",
]

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
    second_order, critical_points           is this a minimum? which others are there?
    algorithm_1, algorithm_2, from_inverse  from a minimum to the network
    theorem_2_3, theorem_b_1, ...           what μ, λ, δ the theorems ask for
"""

from laybare.landscape.batches import Response, SampledRisk, even_response, response_of
from laybare.landscape.curvature import SecondOrder, second_order
from laybare.landscape.descent import Minimum, descend
from laybare.landscape.designed import (
    Design,
    general_design,
    orthogonal_design,
    pairs_on_spheres,
    population_f,
    population_g,
    whitened_design,
)
from laybare.landscape.domain import Domain, Free, UnitRows
from laybare.landscape.explorer import CriticalPoint, CriticalPoints, critical_points
from laybare.landscape.kernels import ReLURisk, SeriesRisk, series_risk
from laybare.landscape.objective import Local, Objective, ValueAndGradient
from laybare.landscape.operators import FourthMoment, RankOneQuartic, Teacher, TurnedQuartic, coefficient
from laybare.landscape.penalties import NormPenalty, Penalty, SampledPenalty
from laybare.landscape.polar import polar_iteration, whitening
from laybare.landscape.recovery import LandscapeUnits, algorithm_1, algorithm_2, corrected_readout, from_inverse
from laybare.landscape.rules import Bounds, Parameters, theorem_2_3, theorem_b_1, theorem_c_4, theorem_c_5
from laybare.landscape.smooth import StoppingPoint, lbfgs, trust_region
from laybare.landscape.stochastic import Steps, Stream, Walk, batches_of, stochastic_descent
from laybare.landscape.tensors import TensorRisk, population_tensor_risk, tensor_risk

__all__ = [
    "Domain", "Free", "UnitRows", "Objective", "Local", "ValueAndGradient",
    "Teacher", "FourthMoment", "RankOneQuartic", "TurnedQuartic", "coefficient",
    "ReLURisk", "SeriesRisk", "series_risk", "TensorRisk", "tensor_risk", "population_tensor_risk",
    "Design", "orthogonal_design", "general_design", "whitened_design", "population_g", "population_f", "pairs_on_spheres",
    "Penalty", "NormPenalty", "SampledPenalty", "SampledRisk", "Response", "response_of", "even_response",
    "Bounds", "Parameters", "theorem_2_3", "theorem_b_1", "theorem_c_4", "theorem_c_5",
    "StoppingPoint", "lbfgs", "trust_region", "SecondOrder", "second_order", "Minimum", "descend",
    "Steps", "Stream", "Walk", "batches_of", "stochastic_descent", "polar_iteration", "whitening",
    "LandscapeUnits", "algorithm_1", "algorithm_2", "corrected_readout", "from_inverse",
    "CriticalPoint", "CriticalPoints", "critical_points",
]

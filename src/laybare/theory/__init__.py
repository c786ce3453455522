"""Theory alone: condition numbers, guarantees with their constants, the expected risk and its curvature.

    conditioning                                κ, λ, ν, τ of a network, and how the curvature at the truth scales with them
    local_convexity, descent_rate, ...          what each theorem of Zhong et al. (2017) asks for and promises
    relu_units, relu_recovery, ...              the same for Awasthi et al. (2021): Theorems D.1, 3.1 and 3.2
    symmetric_recovery                          the same for Ge et al. (2019): Theorem 7
    moment_assumptions                          which moments of an activation carry information
    expected_risk, expected_gradient, ...       ½ E|net - truth|² for x ~ N(0, I), with gradient and Hessian, in closed form
    curvature, hessian_product                  the Hessian of the risk on samples
"""

from laybare.theory.guarantees import (
    Assumption,
    Bound,
    Conditioning,
    Guarantee,
    conditioning,
    descent_rate,
    global_recovery,
    local_convexity,
    moment_assumptions,
    start_accuracy,
)
from laybare.theory.relu_guarantees import relu_approximation, relu_recovery, relu_units
from laybare.theory.risk_curvature import (
    Curvature,
    ExpectedHessian,
    HessianProduct,
    curvature,
    expected_gradient,
    expected_hessian,
    expected_risk,
    extreme_eigenvalues,
    hessian_product,
)
from laybare.theory.symmetric_guarantees import InputLaw, symmetric_recovery

__all__ = [
    "Conditioning", "conditioning",
    "Assumption", "Bound", "Guarantee", "local_convexity", "descent_rate", "start_accuracy", "global_recovery",
    "moment_assumptions", "relu_units", "relu_recovery", "relu_approximation", "InputLaw", "symmetric_recovery",
    "ExpectedHessian", "expected_risk", "expected_gradient", "expected_hessian",
    "Curvature", "HessianProduct", "curvature", "hessian_product", "extreme_eigenvalues",
]

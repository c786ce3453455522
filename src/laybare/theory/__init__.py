"""Theory alone: condition numbers, guarantees with their constants, the expected risk and its curvature.

    conditioning                                κ, λ, ν, τ of a network, and how the curvature at the truth scales with them
    local_convexity, descent_rate, ...          what each theorem of Zhong et al. (2017) asks for and promises
    relu_units, relu_recovery, ...              the same for Awasthi et al. (2021): Theorems D.1, 3.1 and 3.2
    symmetric_recovery, single_unit_recovery    the same for Ge et al. (2019): Theorems 7 and 8
    layer_closeness, linear_part_gap            the same for Goel and Panigrahy (2019): Lemma 2, Claim 2
    psi, even_coefficients, ...                 closed forms of theirs, printed and corrected
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
from laybare.theory.high_threshold_forms import (
    EvenCoefficients,
    composed_coefficients,
    delta_prime_at_origin,
    density,
    empirical_shifted_mean,
    even_coefficients,
    gaussian_tail,
    layer_closeness,
    linear_part_gap,
    penalised_objective,
    population_correlations,
    printed_product_bound,
    printed_psi,
    product_bound,
    psi,
    shifted_mean,
    sigmoid_tail,
    step_unit_slope,
    threshold_coefficient,
)
from laybare.theory.relu_guarantees import (
    InputLaw,
    LinearStandIn,
    first_layer_error,
    leave_one_out_bound,
    leave_one_out_distance,
    linear_stand_in,
    perturbed_angle,
    relu_approximation,
    relu_recovery,
    relu_units,
    sign_margin,
    single_unit_recovery,
    symmetric_recovery,
)
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

__all__ = [
    "Conditioning", "conditioning",
    "Assumption", "Bound", "Guarantee", "local_convexity", "descent_rate", "start_accuracy", "global_recovery",
    "moment_assumptions", "relu_units", "relu_recovery", "relu_approximation", "LinearStandIn", "linear_stand_in",
    "InputLaw", "symmetric_recovery", "single_unit_recovery", "first_layer_error", "sign_margin", "leave_one_out_bound",
    "leave_one_out_distance",
    "perturbed_angle", "layer_closeness", "linear_part_gap",
    "threshold_coefficient", "composed_coefficients", "density", "step_unit_slope", "delta_prime_at_origin",
    "EvenCoefficients", "even_coefficients", "population_correlations", "psi", "printed_psi", "gaussian_tail", "sigmoid_tail",
    "printed_product_bound", "product_bound", "shifted_mean", "empirical_shifted_mean", "penalised_objective",
    "ExpectedHessian", "expected_risk", "expected_gradient", "expected_hessian",
    "Curvature", "HessianProduct", "curvature", "hessian_product", "extreme_eigenvalues",
]

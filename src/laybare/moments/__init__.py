"""Hermite moments and detectors: sums over the data, packed, contracted or projected, with their noise.

    packed_moments, controlled_moments      all orders up to K, packed (controlled: most of the noise removed, its level given)
    second_moment, third_slices, ...        orders 2-4 as matrices, where the tensor would be too large
    quartic, PackedQuartic                  order 4 as an operator, for objectives
    fit_hermite, refine_subspace            least-squares moments, in all inputs or in the span of the weights
    linear_product, detector                the pure-neuron detector of symmetric inputs
    augmented_matrix, distinguishability    whether the inputs distinguish the pairs of units
    measure, measure_with_noise             any moment, with the split-half noise of every entry
    population_moments, population_tensor   moments of a known network, exact
    score_moments, independent_score        moments by the score of a law that is not normal
    normality                               whether the inputs look like N(0, I)
    khatri_rao_gap, smoothed_width          how well weights are separated, and how many of them can be
"""

from laybare.moments.contractions import (
    FourthSlices,
    PackedQuartic,
    Quartic,
    SecondMoment,
    ThirdSlices,
    WeightSpan,
    fourth_slices,
    leading_directions,
    projected_tensors,
    quartic,
    refine_subspace,
    second_moment,
    third_slices,
)
from laybare.moments.hermite_moments import (
    HermiteMoments,
    RankOneSum,
    ScoreMoments,
    hermite_features,
    independent_score,
    packed_moments,
    population_moments,
    population_tensor,
    score_moments,
)
from laybare.moments.measurement import MEMORY_LIMIT, Measurement, Moment, Normality, measure, measure_with_noise, normality
from laybare.moments.packed import (
    PackedMoments,
    flatten,
    khatri_rao_gap,
    needed_order,
    smat,
    smoothed_width,
    svec,
    svec_products,
    svec_squares,
    unpack,
    veronese,
)
from laybare.moments.pure_neuron_detector import (
    OddPart,
    PureNeuronDetector,
    augmented_matrix,
    detector,
    detector_gap_bound,
    distinguishability,
    distinguishing_matrices,
    even_absolute,
    even_quadratic,
    gaussian_augmented,
    linear_product,
    opposite_products,
    population_detector,
)
from laybare.moments.regression import (
    Control,
    HermiteFit,
    Regression,
    Residual,
    affordable_degree,
    controlled_moments,
    fit_control,
    fit_hermite,
    least_squares,
    pair_units,
)

__all__ = [
    "HermiteMoments", "PackedMoments", "packed_moments", "hermite_features", "flatten", "unpack", "veronese",
    "SecondMoment", "ThirdSlices", "FourthSlices",
    "second_moment", "third_slices", "fourth_slices", "projected_tensors",
    "Quartic", "PackedQuartic", "quartic",
    "Control", "controlled_moments", "fit_control", "pair_units", "Residual", "HermiteFit", "fit_hermite", "affordable_degree",
    "Regression", "least_squares", "WeightSpan", "refine_subspace", "leading_directions",
    "PureNeuronDetector", "OddPart", "detector", "linear_product",
    "even_absolute", "even_quadratic", "distinguishing_matrices", "opposite_products", "population_detector",
    "gaussian_augmented", "augmented_matrix", "distinguishability", "detector_gap_bound",
    "svec", "smat", "svec_squares", "svec_products",
    "Measurement", "Moment", "measure", "measure_with_noise",
    "RankOneSum", "population_moments", "population_tensor", "MEMORY_LIMIT",
    "ScoreMoments", "score_moments", "independent_score",
    "Normality", "normality", "khatri_rao_gap", "needed_order", "smoothed_width",
]

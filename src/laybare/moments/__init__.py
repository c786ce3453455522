"""What sums over the data know about the weights: Hermite moments packed, contracted, projected, with their noise.

    packed_moments, controlled_moments      all orders up to K, packed (controlled: most of the noise removed, its level given)
    second_moment, third_slices, ...        orders 2-4 as matrices, when the tensor would be too large
    quartic, PackedQuartic                  order 4 as an operator, for objectives
    fit_hermite, refine_subspace            least-squares moments, in all inputs or in the span of the weights
    linear_product, detector                the pure-neuron detector of symmetric inputs
    augmented_matrix, distinguished         whether the inputs tell pairs of units apart
    measure, measure_with_noise             any moment, with the split-half noise of every entry
    population_moments, population_tensor   what a known network has
    normality                               whether the inputs look like N(0, I)
    khatri_rao_gap, smoothed_width          how well weights are told apart, how many of them can be
"""

from laybare.moments.contracted import (
    FourthSlices,
    SecondMoment,
    ThirdSlices,
    fourth_slices,
    projected_tensors,
    second_moment,
    third_slices,
)
from laybare.moments.control import Control, controlled_moments, fit_control, pair_units
from laybare.moments.distinguishing import (
    augmented_matrix,
    distinguished,
    distinguishing_matrices,
    gaussian_augmented,
    least_detected,
    opposite_products,
    population_detector,
)
from laybare.moments.fit import HermiteFit, affordable_degree, fit_hermite
from laybare.moments.fourth import PackedQuartic, Quartic, quartic
from laybare.moments.hermite import HermiteMoments, hermite_features, packed_moments
from laybare.moments.khatri_rao import khatri_rao_gap, needed_order, smoothed_width
from laybare.moments.measurement import Measurement, Moment, measure, measure_with_noise
from laybare.moments.memory import MEMORY_LIMIT
from laybare.moments.normal_law import Normality, normality
from laybare.moments.packed import PackedMoments, flatten, unpack, veronese
from laybare.moments.population import RankOneSum, population_moments, population_tensor
from laybare.moments.pure_neurons import (
    OddPart,
    PureNeuronDetector,
    detector,
    even_absolute,
    even_quadratic,
    linear_product,
)
from laybare.moments.regression import Regression, least_squares
from laybare.moments.residual import Residual
from laybare.moments.subspace import WeightSpan, leading_directions, refine_subspace
from laybare.moments.symmetric import smat, svec, svec_products, svec_squares

__all__ = [
    "HermiteMoments", "PackedMoments", "packed_moments", "hermite_features", "flatten", "unpack", "veronese",
    "SecondMoment", "ThirdSlices", "FourthSlices",
    "second_moment", "third_slices", "fourth_slices", "projected_tensors",
    "Quartic", "PackedQuartic", "quartic",
    "Control", "controlled_moments", "fit_control", "pair_units", "Residual", "HermiteFit", "fit_hermite", "affordable_degree",
    "Regression", "least_squares", "WeightSpan", "refine_subspace", "leading_directions",
    "PureNeuronDetector", "OddPart", "detector", "linear_product",
    "even_absolute", "even_quadratic", "distinguishing_matrices", "opposite_products", "population_detector",
    "gaussian_augmented", "augmented_matrix", "distinguished", "least_detected",
    "svec", "smat", "svec_squares", "svec_products",
    "Measurement", "Moment", "measure", "measure_with_noise",
    "RankOneSum", "population_moments", "population_tensor", "MEMORY_LIMIT",
    "Normality", "normality", "khatri_rao_gap", "needed_order", "smoothed_width",
]

"""The lowest layer of a deep network through rarely crossed thresholds, after Goel and Panigrahy (2019).

    samples  ->  activity of rows  ->  directions (third moments)  ->  lines (ReLU) | half-spaces (step, any top)  ->  acceptance
             ->  residual of a linear fit  ->  directions  ->  joint fit with a polynomial (smooth units)
    oracle   ->  facets of the silent region | importance sampling if the answers are noisy
    layer    ->  top (monomials, or any regressor)
"""

from laybare.lowest_layer.acceptance import LayerFinding
from laybare.lowest_layer.facets import FacetSearch
from laybare.lowest_layer.high_threshold import HighThreshold
from laybare.lowest_layer.jump_route import JumpSearch
from laybare.lowest_layer.layer_recovery import HalfSpaceUnion, LayerRecovery, learn_union, recover_layer
from laybare.lowest_layer.layer_start import ThirdMoments
from laybare.lowest_layer.printed.objectives import OneByOne, Simultaneous
from laybare.lowest_layer.printed.route import PrintedRoute
from laybare.lowest_layer.printed.searches import DeltaAscent, DeltaSearch, RandomSearch, slab_correlations
from laybare.lowest_layer.tops import MonomialTop, RegressorTop, Top
from laybare.lowest_layer.union_fit import Annealing, HalfSpaces

__all__ = [
    "Annealing", "DeltaAscent", "DeltaSearch", "FacetSearch", "HalfSpaceUnion", "HalfSpaces", "HighThreshold", "JumpSearch",
    "LayerFinding", "LayerRecovery", "MonomialTop", "OneByOne", "PrintedRoute",
    "RandomSearch", "RegressorTop", "Simultaneous", "ThirdMoments", "Top",
    "learn_union", "recover_layer", "slab_correlations",
]

"""The lowest layer of a deep network through rarely crossed thresholds, after Goel and Panigrahy (2019).

    samples  ->  activity of rows  ->  directions (third moments)  ->  lines (ReLU) | half-spaces (step, any top)  ->  acceptance
             ->  residual of a linear fit  ->  directions  ->  joint fit with a polynomial (smooth units)
    oracle   ->  facets of the silent region | importance sampling if the answers are noisy
    layer    ->  top (monomials, or any regressor)
"""

from laybare.lowest_layer.by_queries import layer_by_queries
from laybare.lowest_layer.facets import FacetSearch
from laybare.lowest_layer.found import FoundLayer
from laybare.lowest_layer.method import HighThreshold
from laybare.lowest_layer.start import ThirdMoments
from laybare.lowest_layer.tops import MonomialTop, RegressorTop, Top
from laybare.lowest_layer.union_fit import Annealing, HalfSpaces

__all__ = [
    "Annealing", "FacetSearch", "FoundLayer", "HalfSpaces", "HighThreshold", "MonomialTop", "RegressorTop", "ThirdMoments", "Top",
    "layer_by_queries",
]

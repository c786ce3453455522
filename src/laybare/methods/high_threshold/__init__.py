"""The lowest layer of a deep network through rarely crossed thresholds, after Goel and Panigrahy (2019).

    samples  ->  activity of rows  ->  directions (third moments)  ->  lines (ReLU) | half-spaces (step, any top)  ->  acceptance
             ->  residual of a linear fit  ->  directions  ->  joint fit with a polynomial (smooth units)
    oracle   ->  facets of the silent region | importance sampling if the answers are noisy
    layer    ->  top (monomials, or any regressor)
"""

from laybare.methods.high_threshold.by_queries import layer_by_queries
from laybare.methods.high_threshold.facets import FacetSearch
from laybare.methods.high_threshold.found import FoundLayer
from laybare.methods.high_threshold.method import HighThreshold
from laybare.methods.high_threshold.start import ThirdMoments
from laybare.methods.high_threshold.tops import MonomialTop, RegressorTop, Top
from laybare.methods.high_threshold.union_fit import Annealing, HalfSpaces

__all__ = [
    "Annealing", "FacetSearch", "FoundLayer", "HalfSpaces", "HighThreshold", "MonomialTop", "RegressorTop", "ThirdMoments", "Top",
    "layer_by_queries",
]

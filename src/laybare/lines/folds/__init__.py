"""Deep ReLU black boxes of any shape, read by the folds of their units' surfaces.

    read_folds     layer after layer, from float64 answers: `reader` and what it uses
    read_coarse    above a lowest layer, from float32 answers: `coarse_surface`, `coarse_reader`, `coarse_network`
"""

from laybare.lines.folds.coarse_network import read_coarse
from laybare.lines.folds.fold_options import FoldOptions
from laybare.lines.folds.given import GivenLayer
from laybare.lines.folds.reader import FoldsResult, LayerReport, read_folds

__all__ = ["FoldOptions", "FoldsResult", "GivenLayer", "LayerReport", "read_coarse", "read_folds"]

"""Black boxes read along lines: kinks, gradients, hyperplanes, and the network behind them at about one query per parameter.

    query            queries counted by purpose, within a budget and a box
    line, kinks      lines, their linear pieces, and all kinks between them
    probe, look      the first look at a black box: what it is
    depth            one hidden layer or more
    gradients        dim queries per piece; the jump between two of them is a unit
    single_layer     line after line, until a model predicts further lines
    model_fit, remeasure   Gauss-Newton on all answers; units measured again at better points
    feature_space    the features of known layers, and the black box above them
    observations     surfaces and gradients in a feature space; surfaces tests which are hyperplanes
    layer            one layer from them; always_active for a unit that never bends
    read             the loops over lines and layers: `read_network`, `read_deep` for two layers that are not wider than inputs
    folds            any layer of any width, by following the surfaces of its units: `read_folds`, `read_coarse`
"""

from typing import TYPE_CHECKING

from laybare.numerics.lazy import homes_of, on_demand

if TYPE_CHECKING:
    from laybare.lines.line import Rays
    from laybare.lines.look import Finding, Insight, first_look
    from laybare.lines.query import BlackBox, QueryBox, QueryContext, QueryCounter
    from laybare.lines.read import DeepReadResult, ReadResult, read_deep, read_network
    from laybare.lines.single_layer import Patience, ReaderOptions

__all__ = [
    "BlackBox", "DeepReadResult", "Finding", "Insight", "Patience", "QueryBox", "QueryContext", "QueryCounter", "Rays",
    "ReadResult", "ReaderOptions", "first_look", "read_deep", "read_network"]

__getattr__ = on_demand(__name__, homes_of({
    "laybare.lines.line": "Rays",
    "laybare.lines.look": "Finding Insight first_look",
    "laybare.lines.query": "BlackBox QueryBox QueryContext QueryCounter",
    "laybare.lines.read": "DeepReadResult ReadResult read_deep read_network",
    "laybare.lines.single_layer": "Patience ReaderOptions",
}))

"""HTML reports and figures of a recovery."""

from laybare.report.layer_page import render_layer, write_layer_report
from laybare.report.page import render, write_report
from laybare.report.units import Pair, Unit, side_by_side

__all__ = ["Pair", "Unit", "render", "render_layer", "side_by_side", "write_layer_report", "write_report"]

"""HTML reports and figures of a recovery."""

from laybare.report.page import Pair, Unit, pair_units, render, render_layer, write_layer_report, write_report

__all__ = ["Pair", "Unit", "render", "render_layer", "pair_units", "write_layer_report", "write_report"]

"""HTML reports and figures of a recovery."""

from laybare.report.page import render, write_report
from laybare.report.units import Pair, Unit, side_by_side

__all__ = ["Pair", "Unit", "render", "side_by_side", "write_report"]

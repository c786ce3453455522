"""HTML reports and figures of a recovery."""

from laybare.report.page import render, write_report

__all__ = ["render", "write_report"]

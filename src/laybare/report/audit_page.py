"""An audit as text, as a figure and as a page: what every budget bought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laybare.report.page import fill
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.report.svg import themed
from laybare.report.tables import text_table, written

if TYPE_CHECKING:
    from laybare.pipeline.auditing import Audit

COLUMNS = ("budget", "queries", "verdict", "units", "activation", "largest error bar", "functional error", "seconds")
WIDE = 100


def audit_text(audit: Audit, width: int = WIDE) -> str:
    """The table, and a sentence for every budget that was refused."""
    table = text_table(COLUMNS, _cells(audit), width)
    refused = [f"{row.budget:,} queries: {row.sentence}" for row in audit.rows if row.sentence]
    return "\n".join([f"audit of {audit.model}, {audit.dim} inputs", "", table, "", *refused, summary(audit)])


def summary(audit: Audit) -> str:
    """From how many queries on the network is verified, and what the audit itself cost."""
    verified = [row for row in audit.rows if row.verdict == "verified"]
    first = (
        f"{verified[0].units} units are read and verified from {verified[0].queries:,} queries." if verified else
        "No budget was enough for a verified network.")
    return f"{first} The audit asked {audit.paid:,} queries, {audit.checked:,} of them to check the functional error."


def audit_figure(audit: Audit) -> LinesFigure:
    """Units, error bars and functional error against the budget."""
    rows = [row for row in audit.rows if row.units]
    budgets = [row.budget for row in rows]
    names = {"units": "units", "error_bar": "largest error bar", "functional_error": "functional error"}
    panels = [
        Panel(title, "queries granted", "", [Curve(title, budgets, [float(getattr(row, name)) for row in rows])],
              "x" if name == "units" else "xy")
        for name, title in names.items()]
    return LinesFigure(panels, "Recovered units, error bars and functional error against queries")


def audit_html(audit: Audit) -> str:
    """The page."""
    return fill("audit.html.j2", {
        "audit": audit, "summary": summary(audit), "columns": COLUMNS, "figure": themed(audit_figure(audit).svg()),
        "rows": [[written(cell) for cell in cells] for cells in _cells(audit)]})


def _cells(audit: Audit) -> list[list[str | int | float]]:
    return [
        [row.budget, row.queries, row.verdict, row.units, row.activation, row.error_bar, row.functional_error,
         round(row.seconds, 1)]
        for row in audit.rows]

"""The page of an audit: verdict first, then the curve, the defences, what to do, limits, and an appendix. No script at all."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.report import audit_words, tables
from laybare.report.audit_references import REFERENCES
from laybare.report.drawings import use_page_colours
from laybare.report.notebook import network_html
from laybare.report.page import fill_template
from laybare.report.study_figures import Curve, LinesFigure, Panel

if TYPE_CHECKING:
    from laybare.auditing import Audit

BADGES = {"exact copy": "refuted", "copy": "refuted", "no copy": "verified", "open": "doubtful"}
"""Colours of the verdicts: a model that can be copied is red."""


def audit_figure(audit: Audit) -> LinesFigure:
    """The error of the best copy against queries with its confidence band, and classes that agree where there are any."""
    rows = [row for row in audit.rows if isfinite(row.error_high)]
    budgets = [float(row.budget) for row in rows]
    floor = float(np.finfo(float).eps)  # what is smaller is rounding
    error, low, high = ([max(getattr(row, name), floor) for row in rows] for name in ("error", "error_low", "error_high"))
    curves = [
        Curve("error of the best copy, exceeded at 1 % of inputs, with 95 % confidence band", budgets, error, low, high),
        Curve("one per cent", budgets, [audit.check.near] * len(rows), dashed=True)]
    panels = [Panel("how far the copy answers like the model", "queries granted", "of the spread of the answers", curves, "xy")]
    if any(isfinite(row.agreement) for row in rows):
        panels.append(Panel("same class", "queries granted", "share of inputs", [Curve(
            "same class, with its bound", budgets, [row.agreement for row in rows], [row.agreement_low for row in rows],
            [row.agreement for row in rows])], "x"))
    return LinesFigure(panels, "Error of the best copy against the number of queries, with a confidence band")


def audit_page(audit: Audit) -> str:
    """The page as text."""
    found, (columns, rows) = audit.found, audit_words.audit_table(audit)
    drawn = any(isfinite(row.error_high) for row in audit.rows)
    return fill_template("audit.html.j2", {
        "audit": audit, "origin": audit.origin, "caption": audit_words.CAPTIONS[audit.verdict], "badge": BADGES[audit.verdict],
        "headline": audit_words.headline(audit), "weights": audit_words.weights_sentence(audit),
        "quota": audit_words.quota_sentence(audit), "advice": audit_words.advice(audit), "limits": audit_words.limits(audit),
        "paid": audit_words.paid_sentence(audit), "remarks": audit_words.remarks(audit), "columns": columns,
        "rows": [[tables.format_cell(cell) for cell in cells] for cells in rows],
        "defence_columns": audit_words.DEFENCE_COLUMNS, "defences": audit_words.defence_cells(audit),
        "figure": use_page_colours(audit_figure(audit).svg()) if drawn else "", "references": REFERENCES,
        "certificate": None if found is None else found.certificate,
        "network": "" if found is None else network_html(found.network),
        **_cards(audit)})


def _cards(audit: Audit) -> dict[str, Any]:
    """The numbers in large print."""
    within = f"> {audit.rows[-1].budget:,}" if audit.rows else "–"
    unknown = ["open" if audit.rows and audit.verdict == "open" else within, within]
    reached = zip((audit.near, audit.exact), unknown, strict=True)
    spelled = [none if queries is None else f"{queries:,}" for queries, none in reached]
    return {"cards": [
        ("queries to a copy (1 %)", spelled[0]), ("queries to an exact copy (1e-6)", spelled[1]),
        ("daily quota for a year", audit_words.defence_cells(audit)[0][4] if audit.rows else "–")]}

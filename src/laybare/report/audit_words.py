"""What an audit says in words: the headline, the weights, what to do, and what was not measured."""

from __future__ import annotations

from math import isfinite, nan
from typing import TYPE_CHECKING

from laybare.report.tables import Cell, format_size, text_table

if TYPE_CHECKING:
    from laybare.auditing import Audit, AuditRow, DefenceRow

CAPTIONS = {
    "exact copy": "The model can be copied exactly", "copy": "The model can be copied",
    "no copy": "No copy within the budget", "open": "Whether the model can be copied is open"}
"""Verdicts as headings."""

DEARER = 2.0
"""Times the queries from which a defence is said to delay a copy. Convention: budgets are a factor of three apart."""


def headline(audit: Audit) -> str:
    """After how many queries an outsider holds a copy, and how good it is."""
    if not audit.rows:
        return "The audit was interrupted before its first budget was done: nothing is known."
    options, near = audit.check, audit.near
    confidence = f"{1.0 - options.level:.0%} confidence"
    if near is None:
        last = audit.rows[-1]
        if audit.verdict == "open":
            return (
                f"With {last.budget:,} queries it is open whether a copy answers like the model: the best one "
                f"{_between(audit, last)} ({confidence}). A check of more inputs would tell.")
        best = "No attack gave anything." if not isfinite(last.error_high) else f"The best attempt {_difference(audit, last)}."
        return f"With {last.budget:,} queries no attack made a copy that answers like the model. {best} ({confidence})"
    row = min((row for row in audit.rows if row.error_high <= options.near), key=lambda row: (row.queries, row.budget))
    before = f" {audit.not_with:,} were not enough." if audit.not_with else ""
    better = ""
    if audit.exact is not None and audit.exact > near:
        better = f" After {audit.exact:,} it is exact, within {format_size(options.exact)}."
    return (
        f"After {near:,} queries an outsider holds a copy that answers like the model: it {_difference(audit, row)} "
        f"({confidence}).{before}{better}")


def _difference(audit: Audit, row: AuditRow) -> str:
    """How a copy differs, in words."""
    same = 1.0 - audit.check.share
    if audit.kind == "labels":
        return f"gives the same label on at least {row.agreement_low:.1%} of inputs"
    classes = f", and names the same class on at least {row.agreement_low:.1%}" if isfinite(row.agreement_low) else ""
    return f"differs by at most {format_size(row.error_high)} of the spread of the answers on {same:.0%} of inputs{classes}"


def _between(audit: Audit, row: AuditRow) -> str:
    """Both bounds of a copy, in words."""
    if audit.kind == "labels":
        return f"gives the same label on {1.0 - row.error_high:.1%} to {1.0 - row.error_low:.1%} of inputs"
    low, high = format_size(row.error_low), format_size(row.error_high)
    return f"differs by {low} to {high} of the spread of the answers, or more, at {audit.check.share:.0%} of inputs"


def weights_sentence(audit: Audit) -> str:
    """What is known of the weights, with the largest budget."""
    row = audit.rows[-1] if audit.rows else None
    if row is None or not row.widths:
        return "No weights were read."
    many, units = "s" * (len(row.widths) != 1), "-".join(map(str, row.widths))
    layers = f"{len(row.widths)} hidden layer{many} ({units} {row.activation} units)"
    digits = f", weights to {format_size(row.error_bar)} of their rows' length" if isfinite(row.error_bar) else ""
    certificate = {
        "verified": "verified by a certificate", "doubtful": "not certain", "refuted": "refuted by their own certificate"}
    return f"Its weights: {layers}{digits}; {certificate.get(row.verdict, 'without a certificate')}."


def quota_sentence(audit: Audit) -> str:
    """The largest daily quota under which a copy takes more than a year."""
    if not audit.rows:
        return ""
    if audit.near is None and audit.quota < 1:
        few = f"{audit.not_with:,} queries were not enough, and one query a day is more in a year"
        return f"No daily quota was measured: {few if audit.not_with else 'no number of queries was shown to be too small'}."
    if audit.near is None:
        return (
            f"A limit of {audit.quota:,} queries a day keeps an outsider below {audit.not_with:,} queries, which were not "
            "enough, for a year. Larger limits were not measured.")
    if audit.quota < 1:
        return f"No daily quota makes {audit.near:,} queries take a year: one query a day is enough."
    return (
        f"With at most {audit.quota:,} quer{'y' if audit.quota == 1 else 'ies'} a day, the {audit.near:,} queries of a copy take "
        "more than a year.")


def advice(audit: Audit) -> list[str]:
    """What to do, as the table of defences says."""
    if not audit.rows:
        return []
    said = [quota_sentence(audit)]
    measured = [row for row in audit.defences if not row.sentence]
    unmet = [row for row in measured if row.near is None]
    held, unclear = ([row for row in unmet if _held(row) is sure] for sure in (True, False))
    changed = [row for row in measured if row.near is not None and audit.near is not None and not isfinite(row.days)]
    slowed = [row for row in changed if (row.near or 0) >= DEARER * (audit.near or 1)]
    idle = [row for row in changed if row not in slowed]
    if held:
        said.append(
            f"Use what held: {_names(held)}. No attack of this audit made a copy behind it within {held[0].within:,} queries; "
            "others may, so limit queries as well.")
    if unclear:
        said.append(
            f"Whether these hold is open: {_names(unclear)}. The best copy behind them may answer like the model; a check of "
            "more inputs would tell.")
    if slowed:
        costs = ", ".join(f"{row.description} ({row.near:,})" for row in slowed)
        said.append(
            f"Do not rely on these alone: {costs}. In brackets the queries of a copy, which costs {audit.near:,} without: it is "
            "dearer, and made all the same.")
        best = max(slowed, key=lambda row: row.quota)
        if best.quota > audit.quota:
            said.append(f"Behind {best.description}, at most {best.quota:,} queries a day make a copy take more than a year.")
    if idle:
        said.append(f"These change nothing: {_names(idle)}. A copy costs about as many queries as without them.")
    inexact = [row for row in changed if row.exact is None and audit.exact is not None]
    if inexact:
        said.append(f"The weights stay inexact behind {_names(inexact)}; the copy answers like the model nonetheless.")
    if audit.near is not None:
        said.append(
            "Count queries per client and for all clients together, and look for rows that lie on a line or differ in their last "
            "digits: that is how weights are read.")
    return said


def _held(row: DefenceRow) -> bool:
    """Whether no copy was made behind it with all queries, for sure."""
    return row.near is None and row.not_with == row.within


def _names(rows: list[DefenceRow]) -> str:
    return ", ".join(row.description for row in rows)


def limits(audit: Audit) -> list[str]:
    """What the audit did not measure."""
    said = [
        f"The copy is judged at {audit.checked:,} {audit.origin.inputs}. It may differ elsewhere.",
        "Three attacks were tried: reading along lines, recovery from samples, a trained surrogate. Others may need fewer "
        "queries.",
        "Queries to a copy are an upper bound: the budgets are steps, and a number between two of them may be enough. Attacks "
        "have a limit of work as well, and an outsider may compute for longer.",
        "Queries of several clients count together for an attacker. A quota per client is no quota for many."]
    if audit.defences:
        said.append("Defences were simulated on the model's answers. Detection, bans and prices were not.")
    if any(row.name == "label" and not row.sentence for row in audit.defences) or audit.kind == "labels":
        said.append("Labels were attacked by a surrogate only. Published attacks read weights from labels with far more queries.")
    if audit.interrupted or audit.failure:
        why = f"The model answered no more. {audit.failure}" if audit.failure else "The audit was interrupted."
        said.append(f"{why} Rows that are missing were not measured.")
    return said


def remarks(audit: Audit) -> list[str]:
    """Why rows are as they are: refusals, contradictions, and the time limit."""
    said = [f"{row.budget:,} queries: {row.sentence}" for row in audit.rows if row.sentence]
    late = [f"{row.budget:,} queries" for row in audit.rows if row.late]
    late += [f"behind {row.name}" for row in audit.defences if row.late and not row.sentence]
    if late:
        said.append(
            f"Ended by the time limit, so that a faster machine may come further: {', '.join(late)}. All other rows depend on "
            "the seed alone.")
    return said


def audit_table(audit: Audit) -> tuple[list[str], list[list[Cell]]]:
    """Columns and rows of the budgets: the copy first, then its weights, with a column for every layer."""
    deepest = max((len(row.widths) for row in audit.rows), default=0)
    classes = any(isfinite(row.agreement) for row in audit.rows)
    names = [
        "budget", "queries", "attack", "error", "at most", *["same class at least"] * classes, "weights",
        *(f"layer {number}" for number in range(1, deepest + 1))]
    return names, [_budget_cells(row, classes, deepest) for row in audit.rows]


def _budget_cells(row: AuditRow, classes: bool, deepest: int) -> list[Cell]:
    copied = isfinite(row.error_high)
    errors = [row.error, row.error_high] if copied else [nan, nan]
    return [
        f"{row.budget:,}", f"{row.queries:,}", row.way, *errors, *[row.agreement_low] * classes, row.verdict, *row.widths,
        *[0] * (deepest - len(row.widths))]


DEFENCE_COLUMNS = ("defence", "to 1 %", "to 1e-6", "best error", "daily quota for a year", "days")


def defence_cells(audit: Audit, *, described: bool = True) -> list[list[str]]:
    """The table of defences, by name and description or by name alone; the first row is the model without one."""
    last = audit.rows[-1] if audit.rows else None
    bare = [] if last is None else [[
        "none", _reached(audit.near, last.budget, audit.verdict != "open"), _reached(audit.exact, last.budget),
        format_size(last.error_high),
        _quota(audit.quota, audit.near), ""]]
    return bare + [_defence_row(row, described) for row in audit.defences]


def _defence_row(row: DefenceRow, described: bool) -> list[str]:
    named = f"{row.name}: {row.description}" if described else row.name
    if row.sentence:
        return [named, row.sentence, "", "", "", ""]
    days = f"{row.days:,.0f}" if row.days >= 10 else f"{row.days:.1f}" if isfinite(row.days) else ""
    return [
        named, _reached(row.near, row.within, _held(row)), _reached(row.exact, row.within),
        format_size(row.error_high), _quota(row.quota, row.near), days]


def _reached(queries: int | None, within: int, sure: bool = True) -> str:
    unmet = f"not within {within:,}" if sure else f"open with {within:,}"
    return unmet if queries is None else f"{queries:,}"


def _quota(quota: int, near: int | None) -> str:
    if quota < 1:
        return "not measured" if near is None else "none"
    return f"at least {quota:,}" if near is None else f"{quota:,}"


def audit_text(audit: Audit, width: int = 100) -> str:
    """Headline, weights, the tables, and what to do."""
    lines = [f"audit of {audit.model}, {audit.dim} inputs", "", headline(audit), weights_sentence(audit), ""]
    if audit.rows:
        lines += [text_table(*audit_table(audit), width), ""]
    lines += remarks(audit)
    if audit.defences:
        lines += [text_table(DEFENCE_COLUMNS, defence_cells(audit, described=False), width), ""]
    return "\n".join([*lines, *advice(audit), paid_sentence(audit)]).replace("\N{MINUS SIGN}", "-")


def paid_sentence(audit: Audit) -> str:
    """What the audit itself cost."""
    return f"The audit asked {audit.paid:,} queries, {audit.checked:,} of them to check copies."

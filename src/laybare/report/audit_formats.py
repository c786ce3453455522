"""An audit as a page, as JSON with a schema, as Markdown, and as SARIF 2.1.0 for programs that collect findings."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from os import PathLike
from typing import TYPE_CHECKING, Any

from laybare.networks.storage import check_ending
from laybare.numerics.checks import check_choice, check_path
from laybare.report import audit_words, tables
from laybare.report.audit_page import audit_page
from laybare.report.audit_references import REFERENCES
from laybare.report.json_schema import validate_document

if TYPE_CHECKING:
    from laybare.auditing import Audit

FORMAT, SCHEMA_VERSION = "laybare-audit", 1
"""Convention: how a document says what it is; the version changes when a program that reads it would have to."""

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def audit_document(audit: Audit) -> dict[str, Any]:
    """Plain numbers and text; what is not there is None."""
    return {
        "format": FORMAT, "schema_version": SCHEMA_VERSION, "model": audit.model, "dim": audit.dim, "kind": audit.kind,
        "verdict": audit.verdict, "headline": audit_words.headline(audit), "weights": audit_words.weights_sentence(audit),
        "near": audit.near, "exact": audit.exact, "quota": audit.quota, "interrupted": audit.interrupted,
        "failure": audit.failure, "paid": audit.paid, "checked": audit.checked, "check": asdict(audit.check),
        "rows": [_plain(row._asdict()) for row in audit.rows],
        "defences": [_plain(row._asdict()) for row in audit.defences], "advice": audit_words.advice(audit),
        "limits": audit_words.limits(audit), "origin": audit.origin._asdict(),
        "references": [entry._asdict() for entry in REFERENCES]}


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON knows neither tuples nor numbers that are not finite."""
    return {name: _plain_value(value) for name, value in fields.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def audit_json(audit: Audit) -> str:
    """The document, after it was checked against the shipped schema."""
    document = audit_document(audit)
    validate_document(document, "audit-1")
    return json.dumps(document, indent=1) + "\n"


def audit_markdown(audit: Audit) -> str:
    """The same as Markdown."""
    origin, (columns, rows) = audit.origin, audit_words.audit_table(audit)
    facts = [
        ("target", f"{audit.model}, {audit.dim} inputs; it answers {audit.kind}"), ("date", origin.date),
        ("command", f"`laybare {origin.command}`" if origin.command else ""), ("seed", str(origin.seed)),
        ("version", f"laybare {origin.version}; {origin.versions}"), ("judged at", f"{audit.checked:,} {origin.inputs}"),
        ("query log", f"`{origin.fingerprint}`")]
    parts = [
        f"# {audit_words.CAPTIONS[audit.verdict]}: {_safe(audit.model)}",
        f"**{audit.verdict}**. {_safe(audit_words.headline(audit))}",
        audit_words.weights_sentence(audit), "\n".join(f"- {name}: {_safe(value)}" for name, value in facts if value)]
    if rows:
        cells = [[tables.format_cell(cell) for cell in row] for row in rows]
        parts += ["## What every budget bought", _markdown_table(columns, cells)]
    if audit.defences:
        parts += ["## Defences", _markdown_table(audit_words.DEFENCE_COLUMNS, audit_words.defence_cells(audit))]
    parts += map(_safe, audit_words.remarks(audit))
    for title, sentences in (("What to do", audit_words.advice(audit)), ("What this does not say", audit_words.limits(audit))):
        parts += [f"## {title}", "\n".join(f"- {sentence}" for sentence in sentences)] if sentences else []
    parts += ["## Catalogues", _markdown_table(
        ("entry", "what it is", "what is measured"),
        [[f"{entry.catalogue} {entry.identifier}", entry.title, entry.measured] for entry in REFERENCES]),
        audit_words.paid_sentence(audit)]
    return "\n\n".join(parts) + "\n"


def _safe(text: str) -> str:
    """Text that is no markup: a model may be called anything."""
    return text.replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")


def _markdown_table(columns: Any, rows: Any) -> str:
    lines = [list(columns), ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(_safe(str(cell)) for cell in line) + " |" for line in lines)


LEVELS = {"exact copy": "error", "copy": "error", "no copy": "note", "open": "warning"}
RULES = {
    "model-extraction": (
        "A copy of the model from its answers", "AML.T0024.002", "AML.T0040", "ML05:2023", "NISTAML.031", "Art. 15(5)"),
    "query-limit": ("The daily quota under which a copy takes more than a year", "AML.M0004", "11.5.1", "11.5.2", "11.5.3"),
    "output-defence": ("What changing the answers does to a copy", "AML.M0002", "11.5.1")}
"""Kinds of findings, each with its title and the entries of catalogues that it speaks about."""


def audit_sarif(audit: Audit) -> str:
    """SARIF 2.1.0: one result for the model, one for its query limit, one for every defence that was measured."""
    results = [
        _result(audit, "model-extraction", LEVELS[audit.verdict], audit_words.headline(audit), {
            "near": audit.near, "exact": audit.exact, "weights": audit_words.weights_sentence(audit)})]
    if audit.rows:
        unlimited = audit.near is not None and audit.quota < 1
        results.append(_result(
            audit, "query-limit", "warning" if unlimited else "note", audit_words.quota_sentence(audit), {"quota": audit.quota}))
    for row, cells in zip(audit.defences, audit_words.defence_cells(audit)[-len(audit.defences) or None :], strict=False):
        if not row.sentence:
            text = f"{row.name}, {row.description}: a copy within one per cent takes {cells[1]} queries, within 1e-6 {cells[2]}."
            results.append(_result(
                audit, "output-defence", "note" if row.near is None else "warning", text, _plain(row._asdict()), row.name))
    run = {
        "tool": {"driver": {
            "name": "laybare", "version": audit.origin.version, "informationUri": "https://pypi.org/project/laybare/",
            "rules": [_rule(name) for name in RULES]}},
        "invocations": [{
            "executionSuccessful": not (audit.interrupted or audit.failure),
            "endTimeUtc": audit.origin.date.replace("+00:00", "Z"),
            **({"commandLine": f"laybare {audit.origin.command}"} if audit.origin.command else {})}],
        "columnKind": "utf16CodeUnits", "results": results,
        "properties": {
            "seed": audit.origin.seed, "queryLogFingerprint": audit.origin.fingerprint, "paid": audit.paid,
            "remarks": audit_words.remarks(audit), "limits": audit_words.limits(audit)}}
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(name: str) -> dict[str, Any]:
    title, *entries = RULES[name]
    chosen = [entry for entry in REFERENCES if entry.identifier in entries]
    return {
        "id": name, "name": name.title().replace("-", ""), "shortDescription": {"text": title},
        "help": {"text": "; ".join(f"{entry.catalogue} {entry.identifier}: {entry.measured}" for entry in chosen)},
        "properties": {"tags": ["security", *(f"{entry.catalogue} {entry.identifier}" for entry in chosen)]}}


def _result(audit: Audit, rule: str, level: str, text: str, facts: dict[str, Any], part: str = "") -> dict[str, Any]:
    location = {"name": audit.model, "fullyQualifiedName": f"{audit.model}{'#' * bool(part)}{part}", "kind": "module"}
    return {
        "ruleId": rule, "ruleIndex": list(RULES).index(rule), "level": level, "message": {"text": text},
        "locations": [{"logicalLocations": [location]}],
        "partialFingerprints": {"laybare/1": f"{rule}:{part}:{audit.model}"}, "properties": facts}


FORMS = {"html": audit_page, "json": audit_json, "md": audit_markdown, "sarif": audit_sarif}
"""How an audit is written, by the name of the format, which is also the ending of a file."""


def render_audit(audit: Audit, form: str) -> str:
    """The audit as text in this format."""
    return FORMS[check_choice("form", form, tuple(FORMS))](audit)


def form_of(path: str | PathLike[str]) -> str:
    """By the ending of a file; html if that says nothing. An ending that promises another format is refused."""
    ending = check_path("path", path).suffix.lstrip(".").lower()
    if ending in FORMS:
        return ending
    check_ending(path, *(f".{form}" for form in FORMS))
    return "html"

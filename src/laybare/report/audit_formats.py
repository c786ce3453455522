"""An audit as a page, as JSON with a schema, as Markdown, and as SARIF 2.1.0 for programs that collect findings.

The page has the verdict first, then the curve, the defences, what to do, limits, and an appendix; no script at all. A JSON
document is checked against its schema by the part of JSON Schema (2020-12) that the shipped schemas use: a keyword that is not
known here is an error, not a pass. The tests check the same documents with the reference implementation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from math import isfinite
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks.network_files import check_ending
from laybare.numerics.checks import check_choice, check_path
from laybare.report import audit_words, tables
from laybare.report.drawings import Curve, LinesFigure, Panel, use_page_colours
from laybare.report.notebook import network_html
from laybare.report.page import fill_template

if TYPE_CHECKING:
    from laybare.auditing import Audit


class CatalogueEntry(NamedTuple):
    """An entry: what it is called there, and what this audit measures of it."""

    catalogue: str
    identifier: str
    title: str
    measured: str


REFERENCES = (
    CatalogueEntry("MITRE ATLAS", "AML.T0024.002", "extract a model through its interface",
                   "queries to a copy, by three attacks"),
    CatalogueEntry("MITRE ATLAS", "AML.T0040", "access to the interface of a model", "taken for granted: the audit has it"),
    CatalogueEntry("MITRE ATLAS", "AML.M0002", "obfuscate outputs", "rounding, precision, labels and noise, simulated"),
    CatalogueEntry("MITRE ATLAS", "AML.M0004", "restrict the number of queries",
                   "the daily quota under which a copy takes a year"),
    CatalogueEntry("OWASP", "ML05:2023", "model theft", "whether it succeeds, and how exactly"),
    CatalogueEntry("OWASP AISVS", "11.5.1", "query limits sized to the extraction threat model", "the size, in queries a day"),
    CatalogueEntry("OWASP AISVS", "11.5.2", "alerts that carry details of the queries",
                   "not measured; the log of the audit is an example of such queries"),
    CatalogueEntry("OWASP AISVS", "11.5.3", "a detector of extraction from patterns of queries",
                   "not measured; the log of the audit is a test for one"),
    CatalogueEntry("NIST AI 100-2", "NISTAML.031", "model extraction", "whether it succeeds, and how exactly"),
    CatalogueEntry("EU AI Act", "Art. 15(5)", "resilience against attacks on confidentiality, for high-risk systems",
                   "one such attack; the article asks for measures, of which defences are some"),
)


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


KINDS: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float)}
ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description"})


@cache
def shipped_schema(name: str) -> dict[str, Any]:
    """A schema of the package, such as "audit-1"."""
    text = files("laybare.report").joinpath("schemas", f"{name}.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def validate_document(document: Any, name: str) -> None:
    """Raise InvalidInput, with the first places that are wrong, if the document does not follow the shipped schema."""
    schema = shipped_schema(name)
    wrong = list(violations(document, schema, schema, "document"))
    if wrong:
        raise InvalidInput(
            f"The document breaks the schema {schema['$id']}: {'; '.join(wrong[:3])}.",
            f"{len(wrong)} place{'s are' if len(wrong) > 1 else ' is'} wrong, and programs rely on the schema.",
            "Write it again with Audit.report, or correct it.", violations=wrong)


def violations(value: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    """Every place where the value is not what the schema says."""
    for keyword, rule in schema.items():
        if keyword == "$ref":
            yield from violations(value, root["$defs"][rule.rpartition("/")[2]], root, place)
        elif keyword not in ANNOTATIONS:
            yield from _KEYWORDS[keyword](value, rule, schema, root, place)


def _is_kind(value: Any, kind: str) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _type(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if not any(_is_kind(value, kind) for kind in ([rule] if isinstance(rule, str) else rule)):
        yield f"{place} is {value!r:.40}, not {rule}"


def _enum(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in rule):
        yield f"{place} is {value!r:.40}, none of {rule}"


def _const(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    yield from _enum(value, [rule], schema, root, place)


def _minimum(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if _is_kind(value, "number") and not value >= rule:
        yield f"{place} is {value}, below {rule}"


def _pattern(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(rule, value):
        yield f"{place} is {value!r:.40}, which {rule} does not match"


def _required(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{place} has no {name}" for name in rule if name not in value)


def _properties(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in rule.keys() & value.keys():
            yield from violations(value[name], rule[name], root, f"{place}.{name}")


def _no_others(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, dict) and rule is False:
        others = sorted(value.keys() - schema["properties"].keys())
        yield from (f"{place} has {name}, which is not in the schema" for name in others)


def _items(value: Any, rule: Any, schema: dict[str, Any], root: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from violations(item, rule, root, f"{place}[{number}]")


_KEYWORDS: dict[str, Any] = {
    "type": _type, "enum": _enum, "const": _const, "minimum": _minimum, "pattern": _pattern, "required": _required,
    "properties": _properties, "additionalProperties": _no_others, "items": _items}


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

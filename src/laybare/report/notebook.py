"""What a notebook shows for a network, a result, a source: headings and small tables, no script."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from laybare.report.tables import ListingOptions, format_cell, format_decimals, format_digits, format_size

if TYPE_CHECKING:
    from laybare.auditing import Audit
    from laybare.certificate import Certificate
    from laybare.lines.look import Insight
    from laybare.networks import Layer, LayerMatch, Match, Network
    from laybare.numerics.shapes import Array
    from laybare.pipeline import Recovery
    from laybare.source import Oracle, Samples

LISTED = ListingOptions(units=8, inputs=6, outputs=6)
"""Print the network's arrays for all of them."""

VERDICT_COLOURS = {"verified": "#0b7285", "doubtful": "#a15c00", "refuted": "#b42318"}


def network_html(network: Network) -> str:
    """Shape, then the first units of every layer with what reads them."""
    readout = network.readout.reshape(len(network.readout), network.outputs)
    above = [*(np.asarray(layer.weights).T for layer in network.layers[1:]), readout]
    tables = [
        _table(f"Layer {number}: {layer.width} {layer.activation.name} units", *_units(layer, reading))
        for number, (layer, reading) in enumerate(zip(network.layers, above, strict=True), 1)]
    beside = [text for text, there in (
        ("a linear part", network.linear is not None), ("a black box above the layers", network.top is not None)) if there]
    note = f" with {' and '.join(beside)}" if beside else ""
    return _box(f"Network {network.architecture}{note}", "".join(tables))


def recovery_html(found: Recovery) -> str:
    """How it was found and the verdict, the units in the columns of the data, then what was checked."""
    units = network_html(found.network)
    if found.profile is not None:
        summary = found.summary()
        cut = len(summary.units) > LISTED.units or found.network.dim > LISTED.inputs
        shown = f"<p>{LISTED.units} units and {LISTED.inputs} columns at most: <code>found.summary()</code> has all.</p>" * cut
        rest = summary.rest_html() if found.network.dim <= LISTED.inputs else ""
        units = "".join(summary.unit_html(unit, LISTED.inputs) for unit in summary.units[: LISTED.units]) + rest + shown
    verdict = f"<p>{_verdict(found.certificate)}. {escape(found.certificate.meaning)}</p>"
    return _box(escape(found.headline), verdict + units + _checks(found.certificate))


def match_html(match: Match) -> str:
    """The largest error of each kind, and every layer's units."""
    kinds = ("weight", "bias", "readout", "offset", "linear")
    errors = _table("Largest errors", [*kinds, "all"], [[format_size(getattr(match, f"{kind}_error")) for kind in kinds] + [
        format_size(match.max_error)]])
    rows = [[str(number), *_counts(layer)] for number, layer in enumerate(match.layers, 1)]
    heads = ["layer", "matched", "missing", "spurious", "weight error", "bias error"]
    return _box("Match", errors + _table("Units", heads, rows))


def audit_html(audit: Audit) -> str:
    """The headline and a line for every budget."""
    from laybare.report.audit_words import audit_table, headline

    heads, rows = audit_table(audit)
    table = _table(f"{audit.paid:,} queries were asked", heads, [[format_cell(cell) for cell in row] for row in rows])
    return _box(escape(f"Audit of {audit.model}, {audit.dim} inputs"), f"<p>{escape(headline(audit))}</p>{table}")


def insight_html(insight: Insight) -> str:
    """What the first answers of a black box showed."""
    rows = [[finding.name, finding.sentence] for finding in insight.findings]
    return _box("First look", _table(f"{insight.kind}, {insight.queries:,} queries", ["", "what was seen"], rows))


def samples_html(samples: Samples) -> str:
    """Shape, law and names of columns."""
    names = [("inputs", samples.columns.inputs), ("outputs", samples.columns.outputs)]
    rows = [[kind, ", ".join(some[: LISTED.units]) + " …" * (len(some) > LISTED.units)] for kind, some in names if some]
    return _box(escape(repr(samples)), _table("Columns", ["", "names"], rows) if rows else "")


def oracle_html(oracle: Oracle) -> str:
    """Who is asked, and what the queries were spent on."""
    rows = [[purpose, f"{count:,}"] for purpose, count in oracle.queries.items()]
    return _box(escape(repr(oracle)), _table("Queries", ["for", "queries"], rows) if rows else "")


def certificate_html(certificate: Certificate) -> str:
    """The verdict, what it means, and the checks behind it."""
    return _box(f"Certificate: {_verdict(certificate)}", f"<p>{escape(certificate.meaning)}</p>{_checks(certificate)}")


def _verdict(certificate: Certificate) -> str:
    return f'<b style="color:{VERDICT_COLOURS[certificate.verdict]}">{certificate.verdict}</b>'


def _checks(certificate: Certificate) -> str:
    """Checks that failed, with what they mean; those that hold are folded, and show it where the pointer rests on them."""
    failed, held = ([check for check in certificate.checks if check.passed is passed] for passed in (False, True))
    against = "".join(
        f"<p>✗ <b>{escape(check.name)}</b>: {format_digits(check.value)} ({check.direction or 'threshold'} "
        f"{format_digits(check.threshold)}): {escape(check.explanation)}</p>" for check in failed)
    rows = "".join(
        f'<tr title="{escape(check.explanation)}"><td>✓</td><td>{escape(check.name)}</td>'
        f"<td>{format_digits(check.value)}</td><td>{format_digits(check.threshold)}</td><td>{escape(check.kind)}</td></tr>"
        for check in held)
    head = _row(["", "check", "value", "threshold", "kind"], "th")
    said = f"{len(held)} of {len(certificate.checks)} checks hold"
    return f"{against}<details><summary>{said}</summary><table>{head}{rows}</table></details>"


def _units(layer: Layer, reading: Array) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: number, weights, bias, what reads it; cut short with an ellipsis."""
    inputs, readers = min(LISTED.inputs, layer.dim), min(LISTED.outputs, reading.shape[1])
    heads = ["unit", *(f"x{i}" for i in range(inputs)), *["…"] * (inputs < layer.dim), "bias",
             *(f"read by {o}" for o in range(readers)), *["…"] * (readers < reading.shape[1])]
    rows = [
        [str(i + 1), *map(format_decimals, layer.weights[i, :inputs]), *["…"] * (inputs < layer.dim),
         format_decimals(np.asarray(layer.biases)[i]), *map(format_decimals, reading[i, :readers]),
         *["…"] * (readers < reading.shape[1])]
        for i in range(min(LISTED.units, layer.width))]
    return heads, rows + [["…"] * len(heads)] * (layer.width > LISTED.units)


def _counts(layer: LayerMatch) -> list[str]:
    matched = len(np.unique(layer.pairs[:, 1]))
    return [f"{matched} of {matched + len(layer.missing)}", _listed(layer.missing), _listed(layer.spurious),
            format_size(layer.weight_error), format_size(layer.bias_error)]


def _listed(units: tuple[int, ...]) -> str:
    return ", ".join(map(str, units[: LISTED.units])) + (" …" if len(units) > LISTED.units else "") or "none"


def _table(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    body = "".join(_row(row, "td") for row in rows)
    return f"<p><b>{escape(title)}</b></p><table>{_row(heads, 'th')}{body}</table>"


def _row(cells: Iterable[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _box(heading: str, content: str) -> str:
    return f'<div class="laybare"><h4>{heading}</h4>{content}</div>'

"""One self-contained HTML page about a recovery: nothing is fetched; its one script sorts tables and saves the network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks import Match, Network, compare
from laybare.networks.storage import put
from laybare.report.figures import images_figure, layer_figure, side_of, trace_figure, weights_figure
from laybare.report.notebook import match_html, network_html
from laybare.report.numbers import fixed, plain, power, short
from laybare.report.svg import themed
from laybare.report.units import Pair, side_by_side
from laybare.shapes import Array

if TYPE_CHECKING:
    from laybare.certificate import Certificate
    from laybare.pipeline import Recovery

INPUTS, OUTPUTS, UNITS = 10, 4, 200
"""How many weights of a unit, numbers of its readout, and units are listed; the figure shows all of them."""

NETWORK_BYTES = 600_000
"""Largest network that the page holds as JSON; the whole page stays below a megabyte."""


def write_report(recovery: Recovery, path: str | os.PathLike[str], truth: Network | None = None) -> None:
    """Write the page to `path`, in one move; `truth`, where it is known, is set beside what was recovered."""
    put(path, render(recovery, truth).encode())


def render(recovery: Recovery, truth: Network | None = None) -> str:
    """The page as text."""
    return fill("page.html.j2", _facts(recovery, truth))


def fill(template: str, facts: dict[str, Any]) -> str:
    """A template with facts filled in."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("laybare.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {"short": short, "fixed": fixed, "power": power, "plain": plain}
    return pages.get_template(template).render(**facts)


def _facts(recovery: Recovery, truth: Network | None) -> dict[str, Any]:
    network = recovery.network
    deep = network.depth > 1 or network.top is not None
    match = None if truth is None else compare(network, truth)
    return {
        "recovery": recovery,
        "network": network,
        "certificate": recovery.certificate,
        "lead": lead_of(recovery.certificate, network),
        "origin": recovery.provenance,
        "json": _as_json(network),
        "method": "refine" if recovery.method is None else type(recovery.method).__name__,
        "truth": truth,
        "match": match,
        "deep": deep,
        "traces": themed(trace_figure(recovery.traces)) if recovery.traces else "",
        "images": images_of(np.asarray(network.layer.weights)),
        **(_layers(network, match) if deep else _layer(recovery, truth)),
    }


def lead_of(certificate: Certificate, network: Network) -> str:
    """The verdict in words that need no statistics."""
    failed = [claim.name for claim in certificate.claims if not claim.passed]
    checks, units = len(certificate.claims), sum(network.widths)
    if certificate.verdict == "verified":
        return (
            f"The hidden network is recovered. All {checks} checks that could have shown otherwise were passed: the data fix its "
            f"{units} unit{'s' * (units != 1)} and all of its weights, within the error bars below.")
    missing = f"{len(failed)} of {checks} checks failed: {', '.join(failed)}."
    if certificate.verdict == "doubtful":
        return f"This network explains the data, but do not rely on its weights yet. {missing}"
    return f"This is not the network behind the data: do not use it. {missing}"


def input_names(recovery: Any, dim: int) -> list[str]:
    """Names of the inputs as the data have them, else w0, w1, ..."""
    names = recovery.columns.inputs
    return list(names) if len(names) == dim else [f"w{i}" for i in range(dim)]


def images_of(weights: Array) -> str:
    """The units as images, where the inputs may be one."""
    side = side_of(weights.shape[1])
    return "" if side is None or not len(weights) else themed(images_figure(weights, side))


def _as_json(network: Network) -> str:
    """The network as `to_json` writes it, safe inside of a script element; empty if it is too large, or not all known."""
    from laybare.export.json import to_json

    try:
        text = to_json(network)
    except InvalidInput:  # units of one's own, or layers under a black box: no file holds them
        return ""
    return text.replace("<", "\\u003c") if len(text) <= NETWORK_BYTES else ""


def _layer(recovery: Recovery, truth: Network | None) -> dict[str, Any]:
    """The only hidden layer, with the error of every number: against the truth, or as the certificate has it."""
    network = recovery.network
    pairs = [] if truth is None else side_by_side(network, truth)
    return {
        "pairs": pairs[:UNITS],
        "readout": network.columns[0],
        "errors": recovery.certificate.standard_errors.readout.reshape(network.width, network.outputs),
        "inputs": min(INPUTS, network.dim),
        "outputs": min(OUTPUTS, network.outputs),
        "units": min(UNITS, network.width),
        "names": input_names(recovery, network.dim),
        "weights": themed(weights_figure(
            np.asarray(network.layer.weights), *_errors(recovery, pairs), names=recovery.columns.inputs)),
    }


def _layers(network: Network, match: Match | None) -> dict[str, Any]:
    """Every layer's weights as a map and its first units as a table."""
    return {
        "maps": [themed(layer_figure(np.asarray(layer.weights), number)) for number, layer in enumerate(network.layers, 1)],
        "tables": network_html(network),
        "match_tables": "" if match is None else match_html(match),
    }


def _errors(recovery: Recovery, pairs: list[Pair]) -> tuple[Array, str]:
    """What is known about the error of each weight, and what that is called: the difference, or the standard error."""
    differences = {pair.found_number: pair.true.weights - pair.found.weights for pair in pairs}
    if sorted(differences) != list(range(recovery.network.width)):
        return recovery.certificate.standard_errors.weights, "standard error"
    return np.array([differences[i] for i in sorted(differences)]), "|true − recovered|"

"""One self-contained HTML page about a recovery: no script, nothing fetched from elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.networks import Match, Network, compare
from laybare.networks.storage import put
from laybare.report.figures import layer_figure, trace_figure, weights_figure
from laybare.report.notebook import match_html, network_html
from laybare.report.numbers import fixed, power, short
from laybare.report.units import Pair, side_by_side
from laybare.shapes import Array

if TYPE_CHECKING:
    from laybare.pipeline import Recovery

INPUTS, OUTPUTS, UNITS = 10, 4, 200
"""How many weights of a unit, numbers of its readout, and units are listed; the figure shows all of them."""

LEAD = {
    "verified": "Every claim below holds: nothing in the data speaks against these weights.",
    "doubtful": "The network explains the data, but not every claim below holds: some of its weights may be other than shown.",
    "refuted": "The data contradict this network: its weights are not those behind the data.",
}


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
    pages.filters |= {"short": short, "fixed": fixed, "power": power}
    return pages.get_template(template).render(**facts)


def _facts(recovery: Recovery, truth: Network | None) -> dict[str, Any]:
    network = recovery.network
    deep = network.depth > 1 or network.top is not None
    match = None if truth is None else compare(network, truth)
    return {
        "recovery": recovery,
        "network": network,
        "certificate": recovery.certificate,
        "lead": LEAD[recovery.certificate.verdict],
        "method": "refine" if recovery.method is None else type(recovery.method).__name__,
        "truth": truth,
        "match": match,
        "deep": deep,
        "traces": trace_figure(recovery.traces) if recovery.traces else "",
        **(_layers(network, match) if deep else _layer(recovery, truth)),
    }


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
        "weights": weights_figure(np.asarray(network.layer.weights), *_errors(recovery, pairs)),
    }


def _layers(network: Network, match: Match | None) -> dict[str, Any]:
    """Every layer's weights as a map and its first units as a table."""
    return {
        "maps": [layer_figure(np.asarray(layer.weights), number) for number, layer in enumerate(network.layers, 1)],
        "tables": network_html(network),
        "match_tables": "" if match is None else match_html(match),
    }


def _errors(recovery: Recovery, pairs: list[Pair]) -> tuple[Array, str]:
    """What is known about the error of each weight, and what that is called: the difference, or the standard error."""
    differences = {pair.found_number: pair.true.weights - pair.found.weights for pair in pairs}
    if sorted(differences) != list(range(recovery.network.width)):
        return recovery.certificate.standard_errors.weights, "standard error"
    return np.array([differences[i] for i in sorted(differences)]), "|true − recovered|"

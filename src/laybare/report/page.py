"""One self-contained HTML page about a recovery: no script, nothing fetched from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.matching import compare
from laybare.network import Network
from laybare.report.figures import trace_figure, weights_figure
from laybare.storage import write_atomically

if TYPE_CHECKING:
    from laybare.recover import Recovery

SHOWN = 12
"""Inputs whose weights are listed in the table of units."""


def write_report(recovery: Recovery, path: str | os.PathLike[str], truth: Network | None = None) -> None:
    """Write the page to `path`, in one move; `truth`, where it is known, is set beside what was recovered."""
    write_atomically(Path(path), render(recovery, truth).encode())


def render(recovery: Recovery, truth: Network | None = None) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(loader=PackageLoader("laybare.report"), autoescape=True, undefined=StrictUndefined)
    pages.filters["short"] = lambda value: f"{value:.3g}"
    return pages.get_template("page.html.j2").render(**_facts(recovery, truth))


def _facts(recovery: Recovery, truth: Network | None) -> dict[str, Any]:
    network = recovery.network
    match = None if truth is None else compare(network, truth)
    errors = None
    if truth is not None and match is not None and not len(match.missing) and not len(match.spurious):
        true = truth.canonical().layer.weights[:, :]
        own = network.layer.weights
        pairs = _pairs_in_canonical(network, truth)
        errors = np.zeros_like(own)
        errors[pairs[:, 0]] = own[pairs[:, 0]] - true[pairs[:, 1]]
    return {
        "recovery": recovery,
        "network": network,
        "certificate": recovery.certificate,
        "match": match,
        "method": "refine" if recovery.method is None else type(recovery.method).__name__,
        "readout": network.columns[0],
        "shown": min(SHOWN, network.dim),
        "traces": trace_figure(recovery.traces),
        "weights": weights_figure(np.asarray(network.layer.weights), errors),
    }


def _pairs_in_canonical(network: Network, truth: Network) -> Any:
    return np.asarray(compare(network, truth.canonical()).pairs)

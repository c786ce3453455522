"""One self-contained HTML page about a recovery: no script, nothing fetched from elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.networks import Network, compare
from laybare.networks.storage import put
from laybare.report.figures import trace_figure, weights_figure
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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("laybare.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {"short": _short, "fixed": _fixed, "power": _power}
    return pages.get_template("page.html.j2").render(**_facts(recovery, truth))


def _facts(recovery: Recovery, truth: Network | None) -> dict[str, Any]:
    network = recovery.network
    pairs = [] if truth is None else side_by_side(network, truth)
    return {
        "recovery": recovery,
        "network": network,
        "certificate": recovery.certificate,
        "lead": LEAD[recovery.certificate.verdict],
        "method": "refine" if recovery.method is None else type(recovery.method).__name__,
        "truth": truth,
        "match": None if truth is None else compare(network, truth),
        "pairs": pairs[:UNITS],
        "readout": network.columns[0],
        "errors": recovery.certificate.standard_errors.readout.reshape(network.width, network.outputs),
        "inputs": min(INPUTS, network.dim),
        "outputs": min(OUTPUTS, network.outputs),
        "units": min(UNITS, network.width),
        "traces": trace_figure(recovery.traces),
        "weights": weights_figure(np.asarray(network.layer.weights), *_errors(recovery, pairs)),
    }


def _errors(recovery: Recovery, pairs: list[Pair]) -> tuple[Array, str]:
    """What is known about the error of each weight, and what that is called: the difference, or the standard error."""
    differences = {pair.found_number: pair.true.weights - pair.found.weights for pair in pairs}
    if sorted(differences) != list(range(recovery.network.width)):
        return recovery.certificate.standard_errors.weights, "standard error"
    return np.array([differences[i] for i in sorted(differences)]), "|true − recovered|"


def _fixed(value: float) -> str:
    """Four decimals with a true minus sign; powers of ten where those would not show the number."""
    size = abs(value)
    text = f"{value:.4f}" if size == 0.0 or 1e-3 <= size < 1e4 else f"{value:.2e}"
    return text.replace("-", "\N{MINUS SIGN}")


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def _power(value: float) -> str:
    """A size, such as a difference or a standard error."""
    if value in (0.0, np.inf):
        return "0" if value == 0.0 else "\N{INFINITY}"
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+").replace("-", "\N{MINUS SIGN}")

"""Self-contained HTML pages about a recovery and a lowest layer.

Nothing is fetched. The one script of the page sorts tables and saves the network. Where the truth is known, true and recovered
units stand side by side, in one gauge.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks import Match, Network, compare, sign_free
from laybare.networks.canonical import Units, normalise_units, reflect_units, reflection
from laybare.networks.network_files import check_ending, write_atomically
from laybare.numerics.shapes import Array
from laybare.report import tables
from laybare.report.drawings import (
    DRAWING,
    images_figure,
    layer_figure,
    render_svg,
    square_side,
    trace_figure,
    use_page_colours,
    weights_figure,
)
from laybare.report.notebook import match_html, network_html
from laybare.report.plots import FIT_PLOTS, FitPictures, draw_effects, draw_units, panel_grid, panel_size

if TYPE_CHECKING:
    from laybare.certificate import Certificate
    from laybare.lowest_layer import LayerRecovery
    from laybare.pipeline import Recovery

LISTED = tables.ListingOptions(units=100, inputs=10, outputs=4)
NETWORK_BYTES = 600_000
"""Largest network that the page holds as JSON. Convention: the whole page stays below a megabyte."""


def write_report(recovery: Recovery, path: str | os.PathLike[str], truth: Network | None = None) -> None:
    """Write the page to `path`, in one move; `truth`, where it is known, is set beside what was recovered."""
    write_atomically(check_ending(path, ".html"), render(recovery, truth).encode())


def render(recovery: Recovery, truth: Network | None = None) -> str:
    """The page as text."""
    return fill_template("page.html.j2", _facts(recovery, truth))


def fill_template(template: str, facts: dict[str, Any]) -> str:
    """A template with facts filled in."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("laybare.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {
        "short": tables.format_digits, "fixed": tables.format_decimals, "power": tables.format_size,
        "plain": tables.format_headline}
    return pages.get_template(template).render(**facts)


def _facts(recovery: Recovery, truth: Network | None) -> dict[str, Any]:
    network = recovery.network
    deep = network.depth > 1 or network.top is not None
    match = None if truth is None else compare(network, truth)
    return {
        "recovery": recovery, "network": network, "certificate": recovery.certificate, "origin": recovery.provenance,
        "lead": verdict_sentence(recovery.certificate, network), "json": _as_json(network), "truth": truth, "match": match,
        "missing": () if match is None else [unit + 1 for unit in match.missing],
        "spurious": () if match is None else [unit + 1 for unit in match.spurious],
        "method": "refine" if recovery.method is None else type(recovery.method).__name__, "deep": deep,
        "traces": use_page_colours(trace_figure(recovery.traces)) if recovery.traces else "",
        "images": unit_images(np.asarray(network.layer.weights)),
        "kinds": [] if deep else unit_sections(recovery), "pictures": [] if deep else fit_figures(recovery),
        "statements": verdict_statements(recovery.certificate), "fresh": _fresh_share(recovery),
        **(_layers(network, match) if deep else _layer(recovery, truth)),
    }


def verdict_sentence(certificate: Certificate, network: Network) -> str:
    """The verdict in words that need no statistics."""
    failed = [check.name for check in certificate.checks if not check.passed]
    checks, units = len(certificate.checks), sum(network.widths)
    if certificate.verdict == "verified":
        return (
            f"The hidden network is recovered. All {checks} checks that could have shown otherwise were passed: the data fix its "
            f"{units} unit{'s' * (units != 1)} and all of its weights, within the error bars below.")
    missing = f"{len(failed)} of {checks} checks failed: {', '.join(failed)}."
    if certificate.verdict == "doubtful":
        return f"This network explains the data, but do not rely on its weights yet. {missing}"
    return f"This is not the network behind the data: do not use it. {missing}"


def verdict_statements(certificate: Certificate) -> list[str]:
    """What the verdict says, what was assured, and every check that failed."""
    known = certificate.resolution if certificate.assurance is None else certificate.assurance
    shown = "" if known is None else f"{known}."
    failed = [f"Not passed: {check.name}. {check.explanation}" for check in certificate.checks if not check.passed]
    return [line for line in (certificate.meaning, shown[:1].upper() + shown[1:], *failed) if line]


def unit_sections(recovery: Recovery) -> list[str]:
    """Every unit in words and as a table of its columns: where it bends, its direction, what it adds, with errors."""
    summary = recovery.summary()
    listed = summary.units[:REPORT_PANELS]
    return [summary.unit_html(unit, SUMMARY_COLUMNS) for unit in listed] + ([summary.rest_html()] if summary.linear else [])


def fit_figures(recovery: Recovery) -> list[tuple[str, str]]:
    """Pictures of what units and columns do, each with a sentence that says how to read it."""
    network, kept = recovery.network, None if recovery.profile is None else recovery.profile.rows
    count = min(network.width, REPORT_PANELS)
    if network.width == 0 or not np.abs(recovery.network.layer.weights).max(axis=1).all():
        return []
    if kept is None:
        rows = np.random.default_rng(0).standard_normal((FIT_PLOTS.grid, network.dim))
        pictures, count = FitPictures(recovery, rows, None), min(count, DRAWING.panels_across)
        return [(_panels(pictures, count, draw_units, list(range(count))), UNITS_CAPTION.partition(" Points")[0])]
    pictures = FitPictures(recovery, kept.x, kept.y)
    columns = pictures.important[:REPORT_PANELS]
    return [(_panels(pictures, count, draw_units, list(range(count))), UNITS_CAPTION),
            (_panels(pictures, len(columns), draw_effects, columns), EFFECTS_CAPTION)]


SUMMARY_COLUMNS = 12
"""Columns of a unit that a report lists, the largest first. Convention: as the text of a summary does."""
REPORT_PANELS = 6
"""Units, and columns, that a report draws. Convention: two rows of three; `found.plot` draws any."""
UNITS_CAPTION = (
    "What each unit adds to the output, over its leading column; Δ marks columns that are carried over to it, as differences "
    "from their means. The dashed line is its kink, shaded within 1.96 standard errors. Points are rows: what the unit adds, and "
    "the residual; of counts and labels bins of rows, with standard errors.")
EFFECTS_CAPTION = (
    "Partial effects: how the output changes on average if one column is set to a value, with a band of 1.96 standard errors. "
    "Points are rows: the effect, and the residual; of counts and labels bins of rows, with standard errors.")


def _panels(pictures: FitPictures, count: int, draw: Callable[[FitPictures, list[int], Any], None], chosen: list[int]) -> str:
    def fill(figure: Any) -> None:
        draw(pictures, chosen, panel_grid(figure, count))

    names = ", ".join(f"{number + 1}" for number in chosen)
    return use_page_colours(render_svg(fill, panel_size(count)[1], f"{draw.__name__.replace('_', ' ')} {names}"))


def _fresh_share(recovery: Recovery) -> float:
    return float("nan") if recovery.profile is None else 1.0 - recovery.profile.unexplained


def input_names(recovery: Any, dim: int) -> list[str]:
    """Names of the inputs as the data have them, else x0, x1, ..."""
    names = recovery.columns.inputs
    return list(names) if len(names) == dim else [f"x{i}" for i in range(dim)]


def unit_images(weights: Array) -> str:
    """The units as images, where the inputs may be one."""
    side = square_side(weights.shape[1])
    return "" if side is None or not len(weights) else use_page_colours(images_figure(weights, side))


def _as_json(network: Network) -> str:
    """The network as `to_json` writes it, safe inside of a script element; empty if it is too large, or not all known."""
    from laybare.export.recovery_files import to_json

    try:
        text = to_json(network)
    except InvalidInput:  # units of one's own, or layers under a black box: no file holds them
        return ""
    return text.replace("<", "\\u003c") if len(text) <= NETWORK_BYTES else ""


def _layer(recovery: Recovery, truth: Network | None) -> dict[str, Any]:
    """The only hidden layer, with the error of every number: against the truth, or as the certificate has it."""
    network = recovery.network
    pairs = [] if truth is None else pair_units(network, truth)
    return {
        "pairs": pairs[: LISTED.units],
        "readout": network.columns[0],
        "errors": recovery.certificate.standard_errors.readout.reshape(network.width, network.outputs),
        "inputs": min(LISTED.inputs, network.dim), "outputs": min(LISTED.outputs, network.outputs),
        "units": min(LISTED.units, network.width), "names": input_names(recovery, network.dim),
        "weights": use_page_colours(weights_figure(
            np.asarray(network.layer.weights), *_errors(recovery, pairs), names=recovery.columns.inputs)),
    }


def _layers(network: Network, match: Match | None) -> dict[str, Any]:
    """Every layer's weights as a map and its first units as a table."""
    return {
        "maps": [
            use_page_colours(layer_figure(np.asarray(layer.weights), number)) for number, layer in enumerate(network.layers, 1)],
        "tables": network_html(network), "match_tables": "" if match is None else match_html(match),
    }


def _errors(recovery: Recovery, pairs: list[Pair]) -> tuple[Array, str]:
    """What is known about the error of each weight, and what that is called: the difference, or the standard error."""
    differences = {pair.found_number: pair.true.weights - pair.found.weights for pair in pairs}
    if sorted(differences) != list(range(recovery.network.width)):
        return recovery.certificate.standard_errors.weights, "standard error"
    return np.array([differences[i] for i in sorted(differences)]), "|true − recovered|"


LAYER_LEADS = {
    "verified": "The lowest layer is recovered. Every check below was passed, whatever lies above the layer.",
    "doubtful": "The data do not contradict this layer, but do not rely on its numbers yet: not every check below was passed.",
    "refuted": "This is not the layer behind the data: do not use it.",
}


def write_layer_report(recovery: LayerRecovery, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, in one move."""
    write_atomically(check_ending(path, ".html"), render_layer(recovery).encode())


def render_layer(recovery: LayerRecovery) -> str:
    """The page as text."""
    layer, certificate = recovery.layer, recovery.certificate
    return fill_template("layer.html.j2", {
        "recovery": recovery, "layer": layer, "certificate": certificate, "lead": LAYER_LEADS[certificate.verdict],
        "inputs": min(LISTED.inputs, layer.dim), "units": min(LISTED.units, layer.width),
        "names": input_names(recovery, layer.dim), "origin": recovery.provenance,
        "images": unit_images(np.asarray(layer.weights)),
        "weights": use_page_colours(weights_figure(
            np.asarray(layer.weights), certificate.standard_errors.weights, "standard error", names=recovery.columns.inputs)),
    })


class Unit(NamedTuple):
    """A hidden unit with its row of the readout."""

    weights: Array
    bias: float
    readout: Array


class Pair(NamedTuple):
    """True unit number `number`, the unit of the found network that belongs to it, the latter's number there."""

    number: int
    true: Unit
    found: Unit
    found_number: int

    @property
    def difference(self) -> float:
        """Largest difference of any two numbers of the pair."""
        (w, b, a), (v, c, e) = self.true, self.found
        return float(max(np.abs(w - v).max(), abs(b - c), np.abs(a - e).max()))


def pair_units(found: Network, truth: Network) -> list[Pair]:
    """The pairs of `compare`, one per true unit: unit rows where the scale is free, the found unit with its partner's sign."""
    pairs = compare(found, truth).pairs
    if found.activation != truth.activation:
        found, truth = sign_free(found), sign_free(truth)
    rows = [(_row(truth, j), _row(found, i), i, j) for i, j in pairs.tolist()]
    return [Pair(j, _unit(true), _unit(_turned(mine, true, found)), i) for true, mine, i, j in rows]


def _row(network: Network, number: int) -> Units:
    return normalise_units(network.units.take(np.array([number])), network.activation)


def _turned(mine: Units, true: Units, found: Network) -> Units:
    mirror = reflection(found.activation)
    opposite = float(np.sum(mine.weights * true.weights) + mine.biases @ true.biases) < 0.0
    return reflect_units(mine, np.array([True]), mirror) if opposite and mirror is not None else mine


def _unit(units: Units) -> Unit:
    return Unit(units.weights[0], float(units.biases[0]), units.readout[0])

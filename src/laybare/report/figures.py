"""Figures of a recovery as SVG text. Figure objects only: no pyplot, no global state."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import numpy as np

from laybare.refinement.trace import Trace
from laybare.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, ACCENT, SOFT = "#1f2933", "#0b7285", "#9aa5b1"


def trace_figure(traces: tuple[Trace, ...]) -> str:
    """Relative loss against steps, one line a run."""
    figure = _figure(6.4, 3.0)
    axes = figure.subplots()
    begin = 0
    for trace, colour, label in zip(traces, (ACCENT, INK) if len(traces) > 1 else (INK,), _labels(traces), strict=True):
        losses = np.maximum([row.loss for row in trace.rows], 1e-34)
        axes.semilogy(begin + np.arange(len(losses)), losses, color=colour, marker=".", markersize=4, linewidth=1.2, label=label)
        begin += len(losses)
    axes.set(xlabel="accepted step", ylabel="relative squared error")
    axes.legend(frameon=False, fontsize=8)
    return _svg(figure)


def weights_figure(weights: Array, errors: Array | None) -> str:
    """The hidden weights as a map, a unit a row, and, if the truth is known, the difference beside them."""
    tall = min(8.0, 1.2 + 0.16 * len(weights))
    panels = 1 if errors is None else 2
    figure = _figure(3.4 * panels, tall)
    axes = np.atleast_1d(figure.subplots(1, panels, squeeze=True))
    top = float(np.abs(weights).max())
    image = axes[0].imshow(weights, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=axes[0], shrink=0.8)
    axes[0].set(title="recovered weights", xlabel="input", ylabel="hidden unit")
    if errors is not None:
        levels = np.log10(np.maximum(np.abs(errors), 1e-17))
        image = axes[1].imshow(levels, cmap="viridis", vmin=-17, vmax=0, aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=axes[1], shrink=0.8)
        axes[1].set(title="log10 |true - recovered|", xlabel="input")
    return _svg(figure)


def _labels(traces: tuple[Trace, ...]) -> tuple[str, ...]:
    return ("search and pruning", "refinement") if len(traces) > 1 else ("refinement",)


def _figure(wide: float, tall: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(wide, tall), layout="constrained")


def _svg(figure: Figure) -> str:
    from matplotlib import rc_context

    buffer = StringIO()
    with rc_context({"svg.hashsalt": "laybare", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]

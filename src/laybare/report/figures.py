"""Figures of a recovery as SVG text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.damping import Trace
from laybare.report.svg import ACCENT, INK, LINE, svg
from laybare.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = -17.0
"""log10 of the smallest error on the colour scale: below half a unit in the last place of numbers just below 1."""

def trace_figure(traces: tuple[Trace, ...]) -> str:
    """Relative loss against steps, one line a run."""
    labels = ("search and pruning", "refinement")[-len(traces) :]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        begin = 0
        for trace, colour, label in zip(traces, (ACCENT, INK)[-len(traces) :], labels, strict=True):
            losses = np.maximum([row.loss for row in trace.rows], np.finfo(float).eps ** 2)
            steps = begin + np.arange(len(losses))
            axes.semilogy(steps, losses, color=colour, marker="o", markersize=3.5, linewidth=1.4, label=label)
            begin += len(losses)
        axes.grid(axis="y", color=LINE, linewidth=0.8)
        _whole_numbers(axes.xaxis)
        axes.set(xlabel="accepted step", ylabel="squared error over variance of y")
        axes.legend(frameon=False)

    return svg(draw, 3.0, "Squared error against steps of the solver")


def weights_figure(weights: Array, errors: Array, title: str) -> str:
    """The hidden weights as a map, a unit a row, and the sizes of their errors beside it on a logarithmic scale."""
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    levels = np.log10(np.maximum(np.abs(errors), 10.0**LEAST))

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        _map(figure, left, weights, "RdBu_r", (-largest, largest), "recovered weights")
        _map(figure, right, levels, "viridis", (LEAST, 0.0), f"log₁₀ of {title}")
        left.set_ylabel("hidden unit")

    return svg(draw, _tall(weights), "Map of the hidden weights")


def layer_figure(weights: Array, number: int) -> str:
    """The weights of one layer of several as a map, a unit a row."""
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        _map(figure, axes, weights, "RdBu_r", (-largest, largest), f"recovered weights of layer {number}")
        axes.set_ylabel("hidden unit")

    return svg(draw, _tall(weights), f"Map of the weights of layer {number}")


def _tall(weights: Array) -> float:
    """Height of a map in inches."""
    return min(9.0, 1.5 + 0.13 * len(weights))


def _map(figure: Figure, axes: Any, values: Array, colours: str, limits: tuple[float, float], title: str) -> None:
    image = axes.imshow(
        values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest",
        extent=(-0.5, values.shape[1] - 0.5, len(values) - 0.5, -0.5))
    figure.colorbar(image, ax=axes, pad=0.02).outline.set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        _whole_numbers(axis)
    axes.set(title=title, xlabel="input")


def _whole_numbers(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))

"""Figures of a recovery as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.damping import Trace
from laybare.report.svg import ACCENT, INK, LINE, WIDE, svg
from laybare.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = -17.0
"""log10 of the smallest error on a colour scale: below half a unit in the last place of numbers just below 1."""

LEAST_SPAN = 0.3
"""Powers of ten that a colour scale spans at least: a factor of two is the least difference worth a colour."""

NAMED = 24
"""Inputs whose names are written along an axis; more would not be read."""

SHOWN, ACROSS = 48, 12
"""Units that are shown as images, and how many in a row."""


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


def weights_figure(weights: Array, errors: Array, title: str, names: Sequence[str] = ()) -> str:
    """The hidden weights as a map, a unit a row, and the sizes of their errors beside it on a logarithmic scale."""
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    levels = np.log10(np.maximum(np.abs(errors), 10.0**LEAST))

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        _map(figure, left, weights, "RdBu_r", (-largest, largest), "recovered weights")
        _map(figure, right, levels, "viridis", scale_of(levels), f"log₁₀ of {title}")
        left.set_ylabel("hidden unit")
        for axes in (left, right) if 0 < len(names) <= NAMED else ():
            axes.set_xticks(range(len(names)), [_plain(name) for name in names], rotation=90)
            axes.set_xlabel("")

    return svg(draw, _tall(weights) + 0.5 * bool(names), f"Map of the hidden weights, {len(weights)} units by {weights.shape[1]} "
               f"inputs, and of {title} on a logarithmic scale")


def scale_of(levels: Array) -> tuple[float, float]:
    """Limits of a colour scale that shows the differences there are, of a third of a power of ten at least."""
    finite = levels[np.isfinite(levels)]
    if not finite.size:
        return LEAST, 0.0
    low, high = float(finite.min()), float(finite.max())
    spare = max(0.0, LEAST_SPAN - (high - low)) / 2.0
    return low - spare, high + spare


def side_of(dim: int) -> int | None:
    """The side of a square image of `dim` points; nothing where it is none, or too small to look at."""
    side = isqrt(dim)
    return side if side * side == dim and side >= 4 else None


def images_figure(weights: Array, side: int) -> str:
    """Every unit's weights as a square image, blue for negative and red for positive, each on its own scale, in one picture."""
    shown = weights[:SHOWN] / np.maximum(np.abs(weights[:SHOWN]).max(axis=1, keepdims=True), np.finfo(float).tiny)
    across = min(ACROSS, len(shown))
    down = -(-len(shown) // across)
    picture = np.full((down * (side + 1) - 1, across * (side + 1) - 1), np.nan)
    for number, row in enumerate(shown):
        top, left = (side + 1) * (number // across), (side + 1) * (number % across)
        picture[top : top + side, left : left + side] = row.reshape(side, side)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.imshow(picture, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
        axes.set_axis_off()

    return svg(draw, WIDE * down / ACROSS, f"The weights of {len(shown)} units as images of {side} by {side} points")


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


def _plain(name: str) -> str:
    """A column's name for matplotlib, which would take dollar signs for formulas."""
    seen = "".join(letter if letter.isprintable() else "?" for letter in name).replace("$", r"\$")
    return seen if len(seen) <= 18 else f"{seen[:10]}…{seen[-6:]}"

"""What a recovery looks like, drawn on axes: the report puts these drawings on its page, `found.plot` into a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.damping import Trace
from laybare.report.svg import ACCENT, INK, LINE, SOFT
from laybare.shapes import Array

if TYPE_CHECKING:
    from laybare.activations import Activation
    from laybare.networks import Network

LEAST = -17.0
"""log10 of the smallest error on the colour scale: below half a unit in the last place of numbers just below 1."""

LEAST_SPAN = 0.3
"""Powers of ten that a colour scale spans at least: a factor of two is the least difference worth a colour."""


def draw_steps(axes: Any, traces: tuple[Trace, ...]) -> None:
    """Relative loss against steps of the solver, one line a run."""
    labels = ("search and pruning", "refinement")[-len(traces) :]
    begin = 0
    for trace, colour, label in zip(traces, (ACCENT, INK)[-len(traces) :], labels, strict=True):
        losses = np.maximum([row.loss for row in trace.rows], np.finfo(float).eps ** 2)
        steps = begin + np.arange(len(losses))
        axes.semilogy(steps, losses, color=colour, marker="o", markersize=3.5, linewidth=1.4, label=label)
        begin += len(losses)
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    whole_numbers(axes.xaxis)
    axes.set(xlabel="accepted step", ylabel="squared error over variance of y")
    axes.legend(frameon=False)


def draw_weights(axes: Any, weights: Array, title: str) -> None:
    """Weights as a map, a unit a row; white is zero."""
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    draw_map(axes, weights, "RdBu_r", (-largest, largest), title)


def draw_errors(axes: Any, errors: Array, title: str) -> None:
    """Sizes of errors as a map, on a logarithmic scale."""
    levels = np.log10(np.maximum(np.abs(errors), 10.0**LEAST))
    draw_map(axes, levels, "viridis", scale_of(levels), f"log₁₀ of {title}")


def scale_of(levels: Array) -> tuple[float, float]:
    """Limits of a colour scale that shows the differences there are, of a third of a power of ten at least."""
    finite = levels[np.isfinite(levels)]
    if not finite.size:
        return LEAST, 0.0
    low, high = float(finite.min()), float(finite.max())
    spare = max(0.0, LEAST_SPAN - (high - low)) / 2.0
    return low - spare, high + spare


def draw_kinks(axes: Any, network: Network) -> None:
    """How far from the origin every unit bends, and by how much: the distance of its hyperplane, the change of slope there."""
    lengths = np.linalg.norm(network.layer.weights, axis=1)
    distances = np.asarray(network.layer.biases) / -np.where(lengths > 0.0, lengths, 1.0)
    bends = slope_jump(network.activation) * lengths * np.linalg.norm(network.readout.reshape(len(lengths), -1), axis=1)
    axes.vlines(distances, 0.0, bends, color=ACCENT, linewidth=1.2)
    axes.plot(distances, bends, "o", color=ACCENT, markersize=4.0)
    axes.set_ylim(bottom=0.0)
    axes.set(title="where units bend", xlabel="distance from the origin", ylabel="change of the slope")


def slope_jump(activation: Activation) -> float:
    """By how much the slope changes at 0."""
    below, above = activation.derivative(np.array([-1e-9, 1e-9]))
    return float(abs(above - below)) if 0.0 in activation.kinks else 0.0


def draw_residual(axes: Any, fitted: Array, residual: Array) -> None:
    """What the network leaves of y, against what it says; one colour for all outputs."""
    axes.axhline(0.0, color=LINE, linewidth=1.0)
    axes.plot(fitted.ravel(), residual.ravel(), ".", color=ACCENT, markersize=2.5, alpha=0.5)
    axes.set(title="residual", xlabel="output of the network", ylabel="y − output")


def draw_spectrum(axes: Any, values: Array, noise: float) -> None:
    """Eigenvalues by size, and the level that noise alone reaches."""
    sizes = np.sort(np.abs(values))[::-1]
    axes.semilogy(1 + np.arange(len(sizes)), np.maximum(sizes, np.finfo(float).tiny), "o", color=ACCENT, markersize=4.0)
    axes.axhline(max(noise, np.finfo(float).tiny), color=SOFT, linestyle="--", linewidth=1.0, label="noise")
    whole_numbers(axes.xaxis)
    axes.set(title="second Hermite moment", xlabel="eigenvalue", ylabel="size")
    axes.legend(frameon=False)


def draw_map(axes: Any, values: Array, colours: str, limits: tuple[float, float], title: str) -> None:
    """Numbers as colours, with their scale beside them."""
    image = axes.imshow(
        values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest",
        extent=(-0.5, values.shape[1] - 0.5, len(values) - 0.5, -0.5))
    axes.figure.colorbar(image, ax=axes, pad=0.02).outline.set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        whole_numbers(axis)
    axes.set(title=title, xlabel="input", ylabel="hidden unit")


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))

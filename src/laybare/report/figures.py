"""Figures of a recovery as SVG text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laybare.damping import Trace
from laybare.report.drawings import draw_errors, draw_steps, draw_weights
from laybare.report.svg import svg
from laybare.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def trace_figure(traces: tuple[Trace, ...]) -> str:
    """Relative loss against steps, one line a run."""

    def draw(figure: Figure) -> None:
        draw_steps(figure.subplots(), traces)

    return svg(draw, 3.0, "Squared error against steps of the solver")


def weights_figure(weights: Array, errors: Array, title: str) -> str:
    """The hidden weights as a map, a unit a row, and the sizes of their errors beside it on a logarithmic scale."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        draw_weights(left, weights, "recovered weights")
        draw_errors(right, errors, title)
        right.set_ylabel("")

    return svg(draw, _tall(weights), "Map of the hidden weights")


def layer_figure(weights: Array, number: int) -> str:
    """The weights of one layer of several as a map, a unit a row."""

    def draw(figure: Figure) -> None:
        draw_weights(figure.subplots(), weights, f"recovered weights of layer {number}")

    return svg(draw, _tall(weights), f"Map of the weights of layer {number}")


def _tall(weights: Array) -> float:
    """Height of a map in inches."""
    return min(9.0, 1.5 + 0.13 * len(weights))

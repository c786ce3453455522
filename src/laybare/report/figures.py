"""Figures of a recovery as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from laybare.damping import Trace
from laybare.report.drawings import draw_errors, draw_steps, draw_weights
from laybare.report.svg import WIDE, svg
from laybare.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 24
"""Inputs whose names are written along an axis; more would not be read."""

SHOWN, ACROSS = 24, 12
"""Units that are shown as images, and how many in a row."""


def trace_figure(traces: tuple[Trace, ...]) -> str:
    """Relative loss against steps, one line a run."""

    def draw(figure: Figure) -> None:
        draw_steps(figure.subplots(), traces)

    return svg(draw, 3.0, "Squared error against steps of the solver")


def weights_figure(weights: Array, errors: Array, title: str, names: Sequence[str] = ()) -> str:
    """The hidden weights as a map, a unit a row, and the sizes of their errors beside it on a logarithmic scale."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        draw_weights(left, weights, "recovered weights")
        draw_errors(right, errors, title)
        right.set_ylabel("")
        for axes in (left, right) if 0 < len(names) <= NAMED else ():
            axes.set_xticks(range(len(names)), [_plain(name) for name in names], rotation=90)
            axes.set_xlabel("")

    return svg(draw, _tall(weights) + 0.5 * bool(names), f"Map of the hidden weights, {len(weights)} units by {weights.shape[1]} "
               f"inputs, and of {title} on a logarithmic scale")


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

    def draw(figure: Figure) -> None:
        draw_weights(figure.subplots(), weights, f"recovered weights of layer {number}")

    return svg(draw, _tall(weights), f"Map of the weights of layer {number}")


def _tall(weights: Array) -> float:
    """Height of a map in inches."""
    return min(9.0, 1.5 + 0.13 * len(weights))


def _plain(name: str) -> str:
    """A column's name for matplotlib, which would take dollar signs for formulas."""
    seen = "".join(letter if letter.isprintable() else "?" for letter in name).replace("$", r"\$")
    return seen if len(seen) <= 18 else f"{seen[:10]}…{seen[-6:]}"

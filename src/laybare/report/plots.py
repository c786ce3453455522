"""Figures of studies as SVG text: success rates as grey maps, and lines against a quantity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laybare.report.svg import ACCENT, INK, LINE, SOFT, svg
from laybare.shapes import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (ACCENT, INK, "#c92a2a", "#e67700", SOFT, "#5f3dc4")
MARKS = ("o", "s", "^", "D", "v", "P")


class Line(NamedTuple):
    """Named points; `low` and `high` draw a band around them."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False


class Panel(NamedTuple):
    """Lines over one pair of axes; `logarithmic` names the axes with a logarithmic scale: "", "x", "y" or "xy"."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    logarithmic: str = "y"


def lines_figure(panels: Sequence[Panel], meaning: str) -> str:
    """Panels side by side, three in a row, one legend each; `meaning` is read to those who cannot see the figure."""
    across = min(3, len(panels))
    down = -(-len(panels) // across)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _panel(axes, panel)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()

    return svg(draw, 3.2 * down, meaning)


def rates_figure(
    maps: dict[str, Array], rows: Sequence[int], columns: Sequence[int], *, row: str = "dimension", column: str = "samples",
    meaning: str = "Success rates",
) -> str:
    """Success rates, or other shades in [0, 1], over two quantities, one map a method, white for 1 and black for 0."""

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
        for axes, (name, rates) in zip(panels, maps.items(), strict=True):
            axes.imshow(rates, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest", origin="lower")
            axes.set_xticks(range(len(columns)), [f"{size:,}" for size in columns], rotation=90 if len(columns) > 4 else 0)
            axes.set_yticks(range(len(rows)), [str(size) for size in rows])
            axes.set(title=name, xlabel=column)
        panels[0].set_ylabel(row)

    return svg(draw, 3.0, f"{meaning} over {row} and {column}")


def _panel(axes: Any, panel: Panel) -> None:
    for i, line in enumerate(panel.lines):
        colour = COLOURS[i % len(COLOURS)]
        x, y = np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)
        axes.plot(x, y, color=colour, marker="" if line.dashed else MARKS[i % len(MARKS)], markersize=3.5, linewidth=1.4,
                  linestyle="--" if line.dashed else "-", label=line.name)
        if line.low is not None and line.high is not None:
            axes.fill_between(x, np.asarray(line.low), np.asarray(line.high), color=colour, alpha=0.15, linewidth=0)
    if "x" in panel.logarithmic:
        axes.set_xscale("log")
    if "y" in panel.logarithmic:
        axes.set_yscale("log")
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axes.legend(frameon=False, fontsize=8.0)

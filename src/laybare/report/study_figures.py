"""Figures of studies: lines against a quantity, and success rates as grey maps; each as SVG text and as a table of its points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laybare.numerics.shapes import Array
from laybare.report.drawings import ACCENT, DRAWING, INK, LINE, SOFT, render_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVE_COLOURS = (ACCENT, INK, "#c92a2a", "#e67700", SOFT, "#5f3dc4", "#2b8a3e", "#a61e4d")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")

class Curve(NamedTuple):
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
    lines: Sequence[Curve]
    logarithmic: str = "y"


Points = tuple[tuple[str, ...], list[tuple[str | int | float, ...]]]
"""Columns and rows."""


@dataclass(frozen=True)
class LinesFigure:
    """Panels side by side and one legend below them; `meaning` is read to those who cannot see the figure.

    A name has one colour in all panels.
    """

    panels: Sequence[Panel]
    meaning: str
    across: int = DRAWING.panels_across

    def svg(self) -> str:
        """The drawing."""
        names = list(dict.fromkeys(line.name for panel in self.panels for line in panel.lines))
        across = min(self.across, len(self.panels))
        down = -(-len(self.panels) // across)

        def draw(figure: Figure) -> None:
            grid = figure.subplots(down, across, squeeze=False).ravel()
            for axes, panel in zip(grid, self.panels, strict=False):
                _draw(axes, panel, names)
            for axes in grid[len(self.panels) :]:
                axes.set_axis_off()
            handles = _one_each(grid)
            figure.legend(
                handles.values(), handles.keys(), loc="outside lower center", ncols=DRAWING.panels_across, frameon=False,
                fontsize=8.0)

        return render_svg(draw, 2.8 * down + 0.2 * -(-len(names) // DRAWING.panels_across) + 0.2, self.meaning)

    def points(self) -> Points:
        """What is drawn, one row per point."""
        rows: list[tuple[str | int | float, ...]] = []
        for panel in self.panels:
            for line in panel.lines:
                none: Sequence[str | float] = [""] * len(line.x)
                low, high = line.low or none, line.high or none
                rows += [(panel.title, line.name, *point) for point in zip(line.x, line.y, low, high, strict=True)]
        return ("panel", "line", "x", "y", "low", "high"), rows


@dataclass(frozen=True)
class RatesFigure:
    """Success rates, or other shades in [0, 1], over two quantities, one map per method, white for 1 and black for 0.

    `scale` stands beside the bar of shades.
    """

    maps: Mapping[str, Array]
    rows: Sequence[int]
    columns: Sequence[int]
    row: str = "dimension"
    column: str = "samples"
    meaning: str = "Success rates"
    scale: str = "share of runs that succeed"

    def svg(self) -> str:
        """The drawing."""

        def draw(figure: Figure) -> None:
            panels = figure.subplots(1, len(self.maps), sharey=True, squeeze=False)[0]
            for axes, (name, rates) in zip(panels, self.maps.items(), strict=True):
                image = axes.imshow(
                    rates, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest", origin="lower")
                turned = 90 if len(self.columns) > DRAWING.panels_across else 0
                axes.set_xticks(range(len(self.columns)), [f"{size:,}" for size in self.columns], rotation=turned)
                axes.set_yticks(range(len(self.rows)), [str(size) for size in self.rows])
                axes.set(title=name, xlabel=self.column)
            panels[0].set_ylabel(self.row)
            figure.colorbar(image, ax=panels, label=self.scale, shrink=0.9)

        return render_svg(draw, 3.0, f"{self.meaning} over {self.row} and {self.column}")

    def points(self) -> Points:
        """What is drawn, one row per cell."""
        rows: list[tuple[str | int | float, ...]] = [
            (name, row, column, float(shades[i, j]))
            for name, shades in self.maps.items() for i, row in enumerate(self.rows) for j, column in enumerate(self.columns)]
        return ("map", self.row, self.column, "shade"), rows


def _draw(axes: Any, panel: Panel, names: list[str]) -> None:
    for line in panel.lines:
        i = names.index(line.name)
        colour, mark = CURVE_COLOURS[i % len(CURVE_COLOURS)], MARKS[i % len(MARKS)]
        x, y = np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)
        style = "--" if line.dashed else "-" if i < len(CURVE_COLOURS) else ":"  # colours repeat, with another line
        unmarked = line.dashed or len(x) > DRAWING.marked_points
        axes.plot(x, y, color=colour, marker="" if unmarked else mark, markersize=3.5, linewidth=1.4,
                  markerfacecolor=colour if i < len(CURVE_COLOURS) else "white", linestyle=style, label=line.name)
        if line.low is not None and line.high is not None:
            axes.fill_between(x, np.asarray(line.low), np.asarray(line.high), color=colour, alpha=0.15, linewidth=0)
    if "x" not in panel.logarithmic:
        axes.locator_params(axis="x", nbins=DRAWING.most_ticks - 1)
    else:
        axes.set_xscale("log")
        _ticks_at_values(axes, sorted({float(value) for line in panel.lines for value in line.x}))
    if "y" in panel.logarithmic:
        axes.set_yscale("log")
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)


def _ticks_at_values(axes: Any, values: list[float]) -> None:
    """Ticks at the few values there are; many, or such as would be written over each other, are left to the powers of ten."""
    if len(values) <= DRAWING.most_ticks and all(b / a >= DRAWING.least_tick_ratio for a, b in pairwise(values)):
        names = [f"{value:,g}" if value >= 1.0 else f"{value:.3g}" for value in values]
        axes.set_xticks(values, names, rotation=90 if len(values) > DRAWING.panels_across else 0)
        axes.set_xticks([], minor=True)


def _one_each(grid: Any) -> dict[str, Any]:
    """The first drawn line of every name."""
    handles: dict[str, Any] = {}
    for axes in grid:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    return handles

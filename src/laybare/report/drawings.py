"""What a recovery looks like: drawings on axes, and figures of them as SVG text in one style.

The report puts the figures on its page, `found.plot` the drawings into a notebook. SVG text comes from Figure objects only: no
pyplot, no global state.

Figures of studies are lines against a quantity, and success rates as grey maps, each as SVG text and as a table of its points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import pairwise
from math import isqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.redaction import describe_error
from laybare.numerics.shapes import Array
from laybare.solver import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from laybare.activations import Activation
    from laybare.networks import Network


INK, ACCENT, SOFT, LINE = "#1f2933", "#0b7285", "#616e7c", "#e4e7eb"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "laybare", "svg.fonttype": "none", "font.size": 9.0, "axes.titlesize": 10.0, "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT, "text.color": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": False,
}

@dataclass(frozen=True, kw_only=True)
class DrawingOptions:
    """Sizes and limits of drawings."""

    figure_width: float = 9.0  # Convention: inches; the page shrinks it to the window.
    smallest_log_error: float = -17.0  # Derived: log10 of less than half a unit in the last place of numbers just below 1.
    least_log_span: float = 0.3  # Derived: log10 of 2; a smaller factor between errors gets no colour of its own.
    named_inputs: int = 24  # Convention: more names along an axis cannot be read.
    shown_images: int = 24  # Convention: two rows of images fit a screen.
    images_across: int = 12  # Convention: an image is three quarters of an inch wide.
    residual_rows: int = 5000  # Convention: more points make one cloud.
    least_slope_jump: float = 1e-6  # Checked by `pytest tests/report`. Jump within 2e-9; smooth units stay far below.
    panels_across: int = 3  # Convention: panels, and names of the legend, in a row.
    marked_points: int = 30  # Convention: marks of more points touch each other.
    most_ticks: int = 7  # Convention: a logarithmic axis of up to as many values has its ticks at them.
    least_tick_ratio: float = 1.3  # Convention: labels of neighbouring values have room from this ratio on.


DRAWING = DrawingOptions()


def check_matplotlib() -> None:
    """Raise InvalidInput if matplotlib cannot be imported here: before the work whose result is to be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except Exception as error:  # such as a backend that it does not know, in $MPLBACKEND
        raise InvalidInput(
            f"matplotlib cannot be imported: {describe_error(error)}.", "It draws the figures of a page.",
            "Correct what it objects to, such as the variable MPLBACKEND, or leave the page out.") from None


def render_svg(draw: Callable[[Figure], None], tall: float, meaning: str) -> str:
    """The drawing as an <svg> element that says what it shows; without ids that nothing refers to."""
    check_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    buffer = StringIO()
    with rc_context(STYLE):
        figure = Figure(figsize=(DRAWING.figure_width, tall), layout="constrained")
        draw(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = re.sub(r'<g id="[^"]*">', "<g>", buffer.getvalue())
    text = re.sub(r'(?<= d=")[^"]*', _shorten, text)
    return text[text.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{escape(meaning)}"', 1)


def _shorten(path: re.Match[str]) -> str:
    """The coordinates of a path to a hundredth of a point, which nobody sees."""
    return " ".join(re.sub(r"(\.\d\d)\d+", r"\1", path.group()).split())


def use_page_colours(text: str) -> str:
    """The drawing for a page: its ink is the page's, light or dark, and its paper is the page itself."""
    for colour, name in ((INK, "ink"), (SOFT, "soft"), (LINE, "line"), (ACCENT, "verified")):
        text = text.replace(f": {colour}", f": var(--{name})")
    return text.replace("fill: #ffffff", "fill: none")


def draw_steps(axes: Any, traces: tuple[Trace, ...]) -> None:
    """Relative loss against steps of the solver, one line per run."""
    labels = ("search and pruning", "refinement")[-len(traces) :]
    begin = 0
    for trace, colour, label in zip(traces, (ACCENT, INK)[-len(traces) :], labels, strict=True):
        losses = np.maximum([row.loss for row in trace.rows], np.finfo(float).eps ** 2)
        steps = begin + np.arange(len(losses))
        axes.semilogy(steps, losses, color=colour, marker="o", markersize=3.5, linewidth=1.4, label=label)
        begin += len(losses)
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    use_integer_ticks(axes.xaxis)
    axes.set(xlabel="accepted step", ylabel="squared error over variance of y")
    axes.legend(frameon=False)


def draw_weights(axes: Any, weights: Array, title: str) -> None:
    """Weights as a map, one row per unit; white is zero."""
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    draw_map(axes, weights, "RdBu_r", (-largest, largest), title)


def draw_errors(axes: Any, errors: Array, title: str) -> None:
    """Sizes of errors as a map, on a logarithmic scale."""
    levels = np.log10(np.maximum(np.abs(errors), 10.0**DRAWING.smallest_log_error))
    draw_map(axes, levels, "viridis", colour_limits(levels), f"log₁₀ of {title}")


def colour_limits(levels: Array) -> tuple[float, float]:
    """Limits of a colour scale that shows the differences there are, of a third of a power of ten at least."""
    finite = levels[np.isfinite(levels)]
    if not finite.size:
        return DRAWING.smallest_log_error, 0.0
    low, high = float(finite.min()), float(finite.max())
    spare = max(0.0, DRAWING.least_log_span - (high - low)) / 2.0
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
    use_integer_ticks(axes.xaxis)
    axes.set(title="second Hermite moment", xlabel="eigenvalue", ylabel="size")
    axes.legend(frameon=False)


def draw_map(axes: Any, values: Array, colours: str, limits: tuple[float, float], title: str) -> None:
    """Numbers as colours, with their scale beside them; units are counted from one."""
    image = axes.imshow(
        values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest",
        extent=(-0.5, values.shape[1] - 0.5, len(values) + 0.5, 0.5))
    axes.figure.colorbar(image, ax=axes, pad=0.02).outline.set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        use_integer_ticks(axis)
    axes.set(title=title, xlabel="input", ylabel="hidden unit")


def use_integer_ticks(axis: Any) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def trace_figure(traces: tuple[Trace, ...]) -> str:
    """Relative loss against steps, one line per run."""
    return render_svg(lambda figure: draw_steps(figure.subplots(), traces), 3.0, "Squared error against steps of the solver")


def weights_figure(weights: Array, errors: Array, title: str, names: Sequence[str] = ()) -> str:
    """The hidden weights as a map, one row per unit, and the sizes of their errors beside it on a logarithmic scale."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        draw_weights(left, weights, "recovered weights")
        draw_errors(right, errors, title)
        right.set_ylabel("")
        for axes in (left, right) if 0 < len(names) <= DRAWING.named_inputs else ():
            axes.set_xticks(range(len(names)), [plain_name(name) for name in names], rotation=90)
            axes.set_xlabel("")

    shape = f"{len(weights)} units by {weights.shape[1]} inputs"
    return render_svg(
        draw, _map_height(weights) + 0.5 * bool(names),
        f"Map of the hidden weights, {shape}, and of {title} on a logarithmic scale")


def square_side(dim: int) -> int | None:
    """The side of a square image of `dim` points; nothing where it is none, or too small to look at."""
    side = isqrt(dim)
    return side if side * side == dim and side >= 4 else None


def images_figure(weights: Array, side: int) -> str:
    """Every unit's weights as a square image, blue for negative and red for positive, each on its own scale, in one picture."""
    shown = weights[: DRAWING.shown_images]
    shown = shown / np.maximum(np.abs(shown).max(axis=1, keepdims=True), np.finfo(float).tiny)
    across = min(DRAWING.images_across, len(shown))
    down = -(-len(shown) // across)
    picture = np.full((down * (side + 1) - 1, across * (side + 1) - 1), np.nan)
    for number, row in enumerate(shown):
        top, left = (side + 1) * (number // across), (side + 1) * (number % across)
        picture[top : top + side, left : left + side] = row.reshape(side, side)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.imshow(picture, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
        axes.set_axis_off()

    tall = DRAWING.figure_width * down / DRAWING.images_across
    return render_svg(draw, tall, f"The weights of {len(shown)} units as images of {side} by {side} points")


def layer_figure(weights: Array, number: int) -> str:
    """The weights of one layer of several as a map, one row per unit."""
    return render_svg(
        lambda figure: draw_weights(figure.subplots(), weights, f"recovered weights of layer {number}"), _map_height(weights),
        f"Map of the weights of layer {number}")


def _map_height(weights: Array) -> float:
    """Height of a map in inches."""
    return min(9.0, 1.5 + 0.13 * len(weights))


def plain_name(name: str) -> str:
    """A column's name for matplotlib, which would take dollar signs for formulas."""
    seen = "".join(letter if letter.isprintable() else "?" for letter in name).replace("$", r"\$")
    return seen if len(seen) <= 18 else f"{seen[:10]}…{seen[-6:]}"


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
    """Lines over one pair of axes; `logarithmic` names the axes with a logarithmic scale: "", "x", "y" or "xy". `ticks` are
    those of y by their values, where the powers of ten would not do."""

    title: str
    x: str
    y: str
    lines: Sequence[Curve]
    logarithmic: str = "y"
    ticks: Mapping[float, str] | None = None


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
    if panel.ticks is not None:
        axes.set_yticks(list(panel.ticks), list(panel.ticks.values()))
        axes.set_yticks([], minor=True)
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

"""Pictures of a fit, in the columns and units of the data: partial effects, units with the data, kinks, residuals; and
`found.plot`, which draws them, and those of the recovery itself, as matplotlib axes for notebooks and for figures of one's
own.

    effect of column i at v    mean over rows of f(x with xᵢ = v) - f(x), its error by the delta method
    unit j                     a·act(w·x + b) over the leading column, the others carried over by the kink's own coefficients:
                               v = x_L + Σ rᵢ (xᵢ - mᵢ), so that the kink is one point of the axis (see `laybare.report.summary`)
    kinks                      w·x + b = 0 over two columns, the others at their means; shaded where it may lie

Points are rows of the data: what is drawn plus the row's residual (partial residuals, Larsen and McCleary 1972). Counts and
labels say too little each: there a point is a bin of rows along the axis, moved by the constant that fits them best, one step of
the solver, Σ (y - μ) / Σ var, with its standard error 1 / √Σ var (Landwehr, Pregibon and Shoemaker 1984, in bins).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.certificate.prediction import covered_point
from laybare.errors import InvalidInput
from laybare.moments import SecondMoment, measure_with_noise
from laybare.numerics.checks import check_choice
from laybare.numerics.shapes import Array
from laybare.pipeline.arguments import parse_arguments
from laybare.report import drawings
from laybare.report.drawings import ACCENT, DRAWING, INK, LINE, SOFT, plain_name
from laybare.report.summary import RecoveredParameters
from laybare.report.tables import Quantity
from laybare.solver.point import output_gradients

if TYPE_CHECKING:
    from laybare.networks import Network
    from laybare.pipeline import Recovery


@dataclass(frozen=True, kw_only=True)
class FitPlotOptions:
    """Sizes of pictures of fits."""

    grid: int = 60  # Values along an axis. Convention: straight lines between them are not seen.
    averaged_rows: int = 200  # Rows over which a partial effect is averaged. Convention: a second for ten columns.
    normal_reach: float = 1.96  # Standard errors of bands. Derived: the normal quantile of 97.5 %.
    shown_panels: int = 12  # Convention: four rows of three.
    pair_columns: int = 3  # Columns whose pairs are drawn by default. Convention: three panels in a row.
    named_terms: int = 3  # Columns in the label of a unit's axis. Convention: more do not fit below a panel.
    panel: tuple[float, float] = (3.6, 2.9)  # Inches. Convention: three across a page.
    bins: int = 12  # Of rows along an axis, for counts and labels. Convention: some thirty of the rows that are kept in each.
    least_information: float = 1.0  # Of a bin that is drawn. Derived: its standard error is one, in log means or log odds.
    window: tuple[float, float] = (0.005, 0.995)  # Quantiles of the data that axes show. Convention: without outliers.


FIT_PLOTS = FitPlotOptions()

POINTS: dict[str, Any] = {"markersize": 2.5, "alpha": 0.45, "rasterized": True}
"""How rows of the data are drawn: as an image in SVG, which would else hold a mark for each. Convention."""


@dataclass(frozen=True, eq=False)
class FitPictures:
    """Drawings of one output of a recovery, over its own rows or over those that are given."""

    found: Recovery
    x: Array
    y: Array | None
    output: int = 0

    @cached_property
    def parameters(self) -> RecoveredParameters:
        return RecoveredParameters(self.found)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(map(plain_name, self.parameters.columns))

    @property
    def answer(self) -> str:
        """What the network answers, by its name."""
        name = plain_name(self.parameters.outputs[self.output])
        return {"poisson": f"log mean of {name}", "bernoulli": f"log odds of {name}"}.get(self.found.loss.name, name)

    @cached_property
    def fitted(self) -> Array:
        """What the network answers at the rows."""
        return np.asarray(self.found.network(self.x)).reshape(len(self.x), -1)[:, self.output]

    @cached_property
    def residual(self) -> Array | None:
        """What is left of y in standard deviations of its law; in y's own units where the network answers means."""
        if self.y is None:
            return None
        loss, mean = self.found.loss, self.found.loss.mean(self.fitted)
        left = self.y.reshape(len(self.x), -1)[:, self.output] - mean
        return np.asarray(left / np.sqrt(loss.variance(mean))) if loss.linked else np.asarray(left)

    def draw_effect(self, axes: Any, column: int) -> None:
        """Mean change of the answer if one column is set to a value, with a band of 1.96 standard errors."""
        values = self._window(self.x[:, column])
        effect, errors = self._effect(column, values)
        self._draw_rows(axes, self.x[:, column], np.interp(self.x[:, column], values, effect))
        axes.axhline(0.0, color=LINE, linewidth=1.0)
        draw_band(axes, values, effect, FIT_PLOTS.normal_reach * errors)
        axes.set(xlabel=self.columns[column], ylabel=f"effect on {self.answer}", xlim=(values[0], values[-1]))

    def _draw_rows(self, axes: Any, along: Array, curve: Array) -> None:
        """The data beside a curve of which the values at the rows are given."""
        if self.residual is None:
            return
        if not self.found.loss.linked:
            axes.plot(along, curve + self.residual, ".", color=SOFT, **POINTS)
            return
        order = np.argsort(along, kind="stable")
        variance = self.found.loss.variance(self.found.loss.mean(self.fitted))
        for rows in np.array_split(order, min(FIT_PLOTS.bins, len(order))):
            information = float(variance[rows].sum())
            if information < FIT_PLOTS.least_information:
                continue
            moved = float(self.residual[rows] @ np.sqrt(variance[rows])) / information
            axes.errorbar(
                along[rows].mean(), curve[rows].mean() + moved, yerr=1.0 / np.sqrt(information), fmt="o", color=SOFT,
                markersize=3.5, linewidth=1.0)

    def _effect(self, column: int, values: Array) -> tuple[Array, Array]:
        """Partial effect at values, and its standard errors; NaN where there is no covariance."""
        rows = self.x[: FIT_PLOTS.averaged_rows]
        network, covariance = self.found.network, self.found.certificate.covariance
        changed = np.repeat(rows[None], len(values), axis=0)
        changed[:, :, column] = values[:, None]
        flat = changed.reshape(-1, rows.shape[1])
        answers = np.asarray(network(flat)).reshape(len(values), len(rows), -1)[:, :, self.output]
        effect = answers.mean(axis=1) - self.fitted[: len(rows)].mean()
        if covariance is None:
            return effect, np.full(len(values), np.nan)
        point = covered_point(network, len(covariance))
        centre = output_gradients(point, rows, self.output).mean(axis=0)
        J = np.array([output_gradients(point, each, self.output).mean(axis=0) - centre for each in changed])
        return effect, np.sqrt(np.maximum(np.einsum("np,np->n", J @ covariance, J), 0.0))

    def draw_unit(self, axes: Any, j: int) -> None:
        """What a unit adds, over its leading column with the others carried over, beside the rows' partial residuals."""
        parts, unit = self.parameters, self.parameters.unit(j)
        lead = parts.columns.index(unit.leading)
        w, b = parts.rows[j, :-1], parts.rows[j, -1]
        along = unit.location.value + (self.x @ w + b) / w[lead]
        values = self._window(np.append(along, unit.location.value))
        self._draw_rows(axes, along, self._added(j, along, unit.location.value, lead))
        self._draw_place(axes, unit.location)
        axes.plot(values, self._added(j, values, unit.location.value, lead), color=ACCENT, linewidth=1.8)
        axes.set(title=f"unit {j + 1}: {self.columns[lead]} = {unit.location}", xlabel=self._carried(j),
                 ylabel=f"adds to {self.answer}", xlim=(values[0], values[-1]))

    def _draw_place(self, axes: Any, place: Quantity) -> None:
        if np.isfinite(place.se):
            reach = FIT_PLOTS.normal_reach * place.se
            axes.axvspan(place.value - reach, place.value + reach, color=ACCENT, alpha=0.15, linewidth=0.0)
        axes.axvline(place.value, color=ACCENT, linewidth=0.8, linestyle="--")

    def _added(self, j: int, along: Array, location: float, lead: int) -> Array:
        w, a = self.parameters.rows[j, :-1], self.parameters.readout[j, self.output]
        return np.asarray(a * self.found.network.layer.activation((along - location) * w[lead]))

    def _carried(self, j: int) -> str:
        """The unit's own axis in words: the leading column, and the largest of those that differ from zero beside it."""
        terms, names = self.parameters.unit(j).terms, dict(zip(self.parameters.columns, self.columns, strict=True))
        clear = [term for term in terms[1:] if not abs(term.coefficient.value) <= FIT_PLOTS.normal_reach * term.coefficient.se]
        shown = clear[: FIT_PLOTS.named_terms - 1]
        others = "".join(
            f" {'−' if term.coefficient.value < 0.0 else '+'} {abs(term.coefficient.value):.2g} Δ{names[term.column]}"
            for term in shown)
        return f"{names[terms[0].column]}{others}{' + …' if len(clear) > len(shown) else ''}"

    def draw_kinks(self, axes: Any, first: int, second: int) -> None:
        """Where units bend over two columns, the others at their means, with the data behind."""
        colours = self.y.reshape(len(self.x), -1)[:, self.output] if self.y is not None else SOFT
        rows = axes.scatter(
            self.x[:, first], self.x[:, second], c=colours, s=6.0, cmap="viridis", alpha=0.6, linewidths=0.0, rasterized=True)
        if self.y is not None:
            axes.figure.colorbar(rows, ax=axes, label=plain_name(self.parameters.outputs[self.output]))
        across, up = self._window(self.x[:, first]), self._window(self.x[:, second])
        grid = np.tile(np.asarray(self.parameters.means, dtype=float), (len(up), len(across), 1))
        grid[:, :, first], grid[:, :, second] = across[None, :], up[:, None]
        for j in range(len(self.parameters.rows)):
            self._draw_kink(axes, j, across, up, grid)
        axes.set(xlabel=self.columns[first], ylabel=self.columns[second], xlim=(across[0], across[-1]), ylim=(up[0], up[-1]))

    def _draw_kink(self, axes: Any, j: int, across: Array, up: Array, grid: Array) -> None:
        row, d = self.parameters.rows[j], grid.shape[-1]
        inside = grid @ row[:-1] + row[-1]
        C = self.parameters.covariance(j)[: d + 1, : d + 1]
        extended = np.concatenate([grid, np.ones((*inside.shape, 1))], axis=-1)
        errors = np.sqrt(np.maximum(np.einsum("abi,ij,abj->ab", extended, C, extended), 0.0))
        if np.isfinite(errors).all() and errors.max() > 0.0:
            reach = FIT_PLOTS.normal_reach
            axes.contourf(across, up, inside / np.maximum(errors, np.finfo(float).tiny), levels=[-reach, reach], colors=[ACCENT],
                          alpha=0.25)
        if inside.min() < 0.0 < inside.max():
            lines = axes.contour(across, up, inside, levels=[0.0], colors=[INK], linewidths=1.4)
            axes.clabel(lines, fmt=f"{j + 1}", fontsize=9)

    def draw_kinks_over_answers(self, axes: Any) -> None:
        """For a single column: the data, the fit with its band, and where it bends."""
        values = self._window(self.x[:, 0])
        fit = self.found.predict(values[:, None])
        if self.y is not None:
            axes.plot(self.x[:, 0], self.y.reshape(len(self.x), -1)[:, self.output], ".", color=SOFT, **POINTS)
        middle, upper = (part.reshape(len(values), -1)[:, self.output] for part in (fit.mean, fit.upper))
        for j in range(len(self.parameters.rows)):
            self._draw_place(axes, self.parameters.unit(j).location)
        draw_band(axes, values, middle, upper - middle)
        axes.set(xlabel=self.columns[0], ylabel=plain_name(self.parameters.outputs[self.output]), xlim=(values[0], values[-1]))

    def draw_residuals(self, left: Any, right: Any) -> None:
        """Residuals over what is fitted, and their quantiles over those of a normal law."""
        from scipy.special import ndtri

        residual = self.residual
        assert residual is not None
        spread = float(residual.std()) or 1.0
        left.axhline(0.0, color=LINE, linewidth=1.0)
        left.plot(self.found.loss.mean(self.fitted), residual, ".", color=ACCENT, markersize=3.0, alpha=0.6, rasterized=True)
        kind = "Pearson residual" if self.found.loss.linked else "residual"
        left.set(title="residuals", xlabel=f"fitted {plain_name(self.parameters.outputs[self.output])}", ylabel=kind)
        normal = ndtri((np.arange(len(residual)) + 0.5) / len(residual))
        right.plot(normal, spread * normal, color=SOFT, linewidth=1.0)
        right.plot(normal, np.sort(residual - residual.mean()), ".", color=ACCENT, markersize=3.0)
        right.set(title="against a normal law", xlabel="normal quantile", ylabel=f"{kind}, sorted")

    def _window(self, values: Array) -> Array:
        """A grid over the middle of the values."""
        low, high = np.quantile(values, FIT_PLOTS.window)
        return np.linspace(low, high if high > low else low + 1.0, FIT_PLOTS.grid)

    @cached_property
    def important(self) -> list[int]:
        """Columns by what all units add along them, in standard units, the largest first."""
        parts = self.parameters
        strength = np.abs(parts.readout[:, self.output]) @ np.abs(parts.rows[:, :-1] * parts.spreads)
        return [int(i) for i in np.argsort(-strength, kind="stable")]


def draw_band(axes: Any, values: Array, middle: Array, reach: Array) -> None:
    """A line, and a band where its reach is known."""
    if np.isfinite(reach).all():
        axes.fill_between(values, middle - reach, middle + reach, color=ACCENT, alpha=0.2, linewidth=0.0)
    axes.plot(values, middle, color=ACCENT, linewidth=1.8)


def draw_effects(pictures: FitPictures, columns: list[int], panels: Any) -> None:
    """A panel for each column, on one scale."""
    for axes, column in zip(panels, columns, strict=True):
        pictures.draw_effect(axes, column)
    low, high = min(axes.get_ylim()[0] for axes in panels), max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(low, high)


def draw_units(pictures: FitPictures, units: list[int], panels: Any) -> None:
    """A panel for each unit."""
    for axes, j in zip(panels, units, strict=True):
        pictures.draw_unit(axes, j)


def draw_kink_pairs(pictures: FitPictures, pairs: list[tuple[int, int]], panels: Any) -> None:
    """A panel for each pair of columns."""
    for axes, (first, second) in zip(panels, pairs, strict=True):
        pictures.draw_kinks(axes, first, second)


def default_pairs(pictures: FitPictures) -> list[tuple[int, int]]:
    """Pairs of the most important columns."""
    return list(combinations(pictures.important[: FIT_PLOTS.pair_columns], 2))


def panel_grid(figure: Any, count: int, across: int | None = None) -> list[Any]:
    """As many axes in rows of three, or of `across`; what is left over of the last row stays empty."""
    across = across or min(count, DRAWING.panels_across)
    down = -(-count // across)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_axis_off()
    return list(grid[:count])


def panel_size(count: int) -> tuple[float, float]:
    """Inches of a figure with as many panels."""
    across = min(count, DRAWING.panels_across)
    return FIT_PLOTS.panel[0] * across, FIT_PLOTS.panel[1] * -(-count // across)


def pictures_of(found: Recovery, x: Any, y: Any, output: int) -> FitPictures:
    """Over the rows that are given, else over those that the recovery kept."""
    if not 0 <= output < found.network.outputs:
        raise InvalidInput(
            f"output={output}.", f"The network has {found.network.outputs}, counted from 0.", "Give one of them.")
    if x is not None:
        from laybare.numerics.checks import as_rows

        rows = as_rows(x, found.network.dim, "network")
        return FitPictures(found, rows, None if y is None else np.asarray(y, dtype=float), output)
    kept = None if found.profile is None else found.profile.rows
    if kept is None:
        raise InvalidInput(
            "The recovery has no rows of the data.",
            "It was loaded from a file, or read from a black box: pictures of a fit show rows.",
            "Give some: found.plot(kind=..., x=x, y=y).")
    return FitPictures(found, kept.x, kept.y, output)


FIT_KINDS = ("effects", "units", "kinks", "residuals")
SINGLE_KINDS = ("weights", "standard_errors", "convergence", "distances")
"""What `plot(kind=...)` draws: pictures of the fit on the data, and of the recovery itself."""

@dataclass(frozen=True, eq=False)
class RecoveryPlots:
    """`plot(kind=...)` draws one figure and returns its axes; the methods draw on axes that are given, or on new ones."""

    recovery: Recovery

    def __repr__(self) -> str:
        return f"plot(kind) draws {', '.join((*FIT_KINDS, *SINGLE_KINDS))} of the {self.recovery.headline}"

    def __call__(self, kind: str | None = None, *, x: Any = None, y: Any = None, **options: Any) -> Any:
        """One figure; its axes are returned, an array where there are several.

        Parameters
        ----------
        kind
            "effects" (of each column), "units" (each along its own direction), "kinks" (over pairs of columns), "residuals", or
            one of "weights", "standard_errors", "convergence", "distances". None: weights, their standard errors, the solver's
            steps and the kinks' distances, side by side where there are any.
        x, y
            Rows to show in the first four; by default those that the recovery kept.
        options
            `columns` (names or numbers), `units` (from 1), `pairs` (of columns), `output` (from 0), `layer`, `ax`.
        """
        if kind is None:
            return self._overview()
        check_choice("kind", kind, (*FIT_KINDS, *SINGLE_KINDS))
        if kind in SINGLE_KINDS:
            return getattr(self, kind)(**options)
        return getattr(self, f"_{kind}")(pictures_of(self.recovery, x, y, options.pop("output", 0)), **options)

    def _overview(self) -> Any:
        found, network = self.recovery, self.recovery.network
        there = {self.weights: True, self.standard_errors: network.depth == 1, self.convergence: bool(found.traces),
                 self.distances: _has_kink(network)}
        chosen = [draw for draw, wanted in there.items() if wanted]
        panels = _panels(len(chosen), (4.2 * len(chosen), 3.4), across=len(chosen))
        for draw, axes in zip(chosen, panels, strict=True):
            draw(ax=axes)
        return panels

    def _effects(self, pictures: FitPictures, columns: Sequence[str | int] | None = None) -> Any:
        chosen = list(range(self.recovery.network.dim)) if columns is None else [self._column(one) for one in columns]
        shown = chosen if columns is not None or len(chosen) <= FIT_PLOTS.shown_panels else pictures.important[
            : FIT_PLOTS.shown_panels]
        panels = _panels(len(shown))
        draw_effects(pictures, shown, panels)
        return panels

    def _units(self, pictures: FitPictures, units: Sequence[int] | None = None) -> Any:
        self._check_single_layer()
        width = self.recovery.network.width
        chosen = list(range(1, width + 1))[: FIT_PLOTS.shown_panels] if units is None else list(units)
        if not chosen or not all(1 <= unit <= width for unit in chosen):
            raise InvalidInput(f"units={chosen}.", f"The network has {width}, counted from 1.", "Give some of them.")
        panels = _panels(len(chosen))
        draw_units(pictures, [unit - 1 for unit in chosen], panels)
        return panels

    def _kinks(self, pictures: FitPictures, pairs: Sequence[tuple[str | int, str | int]] | None = None) -> Any:
        self._check_single_layer()
        if self.recovery.network.dim == 1:
            panels = _panels(1)
            pictures.draw_kinks_over_answers(panels[0])
            return panels
        chosen = default_pairs(pictures) if pairs is None else [(self._column(one), self._column(two)) for one, two in pairs]
        panels = _panels(len(chosen))
        draw_kink_pairs(pictures, chosen, panels)
        return panels

    def _residuals(self, pictures: FitPictures) -> Any:
        if pictures.y is None:
            raise InvalidInput("x without y.", "A residual is what is left of y.", "Give both.")
        panels = _panels(2)
        pictures.draw_residuals(*panels)
        return panels

    def _column(self, column: str | int) -> int:
        """The number of a column that is given by its name or its number."""
        names = RecoveredParameters(self.recovery).columns
        if isinstance(column, str) and column in names:
            return names.index(column)
        if not isinstance(column, str) and 0 <= column < len(names):
            return int(column)
        raise InvalidInput(f"There is no column {column!r}.", f"The columns are {', '.join(names[:12])}.", "Give one of them.")

    def _check_single_layer(self) -> None:
        network = self.recovery.network
        if network.depth > 1 or network.top is not None:
            raise InvalidInput(
                f"The network is {network.architecture}.", "What a unit adds to y is read off one hidden layer.",
                'Plot kind="effects" or kind="weights" instead.')

    def weights(self, *, layer: int = 1, ax: Any = None) -> Any:
        """The weights of a layer as a map, one row per unit; layers are counted from 1, the lowest."""
        layers = self.recovery.network.layers
        if not 1 <= layer <= len(layers):
            raise InvalidInput(f"layer={layer}.", f"The network has {len(layers)}, counted from 1.", "Give one of them.")
        axes = _axes(ax)
        drawings.draw_weights(axes, np.asarray(layers[layer - 1].weights), f"weights of layer {layer}")
        return axes

    def standard_errors(self, *, ax: Any = None) -> Any:
        """Standard errors of the lowest layer's weights as a map, on a logarithmic scale."""
        axes = _axes(ax)
        drawings.draw_errors(axes, self.recovery.certificate.standard_errors.weights, "standard error")
        return axes

    def convergence(self, *, ax: Any = None) -> Any:
        """Relative loss against steps of the solver."""
        if not self.recovery.traces:
            raise InvalidInput(
                "The recovery has no steps of a solver.", "It was read off lines, or is the literal form of a method.",
                "Recover from samples with a search to see one.")
        axes = _axes(ax)
        drawings.draw_steps(axes, self.recovery.traces)
        return axes

    def distances(self, *, ax: Any = None) -> Any:
        """How far from the origin the units of the lowest layer bend, for activations with a kink at 0, and by how much."""
        network = self.recovery.network
        if not _has_kink(network):
            raise InvalidInput(
                f"The network is {network.architecture} with {network.activations} units.",
                "A change of slope is read off one hidden layer whose units bend at 0.", "Plot weights(layer=...) instead.")
        axes = _axes(ax)
        drawings.draw_kinks(axes, network)
        return axes

    def residual(self, source: Any, y: Any = None, *, ax: Any = None) -> Any:
        """What the network leaves of the outputs of a source, or of pairs x, y: its first 5,000 rows."""
        data = parse_arguments(source, () if y is None else (y,)).source
        stop = min(DRAWING.residual_rows, data.size)
        data.ready(0, stop, None)
        rows = data.read(0, stop)
        fitted = self.recovery.network(rows.x).reshape(rows.y.shape)
        axes = _axes(ax)
        drawings.draw_residual(axes, fitted, rows.y - fitted)
        return axes

    def spectrum(self, source: Any, y: Any = None, *, ax: Any = None) -> Any:
        """Eigenvalues of the second Hermite moment of a source, or of pairs x, y, beside their noise: units stand out of it."""
        data = parse_arguments(source, () if y is None else (y,)).source
        moment = measure_with_noise(data.whitened(), SecondMoment(), stage="spectrum")
        axes = _axes(ax)
        drawings.draw_spectrum(axes, _eigenvalues(moment.value), float(np.abs(_eigenvalues(moment.noise)).max()))
        return axes


def _eigenvalues(moments: Any) -> Any:
    """Of the output whose moment is largest: (outputs, dim, dim) -> (dim,)."""
    return np.linalg.eigvalsh(moments[np.argmax(np.linalg.norm(moments, axis=(1, 2)))])


def _has_kink(network: Network) -> bool:
    """Whether units of the only hidden layer change their slope at once."""
    return network.depth == 1 and drawings.slope_jump(network.activation) > DRAWING.least_slope_jump


def _panels(count: int, size: tuple[float, float] | None = None, across: int | None = None) -> Any:
    """Axes of one new figure, as an array."""
    from matplotlib import pyplot

    with pyplot.rc_context(drawings.STYLE):
        figure = pyplot.figure(figsize=size or panel_size(count), layout="constrained")
        return np.array(panel_grid(figure, count, across))


def _axes(ax: Any) -> Any:
    """The axes that were given, or new ones, which a notebook shows by itself."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]

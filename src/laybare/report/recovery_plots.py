"""`found.plot`: the report's drawings as matplotlib axes, for notebooks and for figures of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.moments import SecondMoment, measure_with_noise
from laybare.numerics.checks import check_choice
from laybare.pipeline.arguments import parse_arguments
from laybare.report import drawings
from laybare.report.drawings import DRAWING
from laybare.report.fit_plots import (
    FIT_PLOTS,
    FitPictures,
    default_pairs,
    draw_effects,
    draw_kink_pairs,
    draw_units,
    panel_grid,
    panel_size,
    pictures_of,
)
from laybare.report.summary import RecoveredParameters

if TYPE_CHECKING:
    from laybare.networks import Network
    from laybare.pipeline import Recovery

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

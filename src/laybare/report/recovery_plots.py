"""`found.plot`: the report's drawings as matplotlib axes, for notebooks and for figures of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.moments import SecondMoment, measure_with_noise
from laybare.pipeline.arguments import parse_arguments
from laybare.report import drawings
from laybare.report.drawings import DRAWING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from laybare.networks import Network
    from laybare.pipeline import Recovery


@dataclass(frozen=True, eq=False)
class RecoveryPlots:
    """Each method draws on the axes it is given, or on new ones, and returns them; `plot()` draws all that needs no data."""

    recovery: Recovery

    def __call__(self) -> Figure:
        """Weights, their standard errors, the solver's steps and the kinks, side by side where there are any."""
        from matplotlib import pyplot

        found, network = self.recovery, self.recovery.network
        there = {self.weights: True, self.standard_errors: network.depth == 1, self.convergence: bool(found.traces),
                 self.kinks: _has_kink(network)}
        chosen = [draw for draw, wanted in there.items() if wanted]
        figure, grid = pyplot.subplots(1, len(chosen), figsize=(4.2 * len(chosen), 3.4), layout="constrained", squeeze=False)
        for draw, axes in zip(chosen, grid[0], strict=True):
            draw(ax=axes)
        return figure

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

    def kinks(self, *, ax: Any = None) -> Any:
        """Where the units of the lowest layer bend, for activations with a kink at 0, and by how much."""
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


def _axes(ax: Any) -> Any:
    """The axes that were given, or new ones, which a notebook shows by itself."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]

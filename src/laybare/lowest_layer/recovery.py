"""The result of `recover_layer`: a layer, its certificate, and what lies above it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from laybare.certificate import Certificate
from laybare.errors import InvalidInput
from laybare.lowest_layer.method import HighThreshold
from laybare.lowest_layer.tops import Top
from laybare.methods import Lines
from laybare.networks import Layer
from laybare.pipeline.provenance import Provenance
from laybare.shapes import Array
from laybare.source.columns import Columns


@dataclass(frozen=True, eq=False)
class LayerRecovery:
    """A recovered lowest layer.

    Attributes
    ----------
    layer : Layer
        On the inputs as they were given; rows of step and ReLU units have length 1, thresholds are -biases.
    certificate : Certificate
        Its standard errors are those of the weights and biases; there is no readout.
    top : Top or None
        The function above the layer, fitted to its features, with its held-out R².
    method : HighThreshold or Lines
    seconds : float
    samples_used : int
        Rows that were read, or queries that were asked.
    queries : dict
        What the queries of an Oracle were spent on; empty for samples.
    provenance : Provenance, optional
        Version, call, seed, fingerprint of the data and names of their columns.
    """

    layer: Layer
    certificate: Certificate
    top: Top | None
    method: HighThreshold | Lines
    seconds: float
    samples_used: int
    queries: dict[str, int] = field(default_factory=dict)
    provenance: Provenance | None = None

    @property
    def columns(self) -> Columns:
        """Names of inputs and outputs, where the data had any."""
        return Columns() if self.provenance is None else self.provenance.columns

    @property
    def thresholds(self) -> Array:
        """t of the units u(w·x - t), (width,)."""
        return -np.asarray(self.layer.biases)

    @property
    def literal(self) -> bool:
        """Whether this is what the paper's own algorithm gives, without a fit after it."""
        return isinstance(self.method, HighThreshold) and self.method.printed is not None

    @property
    def by(self) -> str:
        """The method's name, as summaries have it."""
        return type(self.method).__name__ + ", literal," * self.literal

    def __call__(self, x: Array) -> Array:
        """Outputs predicted at the rows of x, by way of the layer and the top."""
        if self.top is None:
            raise InvalidInput(
                "No top was fitted.", "The layer alone does not give outputs.", "Use HighThreshold(top=MonomialTop()).")
        return self.top(self.layer(np.asarray(x, dtype=float)))

    def __str__(self) -> str:
        top = "" if self.top is None else f"; held-out R² of the top {self.top.r2:.4f}"
        return (
            f"layer of {self.layer.width} {self.layer.activation.name} units in dimension {self.layer.dim}, by "
            f"{self.by} from {self.samples_used:,} samples in {self.seconds:.1f} s{top}\n"
            f"{self.certificate.explain()}")

    def report(self, path: str) -> None:
        """Write a self-contained HTML page."""
        from laybare.report import write_layer_report

        write_layer_report(self, path)

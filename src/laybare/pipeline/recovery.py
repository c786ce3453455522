"""What comes back: a network with its certificate, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

from laybare.certificate import Certificate
from laybare.damping import Trace
from laybare.methods import Lines, Method
from laybare.networks import Network
from laybare.pipeline.provenance import Provenance
from laybare.shapes import Array
from laybare.source.columns import Columns

if TYPE_CHECKING:
    from laybare.report.plotting import RecoveryPlots


@dataclass(frozen=True)
class Recovery:
    """A recovered network with its certificate.

    Attributes
    ----------
    network : Network
        In canonical form, on the inputs as they were given.
    start : Network
        Where the method said that units may be, before the solver saw it.
    certificate : Certificate
    method : Method
    seconds : float
    samples_used : int
        Rows that were read, those of the certificate among them.
    traces : tuple of Trace
        The solver's steps, from the start to the end; none for a literal form.
    queries : dict
        What queries to a black box were spent on; empty for samples.
    by : str
        How it was found, in words, for a recovery that was loaded: its method is not stored.
    provenance : Provenance, optional
        Version, call, seed, fingerprint of the data and names of their columns.
    """

    network: Network
    start: Network
    certificate: Certificate
    method: Method | Lines | None
    seconds: float
    samples_used: int
    traces: tuple[Trace, ...]
    queries: dict[str, int] = field(default_factory=dict)
    by: str = ""
    provenance: Provenance | None = None

    @property
    def columns(self) -> Columns:
        """Names of inputs and outputs, where the data had any."""
        return Columns() if self.provenance is None else self.provenance.columns

    def __call__(self, x: Array) -> Array:
        """Outputs of the recovered network at the rows of x."""
        return self.network(x)

    @property
    def literal(self) -> bool:
        """Whether this is what a paper's own algorithm gives, without the solver."""
        return isinstance(self.method, Method) and self.method.search is None

    @property
    def found_by(self) -> str:
        """The method in words."""
        if self.by or self.method is None:
            return self.by or "refine"
        return type(self.method).__name__ + ", literal," * self.literal

    def __str__(self) -> str:
        net = self.network
        return (
            f"{net.architecture} network of {net.activations} units, by {self.found_by} "
            f"from {self.samples_used:,} {'queries' if self.queries else 'samples'} in {self.seconds:.1f} s\n"
            f"{self.certificate.explain()}")

    def save(self, path: str | PathLike[str]) -> None:
        """Write network, start, certificate and solver's steps to one safetensors file; `lb.load(path)` reads it back."""
        from laybare.pipeline.saved import save

        save(self, path)

    @property
    def plot(self) -> RecoveryPlots:
        """Drawings as matplotlib axes: plot.weights(), plot.convergence(), plot.residual(x, y), …; plot() for several at once."""
        from laybare.report.plotting import RecoveryPlots

        return RecoveryPlots(self)

    def _repr_html_(self) -> str:
        from laybare.report.notebook import recovery_html

        return recovery_html(self)

    def report(self, path: str) -> None:
        """Write a self-contained HTML page."""
        from laybare.report import write_report

        write_report(self, path)

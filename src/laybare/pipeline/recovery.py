"""What comes back: a network with its certificate, how it was found, from what data."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from laybare.certificate import Certificate
from laybare.certificate.certificate import break_lines
from laybare.certificate.data_profile import DataProfile, Prediction, predict_rows
from laybare.errors import InvalidInput
from laybare.methods import Method
from laybare.methods.lines import Lines
from laybare.networks import Network
from laybare.numerics.checks import as_rows, check_number
from laybare.numerics.shapes import Array
from laybare.solver import Trace
from laybare.source.losses import Loss
from laybare.source.provenance import Provenance
from laybare.source.samples import ColumnNames, column_names

if TYPE_CHECKING:
    from laybare.report.plots import RecoveryPlots
    from laybare.report.summary import Summary


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
    profile : DataProfile, optional
        What is kept of the samples: spread of the columns, rows beyond each kink, residuals of fresh rows; None for black boxes.
    loss : Loss
        What was minimised; the network answers log means of counts and log odds of labels.
    """

    network: Network
    start: Network
    certificate: Certificate
    method: Method | None
    seconds: float
    samples_used: int
    traces: tuple[Trace, ...]
    queries: dict[str, int] = field(default_factory=dict)
    by: str = ""
    provenance: Provenance | None = None
    profile: DataProfile | None = None
    loss: Loss = Loss()

    @property
    def columns(self) -> ColumnNames:
        """Names of inputs and outputs, where the data had any."""
        return ColumnNames() if self.provenance is None else self.provenance.columns

    def __call__(self, x: Array) -> Array:
        """Outputs of the recovered network at the rows of x."""
        return self.network(x)

    @property
    def literal(self) -> bool:
        """Whether this is what a paper's own algorithm gives, without the solver."""
        return self.method is not None and self.method.search is None and not isinstance(self.method, Lines)

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped it (Ctrl-C) before its certificate was finished."""
        return not self.certificate.findings.finished

    @property
    def found_by(self) -> str:
        """The method in words."""
        if self.by or self.method is None:
            return self.by or "refine"
        return type(self.method).__name__ + ", literal," * self.literal

    @property
    def reading_queries(self) -> int:
        """Queries without those of the assurance and those that were asked again, which only check the result."""
        return sum(self.queries.values()) - self.queries.get("assurance", 0) - self.queries.get("asked again", 0)

    @property
    def headline(self) -> str:
        """What was found, how, from what, in one line."""
        net, kind = self.network, "queries" if self.queries else "samples"
        what = f"{net.architecture} network of {net.activations} units"
        if net.top is None and net.linear is None and not np.any(net.readout):
            what = (
                f"{net.width} hyperplanes on which {net.activations} units bend; what reads these is not known"
                if net.depth == 1 else
                f"{net.depth} layers of {'-'.join(map(str, net.widths))} {net.activations} units; what reads these is not known")
        return (
            f"{what}, by {self.found_by} "
            f"from {self.samples_used:,} {kind} in {self.seconds:.1f} s")

    def __str__(self) -> str:
        return break_lines(self.explain(failed_only=True))

    def explain(self, *, failed_only: bool = False) -> str:
        """The headline and what the certificate says, a line each; with `failed_only` checks that hold are counted."""
        return f"{self.headline}\n{self.certificate.explain(failed_only=failed_only)}"

    def __repr__(self) -> str:
        return f"{self.headline}\n{self.certificate!r}"

    def save(self, path: str | PathLike[str]) -> None:
        """Write network, start, certificate and solver's steps to one safetensors file; `lb.load(path)` reads it back."""
        from laybare.export.recovery_files import save

        save(self, path)

    def predict(self, x: ArrayLike, interval: float = 0.95) -> Prediction:
        """Means of y at the rows of x, with intervals of the mean (delta method) and of new answers (conformal, fresh rows)."""
        level = check_number("interval", interval, most=1.0 - 1e-9, above=0)
        known, given = self.columns.inputs, column_names(x, None).inputs
        if len(known) == len(given) and known != given:
            raise InvalidInput(
                f"Its columns are {', '.join(given)}.", f"The network was fitted to {', '.join(known)}, in this order.",
                "Give the columns of the fit, or an array without names.")
        return predict_rows(self, as_rows(x, self.network.dim, "network"), level)

    def summary(self) -> Summary:
        """Where every unit bends, in the columns and units of the data, and what it adds, with standard errors."""
        from laybare.report.summary import summarise

        return summarise(self)

    @property
    def plot(self) -> RecoveryPlots:
        """Drawings as matplotlib axes: plot.weights(), plot.convergence(), plot.residual(x, y), …; plot() for several at once."""
        from laybare.report.plots import RecoveryPlots

        return RecoveryPlots(self)

    def _repr_html_(self) -> str:
        from laybare.report.notebook import recovery_html

        return recovery_html(self)

    def report(self, path: str) -> None:
        """Write a self-contained HTML page."""
        from laybare.report import write_report

        write_report(self, path)

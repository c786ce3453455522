"""Where samples come from: arrays, files, a black box. Every pass over them is `source.sum(statistic)`."""

from __future__ import annotations

from laybare.source.affine import Affine
from laybare.source.bounds import Box, Uniform
from laybare.source.cluster import DaskEngine
from laybare.source.dask_samples import DaskSamples
from laybare.source.files import open_samples
from laybare.source.joined import Joined
from laybare.source.laws import Gaussian, Symmetric, Unknown, as_law
from laybare.source.mixed import Mixed
from laybare.source.oracle import Oracle
from laybare.source.pairs import Parity, paired_inputs, split_parity
from laybare.source.projected import Projected
from laybare.source.protocol import Law, Parts, Rows, Source, Whitened
from laybare.source.relabelled import Relabelled
from laybare.source.rounding import Rounding, calibrated, measure_rounding, representation, residual_level
from laybare.source.samples import Samples
from laybare.source.simulation import Simulation
from laybare.source.sums import GRAIN, Schedule, add_up, block_rows
from laybare.source.targets import Endpoint, Target, as_target

__all__ = [
    "GRAIN", "Affine", "Box", "DaskEngine", "DaskSamples", "Endpoint", "Gaussian", "Joined", "Law", "Mixed", "Oracle", "Parity",
    "Parts", "Projected", "Relabelled", "Rounding", "Rows", "Samples", "Schedule", "Simulation", "Source", "Symmetric", "Target",
    "Uniform", "Unknown", "Whitened",
    "add_up", "as_law", "as_target", "block_rows", "calibrated", "measure_rounding", "open_samples", "paired_inputs",
    "representation", "residual_level", "split_parity",
]

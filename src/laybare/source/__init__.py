"""Where samples come from: arrays, files, clusters, black boxes. Every pass over them is `source.sum(statistic)`."""

from __future__ import annotations

from laybare.source.dask_engine import DaskEngine, DaskSamples
from laybare.source.derived import JoinedSource, MixedOutputs, ProjectedInputs, RelabelledOutputs
from laybare.source.laws import Box, Gaussian, Symmetric, Uniform, Unknown, as_law
from laybare.source.oracle.endpoint import Endpoint
from laybare.source.oracle.oracle import Oracle, Parity, paired_inputs, split_parity
from laybare.source.oracle.targets import Target, as_target
from laybare.source.protocol import Affine, Law, Rows, Source, SplitSources, WhitenedSource
from laybare.source.rounding import Rounding, calibrate_rounding, detect_grid, measure_rounding, residual_sd
from laybare.source.sample_files import open_samples
from laybare.source.samples import Samples
from laybare.source.simulation import Simulation
from laybare.source.sums import GRAIN, Schedule, block_rows, sum_blocks

__all__ = [
    "GRAIN", "Affine", "Box", "DaskEngine", "DaskSamples", "Endpoint", "Gaussian", "JoinedSource", "Law", "MixedOutputs",
    "Oracle", "Parity", "ProjectedInputs", "RelabelledOutputs", "Rounding", "Rows", "Samples", "Schedule", "Simulation",
    "Source", "SplitSources", "Symmetric", "Target", "Uniform", "Unknown", "WhitenedSource", "as_law", "as_target",
    "block_rows", "calibrate_rounding", "detect_grid", "measure_rounding", "open_samples", "paired_inputs", "residual_sd",
    "split_parity", "sum_blocks",
]

"""A black box that is asked at chosen points: read along lines, or handed to the loop on samples with the reason."""

from __future__ import annotations

import time

import numpy as np
from numpy.random import Generator

from laybare.blas import single_blas_thread
from laybare.methods.lines.claims import lines_certificate
from laybare.methods.lines.method import Lines
from laybare.pipeline.recovery import Recovery
from laybare.shapes import Progress
from laybare.source import Oracle


def recover_by_lines(
    oracle: Oracle, method: Lines, *, rng: Generator | int = 0, progress: Progress | None = None
) -> Recovery:
    """The network behind a black box, its certificate, and what the queries were spent on."""
    begun, rng, before = time.perf_counter(), np.random.default_rng(rng), oracle.spent
    with single_blas_thread():
        found = method.read(oracle, rng=rng, progress=progress)
        network = found.network.canonical()
        certificate = lines_certificate(found, network)
    return Recovery(
        network, found.network, certificate, method, time.perf_counter() - begun, oracle.spent - before, (), dict(oracle.queries))

"""Numbers of every size, type and shape: nothing ends in a traceback, nothing hangs.

Every seed draws inputs and outputs with scales from 1e-300 to 1e300 (for all, for columns, for single numbers), types from bool
to longdouble, strides, shapes that may not fit, copies, constants, NaN and infinities, a method and what it is told. A case ends
with a verdict or with a sentence; anything else is counted, and named. No search may take longer than `SECONDS`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, gelu, relu, sigmoid, softplus, tanh
from laybare.errors import LaybareError
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.shapes import Array
from laybare.source import Samples
from laybare.studies.study import Settings, Study, StudyResult, headings

SECONDS = 5.0
TYPES = (np.float64, np.float32, np.float16, np.longdouble, np.int64, np.int8, np.uint8, np.bool_)
METHODS: tuple[type[Any], ...] = (RandomStart, RandomStart, GeneralReLU, TensorInit, LandscapeDesign, SymmetricInputs)


class FuzzGrid(NamedTuple):
    """Nothing to choose: a seed is a case."""

    largest: int


class FuzzRun(NamedTuple):
    """How a case ended: a verdict, "refused", or the name and text of what went wrong; seconds."""

    end: str
    wrong: str
    seconds: float


class FuzzRow(NamedTuple):
    """A row of the table."""

    end: str
    cases: int
    longest_s: float


def run_once(seed: int, largest: int = 150) -> FuzzRun:
    """Draw a case and run it; warnings count as wrong, an interrupt is passed on."""
    rng, begun = np.random.default_rng([seed, 300]), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x, y = _case(rng, int(rng.integers(2, largest)))
            width = None if rng.random() < 0.5 else int(rng.integers(1, 5))
            found = recover(Samples(x, y), _method(rng), width, rng=seed, seconds=SECONDS)
            end, wrong = found.certificate.verdict, ""
            found.certificate.explain()
    except LaybareError:
        end, wrong = "refused", ""
    except Exception as error:  # the study is about what this may be
        end, wrong = "traceback", f"seed {seed}: {type(error).__name__}: {error}"
    return FuzzRun(end, wrong, time.perf_counter() - begun)


def _case(rng: Generator, n: int) -> tuple[Array, Array]:
    dim, outputs = int(rng.integers(1, 7)), int(rng.choice([1, 1, 3]))
    x = rng.standard_normal((n, dim))
    y = np.asarray(random_network(dim, int(rng.integers(1, 4)), outputs=outputs, rng=rng)(x))
    y = y + float(rng.choice([0.0, 0.1, 1.0])) * rng.standard_normal(y.shape)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = _spoilt(_scaled(x, rng), rng), _spoilt(_scaled(y, rng), rng)
        x, y = (_typed(part, rng) for part in (x, y))
    if rng.random() < 0.1:
        y = y[: n - int(rng.integers(0, 2))]
    return x, y


def _scaled(part: Array, rng: Generator) -> Array:
    """All numbers, columns, or none of them by a power of ten from -300 to 300; shifted far away at times."""
    kind = int(rng.integers(4))
    power = rng.uniform(-300, 300, size=part.shape[-1] if kind == 1 and part.ndim == 2 else None) if kind < 2 else 0.0
    return np.asarray(part * 10.0**power + (10.0 ** rng.uniform(0, 20) if kind == 3 else 0.0))


def _spoilt(part: Array, rng: Generator) -> Array:
    """Constants, copies, single numbers of any size, NaN and infinities, each now and then."""
    part, kind = part.copy(), int(rng.integers(12))
    row = int(rng.integers(len(part)))
    if kind == 0:
        part[:] = part[0]
    elif kind == 1:
        part[:] = part[rng.integers(max(1, len(part) // 5), size=len(part))]
    elif kind == 2:
        part[row] = rng.choice([np.nan, np.inf, -np.inf])
    elif kind == 3:
        part[row] *= 10.0 ** rng.uniform(-300, 300)
    elif kind == 4:
        part[rng.random(len(part)) < 0.7] = 0.0
    return part


def _typed(part: Array, rng: Generator) -> Array:
    """In another type, in another order in memory, backwards."""
    if rng.random() < 0.4:
        part = part.astype(TYPES[rng.integers(len(TYPES))])
    kind = int(rng.integers(4))
    if kind == 0:
        return np.asfortranarray(part)
    if kind == 1:
        return np.repeat(part, 2, axis=0)[::2]
    return part[::-1][::-1] if kind == 2 else part


def _method(rng: Generator) -> Method | None:
    if rng.random() < 0.2:
        return None
    kinds: tuple[Activation, ...] = (relu, relu, tanh, softplus, gelu, sigmoid)
    method: Method = METHODS[rng.integers(len(METHODS))](activation=kinds[rng.integers(len(kinds))])
    return method


def measure(settings: Settings[FuzzGrid]) -> list[FuzzRun]:
    """One case for every seed."""
    runs = []
    for done, seed in enumerate(settings.seeds, 1):
        runs.append(run_once(seed, settings.grid.largest))
        settings.tick("cases", done, len(settings.seeds), runs[-1].end)
    return runs


def summary(grid: FuzzGrid, runs: list[FuzzRun]) -> StudyResult:
    """How cases ended, and everything that went wrong."""
    names = sorted({run.end for run in runs})
    ends: Mapping[str, list[FuzzRun]] = {end: [run for run in runs if run.end == end] for end in names}
    rows = [FuzzRow(end, len(each), max(run.seconds for run in each)) for end, each in ends.items()]
    wrong = [run.wrong for run in runs if run.wrong]
    return StudyResult(
        headings(FuzzRow), rows, f"{len(wrong)} of {len(runs)} cases ended in a traceback, the longest took "
        f"{max(run.seconds for run in runs):.1f} s." + "".join(f"\n{text}" for text in wrong))


FUZZ = Study(
    "fuzz", "Inputs and outputs of every size, type and shape: verdicts, sentences, tracebacks",
    "No traceback, no hang.", FuzzGrid(150), FuzzGrid(1500), measure, summary)

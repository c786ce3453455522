"""`recover(source)` without advice: does it find the network by itself, and does anything end in a traceback?"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, gelu, relu, sigmoid, softplus, tanh
from laybare.certificate import ClaimName
from laybare.errors import LaybareError
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.networks import Network, compare, max_angle
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery, recover
from laybare.planted import PlantedTarget, cube_inputs, laplace_inputs, polynomial_top, random_network, threshold_layer
from laybare.source import Samples
from laybare.studies import columns as col
from laybare.studies.certificates import upper_bound
from laybare.studies.study import SUCCESS, Study, StudyMeasurement, table


class ChoiceCase(NamedTuple):
    """Samples, and what is behind them: a network, or a layer under another function."""

    x: Array
    y: Array
    truth: Network | PlantedTarget
    noise: float


class ChoiceRun(NamedTuple):
    """Whether the truth was found, by which method, with which verdict, in how many seconds."""

    found: bool
    method: str
    verdict: str
    seconds: float


def _sampled(truth: Network, x: Array, rng: Generator) -> ChoiceCase:
    """Without noise, or with a hundredth of the spread of y."""
    noise, y = float(rng.choice((0.0, 0.01))), truth(x)
    return ChoiceCase(x, y + noise * y.std(axis=0) * rng.standard_normal(y.shape), truth, noise)


def bias_free(rng: Generator, readout: str = "signs") -> ChoiceCase:
    """Gaussian inputs, units without biases, any signs: Zhong et al."""
    dim = int(rng.integers(4, 12))
    width = int(rng.integers(2, min(dim, 6)))
    truth = random_network(dim, width, biases=0.0, condition=2.0, readout=readout, rng=rng)  # type: ignore[arg-type]
    return _sampled(truth, rng.standard_normal((20 * width * (dim + 2), dim)), rng)


def positive(rng: Generator) -> ChoiceCase:
    """The same with positive readouts: Ge, Lee and Ma."""
    return bias_free(rng, "positive")


def symmetric(rng: Generator) -> ChoiceCase:
    """Inputs of a symmetric law, as many outputs as units at least, no biases: Ge et al."""
    dim = int(rng.integers(3, 9))
    width = int(rng.integers(2, dim + 1))
    truth = random_network(dim, width, outputs=width + int(rng.integers(3)), biases=0.0, condition=2.0, rng=rng)
    rows = 12 * width * (dim + 2)
    draw = (cube_inputs, laplace_inputs)[rng.integers(2)]
    return _sampled(truth, draw(rows, dim, rng=rng), rng)


def general(rng: Generator) -> ChoiceCase:
    """Biases, Gaussian inputs, any width: Awasthi et al."""
    dim, width = int(rng.integers(3, 9)), int(rng.integers(2, 7))
    truth = random_network(dim, width, biases=0.7, readout="random", rng=rng)
    return _sampled(truth, rng.standard_normal((25 * width * (dim + 2), dim)), rng)


def rare(rng: Generator) -> ChoiceCase:
    """Units that are rarely active under a cubic top: Goel and Panigrahy."""
    layer = threshold_layer(4, 3, relu, 1.5, rng=rng)
    truth = PlantedTarget(layer, polynomial_top(3, 3, mixed=True, rng=rng))
    x = rng.standard_normal((4000, 4))
    return ChoiceCase(x, np.asarray(truth(x)), truth, 0.0)


SETTINGS: dict[str, Callable[[Generator], ChoiceCase]] = {
    "bias-free": bias_free, "positive readouts": positive, "symmetric inputs": symmetric, "biases": general, "rare units": rare}


def choose_once(setting: str, seed: int, limit: float = 15.0) -> ChoiceRun:
    """Draw a case, recover it without advice within `limit` seconds, compare. The limit matters for rare units alone."""
    case = SETTINGS[setting](np.random.default_rng([seed, len(setting)]))
    source, begun = Samples(case.x, case.y), time.perf_counter()
    try:
        found = recover(source, rng=seed, seconds=limit)
    except LaybareError as refusal:
        return ChoiceRun(False, type(refusal).__name__, "refused", time.perf_counter() - begun)
    if isinstance(case.truth, PlantedTarget):
        return _layer_run(case.truth, source, found, seed, begun)
    return ChoiceRun(_is_truth(found, case), found.found_by, found.certificate.verdict, time.perf_counter() - begun)


def _is_truth(found: Recovery, case: ChoiceCase) -> bool:
    """Errors of parameters are at most ten times noise over spread of y, and 1e-6 without noise."""
    assert isinstance(case.truth, Network)
    same = found.network.width == case.truth.width and found.network.activation == case.truth.activation
    return same and compare(found.network, case.truth).max_error <= max(1e-6, 10.0 * case.noise)


def _layer_run(truth: PlantedTarget, source: Samples, found: Recovery, seed: int, begun: float) -> ChoiceRun:
    """Follow the advice of a refutation, if that is what it was."""
    tried = (claim for claim in found.certificate.checks if claim.name == ClaimName.METHODS_TRIED)
    named = any("recover_layer" in claim.explanation for claim in tried)
    if found.certificate.verdict != "refuted" or not named:
        return ChoiceRun(False, found.found_by, found.certificate.verdict, time.perf_counter() - begun)
    layer = recover_layer(source, HighThreshold(), rng=seed)
    near = layer.layer.width == truth.layer.width and max_angle(layer.layer.weights, truth.layer.weights) < SUCCESS.near_angle
    return ChoiceRun(near, "HighThreshold", layer.certificate.verdict, time.perf_counter() - begun)


def _methods(setting: str, runs: Sequence[ChoiceRun]) -> str:
    names = [run.method for run in runs]
    return ", ".join(f"{name} {names.count(name)}" for name in sorted(set(names)))


def _choice_sentence(m: StudyMeasurement) -> str:
    runs, found, wrong = (sum(col.values(m.rows, name)) for name in ("runs", "found", "verified_but_wrong"))
    return (
        f"Found without advice: {found} of {runs} ({found / runs:.1%}; misses at most "
        f"{upper_bound(runs - found, runs):.1%} with 95 % confidence). Verified but wrong: {wrong}.")


CHOOSE = Study(
    "choose", "recover(source) with nothing given, on well-posed cases from the settings of five papers",
    "At least 95 % are found.", quick=tuple(SETTINGS), full=tuple(SETTINGS), run_cell=choose_once, in_turns=True,
    table=table(
        setting=col.itself, runs=col.count, found=col.total("found"), verified=col.total(lambda run: run.verdict == "verified"),
        verified_but_wrong=col.total(lambda run: run.verdict == "verified" and not run.found), methods=_methods,
        median_s=col.median("seconds")),
    sentence=_choice_sentence)
"""Does `recover(source)` find the network by itself? Cases drawn from the settings of all five papers, each well posed in its
own: Gaussian inputs without biases (Zhong et al.), positive readouts (Ge, Lee and Ma), symmetric inputs and several outputs (Ge
et al.), biases and more units (Awasthi et al.), and units that are rarely active under a further layer (Goel and Panigrahy).
Width, activation and method are not given. In the last setting no network of one hidden layer is behind the data: there `recover`
must be refuted and name `recover_layer`, which then finds the layer. The grid is of settings."""


class FuzzRun(NamedTuple):
    """How a case ended: a verdict, "refused", or the name and text of what went wrong; seconds."""

    end: str
    wrong: str
    seconds: float


def fuzz_once(largest: int, seed: int, limit: float = 5.0) -> FuzzRun:
    """Draw a case of up to `largest` rows and run it for `limit` seconds; warnings count as wrong, an interrupt is passed on."""
    rng, begun = np.random.default_rng([seed, 300]), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x, y = draw_case(rng, int(rng.integers(2, largest)))
            width = None if rng.random() < 0.5 else int(rng.integers(1, 5))
            found = recover(Samples(x, y), _draw_method(rng), width, rng=seed, seconds=limit)
            end, wrong = found.certificate.verdict, ""
            found.certificate.explain()
    except LaybareError:
        end, wrong = "refused", ""
    except Exception as error:  # the study is about what this may be
        end, wrong = "traceback", f"seed {seed}: {type(error).__name__}: {error}"
    return FuzzRun(end, wrong, time.perf_counter() - begun)


def draw_case(rng: Generator, n: int) -> tuple[Array, Array]:
    """Inputs and outputs of a random network, scaled, spoilt and in another type."""
    dim, outputs = int(rng.integers(1, 7)), int(rng.choice([1, 1, 3]))
    x = rng.standard_normal((n, dim))
    y = np.asarray(random_network(dim, int(rng.integers(1, 4)), outputs=outputs, rng=rng)(x))
    y = y + float(rng.choice([0.0, 0.1, 1.0])) * rng.standard_normal(y.shape)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = _spoil(_scale(x, rng), rng), _spoil(_scale(y, rng), rng)
        x, y = (_convert(part, rng) for part in (x, y))
    if rng.random() < 0.1:
        y = y[: n - int(rng.integers(0, 2))]
    return x, y


def _scale(part: Array, rng: Generator) -> Array:
    """All numbers, columns, or none of them by a power of ten from -300 to 300; shifted far away at times."""
    kind = int(rng.integers(4))
    power = rng.uniform(-300, 300, size=part.shape[-1] if kind == 1 and part.ndim == 2 else None) if kind < 2 else 0.0
    return np.asarray(part * 10.0**power + (10.0 ** rng.uniform(0, 20) if kind == 3 else 0.0))


def _spoil(part: Array, rng: Generator) -> Array:
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


def _convert(part: Array, rng: Generator) -> Array:
    """In another type, in another order in memory, backwards."""
    types = (np.float64, np.float32, np.float16, np.longdouble, np.int64, np.int8, np.uint8, np.bool_)
    if rng.random() < 0.4:
        part = part.astype(types[rng.integers(len(types))])
    kind = int(rng.integers(4))
    if kind == 0:
        return np.asfortranarray(part)
    if kind == 1:
        return np.repeat(part, 2, axis=0)[::2]
    return part[::-1][::-1] if kind == 2 else part


def _draw_method(rng: Generator) -> Method | None:
    if rng.random() < 0.2:
        return None
    methods: tuple[type[Any], ...] = (RandomStart, RandomStart, GeneralReLU, TensorInit, LandscapeDesign, SymmetricInputs)
    activations: tuple[Activation, ...] = (relu, relu, tanh, softplus, gelu, sigmoid)
    method: Method = methods[rng.integers(len(methods))](activation=activations[rng.integers(len(activations))])
    return method


def by_end(grid: int, runs: Mapping[int, list[FuzzRun]]) -> dict[str, list[FuzzRun]]:
    """The runs by how they ended."""
    return col.group_rows(sorted((run for each in runs.values() for run in each), key=lambda run: run.end), "end")


def _fuzz_sentence(m: StudyMeasurement) -> str:
    runs = m.all_runs
    wrong = [run.wrong for run in runs if run.wrong]
    return (
        f"{len(wrong)} of {len(runs)} cases ended in a traceback, the longest took {max(run.seconds for run in runs):.1f} s."
        + "".join(f"\n{text}" for text in wrong))


FUZZ = Study(
    "fuzz", "Inputs and outputs of every size, type and shape: verdicts, sentences, tracebacks",
    "No traceback, no hang.", quick=150, full=1500, cells=lambda largest: (largest,), run_cell=fuzz_once, group=by_end,
    table=table(end=col.itself, cases=col.count, longest_s=col.reduced(max, "seconds")), sentence=_fuzz_sentence)
"""Numbers of every size, type and shape: nothing ends in a traceback, nothing hangs. Every seed draws inputs and outputs with
scales from 1e-300 to 1e300 (for all, for columns, for single numbers), types from bool to longdouble, strides, shapes that may
not fit, copies, constants, NaN and infinities, a method and what it is given. A case ends with a verdict or with a sentence;
anything else is counted, and named. No search may take longer than five seconds. The grid is the largest number of rows."""

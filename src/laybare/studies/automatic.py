"""`recover(source)` without advice: does it find the network by itself, and does anything end in a traceback? And the five papers
side by side: each one's own algorithm as printed, the default that grew from it, and random starts.

Settings of the latter are those of the papers' experiments, without noise. Zhong et al. (2017), Figure 1(c): squared ReLU, d =
10, five units, condition 2, 10,000 samples, descent with steps of 0.02. Ge, Lee and Ma (2018), Figure 4: B* orthonormal, a* = 1,
as many units as inputs, but 10 for 50, with 50,000 samples in all (the paper draws 262,144 in every step, 80,000 times); and 5
units with one such batch. Ge et al. (2019), Figure 2: orthonormal layers of 10 units and 10 outputs, 10,000 samples. Awasthi et
al. (2021) and Goel and Panigrahy (2019) have no experiments, so get small problems of what their theorems are about: biases up to
0.7, and ReLU units at t = 2 under a polynomial. The error of a run is the largest angle of a true unit to the nearest one found,
up to sign; a refusal is a right angle.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, gelu, power_relu, relu, sigmoid, softplus, tanh
from laybare.certificate import ClaimName
from laybare.errors import LaybareError
from laybare.landscape.first_order import Descent
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.lowest_layer.layer_start import Directions
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.methods.start import required_network
from laybare.networks import Layer, Network, compare, max_angle
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery, recover
from laybare.planted import (
    PlantedTarget,
    cube_inputs,
    laplace_inputs,
    orthonormal_weights,
    polynomial_top,
    random_network,
    random_unit_rows,
    threshold_layer,
)
from laybare.source import Gaussian, Law, Samples, Source, Symmetric
from laybare.studies import columns as col
from laybare.studies.certificates import upper_bound
from laybare.studies.study import SUCCESS, Study, StudyMeasurement, table, timed


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


CHOICE_SETTINGS: dict[str, Callable[[Generator], ChoiceCase]] = {
    "bias-free": bias_free, "positive readouts": positive, "symmetric inputs": symmetric, "biases": general, "rare units": rare}


def choose_once(setting: str, seed: int, limit: float = 15.0) -> ChoiceRun:
    """Draw a case, recover it without advice within `limit` seconds, compare. The limit matters for rare units alone."""
    case = CHOICE_SETTINGS[setting](np.random.default_rng([seed, len(setting)]))
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
    """Follow the advice of a network that is refuted, or that time left open."""
    tried = (claim for claim in found.certificate.checks if claim.name == ClaimName.METHODS_TRIED)
    named = any("recover_layer" in claim.explanation for claim in tried)
    if found.certificate.verdict == "verified" or not named:
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
    "At least 95 % are found.", quick=tuple(CHOICE_SETTINGS), full=tuple(CHOICE_SETTINGS), run_cell=choose_once, in_turns=True,
    table=table(
        setting=col.itself, runs=col.count, found=col.total("found"), verified=col.total(lambda run: run.verdict == "verified"),
        verified_but_wrong=col.total(lambda run: run.verdict == "verified" and not run.found), methods=_methods,
        median_s=col.median("seconds")),
    sentence=_choice_sentence)
"""Does `recover(source)` find the network by itself? Cases drawn from the settings of all five papers, each well posed in its
own: Gaussian inputs without biases (Zhong et al.), positive readouts (Ge, Lee and Ma), symmetric inputs and several outputs (Ge
et al.), biases and more units (Awasthi et al.), and units that are rarely active under a further layer (Goel and Panigrahy).
Width, activation and method are not given. In the last setting no network of one hidden layer is behind the data: there `recover`
must be refuted, or ended by time, and name `recover_layer`, which then finds the layer. The grid is of settings."""


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


LITERAL, DEFAULT, CONTROL = "literal", "default", "control"
RELU2 = power_relu(2)
EXACT, NEAR = 1e-6, 0.3
"""Angles (rad) of an exact recovery and of one that a fit can go on from. Convention: square roots of rounding, a sixth of π."""


class PaperTarget(NamedTuple):
    """True rows (k, d), and the function."""

    weights: Array
    function: Callable[[Array], Array]


Arm = Callable[[Samples, int, Generator], Array]
"""(source, width) -> rows found."""


class PaperSetting(NamedTuple):
    """A problem of a paper: what it is in words, how it is drawn, samples, the law, and the arms."""

    problem: str
    draw: Callable[[Generator], PaperTarget]
    samples: int
    law: Law
    arms: dict[str, Arm]

    def with_arm(self, name: str, method: Any) -> PaperSetting:
        """The same with one more method, of a whole network or of its lowest layer."""
        arm = by_layer(method) if isinstance(method, HighThreshold) else by_method(method)
        return self._replace(arms={**self.arms, name: arm})


def as_printed(method: Method) -> Arm:
    """A literal form on the samples as they are."""
    return lambda source, width, rng: np.asarray(required_network(method.start(source, width, rng=rng)).layer.weights)


def by_method(method: Method) -> Arm:
    """The whole pipeline."""
    return lambda source, width, rng: np.asarray(recover(source, method, width, rng=rng).network.layer.weights)


def by_layer(method: HighThreshold) -> Arm:
    """The lowest layer alone."""
    return lambda source, width, rng: np.asarray(recover_layer(source, method, width, rng=rng).layer.weights)


def random_directions(source: Source, width: int, *, rng: Generator) -> Directions:
    """The control's start of a layer."""
    return Directions(random_unit_rows(source.dim, width, rng=rng), np.ones(width), np.ones(width))


def _of_network(network: Network) -> PaperTarget:
    return PaperTarget(np.asarray(network.layer.weights), network)


def _of_rows(rows: Array, readout: Array) -> PaperTarget:
    return _of_network(Network(Layer(rows, None, relu), readout))


def _thresholds(rng: Generator) -> PaperTarget:
    layer = threshold_layer(5, 2, relu, 2.0, condition=3.0, rng=rng)
    return PaperTarget(np.asarray(layer.weights), PlantedTarget(layer, polynomial_top(2, 2, rng=rng)))


def _arms(literal: Arm, default: Arm, control: Arm) -> dict[str, Arm]:
    return {LITERAL: literal, DEFAULT: default, CONTROL: control}


def _orthonormal(size: int, samples: int) -> PaperSetting:
    """A problem of Ge, Lee and Ma (2018): as many units as inputs, all with the readout 1."""

    def draw(rng: Generator) -> PaperTarget:
        return _of_rows(orthonormal_weights(size, size, rng=rng), np.ones(size))

    literal, default = as_printed(LandscapeDesign.literal(orthogonal=True)), by_method(LandscapeDesign())
    arms = _arms(literal, default, by_method(RandomStart(biases=False)))
    return PaperSetting(f"{size}-{size}, orthonormal, a = 1", draw, samples, NORMAL, arms)


NORMAL = Gaussian(0, 1)
PAPER_SETTINGS = {
    "Zhong et al. (2017)": PaperSetting(
        "10-5, squared ReLU", lambda rng: _of_network(random_network(10, 5, RELU2, biases=0.0, condition=2.0, rng=rng)), 10_000,
        NORMAL, _arms(
            as_printed(TensorInit.literal(
                RELU2, partition=False, descent=Descent(step=0.02, max_steps=1000), printed_step=False)),
            by_method(TensorInit(activation=RELU2)), by_method(RandomStart(activation=RELU2, biases=False)))),
    "Ge, Lee and Ma (2018)": _orthonormal(10, 50_000),
    "Ge, Lee and Ma (2018), one batch": _orthonormal(5, 262_144),
    "Ge et al. (2019)": PaperSetting(
        "10-10-10, orthonormal",
        lambda rng: _of_rows(orthonormal_weights(10, 10, rng=rng), orthonormal_weights(10, 10, rng=rng)), 10_000, Symmetric(),
        _arms(as_printed(SymmetricInputs.literal(noise=False, halves=False)), by_method(SymmetricInputs()),
              by_method(RandomStart(biases=False)))),
    "Awasthi et al. (2021)": PaperSetting(
        "5-2, biases", lambda rng: _of_network(random_network(5, 2, biases=0.7, rng=rng)), 20_000, NORMAL,
        _arms(as_printed(GeneralReLU.literal()), by_method(GeneralReLU()), by_method(RandomStart()))),
    "Goel and Panigrahy (2019)": PaperSetting(
        "5-2 under a polynomial, t = 2", _thresholds, 10_000, NORMAL,
        _arms(by_layer(HighThreshold.literal(relu, 2.0)), by_layer(HighThreshold()),
              by_layer(HighThreshold(start=random_directions, jumps=None))))}


class FormCell(NamedTuple):
    """A paper and an arm."""

    paper: str
    arm: str


class FormRun(NamedTuple):
    """Largest angle of a true unit to the nearest found one, seconds."""

    angle: float
    seconds: float


def run_once(cell: FormCell, seed: int, settings: Mapping[str, PaperSetting] = PAPER_SETTINGS) -> FormRun:
    """Draw a problem, run the arm, compare."""
    setting = settings[cell.paper]
    rng = np.random.default_rng([seed, *map(ord, cell.paper[:8])])
    target = setting.draw(rng)
    x = rng.standard_normal((setting.samples, target.weights.shape[1]))
    source = Samples(x, target.function(x), law=setting.law)
    found, seconds = timed(lambda: setting.arms[cell.arm](source, len(target.weights), rng))
    return FormRun(np.pi / 2 if found is None else largest_angle(found, target.weights), seconds)


def largest_angle(found: Array, truth: Array) -> float:
    """Of a true row to the nearest found one, up to sign; by the distance where they nearly meet, which keeps its digits."""
    one, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (found, truth))
    gaps = np.minimum(*(np.linalg.norm(one[:, None] - sign * other[None], axis=2) for sign in (1.0, -1.0)))
    return float(2.0 * np.arcsin(np.minimum(gaps.min(axis=0).max() / 2.0, 1.0)))


def _sentence(m: StudyMeasurement) -> str:
    own = col.group_rows(m.rows, "arm")
    parts = "; ".join(
        f"{arm} {sum(col.values(rows, 'exact'))}/{sum(col.values(rows, 'runs'))} exact, "
        f"{sum(col.values(rows, 'near'))} within {NEAR:g} rad" for arm, rows in own.items())
    return f"Over all papers: {parts}."


def _form_study(settings: Mapping[str, PaperSetting]) -> Study[tuple[str, ...]]:
    """These problems, each by its arms."""
    return Study(
        "literal-forms", "The five papers side by side: literal form, default, random starts",
        "A literal form is near the truth, the default exact; random starts solve most of the papers' settings too.",
        quick=tuple(settings), full=tuple(settings), seeds=20,
        cells=lambda papers: [FormCell(paper, arm) for paper in papers for arm in settings[paper].arms],
        run_cell=lambda cell, seed: run_once(cell, seed, settings),
        table=table(
            "paper", problem=lambda cell, runs: settings[cell.paper].problem,
            samples=lambda cell, runs: settings[cell.paper].samples, arm=col.field("arm"),
            exact=col.total(lambda run: run.angle < EXACT), near=col.total(lambda run: run.angle < NEAR), runs=col.count,
            median_angle=col.median("angle"), median_s=col.median("seconds")),
        sentence=_sentence,
        with_method=lambda name, method: _form_study(
            {paper: setting.with_arm(name, method) for paper, setting in settings.items()}))


FIVE = _form_study(PAPER_SETTINGS)
"""Literal beside default beside control."""

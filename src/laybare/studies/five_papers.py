"""The five papers side by side: each one's own algorithm as printed, the default that grew from it, and random starts.

Settings are those of the papers' experiments, without noise. Zhong et al. (2017), Figure 1(c): squared ReLU, d = 10, five
units, condition 2, 10,000 samples, descent with steps of 0.02. Ge, Lee and Ma (2018), Figure 4: B* orthonormal, a* = 1, as many
units as inputs, but 10 for 50, with 50,000 samples in all (the paper draws 262,144 in every step, 80,000 times); and 5 units
with one such batch. Ge et al. (2019), Figure 2: orthonormal layers of 10 units and 10 outputs, 10,000 samples. Awasthi et al.
(2021) and Goel and Panigrahy (2019) have no experiments, so get small problems of what their theorems are about: biases up to
0.7, and ReLU units at t = 2 under a polynomial. The error of a run is the largest angle of a true unit to the nearest one
found, up to sign; a refusal is a right angle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import power_relu, relu
from laybare.landscape.first_order import Descent
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.lowest_layer.layer_start import Directions
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.methods.start import required_network
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.pipeline import recover
from laybare.planted import PlantedTarget, orthonormal_weights, polynomial_top, random_network, random_unit_rows, threshold_layer
from laybare.source import Gaussian, Law, Samples, Source, Symmetric
from laybare.studies import columns as col
from laybare.studies.study import Study, StudyMeasurement, table, timed

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
SETTINGS = {
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


def run_once(cell: FormCell, seed: int, settings: Mapping[str, PaperSetting] = SETTINGS) -> FormRun:
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


FIVE = _form_study(SETTINGS)
"""Literal beside default beside control."""

"""The five papers side by side: each one's own algorithm as printed, the default that grew from it, and random starts.

Problems are small ones of the kind that each paper is about, without noise; where a paper has experiments, of their kind: Zhong
et al. (2017) squared ReLU, condition 2, five units; Ge, Lee and Ma (2018) B* orthonormal, a* = 1; Ge et al. (2019) square
orthonormal layers; Awasthi et al. (2021) biases up to 0.7; Goel and Panigrahy (2019) ReLU units at t = 2 under a polynomial. The
error of a run is the largest angle of a true unit to the nearest one found, up to sign; a refusal is a right angle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import power_relu, relu
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.lowest_layer.layer_start import Directions
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.methods.start import required_network
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.pipeline import recover
from laybare.planted import orthonormal_weights, random_network, random_unit_rows
from laybare.planted.random_networks import PlantedTarget, polynomial_top, threshold_layer
from laybare.solver.first_order import Descent
from laybare.source import Gaussian, Law, Samples, Source, Symmetric
from laybare.studies import columns as col
from laybare.studies.study import Study, StudyMeasurement, cross, table, timed

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
    """A problem of a paper: what it is in words, how it is drawn, samples, the law, and the three arms."""

    problem: str
    draw: Callable[[Generator], PaperTarget]
    samples: int
    law: Law
    arms: dict[str, Arm]


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


NORMAL = Gaussian(0, 1)
SETTINGS = {
    "Zhong et al. (2017)": PaperSetting(
        "10-5, squared ReLU", lambda rng: _of_network(random_network(10, 5, RELU2, biases=0.0, condition=2.0, rng=rng)), 2000,
        NORMAL, _arms(
            as_printed(TensorInit.literal(
                RELU2, partition=False, descent=Descent(step=0.02, max_steps=1000), printed_step=False)),
            by_method(TensorInit(activation=RELU2)), by_method(RandomStart(activation=RELU2, biases=False)))),
    "Ge, Lee and Ma (2018)": PaperSetting(
        "4-4, orthonormal, a = 1", lambda rng: _of_rows(orthonormal_weights(4, 4, rng=rng), np.ones(4)), 50_000, NORMAL,
        _arms(as_printed(LandscapeDesign.literal(orthogonal=True)), by_method(LandscapeDesign()),
              by_method(RandomStart(biases=False)))),
    "Ge et al. (2019)": PaperSetting(
        "5-5-5, orthonormal",
        lambda rng: _of_rows(orthonormal_weights(5, 5, rng=rng), orthonormal_weights(5, 5, rng=rng)), 5000, Symmetric(),
        _arms(as_printed(SymmetricInputs.literal()), by_method(SymmetricInputs()), by_method(RandomStart(biases=False)))),
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


def run_once(cell: FormCell, seed: int) -> FormRun:
    """Draw a problem, run the arm, compare."""
    setting = SETTINGS[cell.paper]
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


FIVE = Study(
    "literal-forms", "The five papers side by side: literal form, default, random starts",
    "A literal form is near the truth, the default exact; random starts solve most of the papers' settings too.",
    quick=tuple(SETTINGS), full=tuple(SETTINGS), seeds=20,
    cells=lambda papers: cross(FormCell, papers, (LITERAL, DEFAULT, CONTROL)), run_cell=run_once,
    table=table(
        "paper", problem=lambda cell, runs: SETTINGS[cell.paper].problem,
        samples=lambda cell, runs: SETTINGS[cell.paper].samples, arm=col.field("arm"),
        exact=col.total(lambda run: run.angle < EXACT), near=col.total(lambda run: run.angle < NEAR), runs=col.count,
        median_angle=col.median("angle"), median_s=col.median("seconds")),
    sentence=_sentence)
"""Literal beside default beside control."""

"""How many samples does each method need, over inputs, units, condition and noise? With exponents, and the theory's beside them.

For every method networks that it is made for, ReLU units throughout, x ~ N(0, I); the width is given. Four arms: the method
(every parameter within 1e-10 of the truth; within 0.1 with noise), its start alone and the paper's algorithm as printed (every
direction within 0.3, signs left open), and RandomStart, the control, on the same networks and samples. For HighThreshold these
are layers at t = 1.5 under a polynomial, directions stand for parameters, and the control is the same fit from random directions.
One quantity moves at a time from 8 inputs, 4 units, condition 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.lowest_layer.layer_start import ThirdMoments
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.methods.start import required_network
from laybare.methods.tensor_init import RefinedMoments
from laybare.networks import Network, compare, unsigned_error
from laybare.numerics.shapes import Array
from laybare.pipeline import recover
from laybare.planted import PlantedTarget, polynomial_top, random_network, threshold_layer
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.source import Gaussian, Law, Samples, Symmetric
from laybare.studies.automatic import random_directions
from laybare.studies.study import SUCCESS, Settings, Study, StudyMeasurement, cross, refused_as, table
from laybare.theory.guarantees import global_recovery, start_accuracy
from laybare.theory.relu_guarantees import InputLaw, relu_recovery, symmetric_recovery


@dataclass(frozen=True, kw_only=True)
class ComplexityRules:
    """When a number of samples is enough."""

    share: float = 0.9
    """Share of runs that must succeed. Convention: nine of ten."""
    start_error: float = 0.3
    """Largest error of a direction of a start. Checked by `pytest tests/studies/test_sample_complexity.py`."""
    noisy_error: float = 0.1
    """Largest error of a parameter where there is noise. Checked by `pytest tests/studies/test_sample_complexity.py`."""
    lowest_step: int = 8
    """First step of the grid of sample sizes, 2^(step/2): 16 samples. Convention: fewer determine no network here."""
    highest_step: int = 36
    """Last step: 262,144 samples. Convention: more take hours."""
    bound_accuracy: float = 0.1
    """Accuracy of the theorems' bounds, which move with it by a factor. Convention: exponents do not depend on it."""
    bound_networks: int = 3
    """Networks that a bound is a median over. Checked by `pytest tests/studies/test_sample_complexity.py`."""


RULES = ComplexityRules()


def samples_at(step: int) -> int:
    """Samples of a step of the grid."""
    return int(np.rint(2.0 ** (step / 2)))


def smallest_enough(succeeds: Callable[[int, int], bool], seeds: Sequence[int], guess: int, most: int) -> float:
    """Smallest number of samples with which nine of ten `seeds` succeed; infinite beyond `most`. The search begins at `guess`.

    Numbers of samples come from one geometric grid, a factor of √2 apart, so that two arms meet at the same ones. The search goes
    up or down from the guess by doubling, then halves the bracket: it takes success for monotone, as it is but for chance near
    its edge.
    """
    highest = min(RULES.highest_step, int(2 * np.log2(most) + 1e-9))
    tried: dict[int, bool] = {}

    def enough(step: int) -> bool:
        if step not in tried:
            tried[step] = _enough(succeeds, seeds, samples_at(step))
        return tried[step]

    low, high = _bracket(enough, min(max(RULES.lowest_step, round(2 * np.log2(guess))), highest), highest)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(samples_at(high)) if high <= highest else np.inf


def _enough(succeeds: Callable[[int, int], bool], seeds: Sequence[int], samples: int) -> bool:
    """Whether few enough seeds fail; it is over once too many have."""
    spare = int((1.0 - RULES.share) * len(seeds) + 1e-9)
    for seed in seeds:
        spare -= not succeeds(samples, seed)
        if spare < 0:
            return False
    return True


def _bracket(enough: Callable[[int], bool], guess: int, highest: int) -> tuple[int, int]:
    """A step that is not enough (or below the grid) and one that is (or beyond it), two doublings further each time."""
    low, high, stride = RULES.lowest_step - 1, highest + 1, 2
    step, up = guess, not enough(guess)
    while True:
        if up:
            low, step = step, step + stride
        else:
            high, step = step, step - stride
        if not RULES.lowest_step <= step <= highest:
            return low, high
        if enough(step) == up:
            return (low, step) if up else (step, high)
        stride *= 2


def exponent(values: Sequence[float], samples: Sequence[float]) -> float:
    """Slope of log samples against log values where both are known; NaN with fewer than two of them."""
    pairs = [(value, n) for value, n in zip(values, samples, strict=True) if np.isfinite(n) and n > 0 and value > 0]
    if len({value for value, _ in pairs}) < 2:
        return float("nan")
    x, y = np.log(np.array(pairs)).T
    return float(np.round(np.polyfit(x, y, 1)[0], 6)) + 0.0  # no minus before a zero


METHOD, START, PRINTED, CONTROL = "the method", "its start alone", "as printed", "RandomStart"
AXES = {"dim": "inputs", "width": "units", "condition": "condition number", "noise": "noise / sd(y)"}


class ComplexityPlace(NamedTuple):
    """Inputs, units, condition number of the weights, noise in standard deviations of y."""

    dim: int = 8
    width: int = 4
    condition: float = 2.0
    noise: float = 0.0


class Family(NamedTuple):
    """A method, its start alone, the paper's algorithm, and the networks that it is made for."""

    method: Method
    start: Method
    printed: Method
    biases: float = 0.0
    readout: str = "signs"
    several: bool = False
    law: Law = Gaussian(0, 1)

    def share(self, place: ComplexityPlace, samples: float) -> float:
        """Equations for every unknown of the network."""
        outputs = place.width if self.several else 1
        return samples * outputs / (place.width * (place.dim + outputs + bool(self.biases)) + outputs)

    def succeeds(self, arm: str, source: Samples, truth: Network, place: ComplexityPlace, rng: Generator) -> bool:
        """Whether the arm comes as close as is asked of it."""
        if arm == METHOD:
            return _recovers(self.method, source, truth, place, rng)
        if arm == CONTROL:
            return _recovers(RandomStart(biases=bool(self.biases)), source, truth, place, rng)
        route = self.start if arm == START else self.printed
        found = required_network(route.start(source, place.width, rng=rng))
        return _close(np.asarray(found.layer.weights), np.asarray(truth.layer.weights), RULES.start_error)

    def plant(self, place: ComplexityPlace, rng: Generator) -> Network:
        return random_network(
            place.dim, place.width, outputs=place.width if self.several else 1, biases=self.biases, condition=place.condition,
            readout=self.readout, rng=rng)  # type: ignore[arg-type]


class LayerFamily(NamedTuple):
    """The lowest layer, by its directions: HighThreshold, its start, one by one as printed, and a fit from random directions."""

    threshold: float = 1.5
    law: Law = Gaussian(0, 1)

    def share(self, place: ComplexityPlace, samples: float) -> float:
        """Equations for every direction and threshold, and the products of the top."""
        return samples / (place.width * (place.dim + 1) + place.width * (place.width - 1) // 2)

    def plant(self, place: ComplexityPlace, rng: Generator) -> PlantedTarget:
        layer = threshold_layer(place.dim, place.width, relu, self.threshold, condition=place.condition, rng=rng)
        return PlantedTarget(layer, polynomial_top(place.width, min(place.width, 2), rng=rng))

    def succeeds(self, arm: str, source: Samples, truth: PlantedTarget, place: ComplexityPlace, rng: Generator) -> bool:
        """Whether all directions are found."""
        rows, exact = np.asarray(truth.layer.weights), RULES.noisy_error if place.noise else SUCCESS.exact_error
        if arm == START:
            return _close(ThirdMoments()(source, place.width, rng=rng).weights, rows, RULES.start_error)
        method = {
            METHOD: HighThreshold(), PRINTED: HighThreshold.literal(relu, self.threshold),
            CONTROL: HighThreshold(start=random_directions, jumps=None)}[arm]
        found = recover_layer(source, method, place.width, rng=rng).layer.weights
        return _close(np.asarray(found), rows, RULES.start_error if arm == PRINTED else exact)


FAMILIES: dict[str, Family | LayerFamily] = {
    "TensorInit": Family(TensorInit(), TensorInit(route=RefinedMoments(inside=None)), TensorInit.literal(partition=False)),
    "LandscapeDesign": Family(LandscapeDesign(), LandscapeDesign(), LandscapeDesign.literal(), readout="positive"),
    "SymmetricInputs": Family(
        SymmetricInputs(), SymmetricInputs(), SymmetricInputs.literal(noise=False, halves=False), several=True, law=Symmetric()),
    "GeneralReLU": Family(GeneralReLU(), GeneralReLU(), GeneralReLU.literal(), biases=0.5),
    "HighThreshold": LayerFamily()}


def _tensor_start(network: Network) -> float:
    """Samples at which the stated relative error of the start is that accuracy: Theorem 5.6 of Zhong et al. (2017)."""
    return (start_accuracy(network, 1)["relative error of the start"] / RULES.bound_accuracy) ** 2


def _detector(network: Network) -> float:
    """Lemma 15 of Ge et al. (2019); inputs of N(0, I) have a radius of about √d."""
    law = InputLaw(radius=sqrt(network.dim))
    return symmetric_recovery(network, law, RULES.bound_accuracy)["samples of the detector"]


_BOUNDS: dict[tuple[str, bool], Callable[[Network], float]] = {
    ("TensorInit", False): lambda network: global_recovery(network, RULES.bound_accuracy)["samples"],
    ("TensorInit", True): _tensor_start,
    ("SymmetricInputs", False): _detector,
    ("GeneralReLU", False): lambda network: relu_recovery(network, RULES.bound_accuracy)["samples"]}
"""By method and whether its start alone is meant. Ge, Lee and Ma (2018) state a polynomial, and no number."""


def stated_exponent(
    start: bool, method: str, axis: str, plant: Callable[[Any, Generator], Any], places: Sequence[Any]
) -> float:
    """The slope of the method's bound along an axis, that of its start alone if asked; NaN where no theorem states one.

    The bounds of `laybare.theory` are known up to factors, and some up to the exponents of a polynomial, which are taken as one
    there (`Bound.open`). So an exponent says how the stated bound moves at the same networks, not how many samples are needed. No
    theorem has noise in its number: there the exponent is that of standard errors, which are as small as sd(noise)/√n.
    """
    if axis == "noise":
        return float("nan") if start else 2.0
    bound = _BOUNDS.get((method, start), _BOUNDS.get((method, False)))
    if bound is None:
        return float("nan")

    def typical(place: Any) -> float:
        return float(np.median([bound(plant(place, np.random.default_rng(seed))) for seed in range(RULES.bound_networks)]))

    return exponent([float(getattr(place, axis)) for place in places], [typical(place) for place in places])


class ComplexityGrid(NamedTuple):
    """Values of every quantity, methods, and the largest number of samples that is tried."""

    dim: tuple[int, ...]
    width: tuple[int, ...]
    condition: tuple[float, ...]
    noise: tuple[float, ...]
    most: int = 1 << 14
    methods: tuple[str, ...] = tuple(FAMILIES)

    @property
    def axes(self) -> dict[str, tuple[float, ...]]:
        return {axis: getattr(self, axis) for axis in AXES}

    def places(self, axis: str) -> list[ComplexityPlace]:
        return [ComplexityPlace(**{axis: value}) for value in self.axes[axis]]  # type: ignore[arg-type]


class ComplexityCell(NamedTuple):
    """A method, an arm, a place."""

    method: str
    arm: str
    place: ComplexityPlace


@refused_as(False)
def succeeds(cell: ComplexityCell, samples: int, seed: int) -> bool:
    """One run. A refusal is a failure."""
    family, place = FAMILIES[cell.method], cell.place
    rng = np.random.default_rng([seed, place.dim, place.width, round(100 * place.condition), round(1000 * place.noise)])
    truth = family.plant(place, rng)
    x = rng.standard_normal((samples, place.dim))
    y = truth(x)
    y = y + place.noise * y.std(axis=0) * rng.standard_normal(y.shape)
    return family.succeeds(cell.arm, Samples(x, y, family.law), truth, place, rng)  # type: ignore[arg-type]


def _recovers(method: Method, source: Samples, truth: Network, place: ComplexityPlace, rng: Generator) -> bool:
    found = recover(source, method, place.width, rng=rng).network
    match = compare(found, truth)
    within = RULES.noisy_error if place.noise else SUCCESS.exact_error
    return not match.missing and not match.spurious and match.max_error < within


def _close(found: Array, rows: Array, error: float) -> bool:
    """Every direction, up to sign."""
    return found.shape == rows.shape and unsigned_error(found, rows) < error


_ARMS = (METHOD, START, PRINTED, CONTROL)


def measure_grid(settings: Settings[ComplexityGrid]) -> dict[ComplexityCell, float]:
    """The smallest number of samples of every cell; a place that two axes share is measured once."""
    grid = settings.grid
    places = dict.fromkeys(place for axis in grid.axes for place in grid.places(axis))
    cells = cross(ComplexityCell, grid.methods, _ARMS, places)
    found: dict[ComplexityCell, float] = {}
    for done, cell in enumerate(cells, 1):
        guess = 4 * (cell.place.width * (cell.place.dim + 2) + 1)  # four per unknown of a network with biases and one output
        found[cell] = smallest_enough(partial(succeeds, cell), settings.seeds, guess, grid.most)
        settings.tick("bisecting", done, len(cells), f"{cell.method}, {cell.arm}, {cell.place}: {found[cell]:,.0f} samples")
    return found


class AlongAxis(NamedTuple):
    """The cell of a row: a method and an arm along an axis."""

    method: str
    arm: str
    axis: str


class Needs(NamedTuple):
    """Samples needed along an axis: its places, their values, the samples."""

    places: list[ComplexityPlace]
    values: tuple[float, ...]
    samples: list[float]


def along_axes(grid: ComplexityGrid, found: Mapping[ComplexityCell, float]) -> dict[AlongAxis, Needs]:
    """What every method and arm needs along every axis."""

    def needs(row: AlongAxis) -> Needs:
        places = grid.places(row.axis)
        return Needs(places, grid.axes[row.axis], [found[ComplexityCell(row.method, row.arm, place)] for place in places])

    return {row: needs(row) for row in cross(AlongAxis, grid.methods, _ARMS, grid.axes)}


def _finite(value: float) -> float | str:
    return value if np.isfinite(value) else ""


def _theory(row: AlongAxis, needs: Needs) -> float | str:
    if row.arm in (CONTROL, PRINTED):  # nobody has a theorem about the control; what is printed stands beside the method
        return ""
    return _finite(stated_exponent(row.arm == START, row.method, row.axis, FAMILIES[row.method].plant, needs.places))


def _sentence(m: StudyMeasurement) -> str:
    """How many equations an unknown takes without noise, and how often a method needs fewer samples than the control."""
    found, methods, places = m.runs, m.grid.methods, {cell.place for cell in m.runs}
    ratio = [
        FAMILIES[method].share(place, found[ComplexityCell(method, CONTROL, place)])
        for method in methods for place in places if not place.noise]
    pairs = [
        (found[ComplexityCell(method, METHOD, place)], found[ComplexityCell(method, CONTROL, place)])
        for method in methods for place in places]
    fewer, more = (sum(sign * (own - other) < 0 for own, other in pairs if own != other) for sign in (1, -1))
    known = [value for value in ratio if np.isfinite(value)]
    spread = f"takes {min(known):.1f} to {max(known):.1f} equations an unknown" if known else "never succeeds"
    return (
        f"Without noise the control, RandomStart, {spread}. Of {len(pairs)} places the methods need fewer samples than it "
        f"in {fewer}, more in {more}, and the same step of the grid in the others.")


def _figure(m: StudyMeasurement) -> LinesFigure:
    """A panel for every method and axis."""
    rows = along_axes(m.grid, m.runs)
    panels = [
        Panel(method, AXES[axis], "samples for 9 of 10", [
            Curve(arm, m.grid.axes[axis], rows[AlongAxis(method, arm, axis)].samples) for arm in _ARMS], "xy")
        for method in m.grid.methods for axis in m.grid.axes]
    return LinesFigure(
        panels, "Smallest number of samples for nine recoveries of ten, over inputs, units, condition and noise, by method",
        across=len(m.grid.axes))


SAMPLE_COMPLEXITY = Study(
    "sample-complexity", "Smallest number of samples for nine recoveries of ten, over inputs, units, condition and noise",
    "The theorems' numbers of samples are polynomials: TensorInit d·log d·k·λ(κ), SymmetricInputs d³ (detector), GeneralReLU "
    "poly(m, d, B, 1/s_m); exponents beside them are those of the bounds at the same networks, open exponents taken as 1. "
    "A count of unknowns gives 1 for inputs and units, 0 for condition; errors that are standard errors give 2 for noise.",
    quick=ComplexityGrid((4, 8, 16), (2, 4, 8), (2, 8), (0.1, 0.4), 1 << 13),
    full=ComplexityGrid((4, 8, 16, 32), (2, 4, 6, 8), (1, 2, 4, 8, 16), (0.05, 0.1, 0.2, 0.4, 0.8), 1 << 17), seeds=10,
    measure_grid=measure_grid, group=along_axes,
    table=table(
        "method", "arm", against=lambda row, needs: AXES[row.axis],
        values=lambda row, needs: " ".join(f"{value:g}" for value in needs.values),
        samples=lambda row, needs: " ".join(f"{n:.0f}" for n in needs.samples),
        exponent=lambda row, needs: _finite(exponent(needs.values, needs.samples)), theory=_theory),
    sentence=_sentence, figure=_figure)
"""Samples at every value, beyond what was tried as inf; the slope of their logarithms; the theory's."""

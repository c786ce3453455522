"""How many samples does each method need, over inputs, units, condition and noise? With exponents, and the theory's beside them.

For every method networks that it is made for, ReLU units throughout, x ~ N(0, I); the width is told. Three arms: the method
(every number within 1e-10 of the truth; within 0.1 with noise), its start alone (every direction within 0.3, signs left open),
and RandomStart, the control, on the same networks and samples. One quantity moves at a time from 8 inputs, 4 units, condition 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import LaybareError
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.methods.start import network_at
from laybare.methods.tensor_init.routes import RefinedMoments
from laybare.networks import Network, compare, unsigned_error
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.source import Gaussian, Law, Samples, Symmetric
from laybare.studies.sample_theory import stated
from laybare.studies.smallest_samples import exponent, smallest
from laybare.studies.study import EXACT_ERROR, Settings, Study, StudyResult, headings

CLOSE, NOISY_ERROR = 0.3, 0.1
"""Largest error of a direction of a start; largest error of any number where there is noise."""

AXES = {"dim": "inputs", "width": "units", "condition": "condition number", "noise": "noise / sd(y)"}
METHOD, START, CONTROL = "the method", "its start alone", "RandomStart"


class ComplexityPlace(NamedTuple):
    """Inputs, units, condition number of the weights, noise in standard deviations of y."""

    dim: int = 8
    width: int = 4
    condition: float = 2.0
    noise: float = 0.0

    @property
    def numbers(self) -> int:
        """Unknowns of a network with biases and one output."""
        return self.width * (self.dim + 2) + 1


class Family(NamedTuple):
    """A method, its start alone, and the networks that it is made for."""

    method: Method
    start: Method
    biases: float = 0.0
    readout: str = "signs"
    several: bool = False
    law: Law = Gaussian(0, 1)

    def share(self, place: ComplexityPlace, samples: float) -> float:
        """Equations for every unknown of the network."""
        outputs = place.width if self.several else 1
        return samples * outputs / (place.width * (place.dim + outputs + bool(self.biases)) + outputs)

    def plant(self, place: ComplexityPlace, rng: Generator) -> Network:
        return random_network(
            place.dim, place.width, outputs=place.width if self.several else 1, biases=self.biases, condition=place.condition,
            readout=self.readout, rng=rng)  # type: ignore[arg-type]


FAMILIES = {
    "TensorInit": Family(TensorInit(), TensorInit(route=RefinedMoments(inside=None))),
    "LandscapeDesign": Family(LandscapeDesign(), LandscapeDesign(), readout="positive"),
    "SymmetricInputs": Family(SymmetricInputs(), SymmetricInputs(), several=True, law=Symmetric()),
    "GeneralReLU": Family(GeneralReLU(), GeneralReLU(), biases=0.5)}


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


class ComplexityRow(NamedTuple):
    """A row of the table: samples at every value, beyond what was tried as inf; the slope of their logarithms; the theory's."""

    method: str
    arm: str
    against: str
    values: str
    samples: str
    exponent: float | str
    theory: float | str


def succeeds(cell: ComplexityCell, samples: int, seed: int) -> bool:
    """One run. A refusal is a failure."""
    family, place = FAMILIES[cell.method], cell.place
    rng = np.random.default_rng([seed, place.dim, place.width, round(100 * place.condition), round(1000 * place.noise)])
    truth = family.plant(place, rng)
    x = rng.standard_normal((samples, place.dim))
    y = truth(x)
    y = y + place.noise * y.std(axis=0) * rng.standard_normal(y.shape)
    source = Samples(x, y, family.law)
    try:
        return _ARMS[cell.arm](family, source, truth, place, rng)
    except LaybareError:
        return False


def _recovers(method: Method, source: Samples, truth: Network, place: ComplexityPlace, rng: Generator) -> bool:
    found = recover(source, method, place.width, rng=rng).network
    match = compare(found, truth)
    within = NOISY_ERROR if place.noise else EXACT_ERROR
    return not match.missing and not match.spurious and match.max_error < within


def _starts_close(family: Family, source: Samples, truth: Network, place: ComplexityPlace, rng: Generator) -> bool:
    start = network_at(family.start.start(source, place.width, rng=rng))
    if start.layer.weights.shape != truth.layer.weights.shape:
        return False
    return unsigned_error(np.asarray(start.layer.weights), np.asarray(truth.layer.weights)) < CLOSE


_ARMS: dict[str, Callable[[Family, Samples, Network, ComplexityPlace, Generator], bool]] = {
    METHOD: lambda family, *given: _recovers(family.method, *given),
    START: _starts_close,
    CONTROL: lambda family, *given: _recovers(RandomStart(biases=bool(family.biases)), *given)}


def measure(settings: Settings[ComplexityGrid]) -> dict[ComplexityCell, float]:
    """The smallest number of samples of every cell; a place that two axes share is measured once."""
    grid = settings.grid
    places = list(dict.fromkeys(place for axis in grid.axes for place in grid.places(axis)))
    cells = [ComplexityCell(method, arm, place) for method in grid.methods for arm in _ARMS for place in places]
    found: dict[ComplexityCell, float] = {}
    for done, cell in enumerate(cells):
        found[cell] = smallest(partial(succeeds, cell), settings.seeds, 4 * cell.place.numbers, grid.most)
        settings.tick("bisecting", done + 1, len(cells), f"{cell.method}, {cell.arm}, {cell.place}: {found[cell]:,.0f} samples")
    return found


def summary(grid: ComplexityGrid, found: Mapping[ComplexityCell, float]) -> StudyResult:
    """A row for every method, arm and axis; a panel for every method and axis."""
    rows = [_row(grid, found, method, arm, axis) for method in grid.methods for arm in _ARMS for axis in grid.axes]
    panels = [
        Panel(method, AXES[axis], "samples for 9 of 10", [
            Curve(arm, grid.axes[axis], _samples(grid, found, method, arm, axis)) for arm in _ARMS], "xy")
        for method in grid.methods for axis in grid.axes]
    figure = LinesFigure(
        panels, "Smallest number of samples for nine recoveries of ten, over inputs, units, condition and noise, by method",
        across=len(grid.axes))
    return StudyResult(headings(ComplexityRow), rows, _sentence(grid, found), figure)


def _samples(
    grid: ComplexityGrid, found: Mapping[ComplexityCell, float], method: str, arm: str, axis: str
) -> list[float]:
    return [found[ComplexityCell(method, arm, place)] for place in grid.places(axis)]


def _row(grid: ComplexityGrid, found: Mapping[ComplexityCell, float], method: str, arm: str, axis: str) -> ComplexityRow:
    values, samples = grid.axes[axis], _samples(grid, found, method, arm, axis)
    slope, theory = exponent(values, samples), float("nan")  # nobody has a theorem about the control
    if arm != CONTROL:
        theory = stated(arm == START, method, axis, FAMILIES[method].plant, grid.places(axis))
    return ComplexityRow(
        method, arm, AXES[axis], " ".join(f"{value:g}" for value in values), " ".join(f"{n:.0f}" for n in samples),
        slope if np.isfinite(slope) else "", theory if np.isfinite(theory) else "")


def _sentence(grid: ComplexityGrid, found: Mapping[ComplexityCell, float]) -> str:
    """How many equations an unknown takes without noise, and how often a method needs fewer samples than the control."""
    places = {cell.place for cell in found if not cell.place.noise}
    ratio = [
        FAMILIES[method].share(place, found[ComplexityCell(method, CONTROL, place)])
        for method in grid.methods for place in places]
    pairs = [
        (found[ComplexityCell(method, METHOD, place)], found[ComplexityCell(method, CONTROL, place)])
        for method in grid.methods for place in {cell.place for cell in found}]
    fewer, more = (sum(sign * (own - other) < 0 for own, other in pairs if own != other) for sign in (1, -1))
    known = [value for value in ratio if np.isfinite(value)]
    spread = f"takes {min(known):.1f} to {max(known):.1f} equations an unknown" if known else "never succeeds"
    return (
        f"Without noise the control, RandomStart, {spread}. Of {len(pairs)} places the methods need fewer samples than it "
        f"in {fewer}, more in {more}, and the same step of the grid in the others.")


SAMPLE_COMPLEXITY = Study(
    "sample-complexity", "Smallest number of samples for nine recoveries of ten, over inputs, units, condition and noise",
    "The theorems' numbers of samples are polynomials: TensorInit d·log d·k·λ(κ), SymmetricInputs d³ (detector), GeneralReLU "
    "poly(m, d, B, 1/s_m); exponents beside them are those of the bounds at the same networks, open exponents taken as 1. "
    "A count of unknowns gives 1 for inputs and units, 0 for condition; errors that are standard errors give 2 for noise.",
    ComplexityGrid((4, 8, 16), (2, 4, 8), (2, 8), (0.1, 0.4), 1 << 13),
    ComplexityGrid((4, 8, 16, 32), (2, 4, 6, 8), (1, 2, 4, 8, 16), (0.05, 0.1, 0.2, 0.4, 0.8), 1 << 17),
    measure, summary, seeds=10)

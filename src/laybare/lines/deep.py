"""A deep ReLU network read out of a black box: layer by layer, then all layers together.

    floor 0 -> layer -> floor 1 -> layer -> ... -> readout -> polish -> fresh answers

On every floor lines are followed until the layer is complete (`laybare.lines.layers`). The layer is the last one if the
coefficients of its units are everywhere the same: they are the readout. Fresh answers that the network does not predict show that
a unit is missing; lines through them look for it, from the highest floor down. What cannot be had is said: the layers that are
complete, and the rest as a black box on their features, are a result too.
Sources: Rolnick and Kording (2020), Carlini et al. (2020) for layer after layer; the tests of completeness and the economy of
queries are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.errors import BudgetExhausted, NotSeparated
from laybare.lines.above import Above
from laybare.lines.asking import Ask, Booking, Purse
from laybare.lines.branches import read_upper_layer
from laybare.lines.checking import Checker
from laybare.lines.choosing import chosen_layer
from laybare.lines.floors import Floor, ground
from laybare.lines.folding import folded_layer
from laybare.lines.following import Seen, follow, line_across, one_sided
from laybare.lines.joint_polish import Deep, Fitted
from laybare.lines.layers import LayerRead, layer_of, signed
from laybare.lines.line import Line
from laybare.lines.recognise import first_look
from laybare.lines.wide_layer import wide_last_layer
from laybare.networks import Layer, Network
from laybare.shapes import Array
from laybare.source.rounding import Rounding

QUIET = (2, 4, 10)
"""Lines in a row that bring no unit to a complete layer: on floor 0, where every line meets every unit, on floor 1, and above."""

GATHER, FOLD = 8, 14
"""Quiet lines on floor 1 after which all gradients are measured and choices among suspects are tried, and after which what is
left of the gradients is taken for units that never bend."""

FEWEST = 20
"""Lines at least on a floor above the first, where no set of lines meets every unit."""

MOST_LINES = 120
"""Lines beyond the fewest that a floor needs before a layer is given up as incomplete."""

MOST_LAYERS = 12

NEAR_WALL = 1e-3
"""How near to a wall lines may begin, in units of the inputs' scale."""

RETURNS = 6
"""Times that fresh answers may send the search back."""


@dataclass(frozen=True, eq=False)
class DeepFound:
    """What the lines have told about a network of any depth.

    Attributes
    ----------
    network : complete, or the layers that are, with the black box itself on top
    reads : what was read on every floor, the last one perhaps incomplete
    complete : all layers and the readout are known, and fresh answers are predicted
    trouble : why it is not complete, with the layer; empty if it is
    rounding : what the answers were rounded to, as measured
    queries : what was spent on what
    misfit : of the joint polish, in standard deviations of rounding (NaN without)
    fresh : misfits of fresh answers, relative to what is allowed
    error_bar : largest standard deviation of a number of the network
    ended : the budget ended before the search did
    """

    network: Network
    reads: tuple[LayerRead, ...]
    complete: bool
    trouble: str
    rounding: Rounding
    queries: dict[str, int]
    misfit: float
    fresh: Array
    error_bar: float
    ended: bool = False


def read_deep(
    ask: Ask, dim: int, *, depth: int | None = None, budget: int | None = None, spread: float = 1.0,
    purpose: Booking = nullcontext, rng: Generator,
) -> DeepFound:
    """Read a ReLU network of unknown depth and widths out of a black box.

    `depth`: hidden layers at most, if that is known. AssumptionViolated if the box is noisy, smooth or made of steps;
    BudgetExhausted if the budget ends before the first layer is complete. Otherwise what is missing is in `trouble`.
    """
    purse = Purse(ask, budget=budget, book=purpose)
    floor = ground(dim, spread)
    climber = Climber(purse, first_look(purse, floor.line(0, rng)).rounding, depth or MOST_LAYERS, spread, rng)
    return climber.found(_Climb((Seen(floor),), ()))


@dataclass(frozen=True, eq=False)
class _Climb:
    """What was seen on every floor, and the layers read on them; the last may be incomplete."""

    seen: tuple[Seen, ...]
    reads: tuple[LayerRead, ...]

    @property
    def done(self) -> bool:
        return bool(self.reads) and self.reads[-1].readout is not None and not self.reads[-1].trouble


@dataclass(frozen=True, eq=False)
class Climber:
    """Reads floor after floor with one purse."""

    purse: Purse
    rounding: Rounding
    depth: int
    spread: float
    rng: Generator

    def found(self, climb: _Climb) -> DeepFound:
        """The result, from the floors that were seen so far."""
        fitted, fresh, trouble = None, np.empty(0), ""
        try:
            for _ in range(RETURNS):
                for state in self._climbed(climb):
                    climb = state
                if not climb.done:
                    break
                fitted, fresh, targets = self._checker.checked(_assembled(climb), climb.reads)
                trouble = f"{int((fresh > 1.0).sum())} of {len(fresh)} fresh answers are not predicted" if len(targets) else ""
                if not len(targets):
                    break
                further = self._toward(climb, targets)
                if further is None:
                    break
                climb = further
        except BudgetExhausted as error:
            if not climb.reads or climb.reads[0].trouble:
                raise
            return self._result(climb, None, fresh, f"the budget ended: {error.seen}", ended=True)
        return self._result(climb, fitted, fresh, trouble)

    @property
    def _checker(self) -> Checker:
        return Checker(self.purse, self.rounding, self.spread, self.rng)

    def _climbed(self, climb: _Climb) -> Iterator[_Climb]:
        """Read layers until one is the last, or incomplete; every state on the way, so that a budget that ends loses nothing."""
        while not climb.done and len(climb.reads) < self.depth and not (climb.reads and climb.reads[-1].trouble):
            if len(climb.seen) == len(climb.reads):
                climb = replace(climb, seen=(*climb.seen, Seen(_above(climb))))
            try:
                read = self._upper_layer(climb, ()) or self._layer(climb.seen[-1])
            except NotSeparated as error:
                read = replace(layer_of(climb.seen[-1]), trouble=error.seen)
            climb = _Climb((*climb.seen[:-1], read.seen), (*climb.reads, read))
            yield climb

    def _upper_layer(self, climb: _Climb, targets: Array | tuple[()]) -> LayerRead | None:
        """A third or higher layer, read from floor 1, where every feature can be had."""
        if len(climb.reads) < 2:
            return None
        below = climb.reads[-1].seen
        if len(below.floor.layers) > 1:
            below = climb.seen[1]
        layers = tuple((read.weights, read.biases) for read in climb.reads[1:])
        lines = tuple(_line_to(below.floor, x, self.rng) for x in targets)
        return read_upper_layer(self.purse, below, layers, self.rounding, lines, rng=self.rng)

    def _layer(self, seen: Seen) -> LayerRead:
        number = len(seen.floor.layers)
        fewest = seen.lines + (0, seen.floor.width, FEWEST)[min(number, 2)] * (seen.lines == 0)
        most = fewest + MOST_LINES
        while True:
            every = number == 1 and GATHER <= seen.quiet < FOLD and seen.lines >= fewest
            line = self._next_line(seen, fewest)
            seen = follow(self.purse, seen, line, self.rounding, every=every, rng=self.rng)
            read = layer_of(seen)
            if read.trouble and number == 1 and seen.quiet >= FOLD and seen.lines >= fewest:
                read = folded_layer(seen) or read
            settled = seen.lines >= fewest and seen.quiet >= QUIET[min(number, 2)]
            if read.trouble and number == 1 and seen.quiet and seen.quiet % GATHER == 0 and seen.lines >= fewest:
                read = chosen_layer(seen) or read
            if read.trouble and settled and number == 1 and len(seen.known) > seen.floor.width:
                read = wide_last_layer(seen) or read
            if (settled and not read.trouble) or _too_wide(seen, settled=settled) or seen.lines >= most:
                return read

    def _next_line(self, seen: Seen, fewest: int) -> Line:
        """The floor's own next line; beyond the fewest, every other one across a surface of which one side is not told."""
        untold = one_sided(seen) if seen.lines >= fewest and seen.lines % 2 else ()
        if not untold:
            return seen.floor.line(seen.lines, self.rng)
        return line_across(seen.floor, untold[self.rng.integers(len(untold))], self.rng)

    def _toward(self, climb: _Climb, targets: Array) -> _Climb | None:
        """Lines through fresh points that were not predicted, from the highest floor down, until a unit is found."""
        below = _Climb(climb.seen[:-1], climb.reads[:-1])
        last = self._upper_layer(below, targets)
        if last is not None and len(last.biases) > len(climb.reads[-1].biases):
            return _Climb((*below.seen, last.seen), (*below.reads, last))
        for level in range(min(len(climb.reads), 2) - 1, -1, -1):
            seen = climb.seen[level]
            for x in targets:
                line = _line_to(seen.floor, x, self.rng)
                further = follow(self.purse, seen, line, self.rounding, every=level == 1, rng=self.rng)
                if len(further.known) > len(seen.known) or _contradicted(climb.reads[level], further):
                    return _Climb((*climb.seen[:level], further), climb.reads[:level])
                seen = further
        return None

    def _result(self, climb: _Climb, fitted: Fitted | None, fresh: Array, trouble: str, *, ended: bool = False) -> DeepFound:
        reads, queries = climb.reads, dict(self.purse.spent)
        worst = max((float(read.sd.max(initial=0.0)) for read in reads), default=np.inf)
        if fitted is not None:
            bar = fitted.error_bar if np.isfinite(fitted.error_bar) else worst
            return DeepFound(
                _network(fitted.network), reads, not trouble, trouble, self.rounding, queries, fitted.misfit, fresh, bar, ended)
        last = reads[-1]
        if last.trouble:
            trouble = f"layer {len(reads)}: {last.trouble}"
        elif not trouble:
            trouble = f"there are more layers than the {len(reads)} that were told"
        known = [read for read in reads if not read.trouble]
        network = _partial(known, self.purse) if known else _hyperplanes(last)
        return DeepFound(network, reads, False, trouble, self.rounding, queries, np.nan, fresh, worst, ended)


def _contradicted(read: LayerRead, further: Seen) -> bool:
    """Whether further gradients show that a surface which is known, but was left out of the layer, is one of its units."""
    left_out = len(read.biases) - read.folded < len(further.known)
    return left_out and not read.folded and bool(signed(replace(read, seen=further)).trouble)


def _line_to(floor: Floor, x: Array, rng: Generator) -> Line:
    """A line of the floor through the features of an input, as near to them as the walls allow."""
    if floor.layers:
        h, margins = x, []
        for weights, biases in floor.layers:
            h = np.maximum(h @ weights.T + biases, NEAR_WALL * floor.spread)
            margins.append(h)
        x = floor.lifted(np.concatenate(margins), rng)
    start = floor.point(rng)
    return floor.line_through(start, x - start, float(np.linalg.norm(x - start)))


def _too_wide(seen: Seen, *, settled: bool) -> bool:
    """Whether a layer has more units than inputs, and all of its hyperplanes were met.

    If nothing lies above it, those of the lowest layer are read in another way, and those of the second may yet be told.
    """
    if len(seen.surfaces) <= seen.floor.width:
        return False
    if seen.bent:
        return settled
    return not seen.floor.layers or seen.quiet >= FOLD


def _above(climb: _Climb) -> Floor:
    """The floor on top of all layers that were read."""
    floor = climb.seen[0].floor
    for read in climb.reads:
        floor = floor.above(read.weights, read.biases, read.sd)
    return floor


def _assembled(climb: _Climb) -> Deep:
    last = climb.reads[-1]
    assert last.readout is not None and last.offset is not None
    return Deep(tuple((read.weights, read.biases) for read in climb.reads), last.readout, last.offset)


def _network(deep: Deep) -> Network:
    layers = [Layer(weights, biases) for weights, biases in deep.layers]
    if deep.readout.shape[1] == 1:
        return Network(layers, deep.readout[:, 0], float(deep.offset[0]))
    return Network(layers, deep.readout, deep.offset)


def _partial(known: list[LayerRead], purse: Purse) -> Network:
    """The layers that are complete, under the black box."""
    layers = tuple((read.weights, read.biases) for read in known)
    outputs = len(known[0].seen.slopes[0].answer)
    width = len(known[-1].biases)
    readout = np.zeros(width) if outputs == 1 else np.zeros((width, outputs))
    return Network([Layer(*layer) for layer in layers], readout, top=Above(layers, purse))


def _hyperplanes(read: LayerRead) -> Network:
    """The hyperplanes of the lowest layer, the active sides of which are not known, with no readout."""
    if not len(read.weights):
        raise NotSeparated(
            f"{read.seen.lines} lines have met no hyperplane on which the answers bend.",
            "Either the function is linear, or all of its units are hidden by what lies above.", "Use a method for samples.")
    outputs, width = len(read.seen.slopes[0].answer), len(read.weights)
    return Network(Layer(read.weights, read.biases), np.zeros(width) if outputs == 1 else np.zeros((width, outputs)))

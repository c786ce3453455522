"""Rows that are not stored: drawn and computed again whenever they are read, in any order, by any worker, with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator, Philox

from laybare.errors import InvalidInput, LaybareError
from laybare.numerics.checks import as_generator, check_instance, check_memory, check_whole, show_value
from laybare.numerics.shapes import Array, Progress
from laybare.numerics.workspace import single_blas_thread
from laybare.source.laws import Box, Gaussian, Uniform, Unknown, as_law
from laybare.source.protocol import Law, Rows
from laybare.source.samples import as_float64, as_numeric
from laybare.source.sums import GRAIN, Schedule
from laybare.source.views import SourceMethods

InputSampler = Callable[[Generator, int], Array]


@dataclass(frozen=True, eq=False)
class InputStream:
    """Random inputs in grains of 1024 rows; grain i comes from a counter-based generator with this `key` at counter i.

    If `inputs` is given, it draws them instead of the law. No row lies outside of `box`.
    """

    dim: int
    law: Law
    box: Box | None
    inputs: InputSampler | None
    key: Array

    def __post_init__(self) -> None:
        if not np.array_equal(self.grain(0), self.grain(0)):
            raise InvalidInput(
                "inputs(rng, n) returned different rows for the same generator.", "Rows may be drawn again in every pass.",
                "Draw from the given generator only.")

    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop."""
        x = np.empty((stop - start, self.dim))
        _fill((x,), start, stop, lambda number: (self.grain(number),))
        return x

    def grain(self, number: int) -> Array:
        """One grain, (GRAIN, dim); one BLAS thread, since a matrix product in a law could differ in its last bit otherwise."""
        rng = Generator(Philox(key=self.key, counter=[0, 0, 0, number]))
        with single_blas_thread():
            if self.inputs is None:
                return self.law.draw(GRAIN, self.dim, rng)
            x = as_float64(np.asarray(as_numeric("inputs(rng, n)", _call_inputs(self.inputs, rng))))
        finite = bool(np.isfinite(x).all())
        if x.shape != (GRAIN, self.dim) or not finite:
            raise InvalidInput(
                f"inputs(rng, {GRAIN}) returned an array of shape {x.shape}{'' if finite else ' with NaN or infinity'}.",
                f"{GRAIN} finite rows of dimension {self.dim} were asked for.", "Return shape (n, dim).", shape=x.shape)
        if self.box is not None:
            self.box.check(x)
        return x


def check_sampler(inputs: Any) -> None:
    """Raise InvalidInput for what cannot draw inputs; None is left out."""
    if inputs is not None and not callable(inputs):
        raise InvalidInput(
            f"inputs is {show_value(inputs)}.", "It draws the inputs of the black box.",
            "Give a function (rng, n) -> x of shape (n, dim), or leave it out.")


def _call_inputs(inputs: InputSampler, rng: Generator) -> Any:
    try:
        return inputs(rng, GRAIN)
    except LaybareError:
        raise
    except Exception as error:  # the user's own code
        raise InvalidInput(
            f"inputs(rng, {GRAIN}) raised {type(error).__name__} ({error}).", "It draws the inputs of the black box.",
            "Give a function (rng, n) -> x of shape (n, dim).") from error


def _fill(arrays: Sequence[Array], start: int, stop: int, grain: Callable[[int], Sequence[Array]]) -> None:
    """Fill arrays with rows start..stop of the arrays that grain(0), grain(1), ... return."""
    for first in range(start - start % GRAIN, stop, GRAIN):
        low, high = max(start, first), min(stop, first + GRAIN)
        for whole, part in zip(arrays, grain(first // GRAIN), strict=True):
            whole[low - start : high - start] = part[low - first : high - first]


def sampling_law(law: Law, box: Box | None) -> Law:
    """The law that rows are drawn from: in a box, the uniform one."""
    if box is None:
        return law.complete()
    if isinstance(law, Gaussian) and (law.mean is not None or law.cov is not None):
        raise InvalidInput(
            "Both a box and a Gaussian law with a mean or covariance were given.", "Gaussian inputs leave every box.",
            "Leave the law out: inputs are then uniform in the box. Or draw them inside with inputs=.")
    return Uniform(box)


@dataclass(frozen=True, eq=False, init=False)
class Simulation(SourceMethods):
    """Rows of a function that is free to call: no budget, no ledger, no memory.

    Parameters
    ----------
    function : x (n, dim) -> (n,) or (n, outputs); pure, since every pass calls it again, on 1024 rows at a time
    dim : dimension of the inputs
    size : number of rows
    law : law the inputs are drawn from; Gaussian() means standard normal
    rng : seed or Generator, determines every input
    schedule : Schedule; with an engine, workers draw and compute their rows themselves
    inputs : callable (rng, n) -> x (n, dim), optional; draws the inputs instead of the law, which then only describes them
    """

    function: Callable[[Array], Any] = field(repr=False)
    dim: int
    size: int
    law: Law
    schedule: Schedule
    exchangeable: ClassVar[bool] = True
    outputs: int
    stream: InputStream = field(repr=False)
    is_portable: ClassVar[bool] = True

    def __init__(
        self, function: Callable[[Array], Any], dim: int, size: int, *, law: Law = Gaussian(), rng: Generator | int = 0,
        schedule: Schedule = Schedule(), inputs: InputSampler | None = None,
    ) -> None:
        dim, size = check_whole("dim", dim), check_whole("size", size, 2)
        check_memory(f"A block of {GRAIN} inputs of dimension {dim}", GRAIN * dim, "Give a smaller dim.")
        check_instance("schedule", schedule, Schedule, "Give Schedule(workers=...), or leave it out.")
        check_sampler(inputs)
        law = as_law(law)
        law.check(dim)
        law = law.complete() if inputs is None else law
        key = as_generator(rng).integers(2**64, size=2, dtype=np.uint64)
        values = {
            "function": function, "dim": int(dim), "size": int(size), "law": law, "schedule": schedule,
            "stream": InputStream(int(dim), law, None, inputs, key)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "outputs", self._grain(0).y.shape[1])

    @property
    def identity(self) -> tuple[Any, ...]:
        """What determines every row: size, key of the generator, and the first grain (in place of law and function)."""
        return self.size, self.stream.key, *self._grain(0)

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Nothing to do."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop, grain by grain: a row has the same bits in blocks of any size."""
        rows = Rows(np.empty((stop - start, self.dim)), np.empty((stop - start, self.outputs)))
        _fill(rows, start, stop, self._grain)
        return rows

    def _call(self, x: Array) -> Any:
        try:
            return self.function(x.copy())
        except LaybareError:
            raise
        except Exception as error:  # the user's own code, or no function at all
            raise InvalidInput(
                f"The function {show_value(self.function)} raised {type(error).__name__} ({error}).",
                f"It is called with an array of shape {x.shape}.",
                "Give a function x (n, dim) -> (n,) or (n, outputs).") from error

    def _grain(self, number: int) -> Rows:
        x = self.stream.grain(number)
        with single_blas_thread():
            y = as_float64(np.asarray(as_numeric("function(x)", self._call(x))))
        if y.ndim not in (1, 2) or len(y) != GRAIN or not np.isfinite(y).all():
            raise InvalidInput(
                f"function(x) returned an array of shape {y.shape} for rows {number * GRAIN} to {(number + 1) * GRAIN}"
                f"{'' if np.isfinite(y).all() else ', with NaN or infinity'}.", "Every row has one finite answer.",
                f"Return shape ({GRAIN},) or ({GRAIN}, outputs).", shape=y.shape, row=number * GRAIN)
        return Rows(x, y.reshape(GRAIN, -1))


@dataclass(frozen=True, eq=False)
class RedrawnRows(SourceMethods):
    """Rows first, first + 1, ... of a stream with known answers: inputs are drawn where they are read."""

    stream: InputStream
    first: int
    y: Array
    law: Law = Unknown()
    schedule: Schedule = Schedule()
    exchangeable: ClassVar[bool] = True

    @property
    def dim(self) -> int:
        return self.stream.dim

    @property
    def outputs(self) -> int:
        return int(self.y.shape[1])

    @property
    def size(self) -> int:
        return len(self.y)

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Nothing to do."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop."""
        return Rows(self.stream.rows(self.first + start, self.first + stop), self.y[start:stop])

"""A black box as a source: inputs are drawn, answers are bought."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.random import Generator, Philox

from laybare.blas import single_blas_thread
from laybare.errors import BudgetExhausted, InvalidInput
from laybare.shapes import Array, Event, Progress
from laybare.source.arrays import floats, numeric
from laybare.source.laws import Gaussian
from laybare.source.ledger import Ask, Ledger
from laybare.source.protocol import Law, Rows
from laybare.source.sums import GRAIN, Schedule
from laybare.source.views import Verbs

Draw = Callable[[Generator, int], Array]


@dataclass(frozen=True, eq=False)
class Oracle(Verbs):
    """A function that answers queries, with inputs drawn for it.

    Parameters
    ----------
    f : callable, x (n, dim) -> (n,) or (n, outputs); gets its own copy of x and is only called from the calling thread
    dim : dimension of the inputs
    law : law the inputs are drawn from; Gaussian() means standard normal
    budget : queries granted; never exceeded
    rng : seed or Generator, fixes every input
    schedule : Schedule, how passes are carried out
    inputs : callable (rng, n) -> x (n, dim), optional; draws the inputs instead of the law, which then only describes them

    Rows come in grains of 1024. Grain i is drawn from a counter-based generator at counter i, so that it can be drawn again at
    any time, in any order, by any worker, with the same bits; only answers are stored. Answers are bought when a row is first
    needed: one grain a call, in order, never twice. After `ask`, `size` is what the budget still allows.
    """

    f: Ask = field(repr=False)
    dim: int
    _: KW_ONLY
    law: Law = Gaussian()
    budget: int = 100_000
    rng: Generator | int = 0
    schedule: Schedule = Schedule()
    inputs: Draw | None = field(default=None, repr=False)
    _ledger: Ledger = field(init=False, repr=False)
    _key: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_arguments(self)
        self.law.check(self.dim)
        if self.inputs is None:
            object.__setattr__(self, "law", self.law.complete())
        object.__setattr__(self, "_ledger", Ledger(self.f, self.budget))
        object.__setattr__(self, "_key", np.random.default_rng(self.rng).integers(2**64, size=2, dtype=np.uint64))
        if not np.array_equal(self._draw(0), self._draw(0)):
            raise InvalidInput(
                "inputs(rng, n) returned different rows for the same generator.", "Rows are drawn again in every pass.",
                "Draw from the generator that is passed in, and from nothing else.")

    @property
    def size(self) -> int:
        return self.budget - self._ledger.chosen

    @property
    def outputs(self) -> int:
        """Number of outputs; buys the first grain if nothing has been asked yet."""
        if self._ledger.outputs is None:
            self.ready(0, 1, None)
        return self._ledger.outputs or 1

    @property
    def exchangeable(self) -> bool:
        return True

    @property
    def spent(self) -> int:
        """Queries answered so far."""
        return self._ledger.spent

    def ask(self, x: Array) -> Array:
        """Answers to chosen points, (n, outputs). They count against the budget and are not kept."""
        points = numeric("x", x)
        if points.ndim != 2 or points.shape[1] != self.dim or not np.isfinite(points[:]).all():
            raise InvalidInput(
                f"Points of shape {points.shape} were asked for.", f"The black box takes finite rows of dimension {self.dim}.",
                f"Give an array of shape (n, {self.dim}) without NaN or infinity.", shape=points.shape)
        with self._ledger.lock:
            return self._ledger.ask(np.array(points[:], dtype=np.float64, order="C"))

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Buy the answers up to row `stop`."""
        if stop <= self._ledger.kept:
            return
        with self._ledger.lock:
            if stop > self.size:
                raise BudgetExhausted(
                    f"Row {stop - 1} was asked for.",
                    f"The budget of {self.budget} queries has room for {self.size} drawn rows, and is never exceeded.",
                    "Grant a larger budget, or use fewer rows.", budget=self.budget, spent=self.spent, rows=stop)
            while self._ledger.kept < stop:
                self._ledger.buy(self._inputs(self._ledger.kept, min(self._ledger.kept + GRAIN, self.size)))
                if progress is not None:
                    progress(Event("queries", self._ledger.kept, stop))

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop; what is not yet paid for is bought."""
        self.ready(start, max(stop, 1), None)
        return Rows(self._inputs(start, stop), self._ledger.answers(start, stop))

    def _inputs(self, start: int, stop: int) -> Array:
        x = np.empty((stop - start, self.dim))
        for first in range(start - start % GRAIN, stop, GRAIN):
            low, high = max(start, first), min(stop, first + GRAIN)
            x[low - start : high - start] = self._draw(first // GRAIN)[low - first : high - first]
        return x

    def _draw(self, grain: int) -> Array:
        rng = Generator(Philox(key=self._key, counter=[0, 0, 0, grain]))
        with single_blas_thread():
            if self.inputs is None:
                return self.law.draw(GRAIN, self.dim, rng)
            x = floats(np.asarray(numeric("inputs(rng, n)", self.inputs(rng, GRAIN))))
        finite = bool(np.isfinite(x).all())
        if x.shape != (GRAIN, self.dim) or not finite:
            raise InvalidInput(
                f"inputs(rng, {GRAIN}) returned an array of shape {x.shape}{'' if finite else ' with NaN or infinity'}.",
                f"{GRAIN} finite rows of dimension {self.dim} were asked for.", "Return shape (n, dim).", shape=x.shape)
        return x


def _check_arguments(oracle: Oracle) -> None:
    if not callable(oracle.f):
        raise InvalidInput(
            f"f is a {type(oracle.f).__name__}.", "A black box is called with inputs (n, dim) and returns outputs.",
            "Give a function; for pairs that are there already use Samples.")
    for name, number, least in (("dim", oracle.dim, 1), ("budget", oracle.budget, 2)):
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < least:
            raise InvalidInput(
                f"{name} is {number!r}.", f"It must be a whole number, at least {least}.", f"Give such a {name}.",
                **{name: number})

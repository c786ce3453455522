"""A black box as a source: inputs are drawn or chosen, answers are bought once and kept."""

from __future__ import annotations

from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from laybare.errors import BudgetExhausted, InvalidInput
from laybare.shapes import Array, Event, Progress, tell
from laybare.source import links
from laybare.source.answered import merged, row_keys
from laybare.source.arrays import numeric
from laybare.source.bounds import Box
from laybare.source.drawing import Draw, Drawing, drawn_law
from laybare.source.joined import Joined, Listed
from laybare.source.laws import Gaussian, as_law
from laybare.source.ledger import Ledger
from laybare.source.log import Log
from laybare.source.protocol import Law, Rows, Source
from laybare.source.remote_answers import RemoteTarget
from laybare.source.rounding import Rounding, measure_rounding
from laybare.source.simulation import Redrawn
from laybare.source.sums import GRAIN, Schedule
from laybare.source.targets import as_target
from laybare.source.targets.target import digest
from laybare.source.views import Verbs
from laybare.source.wire import Wire

MEMORY = 1 << 30
"""Bytes of drawn inputs that are kept by default, and as many of chosen ones: 170,000 rows of 784 numbers."""

TOWARDS = 6
"""Times that inputs are made four times smaller where probabilities are 0 or 1 to rounding."""


@dataclass(frozen=True, eq=False, init=False)
class Oracle(Verbs):
    """A function that answers queries, with inputs drawn for it.

    Parameters
    ----------
    target
        What is asked: a function x (n, dim) -> (n,) or (n, outputs), a Network, a fitted scikit-learn model or pipeline, a
        torch module, an ONNX session, a file .onnx or .safetensors, "module:function", an http(s) address or an Endpoint. It is
        only called from the calling thread, with a copy of x.
    dim : dimension of the inputs; may be left out where the target knows it
    law : law the inputs are drawn from; Gaussian() means standard normal, or uniform in the box if there is one
    budget : queries granted; never exceeded
    log : a folder, optional; every answer is on disk before it is used, and the same call goes on where it stopped
    link : "identity", "logit" or "softmax"; by default rows of probabilities that add to one are recognised
    box : (low, high), numbers or arrays, optional; no query leaves it
    rng : seed or Generator, fixes every input
    schedule : Schedule, how passes are carried out; with an engine, workers draw and ask, and are counted here
    inputs : callable (rng, n) -> x (n, dim), optional; draws the inputs instead of the law, which then only describes them
    batch : rows in one call, at most; by default what the target says, else all
    name : what a log calls the target, if its own name does not tell it from others
    memory
        Bytes of drawn inputs that are kept, and as many of chosen ones; drawn rows beyond are drawn again in every pass, chosen
        points beyond are answered but not kept.

    Rows come in grains of 1024. Grain i is drawn from a counter-based generator at counter i, so that it can be drawn again at
    any time, in any order, by any worker, with the same bits. Answers are bought when a row is first needed: one grain a call,
    in order, never twice. After `ask`, `size` is what the budget still allows.
    """

    target: Any = field(repr=False)
    dim: int
    law: Law
    budget: int
    link: str | None
    box: Box | None = field(repr=False)
    schedule: Schedule
    name: str
    _drawing: Drawing = field(repr=False)
    _ledger: Ledger = field(repr=False)

    def __init__(
        self, target: Any, dim: int | None = None, *, law: Law = Gaussian(), budget: int = 100_000,
        log: str | PathLike[str] | None = None, link: str | None = None, box: Any = None, rng: Generator | int = 0,
        schedule: Schedule = Schedule(), inputs: Draw | None = None, batch: int | None = None, name: str | None = None,
        memory: int = MEMORY,
    ) -> None:
        resolved = as_target(target)
        dim = _agreed_dim(dim, resolved.dim)
        _check_number("budget", budget, 2)
        _check_number("memory", memory, 0)
        _check_number("batch", 1 if batch is None else batch, 1)
        box = None if box is None else Box.of(box, dim)
        law = as_law(law)
        law.check(dim)
        law = drawn_law(law, box) if inputs is None else law
        key = np.random.default_rng(rng).integers(2**64, size=2, dtype=np.uint64)
        values = {
            "target": target, "dim": dim, "law": law, "budget": budget, "link": link, "box": box, "schedule": schedule,
            "name": name or resolved.name, "_drawing": Drawing(dim, law, box, inputs, key)}
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)
        chosen = links.link_named(link)
        opened = None if log is None else Log(Path(log), self._identity())
        ask, engine, most = resolved.ask, schedule.engine, batch or resolved.batch
        asked = ask if engine is None else RemoteTarget(ask, self._drawing, engine, most)
        wire = Wire(asked, batch=most, log=opened, labels=link is not None)
        object.__setattr__(self, "_ledger", Ledger(wire, chosen, budget, dim, memory))

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
        """Queries answered so far, by the black box or from its log."""
        return self._ledger.spent

    @property
    def replayed(self) -> int:
        """Those of them that the log answered."""
        return self._ledger.wire.replayed

    @property
    def queries(self) -> dict[str, int]:
        """What queries were spent on: counts by purpose, in the order of their first use."""
        return {name: count for name, count in self._ledger.queries.items() if count}

    @property
    def taken_as(self) -> str:
        """The link that is in use: "identity", "logit" or "softmax"; buys the first grain if nothing has been asked yet."""
        if self._ledger.link.name is None:
            self.ready(0, 1, None)
        return self._ledger.link.name or "identity"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about the answers: what they were taken for, how finely they are resolved if that was measured."""
        measured = (self.rounding.sentence,) if "rounding" in self.__dict__ else ()
        return (links.sentence(self._ledger.link), *measured)

    @cached_property
    def rounding(self) -> Rounding:
        """How finely the answers are resolved; a few queries when it is first asked for (see `measure_rounding`)."""
        link = self._ledger.link
        with self.purpose("rounding"):
            try:
                found = measure_rounding(lambda x: link.back(self.ask(x)), self.typical(2))
            except InvalidInput:
                if link.name in (None, "identity"):
                    raise
                found = measure_rounding(lambda x: link.back(self.ask(x)), self.unsaturated(2))
        return replace(found, log_odds=link.name != "identity")

    def typical(self, rows: int) -> Array:
        """The first drawn inputs, without asking about them."""
        return self._drawing.rows(0, rows)

    def unsaturated(self, rows: int) -> Array:
        """The same, moved towards the middle of the inputs until the answers there can be used; a query a row and move."""
        x, middle = self.typical(rows), self.typical(GRAIN).mean(axis=0)
        for _ in range(TOWARDS):
            if np.isfinite(self.ask(x, gaps=True, reuse=True)).all():
                break
            x = middle + (x - middle) / 4.0
        return x

    def inside(self, box: Any) -> Oracle:
        """The same black box with the same budget and answers; chosen points never leave this box, (low, high)."""
        view = copy(self)
        object.__setattr__(view, "box", Box.of(box, self.dim))
        return view

    def scheduled(self, schedule: Schedule) -> Oracle:
        """The same black box with the same budget and answers; passes are carried out in another way."""
        view = copy(self)
        object.__setattr__(view, "schedule", schedule)
        return view

    @property
    def identity(self) -> dict[str, Any]:
        """What decides every row and answer."""
        return {"budget": self.budget, **self._identity()}

    @property
    def logged(self) -> bool:
        """Whether answers are on disk."""
        return self._ledger.wire.log is not None

    def purpose(self, name: str) -> AbstractContextManager[None]:
        """`with oracle.purpose("kinks"):` books every query inside, drawn or chosen, under that name."""
        return self._ledger.purpose(name)

    def ask(self, x: Array, *, purpose: str | None = None, reuse: bool = False, gaps: bool = False) -> Array:
        """Answers to chosen points, (n, outputs). They count against the budget and are kept (see `answered`).

        With `reuse`, a chosen point that was answered before is not asked again; without it, it is, which shows noise.
        With `gaps`, an answer that cannot be used (a saturated probability, NaN) is a row of NaN instead of an error.
        """
        points = numeric("x", x)
        if points.ndim != 2 or points.shape[1] != self.dim or not np.isfinite(points[:]).all():
            raise InvalidInput(
                f"Points of shape {points.shape} were asked for.", f"The black box takes finite rows of dimension {self.dim}.",
                f"Give an array of shape (n, {self.dim}) without NaN or infinity.", shape=points.shape)
        rows = np.array(points[:], dtype=np.float64, order="C")
        if self.box is not None:
            self.box.check(rows)
        if not len(rows):
            return np.empty((0, self._ledger.outputs or 1))
        with self._ledger.lock:
            answers = self._reused(rows, purpose, gaps) if reuse else self._ledger.ask(rows, purpose, gaps=gaps)
        tell(self.schedule.progress, "queries", self.spent, self.budget, "queries")
        return answers

    def answered(self, *purposes: str) -> Source:
        """Everything asked so far, drawn rows first, then chosen points, or only what was asked for these purposes.

        A snapshot that costs nothing and asks nothing; its law is Unknown. Answers that could not be used are left out.
        """
        with self._ledger.lock:
            drawn = [self.between(run.start, run.stop) for run in merged(self._ledger.stretches, purposes)]
            runs = merged(self._ledger.points.stretches, purposes)
            chosen = [self._ledger.points.between(run.start, run.stop) for run in runs]
        if not drawn and not chosen:
            raise InvalidInput(
                f"Nothing has been answered{' for ' + ', '.join(purposes) if purposes else ''} so far.",
                "A source needs rows.", "Ask first.", purposes=purposes)
        return Joined((*drawn, *(Listed(x, y) for x, y in chosen)), schedule=self.schedule)

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
                self._ask_ahead(stop)
                self._ledger.buy(self._drawing.rows(self._ledger.kept, min(self._ledger.kept + GRAIN, self.size)))
                if progress is not None:
                    progress(Event("queries", self._ledger.kept, stop))

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop; what is not yet paid for is bought."""
        self.ready(start, max(stop, 1), None)
        kept = self._ledger.inputs(start, stop)
        return Rows(self._drawing.rows(start, stop) if kept is None else kept, self._ledger.answers(start, stop))

    def bought(self, start: int, stop: int) -> Source:
        """Rows start..stop, which have been paid for, as a worker can read them: it draws the inputs itself."""
        return Redrawn(self._drawing, start, np.array(self._ledger.answers(start, stop)))

    def _ask_ahead(self, stop: int) -> None:
        """Have workers answer the next rows, if there are workers and nothing waits. What a log knows is not asked."""
        remote, start = self._ledger.wire.ask, self._ledger.kept
        if not isinstance(remote, RemoteTarget) or self._ledger.refusal is not None or remote.here or start % GRAIN:
            return
        last = start
        for grain in range(start, min(self.size, start + remote.window(), -(-stop // GRAIN) * GRAIN), GRAIN):
            end = min(grain + GRAIN, self.size)
            if self._ledger.wire.waiting.known(self._drawing.rows(grain, end)).any():
                break
            last = end
        if last > start:
            remote.ahead(start, last)

    def _reused(self, x: Array, purpose: str | None, gaps: bool) -> Array:
        known, found = self._ledger.points.find(x)
        keys = row_keys(x[~known])
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        rows = np.array(sorted(first.values()), dtype=int)
        if not len(rows):
            return found
        fresh = self._ledger.ask(x[~known][rows], purpose, gaps=gaps)
        y = np.empty((len(x), fresh.shape[1]))
        y[~known] = fresh[np.searchsorted(rows, [first[key] for key in keys])]
        if known.any():
            y[known] = found
        return y

    def _identity(self) -> dict[str, Any]:
        """What a log must agree with: the model, and the first drawn inputs, which seed, law and box decide."""
        return {
            "model": self.name, "dim": self.dim, "seed": "".join(f"{half:016x}" for half in self._drawing.key),
            "law": type(self.law).__name__, "box": None if self.box is None else digest([self.box.low, self.box.high]),
            "link": self.link, "inputs": digest([self._drawing.grain(0)])}


def _agreed_dim(given: int | None, known: int | None) -> int:
    if given is None and known is None:
        raise InvalidInput(
            "The dimension of the inputs is not known.", "The black box does not say it.", "Give it: Oracle(target, dim).")
    if given is not None:
        _check_number("dim", given, 1)
    if given is not None and known is not None and given != known:
        raise InvalidInput(
            f"dim is {given}, and the black box takes inputs of dimension {known}.", "They must agree.",
            "Leave dim out.", dim=given, known=known)
    return int(known if given is None else given)  # type: ignore[arg-type]  # one of them is there


def _check_number(name: str, number: Any, least: int) -> None:
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < least:
        raise InvalidInput(
            f"{name} is {number!r}.", f"It must be a whole number, at least {least}.", f"Give such a {name}.", **{name: number})

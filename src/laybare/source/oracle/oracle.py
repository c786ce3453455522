"""A black box as a source: inputs are drawn or chosen, every answer is asked once and kept.

Queries in pairs (x, -x) make any law of the inputs symmetric and split the answers into odd and even parts. For
y(x) = A act(Wx) + c with act(t) = t above zero and a·t below,

    (y(x) - y(-x))/2 = (1+a)/2 AWx          (y(x) + y(-x))/2 = (1-a)/2 A|Wx| + c

at every point, so dim pairs determine AW, without averages.
Source: Ge, Kuditipudi, Li and Wang (2019), introduction: inputs augmented by their negations; the pointwise split is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import BudgetExhausted, InvalidInput
from laybare.networks import Network
from laybare.numerics.checks import (
    as_generator,
    check_instance,
    check_memory,
    check_path,
    check_text,
    check_whole,
)
from laybare.numerics.shapes import Array, Event, Progress, report_progress
from laybare.source.derived import JoinedSource, StackedRows
from laybare.source.laws import Box, Gaussian, Unknown, as_law
from laybare.source.oracle import links
from laybare.source.oracle.ledger import Ledger, merge_ranges
from laybare.source.oracle.log import QueryLog
from laybare.source.oracle.regions import InputRegion, RowMixture, check_inputs, read_rows
from laybare.source.oracle.targets import as_target, digest
from laybare.source.oracle.transport import QueryTransport, RemoteTarget
from laybare.source.protocol import Law, Rows, Source
from laybare.source.rounding import Rounding, measure_rounding
from laybare.source.samples import ColumnNames, as_numeric, row_keys
from laybare.source.simulation import InputSampler, InputStream, RedrawnRows, sampling_law
from laybare.source.sums import GRAIN, Schedule
from laybare.source.views import SourceMethods

MAX_SHRINK_STEPS = 6
"""Times that inputs are divided by four to leave the region where probabilities are 0 or 1 to rounding.
Checked by `pytest tests/source/test_links.py`."""


DRAWN_COPIES = 4
"""Blocks of inputs that drawing holds. Derived: two draws are compared, each drawn and scaled."""


@dataclass(frozen=True, eq=False, init=False)
class Oracle(SourceMethods):
    """A function that answers queries, and inputs drawn for it.

    Parameters
    ----------
    target
        What is asked: a function x (n, dim) -> (n,) or (n, outputs), a Network, a fitted scikit-learn model or pipeline, a
        torch module, an ONNX session, a file .onnx or .safetensors, "module:function", an http(s) address or an Endpoint. It is
        only called from the calling thread, with a copy of x.
    dim : dimension of the inputs; may be left out if the target knows it
    law : law of the inputs; Gaussian() means standard normal, or uniform in the box if there is one
    budget : largest number of queries; never exceeded
    log : a folder, optional; every answer is on disk before it is used, and the same call continues where it stopped
    link : "identity", "logit" or "softmax"; by default rows of probabilities that sum to one are recognised
    box : (low, high), numbers or arrays, optional; no query leaves it
    rng : seed or Generator, determines every drawn input
    schedule : Schedule, how passes are carried out; with an engine, workers draw and ask, and are counted here
    inputs
        Rows that the black box is meant for: an array, a DataFrame or a file (.csv, .parquet, .npy, .npz). Location, scale and
        range of every input come from them, and fresh inputs are drawn between them. Or a callable (rng, n) -> x (n, dim) that
        draws; the law then only describes them. Without inputs, law and box, the model's own scaler is read where it has one.
    batch : largest number of rows per call; by default that of the target, else all
    name : name of the target in the log, if its own name is not unique
    memory
        Bytes of drawn inputs that are kept, and as many of chosen ones; drawn rows beyond are drawn again in every pass, chosen
        points beyond are answered but not kept.

    Rows come in grains of 1024. Grain i is drawn from a counter-based generator at counter i: any worker can draw it again, at
    any time and in any order, with the same bits. A row is asked when it is first needed: one grain per call, in order, never
    twice. After `ask`, `size` is what the budget still allows.
    """

    target: Any = field(repr=False)
    dim: int
    law: Law
    link: str | None
    box: Box | None = field(repr=False)
    schedule: Schedule
    exchangeable: ClassVar[bool] = True
    name: str
    region: InputRegion | None = field(repr=False)
    columns: ColumnNames = field(repr=False)
    _remark: str = field(repr=False)
    _standardised: bool = field(repr=False)
    _stream: InputStream = field(repr=False)
    _ledger: Ledger = field(repr=False)

    def __init__(
        self, target: Any, dim: int | None = None, *, law: Law = Gaussian(), budget: int = 100_000,
        log: str | PathLike[str] | None = None, link: str | None = None, box: Any = None, rng: Generator | int = 0,
        schedule: Schedule = Schedule(), inputs: Any = None, batch: int | None = None, name: str | None = None,
        memory: int = 1 << 30,
    ) -> None:
        resolved = as_target(target)
        rows = None if check_inputs(inputs) else read_rows(inputs, resolved.dim if dim is None else dim)
        dim = _check_dim(dim, resolved.dim, None if rows is None else rows.x.shape[1])
        budget, memory = check_whole("budget", budget, 2), check_whole("memory", memory, 0)
        check_memory(f"A budget of {budget:,} answers", budget, "Give a smaller budget.")
        check_memory(f"Blocks of {GRAIN} inputs of dimension {dim}", DRAWN_COPIES * GRAIN * dim, "Give a smaller dim.")
        batch = None if batch is None else check_whole("batch", batch)
        name = None if name is None else check_text("name", name)
        check_instance("schedule", schedule, Schedule, "Give Schedule(workers=...), or leave it out.").threads(1)
        box = None if box is None else Box.of(box, dim)
        law = as_law(law)
        law.check(dim)
        own = resolved.region if inputs is None and box is None and law == Gaussian() else None
        if rows is not None:
            inputs, law = RowMixture(_rows_inside(rows.x, box)), Unknown() if law == Gaussian() else law
        elif own is not None:
            law = Gaussian(own.location, np.diag(own.scale**2))
        law = sampling_law(law, box) if inputs is None else law
        link = resolved.link if link is None else link
        key = as_generator(rng).integers(2**64, size=2, dtype=np.uint64)
        values = {
            "target": target, "dim": dim, "law": law, "link": link, "box": box, "schedule": schedule,
            "name": name or resolved.name, "_stream": InputStream(dim, law, box, inputs, key),
            "columns": ColumnNames() if rows is None else ColumnNames(rows.names, ()), "_remark": resolved.remark,
            "_standardised": False, "region": None}
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)
        object.__setattr__(self, "region", own or self._region(None if rows is None else rows.x))
        chosen = links.link_named(link)
        opened = None if log is None else QueryLog(check_path("log", log), self._identity())
        ask, engine, most = resolved.ask, schedule.engine, batch or resolved.batch
        asked = ask if engine is None else RemoteTarget(ask, self._stream, engine, most)
        transport = QueryTransport(asked, batch=most, log=opened, labels=link is not None)
        object.__setattr__(self, "_ledger", Ledger(transport, chosen, budget, dim, memory))

    def __repr__(self) -> str:
        limits = "" if self.box is None else ", in a box"
        return f"Oracle({self.name}, {self.dim} inputs{limits}, {self.spent:,} of {self.budget:,} queries spent)"

    def _repr_html_(self) -> str:
        from laybare.report.notebook import oracle_html

        return oracle_html(self)

    @property
    def budget(self) -> int:
        """Largest number of queries; those that were answered, once the black box answers no more (an interrupt)."""
        return self._ledger.budget

    @property
    def ended(self) -> bool:
        """Whether the black box answers no more, although the budget allowed it."""
        return self._ledger.ended

    @property
    def size(self) -> int:
        return self.budget - self._ledger.chosen

    @property
    def outputs(self) -> int:
        """Number of outputs; asks the first grain if nothing has been asked yet."""
        if self._ledger.outputs is None:
            self.ready(0, 1, None)
        return self._ledger.outputs or 1

    @property
    def spent(self) -> int:
        """Number of queries answered so far, by the black box or from its log."""
        return self._ledger.spent

    @property
    def replayed(self) -> int:
        """Number of queries that the log answered."""
        return self._ledger.transport.replayed

    @property
    def queries(self) -> dict[str, int]:
        """Number of queries by purpose, in the order of first use."""
        return {name: count for name, count in self._ledger.queries.items() if count}

    @property
    def link_in_use(self) -> str:
        """The link in use: "identity", "logit" or "softmax"; asks the first grain if nothing has been asked yet."""
        if self._ledger.link.name is None:
            self.ready(0, 1, None)
        return self._ledger.link.name or "identity"

    @property
    def resolution(self) -> Callable[[], Rounding | None] | None:
        """Gives the grid of the probabilities seen so far; None if answers are outputs. Asks one point if nothing was asked."""
        if self.link != "identity" and self._ledger.link.name is None:
            self.ask(self.typical(1), purpose="first look", gaps=True)
        return None if self._ledger.link.name in (None, "identity") else partial(links.resolution_of, self._ledger.link)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about the answers: their link, and their resolution if it was measured."""
        measured = (self.rounding.sentence,) if "rounding" in self.__dict__ else ()
        where = () if self.region is None else (self.region.sentence,)
        return (links.describe(self._ledger.link), *measured, *where, *((self._remark,) if self._remark else ()))

    @property
    def structure(self) -> str:
        """What the model's own file says about its structure; empty if nothing."""
        return self._remark

    @cached_property
    def rounding(self) -> Rounding:
        """The resolution of the answers; a few queries at the first access (see `measure_rounding`)."""
        link = self._ledger.link
        with self.purpose("rounding"):
            try:
                found = measure_rounding(lambda x: link.inverse(self.ask(x)), self.typical(2))
            except InvalidInput:
                if link.name in (None, "identity"):
                    raise
                found = measure_rounding(lambda x: link.inverse(self.ask(x)), self.unsaturated(2))
        return replace(found, log_odds=link.name != "identity")

    def typical(self, rows: int) -> Array:
        """The first drawn inputs; no queries."""
        return self._in_units(self._stream.rows(0, rows))

    def fresh_inputs(self, start: int, rows: int) -> Array:
        """Inputs that no pass draws: from row `start` beyond the budget, moved into the box. No queries."""
        x = self._in_units(self._stream.rows(self.size + start, self.size + start + rows))
        return x if self.box is None else np.clip(x, self.box.low, self.box.high)

    def standardised(self) -> Oracle:
        """The same black box with the same budget and answers, asked in standard units of its region; itself without one."""
        if self.region is None or self.region.standard:
            return self
        box = None if self.box is None else Box(self.region.white(self.box.low), self.region.white(self.box.high))
        return self._changed(_standardised=True, box=box)

    @property
    def as_given(self) -> Oracle:
        """The same black box, asked at inputs as they are given."""
        if not self._standardised or self.region is None:
            return self
        box = None if self.box is None else Box(self.region.given(self.box.low), self.region.given(self.box.high))
        return self._changed(_standardised=False, box=box)

    def on_given_inputs(self, network: Network) -> Network:
        """A network that was read from this view, on the inputs as they are given."""
        return self.region.network_on_given(network) if self._standardised and self.region is not None else network

    def _in_units(self, x: Array) -> Array:
        return self.region.white(x) if self._standardised and self.region is not None else x

    def _region(self, rows: Array | None) -> InputRegion | None:
        """Of the user's rows, of a law that is not the standard one, or of a box with unequal sides."""
        if rows is not None:
            return InputRegion.of_rows(rows, f"like the {len(rows):,} rows given")
        sides = None if self.box is None else self.box.high - self.box.low
        if sides is not None and np.ptp(sides) <= 1e-9 * sides.max():
            return None
        if sides is None and self.law == Gaussian().complete() and self._stream.inputs is None:
            return None
        said = "in the box" if sides is not None else "of the law given" if self._stream.inputs is None else "as they are drawn"
        return InputRegion.of_rows(self._stream.grain(0), said)

    def unsaturated(self, rows: int) -> Array:
        """The same, moved towards the mean of the inputs until the answers can be used; one query per row and move."""
        x, middle = self.typical(rows), self.typical(GRAIN).mean(axis=0)
        for _ in range(MAX_SHRINK_STEPS):
            if np.isfinite(self.ask(x, gaps=True, reuse=True)).all():
                break
            x = middle + (x - middle) / 4.0
        return x

    def inside(self, box: Any) -> Oracle:
        """The same black box with the same budget and answers; chosen points never leave this box, (low, high)."""
        return self._changed(box=Box.of(box, self.dim))

    def scheduled(self, schedule: Schedule) -> Oracle:
        """The same black box with the same budget and answers, and another schedule."""
        return self._changed(schedule=schedule)

    def _changed(self, **values: Any) -> Oracle:
        """The same black box with the same budget and answers, and these fields."""
        view = copy(self)
        for name, value in values.items():
            object.__setattr__(view, name, value)
        return view

    @property
    def identity(self) -> dict[str, Any]:
        """What determines every row and answer."""
        return {"budget": self.budget, **self._identity()}

    @property
    def logged(self) -> bool:
        """Whether answers are on disk."""
        return self._ledger.transport.log is not None

    def purpose(self, name: str) -> AbstractContextManager[None]:
        """`with oracle.purpose("kinks"):` counts every query inside, drawn or chosen, under that name."""
        return self._ledger.purpose(name)

    def ask(self, x: Array, *, purpose: str | None = None, reuse: bool = False, gaps: bool = False) -> Array:
        """Answers to chosen points, (n, outputs). They count against the budget and are kept (see `answered`).

        With `reuse`, a chosen point is not asked again; without it, it is, which shows noise. With `gaps`, an answer that cannot
        be used (a saturated probability, NaN) is a row of NaN instead of an error.
        """
        points = as_numeric("x", x)
        purpose = None if purpose is None else check_text("purpose", purpose)
        if points.ndim != 2 or points.shape[1] != self.dim or not np.isfinite(points[:]).all():
            raise InvalidInput(
                f"Points of shape {points.shape} were asked for.", f"The black box takes finite rows of dimension {self.dim}.",
                f"Give an array of shape (n, {self.dim}) without NaN or infinity.", shape=points.shape)
        rows = np.array(points[:], dtype=np.float64, order="C")
        if self.box is not None:
            self.box.check(rows)
        if not len(rows):
            return np.empty((0, self._ledger.outputs or 1))
        if self._standardised and self.region is not None:
            rows = np.ascontiguousarray(self.region.given(rows))
        with self._ledger.lock:
            answers = self._ask_reusing(rows, purpose, gaps) if reuse else self._ledger.ask(rows, purpose, gaps=gaps)
        report_progress(self.schedule.progress, "queries", self.spent, self.budget, "queries")
        return answers

    def answered(self, *purposes: str) -> Source:
        """Everything asked so far, drawn rows first, then chosen points, or only what was asked for these purposes.

        A snapshot without queries; its law is Unknown. Answers that could not be used are left out.
        """
        with self._ledger.lock:
            drawn = [self.between(run.start, run.stop) for run in merge_ranges(self._ledger.ranges, purposes)]
            runs = merge_ranges(self._ledger.points.ranges, purposes)
            chosen = [self._ledger.points.between(run.start, run.stop) for run in runs]
        if not drawn and not chosen:
            raise InvalidInput(
                f"Nothing has been answered{' for ' + ', '.join(purposes) if purposes else ''} so far.",
                "A source needs rows.", "Ask first.", purposes=purposes)
        return JoinedSource((*drawn, *(StackedRows(x, y) for x, y in chosen)), schedule=self.schedule)

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Ask all rows up to `stop`."""
        if stop <= self._ledger.kept:
            return
        with self._ledger.lock:
            if stop > self.size:
                raise BudgetExhausted(
                    f"Row {stop - 1} was asked for.",
                    f"The budget of {self.budget} queries allows {self.size} drawn rows, and is never exceeded.",
                    "Give a larger budget, or use fewer rows.", budget=self.budget, spent=self.spent, rows=stop)
            while self._ledger.kept < stop:
                self._prefetch(stop)
                self._ledger.ask_next(self._stream.rows(self._ledger.kept, min(self._ledger.kept + GRAIN, self.size)))
                if progress is not None:
                    progress(Event("queries", self._ledger.kept, stop))

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop; asks those that were not yet asked."""
        self.ready(start, max(stop, 1), None)
        kept = self._ledger.inputs(start, stop)
        return Rows(self._stream.rows(start, stop) if kept is None else kept, self._ledger.answers(start, stop))

    def as_redrawn(self, start: int, stop: int) -> Source:
        """Rows start..stop, which have been asked, for a worker: it draws the inputs itself."""
        return RedrawnRows(self._stream, start, np.array(self._ledger.answers(start, stop)))

    def _prefetch(self, stop: int) -> None:
        """Let workers answer the next rows, if there are workers and no prefetched rows. Rows in the log are not asked."""
        remote, start = self._ledger.transport.ask, self._ledger.kept
        if not isinstance(remote, RemoteTarget) or self._ledger.failure is not None or remote.prefetched or start % GRAIN:
            return
        last = start
        for grain in range(start, min(self.size, start + remote.prefetch_rows(), -(-stop // GRAIN) * GRAIN), GRAIN):
            end = min(grain + GRAIN, self.size)
            if self._ledger.transport.replay.known(self._stream.rows(grain, end)).any():
                break
            last = end
        if last > start:
            remote.prefetch(start, last)

    def _ask_reusing(self, x: Array, purpose: str | None, gaps: bool) -> Array:
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
        """What a log must match: the model, and the first drawn inputs, which seed, law and box determine."""
        return {
            "model": self.name, "dim": self.dim, "seed": "".join(f"{half:016x}" for half in self._stream.key),
            "law": type(self.law).__name__, "box": None if self.box is None else digest([self.box.low, self.box.high]),
            "link": self.link, "inputs": digest([self._stream.grain(0)])}


def _rows_inside(x: Array, box: Box | None) -> Array:
    """Rows that lie in the box; at least two are needed."""
    if box is None:
        return x
    inside = np.delete(x, box.outside(x), axis=0)
    if len(inside) < 2:
        raise InvalidInput(
            f"{len(inside)} of the {len(x)} rows of inputs lie inside of the box.", "Fresh inputs are drawn between them.",
            "Give a box that holds the rows, or leave one of the two out.", inside=len(inside))
    return inside


def _check_dim(given: int | None, known: int | None, of_rows: int | None = None) -> int:
    known = of_rows if known is None and given is None else known
    if given is None and known is None:
        raise InvalidInput(
            "The dimension of the inputs is not known.", "The black box does not have it.", "Give it with dim=.")
    if given is not None and known is not None and check_whole("dim", given) != known:
        raise InvalidInput(
            f"dim is {given}, and the black box takes inputs of dimension {known}.", "They must agree.",
            "Leave dim out.", dim=given, known=known)
    return check_whole("dim", known if given is None else given)


def paired_inputs(draw: InputSampler) -> InputSampler:
    """Inputs x₀, -x₀, x₁, -x₁, ... from any generator of inputs, for `Oracle(f, dim, law=Symmetric(), inputs=...)`.

    Rows 2i..2j are exactly symmetric: their odd averages vanish to rounding.
    """

    def pairs(rng: Generator, n: int) -> Array:
        half = np.asarray(draw(rng, (n + 1) // 2))
        both: Array = np.stack([half, -half], axis=1).reshape(-1, half.shape[1])
        return both[:n]

    return pairs


class Parity(NamedTuple):
    """Odd and even part of a black box at some points, (n, outputs) each."""

    odd: Array
    even: Array


def split_parity(oracle: Oracle, x: Array) -> Parity:
    """Ask x and -x, two queries per point, and split the answers. Exact for a black box without noise."""
    if len(x) == 0:
        raise InvalidInput("No points were asked for.", "There is nothing to split.", "Give at least one row.", shape=np.shape(x))
    answers = oracle.ask(np.concatenate([x, -np.asarray(x)]))
    above, below = answers[: len(x)], answers[len(x) :]
    return Parity((above - below) / 2, (above + below) / 2)

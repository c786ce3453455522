"""Before a recovery: `laybare check DATA` (which assumptions hold, which methods fit) and `laybare plan` (what it would take).

A plan says passes, operations, bytes and seconds, from rates measured here in a few seconds. Nearly all of the time goes into
passes over all rows: least squares, gradients, products with JᵀJ and normal equations; the certificate tries other features on
many of them. Their operations per row are known; how many of them a second this machine does is measured by running each on a
block (`Rates`). How often each is carried out is a count from recoveries of noisy samples with known width (`_counts`); it varies
from one data set to another, and noiseless samples take a fifth.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

import laybare as lb
from laybare.activations import relu
from laybare.certificate.error_propagation import ERRORS
from laybare.certificate.explanations import FEATURES
from laybare.certificate.fitted_network import ROWS
from laybare.cli.output import Output, examples, output_options
from laybare.cli.samples_commands import data_options, open_data
from laybare.cli.wording import METHODS, in_command_line_words
from laybare.methods.choosing import Choice
from laybare.numerics.checks import check_instance, check_whole, show_bytes
from laybare.numerics.shapes import Array, Statistic, report_progress
from laybare.numerics.workspace import single_blas_thread
from laybare.search.settings import SEARCH, Search
from laybare.solver.matrix_free import GradientStatistic, ProductStatistic
from laybare.solver.normal import FitStatistic, StepStatistic
from laybare.solver.options import COST, SOLVER
from laybare.solver.point import Model, Point, split
from laybare.source import Samples, Schedule, block_rows
from laybare.source.problem import count_distinct_inputs


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Counts and rates behind a plan: passes of noisy recoveries with given width."""

    reading: int = 6  # Passes that read all rows. Checked by `pytest tests/pipeline`.
    least_squares: int = 8  # Least-squares fits of all rows. Checked by `pytest tests/pipeline`.
    gradients: int = 5  # Gradients of all rows, if there are many unknowns. Checked by `pytest tests/pipeline`.
    products: int = 7  # Products with all rows, if there are many unknowns. Checked by `pytest tests/pipeline`.
    normal_equations: int = 10  # Normal equations of all rows, if there are few. Checked by `pytest tests/pipeline`.
    search_steps: int = 100  # Normal equations of subsamples where they are cheap. Checked by `pytest tests/pipeline`.
    expensive_search_steps: int = 25  # The same where each serves several steps. Checked by `pytest tests/pipeline`.
    subspace_steps: int = 3  # The same with all inputs after a search in a subspace. Checked by `pytest tests/pipeline`.
    seconds_between: float = 0.8  # Seconds between passes, whatever the size. Checked by `pytest tests/pipeline`.
    task_seconds: float = 1e-3  # Seconds that a scheduler needs per task. Checked by `make bench BENCH_ARGS=dask`.
    smallest_chunk: int = 64 << 20  # Bytes of the smallest chunk of a cluster. Convention: few tasks.
    largest_chunk: int = 512 << 20  # Bytes of the largest chunk. Convention: two fit a small worker.
    chunks_per_worker: int = 8  # Chunks per worker, if they are not too small. Convention: to balance the load.
    crossing: float = 0.09  # Share of the rows in runs that cross a chunk border. Derived: runs are 1/4 to 1/2 of a chunk.
    largest_dim: int = 64  # Most inputs that rates are measured with. Checked by `pytest tests/pipeline`.
    largest_width: int = 16  # Most units that rates are measured with. Checked by `pytest tests/pipeline`.


PLAN = PlanOptions()
"""The options in use."""


class PassKind(NamedTuple):
    """One kind of pass: how often, operations per row, and values of its sums."""

    name: str
    times: int
    flops: float
    values: float


class Rates(NamedTuple):
    """Measured on one core: operations a second of each kind of pass, bytes a second of rows that are gathered and whitened."""

    flops: dict[str, float]
    reading: float


@dataclass(frozen=True)
class RecoveryPlan:
    """What `plan_recovery` predicts; seconds are those of the wall clock."""

    rows: int
    dim: int
    width: int
    outputs: int
    workers: int
    passes: int
    flops: float
    data_bytes: float
    bytes_moved: float
    chunk_bytes: float
    bytes_per_worker: float
    bytes_here: float
    seconds: float
    seconds_by_kind: dict[str, float]

    def json(self) -> str:
        """One object."""
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        lines = [
            f"{self.rows:,} rows, {self.dim} inputs, {self.width} units, {self.outputs} output{'s' * (self.outputs > 1)}, "
            f"{self.workers} worker{'s' * (self.workers > 1)} of one core",
            f"{'passes over all rows':28}{self.passes:>12,}",
            f"{'operations':28}{self.flops:>12.2g}",
            f"{'data':28}{show_bytes(self.data_bytes):>12}",
            *([f"{'bytes moved':28}{show_bytes(self.bytes_moved):>12}"] if self.bytes_moved else []),
            f"{'chunks of':28}{show_bytes(self.chunk_bytes):>12}",
            f"{'memory of a worker':28}{show_bytes(self.bytes_per_worker):>12}",
            f"{'memory of this process':28}{show_bytes(self.bytes_here):>12}",
            f"{'time':28}{_duration(self.seconds):>12}",
            *(f"  {name:26}{_duration(seconds):>12}" for name, seconds in self.seconds_by_kind.items() if seconds)]
        return "\n".join(lines)


def plan_recovery(
    rows: int, dim: int, width: int, *, outputs: int = 1, workers: int = 1, rates: Rates | None = None
) -> RecoveryPlan:
    """What the recovery of a ReLU network from noisy samples takes, its width known; `rates` are measured if not given."""
    _check(rows=rows, dim=dim, width=width, outputs=outputs, workers=workers)
    rates = measured_rates(dim, width, outputs) if rates is None else check_instance(
        "rates", rates, Rates, "Give measured_rates(dim, width, outputs), or leave it out.")
    kinds = _pass_kinds(dim, width, outputs)
    row_bytes, sums = 8.0 * (dim + outputs), max(kind.values for kind in kinds if kind.times) * 8.0
    here = max(kind.values for kind in kinds) * 8.0
    streamed = rows * row_bytes > Schedule().keep_bytes
    chunk = min(PLAN.largest_chunk, max(PLAN.smallest_chunk, rows * row_bytes / (PLAN.chunks_per_worker * workers)))
    runs = max(1.0, 3.0 * rows * row_bytes / chunk)
    by_kind = {
        kind.name: kind.times * rows * (kind.flops / rates.flops[kind.name] + streamed * row_bytes / rates.reading) / workers
        for kind in kinds}
    seen = rows if rows < 2 * ROWS.residual_rows else ROWS.residual_rows
    features = seen * _feature_columns(dim, width, outputs) ** 2 / rates.flops["other features"]
    error_bars = _error_bar_rows(rows, dim, width) * _unknowns(dim, width) ** 2
    search = (_search_operations(dim, width, outputs) + error_bars) / rates.flops["normal equations"]
    passes = sum(kind.times for kind in kinds)
    overhead = passes * 2 * runs * PLAN.task_seconds if workers > 1 else 0.0
    by_kind |= {"other features": features, "search on a part": search + PLAN.seconds_between, "scheduling": overhead}
    moved = sum(kind.times * (runs * kind.values * 8.0 + rows * (4.0 + PLAN.crossing * row_bytes)) for kind in kinds)
    return RecoveryPlan(
        rows, dim, width, outputs, workers, passes, sum(kind.times * rows * kind.flops for kind in kinds), rows * row_bytes,
        moved if workers > 1 else 0.0, chunk, 2.0 * chunk + 6.0 * sums, 24.0 * rows + Schedule().keep_bytes + 4.0 * here,
        sum(by_kind.values()), by_kind)


def measured_rates(dim: int, width: int, outputs: int) -> Rates:
    """Each kind of pass on one block of random rows, on one core; a few seconds."""
    dim, width = min(dim, PLAN.largest_dim), min(width, PLAN.largest_width)
    features = _feature_columns(dim, width, outputs)
    operations = {kind.name: kind.flops for kind in _pass_kinds(dim, width, outputs)} | {"other features": float(features**2)}
    rng = np.random.default_rng(0)
    signed, free = (_point(dim, width, outputs, linear=linear, rng=rng) for linear in (False, True))
    columns = np.zeros((dim + 1 + width, outputs))
    direction = split(free, np.asarray(rng.standard_normal(free.units.shape)), columns)
    statistics: dict[str, Statistic] = {
        "reading": _gram, "least squares": FitStatistic(free), "gradients": GradientStatistic(free),
        "products": ProductStatistic(free, direction), "normal equations": StepStatistic(signed),
        "other features": _ColumnGram(features)}
    with single_blas_thread():
        flops = {name: _rate(operations[name], statistic, dim, outputs) for name, statistic in statistics.items()}
        return Rates(flops, _reading_rate(dim, outputs))


def _pass_kinds(dim: int, width: int, outputs: int) -> list[PassKind]:
    """Operations per row and values of a sum, by the leading terms of each statistic."""
    d, k, m = dim + 1, width, outputs
    q = k + d  # features of the sign-free model, which has a linear part
    w = _unknowns(dim, width)
    few = w <= SOLVER.products_from
    return [
        PassKind("reading", PLAN.reading, 2.0 * d * d, d * d),
        PassKind("least squares", PLAN.least_squares, 2.0 * k * d + q * q + 2.0 * q * m, q * q),
        PassKind("gradients", 0 if few else PLAN.gradients, 6.0 * k * d + 3.0 * k * k, k * (2 * d + k)),
        PassKind("products", 0 if few else PLAN.products, 2.0 * (4 * k + 2 * m) * d, k * d),
        PassKind("normal equations", few * PLAN.normal_equations, float(w * w), w * w)]


def _unknowns(dim: int, width: int) -> int:
    return width + 1 + width * (dim + 1)


def _error_bar_rows(rows: int, dim: int, width: int) -> int:
    """Rows behind error bars; 0 where there are too many unknowns for error bars."""
    unknowns = _unknowns(dim, width)
    enough = max(ROWS.min_curvature_rows, ROWS.curvature_rows_per_parameter * unknowns, ROWS.curvature_operations // unknowns**2)
    return 0 if unknowns > ERRORS.max_parameters else rows if rows < 2 * enough else enough


def _feature_columns(dim: int, width: int, outputs: int) -> int:
    """Columns of the certificate's test against other features."""
    own = _unknowns(dim, width)
    products = dim * (dim - 1) // 2
    tangents = own if own <= FEATURES.max_tangents else width + 1
    products = products if products <= FEATURES.max_tangents else 0
    steps, bumps = len(FEATURES.step_places), len(FEATURES.bump_widths)
    return tangents + products + (1 + steps) * dim + 4 * outputs + 2 * bumps * width + FEATURES.random_units


def _search_operations(dim: int, width: int, outputs: int) -> float:
    """Of normal equations: with all inputs, or in a subspace of as many dimensions as units and then with all."""
    unknowns = _search_unknowns(dim, width)
    rows = max(SEARCH.fewest_rows, SEARCH.first_rows * unknowns // outputs)
    if not COST.is_expensive(rows, unknowns):
        return float(PLAN.search_steps * rows * unknowns**2)
    if width > SEARCH.subspace_share * dim:
        return float(PLAN.expensive_search_steps * rows * unknowns**2)
    fewer = max(SEARCH.fewest_rows, rows * (width + 1) // (dim + 1))
    return float(
        PLAN.expensive_search_steps * fewer * _search_unknowns(width, width) ** 2 + PLAN.subspace_steps * rows * unknowns**2)


def _search_unknowns(dim: int, width: int) -> int:
    """Unknowns of a search with spare units."""
    return (width + Search().count_spares(width)) * (dim + 2) + dim + 1


@dataclass(frozen=True)
class _ColumnGram:
    """A Gram matrix with `count` columns, as the certificate forms it."""

    count: int

    @property
    def row_floats(self) -> int:
        return 2 * self.count

    def __call__(self, x: Array, y: Array) -> tuple[Array, ...]:
        columns = np.tile(x, (1, -(-self.count // x.shape[1])))[:, : self.count]
        return (columns.T @ columns,)


def _gram(x: Array, y: Array) -> tuple[Array, ...]:
    return ((x - 0.5).T @ (x - 0.5),)


def _point(dim: int, width: int, outputs: int, *, linear: bool, rng: np.random.Generator) -> Point:
    point = Model(relu, linear=linear).start(rng.standard_normal((width, dim + 1)), outputs)
    return point.moved(point.units, np.asarray(rng.standard_normal(point.coefficients.shape)))


def _rate(flops: float, statistic: Statistic, dim: int, outputs: int) -> float:
    """Operations a second."""
    rows = block_rows(dim + outputs + int(getattr(statistic, "row_floats", 0)))
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((rows, dim)), rng.standard_normal((rows, outputs))
    return flops * rows / _best(lambda: statistic(x, y))


def _reading_rate(dim: int, outputs: int) -> float:
    """Bytes a second of rows that are chosen at random, gathered and whitened."""
    rows = max(20_000, (32 << 20) // (8 * (dim + outputs)))
    rng = np.random.default_rng(2)
    source = Samples(rng.standard_normal((rows, dim)), rng.standard_normal((rows, outputs)))
    view = source.split(0.95, rng=0).first.whitened()
    size = min(view.size, block_rows(dim + outputs))
    return 8.0 * size * (dim + outputs) / _best(lambda: view.read(0, size))


def _best(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs in 0.2 s, after one to warm up."""
    run()
    times: list[float] = []
    while sum(times) < 0.2 or len(times) < 3:
        begun = time.thread_time()  # of this thread alone: others on the machine do not count
        run()
        times.append(time.thread_time() - begun)
    return min(times)


def _check(**numbers: int) -> None:
    for name, number in numbers.items():
        check_whole(name, number)


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


HOLDS = {True: "yes", False: "no", None: "open"}


@click.command("check", epilog=examples(
    "laybare check data.npz", "laybare check houses.csv.gz --target price --drop-columns id --drop-missing"))
@data_options
@click.option("--width", type=click.IntRange(1), help="Hidden units, if known.")
@click.option("--activation", help="For example relu, leaky_relu(0.1), tanh; if known.")
@output_options
def check(data: str, *, width: int | None, activation: str | None, output: Output, **reading: Any) -> None:
    """Look at the samples in DATA: which assumptions hold, and which methods `laybare recover` would try, in which order.

    DATA as for laybare recover. Nothing is fitted; it takes a second. "open" means that samples cannot tell.
    """
    units = None if activation is None else lb.activations.activation_named(activation)
    samples = open_data(data, reading, output)
    choice, copies = lb.choose(samples, width, units), samples.size - count_distinct_inputs(samples)
    output.emit_json(**_object(choice), dropped=samples.dropped, repeated_inputs=copies)
    _say(choice, copies, output)


def _say(choice: Choice, copies: int, output: Output) -> None:
    seen = choice.seen
    output.say(
        f"{seen.size:,} samples of {seen.dim} inputs and {seen.outputs} output{'s' * (seen.outputs > 1)}; "
        f"{seen.residual:.2g} of the variance of y is not linear in x",
        *([f"{copies:,} rows repeat the inputs of another row"] if copies else []), "\nlaybare recover would try, in this order:")
    for n, candidate in enumerate(choice.candidates, 1):
        output.say(f"{n}. {candidate.reason}", indent=3)
    output.say(in_command_line_words(choice.otherwise) + "\n")
    if output.verbose:
        output.say(_orders(choice))
    for row in choice.table:
        output.say(f"{row.method} ({METHODS[row.method]}) needs")
        output.say(*(f"  {HOLDS[one.holds]:5} {one.assumption}: {one.seen}" for one in row.conditions), indent=8)


def _orders(choice: Choice) -> Table:
    """What the moments of every order hold of y, beside what noise alone would show."""
    table = _table("order", "share of y", "noise alone", "seen")
    for one in choice.seen.orders:
        table.add_row(str(one.order), f"{one.share:.2g}", f"{one.noise:.2g}", HOLDS[one.seen])
    return table


def _table(*names: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _object(choice: Choice) -> dict[str, Any]:
    """What --json prints; the keys are documented and stay."""
    seen = choice.seen
    return {
        "samples": seen.size, "dim": seen.dim, "outputs": seen.outputs, "constant_labels": seen.constant,
        "not_linear": seen.residual,
        "orders": [{"order": one.order, "share": one.share, "noise": one.noise, "seen": one.seen} for one in seen.orders],
        "methods": [
            {"method": row.method, "fits": row.fits, "conditions": [
                {"assumption": one.assumption, "holds": one.holds, "seen": one.seen} for one in row.conditions]}
            for row in choice.table],
        "order": [{"method": type(one.method).__name__, "activation": str(one.method.activation), "reason": one.reason}
                  for one in choice.candidates],
        "otherwise": choice.otherwise}


def _count(context: click.Context, parameter: click.Parameter, given: str) -> int:
    """A whole number, also as 1e9 or 1_000_000."""
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 1 <= number < 1e18 or number != int(number):
        raise click.BadParameter(f"{given!r} is no whole number of at least 1; write 1000000 or 1e6.")
    return int(number)


@click.command("plan", epilog=examples("laybare plan --rows 1e6 --dim 20 --width 10 --workers 4"))
@click.option("--rows", required=True, callback=_count, help="Samples, such as 1e9.")
@click.option("--dim", required=True, callback=_count, help="Inputs.")
@click.option("--width", required=True, callback=_count, help="Hidden units.")
@click.option("--outputs", default="1", show_default=True, callback=_count, help="Outputs.")
@click.option("--workers", default="1", show_default=True, callback=_count, help="Workers of one core each.")
@output_options
def plan(*, rows: int, dim: int, width: int, outputs: int, workers: int, output: Output) -> None:
    """Say what the recovery of a ReLU network from noisy samples would take: passes, operations, bytes, memory, time.

    Rates are measured on this machine first, which takes a few seconds. Times are good to a factor of two.
    With --quiet nothing but the predicted seconds.
    """
    with output.bar() as progress:
        report_progress(progress, "measuring", detail="rates of this machine, a few seconds")
        rates = measured_rates(dim, width, outputs)
    found = plan_recovery(rows, dim, width, outputs=outputs, workers=workers, rates=rates)
    output.emit_json(**asdict(found))
    output.say(str(found))
    if output.verbose:
        output.say("rates of one core here, operations a second", *(
            f"  {name:26}{rate:>12.2g}" for name, rate in (*rates.flops.items(), ("bytes read a second", rates.reading))))
    if output.quiet:
        click.echo(f"{found.seconds:.3g}")

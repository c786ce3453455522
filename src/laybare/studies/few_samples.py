"""Recovery near the counting limit: how few samples suffice, for how much computing time?

Networks d-m-1, x ~ N(0, I), the width given, n samples. A ReLU network has m(d + 1) + 1 degrees of freedom (parameters minus
hidden units; Grillo and Montúfar 2026), tanh m(d + 2) + 1. Squares without biases are a symmetric matrix Σ aᵢ wᵢwᵢᵀ of rank m,
md - m(m - 1)/2 numbers if m < d, d(d + 1)/2 else, and an offset; of these networks alone theory knows the limit: as many samples
as degrees of freedom, n/d² = κ - κ²/2 for κ = m/d up to 1, and 1/2 beyond (Maillard et al. 2024). Below it nothing can be found.

Three searches in the same model, without signs, each until it fits the data to rounding or its CPU seconds are spent: hops at
exact width (`search/hops.py`), the over-wide search of version 0.2 with spares and repairs, again and again, and the control:
random starts at exact width. A run is right if every parameter is within 1e-8 of the truth; for squares, whose rows rotate, if
fresh outputs are. With noise (a share of the spread of y) it is right if its mean squared error at fresh inputs is at most four
times the Cramér-Rao floor σ² P/n of P degrees of freedom. A fourth arm shows what is to blame on the data. With noise it is a fit
that begins at the truth. Without, it asks whether the data determine the network near the truth: the derivatives at the rows have
as many independent columns as there are degrees of freedom. (They do not if a ReLU unit is active in fewer than d + 1 rows.) The
model without signs has d numbers besides, which small networks feel.

Every seed goes down from the most samples until its search fails, and counts as failed at fewer: success falls with the samples.
Where a fit would take more than the seconds of a run by the cost model, it is not made and counts as not reached in that time;
since these cells, and those near them, fail by time and not for want of samples, a first failure at the most samples does not
end a line, a second does. The table has the line of one half for every network, `phase-cells.csv` every cell and how many of its
runs were made.

`near-limit` asks the same of `recover` as it is called: named networks, the width given or not, every parameter within 1e-10,
and beside each run the two other searches on the same data for the CPU seconds that it took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, leaky_relu, relu, tanh
from laybare.assembly.sign_decoding import restore_signs, sign_free_model
from laybare.errors import TooFewSamples
from laybare.networks import Network, compare, sign_free
from laybare.numerics.shapes import Array, Event, Progress
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.search.hops import search_by_hops
from laybare.search.settings import SearchContext
from laybare.search.wide import search_with_spares
from laybare.solver import FitInterrupt, options
from laybare.solver.point import FittedPoint, Model, network_of, point_of
from laybare.source import Gaussian, Samples
from laybare.studies import columns as col
from laybare.studies.study import SUCCESS, Settings, Study, StudyMeasurement, cross, run_cells, spell, table

SQUARE = Activation.custom("square", np.square, lambda t: 2.0 * t, degree=2, parity="even")
ACTIVATIONS: dict[str, Activation] = {"relu": relu, "leaky relu": leaky_relu(0.1), "tanh": tanh, "square": SQUARE}
HOPS, OVERWIDE, RESTARTS = "hops", "over-wide", "random starts"
DETERMINED, TRUTH = "determined", "from the truth"
UNENDING = 10**9
"""Hops or starts that no run makes: time ends them. Convention: a number for "no limit"."""
NOISY_RUNS = 60
"""Hops, or random starts, of a run with noise, where none fits exactly. Checked by `laybare reproduce phase`."""
NEAR_FLOOR = 4.0
"""Mean squared error over the Cramér-Rao floor up to which a noisy fit is right. Convention: errors twice as large as needed."""
STEPS_OF_A_FIT = 5
"""Steps by the cost model that a run must have time for to be made. Measured: `laybare reproduce phase --full`: every fit of ReLU
or tanh took more; some of squares took two to five, so that for squares "time" may hide a fit."""
FRESH_ROWS = 4000
"""Rows at which outputs are compared. Derived: their mean of squares is known to a few percent."""


class FewGrid(NamedTuple):
    """Activations, inputs, units per input, samples per degree of freedom, noise, and the CPU seconds of a run."""

    activation: tuple[str, ...]
    dim: tuple[int, ...]
    per_input: tuple[float, ...]
    per_degree: tuple[float, ...]
    noise: tuple[float, ...]
    seconds: float


class FewCell(NamedTuple):
    """A place of the grid, an arm, and its CPU seconds; `noise` in standard deviations of y."""

    activation: str
    dim: int
    units_per_input: float
    samples_per_degree: float
    noise: float
    arm: str
    seconds: float

    @property
    def width(self) -> int:
        return max(1, round(self.units_per_input * self.dim))

    @property
    def degrees_of_freedom(self) -> int:
        d, m = self.dim, self.width
        if self.activation == "square":
            return (m * d - m * (m - 1) // 2 if m < d else d * (d + 1) // 2) + 1
        return m * (d + 1 + (ACTIVATIONS[self.activation].degree is None)) + 1

    @property
    def samples(self) -> int:
        return int(self.samples_per_degree * self.degrees_of_freedom)

    @property
    def most_calls(self) -> int:
        """How often the arm is called if nothing fits exactly."""
        return UNENDING if not self.noise else NOISY_RUNS if self.arm == RESTARTS else 1

    @property
    def has_time(self) -> bool:
        """Whether a fit may end within the seconds, by the cost model."""
        unknowns = self.width * (self.dim + self.model.biases)
        return STEPS_OF_A_FIT * options.COST.step_seconds(self.samples, unknowns) <= self.seconds

    @property
    def model(self) -> Model:
        """What all arms fit."""
        if self.activation == "square":
            return Model(SQUARE, biases=False)
        return sign_free_model(ACTIVATIONS[self.activation], biases=True)

    def plant(self, rng: Generator) -> Network:
        biases = 0.0 if self.activation == "square" else 0.5
        return random_network(
            self.dim, self.width, activation=ACTIVATIONS[self.activation], biases=biases, bias_law="normal", readout="random",
            rng=rng)


class FewRun(NamedTuple):
    """Whether it is right, the CPU seconds, the squared error at fresh inputs over the Cramér-Rao floor (NaN: no noise), and
    whether the run was made or is counted as failed without."""

    right: bool
    cpu: float
    over_floor: float = np.nan
    made: bool = True


NOT_MADE = FewRun(False, 0.0, made=False)


def _from_truth(context: SearchContext, truth: Network) -> FittedPoint:
    model = context.model
    return context.minimise(
        point_of(sign_free(truth) if model.linear else truth, biases=model.biases, offset=True, linear=model.linear))


ARMS: dict[str, Callable[[SearchContext, Network, int], FittedPoint]] = {
    HOPS: lambda context, truth, hops: search_by_hops(context, context.draw_units(truth.width), hops),
    OVERWIDE: lambda context, truth, hops: search_with_spares(context, truth.width),
    RESTARTS: lambda context, truth, hops: context.minimise(context.start(context.draw_units(truth.width)))}
SEARCHES = tuple(ARMS)
ARMS[TRUTH] = lambda context, truth, hops: _from_truth(context, truth)
"""Each is called again until it fits the data or time ends; with noise random starts alone, the others once."""


class PlantedData(NamedTuple):
    """A network, rows drawn from it, the noise in them, and the generator that goes on."""

    truth: Network
    source: Samples
    sigma: float
    rng: Generator


def draw_data(cell: FewCell, seed: int) -> PlantedData:
    """The same for every arm of a cell."""
    rng = np.random.default_rng([seed, cell.dim, cell.width, cell.samples])
    truth = cell.plant(rng)
    x = rng.standard_normal((cell.samples, cell.dim))
    y = truth(x)
    sigma = cell.noise * float(y.std())
    source = Samples(x, y + sigma * rng.standard_normal(len(y)) if sigma else y, law=Gaussian(0, 1))
    return PlantedData(truth, source, sigma, rng)


def _stop_at(end: float) -> Progress:
    """A listener that interrupts after this much CPU time of the process."""
    def stop(event: Event) -> None:
        if event.stage == "refining" and time.process_time() > end:
            raise KeyboardInterrupt

    return stop


def is_determined(cell: FewCell, seed: int) -> bool:
    """Whether the derivatives of the true network at the rows have the rank of its degrees of freedom."""
    truth, source, *_ = draw_data(cell, seed)
    x, _ = source.read(0, source.size)
    values, slopes = truth.activation.value_and_slope(truth.layer.before(x))
    inputs = np.hstack([x, np.ones((len(x), 1))]) if cell.model.biases else x
    rows = ((slopes * truth.readout)[:, :, None] * inputs[:, None, :]).reshape(len(x), -1)
    columns = np.hstack([rows, values, np.ones((len(x), 1))])
    return bool(np.linalg.matrix_rank(columns.T @ columns, hermitian=True) >= cell.degrees_of_freedom)


def run_arm(cell: FewCell, seed: int) -> FewRun:
    """A search, or what no search can do better than."""
    if cell.arm != DETERMINED:
        return search_until(cell, seed)
    begun = time.process_time()
    return FewRun(is_determined(cell, seed), time.process_time() - begun)


def search_until(cell: FewCell, seed: int) -> FewRun:
    """Plant a network, search until the data are fitted or time ends, compare."""
    truth, source, sigma, rng = draw_data(cell, seed)
    end = time.process_time() + cell.seconds
    context, best = SearchContext.of(source, cell.model, rng=rng, progress=_stop_at(end)), None
    for _ in range(cell.most_calls):
        found = _call_arm(context, cell, truth, end)
        if found is not None and (best is None or found.loss < best.loss):
            best = found
        if found is None or context.is_solved(found) or time.process_time() >= end:
            break
    cpu = min(cell.seconds, cell.seconds - (end - time.process_time()))
    if best is None:
        return FewRun(False, cpu)
    if not sigma:
        return FewRun(context.is_solved(best) and _is_right(best, cell, truth, rng), cpu)
    over_floor = _squared_error(best, truth, rng) / (sigma**2 * cell.degrees_of_freedom / cell.samples)
    return FewRun(over_floor <= NEAR_FLOOR, cpu, over_floor)


def _call_arm(context: SearchContext, cell: FewCell, truth: Network, end: float) -> FittedPoint | None:
    """What an arm finds until its time ends; None if there are too few samples for it."""
    try:
        return ARMS[cell.arm](context, truth, NOISY_RUNS if cell.noise else UNENDING)
    except TooFewSamples:
        return None
    except FitInterrupt as stop:
        if time.process_time() < end:
            raise  # not by the end of its time
        best: FittedPoint = stop.best
        return best


def _is_right(found: FittedPoint, cell: FewCell, truth: Network, rng: Generator) -> bool:
    if cell.activation == "square":
        x = rng.standard_normal((FRESH_ROWS, cell.dim))
        return _squared_error(found, truth, rng) < SUCCESS.read_error**2 * float(np.var(truth(x)))
    network = network_of(found.point, vector=True)
    decoded = restore_signs(network, truth.activation).network if found.point.linear else network
    return bool(compare(decoded, truth).max_error < SUCCESS.read_error)


def _squared_error(found: FittedPoint, truth: Network, rng: Generator) -> float:
    """Mean of squares of differences of outputs at fresh inputs."""
    x = rng.standard_normal((FRESH_ROWS, truth.dim))
    return float(np.mean((network_of(found.point, vector=True)(x) - truth(x)) ** 2))


def descend(cells: Sequence[FewCell], seed: int) -> list[FewRun]:
    """A run for each of some cells that differ in their samples; made from the most samples down until one fails."""
    runs, failures = dict.fromkeys(cells, NOT_MADE), 0
    for cell in sorted((cell for cell in cells if cell.has_time), key=lambda cell: -cell.samples_per_degree):
        runs[cell] = run_arm(cell, seed)
        failures += not runs[cell].right
        if not runs[cell].right and (failures > 1 or any(run.right for run in runs.values())):
            break
    return list(runs.values())


class PhaseNetwork(NamedTuple):
    """The cell of a row of the page: a network and the noise."""

    activation: str
    dim: int
    units_per_input: float
    noise: float


def _cells(grid: FewGrid) -> list[FewCell]:
    """Every place and arm, in the order of lines."""
    places = cross(PhaseNetwork, grid.activation, grid.dim, grid.per_input, grid.noise)
    return [
        FewCell(place.activation, place.dim, place.units_per_input, ratio, place.noise, arm, grid.seconds)
        for place in places for arm in (*SEARCHES, TRUTH if place.noise else DETERMINED) for ratio in grid.per_degree]


def split_lines(cells: Sequence[FewCell]) -> list[list[FewCell]]:
    """Cells that differ in their samples only."""
    return list(col.group_rows(cells, "activation", "dim", "units_per_input", "noise", "arm").values())


def _measure_lines(settings: Settings[FewGrid]) -> dict[FewCell, list[FewRun]]:
    """The runs of every cell, line by line."""
    cells = _cells(settings.grid)
    lines, runs = split_lines(cells), {cell: list[FewRun]() for cell in cells}
    for done, (seed, line) in enumerate(product(settings.seeds, lines), 1):
        for cell, run in zip(line, descend(line, seed), strict=True):
            runs[cell].append(run)
        settings.tick("lines", done, len(lines) * len(settings.seeds), spell(line[0]))
    return runs


ArmRuns = Mapping[str, Mapping[FewCell, list[FewRun]]]
"""The runs of the cells of a network and a noise, by arm."""


def by_network(grid: FewGrid, runs: Mapping[FewCell, list[FewRun]]) -> dict[PhaseNetwork, ArmRuns]:
    """By noise first, then in the order of the grid."""
    groups = col.group_rows(runs, "noise", "activation", "dim", "units_per_input")
    return {
        PhaseNetwork(activation, dim, per_input, noise): {
            arm: {cell: runs[cell] for cell in cells} for arm, cells in col.group_rows(group, "arm").items()}
        for (noise, activation, dim, per_input), group in sorted(groups.items(), key=lambda item: item[0][0])}


def monotone(shares: Sequence[float]) -> Array:
    """The nearest ascending numbers (isotonic regression): success rises with the samples, but for chance."""
    places = range(len(shares))
    return np.array([
        max(min(float(np.mean(shares[low : high + 1])) for high in places if high >= at) for low in places if low <= at)
        for at in places])


def half_line(rows: list[tuple[float, float]]) -> float:
    """The least number of samples per degree of freedom from which on at least half of the runs are right, interpolated; infinite
    if there is none. `rows`: samples per degree of freedom and share, in ascending order."""
    ratios, shares = [ratio for ratio, _ in rows], monotone([share for _, share in rows])
    for at, share in enumerate(shares):
        if share >= 0.5:
            return ratios[at] if at == 0 else float(np.interp(0.5, shares[at - 1 : at + 1], ratios[at - 1 : at + 1]))
    return np.inf


def _share(runs: Sequence[FewRun]) -> float:
    return sum(run.right for run in runs) / len(runs)


def half_of(runs: Mapping[FewCell, list[FewRun]]) -> float:
    """The half line of an arm, NaN if no run was made. Cells beyond the time are left out: they say nothing of samples."""
    rows = [(cell.samples_per_degree, _share(each)) for cell, each in runs.items() if cell.has_time]
    return half_line(sorted(rows)) if rows else np.nan


def _half_text(arm: str) -> col.Column:
    """The half line of an arm in the table."""

    def column(network: PhaseNetwork, arms: ArmRuns) -> str:
        if arm not in arms:
            return ""
        line, ratios = half_of(arms[arm]), [cell.samples_per_degree for cell in arms[arm]]
        if np.isnan(line):
            return "time"
        return f"> {max(ratios):g}" if np.isinf(line) else f"<= {line:g}" if line == min(ratios) else f"{line:.2f}"

    return column


def _seconds_at_line(network: PhaseNetwork, arms: ArmRuns) -> float | str:
    """Median CPU seconds of the right runs of hops at the first number of samples from their half line on that has any."""
    line = half_of(arms[HOPS])
    for cell, runs in arms[HOPS].items():
        seconds = [run.cpu for run in runs if run.right]
        if seconds and cell.samples_per_degree >= line:
            return float(np.median(seconds))
    return ""


def _name(network: PhaseNetwork, arms: ArmRuns) -> str:
    return f"{network.dim}-{next(iter(arms[HOPS])).width}-1"


def _model_limit(network: PhaseNetwork, arms: ArmRuns) -> float:
    """Unknowns of the model that is fitted, per degree of freedom: without signs it has a linear part besides."""
    cell = next(iter(arms[HOPS]))
    return 1.0 + cell.model.linear * cell.dim / cell.degrees_of_freedom


def _theory(network: PhaseNetwork, arms: ArmRuns) -> float | str:
    """For squares the limit of theory for many inputs, n/d² of Maillard et al. (2024), in samples per degree of freedom."""
    cell = next(iter(arms[HOPS]))
    ratio = min(1.0, cell.width / cell.dim)
    return (ratio - ratio**2 / 2.0) * cell.dim**2 / cell.degrees_of_freedom if network.activation == "square" else ""


def _sentence(m: StudyMeasurement) -> str:
    """For every noise how many networks each arm finds, and the median lines where all arms find them."""
    networks = by_network(m.grid, m.runs)
    parts = [
        f"{f'noise {noise:g} sd(y)' if noise else 'noiseless'}: "
        + _counts([arms for network, arms in networks.items() if network.noise == noise]) for noise in m.grid.noise]
    made = sum(run.made for run in m.all_runs)
    return (
        f"Samples per degree of freedom from which on half of the searches are right within {m.grid.seconds:g} CPU seconds. "
        f"{'; '.join(parts)}. The counting limit is 1. {made:,} of {len(m.all_runs):,} runs "
        f"({len(next(iter(m.runs.values())))} of each cell) were made; the others count as failed.")


def _counts(networks: Sequence[ArmRuns]) -> str:
    lines = {arm: np.array([half_of(arms[arm]) for arms in networks]) for arm in networks[0]}
    common = np.all([np.isfinite(each) for each in lines.values()], axis=0)
    most = max(cell.samples_per_degree for cell in networks[0][HOPS])
    found = ", ".join(f"{arm} {np.isfinite(each).sum()}" for arm, each in lines.items())
    medians = ", ".join(f"{arm} {np.median(each[common]):.2f}" for arm, each in lines.items())
    return f"of {len(networks)} networks found from at most {most:g}: {found}" + (
        f"; median line of the {common.sum()} that all arms find: {medians}" if common.any() else "")


OFF_SCALE = 1.3
"""Factor beyond the most samples at which lines are drawn that nothing reached. Convention: above all others."""


def _figure(m: StudyMeasurement) -> LinesFigure:
    """A panel for every noise and activation: half lines over units per input; of hops for every number of inputs, of the other
    arms the median over these. What the data allow: networks that are determined, with noise fits from the truth. A gap: no run
    had the time."""
    panels = []
    for noise, own in col.group_rows(by_network(m.grid, m.runs), "noise").items():
        networks = by_network(m.grid, {cell: runs for cell, runs in m.runs.items() if cell.noise == noise})
        for activation, group in col.group_rows(own, "activation").items():
            curves = _curves({network: networks[network] for network in group}, OFF_SCALE * max(m.grid.per_degree))
            title = f"{activation}, {f'noise {noise:g} sd(y)' if noise else 'noiseless'}"
            ticks = {ratio: f"{ratio:g}" for below, ratio in pairwise((0.5, 1.0, *m.grid.per_degree)) if ratio >= 1.2 * below}
            ticks[OFF_SCALE * max(ticks)] = f"> {max(ticks):g}"
            panels.append(Panel(title, "units per input", "samples per degree of freedom", curves, "xy", ticks))
    return LinesFigure(panels, "Samples per degree of freedom from which on half of the searches are right, over units per input")


def _curves(networks: Mapping[PhaseNetwork, ArmRuns], top: float) -> list[Curve]:
    lines = {
        (arm, network): float(np.minimum(half_of(runs), top)) for network, arms in networks.items() for arm, runs in arms.items()}
    curves = [
        Curve(f"hops, {dim} inputs", [network.units_per_input for network in own], [lines[HOPS, network] for network in own])
        for dim, own in col.group_rows(networks, "dim").items()]
    for arm in next(iter(networks.values())):
        if arm != HOPS:
            columns = {
                ratio: [lines[arm, network] for network in own if np.isfinite(lines[arm, network])]
                for ratio, own in col.group_rows(networks, "units_per_input").items()}
            medians = [float(np.median(column)) if column else np.nan for column in columns.values()]
            name = arm if arm in SEARCHES else "what the data allow"
            curves.append(Curve(f"{name} (median)", list(columns), medians, dashed=True))
    ends = [network.units_per_input for network in networks]
    return [*curves, Curve("counting limit", (min(ends), max(ends)), (1.0, 1.0), dashed=True)]


PHASE_DIAGRAM = Study(
    "phase", "Recovery over samples per degree of freedom, units per input and inputs: hops, spares, random starts",
    "One sample per degree of freedom is the limit; hops at exact width come nearer to it than a search with spare units.",
    quick=FewGrid(("relu", "tanh", "square"), (10,), (0.5,), (1.1, 1.5, 2.0, 3.0), (0.0, 0.1), 2.0),
    full=FewGrid(
        ("relu", "tanh", "square"), (5, 10, 20, 30), (0.25, 0.5, 1.0, 2.0, 5.0), (1.1, 1.25, 1.5, 2.0, 3.0, 5.0), (0.0, 0.1),
        2.0), seeds=2,
    cells=_cells, measure_grid=_measure_lines, group=by_network,
    table=table(
        "noise", "activation", network=_name, units_per_input=col.field("units_per_input"), model_limit=_model_limit,
        theory=_theory, hops=_half_text(HOPS), over_wide=_half_text(OVERWIDE), random_starts=_half_text(RESTARTS),
        determined=_half_text(DETERMINED), from_the_truth=_half_text(TRUTH), hops_cpu_s=_seconds_at_line),
    cell_table=table(
        "activation", "dim", "units_per_input", "samples_per_degree", "noise", "arm", width=col.field("width"),
        samples=col.field("samples"), right=col.total("right"), runs=col.count, made=col.total("made"),
        over_floor=col.mean_of_finite("over_floor", ""), mean_cpu_s=lambda cell, runs: float(np.mean([run.cpu for run in runs]))),
    sentence=_sentence, figure=_figure)
"""Teachers: unit rows, biases 0.5 N(0, 1) (none for squares), |readout| uniform in [0.5, 1.5] with random signs, all n samples
fitted. Results depend on the speed of the machine: they are shares within a number of CPU seconds. Lines are in samples per
degree of freedom: "<=" at the fewest that were tried, ">" not at the most, "time" where no fit would end within the seconds."""


class LimitCell(NamedTuple):
    """A network d-m-1 and its samples per degree of freedom, whether the width is given, the CPU seconds of a run, the
    number of seeds at most."""

    activation: str
    dim: int
    width: int
    samples_per_degree: float
    width_given: str
    seconds: float
    most_seeds: int = 20

    def arm(self, name: str, seconds: float) -> FewCell:
        return FewCell(self.activation, self.dim, self.width / self.dim, self.samples_per_degree, 0.0, name, seconds)


class LimitRun(NamedTuple):
    """Whether `recover` is right and verified, its CPU seconds, whether the others are right within as many, and whether the data
    determine the network."""

    right: bool
    verified: bool
    cpu: float
    overwide: bool
    restarts: bool
    determined: bool


CONTROL_SECONDS = (1.0, 3.0)
"""CPU seconds of the other searches, at least and at most. Convention: that of `recover`, as far as many seeds can be run."""


def recover_near_limit(cell: LimitCell, seed: int) -> LimitRun:
    """`recover` as it is called, and the other searches on the same data at equal time."""
    given = cell.arm(HOPS, cell.seconds)
    truth, source, *_ = draw_data(given, seed)
    begun = time.process_time()
    found = recover(
        source, width=cell.width if cell.width_given == "yes" else None,
        activation=None if cell.width_given == "no" else truth.activation, progress=_stop_at(begun + cell.seconds),
        seconds=np.inf)  # of the clock: the cell's are of the process
    cpu = time.process_time() - begun
    right = found.network.width == cell.width and compare(found.network, truth).max_error < SUCCESS.exact_error
    equal = float(np.clip(cpu, *CONTROL_SECONDS))
    overwide, restarts = (search_until(cell.arm(arm, equal), seed).right for arm in (OVERWIDE, RESTARTS))
    verified = found.certificate.verdict == "verified"
    return LimitRun(bool(right), verified, cpu, overwide, restarts, is_determined(given, seed))


def _measure_networks(settings: Settings[tuple[LimitCell, ...]]) -> dict[LimitCell, list[LimitRun]]:
    """Every network with at most `most_seeds` seeds."""
    runs: dict[LimitCell, list[LimitRun]] = {}
    for cell in settings.grid:
        runs |= run_cells(settings.first(cell.most_seeds), [cell], recover_near_limit)
    return runs


def _limit_sentence(m: StudyMeasurement) -> str:
    parts = (
        f"{row.activation} {row.dim}-{row.width}-1 at {row.samples_per_degree:g}"
        f"{', width not given' * (row.width_given == 'no')}: {row.right} of {row.runs}"
        f"{f', {row.determined} determined by their data' if row.determined < row.runs else ''} "
        f"(spares {row.over_wide}, random starts {row.random_starts})" for row in m.rows)
    wrong = sum(run.verified and not run.right for run in m.all_runs)
    return f"Recovered to 1e-10 in every parameter: {'; '.join(parts)}. Verified and wrong: {wrong}."


_QUICK_NETWORKS = (
    LimitCell("relu", 20, 10, 2.0, "yes", 60.0), LimitCell("relu", 10, 5, 2.0, "yes", 60.0),
    LimitCell("relu", 10, 20, 2.0, "yes", 60.0), LimitCell("relu", 20, 10, 2.5, "no", 60.0))
_SLOW_NETWORKS = (
    LimitCell("relu", 20, 10, 1.5, "yes", 60.0), LimitCell("relu", 10, 50, 3.0, "yes", 60.0),
    LimitCell("relu", 10, 50, 4.0, "no", 600.0, 5), LimitCell("relu", 30, 30, 2.0, "yes", 600.0, 10),
    LimitCell("tanh", 20, 10, 3.0, "yes", 60.0, 10), LimitCell("leaky relu", 20, 10, 3.0, "yes", 60.0, 10))

NEAR_LIMIT = Study(
    "near-limit", "Networks recovered by `recover` near the counting limit, beside spares and random starts at equal time",
    "Noiseless ReLU networks are recovered from two samples per degree of freedom, often from 1.5, within a minute.",
    quick=_QUICK_NETWORKS, full=_QUICK_NETWORKS + _SLOW_NETWORKS, measure_grid=_measure_networks,
    table=table(
        "activation", "dim", "width", "samples_per_degree", "width_given",
        samples=lambda cell, runs: cell.arm(HOPS, cell.seconds).samples, right=col.total("right"), runs=col.count,
        determined=col.total("determined"), verified=col.total("verified"),
        wrong_and_verified=col.total(lambda run: run.verified and not run.right), median_cpu_s=col.median("cpu"),
        largest_cpu_s=col.reduced(max, "cpu"), over_wide=col.total("overwide"), random_starts=col.total("restarts")),
    sentence=_limit_sentence)
"""Teachers as in `phase`. The networks that `full` has besides take minutes each."""

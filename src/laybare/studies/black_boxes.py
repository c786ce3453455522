"""Black boxes read along lines: queries, seconds and errors for one hidden layer and for several, planted and trained; and after
how many queries there is a copy of a planted network all the same, behind defences.

Answers are noiseless float64 unless said otherwise; queries are those of reading, without the assurance.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.auditing import audit
from laybare.auditing.defences import STANDARD
from laybare.errors import LaybareError
from laybare.export import from_sklearn
from laybare.methods import Lines, RandomStart
from laybare.networks import Layer, Network, compare
from laybare.numerics.shapes import Array
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.source import Oracle, Samples
from laybare.studies import columns as col
from laybare.studies.study import SUCCESS, Study, StudyMeasurement, refused_as, table


class LinesCell(NamedTuple):
    """Input dimension and hidden units; RandomStart runs up to a limit of parameters, beyond which it takes minutes."""

    dim: int
    width: int
    control_limit: int = 1500

    @property
    def parameters(self) -> int:
        return self.width * (self.dim + 2) + 1


class LinesRun(NamedTuple):
    """Error, verdict, queries and seconds of Lines; error of RandomStart from as many samples (NaN if it was not run)."""

    error: float
    verdict: str
    queries: int
    seconds: float
    control: float

    @property
    def exact(self) -> bool:
        return self.error < SUCCESS.exact_error


def teacher(dim: int, width: int, rng: Generator) -> Network:
    """A network of the study `lines`."""
    rows = rng.standard_normal((width, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    readout = rng.uniform(0.5, 1.5, width) * rng.choice([-1.0, 1.0], width)
    return Network(Layer(rows, 0.5 * rng.standard_normal(width)), readout, 0.3)


class CountedTarget:
    """A black box that counts its own queries."""

    def __init__(self, network: Network) -> None:
        self.network, self.queries = network, 0

    def __call__(self, x: Array) -> Array:
        self.queries += len(x)
        return self.network(x)


def read_once(cell: LinesCell, seed: int) -> LinesRun:
    """Plant a network, read it along lines, and give the control as many samples."""
    rng = np.random.default_rng([seed, cell.dim, cell.width])
    truth = teacher(cell.dim, cell.width, rng)
    box = CountedTarget(truth)
    begun = time.perf_counter()
    found = recover(Oracle(box, cell.dim, budget=20 * cell.parameters + 500), Lines(), rng=rng)
    seconds = time.perf_counter() - begun
    return LinesRun(
        compare(found.network, truth).max_error, found.certificate.verdict, found.reading_queries, seconds,
        control_error(truth, box.queries, rng) if cell.parameters <= cell.control_limit else np.nan)


@refused_as(np.inf)
def control_error(truth: Network, samples: int, rng: Generator) -> float:
    """RandomStart from as many Gaussian samples, the width given; infinite if it refuses."""
    x = rng.standard_normal((samples, truth.dim))
    return compare(recover(Samples(x, truth(x)), RandomStart(), truth.width, rng=rng).network, truth).max_error


def _lines_sentence(m: StudyMeasurement) -> str:
    exact, total, control, tried = (
        sum(col.values(m.rows, name)) for name in ("exact", "runs", "random_start_exact", "random_start_runs"))
    shares = ", ".join(f"{row.queries_per_parameter:.2f} ({row.dim}-{row.width}-1)" for row in m.rows)
    return (
        f"Lines: {exact}/{total} networks within {SUCCESS.exact_error:g}; queries per parameter {shares}. "
        f"RandomStart from as many samples: {control}/{tried}.")


def _lines_figure(m: StudyMeasurement) -> LinesFigure:
    ordered = sorted(m.rows, key=lambda row: row.parameters)
    sizes = [float(row.parameters) for row in ordered]
    return LinesFigure([
        Panel("queries", "parameters", "queries", [
            Curve("Lines", sizes, col.values(ordered, "mean_queries")),
            Curve("one per parameter", sizes, sizes, dashed=True)], "xy"),
        Panel("largest error", "parameters", "largest error of any number", [
            Curve("Lines", sizes, [max(row.largest_error, 1e-17) for row in ordered])], "xy"),
    ], "Queries and errors of Lines against the number of parameters")


SMALL_SIZES = ((5, 3), (10, 5), (10, 10), (20, 10), (50, 10))
LINES = Study(
    "lines", "Queries per parameter of Lines, and RandomStart from as many samples",
    "About one query per parameter reads a network exactly; as many random samples are too few for any method.",
    quick=SMALL_SIZES, full=(*SMALL_SIZES, (10, 30), (10, 50), (100, 16), (784, 32)),
    cells=lambda sizes: [LinesCell(*size) for size in sizes], run_cell=read_once,
    table=table(
        "dim", "width", "parameters", exact=col.total("exact"), runs=col.count,
        verified_but_wrong=col.total(lambda run: run.verdict == "verified" and not run.exact),
        mean_queries=col.reduced(np.mean, "queries"),
        queries_per_parameter=lambda cell, runs: float(np.mean(col.values(runs, "queries"))) / cell.parameters,
        largest_error=col.reduced(max, "error"), median_s=col.median("seconds"),
        random_start_exact=col.total(lambda run: run.control < SUCCESS.exact_error),
        random_start_runs=col.total(lambda run: not np.isnan(run.control))),
    sentence=_lines_sentence, figure=_lines_figure)
"""How many queries does a black box take? Lines against d and m, beside RandomStart at the same number of queries. Teachers: unit
rows, biases 0.5 N(0,1), |readout| uniform in [0.5, 1.5] with random signs, offset 0.3. The width is given to RandomStart, not to
Lines. P = width·(dim + 2) + 1 parameters. The grid is of pairs (dim, width)."""


class Agreement(NamedTuple):
    """Largest error of a parameter in canonical form (infinite if a unit is missing or spurious), and largest relative difference
    of the functions."""

    error: float
    difference: float

    def right(self, tol: float) -> bool:
        """Every unit that bends is there, and all parameters agree."""
        return self.error <= tol and self.difference <= tol


class Probes(NamedTuple):
    """Inputs at which two networks are compared: their number, their scales; the share below which a unit is never active there,
    and above one minus which it is always active."""

    inputs: int = 40_000
    scales: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    never: float = 1e-4

    def draw(self, dim: int) -> Array:
        rng = np.random.default_rng(0)
        return np.asarray(rng.choice(self.scales, (self.inputs, 1)) * rng.standard_normal((self.inputs, dim)))


PROBES = Probes()


def agreement(found: Network, truth: Network) -> Agreement:
    """How far a found deep network is from the planted one, as far as any input shows.

    A unit that is off at every input is no part of the function. So units that are active on less than one of the probed inputs
    in ten thousand may be left out of the planted network before the two are compared, all or those that were not found; of a
    unit that is always on the row is compared and not the bias, which no answer separates from the offset. And the two functions
    must agree at probed inputs.
    """
    x = PROBES.draw(truth.dim)
    scale = float(np.abs(truth(x)).max())
    difference = np.inf if found.top is not None else float(np.abs(found(x) - truth(x)).max()) / scale
    if found.top is not None or found.depth != truth.depth:
        return Agreement(np.inf, difference)
    never = [[int(i) for i in np.flatnonzero(share < PROBES.never)] for share in _activity(truth, x)]
    planted = [truth, _without(truth, never)] if any(never) else [truth]
    return Agreement(min(_error(found, network, x) for network in planted), difference)


def _error(found: Network, truth: Network, x: Array) -> float:
    active = _activity(truth, x)
    for _ in range(truth.depth):
        match = compare(found, truth, pairing="hungarian")  # one bias that is free must not loosen the other pairs
        never = [
            [unit for unit in layer.missing if share[unit] < PROBES.never]
            for layer, share in zip(match.layers, active, strict=True)]
        if not any(never):
            break
        truth, active = _without(truth, never), [np.delete(s, a) for s, a in zip(active, never, strict=True)]
    always = any((share > 1.0 - PROBES.never).any() for share in active[1:])
    error = max(match.weight_error, match.linear_error) if always else match.max_error
    return np.inf if match.missing or match.spurious else error


def _activity(network: Network, x: Array) -> list[Array]:
    shares = []
    for layer in network.layers:
        x = layer(x)
        shares.append(np.mean(x > 0.0, axis=0))
    return shares


def _without(network: Network, units: list[list[int]]) -> Network:
    """The network without some units of each layer."""
    layers: list[Layer] = []
    below: list[int] = []
    for layer, gone in zip(network.layers, units, strict=True):
        weights = np.delete(np.delete(layer.weights, gone, axis=0), below, axis=1)
        layers.append(Layer(weights, np.delete(np.asarray(layer.biases), gone), layer.activation))
        below = gone
    return Network(layers, np.delete(network.readout, below, axis=0), network.offset)


class DeepRun(NamedTuple):
    """Queries, seconds, how far it is from the truth, whether it was verified, and whether only lower layers are known."""

    queries: int
    seconds: float
    agreement: Agreement
    verified: bool
    partial: bool = False
    refused: bool = False
    tol: float = SUCCESS.read_error

    @property
    def error(self) -> float:
        return max(self.agreement)

    @property
    def right(self) -> bool:
        return self.agreement.right(self.tol)


def read_deep(box: Any, truth: Network, budget: int, seed: int, tol: float = SUCCESS.read_error) -> DeepRun:
    """Read a black box, depth and widths unknown, and compare."""
    oracle = Oracle(box, dim=truth.dim, budget=budget, rng=seed)
    try:
        found = recover(oracle, Lines(depth=None), rng=seed)
    except LaybareError:
        return DeepRun(oracle.spent, np.nan, Agreement(np.inf, np.inf), False, refused=True)
    return DeepRun(
        found.reading_queries, found.seconds, agreement(found.network, truth), found.certificate.verdict == "verified",
        found.network.top is not None, tol=tol)


def _right_of(cell: Any, runs: Sequence[DeepRun]) -> str:
    return f"{sum(run.right for run in runs)}/{len(runs)}"


def _log2_queries(cell: Any, runs: Sequence[DeepRun]) -> float:
    return float(np.log2(np.mean(col.values(runs, "queries"))))


def _verified_but_wrong(run: DeepRun) -> bool:
    return run.verified and not run.right


def read_planted(shape: tuple[int, ...], seed: int) -> DeepRun:
    """A network of the shape; seeds from 1000 on, on which nothing was tuned."""
    truth = random_network(shape[0], widths=shape[1:-1], outputs=shape[-1], rng=1000 + seed)
    return read_deep(truth, truth, 2**20, seed)


PUBLISHED: dict[tuple[int, ...], str] = {(10, 10, 10, 1): "2^16", (80, 40, 20, 1): "2^18.5"}
"""Queries of Carlini, Jagielski and Mironov (2020)."""

DEEP_TABLE = table(
    network=lambda shape, runs: "-".join(map(str, shape)), right=_right_of,
    right_and_verified=col.total(lambda run: run.verified and run.right), verified_but_wrong=col.total(_verified_but_wrong),
    log2_queries=_log2_queries, published=lambda shape, runs: PUBLISHED.get(shape, ""), median_error=col.median("error"),
    largest_seconds=col.reduced(np.nanmax, "seconds"))


def _deep_sentence(m: StudyMeasurement) -> str:
    runs = m.all_runs
    wrong = sum(col.values(m.rows, "verified_but_wrong"))
    return (
        f"{sum(run.right for run in runs)} of {len(runs)} networks are recovered to 1e-8 in every number; verified but wrong: "
        f"{wrong}.")


DEEP = Study(
    "deep", "deep ReLU networks read along lines, layer by layer: queries, seconds, error",
    "Carlini et al. (2020) extract 10-10-10-1 with 2^16 queries, and 80-40-20-1 (4,000 parameters) with 2^18.5.",
    quick=((10, 10, 10, 1), (20, 15, 10, 1)),
    full=((10, 10, 10, 1), (20, 15, 10, 1), (80, 40, 20, 1), (40, 20, 10, 10, 1), (16, 12, 8, 6, 1), (20, 16, 12, 3)),
    run_cell=read_planted, table=DEEP_TABLE, sentence=_deep_sentence)
"""Deep networks read out of a black box, beside the published figures. Rows N(0, I / fan-in), biases N(0, 1/4), depth and widths
unknown. A network counts if every unit that bends for some input is found with its sign, all parameters agree to 1e-8 in
canonical form, and so do the outputs. The grid is of inputs, widths and outputs."""

DEEP_LARGE = Study(
    "deep-large", "deep networks on 784 inputs, one of them with ten outputs, read along lines",
    "Carlini et al. (2020) extract networks of one hidden layer of this size, 784-128-1, with 2^21.5 queries in under an hour.",
    quick=((784, 32, 16, 10),), full=((784, 32, 16, 10), (784, 128, 64, 1)),
    run_cell=read_planted, table=DEEP_TABLE, sentence=_deep_sentence, seeds=2)
"""The same on 784 inputs."""

class WideRun(NamedTuple):
    """Queries, processor seconds, largest relative error of the function, units that bend, those of them whose outputs agree,
    whether it was verified; queries per parameter, and the function's error for the control (NaN if not run)."""

    queries: int
    seconds: float
    function: float
    units: int
    units_right: int
    verified: bool
    per_parameter: float
    control: float = np.nan

    @property
    def function_right(self) -> bool:
        return self.function <= SUCCESS.read_error

    @property
    def right(self) -> bool:
        return self.function_right and self.units_right == self.units


def units_that_agree(found: Network, truth: Network) -> tuple[int, int]:
    """Units of the planted network that bend at the probed inputs, and those whose output max(z, 0) a found unit of its layer
    has at all of them, up to its scale: side included, whatever no answer tells left out."""
    x = PROBES.draw(truth.dim)
    bend, right, mine, theirs = 0, 0, x, x
    for level, layer in enumerate(truth.layers):
        theirs = layer(theirs)
        mine = found.layers[level](mine) if found.top is None and level < found.depth else np.zeros((len(x), 1))
        share = np.mean(theirs > 0.0, axis=0)
        scaled = mine / np.maximum(mine.max(axis=0), np.finfo(float).tiny)
        for unit in np.flatnonzero((share >= PROBES.never) & (share <= 1.0 - PROBES.never)):
            h = theirs[:, [unit]] / theirs[:, unit].max()
            bend, right = bend + 1, right + bool(np.abs(h - scaled).max(axis=0).min() <= SUCCESS.read_error)
    return bend, right


def read_wide(shape: tuple[int, ...], seed: int) -> WideRun:
    """A network of the shape; seeds from 4000 on, on which nothing was tuned. The control runs on one seed of ten."""
    truth = random_network(shape[0], widths=shape[1:-1], outputs=shape[-1], rng=4000 + seed)
    parameters = sum(layer.weights.size + layer.width for layer in truth.layers) + truth.readout.size + truth.outputs
    oracle, begun = Oracle(truth, dim=truth.dim, budget=2**20, rng=seed), time.process_time()
    try:
        found = recover(oracle, Lines(depth=None), rng=seed)
    except LaybareError:
        return WideRun(oracle.spent, time.process_time() - begun, np.inf, 1, 0, False, oracle.spent / parameters)
    seconds = time.process_time() - begun
    units, right = units_that_agree(found.network, truth)
    return WideRun(
        found.reading_queries, seconds, agreement(found.network, truth).difference, units, right,
        found.certificate.verdict == "verified", found.reading_queries / parameters,
        deep_control_error(truth, found.reading_queries, seed) if seed % 10 == 0 else np.nan)


def deep_control_error(truth: Network, samples: int, seed: int) -> float:
    """L-BFGS from a random start, the shape given, on as many Gaussian samples: the largest relative error of the function."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    x = np.random.default_rng(seed).standard_normal((samples, truth.dim))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = MLPRegressor(
            hidden_layer_sizes=truth.widths, solver="lbfgs", alpha=0.0, tol=0.0, max_iter=200, random_state=seed).fit(x, truth(x))
    return agreement(from_sklearn(fitted), truth).difference


def _wide_sentence(m: StudyMeasurement) -> str:
    runs = m.all_runs
    wrong = sum(run.verified and not run.function_right for run in runs)
    return (
        f"{sum(run.function_right for run in runs)} of {len(runs)} functions are read to 1e-8, {sum(run.right for run in runs)} "
        f"with every unit that bends; verified but wrong: {wrong}.")


DEEP_WIDE = Study(
    "deep-wide", "deep ReLU networks with wide or many layers, read by folds: queries, seconds, units",
    "No published attack reads a layer that is wider than its input.",
    quick=((5, 9, 4, 1), (5, 12, 12, 3)),
    full=((8, 6, 10, 1), (16, 12, 8, 6, 1), (20, 14, 10, 8, 6, 1), (5, 20, 20, 2), (4, 10, 10, 10, 1),
          (6, 16, 16, 16, 4), (5, 50, 50, 5)),
    run_cell=read_wide,
    table=table(
        network=lambda shape, runs: "-".join(map(str, shape)), networks=col.count, function_right=col.total("function_right"),
        right=col.total("right"), right_and_verified=col.total(lambda run: run.right and run.verified),
        verified_but_wrong=col.total(lambda run: run.verified and not run.function_right),
        queries_per_parameter=col.median("per_parameter"), median_error=col.median("function"), median_s=col.median("seconds"),
        smallest_control_error=lambda shape, runs: float(np.fmin.reduce(col.values(runs, "control")))),
    sentence=_wide_sentence)
"""Layers wider than their inputs, and three and four layers. Rows N(0, I / fan-in), biases N(0, 1/4), depth and widths unknown.
The function is right if outputs agree to 1e-8 of the largest one at 40,000 inputs of four scales; all is right if so do the
outputs of every unit that bends there, which says its side as well. Where features are never on together no answer tells a
weight, and its unit does not count as right. Control: scikit-learn's L-BFGS on as many samples, the shape given, for seeds that
ten divides. The grid is of inputs, widths and outputs."""

CASE_SHAPES: dict[str, tuple[int, ...]] = {
    "contracting": (16, 10, 6), "square": (8, 8, 8), "expanding": (5, 9, 4), "wide at the end": (8, 6, 10),
    "three layers": (16, 12, 8, 6), "four layers": (20, 14, 10, 8, 6), "asleep or always on": (14, 10, 8),
    "float32": (10, 8, 6)}


def plant_case(kind: str, seed: int) -> Network:
    """A network of that kind; seeds from 2000 on."""
    shape = CASE_SHAPES[kind]
    network = random_network(shape[0], widths=shape[1:], rng=2000 + seed)
    return _with_constant_units(network) if kind == "asleep or always on" else network


def _with_constant_units(network: Network) -> Network:
    """With a unit that is always off and one that is always on in the second layer."""
    first, second = network.layers
    weights, biases = np.array(second.weights), np.array(second.biases)
    weights[0], biases[0] = -np.abs(weights[0]), -0.3
    weights[1], biases[1] = np.abs(weights[1]), 0.3
    return Network((first, Layer(weights, biases)), network.readout, network.offset)


def _in_float32(network: Network) -> Callable[[Array], Array]:
    return lambda x: network(x).astype(np.float32)


def read_case(kind: str, seed: int) -> DeepRun:
    """Parameters must agree to 1e-8, to 1e-2 if the answers are float32."""
    truth, single = plant_case(kind, seed), kind == "float32"
    return read_deep(_in_float32(truth) if single else truth, truth, 100_000, seed, 1e-2 if single else SUCCESS.read_error)


def _cases_sentence(m: StudyMeasurement) -> str:
    total, right, wrong = (sum(col.values(m.rows, name)) for name in ("cases", "right", "verified_but_wrong"))
    return f"{total} deep networks: {right} are right in every number; verified but wrong: {wrong}."


DEEP_CASES = Study(
    "deep-cases", "deep networks of every hard kind: right, partial, verified but wrong",
    "What lines cannot read is said: a wrong or incomplete network is never verified.",
    quick=("contracting", "square", "asleep or always on"), full=tuple(CASE_SHAPES), run_cell=read_case,
    table=table(
        kind=col.itself, cases=col.count, right=col.total("right"),
        right_and_verified=col.total(lambda run: run.right and run.verified), lower_layers_only=col.total("partial"),
        refused=col.total("refused"), verified_but_wrong=col.total(_verified_but_wrong)),
    sentence=_cases_sentence)
"""Random deep networks of every kind that is hard: is a result ever wrong and verified? Contracting, square and expanding layers,
three and four of them, units that are never or always active, answers in float32. What is right, what is only the lower layers
under the black box, and what the certificate says, counted. The grid is of kinds."""

TRAINED_WIDTHS = {"digits": (32, 16), "breast_cancer": (20, 10), "diabetes": (10, 8)}


def train(name: str, seed: int) -> Any:
    """The network that scikit-learn trains."""
    from sklearn import datasets
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPRegressor(hidden_layer_sizes=TRAINED_WIDTHS[name], max_iter=300, random_state=seed).fit(
            StandardScaler().fit_transform(x), (y - y.mean()) / y.std())


def read_trained(name: str, seed: int) -> DeepRun:
    """Train, read, compare."""
    model = train(name, seed)
    return read_deep(model, from_sklearn(model), 2**18, seed)


def _trained_sentence(m: StudyMeasurement) -> str:
    runs = m.all_runs
    return (
        f"{sum(run.right for run in runs)} of {len(runs)} trained networks are read to 1e-8 in every number that an input shows.")


DEEP_TRAINED = Study(
    "deep-trained", "trained networks of two hidden layers read out of scikit-learn",
    "Nothing is published on these; trained networks have units that are hardly ever active.",
    quick=("diabetes",), full=tuple(TRAINED_WIDTHS), run_cell=read_trained,
    table=table(
        data=col.itself, right=_right_of, verified_but_wrong=col.total(_verified_but_wrong), log2_queries=_log2_queries,
        median_error=col.median("error"), largest_seconds=col.reduced(np.nanmax, "seconds")),
    sentence=_trained_sentence)
"""Trained networks of two hidden layers read out of scikit-learn: digits 64-32-16, breast cancer 30-20-10, diabetes 10-10-8.
MLPRegressor with its defaults on standardised inputs and targets (the number of the class for the two classifications), one
network for each seed. Training leaves units that are hardly ever active, or hardly read: what no input shows does not count."""


class AuditCell(NamedTuple):
    """Inputs and hidden units of every layer, and the budgets."""

    shape: tuple[int, ...]
    budgets: tuple[int, ...] = (100, 300, 1000, 3000, 10_000)


class DefenceCell(NamedTuple):
    """A network behind a defence."""

    network: str
    defence: str


class DefenceRun(NamedTuple):
    """Queries to 1 % and to 1e-6, infinite if the budgets were not enough, and the quota under which that takes a year."""

    defence: str
    near: float
    exact: float
    quota: int


def planted(shape: Sequence[int], seed: int) -> Network:
    """A network of one output: rows of length about 1, biases 0.3 N(0,1), readout N(0,1)."""
    rng = np.random.default_rng([seed, *shape])
    layers = tuple(
        Layer(rng.standard_normal((out, into)) / np.sqrt(into), 0.3 * rng.standard_normal(out))
        for into, out in pairwise(shape))
    return Network(layers, rng.standard_normal(shape[-1]), 0.1)


def audit_once(cell: AuditCell, seed: int) -> list[DefenceRun]:
    """One audit with the standard defences that change answers; the first run is the model without any."""
    chosen = [name for name in STANDARD if not name.startswith(("cap", "label"))]
    found = audit(planted(cell.shape, seed), cell.budgets, defences=chosen, rng=seed)
    runs = [DefenceRun("none", _or_inf(found.near), _or_inf(found.exact), found.quota)]
    return runs + [DefenceRun(row.name, _or_inf(row.near), _or_inf(row.exact), row.quota) for row in found.defences]


def _or_inf(queries: int | None) -> float:
    return inf if queries is None else float(queries)


def _by_defence(grid: Any, runs: Mapping[AuditCell, Sequence[list[DefenceRun]]]) -> dict[DefenceCell, list[DefenceRun]]:
    rows: dict[DefenceCell, list[DefenceRun]] = {}
    for cell, audits in runs.items():
        for run in (run for each in audits for run in each):
            rows.setdefault(DefenceCell(f"{'-'.join(map(str, cell.shape))}-1", run.defence), []).append(run)
    return rows


def _sentence(m: StudyMeasurement) -> str:
    parts = [
        f"{row.network} behind {row.defence}: {row.copied}/{row.runs} copied" for row in m.rows if row.defence != "none"]
    return f"{'; '.join(parts)}."


DEFENCES = Study(
    "defences", "Queries to a copy of planted networks behind defences",
    "One hidden layer: rounding and noise make a copy dearer and do not prevent it. Two: they prevent it within 10,000 queries.",
    quick=((10, 16),), full=((10, 16), (30, 20, 10)), cells=lambda shapes: [AuditCell(shape) for shape in shapes],
    run_cell=audit_once, group=_by_defence,
    table=table(
        "network", "defence", copied=col.total(lambda run: run.near < inf), exact=col.total(lambda run: run.exact < inf),
        runs=col.count, median_queries=lambda cell, runs: float(median(run.near for run in runs)),
        largest_queries=lambda cell, runs: max(run.near for run in runs),
        median_quota=lambda cell, runs: float(median(run.quota for run in runs))),
    sentence=_sentence)
"""What helps against extraction? Audits with the standard defences of planted ReLU networks, 10-16-1 and, with `--full`,
30-20-10-1, within 10,000 queries. "copied" counts networks with a copy within one per cent of the spread of the answers on 99 %
of inputs, at 95 % confidence; queries are infinite where there was none."""

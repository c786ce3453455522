"""What the data show, and which methods suit them.

Which method suits the data: the conditions of each, and the order in which they are tried, with a sentence for each.

A condition holds, fails, or cannot be seen in the data (None). A method fits if none of its conditions fails. The order is what
was measured to work, not what has a theorem. RandomStart with spare units solves most settings and
needs the fewest assumptions, so it is always tried. SymmetricInputs goes before it: for several outputs it wins with few samples.
Moments come after it, for bias-free units in 20 dimensions or more.

What the data show before any method has run: the law of the inputs, and how much of the outputs lies in each Hermite order.

For x ~ N(0, I) and y of variance 1, s_k = Σ_{|α|=k} E[y h_α(x)]², h_α orthonormal, is the share of the variance of y that lies in
order k. With K_k(x, x') = Σ_{|α|=k} h_α(x) h_α(x') it is the mean of y y' K_k(x, x') over pairs of different rows, and Mehler's
formula gives the kernels of all orders at once, without forming a moment:

    Σ_k t^k K_k = (1 - t²)^(-d/2) exp((t s - t² q)/(1 - t²)),    s = x·x',  q = (|x|² + |x'|²)/2.

Under pure noise an estimate from n rows has standard deviation √(2 D_k)/n, D_k the number of monomials of degree k; a signal adds
that of its first-order part, 2 sd(g)/√n with g_i = mean_j y_i y_j K_k(x_i, x_j). For orders 2 to 4 the linear fit is subtracted
first, which holds most of the variance.
Source: Mehler (1866); Hoeffding (1948) for the spread of a U-statistic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, as_activation, gelu, relu, softplus, tanh
from laybare.assembly.sign_decoding import absolute_form
from laybare.certificate import Claim
from laybare.methods.general_relu import GeneralReLU
from laybare.methods.start import Method, RandomStart
from laybare.methods.symmetric_inputs import SymmetricInputs
from laybare.methods.symmetric_neurons import symmetry_claim
from laybare.methods.tensor_init import TensorInit
from laybare.moments import Normality, SecondMoment, measure_with_noise, normality
from laybare.numerics.checks import as_generator, check_whole
from laybare.numerics.linear_algebra import inner
from laybare.numerics.shapes import Array, Sums
from laybare.numerics.workspace import single_blas_thread
from laybare.source import Source
from laybare.source.protocol import check_source
from laybare.source.sums import map_in_order

ORDERS = 4
"""Hermite orders whose signal is measured. Derived: those that methods read weights from."""


@dataclass(frozen=True, kw_only=True)
class SummaryOptions:
    """Rows of the summary, and how far a signal stands above noise."""

    max_rows: int = 20_000  # a summary takes a second whatever the number of rows. Checked by `laybare reproduce choose`.
    pair_rows: int = 1500  # rows of which all pairs are formed. Checked by `pytest tests/methods/choosing`.
    stripe: int = 64  # rows paired with all others at a time. Convention: the cache of a core.
    order_sigmas: float = 3.0  # standard deviations of a signal in an order. Convention: one false alarm in 700.
    rows_per_term: int = 4  # of the polynomial that is tried. Derived: half of them fit it, half of them judge it.
    max_products: int = 1 << 23  # numbers in its design. Convention: 64 MB, a tenth of a second.
    rounding: float = 1e-9  # relative residual of an exact polynomial. Derived: rounding times the condition of random rows.
    eigenvalue_margin: float = 3.0  # over the largest one of noise, to have a sign. Checked by `pytest tests/methods/choosing`.


SUMMARY = SummaryOptions()


class OrderSignal(NamedTuple):
    """Share of the variance of y in an order, the largest over outputs, and the standard deviation that chance has there."""

    order: int
    share: float
    noise: float

    @property
    def seen(self) -> bool:
        """Whether it stands three standard deviations above chance."""
        return self.share > SUMMARY.order_sigmas * self.noise


def order_signals(source: Source) -> tuple[OrderSignal, ...]:
    """Shares of orders 1 to 4 for white inputs; a heuristic where they are not normal. Reads the first rows."""
    x, y = source.read(0, min(source.size, SUMMARY.pair_rows))
    y = (y - y.mean(axis=0)) / np.maximum(y.std(axis=0), np.finfo(float).tiny)
    design = np.column_stack([np.ones(len(x)), x])
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    labels = [y] + [rest] * (ORDERS - 1)
    pulled, starts = [np.empty_like(y) for _ in labels], range(0, len(x), SUMMARY.stripe)

    def stripe(start: int) -> Array:
        """Fills its rows of what is pulled, and returns the squares of its kernels."""
        rows, squares = slice(start, start + SUMMARY.stripe), np.empty(ORDERS)
        with single_blas_thread():
            for k, kernel in enumerate(kernels_of_orders(x[rows], x)):
                own = np.diagonal(kernel, start)[:, None]
                pulled[k][rows] = kernel @ labels[k] - own * labels[k][rows]
                squares[k] = np.einsum("ij,ij->", kernel, kernel)
        return squares

    squares = np.sum(list(map_in_order(stripe, starts, source.schedule.threads(len(starts)))), axis=0)
    return tuple(
        max((_signal(k + 1, *pair, squares[k]) for pair in zip(labels[k].T, pulled[k].T, strict=True)), key=lambda one: one.share)
        for k in range(ORDERS))


def kernels_of_orders(x: Array, others: Array) -> list[Array]:
    """K_1, ..., K_4 of all pairs of a row of `x` and one of `others`: the coefficients of exp(a₁t + a₂t² + a₃t³ + a₄t⁴)."""
    d = x.shape[1]
    s, q = x @ others.T, 0.5 * (np.sum(x * x, axis=1)[:, None] + np.sum(others * others, axis=1))
    a, b = 0.5 * d - q, 0.25 * d - q
    second = s * s
    fourth = b + second + a * a / 2.0 + second * a / 2.0 + second * second / 24.0
    return [s, a + second / 2.0, s + s * a + s * second / 6.0, fourth]


def _signal(order: int, y: Array, pulled: Array, squares: float) -> OrderSignal:
    """From Σ_j K(x_i, x_j) y_j without j = i, and the sum of all K²."""
    n = len(y)
    each = y * pulled / (n - 1.0)
    chance = float(y @ y) * sqrt(2.0 * float(squares)) / n**3
    spread = 4.0 * float(each.var()) / n - chance * chance  # of pure noise: 2 chance² - chance²
    return OrderSignal(order, float(each.mean()), sqrt(max(chance * chance, spread)))


class DataSummary(NamedTuple):
    """What was seen.

    `constant`: share of the rows with the most frequent label. `orders`: the signal in Hermite orders 1 to 4. `positive` and
    `negative`: eigenvalues of the second moment with either sign that stand above its noise (one output). `residual`: share of
    the variance of y that no linear function explains. `odd`: a sentence, if the outputs are
    labels of two classes or a polynomial.
    """

    size: int
    dim: int
    outputs: int
    normal: Normality
    symmetric: Claim | None
    constant: float
    orders: tuple[OrderSignal, ...]
    positive: int
    negative: int
    residual: float
    odd: str = ""

    @property
    def biased(self) -> bool:
        """Whether ReLU-like units must have biases: without, their third moment vanishes under every symmetric law."""
        return self.orders[2].seen


def summarise_data(white: Source, given: Source, *, rng: Generator) -> DataSummary:
    """Summarise white rows, and the same (or some more) as they were given; three passes, five for several outputs.

    The symmetry of x is tested for several outputs only: with one no method needs it.
    """
    some = white if white.size <= SUMMARY.max_rows else white.split(SUMMARY.max_rows / white.size, rng=rng).first.kept()
    symmetric = symmetry_claim(given.take(some.size).whitened(centred=False)) if given.outputs > 1 else None
    signs = _count_signs(some) if white.outputs == 1 and white.size > 2 else (0, 0)
    return DataSummary(
        given.size, white.dim, white.outputs, normality(some, rng=rng), symmetric, _largest_tie(some), order_signals(some),
        *signs, _nonlinear_share(some), name_labels(given) or _name_polynomial(some))


def _largest_tie(source: Source) -> float:
    y = source.read(0, min(source.size, SUMMARY.max_rows)).y
    labels = y[:, 0] if y.shape[1] == 1 else y  # rows are compared as bytes, which takes ten times as long
    return float(np.unique(labels, axis=0, return_counts=True)[1].max()) / len(y)


def name_labels(source: Source) -> str:
    """A sentence for outputs that have two values only, as labels of two classes do; nothing for others."""
    values = np.unique(source.read(0, min(source.size, SUMMARY.max_rows)).y)
    if source.outputs != 1 or len(values) != 2:
        return ""
    low, high = values
    first = "" if (low, high) == (0.0, 1.0) else "Write them as 0 and 1. "
    return (
        f"All outputs are {low:g} or {high:g}: labels of two classes. Least squares fits their mean by a network, which is "
        f'seldom one. {first}Use loss="bernoulli" for the log odds.')


def _name_polynomial(source: Source) -> str:
    """A sentence for outputs that a polynomial of degree 2, fitted to half of the rows, predicts on the others to rounding."""
    terms = (source.dim + 1) * (source.dim + 2) // 2
    rows = SUMMARY.rows_per_term * terms
    if rows > source.size or rows * terms > SUMMARY.max_products:
        return ""
    x, y = source.read(0, rows)
    i, j = np.triu_indices(source.dim)
    design = np.column_stack([np.ones(rows), x, x[:, i] * x[:, j]])
    used, fresh = slice(0, rows, 2), slice(1, rows, 2)
    rest = y[fresh] - design[fresh] @ np.linalg.lstsq(design[used], y[used], rcond=None)[0]
    if not np.all(np.sum(rest**2, axis=0) <= SUMMARY.rounding**2 * np.sum((y - y.mean(axis=0)) ** 2, axis=0)):
        return ""
    return (
        "The outputs are a polynomial of degree 2 in the inputs, to rounding: no network of the usual units. Fit its "
        "coefficients by least squares.")


def _count_signs(source: Source) -> tuple[int, int]:
    moment = measure_with_noise(source, SecondMoment(), stage="second moment")
    values = np.linalg.eigvalsh(moment.value[0])
    edge = SUMMARY.eigenvalue_margin * float(np.abs(np.linalg.eigvalsh(moment.noise[0])).max(initial=0.0))
    return int(np.sum(values > edge)), int(np.sum(values < -edge))


def _nonlinear_share(source: Source) -> float:
    """The largest over outputs; y is centred by its first row, so that a large mean does no harm."""
    first = source.read(0, 1).y[0].copy()

    def products(x: Array, y: Array) -> Sums:
        columns = np.column_stack([np.ones(len(x)), x])
        return inner(columns, columns), inner(columns, y - first), np.sum((y - first) ** 2, axis=0)

    gram, moment, squares = source.sum(products, stage="linear fit")
    explained = np.sum(moment * np.linalg.lstsq(gram, moment, rcond=None)[0], axis=0)
    whole = squares - moment[0] ** 2 / source.size
    return float(np.clip((squares - explained) / np.maximum(whole, np.finfo(float).tiny), 0.0, 1.0).max())


@dataclass(frozen=True, kw_only=True)
class ChoiceRules:
    """Shares of equal labels, and dimensions, that decide what is tried."""

    rare_activity: float = 0.5  # equal labels of rarely active units. Derived: the majority that HighThreshold needs.
    max_smooth_ties: float = 0.02  # share of equal labels of smooth units. Checked by `pytest tests/methods/choosing`.
    moments_dim: int = 20  # from which moments beat random directions. Checked by `pytest tests/methods/choosing`.


CHOICE = ChoiceRules()


class Condition(NamedTuple):
    """An assumption, what was seen, and whether it holds; None if the data cannot tell."""

    assumption: str
    seen: str
    holds: bool | None


class Suitability(NamedTuple):
    """A method and its conditions."""

    method: str
    conditions: tuple[Condition, ...]

    @property
    def fits(self) -> bool:
        return all(condition.holds is not False for condition in self.conditions)

    @property
    def sentence(self) -> str:
        """Why, or why not."""
        failed = [f"{one.assumption} fails ({one.seen})" for one in self.conditions if one.holds is False]
        if failed:
            return f"{self.method} does not suit: {'; '.join(failed)}."
        held = [f"{one.assumption} ({one.seen})" for one in self.conditions if one.holds]
        open_ = [one.assumption for one in self.conditions if one.holds is None]
        return f"{self.method} suits: {', '.join(held)}" + (f"; not to be seen: {', '.join(open_)}." if open_ else ".")


def check_suitability(seen: DataSummary, width: int | None, activation: Activation | None) -> tuple[Suitability, ...]:
    """Every method that samples allow, each with its conditions; `width` and `activation` if they are known."""
    normal, symmetric, free = _normal(seen), _symmetric(seen), _bias_free(seen)
    narrow, kinked = _narrow(seen, width), _kinked(activation)
    several, alone = (
        Condition(text, f"{seen.outputs}", holds)
        for text, holds in (("several outputs", seen.outputs > 1), ("one output", seen.outputs == 1)))
    rare = Condition("more than half of the labels equal", f"{seen.constant:.1%} are", seen.constant > CHOICE.rare_activity)
    return (
        Suitability("SymmetricInputs", (several, symmetric, free, kinked, narrow)),
        Suitability("TensorInit", (normal, free, narrow, _moments(seen))),
        Suitability("LandscapeDesign", (normal, free, narrow, alone, _positive(seen))),
        Suitability("GeneralReLU", (normal, _moments(seen))),
        Suitability("RandomStart", (_rows(seen, width),)),
        Suitability("HighThreshold", (rare, normal, narrow)))


def _normal(seen: DataSummary) -> Condition:
    text = (
        f"moments of projections are {seen.normal.size:.2g} off, {seen.normal.sigmas:.1f} standard deviations "
        f"(chance: up to {seen.normal.allowed:.1f})")
    holds = bool(seen.normal.plausible) and (True if seen.normal.decided else None)
    return Condition("normal inputs", text + "; uniform ones may look so" * (holds is None), holds)


def _symmetric(seen: DataSummary) -> Condition:
    claim = seen.symmetric
    if claim is None:
        return Condition("x and -x equally likely", "of no use with one output", None)
    text = f"F = {claim.value:.2f}, chance stays below {claim.threshold:.2f}"
    return Condition("x and -x equally likely", text, bool(claim.passed))


def _bias_free(seen: DataSummary) -> Condition:
    """Order 3 refutes it; nothing proves it, since biases may be small, or cancel."""
    third = seen.orders[2]
    text = f"order 3 holds {third.share:.1%} of y, chance {third.noise:.1%}"
    return Condition("units without biases", text, False if third.seen else None)


def _kinked(activation: Activation | None) -> Condition:
    if activation is None:
        return Condition("ReLU or leaky ReLU", "not given", None)
    fold = absolute_form(activation)
    return Condition("ReLU or leaky ReLU", activation.name, fold is not None and fold.odd + fold.even != 0.0)


def _narrow(seen: DataSummary, width: int | None) -> Condition:
    if width is None:
        return Condition("no more units than inputs", f"dimension {seen.dim}, width not given", None)
    return Condition("no more units than inputs", f"width {width}, dimension {seen.dim}", width <= seen.dim)


def _positive(seen: DataSummary) -> Condition:
    if not seen.positive and not seen.negative:
        return Condition("readouts of one sign", "no eigenvalue of the second moment stands above noise", None)
    return Condition(
        "readouts of one sign", f"{seen.positive} positive and {seen.negative} negative eigenvalues of the second moment",
        not (seen.positive and seen.negative))


def _moments(seen: DataSummary) -> Condition:
    shown = [str(one.order) for one in seen.orders[1:] if one.seen]
    text = f"order{'s' * (len(shown) != 1)} {', '.join(shown)}" if shown else "none does"
    return Condition("moments of orders 2 to 4 carry a signal", text, bool(shown))


def _rows(seen: DataSummary, width: int | None) -> Condition:
    need = 2 * (width or 1) * (seen.dim + 2)
    have = seen.size * seen.outputs
    return Condition("samples", f"{have:,} outputs, {need:,} for {width or 1} unit{'s' * ((width or 1) > 1)}", have >= need)


SMOOTH = (tanh, softplus, gelu)
"""Tried after ReLU where no activation is given. Sigmoid is tanh, scaled and shifted; erf is close to it."""

METHODS: dict[str, Callable[[Activation], Method]] = {
    "SymmetricInputs": lambda unit: SymmetricInputs(activation=unit), "TensorInit": lambda unit: TensorInit(activation=unit),
    "GeneralReLU": lambda unit: GeneralReLU(activation=unit), "RandomStart": lambda unit: RandomStart(activation=unit)}

REASONS = {
    "SymmetricInputs": "with several outputs it needs the fewest samples",
    "TensorInit": f"in {CHOICE.moments_dim} dimensions or more moments find bias-free units that random directions miss",
    "GeneralReLU": "moments may show units that random directions miss",
    "RandomStart": "it assumes nothing about the inputs and solves most settings"}


class Candidate(NamedTuple):
    """A method to try, and why."""

    method: Method
    reason: str


class Choice(NamedTuple):
    """What was seen, what each method needs, the order in which they are tried, and what to do if all are refuted."""

    seen: DataSummary
    table: tuple[Suitability, ...]
    candidates: tuple[Candidate, ...]
    otherwise: str

    def __repr__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """A sentence for every method, those that are tried first."""
        tried = [f"{n}. {one.reason}" for n, one in enumerate(self.candidates, 1)]
        others = {type(one.method).__name__ for one in self.candidates}
        return "\n".join([*tried, *(row.sentence for row in self.table if row.method not in others), self.otherwise])


@np.errstate(all="ignore")
def choose(source: Source, width: int | None = None, activation: Activation | None = None, *, rng: Generator | int = 0) -> Choice:
    """Which methods to try on samples, in which order, and why; a look at up to 20,000 rows."""
    check_source(source)
    rng, activation = as_generator(rng), None if activation is None else as_activation(activation)
    width = None if width is None else check_whole("width", width)
    some = source if source.size <= SUMMARY.max_rows else source.split(SUMMARY.max_rows / source.size, rng=rng).first
    return choose_from_summary(summarise_data(some.whitened().kept(), some, rng=rng), width, activation)


def first_candidate(outputs: int, activation: Activation | None) -> Candidate | None:
    """What comes first whatever the data show; None if they decide, which they do for several outputs."""
    return _candidate("RandomStart", activation or relu) if outputs == 1 else None


def _candidate(name: str, unit: Activation) -> Candidate:
    return Candidate(METHODS[name](unit), f"{name} of {unit.name} units: {REASONS[name]}.")


def choose_from_summary(seen: DataSummary, width: int | None, activation: Activation | None) -> Choice:
    """The same for evidence that was gathered already."""
    table = check_suitability(seen, width, activation)
    fitting = {row.method for row in table if row.fits} | {"RandomStart"}
    names = [name for name in _order(seen, activation) if name in fitting]
    candidates = [_candidate(name, activation or relu) for name in names]
    if activation is None and seen.constant <= CHOICE.max_smooth_ties:
        candidates += [
            Candidate(RandomStart(activation=other), f"RandomStart of {other.name} units: no activation was given, and it may be "
                      "another than ReLU.") for other in SMOOTH]
    return Choice(seen, table, tuple(candidates), _otherwise(seen))


def _order(seen: DataSummary, activation: Activation | None) -> list[str]:
    """Before RandomStart what was measured to win there, after it what may find other minima."""
    shown = activation is None or activation.degree is not None or activation.centre is not None
    moments = shown and seen.dim >= CHOICE.moments_dim
    after = [*(["TensorInit"] if moments else []), *([] if seen.constant > CHOICE.rare_activity else ["GeneralReLU"])]
    return ["SymmetricInputs", "RandomStart", *after]


def _otherwise(seen: DataSummary) -> str:
    if seen.odd:
        return seen.odd
    if seen.constant > CHOICE.rare_activity:
        return (
            f"If all are refuted: {seen.constant:.0%} of the labels are equal, so that the lowest layer may be rarely active "
            "under further layers; recover_layer(source, HighThreshold(activation=...)) finds it alone.")
    return "If all are refuted, the function is most likely no network of one hidden layer, or of other units."

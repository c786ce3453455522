"""A second layer read from coarse answers, and the end of a network of two hidden layers.

    hyperplanes of the lowest layer -> those that do not go on beyond others are none of it
    lines -> kinks that no known unit explains -> surfaces followed (`CoarseSurface`) -> rows with error bars
    -> orientation of the lowest layer: bits by least squares, weighted by these errors, the surest first
    -> is the output affine in the two layers? readout, orientation of the second, joint fit, fresh answers

Every decision is a number against its standard deviation. What the answers do not tell is said: a weight whose standard deviation
stays that of its prior is open, a bit that is nearer to one half than its error is not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from laybare.errors import AssumptionViolated, NotSeparated
from laybare.lines.folds.coarse_surface import CoarseDomain, CoarseOptions, CoarseSurface
from laybare.lines.folds.stack import KnownLayers
from laybare.lines.hyperplanes import HYPERPLANE, WINDOW, SlopesAcross, is_straight, kink_of, usable_line
from laybare.lines.kinks import LineProfile, answers_along, end_piece, find_kinks
from laybare.lines.line import Line, line_through
from laybare.lines.query import QueryContext
from laybare.numerics.shapes import Array, Progress, report_progress


class RowEstimates(NamedTuple):
    """Rows (units, unknowns) in the features [relu(z), h_below, 1], with their covariances (units, unknowns, unknowns)."""

    values: Array
    covariances: Array


@dataclass(eq=False)
class CoarseReader:
    """Reads the layer above a lowest one, whose hyperplanes are known up to `errors` and oriented arbitrarily."""

    context: QueryContext
    known: KnownLayers
    errors: Array
    scale: float
    options: CoarseOptions = CoarseOptions()
    units: list[CoarseSurface] = field(default_factory=list)
    lines: int = 0
    refused: int = 0
    density: float = 0.0
    progress: Progress | None = None

    # The lowest layer.

    def drop_false_hyperplanes(self) -> int:
        """Drop hyperplanes that do not go on beyond others; the number of them.

        A surface of the layer above is flat where no unit bends below it, all over the domain if these bend far away. It turns at
        every one of them: beside another hyperplane it is met on one side only.
        """
        weights, biases = self.known.weights[0], self.known.biases[0]
        kept = np.array([self._goes_on(k) for k in range(len(biases))])
        if kept.sum() < 1 or kept.all():
            return 0
        self.known = KnownLayers(self.known.dim, (weights[kept],), (biases[kept],))
        self.errors = self.errors[kept]
        return int((~kept).sum())

    def _goes_on(self, k: int) -> bool:
        """Wald's test on pairs of places, on both sides of another hyperplane each."""
        o, rng, score = self.options, self.context.rng, 0.0
        others = np.delete(np.arange(len(self.errors)), k)
        for _ in range(o.most_pairs):
            if not len(others) or not o.refuse < score < o.accept:
                break
            met = [self._is_met(k, x) for x in self._pair(k, int(rng.choice(others)))]
            if len(met) == 2 and None not in met and any(met):
                shares = (o.both_share, o.both_by_chance) if all(met) else (1.0 - o.both_share, 1.0 - o.both_by_chance)
                score += float(np.log(shares[0] / shares[1]))
        return score > o.refuse

    def _pair(self, k: int, other: int) -> list[Array]:
        """Two inputs on a hyperplane, a little before and beyond another one."""
        (weights,), (biases,) = self.known.weights, self.known.biases
        x = self.inputs(1)[0]
        w, g = weights[k], weights[other]
        across = g - (g @ w) * w
        size = float(np.linalg.norm(across))
        if size < self.options.slant:
            return []
        x = x - (w @ x + biases[k]) * w
        x = x - (g @ x + biases[other]) / size**2 * across
        step = self.options.pair_step * self.scale * across / size
        return [x - step, x + step]

    def _is_met(self, k: int, x: Array) -> bool | None:
        """Whether the answers bend on hyperplane k at a place; None if that cannot be seen."""
        (weights,), (biases,), o = self.known.weights, self.known.biases, self.options
        rates = np.abs(weights @ weights[k])
        rates[k] = 0.0
        room = float((np.abs(weights @ x + biases) / np.maximum(rates, 1e-12))[np.arange(len(biases)) != k].min(initial=np.inf))
        bar = o.sds * float(self.errors[k]) * np.sqrt(1.0 + float(x @ x))
        half = min(o.pair_step * self.scale, 0.5 * room)
        if bar > 0.25 * half:
            return None
        seen = None
        for _ in range(3):
            points = x + half * WINDOW[:, None] * weights[k]
            asked = self.context.queries.ask_if_usable(points, "checks")
            if asked is None:
                return None
            noise = float(self.context.rounding.sd(points, asked).max())
            kink = kink_of(asked, noise, half)
            if kink is not None:
                return bool(abs(kink.offset) <= bar + o.sds * kink.sd)
            if is_straight(asked, noise):
                change = float(np.abs(asked[-1] - asked[0]).max())
                return False if change > 50.0 * noise else None
            half /= 4.0
            if bar > 0.25 * half:
                return seen
        return seen

    # Surfaces of the layer above.

    def read(self) -> None:
        """Lines until several in a row bring no unit."""
        quiet = 0
        while quiet < self.options.quiet_lines and self.lines < self.options.most_lines:
            profile = self._profile(usable_line(self.context.queries, self.known.dim, self.scale, rng=self.context.rng))
            self.lines += 1
            if profile is None or not profile.kinks:
                continue
            before = len(self.units)
            self._follow_kinks(profile)
            quiet = 0 if len(self.units) > before else quiet + 1
            report_progress(
                self.progress, "layer 2", len(self.units), 0, f"{self.lines} lines; {self.context.queries.total} queries")

    def look_between(self, x: Array, missed: Array) -> bool:
        """Whether lines between answers that are not predicted and near ones that are show a unit."""
        o, rng, before = self.options, self.context.rng, len(self.units)
        right = np.delete(x, missed, axis=0)
        for i in rng.permutation(missed)[: o.targets] if len(right) else ():
            near = right[np.argmin(np.linalg.norm(right - x[i], axis=1))]
            length = float(np.linalg.norm(x[i] - near))
            profile = self._profile(line_through((near + x[i]) / 2.0, x[i] - near, length, length / 4.0))
            self.lines += 1
            if profile is not None and profile.kinks:
                self._follow_kinks(profile)
        return len(self.units) > before

    def inputs(self, n: int) -> Array:
        """Random inputs (n, dim) of the domain, of several scales."""
        rng = self.context.rng
        return np.asarray(self.scale * rng.standard_normal((n, self.known.dim)) * rng.choice(self.options.fit_spreads, (n, 1)))

    def inputs_beside_units(self, n: int) -> Array:
        """Inputs (n, dim) beside places of the surfaces, at distances of several sizes."""
        rng, on = self.context.rng, np.vstack([np.array(unit.x) for unit in self.units])
        on = on[rng.integers(len(on), size=n)]
        return np.asarray(on + self.scale * 10.0 ** rng.uniform(-2.0, -0.3, (n, 1)) * rng.standard_normal(on.shape))

    def _profile(self, line: Line) -> LineProfile | None:
        along = answers_along(self.context, line)
        try:
            ends = [end_piece(along, line, end) for end in (line.low, line.high)]
            return find_kinks(along, line, ends, max_queries=HYPERPLANE.queries_per_line)
        except (NotSeparated, AssumptionViolated):
            return None

    def _follow_kinks(self, profile: LineProfile) -> None:
        line, t = profile.line, profile.places
        near = 2.0 * self.scale * np.sqrt(self.known.dim)
        inside = min(near, line.high) - max(-near, line.low)
        self.density = max(self.density, float((np.abs(t) < near).sum()) / inside)
        across = SlopesAcross(self.context, profile)
        for i, kink in enumerate(profile.kinks):
            x = line(kink.t)[0]
            if np.linalg.norm(x) > self.options.reach * self.scale * np.sqrt(self.known.dim):
                continue
            if self.is_explained(x, line.direction, kink.sd):
                continue
            rough = across.rough_hyperplane(i)
            if rough is None:
                continue
            density = max(self.density, 1.0 / near)
            domain = CoarseDomain(self.context, self.known, self.errors, self.scale, density, self.options)
            surface = CoarseSurface(domain, rough, x)
            self.refused += not self._accept(surface)

    def is_explained(self, x: Array, u: Array, sd: float) -> bool:
        """Whether a known hyperplane, or the surface of a known unit, passes through a place of a line within error bars."""
        z, rate = self.known.preactivations(x[None])[0][0], np.abs(self.known.weights[0] @ u)
        if (np.abs(z) <= HYPERPLANE.explained_sds * (sd * rate + self.errors * np.sqrt(1.0 + x @ x))).any():
            return True
        return any(unit.passes(x, u, sd) for unit in self.units)

    def _accept(self, surface: CoarseSurface) -> bool:
        """Follow a surface; whether it is of a unit of this layer, new or known."""
        if not surface.explore(self.units) or not surface.is_supported():
            return False
        for unit in self.units:
            if unit.is_same(surface):
                unit.take(surface)
                return True
        self.units.append(surface)
        return True

    def drop_units_above(self) -> None:
        """Drop surfaces that cross none of many others: of a unit further up, seen in one cell of this layer only."""
        if len(self.units) <= self.options.many_others:
            return
        for unit in list(self.units):
            x = np.array(unit.x)
            sides = [np.sign(other.value(x)) for other in self.units if other is not unit]
            if not any((side > 0.0).any() and (side < 0.0).any() for side in sides):
                self.units.remove(unit)
                self.refused += 1


def global_rows(known: KnownLayers, units: Sequence[CoarseSurface]) -> RowEstimates:
    """Rows in the features [relu(z), h_below, 1]: relu(-z) = relu(z) - z where a base is on the positive side."""
    width, (weights,), (biases,) = len(known.biases[-1]), known.weights[-1:], known.biases[-1:]
    values, covariances = [], []
    for unit in units:
        on = unit.side > 0.0
        change = np.eye(len(unit.row))
        change[width:-1, :width] -= (on[:, None] * weights).T
        change[-1, :width] -= on * biases
        values.append(change @ unit.row)
        covariances.append(change @ unit.cov @ change.T)
    return RowEstimates(np.array(values), np.array(covariances))


class Bits(NamedTuple):
    """Which units are turned around, the sd of each bit when it was decided, and the misfit per equation in sds."""

    turned: Array
    sds: Array
    misfit: float


def orient(rows: RowEstimates, weights: Array, errors: Array, *, rounds: int = 3) -> Bits:
    """The orientation of a layer, from rows above it: Σ_k t_k c_mk W_k = -ℓ_m with bits t_k, weighted by the rows' covariances
    and the errors of W.

    The surest bit is rounded, and the others are estimated again, until all are.
    """
    width = len(weights)
    turned, fixed, sds = np.full(width, 0.5), np.zeros(width, dtype=bool), np.zeros(width)
    while not fixed.all():
        for _ in range(rounds if not fixed.any() else 1):
            normal, right, _ = _bit_equations(rows, weights, errors, turned)
            free = ~fixed
            a = normal[np.ix_(free, free)] + np.eye(int(free.sum()))
            b = right[free] - normal[np.ix_(free, fixed)] @ turned[fixed] + 0.5
            cov = np.linalg.inv(a)
            turned[free] = cov @ b
        sd = np.sqrt(np.diag(cov))
        sure = (np.abs(turned[free] - 0.5)) / sd
        bold = np.flatnonzero(sure >= 0.9 * sure.max())[:1]
        k = np.flatnonzero(free)[bold]
        sds[k] = sd[bold]
        turned[k] = np.round(np.clip(turned[k], 0.0, 1.0))
        fixed[k] = True
    return Bits(turned > 0.5, sds, float(np.sqrt(_bit_equations(rows, weights, errors, turned)[2])))


def _bit_equations(rows: RowEstimates, weights: Array, errors: Array, turned: Array) -> tuple[Array, Array, float]:
    """Normal matrix and right side of the bits, and the mean square misfit at `turned`."""
    width, below = weights.shape
    normal, right, square = np.zeros((width, width)), np.zeros(width), 0.0
    for row, cov in zip(rows.values, rows.covariances, strict=True):
        left, noise = _linear_part(row, cov, weights, errors, turned)
        inverse = np.linalg.inv(noise)
        jacobian = (row[:width, None] * weights).T
        normal += jacobian.T @ inverse @ jacobian
        right -= jacobian.T @ inverse @ row[width:-1]
        rest = left @ row
        square += float(rest @ inverse @ rest)
    return normal, right, square / (len(rows.values) * below)


def _linear_part(row: Array, cov: Array, weights: Array, errors: Array, turned: Array) -> tuple[Array, Array]:
    """The matrix (below, unknowns) that gives what is left of the linear part of a row, and the covariance of that."""
    width, below = weights.shape
    left = np.hstack([(turned[:, None] * weights).T, np.eye(below), np.zeros((below, 1))])
    noise = left @ cov @ left.T
    from_weights = float(((row[:width] * errors) ** 2).sum()) + 1e-12 * float(np.trace(noise)) + 1e-300
    return left, noise + from_weights * np.eye(below)


def without_linear_part(rows: RowEstimates, weights: Array, biases: Array, errors: Array, turned: Array) -> RowEstimates:
    """Rows in [relu(z), 1] of the oriented layer: conditioned on having no linear part."""
    width, below = weights.shape
    values, covariances = [], []
    keep = np.zeros((width + 1, width + below + 1))
    keep[:width, :width] = np.eye(width)
    keep[-1, :width], keep[-1, -1] = turned * biases, 1.0
    for row, cov in zip(rows.values, rows.covariances, strict=True):
        left, noise = _linear_part(row, cov, weights, errors, turned)
        gain = cov @ left.T @ np.linalg.inv(noise)
        values.append(keep @ (row - gain @ (left @ row)))
        covariances.append(keep @ (cov - gain @ left @ cov) @ keep.T)
    return RowEstimates(np.array(values), np.array(covariances))


@dataclass(frozen=True, eq=False)
class SecondLayer:
    """Both layers as far as they are known: the lowest one oriented, rows (units, width + 1) above it with their covariances."""

    lowest: tuple[Array, Array]
    rows: RowEstimates
    bits: Bits

    @property
    def known(self) -> KnownLayers:
        """Both layers, rows of length 1; those of the second oriented arbitrarily."""
        (weights, biases), rows = self.lowest, self.scaled.values
        return KnownLayers(weights.shape[1], (weights, rows[:, :-1]), (biases, rows[:, -1]))

    @property
    def scaled(self) -> RowEstimates:
        size = np.linalg.norm(self.rows.values[:, :-1], axis=1)
        return RowEstimates(self.rows.values / size[:, None], self.rows.covariances / size[:, None, None] ** 2)

    @property
    def weight_sds(self) -> Array:
        """Standard deviations (units, width) of the weights, relative to their rows."""
        return np.asarray(np.sqrt(np.maximum(np.diagonal(self.scaled.covariances, axis1=1, axis2=2)[:, :-1], 0.0)))

    def value_sds(self, x: Array) -> Array:
        """Standard deviations (n, units) of the pre-activations."""
        h = np.hstack([self.known.features(x, 1), np.ones((len(x), 1))])
        return np.stack([np.sqrt(np.maximum(((h @ cov) * h).sum(axis=1), 0.0)) for cov in self.scaled.covariances], axis=1)


def assemble(reader: CoarseReader) -> SecondLayer | None:
    """The two layers; None if the rows do not agree on the orientation of the lowest one. Rows that do not agree are dropped."""
    (weights,), (biases,), o = reader.known.weights, reader.known.biases, reader.options
    units = list(reader.units)
    while len(units) >= 2:
        rows = global_rows(reader.known, units)
        bits = orient(rows, weights, reader.errors)
        if bits.misfit <= o.max_rms:
            turn = np.where(bits.turned, -1.0, 1.0)
            reader.units = units
            return SecondLayer(
                (weights * turn[:, None], biases * turn),
                without_linear_part(rows, weights, biases, reader.errors, bits.turned), bits)
        turned = bits.turned.astype(float)
        alone = (RowEstimates(row[None], cov[None]) for row, cov in zip(*rows, strict=True))
        off = [_bit_equations(row, weights, reader.errors, turned)[2] for row in alone]
        if len(units) <= (1.0 - o.most_outliers) * len(reader.units):
            return None
        del units[int(np.argmax(off))]
    return None

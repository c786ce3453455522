"""The surface of one unit where answers are coarse: its row by a filter over located places, each with its error bar.

In float64 a fold is measured once and known. In float32 a kink is located to rounding / jump, about 1e-5 of the domain: a fold
measured just behind a wall tells its weight to a digit or less. Places far from the wall tell more, and can be predicted once the
weight is roughly known. So the row is a Gaussian, mean and covariance:

    row = (c, v, β),   z(x) = Σ_k c_k relu(-s_k z_k(x)) + v·h(x) + β,   c_k ~ N(0, prior²),   (v, β) from the normal at the base

A place x of the surface that was located up to σ along a direction adds the equation z(x) = 0 ± σ |∂z|, with what errors of the
layers below add to it. The standard deviation of the prediction at any other place follows. Asked are the places of which least
is known among those where a kink that is met by chance could not be taken for this one: just behind walls at first, and all over
the domain at the end. Nothing is compared with a fixed tolerance: a kink is where it was predicted if it is within K standard
deviations of both, and a surface is of this layer if its many places agree with one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from laybare.lines.folds.facts import meeting_points, surface_features
from laybare.lines.folds.stack import KnownLayers
from laybare.lines.hyperplanes import WINDOW, Hyperplane, LocatedKink, is_straight, kink_of
from laybare.lines.line import KINK
from laybare.lines.query import QueryContext
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class CoarseOptions:
    """Numbers of the reading of surfaces from coarse answers. Lengths are in units of the inputs' scale."""

    prior: float = 2.0  # sd of a weight, in units of the normal at the base. Checked by `pytest tests/lines/test_coarse.py`.
    sds: float = 5.0
    """Within which two places are one. Derived: one of a million is farther by chance, and sds are known to 20 %."""
    chance: float = 0.01
    """That a kink of another surface is within the error of a prediction that is looked at. Derived: of a hundred places at such
    a distance one is wrong, and places on which others hinge that are missed are dropped again."""
    windows: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003, 0.001, 3e-4)
    """Half windows, as `HyperplaneOptions.windows`. Checked by `pytest tests/lines/test_coarse.py`."""
    inner: float = 0.25  # share of a half window within which a kink must be. Derived: two places on each side are beyond.
    alone: float = 0.2  # other kinks in the first window on average. Derived: four of five windows hold one kink.
    narrower: int = 3  # windows that are tried at a place. Convention: a hundredth of the first.
    spreads: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    """Of inputs that surfaces are followed to. Checked by `python benchmarks/zoo.py --form runtime`."""
    pairs: int = 32  # ways that are looked at together; they ask nothing. Convention: thirty-two.
    batch: int = 6  # places asked together. Convention: six.
    halvings: int = 24  # of a way, to where the prediction is just good enough. Derived: to 1e-7 of it.
    enough: float = 0.25  # of the largest error, at which that is near enough. Convention: a quarter.
    slant: float = 0.2
    """Least sine between a surface and the wall that is looked along. Checked by `pytest tests/lines/test_coarse.py`."""
    beside_wall: float = 0.05  # nearer to a wall, places are looked at along it. Derived: half of the widest window.
    first_steps: int = 3  # of Newton's method, while a way is halved. Checked by `pytest tests/lines/test_coarse.py`.
    steps: int = 6  # of it, for a place that is asked. Checked by `pytest tests/lines/test_coarse.py`.
    fine: float = 2.0  # sds of a located place, below which a prediction is as good. Convention: two.
    wanted: float = 1e-4  # sd of predictions all over the domain. Derived: a hundredth of the accuracy that is promised, 1e-2.
    idle: int = 6
    """Sets of ways that tell nothing new end a surface, half of them aimed at open weights. Checked by `python
    benchmarks/zoo.py --form runtime`."""
    blame: int = 2  # predictions that are missed and hinge on one place, more than are met: it was another kink. Convention: two.
    most_looks: int = 1500  # at a surface. Derived: ten for each of 150 unknowns.
    first_misses: int = 6
    """Places at which a surface is not, beside `miss_share` of all, before it is refused. Convention: that of
    `HyperplaneOptions.max_misses`."""
    miss_share: float = 0.15
    """Derived: of the jet tagger's surfaces of layer 2 at most 6 % of places are missed, of those of layer 3 at least 25 %; the
    geometric mean of the two is 12 %."""
    unclear: int = 60
    """Places with several kinks, beyond two for each hit, before it is given up. Checked by `python benchmarks/zoo.py --form
    runtime`."""
    meetings: int = 30
    """Starts from which meetings with an open weight's unit are computed. Checked by `pytest tests/lines/test_coarse.py`."""
    per_wall: int = 2  # meetings of each that are aimed at. Convention: two.
    beyond: float = 0.1  # how far beyond. Convention: the widest window.
    compare_after: int = 50
    """Places, then twice as many: is it a known surface? Checked by `python benchmarks/zoo.py --form runtime`."""
    spare: int = 10  # places beyond those that a row has used up. Derived: chi-square of ten has a relative sd of .45.
    told: float = 0.03  # sd of a weight relative to its row, above which it is open. Derived: 1e-2 is promised, three sds.
    max_rms: float = 3.0  # of residuals in sds. Checked by `pytest tests/lines/test_coarse.py`.
    max_scale_error: float = 0.1  # of the normal at the base, once all places are counted. Derived: that of a rough normal.
    most_outliers: float = 0.2  # share of places, or units, that may be dropped. Convention: one in five.
    reach: float = 8.0  # of kinks that are followed, times √dim. Convention: that of lines.
    quiet_lines: int = 6
    """Without a new unit end the layer, as `HyperplaneOptions.quiet_lines`. Checked by `python benchmarks/zoo.py --form
    runtime`."""
    most_lines: int = 40  # of a layer. Checked by `python benchmarks/zoo.py --form runtime`.
    many_others: int = 5  # units that a surface of their layer crosses one of. Derived: as `FoldOptions.many_others`.
    most_pairs: int = 100
    """Of places beside other hyperplanes. Derived: three decide; those of a surface are seen in one of thirty."""
    pair_step: float = 0.03  # from the other hyperplane. Convention: a thirtieth of the scale.
    both_share: float = 0.8
    """Wald's test: pairs of which a hyperplane shows both. Derived: what lies above hides it at both places or at none."""
    both_by_chance: float = 0.3
    """The same of a surface of the layer above. Derived: where the other one is such a surface too, one in three or less."""
    accept: float = 5.4  # log-likelihood ratio that accepts. Derived: six pairs that show both.
    refuse: float = -3.6  # that refuses. Derived: three pairs that show one.
    returns: int = 6  # from missed answers to lines. Checked by `pytest tests/lines/test_coarse.py`.
    targets: int = 3  # lines per return. Checked by `pytest tests/lines/test_coarse.py`.
    fit_spreads: tuple[float, ...] = (0.5, 1.0, 2.0)  # of inputs that are fitted. Checked by `python benchmarks/zoo_drawn.py`.
    answers_per_unknown: int = 4  # of the readout. Convention: three are left over where one is missed.
    fit_share: float = 1.5
    """Equations of the joint fit per parameter, and as many beside surfaces. Checked by `python benchmarks/zoo_drawn.py`."""
    most_fits: int = 5
    """Joint fits, each without answers that the one before misses. Checked by `python benchmarks/zoo_drawn.py`."""
    prior_sds: float = 10.0  # of error bars: moves of a parameter in one fit. Derived: as `FitOptions.prior_sds`.
    roughly: float = 30.0  # medians of residuals, within which answers are fitted. Convention: as `contradiction_sds`.
    min_bit_error: float = 1e-4
    """Linear part of the outputs that is left, relative to the largest readout. Checked by `python benchmarks/zoo_drawn.py`."""
    max_bit_distance: float = 0.2  # of bits from 0 and 1. Derived: one half is the next.
    missed: float = 1e-3  # of the spread of answers, beside rounding, before the joint fit. Derived: ten times `wanted`.
    given_up: float = 0.05  # share of missed answers. Derived: as `FoldOptions.given_up`.


class PredictedPlaces(NamedTuple):
    """Places (n, dim) on the mean surface, the unit normal and the direction in which to look, and the slope (n,) of z along it.

    `sd`, of the distance along it, from the row's covariance; `below`, from the layers below. `room`: along it, to the nearest
    known surface. `capped`: the prediction is not good enough farther on.
    """

    x: Array
    normal: Array
    direction: Array
    slope: Array
    sd: Array
    below: Array
    features: Array
    room: Array
    capped: Array


class Found(NamedTuple):
    """What one look has met: "hit", "miss" or "unclear", with the kink."""

    kind: str
    kink: LocatedKink | None = None


class CoarseDomain(NamedTuple):
    """Where surfaces are followed: the known layers with the errors of the highest one's rows, the scale of the inputs, and the
    number of kinks per length of a line."""

    context: QueryContext
    known: KnownLayers
    errors: Array
    scale: float
    density: float
    options: CoarseOptions


class CoarseSurface:
    """The surface of one unit of the layer above known ones."""

    def __init__(self, domain: CoarseDomain, rough: Hyperplane, x0: Array) -> None:
        self.context, self.known, self.errors, self.scale, self.density, self.options = domain
        self.chance_sd = self.options.chance / (2.0 * self.density) / self.options.sds
        self.rough, self.x0 = rough, x0
        self.side = np.where(self.known.cell(x0)[-1], 1.0, -1.0)
        self.hits = self.misses = self.unclear = 0
        self.jumps: list[Array] = []
        self.x: list[Array] = []
        self.support: list[int] = []
        self.sds: list[float] = []
        self.reset()
        self.add(x0, max(rough.offset_sd, 1e-12))
        self.jumps.append(rough.jump)
        self.support.append(0)

    def reset(self) -> None:
        """The prior: the normal at the base, weights of any size."""
        width = len(self.side)
        p = width + self.known.dim + 1
        self.precision, self.right = np.zeros((p, p)), np.zeros(p)
        n_sd = max(self.rough.normal_sd, 1e-4)
        diagonal = np.concatenate([np.full(width, self.options.prior**-2), np.full(self.known.dim, n_sd**-2), [1e-6]])
        self.precision[np.diag_indices(p)] = diagonal
        normal, scale_sd = self.rough.normal, 1e-4  # the length is free; it is held
        self.precision[width:-1, width:-1] += (scale_sd**-2 - n_sd**-2) * np.outer(normal, normal)
        self.right[width:-1] = normal / scale_sd**2
        self.row = np.concatenate([np.zeros(width), self.rough.normal, [-float(self.rough.normal @ self.x0)]])

    def add(self, x: Array, sd: float) -> None:
        """A located place."""
        self.x.append(x)
        self.sds.append(sd)
        self._count(x, sd)
        self._solve()

    def _count(self, x: Array, sd: float) -> None:
        features = surface_features(self.known, self.side, x[None])
        error = np.hypot(sd * max(self._slope(x), 1e-3), self._from_below(features, x[None])[0])
        self.precision += np.outer(features, features) / error**2

    def _solve(self) -> None:
        size = 1.0 / np.sqrt(np.diag(self.precision))
        inverse = np.linalg.inv(size[:, None] * self.precision * size)
        self.cov = size[:, None] * inverse * size
        self.row = self.cov @ self.right

    def _equations(self) -> tuple[Array, Array]:
        """Features (places, unknowns) of all places, and the standard deviations of z there."""
        x = np.array(self.x)
        features = surface_features(self.known, self.side, x)
        slope = np.maximum(np.linalg.norm(self.gradients(x)[0], axis=1), 1e-3)
        return features, np.hypot(np.array(self.sds) * slope, self._from_below(features, x))

    def refit(self) -> None:
        """The row from all places, with errors at the row as it is now."""
        for _ in range(2):
            features, error = self._equations()
            self.reset()
            scaled = features / error[:, None]
            self.precision += scaled.T @ scaled
            self._solve()

    def gradients(self, x: Array) -> tuple[Array, Array]:
        """Gradients (n, dim) and values (n,) of the mean row."""
        known, row, width = self.known, self.row, len(self.side)
        z = known.preactivations(x)
        c = np.where(self.side * z[-1] < 0.0, -self.side * row[:width], 0.0)
        below = known.features(x, known.depth - 1)
        values = (c * z[-1]).sum(axis=1) + below @ row[width:-1] + row[-1]
        return known.pulled_back(z, known.depth - 1, c @ known.weights[-1] + row[width:-1]), values

    def predict(self, x: Array, steps: int) -> tuple[PredictedPlaces, Array]:
        """Places of the mean surface near inputs, and where Newton's method has met it."""
        for _ in range(steps):
            g, z = self.gradients(x)
            x = x - (z / np.maximum((g * g).sum(axis=1), 1e-12))[:, None] * g
        x = np.clip(x, -1e6, 1e6)
        g, z = self.gradients(x)
        size = np.maximum(np.linalg.norm(g, axis=1), 1e-9)
        reach = 2.0 * max(self.options.spreads) * self.scale * np.sqrt(self.known.dim)
        ok = (size > 1e-6) & (np.abs(z) <= 1e-9 * size * self.scale) & (np.linalg.norm(x, axis=1) <= reach)
        features = surface_features(self.known, self.side, x)
        sd = np.sqrt(np.maximum(((features @ self.cov) * features).sum(axis=1), 0.0)) / size
        normal = g / size[:, None]
        below, none = self._from_below(features, x) / size, np.zeros(len(x))
        return PredictedPlaces(x, normal, normal, size, sd, below, features, none, none > 0.0), ok

    def _from_below(self, features: Array, x: Array) -> Array:
        """What errors of the rows below add to z at inputs, (n,)."""
        width = len(self.side)
        square = (features[:, :width] > 0.0) @ (self.row[:width] * self.errors) ** 2
        return np.asarray(np.sqrt(square * (1.0 + (x * x).sum(axis=1))))

    def _slope(self, x: Array) -> float:
        return max(float(np.linalg.norm(self.gradients(x[None])[0][0])), 1e-9)

    def location_sd(self) -> float:
        return float(np.median(self.sds))

    def explore(self, others: Sequence[CoarseSurface] = ()) -> bool:
        """Look at places until the row is known wherever the surface goes, or is that of another one; False if it is refused."""
        self.how = self._explore(others)
        return self.how != "refused"

    def is_supported(self) -> bool:
        """Whether more places than unknowns agree with one row."""
        if self.hits < self.options.spare:
            return False
        self.drop_outliers()
        o, width = self.options, len(self.side)
        bounded = np.abs(self.row[:width]).max() <= o.sds * o.prior
        held = abs(self.row[width:-1] @ self.rough.normal - 1.0) < o.max_scale_error
        return bool(bounded and held and self.freedom >= o.spare and self.rms <= o.max_rms)

    def value(self, x: Array) -> Array:
        """The mean row at inputs, (n,)."""
        return self.gradients(x)[1]

    def value_sd(self, x: Array) -> Array:
        """Its standard deviation (n,)."""
        features = surface_features(self.known, self.side, x)
        square = ((features @ self.cov) * features).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(square, 0.0) + self._from_below(features, x) ** 2))

    def passes(self, x: Array, u: Array, sd: float) -> bool:
        """Whether the surface passes through a place of a line, within error bars, which must be small."""
        g, z = self.gradients(x[None])
        rate, error = abs(float(g[0] @ u)), float(self.value_sd(x[None])[0])
        known = error <= 10.0 * self.chance_sd * self.options.sds * max(rate, 1e-9)
        return known and abs(float(z[0])) <= 1.6 * self.options.sds * (error + sd * rate)

    def is_same(self, other: CoarseSurface) -> bool:
        """Whether the other surface is a piece of the same: its places lie on this one where it is known, or weights agree."""
        return self._holds(other) or other._holds(self) or self._has_weights_of(other)

    def _holds(self, other: CoarseSurface) -> bool:
        x = np.array(other.x)
        g, z = self.gradients(x)
        error, size = self.value_sd(x), np.maximum(np.linalg.norm(g, axis=1), 1e-9)
        told = error <= self.options.wanted * 10.0 * self.scale * size
        on = np.abs(z) <= 1.6 * self.options.sds * (error + np.array(other.sds) * size)
        return bool((told & on).sum() >= 3 and (told & on).sum() > 0.5 * told.sum())

    def _has_weights_of(self, other: CoarseSurface) -> bool:
        """Whether the weights that both know are the same up to scale."""
        width = len(self.side)
        a, b = self.row[:width], other.row[:width]
        sd_a, sd_b = (np.sqrt(np.diag(one.cov)[:width]) for one in (self, other))
        told = (sd_a <= self.options.told * np.abs(a).max()) & (sd_b <= self.options.told * np.abs(b).max())
        if told.sum() < max(3, width // 3):
            return False
        a, b = a[told], b[told]
        scale = float(a @ b) / float(b @ b)
        return bool(np.linalg.norm(a - scale * b) <= 2.0 * self.options.told * np.linalg.norm(a))

    def take(self, other: CoarseSurface) -> None:
        """The places of another piece of the same surface, those that agree."""
        self.x += other.x
        self.sds += other.sds
        self.jumps += other.jumps
        self.support += other.support
        self.drop_outliers()

    def _explore(self, others: Sequence[CoarseSurface]) -> str:
        o, idle, compared = self.options, 0, self.options.compare_after
        while self.hits + self.misses + self.unclear < o.most_looks:
            limit = max(self.chance_sd, 8.0 * self.location_sd())
            pool = self._pool(limit, self._beyond_open_walls() if idle % 2 else None)
            if pool is None:
                idle += 1
                if idle > 6:
                    return "stuck"
                continue
            fine = o.fine * self.location_sd()
            if (pool.sd <= np.where(pool.capped, fine, max(fine, o.wanted * self.scale))).all():
                idle += 1
                if self.freedom < o.spare + 1.0:  # it is known; more places than unknowns must agree
                    self._look(pool, list(self.context.rng.permutation(len(pool.x))[: o.batch]))
                if idle >= o.idle:
                    return "known"
                continue
            idle = 0
            self._look(pool, self._choose(pool))
            if self.misses > o.first_misses + o.miss_share / (1 - o.miss_share) * self.hits:
                return "refused"
            if self.unclear > o.unclear + 2 * self.hits:
                return "unclear"
            if self.hits >= compared:
                compared = 2 * self.hits
                if any(other.is_same(self) for other in others):
                    return "same"
        return "long"

    def _targets(self, n: int) -> Array:
        rng = self.context.rng
        return np.asarray(self.scale * rng.standard_normal((n, self.known.dim)) * rng.choice(self.options.spreads, (n, 1)))

    def _beyond_open_walls(self) -> tuple[Array, Array] | None:
        """Located places, and ways from there to a little beyond meetings with units whose weights are open."""
        o, known, width = self.options, self.known, len(self.side)
        sd = np.sqrt(np.diag(self.cov)[:width])
        unmet = np.flatnonzero(sd > 0.5 * o.prior)
        starts, located, ends = np.vstack([self._targets(o.meetings), np.array(self.x)]), np.array(self.x), []
        reach = 2.0 * max(o.spreads) * self.scale * np.sqrt(known.dim)
        for k in unmet:
            met = meeting_points(self.gradients, partial(_unit_gradients, known, int(k)), starts, steps=o.steps, tol=1e-9)
            met = met[np.linalg.norm(met, axis=1) <= reach]
            if len(met):
                chosen = met[self.context.rng.permutation(len(met))[: o.per_wall]]
                g = _unit_gradients(known, int(k), chosen)[0]
                step = o.beyond * self.scale * np.sign(-self.side[k]) * g / np.maximum(np.linalg.norm(g, axis=1), 1e-9)[:, None]
                ends.append(chosen + step)
        if not ends:
            return None
        end = np.vstack(ends)[self.context.rng.permutation(sum(map(len, ends)))[: o.pairs]]
        near = np.linalg.norm(end[:, None] - located[None], axis=2).argmin(axis=1)
        return located[near], end - located[near]

    def _pool(self, limit: float, beyond: tuple[Array, Array] | None = None) -> PredictedPlaces | None:
        """Places on the way from located ones to random ones, as far as the prediction is good enough."""
        o, rng = self.options, self.context.rng
        start = np.array(self.x)[rng.integers(len(self.x), size=o.pairs)]
        away = self._targets(o.pairs) - start
        if beyond is not None:
            start, away = beyond
        low, high, good = np.zeros(len(start)), np.ones(len(start)), np.ones(len(start))
        for _ in range(o.halvings):  # sd grows along the way
            place, ok = self.predict(start + good[:, None] * away, o.first_steps)
            ok &= place.sd <= limit
            low, high = np.where(ok, good, low), np.where(ok, high, good)
            enough = ok & ((place.sd > o.enough * limit) | (good == 1.0))
            if enough.all():
                break
            good = np.where(enough, good, 0.5 * (low + high))
        place, ok = self.predict(start + low[:, None] * away, o.steps)
        place = self._across_walls(place._replace(capped=(low < 1.0) & (place.sd > o.enough * limit)))
        needed = np.maximum(1.5 * o.sds * place.sd / o.inner, o.windows[-1] * self.scale)
        ok &= (place.sd <= limit) & (place.room >= needed) & (low > 0.0)
        return PredictedPlaces(*(part[ok] for part in place)) if ok.any() else None

    def _across_walls(self, place: PredictedPlaces) -> PredictedPlaces:
        """Look along the nearest known surface, not across it: the direction within it that is nearest to the normal."""
        slopes, z = self._walls(place.x)
        rate, rows = np.abs(np.einsum("nkd,nd->nk", slopes, place.normal)), np.arange(len(z))
        away = np.abs(z) / np.maximum(rate, 1e-12)
        k = np.argmin(away, axis=1)
        g = slopes[rows, k] / np.maximum(np.linalg.norm(slopes[rows, k], axis=1, keepdims=True), 1e-300)
        along = place.normal - (place.normal * g).sum(axis=1, keepdims=True) * g
        length = np.linalg.norm(along, axis=1)
        taken = (length > self.options.slant) & (away[rows, k] < self.options.beside_wall * self.scale)
        v = np.where(taken[:, None], along / np.maximum(length, 1e-300)[:, None], place.normal)
        room = (np.abs(z) / np.maximum(np.abs(np.einsum("nkd,nd->nk", slopes, v)), 1e-12)).min(axis=1)
        lean = np.abs((v * place.normal).sum(axis=1))
        return place._replace(direction=v, sd=place.sd / lean, below=place.below / lean, slope=place.slope * lean, room=room)

    def _walls(self, x: Array) -> tuple[Array, Array]:
        """Gradients (n, walls, dim) and values (n, walls) of all known units at inputs."""
        known, n = self.known, len(x)
        if known.depth == 1:
            return np.broadcast_to(known.weights[0], (n, *known.weights[0].shape)), known.preactivations(x)[0]
        level, unit = np.array([(at, k) for at, width in enumerate(known.widths) for k in range(width)]).T
        z, slopes = known.unit_values(x, np.broadcast_to(level, (n, len(level))), np.broadcast_to(unit, (n, len(unit))))
        return slopes, z

    def _choose(self, pool: PredictedPlaces) -> list[int]:
        """The places that tell most, one after the other."""
        chosen: list[int] = []
        features, cov, loc = pool.features, self.cov.copy(), self.location_sd()
        for _ in range(self.options.batch):
            gain = ((features @ cov) * features).sum(axis=1) / (loc * pool.slope) ** 2
            i = int(np.argmax(gain))
            if gain[i] < 1.0:
                break
            chosen.append(i)
            f = cov @ features[i]
            cov -= np.outer(f, f) / (features[i] @ f + (loc * pool.slope[i]) ** 2)
        return chosen

    def _look(self, pool: PredictedPlaces, chosen: list[int]) -> None:
        added = False
        for i in chosen:
            found = self.look(pool, i)
            if found.kind == "hit":
                self.hits += 1
                assert found.kink is not None
                new = (pool.x[i] + found.kink.offset * pool.direction[i])
                self.support[self._most_influential(pool.features[i])] += 1
                self.jumps.append(found.kink.jump / float(pool.slope[i]))
                self.support.append(0)
                self.x.append(new)
                self.sds.append(found.kink.sd * float(pool.slope[i]) / self._slope(new))
                self._count(new, self.sds[-1])
                added = True
            elif found.kind == "miss":
                self.misses += 1
                self._blame(pool.features[i])
            else:
                self.unclear += 1
        if added:
            self._solve()

    def _most_influential(self, features: Array) -> int:
        """The located place on which a prediction hinges most."""
        located, error = self._equations()
        return int(np.argmax(np.abs(located @ (self.cov @ features)) / error))

    def _blame(self, features: Array) -> None:
        """A located place on which predictions hinge that are missed was another kink."""
        i = self._most_influential(features)
        self.support[i] -= 1
        if i and self.support[i] <= -self.options.blame:
            self._delete(i)
            self.hits, self.misses = self.hits - 1, self.misses - self.options.blame
            self.refit()

    def _delete(self, i: int) -> None:
        for column in (self.x, self.sds, self.jumps, self.support):
            del column[i]

    def look(self, place: PredictedPlaces, i: int) -> Found:
        """The kink at a predicted place; wide windows first, as they are the most exact."""
        o, rounding = self.options, self.context.rounding
        x, v, slope, room = place.x[i], place.direction[i], float(place.slope[i]), float(place.room[i])
        sd = float(np.hypot(place.sd[i], place.below[i]))
        need = o.sds * sd / o.inner
        windows = [h * self.scale for h in o.windows if need <= h * self.scale <= 0.8 * room]
        if not windows:
            windows = [0.8 * room] if need <= 0.8 * room else []
        start = next((k for k, h in enumerate(windows) if 2.0 * h * self.scale * self.density <= o.alone), len(windows) - 1)
        near = int(np.argmin(((np.array(self.x) - x) ** 2).sum(axis=1)))
        expected = self.jumps[near] * slope
        for half in windows[max(start, 0) :][: o.narrower]:
            points = x + half * WINDOW[:, None] * v
            asked = self.context.queries.ask_if_usable(points, "folds")
            if asked is None:
                continue
            noise = float(rounding.sd(points, asked).max())
            if np.linalg.norm(expected) * half <= 5.0 * KINK.rounding_sds * noise:
                return Found("unclear")
            kink = kink_of(asked, noise, half)
            if kink is None:
                if is_straight(asked, noise):
                    return Found("miss")
                continue
            if abs(kink.offset) > o.sds * np.hypot(sd, kink.sd):
                return Found("miss")
            return Found("hit", kink)
        return Found("unclear")

    def drop_outliers(self) -> int:
        """Drop places that the others contradict, the worst first; their number."""
        dropped = 0
        self.refit()
        while len(self.x) > 3 and dropped <= self.options.most_outliers * len(self.x):
            features, error = self._equations()
            used = ((features @ self.cov) * features).sum(axis=1) / error**2
            off = np.abs(features @ self.row) / error / np.sqrt(np.maximum(1.0 - used, 1e-8))
            worst = int(np.argmax(off))
            if off[worst] <= 1.6 * self.options.sds:
                break
            self._delete(worst)
            dropped += 1
            self.refit()
        return dropped

    @property
    def freedom(self) -> float:
        """Places beyond those that the row has used up."""
        features, error = self._equations()
        return float(len(error) - (((features @ self.cov) * features).sum(axis=1) / error**2).sum())

    @property
    def rms(self) -> float:
        """Root mean square of what the row leaves, in standard deviations."""
        features, error = self._equations()
        return float(np.sqrt(((features @ self.row / error) ** 2).sum() / max(self.freedom, 1.0)))


def _unit_gradients(known: KnownLayers, k: int, x: Array) -> tuple[Array, Array]:
    """Gradients (n, dim) and values (n,) of unit k of the highest known layer at inputs."""
    z, weights = known.preactivations(x), known.weights[-1]
    return known.pulled_back(z, known.depth - 1, np.broadcast_to(weights[k], (len(x), weights.shape[1]))), z[-1][:, k]

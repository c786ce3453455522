"""The facts that a folding surface rests on, each a function of arrays; nothing here asks a query.

f is a ReLU network; layers below L are known, the highest known one up to the orientation of its units (relu(-z) = relu(z) - z).
FoldedUnit m of layer L bends f on its surface S_m = {z_m = 0}, and on it

    Σ_k c_k relu(z_k(x)) + ℓ·h_{L-2}(x) + β = 0                                                     (row)

is linear in the row (c, ℓ, β). Seen from a base cell in which unit k is on side s_k, the same is

    z_m = Σ_k c_k relu(-s_k z_k(x)) + v·h_{L-2}(x) + β'                                             (row from a base)

with the same c: what a fold adds. All c_k that no point of the surface has met are open there, and the rest is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize

from laybare.lines.folds.fold_options import FoldOptions
from laybare.lines.folds.stack import Cell, CellMaps, KnownLayers
from laybare.numerics.shapes import Array


def fold_coefficient(normal: Array, wall: Array, tangent: Array, across: Array, step: float, offset: float) -> float:
    """Fact (a): the one number by which a surface folds at a wall.

    Behind the wall the normal n becomes n + e g, g = ∇z_k. From a common point go `step` along the tangent t (n·t = 0) and look
    along `across`, v: the surface is met at `offset`, s, with (n + e g)·(step t + s v) = 0, so e = -s n·v / (step g·t + s g·v).
    If k is of the layer just below, e is its weight in the row, up to the sign of the side that the wall is crossed to.
    """
    return float(-offset * (normal @ across) / (step * (wall @ tangent) + offset * (wall @ across)))


def surface_features(known: KnownLayers, side: Array, x: Array) -> Array:
    """[relu(-s z_{L-1}), h_{L-2}, 1] at the rows of x, (n, width + width below + 1); [x, 1] below the first layer."""
    ones = np.ones((len(x), 1))
    if not known.depth:
        return np.hstack([x, ones])
    below = known.features(x, known.depth - 1)
    z = below @ known.weights[-1].T + known.biases[-1]
    return np.hstack([np.maximum(-side * z, 0.0), below, ones])


def cell_matrix(known: KnownLayers, maps: CellMaps, cell: Cell, side: Array) -> Array:
    """(dim + 1, unknowns): the normal and the shift of the surface in a cell are this times the row from a base."""
    d, depth = known.dim, known.depth
    if not depth:
        return np.eye(d + 1)
    met = np.where(cell[-1] == (side > 0.0), 0.0, -side)
    above = np.column_stack([maps.slopes[-1], maps.shifts[-1]]) * met[:, None]
    if depth == 1:
        below = np.eye(d, d + 1)
    else:
        below = np.column_stack([maps.slopes[-2], maps.shifts[-2]]) * cell[-2][:, None]
    last = np.zeros((1, d + 1))
    last[0, d] = 1.0
    return np.vstack([above, below, last]).T


class RowSolution(NamedTuple):
    """A row (unknowns,), directions (unknowns, free) that the equations leave free, and the smallest singular value kept."""

    row: Array
    free: Array
    smallest: float


def solve_row(matrix: Array, right: Array, rank_tol: float) -> RowSolution:
    """The row from linear equations, and what they leave open: columns scaled, singular values below `rank_tol` are free."""
    if not len(matrix):
        return RowSolution(np.zeros(matrix.shape[1]), np.eye(matrix.shape[1]), 0.0)
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-300)
    dead = np.abs(matrix).max(axis=0) < 1e-200
    scale[dead] = 1.0
    triangle, right = _reduced(matrix / scale, right)
    u, s, vt = np.linalg.svd(triangle, full_matrices=True)
    rank = int((s > rank_tol * s[0]).sum())
    row = vt[:rank].T @ ((u[:, :rank].T @ right) / s[:rank]) / scale
    free = vt[rank:].T / scale[:, None]
    free /= np.maximum(np.linalg.norm(free, axis=0), 1e-300)
    return RowSolution(row, free, float(s[rank - 1] / s[0]))


def _reduced(matrix: Array, right: Array) -> tuple[Array, Array]:
    """The same least-squares problem with no more equations than unknowns, by QR."""
    if len(matrix) <= matrix.shape[1]:
        return matrix, right
    q, r = np.linalg.qr(matrix)
    return r, q.T @ right


class NullVector(NamedTuple):
    """Fact (b): the row (unknowns,) of norm 1 (open entries 0), which entries are open, and the singular values' ends.

    `closes` = smallest / largest singular value of the scaled features: rounding if the points are of one unit of this layer and
    all below is known; `gap` = second smallest / largest: whether the row is the only one.
    """

    row: Array
    open: Array
    closes: float
    gap: float


def weights_of_rows(errors: Array, needed: int) -> Array:
    """Weights (n,) in (0, 1] of equations with relative errors: as many as are needed have weight 1, larger errors less."""
    return np.asarray(np.minimum(1.0, np.partition(errors, needed - 1)[needed - 1] / errors) if len(errors) >= needed else
                      np.ones(len(errors)))


def null_vector(features: Array, errors: Array | None = None, *, dead: float = 1e-12, spare: int = 3) -> NullVector:
    """Fact (b): a unit's row is the null vector of the features at points of its surface.

    Columns that are zero at all points are dead: their weights are open, not zero. Columns are scaled to their largest entry,
    so that a feature met on few points counts. With fewer points than living columns nothing is proved: closes = 0 = gap.
    Points whose places have larger relative errors than the best ones that are enough count less.
    """
    size = np.abs(features).max(axis=0)
    alive = size > dead * size.max()
    scaled = features[:, alive] / size[alive]
    scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-300)
    if errors is not None:
        scaled *= weights_of_rows(errors, scaled.shape[1] + spare)[:, None]
    _, s, vt = np.linalg.svd(_reduced(scaled, np.zeros(len(scaled)))[0], full_matrices=True)
    s = np.concatenate([s, np.zeros(max(0, scaled.shape[1] - len(s)))])
    row = np.zeros(features.shape[1])
    row[alive] = vt[-1] / size[alive]
    gap = float(s[-2] / s[0]) if len(s) > 1 else 1.0
    return NullVector(row / np.linalg.norm(row), ~alive, float(s[-1] / s[0]), gap)


def of_one_unit(first: Array, second: Array, slopes: tuple[Array, Array], tol: float) -> bool:
    """Whether points of two pieces of surfaces are of one unit, by ranks.

    `first`, `second` are features at the points of each, `slopes` derivatives of the features along random directions there,
    which lead off the surface: with them the features span all that they can in those cells, R dimensions. Points of one unit
    have a row that vanishes on all of them, and none along the slopes: their rank is R - 1. Two units have none, if the spans
    overlap in more than one dimension (where they do not, one row is put together from both); three are asked for.
    """
    together, sloping = np.vstack([first, second]), np.vstack(slopes)
    size = np.maximum(np.abs(together).max(axis=0), np.abs(sloping).max(axis=0))
    size[size == 0.0] = 1.0
    whole = _rank(np.vstack([together, sloping]) / size, tol)
    apart = sum(_rank(np.vstack(part) / size, tol) for part in zip((first, second), slopes, strict=True))
    return apart - whole >= 3 and _rank(together / size, tol) < whole


def _rank(matrix: Array, tol: float) -> int:
    """The number of singular values above `tol` times the largest, rows scaled."""
    length = np.linalg.norm(matrix, axis=1, keepdims=True)
    s = np.linalg.svd(matrix / np.where(length > 0.0, length, 1.0), compute_uv=False)
    return int((s > tol * s[0]).sum())


class RowsAbove(NamedTuple):
    """What the units (or outputs) above a layer tell about its orientation.

    `coefficients` (above, width) of relu(z_k), `linear` (above, below) of the features below, `told` (above, below) marks the
    entries of `linear` that are determined, `passed` (above, width) the open coefficients of units that are on along a surface:
    they are part of `linear`, with an unknown factor.
    """

    coefficients: Array
    linear: Array
    told: Array
    passed: Array


class Orientation(NamedTuple):
    """Fact (c): which units are turned around (width,), the distance of the bits from 0 and 1 (infinite: not told), and what is
    left unexplained.

    `open` marks units whose bit no equation tells; `skips` (width, width below) is what open weights add to the rows above, per
    unit; `rest` (units above, width below) is the linear part that turned units do not explain: units that are always on.
    """

    turned: Array
    distance: float
    open: Array
    skips: Array
    rest: Array

    @property
    def unexplained(self) -> float:
        return float(np.abs(self.rest).max(initial=0.0))


def solve_orientation(
    above: RowsAbove, rows: Array, open_weights: Array, *, most_free: int = 14, rank_tol: float = 1e-8, tol: float = 1e-6
) -> Orientation:
    """Fact (c): the orientation of a whole layer, however wide, by one linear system.

    A unit k with the wrong orientation leaves -c_mk W_k in the linear part of every unit m above, so Σ_k s_k c_mk W_k = -ℓ_m with
    bits s_k: (units above)·(width below) equations, `rows` (width, below) being W. Where weight j of unit k is open
    (`open_weights`, (width, below)), relu of feature j passes through unit k with an unknown factor: one more unknown. Fewer
    equations than bits: free bits are enumerated, at most `most_free` of them. A unit of the layer that is always on adds a
    matrix of rank one to ℓ: if bits alone do not explain ℓ, those are taken that leave a matrix of low rank. If none do (with as
    many such units as rows above, any bits leave one that they explain), the bits are not told: their distance is infinite.
    """
    system = _OrientationSystem(above, rows, open_weights, most_free, rank_tol)
    plain = system.solve()
    if plain.unexplained <= tol:
        return plain
    return (
        _with_one_always_on(above, rows, open_weights, most_free, tol=tol)
        or _with_always_on(above, rows, open_weights, tol) or plain._replace(distance=np.inf))


def _with_one_always_on(
    above: RowsAbove, rows: Array, open_weights: Array, most_free: int, *, tol: float = 1e-6, agreeing: int = 3
) -> Orientation | None:
    """Bits that leave one unit that is always on, a matrix of rank one, unexplained; from two mixtures of units above.

    Some direction u of the two is orthogonal to what is left: Σ_k v_k W_k + uᵀℓ + open weights = 0 with v_k = s_k uᵀc_k, which is
    linear in (v, u, open weights) and homogeneous. Bits are enumerated until one solution is left, and at least `agreeing`
    others must be 0 or 1 without having been chosen.
    """
    full: Array = np.asarray(above.told.all(axis=1) & ~above.passed.any(axis=1))
    if full.sum() < 2:
        return None
    mix = np.random.default_rng(0).standard_normal((2, int(full.sum())))
    c, linear, width = mix @ above.coefficients[full], mix @ above.linear[full], len(rows)
    pairs = np.argwhere(open_weights)
    skipped = np.zeros((rows.shape[1], len(pairs)))
    skipped[pairs[:, 1], np.arange(len(pairs))] = 1.0
    matrix = np.hstack([rows.T, skipped, linear.T])
    size = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    free = np.linalg.svd(matrix / size)[2]
    free = free[np.linalg.matrix_rank(matrix / size, tol=1e-9) :].T / size[:, None]
    chosen = free.shape[1] - 1
    if not 0 <= chosen <= min(most_free, width - agreeing):
        return None
    v, g = free[:width], c.T @ free[-2:]
    pivots = scipy.linalg.qr(np.hstack([v, g]).T, mode="r", pivoting=True)[1]
    best, nearest = free[:, 0], np.inf
    for choice in product((0.0, 1.0), repeat=chosen):
        k, bits = pivots[:chosen], np.array(choice)[:, None]
        y = np.linalg.svd(v[k] - bits * g[k])[2][-1] if chosen else np.ones(1)
        off = np.minimum(np.abs(v @ y), np.abs((v - g) @ y)) / np.maximum(np.abs(g @ y), 1e-300)
        if off.max() < nearest:
            best, nearest = free @ y, float(off.max())
    if nearest > tol:
        return None
    scale = c.T @ best[-2:]
    turned, skips = np.abs(best[:width]) > 0.5 * np.abs(scale), np.zeros(rows.shape)
    skips[pairs[:, 0], pairs[:, 1]] = -best[width:-2] / scale[pairs[:, 0]]
    rest = np.where(full[:, None], above.linear + above.coefficients @ (turned[:, None] * rows - skips), 0.0)
    s = np.linalg.svd(rest, compute_uv=False)
    if s[1] > tol * s[0]:
        return None
    return Orientation(turned, nearest, np.abs(c).max(axis=0) < 1e-12, skips, rest)


def _with_always_on(above: RowsAbove, rows: Array, open_weights: Array, tol: float) -> Orientation | None:
    """Bits that leave a matrix R of low rank unexplained, or None: least nuclear norm of R over the bits.

    Reweighted least squares: minimise tr Rᵀ (R Rᵀ + ε²)^(-1/2) R with ε falling; then round, and demand that the rank is low.
    Units above with open entries do not take part.
    """
    full = above.told.all(axis=1) & ~above.passed.any(axis=1)
    c, linear = above.coefficients[full], above.linear[full]
    most = min(4, min(linear.shape) - 1)
    if most < 1:
        return None
    pairs = np.argwhere(open_weights)
    columns = np.concatenate([-np.einsum("mk,kj->kmj", c, rows), np.zeros((len(pairs), *linear.shape))])
    for i, (k, j) in enumerate(pairs, len(rows)):
        columns[i, :, j] = c[:, k]
    weight, size = np.eye(len(c)), float(np.linalg.norm(linear, 2))
    for level in size * np.geomspace(1.0, 1e-9, 60):
        matrix = np.einsum("nm,kmj->knj", weight, columns).reshape(len(columns), -1).T
        values = np.linalg.lstsq(matrix, (weight @ linear).reshape(-1), rcond=1e-12)[0]
        rest = linear - np.einsum("k,kmj->mj", values, columns)
        e, u = np.linalg.eigh(rest @ rest.T)
        weight = (u / (np.maximum(e, 0.0) + level**2) ** 0.25) @ u.T
    turned = np.round(np.clip(values[: len(rows)], 0.0, 1.0))
    values = np.concatenate([turned, values[len(rows) :]])
    rest = linear - np.einsum("k,kmj->mj", values, columns)
    u, s, vt = np.linalg.svd(rest, full_matrices=False)
    rank = int((s > tol * size).sum())
    if rank > most - 1:
        return None
    skips, whole = np.zeros(rows.shape), np.zeros_like(above.linear)
    skips[pairs[:, 0], pairs[:, 1]] = values[len(rows) :]
    whole[full] = (u[:, :rank] * s[:rank]) @ vt[:rank]
    return Orientation(turned.astype(bool), tol, np.abs(c).max(axis=0) < 1e-12, skips, whole)


class _OrientationSystem(NamedTuple):
    above: RowsAbove
    rows: Array
    open_weights: Array
    most_free: int
    rank_tol: float

    def solve(self) -> Orientation:
        """The bits by least squares, or by enumeration where equations are few."""
        above, rows = self.above, self.rows
        m, width = above.coefficients.shape
        told = above.told.reshape(-1)
        bits = -np.einsum("mk,kj->mjk", above.coefficients, rows).reshape(-1, width)
        pairs, passed = np.argwhere(self.open_weights), np.argwhere(above.passed)
        extra = np.zeros((m, rows.shape[1], len(pairs) + len(passed)))
        for i, (k, j) in enumerate(pairs):
            extra[:, j, i] = above.coefficients[:, k]
        for i, (unit, k) in enumerate(passed, len(pairs)):
            extra[unit, :, i] = rows[k]
        flat = extra.reshape(len(told), -1)
        right = np.where(told, above.linear.reshape(-1), 0.0)
        solution = solve_row(np.hstack([bits, flat])[told], right[told], self.rank_tol)
        values = solution.row
        if np.abs(solution.free[:width]).max(initial=0.0) > 1e-6:
            values = _enumerated(solution, width, self.most_free, values)
        turned = np.round(np.clip(values[:width], 0.0, 1.0)).astype(bool)
        dead = np.abs(bits[told]).max(axis=0, initial=0.0) < 1e-12
        left = right - np.where(told[:, None], bits, 0.0) @ turned
        skips = np.zeros(rows.shape)
        if flat.shape[1]:
            fitted = np.linalg.lstsq(flat[told], left[told], rcond=1e-9)[0]
            left = np.where(told, left - flat @ fitted, 0.0)
            skips[pairs[:, 0], pairs[:, 1]] = fitted[: len(pairs)]
        distance = float(np.abs(values[:width] - turned)[~dead].max(initial=0.0))
        return Orientation(turned, distance, dead, skips, left.reshape(above.linear.shape))


def _enumerated(solution: RowSolution, width: int, most_free: int, values: Array) -> Array:
    """The solution whose bits are nearest to 0 and 1, over all values of as many bits as the equations leave free."""
    free = solution.free
    _, r, order = scipy.linalg.qr(free[:width].T, mode="economic", pivoting=True)
    size = int((np.abs(np.diag(r)) > 1e-6 * max(abs(r[0, 0]), 1e-300)).sum())
    if size > most_free:
        return values
    pivots = order[:size]
    inverse = np.linalg.pinv(free[pivots])
    best, nearest = values, np.inf
    for choice in product((0.0, 1.0), repeat=size):
        tried = values + free @ (inverse @ (np.array(choice) - values[pivots]))
        off = float(np.abs(tried[:width] - np.round(np.clip(tried[:width], 0.0, 1.0))).max())
        if off < nearest:
            best, nearest = tried, off
    return best


def global_row(known: KnownLayers, side: Array, row: Array) -> tuple[Array, Array, float]:
    """(c, ℓ, β) in the features [relu(z), h_below, 1] from a row from a base: relu(-z) = relu(z) - z where the side is +."""
    if not known.depth:
        return np.empty(0), row[:-1], float(row[-1])
    k = len(side)
    c, v, beta = row[:k], row[k:-1], float(row[-1])
    on = np.where(side > 0.0, c, 0.0)
    return c, v - on @ known.weights[-1], beta - float(on @ known.biases[-1])


def meeting_points(
    surface: Callable[[Array], tuple[Array, Array]], wall: Callable[[Array], tuple[Array, Array]], x: Array, *,
    steps: int = 30, tol: float = 1e-11,
) -> Array:
    """Fact (d): points (n, dim) where a surface meets a wall, from starts x (many, dim), without a query.

    On {z_k = 0} a row does not depend on its weight of k (relu(0) = 0), so the row as far as it is known will do. Both functions
    give gradients and values at points; from every start the shortest Newton step to the zeros of both linear pieces is taken
    until both vanish. Two surfaces that do not meet from many starts are said not to meet.
    """
    met = []
    for _ in range(steps):
        (n, a), (g, b) = surface(x), wall(x)
        nn, gg, ng = (n * n).sum(axis=1), (g * g).sum(axis=1), (n * g).sum(axis=1)
        done = (a * a <= tol**2 * nn) & (b * b <= tol**2 * gg)
        met.append(x[done & (nn > 0.0) & (gg > 0.0)])
        det = nn * gg - ng * ng
        go = ~done & (det > 1e-20 * nn * gg)
        if not go.any():
            break
        alpha, beta = ((gg * a - ng * b)[go] / det[go], (nn * b - ng * a)[go] / det[go])
        x = x[go] - alpha[:, None] * n[go] - beta[:, None] * g[go]
    return np.vstack(met)


def hold_open(row: Array, free: Array, features: Array, side: Array, options: FoldOptions = FoldOptions()) -> Array:
    """A small row among row + free·y whose unit does not bend where its surface was shown not to be.

    `features` (n, unknowns) of inputs at which free directions take part, `side` (n,) the sign of z_m there: two surfaces that do
    not meet leave m on one side wherever the feature is in its other state. Any such row gives the same function, once the
    linear part above is fitted: where the unit is off no answer depends on it, where it is on it passes a linear part that is
    fitted above. A linear program: the largest t - ε max|y| with side·z_m ≥ t·|features| and t ≤ `held_margin`.
    """
    size = np.linalg.norm(features, axis=1)
    a = side[:, None] * (features @ free) / size[:, None]
    b = side * (features @ row) / size
    q, price = free.shape[1], options.held_price / max(1.0, float(np.abs(row).max()))
    apart = np.column_stack([-a, np.ones(len(a)), np.zeros(len(a))])
    small = np.vstack([np.column_stack([sign * np.eye(q), np.zeros(q), -np.ones(q)]) for sign in (-1.0, 1.0)])
    result = scipy.optimize.linprog(
        np.concatenate([np.zeros(q), [-1.0, price]]), A_ub=np.vstack([apart, small]), b_ub=np.concatenate([b, np.zeros(2 * q)]),
        bounds=[(None, None)] * q + [(None, options.held_margin), (0.0, None)], method="highs")
    return row + free @ result.x[:q] if result.status == 0 else row

"""Lines followed in one feature space: the hyperplanes that they have met, the gradients beside them, and curved surfaces.

Kinks that no known unit explains are measured and tested far away. So are kinks of units that are known poorly, and of units with
no accurate gradient on one side: that side decides which one is active, and a gradient on a tiny piece is too inexact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, BudgetExhausted, NotSeparated
from laybare.lines.feature_space import FeatureSpace
from laybare.lines.hyperplanes import HYPERPLANE, Hyperplane, measure_hyperplane
from laybare.lines.kinks import Kink, LineProfile, read_profile
from laybare.lines.line import KINK, Line, within_answers
from laybare.lines.partial_network import SAME_HYPERPLANE
from laybare.lines.query import QueryContext
from laybare.lines.surfaces import PieceGradient, Surface, changes_along, classify_surface, measure_gradient, measure_surface
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """Thresholds for the units of a layer in a feature space, or above known layers."""

    max_sd_ratio: float = 300.0
    """Accurate gradients have at most this many median sds. Checked by `pytest tests/lines/test_following.py`."""
    poor_sd: float = 3e-4
    """Hyperplanes with a larger sd are measured again. Checked by `pytest tests/lines/test_middle_layers.py`."""
    side_sds: float = 10.0
    """Within which the side of a point is undecided. Checked by `pytest tests/lines/test_middle_layers.py`."""
    zero_sds: float = 40.0  # smaller values are zero. Checked by `laybare reproduce deep-cases`.
    zero_share: float = 1e-6  # so are those below this share of the largest. Checked by `laybare reproduce deep-cases`.
    max_undecided: tuple[int, ...] = (100, 20, 10)
    """Undecided surfaces of which all subsets of 1, 2, 3 are tried. Derived: at most 200 subsets each."""
    max_condition: float = 1e7  # of independent rows. Derived: float64 rounding grows to 1e-9.
    max_subsets_per_choice: int = 3000
    """Of undecided surfaces beside the same hyperplanes. Checked by `laybare reproduce deep-cases`."""
    max_subsets: int = 20_000  # in all. Checked by `laybare reproduce deep-cases`.
    max_subset_work: float = 2e7  # subsets times parameters of a layer. Derived: about ten seconds.
    vanishing_share: float = 1e-4
    """Of its largest coefficient: the unit is off. Checked by `pytest tests/lines/test_middle_layers.py`."""
    wide_sign_tol: float = 1e-6  # relative residual of the linear part. Checked by `pytest tests/lines/test_middle_layers.py`.
    max_always_active_subsets: int = 12  # of undecided surfaces. Checked by `laybare reproduce deep-cases`.
    max_undecided_sides: int = 16  # units of which all sign patterns are tried. Derived: 65,536 patterns.
    negative_share: float = 1e-7
    """Of the largest weight; larger negative ones count. Checked by `pytest tests/lines/test_last_layers.py`."""
    shown_reach: float = 3.0  # of a line, in its scales, on which kinks are seldom too near. Derived: there lie most of them.
    shown_tol: float = 1e-4  # of a place, in scales. Derived: one of 50 kinks is there by chance once in 100.
    met_again: float = 0.05
    """Of normals, and of places relative to their distance: two rough readings may be of one hyperplane. Derived: half of the
    largest error of a rough normal; a surface that turns agrees by chance once in 20^dim, and is then refused."""
    crowded: float = 4.0
    """Kinks of a line per input, beyond which most belong to layers above. Derived: a line meets a layer as wide as its input
    once per input, and layers above it that are no wider three times as often at most."""
    min_met: int = 4  # lines that meet a hyperplane, before it is dropped. Derived: one that is hidden at half of them is kept.
    min_shown_share: float = 0.4
    """Of these, on which a unit bends, at least. Checked by `laybare reproduce deep-cases`."""
    last_layer_misfit: float = 1e-5  # relative, of all gradients. Checked by `laybare reproduce deep-cases`.


LAYER = LayerOptions()


@dataclass(frozen=True, eq=False)
class LayerObservations:
    """What lines in a feature space have shown; the number of lines, and how many at the end were quiet (no new unit).

    `undecided` surfaces could not be tested far away: the gradients decide whether they are units. `curved` surfaces belong to
    layers above, which may be read from them. `once`: with coarse answers, what crowded lines of the input space have met
    so far; it is located when another line meets it.
    """

    space: FeatureSpace
    hyperplanes: tuple[Surface, ...] = ()
    undecided: tuple[Surface, ...] = ()
    gradients: tuple[PieceGradient, ...] = ()
    curved: tuple[Surface, ...] = ()
    lines: int = 0
    quiet: int = 0
    once: tuple[Surface, ...] = ()
    profiles: tuple[LineProfile, ...] = ()  # of the lines in the input space

    @property
    def known(self) -> tuple[Surface, ...]:
        """Hyperplanes and undecided surfaces."""
        return (*self.hyperplanes, *self.undecided)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return len(self.gradients[0].answer)


def follow_line(
    context: QueryContext, observed: LayerObservations, line: Line, *, all_gradients: bool = False, doubt: bool = False
) -> LayerObservations:
    """Read a line and measure what no known unit explains; with `all_gradients`, the gradients on all of its pieces.

    `doubt`: a known surface may be none of this layer, so what is in the span of all is measured too, where no refused surface
    passes.
    """
    space, located = observed.space, not context.rounding.fine
    try:
        part = _usable_part(context, observed, line)
        profile = read_profile(context, part, max_queries=HYPERPLANE.queries_per_line) if located else read_profile(context, part)
    except (NotSeparated, AssumptionViolated):
        return replace(observed, lines=observed.lines + 1, quiet=0)
    crowded = located and not space.layers and len(profile.kinks) > LAYER.crowded * space.width
    new = [i for i in range(len(profile.kinks)) if not _is_explained(observed.known, space, profile, i)]
    if doubt:
        new = [i for i in new if not _is_explained(observed.curved, space, profile, i)]
    else:
        new = _kinks_of_unknown_units(context, observed, profile, new)
    new = sorted({*new, *_kinks_to_remeasure(observed, profile)})
    beside = range(len(profile.pieces)) if all_gradients else sorted({i + d for i in new for d in (0, 1)})
    gradients = {k: measure_gradient(context, space, profile, k) for k in beside}
    fresh = replace(
        observed, lines=observed.lines + 1, quiet=observed.quiet + 1,
        gradients=observed.gradients + tuple(gradient for gradient in gradients.values() if gradient is not None),
        profiles=() if space.layers else (*observed.profiles, profile))
    try:
        for i in new:
            surface = measure_surface(context, space, profile, i, gradients)
            if surface is None:
                continue
            if any(_is_same(surface, other) for other in fresh.known):
                fresh = replace(fresh, hyperplanes=tuple(_more_exact(surface, other) for other in fresh.hyperplanes))
            elif crowded and not _is_met_again(surface, observed):
                fresh = replace(fresh, once=(*fresh.once, surface))
            elif located:
                fresh = _add_located(context, fresh, surface, profile.kinks[i], line.direction)
            else:
                fresh = _add_surface(context, fresh, surface)
    except BudgetExhausted as error:
        error.values["observed"] = fresh  # with what this line has shown
        raise
    return fresh


def _usable_part(context: QueryContext, observed: LayerObservations, line: Line) -> Line:
    """The part of a line on which no class is certain.

    Above known layers it is moved towards a place where a gradient was measured: a feature space is convex, so it stays inside;
    nearer to the origin may lie outside.
    """
    queries, space = context.queries, observed.space
    if queries.resolution is None or not space.layers:
        return within_answers(queries, line)
    home = observed.gradients[0].x if observed.gradients else None
    for _ in range(KINK.max_halvings):
        if len(queries.ask_usable(line.point[None], "recognise").x):
            return within_answers(queries, line)
        if home is not None:
            line = space.line_through(home + (line.point - home) / KINK.reach_factor, line.direction, line.scale)
    raise NotSeparated(
        "A class is certain to rounding where a line begins.", "Its log-odds carry no information there.", "Use another line.")


def without_unshown(observed: LayerObservations) -> LayerObservations:
    """Without located hyperplanes that the lines do not show where they are met: no query.

    A unit of the lowest layer bends on all of its hyperplane, but where layers above hide it; a surface that is straight for a
    while does not.
    """
    return replace(observed, hyperplanes=tuple(plane for plane in observed.hyperplanes if _is_shown(plane, observed.profiles)))


def with_unshown_refused(observed: LayerObservations) -> LayerObservations:
    """The same with known surfaces that the lines do not show refused: one of them hides what is in the span of all."""
    shown = [_is_shown(plane, observed.profiles) for plane in observed.hyperplanes]
    kept, refused = (tuple(compress(observed.hyperplanes, side)) for side in (shown, np.logical_not(shown)))
    return replace(observed, hyperplanes=kept, curved=(*observed.curved, *refused))


def _is_shown(plane: Surface, profiles: tuple[LineProfile, ...]) -> bool:
    met = shown = 0
    for line, places in ((profile.line, profile.places) for profile in profiles):
        along = float(plane.normal @ line.direction)
        t = -(float(plane.normal @ line.point) + plane.offset) / along if along else np.inf
        reach = LAYER.shown_reach * line.scale * max(1.0, plane.far)
        if not max(line.low, -reach) < t < min(line.high, reach):
            continue
        error = LAYER.side_sds * plane.sd * (1.0 + float(np.linalg.norm(line(t)))) / abs(along)
        met += 1
        shown += bool(len(places)) and bool(np.abs(places - t).min() <= error + LAYER.shown_tol * line.scale)
    return met < LAYER.min_met or shown >= LAYER.min_shown_share * met


def _kinks_to_remeasure(observed: LayerObservations, profile: LineProfile) -> list[int]:
    """Kinks of units that are known poorly (by coarse answers) or from one side only."""
    wanted = (*(surface for surface in observed.hyperplanes if surface.sd > LAYER.poor_sd), *one_sided_surfaces(observed))
    return [i for i in range(len(profile.kinks)) if wanted and _is_explained(wanted, observed.space, profile, i)]


def one_sided_surfaces(observed: LayerObservations) -> tuple[Surface, ...]:
    """Known surfaces with accurate gradients on one side only: the other one was measured on a tiny piece."""
    if not observed.known or not observed.gradients:
        return ()
    rows, offsets, sd = (np.array(column) for column in zip(*(surface[:3] for surface in observed.known), strict=True))
    h = observed.space.features(np.array([gradient.x for gradient in accurate_gradients(observed.gradients)]))
    side = sides_of_hyperplanes(h, rows, offsets, sd)
    both = np.asarray((side > 0.0).any(axis=0) & (side < 0.0).any(axis=0))
    return tuple(surface for surface, complete in zip(observed.known, both, strict=True) if not complete)


def line_across(space: FeatureSpace, surface: Surface, rng: Generator) -> Line:
    """A line through the place where a surface was met, in another direction."""
    away = space.random_point(rng) - surface.x
    return space.line_through(surface.x, away, float(np.linalg.norm(away)))


def sides_of_hyperplanes(h: Array, rows: Array, offsets: Array, sd: Array) -> Array:
    """The sides (n, m) of hyperplanes on which features h (n, width) are: 1, -1, or 0 within the error bar."""
    before = h @ rows.T + offsets
    open_ = LAYER.side_sds * sd * (1.0 + np.linalg.norm(h, axis=1)[:, None])
    return np.asarray(np.where(np.abs(before) > open_, np.sign(before), 0.0))


def accurate_gradients(gradients: tuple[PieceGradient, ...]) -> list[PieceGradient]:
    """Those that were measured about as well as most."""
    level = LAYER.max_sd_ratio * float(np.median([gradient.sd for gradient in gradients]))
    return [gradient for gradient in gradients if gradient.sd <= level]


def _more_exact(surface: Surface, known: Surface) -> Surface:
    """The better of two readings of one surface; the known one if they differ."""
    return surface if surface.sd < known.sd and _is_same(surface, known) else known


def _kinks_of_unknown_units(
    context: QueryContext, observed: LayerObservations, profile: LineProfile, kinks: list[int]
) -> list[int]:
    """The kinks beside which an unknown unit is active: one query per piece, along a direction orthogonal to all known units.

    Such a direction exists if fewer units are known than the space has features; else all kinks are returned.
    """
    space, known = observed.space, np.array([s.normal for s in observed.hyperplanes])
    if not len(known) or len(known) >= space.width or not kinks:
        return kinks
    blind = context.rng.standard_normal(space.width)
    blind -= np.linalg.pinv(known) @ (known @ blind)
    pieces = sorted({i + d for i in kinks for d in (0, 1)})
    changes = dict(zip(pieces, changes_along(context, space, profile, pieces, blind), strict=True))
    return [i for i in kinks if changes[i] or changes[i + 1]]


def _add_surface(context: QueryContext, observed: LayerObservations, surface: Surface) -> LayerObservations:
    verdict = classify_surface(context, observed.space, surface)
    if verdict == "hyperplane":
        return replace(observed, hyperplanes=(*observed.hyperplanes, surface), quiet=0)
    if verdict == "undecided":
        return replace(observed, undecided=(*observed.undecided, surface), quiet=0)
    return replace(observed, curved=(*observed.curved, surface))


def _is_met_again(surface: Surface, observed: LayerObservations) -> bool:
    """Whether an earlier line may have met the same hyperplane: every line meets each of them, and a surface that turns is
    hardly met twice in the same place. No query."""
    for other in observed.once:
        side = 1.0 if float(surface.normal @ other.normal) > 0.0 else -1.0
        apart = LAYER.met_again * (observed.space.spread + float(np.linalg.norm(surface.x - other.x)))
        near = max(abs(surface.height(observed.space, other.x)), abs(other.height(observed.space, surface.x))) <= apart
        if near and np.linalg.norm(surface.normal - side * other.normal) <= LAYER.met_again:
            return True
    return False


def _add_located(
    context: QueryContext, observed: LayerObservations, surface: Surface, kink: Kink, direction: Array
) -> LayerObservations:
    """The same with coarse answers: the hyperplane is measured from located kinks far apart, which tests it as well."""
    climb = abs(float(surface.normal @ (observed.space.matrix @ direction)))  # of the surface's height along its line
    jump = kink.jump / climb
    rough = Hyperplane(surface.normal, -surface.offset, jump, surface.sd, climb * kink.sd, float(np.linalg.norm(jump)))
    plane = measure_hyperplane(context, rough, surface.x, observed.space, deep=True).plane
    if plane is None:
        return replace(observed, curved=(*observed.curved, surface))
    located = surface._replace(normal=plane.normal, offset=-plane.offset, sd=plane.normal_sd)
    if any(_is_same(located, other) for other in observed.known):
        return observed
    return replace(observed, hyperplanes=(*observed.hyperplanes, located), quiet=0)


def _is_explained(surfaces: tuple[Surface, ...], space: FeatureSpace, profile: LineProfile, i: int) -> bool:
    """Whether a known hyperplane passes through kink i."""
    kink, line = profile.kinks[i], profile.line
    h, u = space.features(line(kink.t))[0], space.matrix @ line.direction
    size = float(np.linalg.norm(h)) + 1.0
    for surface in surfaces:
        off = abs(float(surface.normal @ h) + surface.offset)
        if off <= 20.0 * surface.sd * size + (10.0 * kink.sd + 1e-9 * line.scale) * abs(float(surface.normal @ u)):
            return True
    return False


def distinct_refused(observed: LayerObservations) -> tuple[Surface, ...]:
    """Surfaces that were tested far away and refused, each once, without those that are known."""
    found: list[Surface] = []
    for surface in sorted(observed.curved, key=lambda one: one.sd):
        if not any(_is_same(surface, other) for other in (*observed.known, *found)):
            found.append(surface)
    return tuple(found)


def _is_same(one: Surface, other: Surface) -> bool:
    sign = 1.0 if float(one.normal @ other.normal) > 0.0 else -1.0
    level = SAME_HYPERPLANE + 10.0 * float(np.hypot(one.sd, other.sd))
    return bool(
        np.abs(one.normal - sign * other.normal).max() < level
        and abs(one.offset - sign * other.offset) < level * (1.0 + abs(one.offset)) * np.sqrt(len(one.normal)))

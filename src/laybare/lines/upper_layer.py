"""A third or higher layer of a deep network, from kinks under any pattern of active units below.

Above two layers there need not be inputs at which all units are active, and a unit may bend only where some are not. But what
lies below is known, so lines in the first feature space give partial rows (`laybare.lines.partial_layer`), and the next place is
computed without queries (`laybare.lines.reachable`): along single features, where every unit that bends shows if inputs can reach
it; beyond the boundary of a feature for which a row is unknown; and towards the extremes of a direction that changes the answers
and that no known unit explains. If nothing lies above the layer, one readout explains all gradients; otherwise far checks remove
the rows of units further up, and the rows of the active units explain every gradient (`laybare.lines.layer_signs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from laybare.errors import AssumptionViolated, NotSeparated
from laybare.lines.feature_space import FeatureSpace, Layers
from laybare.lines.kinks import read_profile
from laybare.lines.layer import LayerEstimate, subsets_to_try
from laybare.lines.layer_signs import (
    LastLayer,
    complete_row,
    explain_as_last_layer,
    feature_gradients,
    independent_rows,
    last_layer_estimate,
    read_middle_layer,
)
from laybare.lines.line import Line
from laybare.lines.observations import LAYER, LayerObservations
from laybare.lines.partial_layer import PartialLayer, PartialRow, classify_row
from laybare.lines.query import QueryContext
from laybare.lines.reachable import FeatureSegment
from laybare.lines.surfaces import Verdict, measure_gradient, measure_surface


def read_upper_layer(
    context: QueryContext, below: LayerObservations, known: Layers, targets: tuple[Line, ...] = ()
) -> LayerEstimate | None:
    """Lines in the first feature space, beyond those of the layer `below`, until a layer explains all gradients; else None."""
    search, space, rng = _UpperSearch(context), below.space, context.rng
    layer = _start_partial_layer(below, known)
    first = [space.line(number, rng) for number in range(space.width)] if len(known) == 1 else []
    layer = search.follow(layer, (*targets, *first, *_single_feature_lines(layer)))
    last = None
    for turn in range(LAYER.max_rounds):
        layer = search.follow(layer, (space.line(space.width, rng) for _ in range(LAYER.lines_per_round)))
        layer = search.follow(layer, _boundary_lines(layer, search.tried))
        last = explain_as_last_layer(layer)
        if last is None and turn > 0 and len(layer.incomplete) > len(known[-1][1]):  # too many rows: there are layers above
            gradients = feature_gradients(layer)
            middles = (read_middle_layer(layer, units, gradients, rng=rng) for units in search.candidate_units(layer))
            middle = next((middle for middle in middles if middle is not None), None)
            if middle is not None:
                return middle
        if last is None or layer.incomplete:
            ways = ((way, explain_as_last_layer(way)) for way in complete_row(layer)) if turn > 0 else ()
            explained = next(((way, found) for way, found in ways if found is not None), None)
            if explained is None:
                continue
            layer, last = explained
        if not len(last.always_active):
            return last_layer_estimate(layer, last)
        rows = len(layer.rows)
        layer = search.follow(layer, _lines_along_rest(layer, last))
        if len(layer.rows) == rows:
            return last_layer_estimate(layer, last)
    return None if last is None else last_layer_estimate(layer, last)


def _start_partial_layer(below: LayerObservations, known: Layers) -> PartialLayer:
    """What the lines that were laid for the layer below have shown already."""
    layer = PartialLayer(below.space, known, gradients=below.gradients)
    for surface in below.curved:
        if not layer.explains(surface.x):
            layer = layer.with_surface(surface)
    return layer


@dataclass(frozen=True, eq=False)
class _UpperSearch:
    """Follows lines, and remembers which boundaries were crossed and which rows are units."""

    context: QueryContext
    tried: set[tuple[bytes, int]] = field(default_factory=set)
    verdicts: dict[bytes, Verdict] = field(default_factory=dict)

    def follow(self, layer: PartialLayer, lines: Iterable[Line]) -> PartialLayer:
        for line in lines:
            layer = _follow_line(self.context, layer, line)
        return layer

    def candidate_units(self, layer: PartialLayer) -> Iterator[list[PartialRow]]:
        """The rows that are units of this layer and not of one further up, with some of the undecided ones."""
        for row in layer.complete:
            if row.key not in self.verdicts:
                self.verdicts[row.key] = classify_row(self.context, layer, row)
        certain, unsure = ([row for row in layer.complete if self.verdicts[row.key] == v] for v in ("hyperplane", "undecided"))
        unsure.sort(key=lambda row: -row.kinks)
        for sure in islice(independent_rows(certain), LAYER.max_independent_sets):
            yield from ([*sure, *unsure[:count]] for count in range(len(unsure) + 1))
            yield from ([*sure, *chosen] for chosen in islice(subsets_to_try(tuple(unsure)), LAYER.max_row_subsets))


def _single_feature_lines(layer: PartialLayer) -> Iterator[Line]:
    """Lines along which a single feature of the highest known layer grows, where inputs can reach that."""
    small, large = (size * layer.space.spread for size in LAYER.feature_range)
    for feature in range(len(layer.below[-1][1])):
        ends = layer.reachability.single_feature_points(feature, (small, large))
        if ends is not None:
            yield layer.space.line_between(*ends)


def _boundary_lines(layer: PartialLayer, tried: set[tuple[bytes, int]]) -> Iterator[Line]:
    """Lines across the surfaces of incomplete rows, beyond the boundary of a feature for which they are unknown."""
    alone = len(layer.incomplete) <= len(layer.below[-1][1])
    for row in layer.incomplete:
        for feature in np.flatnonzero(~row.known) if alone or row.kinks >= LAYER.min_kinks_per_row else ():
            if (row.key, int(feature)) not in tried:
                tried.add((row.key, int(feature)))
                segment = layer.reachability.segment_beyond(row.weights, row.bias, row.known, int(feature))
                if segment is not None:
                    yield _line_on_segment(layer.space, segment)


def _lines_along_rest(layer: PartialLayer, last: LastLayer) -> Iterator[Line]:
    """Lines between the extremes of what no known unit explains: if it bends, then there."""
    for row in last.always_active:
        low, high = layer.reachability.minimum_point(row), layer.reachability.minimum_point(-row)
        if low is not None and high is not None:
            yield layer.space.line_between(low, high)


def _line_on_segment(space: FeatureSpace, segment: FeatureSegment) -> Line:
    direction = space.inverse @ segment.direction
    size = float(np.linalg.norm(direction))
    reach = segment.reach * size
    return Line(space.inverse @ (segment.start - space.offset), direction / size, -reach, reach, reach / 3.0)


def _follow_line(context: QueryContext, layer: PartialLayer, line: Line) -> PartialLayer:
    space = layer.space
    layer = replace(layer, lines=layer.lines + 1, quiet=layer.quiet + 1)
    try:
        profile = read_profile(context, line)
    except (NotSeparated, AssumptionViolated):
        return layer
    new = [i for i, kink in enumerate(profile.kinks) if not layer.explains(line(kink.t)[0])]
    gradients = {k: measure_gradient(context, space, profile, k) for k in sorted({i + d for i in new for d in (0, 1)})}
    rows = len(layer.rows)
    for i in new:
        surface = measure_surface(context, space, profile, i, gradients)
        layer = layer if surface is None else layer.with_surface(surface)
    measured = tuple(gradient for gradient in gradients.values() if gradient is not None)
    return replace(layer, gradients=layer.gradients + measured, quiet=0 if len(layer.rows) > rows else layer.quiet)

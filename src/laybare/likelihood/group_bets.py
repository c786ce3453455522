"""Challengers of a fit by likelihood: bets on deviances, a group of rows at a time.

A challenger adds g(x) to what the network answers, η. In a group of rows it gains

    D = Σ w (dev(y, η) - dev(y, η + g)),

over the deviance that a constant leaves per row; a row without a group is a group of its own. Groups are independent where rows
are not, so that one bet is made on each (`laybare.certificate.challengers`), on E D < δ² E s, with s the weight of the group in
rows. For the squared error and equal weights that is the bet on squared errors; δ² is always a share of what a constant leaves.

The families of the residual are fitted to scores by least squares, and then scaled by the likelihood: one step of gradient
boosting (Friedman 2001). They are fitted to one half of the groups and meet the other, and the fresh ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.certificate.challengers import (
    OPTIONS,
    BetTerms,
    Challenger,
    Contest,
    Differences,
    ResidualRows,
    capital_against,
    residual_challengers,
    upper_bound,
)
from laybare.numerics.levels import EPS
from laybare.numerics.shapes import Array
from laybare.solver.point import Point, outputs_at
from laybare.source.losses import Labels, LikelihoodRows, Loss


class JudgedRows(NamedTuple):
    """White inputs, what the network answers there, and labels."""

    x: Array
    eta: Array
    labels: Labels


class GroupGains(NamedTuple):
    """What a challenger gains in every group, and the weights of the groups over their mean."""

    gains: Array
    sizes: Array


@dataclass(frozen=True, eq=False)
class Arena:
    """A network, its loss, and the deviance of a constant per row."""

    point: Point
    loss: Loss
    scale: float

    def rows(self, given: LikelihoodRows) -> JudgedRows:
        """All rows; those without groups are groups of their own."""
        x, labels = given.rows.read(0, given.size).x, given.labels
        groups = labels.groups if given.groups else np.arange(len(x))
        return JudgedRows(x, outputs_at(self.point, x), labels._replace(groups=groups))

    def gains(self, adds: Differences, rows: JudgedRows) -> GroupGains:
        """D of every group."""
        before, after = (self.loss.rows(eta, rows.labels.y).deviance for eta in (rows.eta, rows.eta + adds(rows.x, rows.eta)))
        numbers = np.unique(rows.labels.groups, return_inverse=True)[1].ravel()
        sizes = np.bincount(numbers, rows.labels.weights)
        each = rows.labels.weights * (before - after).sum(axis=1) / self.scale
        return GroupGains(np.bincount(numbers, each) / sizes.mean(), sizes / sizes.mean())

    def meets(self, one: Challenger, met: JudgedRows, seen: JudgedRows, terms: BetTerms) -> Contest:
        """The challenger on rows that it `met` first; gains and losses count up to the largest of a group that it has `seen`,
        losses at least as far as gains: one that was fitted to few groups gains in all of them."""
        before, (gains, sizes) = self.gains(one.on_fitted, seen).gains, self.gains(one.adds, met)
        most = max(float(before.max()), EPS)
        worst = max(float(-before.min()), most)
        d = np.clip(gains, -worst, most)
        bound = float(np.sqrt(max(upper_bound(d, most, terms, sizes), 0.0)))
        return Contest(one.name, bound, capital_against(-d, 0.0, worst))

    def scaled(self, one: Challenger, seen: JudgedRows) -> Challenger:
        """The challenger times the factor that makes these rows most likely."""
        shape = one.on_fitted(seen.x, seen.eta)
        tried = [0.0]
        for _ in range(OPTIONS.steps):
            each = self.loss.rows(seen.eta + tried[-1] * shape, seen.labels.y)
            weights = seen.labels.weights[:, None]
            slope, curvature = (float(np.sum(weights * part)) for part in (each.score * shape, each.information * shape**2))
            tried.append(tried[-1] + slope / max(curvature, np.finfo(float).tiny))
        left = [
            float(seen.labels.weights @ self.loss.rows(seen.eta + factor * shape, seen.labels.y).deviance.sum(axis=1))
            for factor in tried]
        factor = tried[int(np.nanargmin(left))]
        return Challenger(one.name, lambda x, outputs: factor * one.adds(x, outputs), factor * shape)


def wider_challenger(name: str, point: Point) -> Challenger:
    """Another network in place of this one."""
    return Challenger(name, lambda x, eta: outputs_at(point, x) - eta)


def meet_by_likelihood(
    arena: Arena, rows: tuple[LikelihoodRows, LikelihoodRows], points: list[Challenger], terms: BetTerms, *, rng: Generator
) -> tuple[Contest, ...]:
    """Every challenger's record: networks meet the fresh rows; those of the residual the groups that they were not fitted to."""
    used, fresh = (arena.rows(one) for one in rows)
    number = int(used.labels.groups.max()) + 1
    chosen = rng.permutation(number)
    chosen = chosen[: max(2, int(number * min(1.0, OPTIONS.rows / len(used.x))))]
    seen, other = (_of_groups(used, half) for half in np.array_split(chosen, 2))
    found = [arena.meets(one, fresh, used, terms) for one in points]
    if len(seen.x) < 2 * OPTIONS.rows_per_knot:
        return tuple(found)
    met = _together(other, fresh._replace(labels=fresh.labels._replace(groups=fresh.labels.groups + number)))
    each = arena.loss.rows(seen.eta, seen.labels.y)
    left = ResidualRows(seen.x, seen.eta, seen.labels.weights[:, None] * each.score)
    family = residual_challengers(left, arena.point, rng)
    return (*found, *(arena.meets(arena.scaled(one, seen), met, seen, terms) for one in family))


def _of_groups(rows: JudgedRows, groups: Array) -> JudgedRows:
    kept = np.isin(rows.labels.groups, groups)
    return JudgedRows(rows.x[kept], rows.eta[kept], Labels(*(part[kept] for part in rows.labels)))


def _together(first: JudgedRows, second: JudgedRows) -> JudgedRows:
    labels = Labels(*(np.concatenate(pair) for pair in zip(first.labels, second.labels, strict=True)))
    return JudgedRows(np.concatenate([first.x, second.x]), np.concatenate([first.eta, second.eta]), labels)

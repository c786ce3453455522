"""All numbers of the reader by folds, in one place, each with its origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class FoldOptions:
    """How surfaces are followed. Lengths are in units of the inputs' scale unless said. Chosen numbers were set on
    random networks of seeds 100-124; the tests that check them use others."""

    reach: float = 10.0  # of lines and rays, times √dim. Checked by `pytest tests/lines/test_folds.py`.
    quiet_lines: int = 3  # without a new unit end a layer. Checked by `pytest -m slow tests/lines/test_folds.py`.
    most_lines: int = 60  # per layer. Checked by `pytest -m slow tests/lines/test_folds.py`.
    explained: float = 1e-6
    """Distance along a line within which a known unit explains a kink. Derived: with 300 units on a line of length 20 a
    foreign kink is explained by chance with probability 300 · 2e-6 / 20 = 3e-5."""
    spreads: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 10.0)  # of inputs. Checked by `pytest -m slow tests/lines/test_folds.py`.
    steep: int = 40  # inputs between which slopes are taken. Checked by `pytest -m slow tests/lines/test_folds.py`.
    sharp: float = 0.01  # largest sd of a normal that is followed. Checked by `pytest -m slow tests/lines/test_folds.py`.
    held_margin: float = 0.01  # of z over |features| there, at most. Checked by `pytest tests/lines/test_folds.py`.
    held_price: float = 1e-5  # of its size in units of that. Derived: a row a thousand times as large costs the whole margin.
    held_rounds: int = 8  # of linear programs for open weights. Checked by `pytest tests/lines/test_folds.py`.
    held_points: int = 1000  # inputs that are added in a round. Checked by `pytest tests/lines/test_folds.py`.
    window: float = 1e-3  # half of the window for a known surface. Checked by `pytest tests/lines/test_folds.py`.
    on_surface: float = 2e-3
    """Share of the window within which the surface must be. Derived: a foreign kink is there with probability 2e-3."""
    same_jump: float = 1e-3
    """Relative difference of the jumps of one surface on both sides of a wall. Checked by `pytest tests/lines/test_folds.py`."""
    hit_share: float = 0.5  # Wald's test: hits of a unit of the layer. Measured: `pytest -s tests/lines/test_folds.py -k share`
    false_share: float = 0.08  # hits of any other surface. Measured: `pytest -s tests/lines/test_folds.py -k share`
    accept: float = 5.4  # log-likelihood ratio that accepts. Derived: three hits, 3 log(0.5 / 0.08).
    refuse: float = -3.6  # that refuses. Derived: six misses, 6 log(0.5 / 0.92).
    flat_share: float = 0.9  # of the way to a wall, where a surface is looked at first. Convention: most of the way.
    flat_looks: int = 6  # of that kind. Derived: of surfaces that fold in half of cells one in sixty passes.
    flat_hits: tuple[float, float] = (0.9, 0.5)
    """Wald's test there: hits of a unit of the layer, which what lies above hides less near a place where it was met, and of any
    other surface. Measured: `pytest -s tests/lines/test_folds.py -k share`"""
    flat_refuse: float = -2.0  # log-likelihood ratio. Derived: two misses more than hits; a unit is met again on other lines.
    many_others: int = 5  # units that a surface of their layer crosses one of. Derived: each in half of cases, so 1 - 2^-5.
    few_misses: float = 0.2
    """Share of looks that may miss a surface before it is asked why. Derived: a surface that folds at an unknown unit is missed
    on one side of it, half of the places on average."""
    fold_rays: int = 12  # on which that is asked. Derived: of rays that miss in a third of cases, two do with 95 %.
    fold_halvings: int = 9  # of such a ray. Derived: 1/512 of it, less than the distance between two surfaces.
    spare: int = 3  # located points beyond the unknowns of a row. Derived: with none, a null vector always closes.
    most_looks: int = 24  # at a surface, beyond two per unknown. Checked by `pytest -m slow tests/lines/test_folds.py`.
    rays: int = 8  # of which the best fold is measured. Checked by `pytest tests/lines/test_folds.py`.
    barren_rays: int = 40  # without a fold, then folds are computed. Checked by `pytest tests/lines/test_folds.py`.
    ray_cells: int = 200  # of a ray; they ask nothing. Checked by `pytest tests/lines/test_folds.py`.
    meetings: int = 100  # starts from which meeting points are computed. Checked by `pytest tests/lines/test_folds.py`.
    undetermined: float = 1e-6
    """Relative change of a normal by free directions beyond which a surface is unknown in a cell. Derived: between rounding
    (1e-12) and a weight that matters (1e-3)."""
    rank: float = 1e-9  # relative singular value below which a direction is free. Derived: as `undetermined`, for points.
    closes: float = 1e-8  # singular-value ratio of a null vector. Derived: rounding 1e-16 times a condition of up to 1e7.
    shares: tuple[tuple[float, float], ...] = ((0.3, 3.0), (0.05, 10.0), (0.01, 40.0))
    """For a fold, in turn: share of the room before and behind a wall, and the window in units of it. Checked by
    `pytest tests/lines/test_folds.py`."""
    slant: float = 0.03  # least sine between surface and wall. Checked by `pytest tests/lines/test_folds.py`.
    aimed: int = 3  # pairs of answers beside every unit. Checked by `pytest tests/lines/test_folds.py`.
    fresh: int = 1000  # answers that the sign-free function must predict. Derived: 0.5 % of inputs are met with 99 %.
    corner_share: float = 0.25
    """Answers at corners, per query before. Derived: 5-12-12-3 has 1,782 in layer 1 and takes eight thousand queries."""
    corner_reach: float = 7.5  # as `reach`. Derived: their surfaces are followed beyond, up to `reach`.
    corner_floats: float = 2e6  # gradients of walls at corners. Derived: 16 MB.
    corner_steps: int = 12  # of Newton's method; layer 1 takes one. Checked by `pytest tests/lines/test_folds.py`.
    last_fresh: int = 100  # answers after the joint fit. Checked by `pytest tests/lines/test_folds.py`.
    last_lines: int = 4  # all of whose kinks must be explained. Checked by `pytest -m slow tests/lines/test_folds.py`.
    returns: int = 8  # of missed answers to the search. Checked by `pytest -m slow tests/lines/test_folds.py`.
    looks: int = 6  # per return. Checked by `pytest -m slow tests/lines/test_folds.py`.
    targets: int = 3  # lines per look. Checked by `pytest -m slow tests/lines/test_folds.py`.
    fit_share: float = 1.3  # equations of the joint fit per parameter. Checked by `pytest tests/lines/test_folds.py`.
    prior_misfits: float = 100.0
    """Sd of a parameter before the joint fit, in misfits of answers. Derived: surfaces tell rows about as well as answers are
    predicted; what few answers tell would else be lost in their rounding."""
    most_weights: int = 6000  # of which each is said to be told or not. Derived: 290 MB.
    most_always_on: int = 3  # units always on in a layer; more show a wrong row. Checked by `pytest tests/lines/test_folds.py`.
    given_up: float = 0.05
    """Share of unpredicted answers in a network that is returned as incomplete. Checked by `pytest tests/lines/test_folds.py`."""
    oriented: float = 1e-6  # misfit before the joint fit. Derived: errors grow by 10-100 per layer, from 1e-12 to 1e-7.
    free_levels: tuple[float, float] = (0.01, 1e-10)
    """Of misfits, relative to the largest at first, and at last. Derived: at the first most answers keep their weight; the last
    is rounding times the condition of the features."""
    free_steps: int = 12  # levels, and steps at each. Derived: a factor of 5 from level to level.
    free_damping: tuple[float, float] = (1e-9, 1e3)  # least and largest. Derived: rounding of the system, and a step of 1e-3.
    free_sample: int = 12
    """Answers per number of that fit. Derived: of answers asked for other purposes one in ten is far from all others."""
    free_rounds: int = 2  # that do not halve the answers that are missed end it. Checked by `pytest tests/lines/test_folds.py`.
    free_answers: int = 30  # asked where an open feature takes part. Checked by `pytest tests/lines/test_folds.py`.
    free_batches: int = 12  # of fresh answers at most. Checked by `pytest tests/lines/test_folds.py`.
    free_beside: int = 300  # asked beside answers that are missed. Derived: ten times as many as directions are free in a unit.
    predicted: float = 1e-8  # misfit after it. Derived: rounding times the condition of the fit.

    def flat_ratio(self, *, hit: bool) -> float:
        """The same for a look near a wall of the first cell."""
        mine, other = self.flat_hits
        return float(np.log(mine / other if hit else (1.0 - mine) / (1.0 - other)))

    def log_ratio(self, *, hit: bool) -> float:
        """Wald's test: what a place where the surface is, or is not, adds to the score."""
        return float(np.log(self.hit_share / self.false_share if hit else (1.0 - self.hit_share) / (1.0 - self.false_share)))

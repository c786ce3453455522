"""What can be said about a recovered layer without knowing the truth, whatever lies above it.

The active set is the test: the layer must tell, on rows that were never used, which outputs differ from the baseline. A
boundary of p numbers fitted to n noiseless labels errs on about 0.62 p/n of fresh rows (the learning curve of a half-space in
the realisable case, Gyorgyi and Tishby 1990, up to logarithms), so up to 2 p/n and four standard deviations of the count are
allowed. On the used rows an exact description makes no error; a wrong unit leaves far more than 5 in 10,000 (failures left 30
or more).
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfc

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.certificate.checks import PARALLEL
from laybare.lowest_layer.lone_units import LoneRows
from laybare.lowest_layer.union_fit import HalfSpaces, Mismatch
from laybare.shapes import Array

USED = 5e-4
"""Largest share of used rows with the wrong activity: between the 1.7e-4 of successes and the 3e-3 of failures."""

SIGMAS = 4.0
LEARNING = 0.62
ALLOWED = 2.0
ANGLE = 0.1
"""Expected angle beyond which a direction is called uncertain."""

TIED, RISING = 0.98, 0.5
"""Share of rows with one active unit that must have one output under step units, and that may under others. Step layers with
boundaries off by up to 0.02 rad have all of them there, ReLU layers none (`pytest -s tests/lowest_layer -k lone_rows`)."""

FEWEST = 50
"""Active rows that a unit needs if its boundary is fitted: with fewer, recovery failed."""


def used_mismatch(found: Mismatch) -> Claim:
    """On the rows that the half-spaces were fitted to."""
    return Claim(
        "active-set mismatch on used rows", found.share, USED, found.share <= USED, "tested",
        f"{found.uncovered} active rows that no unit explains and {found.intruding} silent rows that one claims, of "
        f"{found.rows:,}; a missing or wrong unit, another width or a bad start shows here.", decisive=True)


def fresh_mismatch(found: Mismatch, spaces: HalfSpaces, used: int) -> Claim:
    """On rows that nothing has seen, against the learning curve."""
    expected = ALLOWED * spaces.weights.size / used
    limit = expected + SIGMAS * float(np.sqrt(max(expected, 1.0 / found.rows) / found.rows))
    return Claim(
        "active-set mismatch on held-out rows", found.share, limit, found.share <= limit, "tested",
        f"{found.uncovered + found.intruding} of {found.rows:,} fresh rows; a boundary of {spaces.weights.size} numbers fitted "
        f"to {used:,} labels errs on about {LEARNING * spaces.weights.size / used:.1g} of them.", decisive=True)


def expected_angles(spaces: HalfSpaces, used: int) -> Array:
    """Angles (rad) at which the learning curve leaves each unit: 0.62 (d + 1)/n over φ(t) E|g|, the rows an angle moves
    across."""
    dim = spaces.weights.shape[1]
    density = np.exp(-(spaces.thresholds**2) / 2) / np.sqrt(2 * np.pi)
    angles: Array = LEARNING * (dim + 1) / (used * density * np.sqrt(2 / np.pi))
    return angles


def certain_angles(spaces: HalfSpaces, used: int) -> Claim:
    """The least certain direction."""
    angles = expected_angles(spaces, used)
    worst = int(np.argmax(angles))
    return Claim(
        "expected angle of the least certain unit (rad)", float(angles[worst]), ANGLE, bool(angles[worst] <= ANGLE), "tested",
        f"from the number of rows near the boundary of unit {worst} (threshold {spaces.thresholds[worst]:.2f}, active in "
        f"{0.5 * float(erfc(spaces.thresholds[worst] / np.sqrt(2))):.1e} of rows).")


def own_rows(found: Mismatch, need: int = FEWEST) -> Claim:
    """Active rows that one unit alone explains: without any, nothing shows the unit."""
    worst = int(np.argmin(found.sole))
    least = int(found.sole[worst])
    return Claim(
        "active rows of the least seen unit", float(least), need, least >= need, "tested",
        f"unit {worst} alone explains {least} used rows; below about {need} its direction is not to be trusted.")


def separated(weights: Array) -> Claim:
    """Two units in nearly the same direction."""
    cosines = weights @ weights.T - 2.0 * np.eye(len(weights))
    value = max(0.0, float(cosines.max(initial=0.0)))
    return Claim(
        "largest cosine of two units", value, PARALLEL, value < PARALLEL, "proved",
        "two units with nearly the same direction cannot be told from one.")


def common_claims(spaces: HalfSpaces, used: Mismatch, fresh: Mismatch, need: int = FEWEST) -> tuple[Claim, ...]:
    """What every route to half-spaces is judged by."""
    return used_mismatch(used), fresh_mismatch(fresh, spaces, used.rows), own_rows(used, need), separated(spaces.weights)


def noiseless(exact: bool) -> Claim:
    """Whether the outputs of silent rows tie."""
    return Claim(
        "outputs without noise", float(exact), 1.0, exact, "tested",
        "silent rows tie exactly." if exact else "silent rows do not tie: activity is judged against the spread of the bulk, and "
        "a unit's rise just above its threshold is lost in it.")


def lone_levels(lone: LoneRows, activation: Activation) -> Claim:
    """Whether outputs of rows with one active unit behave as the activation says: they tie under steps, and under no other."""
    if activation.degree == 0:
        return Claim(
            "held-out rows at their unit's level", lone.share, TIED, lone.share >= TIED, "tested",
            f"{lone.tied:,} of {lone.rows:,} fresh rows with one active unit have the output that most such rows have: step "
            "units allow no other; units that rise from their thresholds, such as relu, have the same active set.", decisive=True)
    return Claim(
        "held-out rows that tie at a level", lone.share, RISING, lone.share <= RISING, "tested",
        f"{lone.tied:,} of {lone.rows:,} fresh rows with one active unit have one and the same output: {activation.name} units "
        "rise from their thresholds, and only a top that does not move with them, or step units, would keep the output there.")


def on_lines(off: int, rows: int) -> Claim:
    """Fresh rows with one active unit that do not lie on its line."""
    share = off / max(rows, 1)
    return Claim(
        "held-out rows off their unit's line", share, 1e-3, share <= 1e-3 and rows > 0, "tested",
        f"{off} of {rows:,} fresh rows in which one unit is active differ from c₀ + c(w·x - t).", decisive=True)


def same_residual(value: float, limit: float, rows: int) -> Claim:
    """Fresh residual of noisy lines against the noise."""
    return Claim(
        "held-out residual over noise", value, limit, value <= limit, "tested",
        f"mean square deviation of {rows:,} fresh rows with one active unit from its line, over that of silent rows.",
        decisive=True)


EXPLAINED = 0.75
"""Held-out R² below which a top is said not to explain noiseless outputs: boundaries that are off by ANGLE leave about 0.8."""


def top_explains(r2: float) -> Claim:
    """Without noise the outputs are a function of the units: a top that leaves much of them is wrong, or the layer is."""
    return Claim(
        "held-out R² of the top", r2, EXPLAINED, r2 >= EXPLAINED, "tested",
        "what the fitted function of the units explains of fresh outputs, which have no noise; less means another activation, a "
        "missing unit, or a function above the layer that this kind of top cannot express.")

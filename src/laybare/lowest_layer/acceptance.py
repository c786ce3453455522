"""The finding of a route, and what is known about it without the truth, whatever lies above the layer.

The active set is the test: the layer must predict, on fresh rows, which outputs differ from the baseline. A boundary of p
parameters fitted to n noiseless labels errs on about 0.62 p/n of fresh rows (the learning curve of a half-space in the
realisable case, Gyorgyi and Tishby 1990, up to logarithms); 2 p/n and four standard deviations of the count are allowed. On the
used rows an exact description makes no error, and a wrong unit leaves far more than 5 in 10,000.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import erfc

from laybare.activations import Activation
from laybare.certificate import Claim, ClaimName
from laybare.lowest_layer.active_rows import SingleUnitRows
from laybare.lowest_layer.union_fit import HalfSpaces, Mismatch
from laybare.networks import Layer
from laybare.numerics.shapes import Array
from laybare.source import Affine


class LayerClaimName:
    """Names of what is claimed of a lowest layer, beside those of every certificate."""

    USED_MISMATCH = "active-set mismatch on used rows"
    FRESH_MISMATCH = "active-set mismatch on held-out rows"
    EXPECTED_ANGLE = "expected angle of the least certain unit (rad)"
    OWN_ROWS = "active rows of the least seen unit"
    NOISELESS = "outputs without noise"
    TIED_ROWS = "held-out rows that tie at a level"
    AT_UNIT_LEVEL = "held-out rows at their unit's level"
    OFF_LINE = "held-out rows off their unit's line"
    NOISE_RATIO = "held-out residual over noise"
    TOP_R2 = "held-out R² of the top"
    RESIDUAL = "held-out residual over the spread of y"
    FEATURES = "answers that do not follow from the features"
    FACET_MISFIT = "misfit of crossings to their facets"
    FRESH_RAYS = "fresh rays that contradict the facets"
    BOUNDARY_POWER = "power with which outputs rise beyond a boundary"
    DRAWN_MISMATCH = "active-set mismatch on drawn rows"
    AT_CELL_LEVEL = "held-out rows at their cell's level"
    LEAST_JUMP = "least jump of a unit over its standard error"
    PRINTED_MINIMUM = "units at a local minimum of the printed objective"
    COORDINATE_BLOCKS = "units with a block of coordinates"
    NORMAL_EIGENVALUE = "smallest eigenvalue of the normal matrix"


class LayerFinding(NamedTuple):
    """A layer on the inputs of the source it was found from; claims; standard errors of each row (k, d + 1); noise; a top."""

    layer: Layer
    claims: tuple[Claim, ...]
    errors: Array
    noise: float = 0.0
    top: Callable[[Array], Array] | None = None

    def pull_back(self, transform: Affine) -> LayerFinding:
        """The same on x, for a layer on z = transform(x); rows of homogeneous units get length 1 again.

        The error of (w, b) on z becomes that of (matrix w, b - mean·matrix w), at most.
        """
        layer = transform.pull_back_layer(self.layer)
        errors = np.column_stack([np.abs(self.errors[:, :-1]) @ np.abs(transform.matrix.T), self.errors[:, -1]])
        errors[:, -1] += errors[:, :-1] @ np.abs(transform.mean)
        if layer.activation.degree is None:
            return self._replace(layer=layer, errors=errors)
        lengths = np.linalg.norm(layer.weights, axis=1)
        scaled = Layer(layer.weights / lengths[:, None], np.asarray(layer.biases) / lengths, layer.activation)
        return self._replace(layer=scaled, errors=errors / lengths[:, None])


def layer_from_spaces(spaces: HalfSpaces, activation: Activation) -> Layer:
    """Units u(w·x - t)."""
    return Layer(spaces.weights, -spaces.thresholds, activation)


def errors_from_angles(spaces: HalfSpaces, angles: Array) -> Array:
    """Errors of rows whose directions are known up to `angles` (k,): spread evenly over the coordinates, the same for t."""
    dim = spaces.weights.shape[1]
    return np.column_stack([np.repeat(angles[:, None] / np.sqrt(dim), dim, axis=1), angles])


def undefined_errors(layer: Layer) -> Array:
    """NaN for every parameter of the layer: the printed algorithms come without error bars."""
    return np.full((layer.width, layer.dim + 1), np.nan)


@dataclass(frozen=True, kw_only=True)
class AcceptanceRules:
    """Limits of the claims below."""

    max_used_mismatch: float = 5e-4  # on used rows; seen: 1.7e-4 right, 3e-3 wrong. Checked by `pytest tests/lowest_layer`.
    sigmas: float = 4.0  # standard deviations of a count or mean square. Convention: one false alarm in 30,000.
    learning_rate: float = 0.62  # errors on fresh rows, times n/p. Paper: Gyorgyi and Tishby (1990), learning curve.
    allowed_rate: float = 2.0  # the same, allowed: three times the learning curve. Checked by `pytest tests/lowest_layer`.
    max_angle: float = 0.1  # rad, of a direction that is certain. Checked by `pytest tests/lowest_layer`.
    min_tied_share: float = 0.98  # tied rows under step units. Measured: `pytest -s tests/lowest_layer -k lone_rows`
    max_tied_share: float = 0.5  # tied rows under other units. Measured: `pytest -s tests/lowest_layer -k lone_rows`
    min_rows_per_unit: int = 50  # active rows of one unit alone, to fit its boundary. Checked by `pytest tests/lowest_layer`.
    max_off_line: float = 1e-3  # share of fresh rows off their unit's line. Checked by `pytest tests/lowest_layer`.
    min_top_r2: float = 0.75  # of noiseless outputs: boundaries off by 0.1 rad leave 0.8. Checked by `pytest tests/lowest_layer`.
    max_cosine: float = 0.999  # of two rows that can be told apart. Checked by `pytest tests/lowest_layer`.
    max_residual: float = 1e-6  # rms over the sd of y: exact 1e-13, wrong top 1e-2. Checked by `pytest tests/lowest_layer`.


ACCEPTANCE = AcceptanceRules()


def used_mismatch_claim(found: Mismatch) -> Claim:
    """On the rows that the half-spaces were fitted to."""
    limit = ACCEPTANCE.max_used_mismatch
    return Claim(
        LayerClaimName.USED_MISMATCH, found.share, limit, found.share <= limit, "tested",
        f"{found.uncovered} active rows that no unit explains and {found.intruding} silent rows that one claims, of "
        f"{found.rows:,}; a missing or wrong unit, another width or a bad start shows here.", decisive=True)


def fresh_mismatch_claim(found: Mismatch, spaces: HalfSpaces, used: int) -> Claim:
    """On rows that nothing has seen, against the learning curve."""
    size = spaces.weights.size
    expected = ACCEPTANCE.allowed_rate * size / used
    limit = expected + ACCEPTANCE.sigmas * float(np.sqrt(max(expected, 1.0 / found.rows) / found.rows))
    return Claim(
        LayerClaimName.FRESH_MISMATCH, found.share, limit, found.share <= limit, "tested",
        f"{found.uncovered + found.intruding} of {found.rows:,} fresh rows; a boundary of {size} parameters fitted to "
        f"{used:,} labels errs on about {ACCEPTANCE.learning_rate * size / used:.1g} of them.", decisive=True)


def expected_angles(spaces: HalfSpaces, used: int) -> Array:
    """Expected angles (rad) of each unit: errors 0.62 (d + 1)/n over φ(t) E|g|, the rows that an angle of 1 moves across."""
    dim = spaces.weights.shape[1]
    density = np.exp(-(spaces.thresholds**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(ACCEPTANCE.learning_rate * (dim + 1) / (used * density * np.sqrt(2 / np.pi)))


def angle_claim(spaces: HalfSpaces, used: int) -> Claim:
    """The least certain direction."""
    angles, limit = expected_angles(spaces, used), ACCEPTANCE.max_angle
    worst = int(np.argmax(angles))
    return Claim(
        LayerClaimName.EXPECTED_ANGLE, float(angles[worst]), limit, bool(angles[worst] <= limit), "tested",
        f"from the number of rows near the boundary of unit {worst} (threshold {spaces.thresholds[worst]:.2f}, active in "
        f"{0.5 * float(erfc(spaces.thresholds[worst] / np.sqrt(2))):.1e} of rows).")


def own_rows_claim(found: Mismatch, need: int = ACCEPTANCE.min_rows_per_unit) -> Claim:
    """Active rows that one unit alone explains: without any, nothing shows the unit."""
    worst = int(np.argmin(found.sole))
    least = int(found.sole[worst])
    return Claim(
        LayerClaimName.OWN_ROWS, float(least), need, least >= need, "tested",
        f"unit {worst} alone explains {least} used rows; below about {need} its direction is not reliable.")


def separation_claim(weights: Array) -> Claim:
    """Two units in nearly the same direction."""
    cosines = weights @ weights.T - 2.0 * np.eye(len(weights))
    value = max(0.0, float(cosines.max(initial=0.0)))
    return Claim(
        ClaimName.LARGEST_COSINE, value, ACCEPTANCE.max_cosine, value < ACCEPTANCE.max_cosine, "proved",
        "two units with nearly the same direction cannot be distinguished from one.")


def common_claims(
    spaces: HalfSpaces, used: Mismatch, fresh: Mismatch, need: int = ACCEPTANCE.min_rows_per_unit
) -> tuple[Claim, ...]:
    """Claims of every route to half-spaces."""
    return (
        used_mismatch_claim(used), fresh_mismatch_claim(fresh, spaces, used.rows), own_rows_claim(used, need),
        separation_claim(spaces.weights))


def noiseless_claim(exact: bool) -> Claim:
    """Whether the outputs of silent rows tie."""
    return Claim(
        LayerClaimName.NOISELESS, float(exact), 1.0, exact, "tested",
        "silent rows tie exactly." if exact else "silent rows do not tie: activity is judged against the spread of the bulk, and "
        "a unit's rise just above its threshold is lost in it.")


def level_claim(lone: SingleUnitRows, activation: Activation) -> Claim:
    """Whether outputs of rows with one active unit behave as the activation says: they tie under steps, and under no other."""
    least, most = ACCEPTANCE.min_tied_share, ACCEPTANCE.max_tied_share
    if activation.degree == 0:
        return Claim(
            LayerClaimName.AT_UNIT_LEVEL, lone.share, least, lone.share >= least, "tested",
            f"{lone.tied:,} of {lone.rows:,} fresh rows with one active unit have the output that most such rows have: step "
            "units allow no other; units that rise from their thresholds, such as relu, have the same active set.", decisive=True)
    return Claim(
        LayerClaimName.TIED_ROWS, lone.share, most, lone.share <= most, "tested",
        f"{lone.tied:,} of {lone.rows:,} fresh rows with one active unit have one and the same output: {activation.name} units "
        "rise from their thresholds, and only a top that does not move with them, or step units, would keep the output there.")


def line_claim(off: int, rows: int) -> Claim:
    """Fresh rows with one active unit that do not lie on its line."""
    share, limit = off / max(rows, 1), ACCEPTANCE.max_off_line
    return Claim(
        LayerClaimName.OFF_LINE, share, limit, share <= limit and rows > 0, "tested",
        f"{off} of {rows:,} fresh rows in which one unit is active differ from c₀ + c(w·x - t).", decisive=True)


def noise_ratio_claim(value: float, limit: float, rows: int) -> Claim:
    """Fresh residual of noisy lines against the noise."""
    return Claim(
        LayerClaimName.NOISE_RATIO, value, limit, value <= limit, "tested",
        f"mean square deviation of {rows:,} fresh rows with one active unit from its line, over that of silent rows.",
        decisive=True)


def top_claim(r2: float) -> Claim:
    """Noiseless outputs are a function of the units: where a top leaves much of them, it is wrong, or the layer is."""
    return Claim(
        LayerClaimName.TOP_R2, r2, ACCEPTANCE.min_top_r2, r2 >= ACCEPTANCE.min_top_r2, "tested",
        "what the fitted function of the units explains of fresh outputs, which have no noise; less means another activation, a "
        "missing unit, or a function above the layer that this kind of top cannot express.")


def residual_claim(relative: float, rows: int) -> Claim:
    """Whether a polynomial top leaves only rounding on fresh rows."""
    limit = ACCEPTANCE.max_residual
    return Claim(
        LayerClaimName.RESIDUAL, relative, limit, relative <= limit, "tested",
        f"root mean square on {rows:,} fresh rows; more than rounding means label noise, or a top of another form than the "
        "polynomial that was fitted, and then directions may be off by hundredths of a radian.")

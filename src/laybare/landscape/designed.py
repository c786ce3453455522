"""The designed objectives of Ge, Lee & Ma (2018): G, F, F with a ridge, P′ and R, from any fourth moment, without a pair sum.

With S = BᵀB and a symmetric tensor T,

    f(B) = p (T[S, S] - Σⱼ T[bⱼ⁴]) - q Σⱼ T[bⱼ⁴] + λ penalty(B) + δ/2 |B|²
    ∂f/∂bⱼ = 4p T[S, bⱼ, ·] - 4(p + q) T[bⱼ, bⱼ, bⱼ, ·] + ...
    (∇²f V)ⱼ = 4p (T[S, vⱼ, ·] + T[dS, bⱼ, ·]) - 12(p + q) T[bⱼ, bⱼ, vⱼ, ·] + ...,     dS = BᵀV + VᵀB

    G   T = E[y He₄], p = ±1/2, q = ±μ/24 with the sign of σ₄, penalty Σ(|bⱼ|² - 1)²        (2.7) and (2.10), corrected
    F   the same with penalty Σ(bⱼᵀMbⱼ - 1)², M = Σ aᵢ bᵢbᵢᵀ                                 (C.1), corrected; + δ: (C.5)
    P′  T = Σ aᵢ bᵢ^⊗4, p = 1, q = 0, on unit rows;  R: p = 0, q = μ;  P′ + R: both           section 3.2, (3.5)

G in the population is Theorem 2.6, from Theorems A.5 and A.6; F is G of other weights by Theorems C.1 and C.2, Corollary C.3.
The sum over pairs j ≠ k, as printed, costs n·m²·d; T[S, S] has it for n·m·d. Corrections: the mixed term of (2.9) has a minus
sign, φ(v, w, x) = He₄[v,v,w,w]/2; the constants 2√6 and 1/√6 of (2.10) are √6 and 1/(2√6) (the ratio, and so the landscape, is
the same with λ halved). Where the gradient is ε, the ridge leaves no more than ε/δ off the span of the weights (Lemma C.6).
Source: equations (2.7), (2.8), (2.9), (2.10), (3.5), (A.6), (C.1) and (C.5); Lemmas A.8 and A.9, Claim 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator

from laybare.landscape.domain import Domain, Free, UnitRows
from laybare.landscape.objective import ValueAndGradient, random_rows, unit_rows
from laybare.landscape.operators import FourthMoment, RankOneQuartic, Teacher, TurnedQuartic, coefficient
from laybare.landscape.penalties import NormPenalty, Penalty
from laybare.landscape.polar import whitening
from laybare.landscape.recovery import from_inverse
from laybare.shapes import Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """An objective in rows B (width, dim). `minima` says what a minimum is made of: the weights, or their dual basis (F).

    `back` (inputs, dim) leads from the coordinates of B, if they are whitened ones, to the inputs.
    """

    quartic: FourthMoment
    width: int
    dim: int
    pair: float
    own: float
    penalty: Penalty | None = None
    strength: float = 0.0
    ridge: float = 0.0
    domain: Domain = Free()
    minima: Literal["weights", "dual"] = "weights"
    back: Array | None = None
    truth: Array | None = None

    def slope(self, point: Array) -> ValueAndGradient:
        """Value and gradient: two contractions."""
        B = point
        together = self.pair * self.quartic.mixed(B.T @ B, B)[0]
        alone = (self.pair + self.own) * self.quartic.cubes(B)[0]
        value = float(np.vdot(together - alone, B)) + 0.5 * self.ridge * float(np.vdot(B, B))
        gradient = 4.0 * (together - alone) + self.ridge * B
        if self.penalty is None:
            return ValueAndGradient(value, gradient)
        held = self.penalty.slope(B)
        return ValueAndGradient(value + self.strength * held.value, gradient + self.strength * held.gradient)

    def hessian_times(self, point: Array, direction: Array) -> Array:
        """Hessian product: three contractions."""
        B, V, T = point, direction, self.quartic
        cross = B.T @ V
        image = 4.0 * self.pair * (T.mixed(B.T @ B, V) + T.mixed(cross + cross.T, B))[0]
        image -= 12.0 * (self.pair + self.own) * T.squares(B, V)[0]
        image += self.ridge * V
        if self.penalty is not None:
            image += self.strength * self.penalty.hessian_times(B, V)
        return np.asarray(image)

    def start(self, rng: Generator) -> Array:
        """Random unit rows."""
        return random_rows(self.width, self.dim, rng)

    def directions(self, point: Array) -> Array:
        """The rows of B, or of its pseudo-inverse transposed, scaled to length 1."""
        return unit_rows(self.rows(point))

    def rows(self, point: Array) -> Array:
        """The same with their lengths, which for F are √aᵢ/Dᵢᵢ."""
        rows = point if self.minima == "weights" else from_inverse(point)
        return rows if self.back is None else np.asarray(rows @ self.back.T)


def orthogonal_design(
    quartic: FourthMoment, sign: float, width: int, dim: int, *, mu: float, strength: float, truth: Array | None = None
) -> Design:
    """G, for orthonormal weights: `quartic` is E[y He₄], `sign` that of σ₄, `mu` and `strength` are μ and λ."""
    return Design(
        quartic=quartic, width=width, dim=dim, pair=0.5 * sign, own=sign * mu / 24.0, penalty=NormPenalty(), strength=strength,
        truth=truth)


def general_design(
    quartic: FourthMoment, sign: float, width: int, dim: int, *, penalty: Penalty, mu: float, strength: float, ridge: float = 0.0,
    truth: Array | None = None,
) -> Design:
    """F, for independent weights: `penalty` holds M, `ridge` is δ (needed if width < dim)."""
    return Design(
        quartic=quartic, width=width, dim=dim, pair=0.5 * sign, own=sign * mu / 24.0, penalty=penalty, strength=strength,
        ridge=ridge, minima="dual", truth=truth)


def whitened_design(
    quartic: FourthMoment, gram: Array, sign: float, width: int, *, mu: float, strength: float, truth: Array | None = None
) -> Design:
    """F in coordinates where M = `gram` is the identity (its leading eigenspace if width < dim): the same minima, better scaled.

    By Theorem C.2 it is G of the readouts 1/a there. No ridge is needed, as nothing lies outside the span.
    """
    W, back = whitening(gram, width)
    design = orthogonal_design(TurnedQuartic(quartic, W), sign, width, width, mu=mu, strength=strength, truth=truth)
    return replace(design, minima="dual", back=back)


def population_g(teacher: Teacher, *, mu: float, strength: float) -> Design:
    """G of a known network, exact: √6|σ₄| Σᵢ aᵢ((Σⱼ Pⱼᵢ)² - Σⱼ Pⱼᵢ²) - μ|σ₄|/(2√6) Σ aᵢ Pⱼᵢ² + λ Σ(|bⱼ|² - 1)², P = (BB*ᵀ)^∘2."""
    sign = float(np.sign(coefficient(teacher.activation, 4)))
    return orthogonal_design(
        teacher.quartic(), sign, teacher.width, teacher.dim, mu=mu, strength=strength, truth=teacher.directions)


def population_f(teacher: Teacher, *, mu: float, strength: float, ridge: float = 0.0) -> Design:
    """F of a known network, exact."""
    sign = float(np.sign(coefficient(teacher.activation, 4)))
    return general_design(
        teacher.quartic(), sign, teacher.width, teacher.dim, penalty=NormPenalty(teacher.gram()), mu=mu, strength=strength,
        ridge=ridge, truth=teacher.directions)


def pairs_on_spheres(readout: Array, directions: Array, *, mu: float = 0.0, pair: float = 1.0) -> Design:
    """P′ + R on unit rows: Σᵢ aᵢ Σ_{j≠k} ⟨bᵢ*, bⱼ⟩²⟨bᵢ*, bₖ⟩² - μ Σᵢⱼ aᵢ⟨bᵢ*, bⱼ⟩⁴; μ = 0 is P′, `pair` = 0 is R.

    Pairs are ordered: each counts twice, where the paper's example counts it once.
    """
    width, dim = directions.shape
    return Design(
        quartic=RankOneQuartic(readout, directions), width=width, dim=dim, pair=pair, own=mu, domain=UnitRows(), truth=directions)

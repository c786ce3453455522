"""The designed objectives of Ge, Lee & Ma (2018), the parameters that their theorems ask for, and networks from minima.

The objectives: G, F, F with a ridge, P′ and R, from any fourth moment, without a pair sum.

With S = BᵀB and a symmetric tensor T,

    f(B) = p (T[S, S] - Σⱼ T[bⱼ⁴]) - q Σⱼ T[bⱼ⁴] + λ penalty(B) + δ/2 |B|²
    ∂f/∂bⱼ = 4p T[S, bⱼ, ·] - 4(p + q) T[bⱼ, bⱼ, bⱼ, ·] + ...
    (∇²f V)ⱼ = 4p (T[S, vⱼ, ·] + T[dS, bⱼ, ·]) - 12(p + q) T[bⱼ, bⱼ, vⱼ, ·] + ...,     dS = BᵀV + VᵀB

    G   T = E[y He₄], p = ±1/2, q = ±μ/24 with the sign of σ₄, penalty Σ(|bⱼ|² - 1)²        (2.7) and (2.10), corrected
    F   the same with penalty Σ(bⱼᵀMbⱼ - 1)², M = Σ aᵢ bᵢbᵢᵀ                                 (C.1), corrected; + δ: (C.5)
    P′  T = Σ aᵢ bᵢ^⊗4, p = 1, q = 0, on unit rows;  R: p = 0, q = μ;  P′ + R: both           section 3.2, (3.5)

The penalty keeps rows from shrinking to nothing: M = I for orthonormal weights (G), M = E[y(xxᵀ - I)]/(√2 σ₂) in general (F),
known, estimated or sampled. The square of a sample mean is too large by its variance; the U-statistic ((Σu)² - Σu²)/(n(n-1)) of u
= y(|b·x|² - |b|²)/(√2 σ₂) - 1 is unbiased for batches of any size.

G in the population is Theorem 2.6, from Theorems A.5 and A.6; F is G of other weights by Theorems C.1 and C.2, Corollary C.3. The
sum over pairs j ≠ k, as printed, costs n·m²·d; T[S, S] has it for n·m·d. Corrections: the mixed term of (2.9) has a minus sign,
φ(v, w, x) = He₄[v,v,w,w]/2; the constants 2√6 and 1/√6 of (2.10) are √6 and 1/(2√6) (the ratio, and so the landscape, is the same
with λ halved); the display of F nests the square once too often, and (C.1) leaves out the constant √2 σ₂ and the -1. Where the
gradient is ε, the ridge leaves no more than ε/δ off the span of the weights (Lemma C.6).
Source: equations (2.7), (2.8), (2.9), (2.10), (3.5), (A.6), (C.1) and (C.5); Lemmas A.8 and A.9, Claim 3.1.

Parameters that the theorems ask for, μ, λ and δ, from bounds on the readouts; and from a minimum to the network.

For weights of the model, λ_min(M) ≤ aᵢ ≤ λ_max(M) with M = Σ aᵢ bᵢbᵢᵀ (nonzero eigenvalues), as aᵢ = 1/(bᵢᵀM⁺bᵢ): the spectrum
of M gives the bounds. In the notation of Theorem B.1 and with the corrected constants, α = √6|σ₄|a and β = |σ₄|a/(2√6) for G;
for F, which is G of 1/a in whitened coordinates, a is replaced by 1/a.

    Theorem 2.3   μ ≤ c/κ              λ ≥ a_max/c                    τ = c min{μ a_min/(κd), λ}
    Theorem B.1   μ ≤ c α_min/β_max    λ ≥ 4 max(μβ_max, α_max)       τ = c min{μβ_min/(κd), μβ_min²/β_max, λ}
    Theorem C.4   μ ≤ c/κ              λ ≥ 1/(c a_min)                τ = c min{μ/(κ d a_max), λ} σ_min(M)
    Theorem C.5   as C.4, and δ ≤ min{c ε |σ₄| σ_min(M)^½ / (a_max m √d κ(M)^½), τ/2} for accuracy ε

κ = a_max/a_min, c = 0.01. Below curvature -τ a point is a saddle (Proposition B.6); above it and with a small gradient it is near
a minimum (`theorem_b_1_nearness`). The δ of Theorem C.5 cannot be read in the copy we have; this one follows from Lemma C.7 and
item 3 of Theorem C.4. All are far more cautious than runs ask for: `laybare reproduce glm-fig4`.

From a minimum of a designed objective to the network: B (m, d) unit rows, b = ±b*; σ_k normalised Hermite coefficients. Even
orders never see the sign of a row; E[yx] = σ₁ B*ᵀa* does, as the rows are independent.
Source: Ge, Lee & Ma (2018), Algorithms 1 and 2 (where 2 stands for 1/σ₁ of ReLU), Lemmas 2.5 and D.2, Claim D.1,
Theorems C.4 and C.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition.components import unit_rows
from laybare.landscape.objective import (
    Domain,
    FourthMoment,
    FreeSpace,
    RankOneQuartic,
    Teacher,
    TurnedQuartic,
    UnitRows,
    ValueAndGradient,
    coefficient,
    random_rows,
    whitening,
)
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Source

THEOREM_CONSTANT = 0.01
"""The universal constant c. Paper: Ge, Lee & Ma (2018), Theorem 2.3, for which it suffices."""


class Bounds(NamedTuple):
    """Least and largest readout, or bounds on them."""

    least: float
    most: float

    @property
    def ratio(self) -> float:
        return self.most / self.least


class DesignParameters(NamedTuple):
    """μ, λ, δ, and the curvature τ: a point with a smaller eigenvalue than -τ is a saddle."""

    mu: float
    strength: float
    ridge: float = 0.0
    curvature: float = 0.0


def theorem_2_3(bounds: Bounds, dim: int) -> DesignParameters:
    """For G, as printed."""
    c = THEOREM_CONSTANT
    mu, strength = c / bounds.ratio, bounds.most / c
    return DesignParameters(mu, strength, 0.0, c * min(mu * bounds.least / (bounds.ratio * dim), strength))


def theorem_b_1(activation: Activation, bounds: Bounds, dim: int) -> DesignParameters:
    """For G with constants of its own: a larger μ and a far smaller λ. For F give the bounds of 1/a."""
    c, fourth = THEOREM_CONSTANT, abs(coefficient(activation, 4))
    alpha, beta = Bounds(*(sqrt(6.0) * fourth * a for a in bounds)), Bounds(*(fourth * a / (2.0 * sqrt(6.0)) for a in bounds))
    mu = c * alpha.least / beta.most
    strength = 4.0 * max(mu * beta.most, alpha.most)
    flat = min(mu * beta.least / (bounds.ratio * dim), mu * beta.least**2 / beta.most, strength)
    return DesignParameters(mu, strength, 0.0, c * flat)


class NearMinimum(NamedTuple):
    """B = DP + E near an approximate minimum: bounds of Dᵢᵢ² for every readout, largest entry of E."""

    lowest: Array
    highest: Array
    rest: float


def theorem_b_1_nearness(
    activation: Activation, readout: Array, parameters: DesignParameters, gradient: float
) -> NearMinimum:
    """Theorem B.1(3), Proposition B.7: where |∇G| ≤ ε = `gradient` and no eigenvalue is below -τ, B is DP + E, P a permutation.

    (1 - 18dε²/β_min² - ε/(2λ))/(1 - μβᵢ/λ) ≤ Dᵢᵢ² ≤ (1 + ε/(2λ))/(1 - μβᵢ/λ) and |E|_∞ ≤ 3ε/β_min, with the corrected
    β = |σ₄|a/(2√6). Minima themselves (ε = 0) have Dᵢᵢ² = 1/(1 - μβᵢ/λ). The proof has 3ε/(μβ_min), as its Lemma B.5 is applied
    to μβ; but rows of the gradient give |E|_∞ ≤ 5ε/α_min, and α = 12β.
    """
    beta = abs(coefficient(activation, 4)) * np.asarray(readout) / (2.0 * sqrt(6.0))
    least, (mu, strength) = float(beta.min()), parameters[:2]
    centre, slack = 1.0 / (1.0 - mu * beta / strength), gradient / (2.0 * strength)
    low = np.maximum(1.0 - 18.0 * len(beta) * gradient**2 / least**2 - slack, 0.0)
    return NearMinimum(centre * low, centre * (1.0 + slack), 3.0 * gradient / least)


def theorem_c_4(bounds: Bounds, dim: int, smallest: float) -> DesignParameters:
    """For F, as printed; `smallest` is σ_min(M)."""
    c = THEOREM_CONSTANT
    mu, strength = c / bounds.ratio, 1.0 / (c * bounds.least)
    return DesignParameters(mu, strength, 0.0, c * min(mu / (bounds.ratio * dim * bounds.most), strength) * smallest)


def theorem_c_5(
    activation: Activation, bounds: Bounds, width: int, dim: int, spectrum: Bounds, *, accuracy: float = 0.1
) -> DesignParameters:
    """For F with width < dim; `spectrum` holds the least nonzero and the largest eigenvalue of M, `accuracy` is ε."""
    plain = theorem_c_4(bounds, dim, spectrum.least)
    c, fourth = THEOREM_CONSTANT, abs(coefficient(activation, 4))
    ridge = c * accuracy * fourth * sqrt(spectrum.least) / (bounds.most * width * sqrt(dim) * sqrt(spectrum.ratio))
    return plain._replace(ridge=min(ridge, plain.curvature / 2.0))


class LandscapeUnits(NamedTuple):
    """`readout` (m,) ≥ 0 and unit rows `directions` (m, d), their signs decided."""

    readout: Array
    directions: Array


def from_inverse(point: Array) -> Array:
    """Rows of B^{-T} (of the pseudo-inverse, transposed, if m < d): ±√aᵢ bᵢ / Dᵢᵢ at a minimum of F, D near 1."""
    return np.asarray(np.linalg.pinv(point).T)


def corrected_readout(dual: Array, fourth: float, *, mu: float, strength: float) -> Array:
    """aᵢ = |rowᵢ|² + μ|σ₄|/(2√6 λ) for rows of B^{-T}: D taken out exactly, the same for every unit. Ours."""
    return np.asarray(np.sum(dual**2, axis=1) + mu * abs(fourth) / (2.0 * sqrt(6.0) * strength))


def algorithm_1(directions: Array, linear: Array, first: float) -> LandscapeUnits:
    """aᵢ = |E[y⟨x, bᵢ⟩]|/σ₁ for orthonormal rows, with `linear` = E[yx] and `first` = σ₁; signs so that every aᵢ ≥ 0."""
    return _signed(directions @ linear / first, directions)


def algorithm_2(directions: Array, linear: Array, first: float) -> LandscapeUnits:
    """a = |(BBᵀ)⁻¹u|, u = B E[yx]/σ₁, for independent rows; by least squares where the paper inverts."""
    solved = np.linalg.lstsq(directions.T, linear / first, rcond=None)[0]
    return _signed(solved, directions)


def _signed(readout: Array, directions: Array) -> LandscapeUnits:
    signs = np.where(readout < 0.0, -1.0, 1.0)
    return LandscapeUnits(np.abs(readout), signs[:, None] * directions)


@runtime_checkable
class Penalty(Protocol):
    """A sum over rows of a function of each."""

    def value_and_gradient(self, rows: Array) -> ValueAndGradient: ...

    def hessian_times(self, rows: Array, direction: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class NormPenalty:
    """Σⱼ (bⱼᵀM bⱼ - 1)² with `metric` M, or |bⱼ|² if it is None."""

    metric: Array | None = None

    def value_and_gradient(self, rows: Array) -> ValueAndGradient:
        """Value and gradient 4(bᵀMb - 1) Mb."""
        image = self._image(rows)
        excess = np.sum(rows * image, axis=1, keepdims=True) - 1.0
        return ValueAndGradient(float(np.sum(excess**2)), 4.0 * excess * image)

    def hessian_times(self, rows: Array, direction: Array) -> Array:
        """4(bᵀMb - 1) Mv + 8(bᵀMv) Mb."""
        image, turned = self._image(rows), self._image(direction)
        excess = np.sum(rows * image, axis=1, keepdims=True) - 1.0
        return np.asarray(4.0 * excess * turned + 8.0 * np.sum(rows * turned, axis=1, keepdims=True) * image)

    def _image(self, rows: Array) -> Array:
        return rows if self.metric is None else np.asarray(rows @ self.metric)


@dataclass(frozen=True, eq=False)
class SampledPenalty:
    """The U-statistic of Σⱼ (bⱼᵀM bⱼ - 1)² over the rows of `source`; `coefficient` is σ₂. One pass an evaluation.

    Rows b are coordinates in the orthonormal columns of `basis`, if there is one.
    """

    source: Source
    coefficient: float
    basis: Array | None = None

    def value_and_gradient(self, rows: Array) -> ValueAndGradient:
        """Value ((Σu)² - Σu²)/(n(n-1)) and gradient 2(Σu Σu′ - Σ uu′)/(n(n-1)), summed over rows b."""
        sums = _PenaltySums(*self.source.sum(_UStatisticSums(self._lifted(rows), None, self._scale), stage="penalty"))
        value = float(np.sum(sums.u**2 - sums.square)) * self._share
        return ValueAndGradient(value, self._lowered(2.0 * self._share * (sums.u[:, None] * sums.slope - sums.mixed)))

    def hessian_times(self, rows: Array, direction: Array) -> Array:
        """2(Σu̇ Σu′ + Σu Σu̇′ - Σ(u̇u′ + uu̇′))/(n(n-1)), with u̇, u̇′ the derivatives along `direction`."""
        statistic = _UStatisticSums(self._lifted(rows), self._lifted(direction), self._scale)
        sums = _PenaltyDerivativeSums(*self.source.sum(statistic, stage="penalty"))
        change = sums.du[:, None] * sums.slope + sums.u[:, None] * sums.dslope - sums.mixed
        return self._lowered(2.0 * self._share * change)

    def _lifted(self, rows: Array) -> Array:
        return rows if self.basis is None else np.asarray(rows @ self.basis.T)

    def _lowered(self, rows: Array) -> Array:
        return rows if self.basis is None else np.asarray(rows @ self.basis)

    @property
    def _scale(self) -> float:
        return 1.0 / (sqrt(2.0) * self.coefficient)

    @property
    def _share(self) -> float:
        return 1.0 / (self.source.size * (self.source.size - 1.0))


class _PenaltySums(NamedTuple):
    u: Array
    square: Array
    slope: Array
    mixed: Array


class _PenaltyDerivativeSums(NamedTuple):
    u: Array
    du: Array
    slope: Array
    dslope: Array
    mixed: Array


@dataclass(frozen=True, eq=False)
class _UStatisticSums:
    """Sums over samples for every row b: of u, u², u′, uu′; or, given directions v, of u, u̇, u′, u̇′, u̇u′ + uu̇′."""

    rows: Array
    direction: Array | None
    scale: float

    def __call__(self, x: Array, y: Array) -> Sums:
        B, r = self.rows, self.scale * y
        Z = x @ B.T
        u = r * (Z * Z - np.sum(B * B, axis=1)) - 1.0
        slope = _weighted(r * Z, r, x, B)
        if self.direction is None:
            return _PenaltySums(u.sum(axis=0), np.square(u).sum(axis=0), slope, _weighted(u * r * Z, u * r, x, B))
        V = self.direction
        Y = x @ V.T
        du = 2.0 * r * (Z * Y - np.sum(B * V, axis=1))
        mixed = _weighted(du * r * Z, du * r, x, B) + _weighted(u * r * Y, u * r, x, V)
        return _PenaltyDerivativeSums(u.sum(axis=0), du.sum(axis=0), slope, _weighted(r * Y, r, x, V), mixed)


def _weighted(along: Array, weights: Array, x: Array, rows: Array) -> Array:
    """Σ_n 2 w_n ((b·x_n) x_n - b) for every row b, with `along` = w_n (b·x_n), (n, r), and `weights` (n, r) or (n, 1)."""
    total = np.broadcast_to(weights.sum(axis=0), (len(rows),))
    return np.asarray(2.0 * (along.T @ x - total[:, None] * rows))


@dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """An objective in rows B (width, dim). `minima`: a minimum consists of the weights, or of their dual basis (F).

    `back` (inputs, dim) maps the coordinates of B, if whitened, to the inputs.
    """

    quartic: FourthMoment
    width: int
    dim: int
    pair: float
    own: float
    penalty: Penalty | None = None
    strength: float = 0.0
    ridge: float = 0.0
    domain: Domain = FreeSpace()
    minima: Literal["weights", "dual"] = "weights"
    back: Array | None = None
    truth: Array | None = None

    def value_and_gradient(self, point: Array) -> ValueAndGradient:
        """Value and gradient: two contractions."""
        B = point
        together = self.pair * self.quartic.mixed(B.T @ B, B)[0]
        alone = (self.pair + self.own) * self.quartic.cubes(B)[0]
        value = float(np.vdot(together - alone, B)) + 0.5 * self.ridge * float(np.vdot(B, B))
        gradient = 4.0 * (together - alone) + self.ridge * B
        if self.penalty is None:
            return ValueAndGradient(value, gradient)
        held = self.penalty.value_and_gradient(B)
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


def orthogonal_design(quartic: FourthMoment, sign: float, width: int, dim: int, *, mu: float, strength: float) -> Design:
    """G, for orthonormal weights: `quartic` is E[y He₄], `sign` that of σ₄, `mu` and `strength` are μ and λ."""
    return Design(
        quartic=quartic, width=width, dim=dim, pair=0.5 * sign, own=sign * mu / 24.0, penalty=NormPenalty(), strength=strength)


def general_design(
    quartic: FourthMoment, sign: float, width: int, dim: int, *, penalty: Penalty, parameters: DesignParameters
) -> Design:
    """F, for independent weights: `penalty` holds M; the ridge δ is needed if width < dim."""
    mu, strength, ridge, _ = parameters
    return Design(
        quartic=quartic, width=width, dim=dim, pair=0.5 * sign, own=sign * mu / 24.0, penalty=penalty, strength=strength,
        ridge=ridge, minima="dual")


def whitened_design(quartic: FourthMoment, gram: Array, sign: float, width: int, *, mu: float, strength: float) -> Design:
    """F in coordinates where M = `gram` is the identity (its leading eigenspace if width < dim): the same minima, better scaled.

    By Theorem C.2 it is G of the readouts 1/a there. No ridge is needed, as nothing lies outside the span.
    """
    W, back = whitening(gram, width)
    design = orthogonal_design(TurnedQuartic(quartic, W), sign, width, width, mu=mu, strength=strength)
    return replace(design, minima="dual", back=back)


def population_g(teacher: Teacher, *, mu: float, strength: float) -> Design:
    """G of a known network, exact: √6|σ₄| Σᵢ aᵢ((Σⱼ Pⱼᵢ)² - Σⱼ Pⱼᵢ²) - μ|σ₄|/(2√6) Σ aᵢ Pⱼᵢ² + λ Σ(|bⱼ|² - 1)², P = (BB*ᵀ)^∘2."""
    sign = float(np.sign(coefficient(teacher.activation, 4)))
    design = orthogonal_design(teacher.quartic(), sign, teacher.width, teacher.dim, mu=mu, strength=strength)
    return replace(design, truth=teacher.directions)


def population_f(teacher: Teacher, *, mu: float, strength: float, ridge: float = 0.0) -> Design:
    """F of a known network, exact."""
    sign = float(np.sign(coefficient(teacher.activation, 4)))
    parameters, penalty = DesignParameters(mu, strength, ridge), NormPenalty(teacher.gram())
    design = general_design(teacher.quartic(), sign, teacher.width, teacher.dim, penalty=penalty, parameters=parameters)
    return replace(design, truth=teacher.directions)


def pairs_on_spheres(readout: Array, directions: Array, *, mu: float = 0.0, pair: float = 1.0) -> Design:
    """P′ + R on unit rows: Σᵢ aᵢ Σ_{j≠k} ⟨bᵢ*, bⱼ⟩²⟨bᵢ*, bₖ⟩² - μ Σᵢⱼ aᵢ⟨bᵢ*, bⱼ⟩⁴; μ = 0 is P′, `pair` = 0 is R.

    Pairs are ordered: each counts twice, where the paper's example counts it once.
    """
    width, dim = directions.shape
    return Design(
        quartic=RankOneQuartic(readout, directions), width=width, dim=dim, pair=pair, own=mu, domain=UnitRows(), truth=directions)

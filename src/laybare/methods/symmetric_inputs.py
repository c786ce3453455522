"""SymmetricInputs: the hidden layer from second and fourth moments of several outputs, for inputs of any symmetric law.

The spectral route sharpens the product L = AW by even control variates, then finds pure neurons and a network:

    y on [x, 1]  →  L  →  y on [x, 1, svec(zzᵀ)], z = row-space coordinates  →  L  →  pure neurons  →  Ŵ
                                                  y on [x, 1, |Ŵx|]  →  L  →  pure neurons  →  Ŵ  →  …

Under a symmetric law even features are orthogonal to x: they change no expectation, and take away the even part of y, which is
all of the noise of L if there is no other. For Gaussian x the quadratic ones leave an eighth of its variance. With |Ŵx| only the
error of Ŵ is left, so every round shrinks it to about n^-½ of itself, and moments alone reach rounding on noiseless data. The
annihilator is the other route: noiseless samples of any inputs, units with or without biases.

Count of units. B = E[yxᵀ] on white inputs is (1+a)/2 AW, of rank k. Its estimate has the noise of e = y - Bx: √n Cov(e)^-½ B has
entries of variance about 1 beside the signal, and the largest singular value of such noise is close to √m + √d for m output
directions. What clearly exceeds it is signal. A value below it proves nothing: weights that nearly depend on each other have weak
ones. So the count is exact only if it reaches the most that the method can see, min(m, d), or leaves nothing over; else it is a
lower bound and the fit decides. The printed method is given the width; counting is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.sign_decoding import absolute_form
from laybare.assembly.unit_scalars import starting_width
from laybare.decomposition import Decomposer, JointDiagonalisation, RankEstimate, annihilator
from laybare.errors import InvalidInput, TooFewSamples, Unidentifiable
from laybare.methods import symmetric_neurons
from laybare.methods.start import Route, Start, check_method
from laybare.methods.symmetric_neurons import SYMMETRIC, Frame, PureNeuronChecks
from laybare.moments import even_absolute, even_quadratic, linear_product
from laybare.networks import Layer, Network
from laybare.numerics.checks import show_choices
from laybare.numerics.levels import GRAM, ROUNDING
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.search.settings import Search
from laybare.solver.normal import Fit, FitStatistic, project
from laybare.solver.point import network_of, point_of
from laybare.source import Source


def count_units_in_outputs(source: Source, slope: float) -> RankEstimate:
    """Units that the outputs of white samples show; `exact` is None if the spectrum leaves it open."""
    odd = linear_product(source, slope=slope)
    root = _inverse_root(odd.residual)
    directions = len(root)
    values = np.sqrt(source.size) * abs(1 + slope) / 2 * np.linalg.svd(root @ odd.product, compute_uv=False)
    edge = SYMMETRIC.signal * (np.sqrt(directions) + np.sqrt(source.dim))
    seen, limit = int(np.sum(values > edge)), min(directions, source.dim)
    gap = float(values[seen - 1] / max(edge / SYMMETRIC.signal, values[seen] if seen < len(values) else 0.0)) if seen else 0.0
    where = f"The outputs vary in {directions} directions, the inputs in {source.dim}"
    if seen < limit:
        return RankEstimate(
            seen, None, gap, f"At least {seen} of at most {limit}. {where}; value {seen + 1} of the product of the layers is "
            f"{values[seen]:.3g} in units of noise, where noise alone reaches {edge / SYMMETRIC.signal:.3g}: a weak unit "
            "could hide in it.")
    if limit < min(source.outputs, source.dim):
        return RankEstimate(seen, seen, gap, f"Exactly {seen}. {where}, and all of them show a unit.")
    return RankEstimate(
        seen, seen, gap, f"{seen}, as many as can be seen. {where}: width {limit} is plausible, and more units than that would "
        "not show here.")


def _inverse_root(cov: Array) -> Array:
    """Rows r with r cov rᵀ = I in the directions that vary."""
    spread = np.sqrt(np.maximum(np.diag(cov), 0.0))
    spread[spread == 0.0] = 1.0
    values, vectors = np.linalg.eigh(cov / np.outer(spread, spread))
    kept = values > ROUNDING * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T / spread)


@dataclass(frozen=True)
class RouteNeeds:
    """What a route asks for: whether units have biases, and whether x and -x must be equally likely.

    `count` says how many units the samples of a given slope show, `check` refuses shapes that the route cannot work on.
    """

    biases: bool
    symmetric: bool
    count: Callable[[Source, float], RankEstimate]
    check: Callable[[Source, int], None]


@runtime_checkable
class ConditionalRoute(Route, Protocol):
    """A route that says what it needs."""

    @property
    def needs(self) -> RouteNeeds:
        """What it asks for."""


def slope_of(activation: Activation) -> float:
    """a of act(t) = c·t above zero, c·a·t below; refuses every other activation, and |t|, whose outputs have no odd part."""
    fold = absolute_form(activation)
    if fold is None or fold.odd + fold.even == 0.0:
        raise Unidentifiable(
            f"{activation.name} is no ReLU with a slope on both sides of a kink at zero.",
            "Symmetric inputs show AW in the odd part of the outputs, which is linear for ReLU and leaky ReLU alone.",
            "Use relu or leaky_relu(slope), or RandomStart() for other activations.", activation=activation.name)
    return (fold.odd - fold.even) / (fold.odd + fold.even)


def unit_slope(activation: Activation) -> float:
    """c of act(t) = c·t above zero: 1 but for users' own activations."""
    return float(activation(np.array([1.0]))[0])


def check_shape(source: Source, width: int) -> None:
    """Refuse more units than outputs or inputs, and too few samples for the regression that gives AW."""
    if width > min(source.outputs, source.dim):
        raise InvalidInput(
            f"Width {width} with {source.outputs} outputs in dimension {source.dim}.",
            "Pure neurons are combinations of outputs, and their weights are independent: there are at most as many as outputs, "
            "and as inputs.",
            "Use RandomStart(), which has no such limit, or for noiseless data SymmetricInputs.annihilator(), which needs "
            "outputs alone.", width=width, outputs=source.outputs, dim=source.dim)
    if source.size < 1.5 * (source.dim + 1):
        raise TooFewSamples(
            f"{source.size:,} samples in dimension {source.dim}.", "The outputs are first regressed on the inputs.",
            f"Give at least {3 * (source.dim + 1):,} samples.", samples=source.size, dim=source.dim)


PURE_NEURONS = RouteNeeds(biases=False, symmetric=True, count=count_units_in_outputs, check=check_shape)
"""What all routes through the detector ask for."""


class PureNeuronNetwork(NamedTuple):
    """A network of pure neurons, and by how much the space that they were found in stands out."""

    network: Network
    gap: float


@dataclass(frozen=True, kw_only=True)
class SpectralRoute:
    """Moments with control variates, whitened outputs, joint diagonalisation, guarded polish.

    Parameters
    ----------
    rounds : int
        Rounds with |Ŵx| as control variate after the first network; they end early when they do not help.
    quadratic : bool
        Whether the first L is sharpened by quadratic features, where the samples allow it.
    decompose : Decomposer
        Splits the null space of the detector into pure neurons.
    """

    rounds: int = 4
    quadratic: bool = True
    decompose: Decomposer = JointDiagonalisation(polish=False)

    needs: ClassVar[RouteNeeds] = PURE_NEURONS

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The best of the networks of all rounds, by squared error; `source` is white about zero."""
        slope = slope_of(activation)
        odd = linear_product(source, slope=slope)
        product, frame = odd.product, symmetric_neurons.output_frame(odd.product, odd.residual, width)
        if self.quadratic and _has_rows_for(source, width * (width + 1) // 2):
            even = even_quadratic(symmetric_neurons.row_space(product, frame))
            product = linear_product(source, slope=slope, even=even).product
        best, loss = self._locate(source, product, frame, activation, rng)
        for _ in range(self.rounds if _has_rows_for(source, width) else 0):
            product = linear_product(source, slope=slope, even=even_absolute(best.network.layer.weights)).product
            trial, after = self._locate(source, product, frame, activation, rng)
            again, improved = after < SYMMETRIC.max_error_ratio * loss, after < loss
            best, loss = (trial, after) if improved else (best, loss)
            if not again:
                break
        return Start(best.network, later=PureNeuronChecks(best.gap))

    def _locate(
        self, source: Source, product: Array, frame: Frame, activation: Activation, rng: Generator
    ) -> tuple[PureNeuronNetwork, float]:
        slope, scale = slope_of(activation), unit_slope(activation)
        found = symmetric_neurons.find_neurons(source, product, frame, slope=slope, decompose=self.decompose, rng=rng)
        network = symmetric_neurons.assemble_network(source, product, frame, found.z, activation, slope=slope)
        network = Network(network.layer, network.readout / scale)
        return PureNeuronNetwork(network, found.gap), _loss(source, network)


@dataclass(frozen=True, kw_only=True)
class AnnihilatorRoute:
    """Quadratic relations that noiseless samples obey (`decomposition.annihilator`); then the readout by least squares."""

    biases: bool = False

    @property
    def needs(self) -> RouteNeeds:
        """As many outputs as units; inputs of any law."""
        return RouteNeeds(self.biases, symmetric=False, count=_independent_outputs, check=_check_outputs)

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network whose relations these are."""
        found = annihilator(source, width, rng=rng, slope=slope_of(activation), biases=self.biases)
        empty = np.zeros((width, source.outputs))
        network = Network(Layer(found.weights, found.biases, activation), empty[:, 0] if source.outputs == 1 else empty)
        point = point_of(network, biases=self.biases, offset=False, linear=False)
        fitted, _ = project(point, Fit(*source.sum(FitStatistic(point), stage="loss")))
        return Start(network_of(fitted, vector=source.outputs == 1))


def _has_rows_for(source: Source, features: int) -> bool:
    return source.size >= SYMMETRIC.rows_per_feature * (source.dim + 1 + features)


def _loss(source: Source, network: Network) -> float:
    """Residual sum of squares with the best readout and offset."""
    point = point_of(network, biases=False, offset=True, linear=False)
    return project(point, Fit(*source.sum(FitStatistic(point), stage="loss")))[1]


def _independent_outputs(source: Source, slope: float) -> RankEstimate:
    """Directions in which the outputs vary: noiseless outputs show every unit that has a readout of its own."""
    (power,) = source.sum(lambda x, y: (y.T @ y,), stage="outputs")
    scale = np.sqrt(np.maximum(np.diag(power), np.finfo(float).tiny))
    values = np.linalg.eigvalsh(power / np.outer(scale, scale))
    seen = int(np.sum(values > GRAM * values[-1]))
    return RankEstimate(seen, seen, np.inf, f"{seen} of {source.outputs} outputs are independent.")


def _check_outputs(source: Source, width: int) -> None:
    if width > source.outputs:
        raise InvalidInput(
            f"Width {width} with {source.outputs} outputs.", "Every unit needs a combination of outputs that shows it alone.",
            "Use RandomStart(), which needs no such combination.", width=width, outputs=source.outputs)


@dataclass(frozen=True, kw_only=True)
class SymmetricInputs:
    """Hidden layer of y = A act(Wx) + noise from moments, after Ge, Kuditipudi, Li and Wang (2019).

    Assumes x and -x equally likely and nothing more about the inputs; ReLU or leaky ReLU units without biases, no more of them
    than inputs and than outputs; independent rows of W and columns of A; noise that is independent of x. The odd part of y shows
    AW, the detector of `laybare.moments` shows which combinations of outputs are one unit alone, and the solver goes on from
    there. Only the start needs the assumptions: what the solver ends at is checked by the certificate.

    Parameters
    ----------
    activation : Activation
        relu, or leaky_relu of any slope but 1 and -1.
    route : ConditionalRoute
        SpectralRoute() by default; the printed algorithms and the annihilator have class methods below.
    search : Search or None
        Where the first run of the solver ends above rounding: a second one with spare units beside those found, and repairs.
        None leaves the start as the route gave it.

    References
    ----------
    Ge et al. (2019), Learning two-layer neural networks with symmetric inputs. Deviations of the default: control variates for
    AW, the noise term as a covariance, whitened outputs, joint diagonalisation, no splitting of samples, refinement.
    """

    activation: Activation = relu
    route: ConditionalRoute = SpectralRoute()
    search: Search | None = Search(hops=4)

    __repr__ = show_choices

    def __post_init__(self) -> None:
        check_method(self)

    @classmethod
    def literal(cls, *, noise: bool = True, halves: bool = True) -> SymmetricInputs:
        """Algorithms 2 (noise=False, halves=False), 3 and 4 as printed, without the solver."""
        from laybare.methods.printed.ge_2019 import PrintedNeurons

        return cls(route=PrintedNeurons(noise=noise, halves=halves), search=None)

    @classmethod
    def literal_single(cls) -> SymmetricInputs:
        """Algorithm 1 as printed, on all samples: one unit for every output, y_j = relu(w_j·x), without the solver."""
        from laybare.methods.printed.ge_2019 import SingleUnits

        return cls(route=SingleUnits(), search=None)

    @classmethod
    def practical(cls) -> SymmetricInputs:
        """What the paper's experiments used: CP by alternating least squares, gradient descent on W; without the solver."""
        from laybare.methods.printed.ge_2019 import PracticalRoute

        return cls(route=PracticalRoute(), search=None)

    @classmethod
    def annihilator(cls, activation: Activation = relu, *, biases: bool = False) -> SymmetricInputs:
        """Noiseless outputs, at least as many as units, and inputs of any law; with or without biases, width ≤ dim or not."""
        return cls(activation=activation, route=AnnihilatorRoute(biases=biases))

    @property
    def biases(self) -> bool:
        """Whether units have biases: only the annihilator can find them."""
        return self.route.needs.biases

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """The network from the route alone; `source` is white."""
        needs, slope = self.route.needs, slope_of(self.activation)
        counted = needs.count(source, slope) if width is None else None
        count = starting_width(source, counted, searched=self.search is not None) if counted is not None else width or 1
        needs.check(source, count)
        report_progress(progress, "moments")
        start = self.route(source, count, self.activation, rng=rng)._replace(signed=True)
        if self.search is None:
            symmetry = (symmetric_neurons.symmetry_claim(source),) if needs.symmetric else ()
            return start._replace(claims=(*start.claims, *symmetry), later=None)
        if counted is None:
            return start
        return start._replace(width=counted.exact, later=symmetric_neurons.WidthCheck(counted, start.later))

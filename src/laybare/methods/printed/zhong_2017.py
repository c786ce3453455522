"""Zhong et al. (2017) as printed: Algorithm 1, the start from plain moments, and Algorithm 2, gradient descent from there.

    S₀, S₁, …, S_T ← Partition(S, T + 1);  W, v ← Initialization(S₀);  W ← W - η ∇f_{S_q}(W) for q = 1, …, T

With resampling every step has its own part of the samples, as the theorem wants; one more part tells the loss at the end. Without
it all samples serve the start and every step, as in the paper's experiments. The paper's T, log(1/ε) times a polynomial that it
does not state, is for the caller to give; its η = 1/(k max v² σ₁^(2p)) is taken at the start unless a step is given.
Source: Zhong et al. (2017), Algorithms 1 and 2; the parts are T + 1, not q + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.assembly.unit_scalars import rec_mag_sign, with_unit_readout
from laybare.decomposition import KCL, Decomposer, shifted_power
from laybare.errors import InvalidInput, TooFewSamples
from laybare.landscape.first_order import Descent, gradient_descent
from laybare.methods.start import Route, Start, lift_network, required_network
from laybare.methods.tensor_init import HIGHEST_ORDER, informative_orders
from laybare.moments import HermiteMoments, fourth_slices, measure, second_moment, third_slices
from laybare.networks import Network
from laybare.numerics.shapes import Array
from laybare.solver import Trace
from laybare.solver.point import network_of, point_of
from laybare.source import Source
from laybare.source.problem import total_variation
from laybare.theory.guarantees import conditioning


@dataclass(frozen=True, kw_only=True)
class PrintedMoments:
    """Algorithm 1 as printed: plain moments, the shifted power method on P₂, KCL on P₃ in its span, RecMagSign.

    `partition` takes disjoint thirds of the samples for P₂, P₃ and RecMagSign, as line 2 says; without it all samples serve each
    of them, as in the experiments of section 7. Orders of RecMagSign: the lowest odd one and the lowest even one that show
    anything. P₂ and P₃ of higher moments are contracted with a random direction, which is drawn inside the span for P₃.
    Source: Zhong et al. (2017), Algorithm 1; PowerMethod and RecMagSign are reconstructed, M₄ is corrected.
    """

    partition: bool = True
    power_steps: int = 100
    decompose: Decomposer = KCL.literal()

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """A network of `width` units from moments as they are."""
        orders = informative_orders(activation)
        if source.outputs > 1:
            raise InvalidInput(
                f"There are {source.outputs} outputs.", "The printed algorithm has one.",
                "Use TensorInit(), which takes all together.", outputs=source.outputs)
        parts = _split_in_thirds(source) if self.partition else (source, source, source)
        P2 = second_tensor(parts[0], orders.second, rng)
        basis = shifted_power(P2, source.dim, width, rng=rng, steps=self.power_steps).basis
        if basis.shape[1] < width:
            raise TooFewSamples(
                f"The power method found {basis.shape[1]} directions for width {width}.",
                "The moment of these samples does not have as many eigenvalues that stand out.",
                "Give more samples, or use TensorInit() instead of its literal form.", width=width, found=basis.shape[1])
        P3 = measure(parts[1], HermiteMoments(orders.third, basis)).tensor(orders.third)[0]
        while P3.ndim > 3:
            P3 = P3 @ _random_direction(width, rng)
        found = self.decompose(P3, width, rng=rng).directions
        lowest = tuple(next(j for j in orders.shown if j % 2 == parity) for parity in {j % 2 for j in orders.shown})
        asked = lowest if activation.degree is not None else orders.shown
        plain = measure(parts[2], HermiteMoments(HIGHEST_ORDER, basis))
        return Start(lift_network(rec_mag_sign(plain, found, activation, asked), basis))


def second_tensor(source: Source, order: int, rng: Generator) -> Array:
    """P₂: M₂, or M_j(I, I, a, …) with a random direction a."""
    if order == 2:
        return np.asarray(second_moment(source)[0])
    slices = third_slices if order == 3 else fourth_slices
    return np.asarray(slices(source, _random_direction(source.dim, rng)[None])[0, 0])


def _random_direction(dim: int, rng: Generator) -> Array:
    vector = rng.standard_normal(dim)
    return np.asarray(vector / np.linalg.norm(vector))


def _split_in_thirds(source: Source) -> tuple[Source, Source, Source]:
    edges = [source.size * i // 3 for i in range(4)]
    return source.between(0, edges[1]), source.between(edges[1], edges[2]), source.between(edges[2], edges[3])


class DescentRun(NamedTuple):
    """Where descent ended, where it began, and its steps."""

    network: Network
    start: Network
    trace: Trace


@dataclass(frozen=True, kw_only=True)
class PrintedDescent:
    """Algorithm 2: the start of `route`, then `descent`, which says how many steps, and whether each has fresh samples.

    With `printed_step` the step is η = 1/(k max v² σ₁^(2p)) of the start, else that of `descent`. The constant that the theorem
    hides in η is not there: for squared ReLU (where act' ≤ 2|t|) it can be above 2/λ_max, from where descent does not settle.
    Homogeneous units get readout ±1 and no offset, as the paper assumes.
    """

    route: Route = PrintedMoments()
    descent: Descent = Descent()
    printed_step: bool = True

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """Where descent ends."""
        return Start(self.run(source, width, activation, rng=rng).network)

    def run(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> DescentRun:
        """Descent on white samples with all its steps. With resampling the start has a part of them, as every step has."""
        descent = self.descent
        first, rest = _partition(source, descent.max_steps + 1) if descent.resample else (source, source)
        start = required_network(self.route(first, width, activation, rng=rng))
        if activation.degree:
            start = with_unit_readout(Network(start.layer, start.readout))
        if self.printed_step:
            descent = replace(descent, step=1.0 / conditioning(start).largest_curvature)
        point = point_of(start, biases=False, offset=True, linear=False)
        found = gradient_descent(rest, point, total_variation(rest), descent)
        return DescentRun(network_of(found.point, vector=True), start, found.trace)


def _partition(source: Source, parts: int) -> tuple[Source, Source]:
    """S₀, and what the T steps and the last loss share."""
    size = source.size // (parts + 1)
    if size < 1:
        raise TooFewSamples(
            f"{source.size:,} samples for {parts:,} parts.", "With resampling the start and every step need their own samples.",
            "Take fewer steps, or no resampling.", samples=source.size, parts=parts)
    return source.between(0, size), source.between(size, source.size)

"""Algorithm 2 of Zhong et al. (2017) as printed: the tensor start, then gradient descent in the hidden weights, v fixed.

    S₀, S₁, …, S_T ← Partition(S, T + 1);  W, v ← Initialization(S₀);  W ← W - η ∇f_{S_q}(W) for q = 1, …, T

With resampling every step has its own part of the samples, as the theorem wants; one more part tells the loss at the end. Without
it all samples serve the start and every step, as in the paper's experiments. The paper's T, log(1/ε) times a polynomial that it
does not state, is for the caller to give; its η = 1/(k max v² σ₁^(2p)) is taken at the start unless a step is given.
Source: Zhong et al. (2017), Algorithm 2; the parts are T + 1, not q + 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from numpy.random import Generator

from laybare.activations import Activation
from laybare.assembly.magnitudes import unit_readout
from laybare.errors import TooFewSamples
from laybare.methods.tensor_init.method import TensorInit
from laybare.networks import Network
from laybare.refinement.descent import Descent, gradient_descent
from laybare.refinement.normal import network_of, point_of
from laybare.refinement.overwide import total_variation
from laybare.refinement.trace import Trace
from laybare.source import Source
from laybare.theory.condition_numbers import conditioning


class Descended(NamedTuple):
    """Where descent ended, where it began, and its steps."""

    network: Network
    start: Network
    trace: Trace


def moments_then_descent(
    source: Source, width: int, activation: Activation, descent: Descent, *, rng: Generator,
    method: TensorInit | None = None, printed_step: bool = False,
) -> Descended:
    """Algorithm 2 on white samples: `descent` says how many steps, of what size, and whether each has fresh samples.

    `printed_step` takes η = 1/(k max v² σ₁^(2p)), of the start, in place of `descent.step`; the constant that the theorem hides
    in it is not there, and for squared ReLU (where act' ≤ 2|t|) it can be above 2/λ_max, from where descent does not settle.
    `method` is whose start is used, by default TensorInit.literal(activation). Homogeneous units get readout ±1 and no offset, as
    the paper assumes.
    """
    method = TensorInit.literal(activation) if method is None else method
    first, rest = _partition(source, descent.max_steps + 1) if descent.resample else (source, source)
    start = method.start(first, width, rng=rng)
    if activation.degree:
        start = unit_readout(Network(start.layer, start.readout))
    if printed_step:
        descent = replace(descent, step=1.0 / conditioning(start).largest_curvature)
    point = point_of(start, biases=False, offset=True, linear=False)
    run = gradient_descent(rest, point, total_variation(rest), descent)
    return Descended(network_of(run.point, vector=True), start, run.trace)


def _partition(source: Source, parts: int) -> tuple[Source, Source]:
    """S₀, and what the T steps and the last loss share."""
    size = source.size // (parts + 1)
    if size < 1:
        raise TooFewSamples(
            f"{source.size:,} samples for {parts:,} parts.", "With resampling the start and every step need their own samples.",
            "Take fewer steps, or no resampling.", samples=source.size, parts=parts)
    return source.between(0, size), source.between(size, source.size)

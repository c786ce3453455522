"""What every system is given: a planted network, and samples of it or the right to ask it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

import laybare as lb

Array = np.ndarray


class Task(NamedTuple):
    """A kind of network, how many samples there are, and how close every number must come to count as recovered.

    `noise` is relative to the spread of y. Inputs are N(0, I). Everybody but laybare is given the width.
    """

    name: str
    dim: int
    width: int
    samples: int
    outputs: int = 1
    noise: float = 0.0
    biases: float = 0.4
    signed: bool = True
    tol: float = 1e-2

    @property
    def words(self) -> str:
        """The task in one line."""
        given = f"{self.samples:,} samples" if self.samples else "a black box"
        noise = f", noise {self.noise:g} of the spread of y" if self.noise else ", no noise"
        return f"{self.dim}-{self.width}-{self.outputs} ReLU{'' if self.biases else ' without biases'}, {given}{noise}"


class Given(NamedTuple):
    """One instance: the truth (for judging only, or to be asked), the samples, and the seed of whoever works on it."""

    task: Task
    truth: lb.Network
    x: Array
    y: Array
    seed: int


class Outcome(NamedTuple):
    """What a system came back with: a network, if it found one, and what it has read."""

    network: lb.Network | None
    asked: int


System = Callable[[Given], Outcome]

TASKS = (
    Task("samples", 10, 5, 2_000),
    Task("wider", 20, 10, 2_000),
    Task("noisy", 10, 5, 4_000, noise=0.1, tol=5e-2),
    Task("bias-free", 10, 5, 50_000, biases=0.0, signed=False),
    Task("outputs", 10, 5, 5_000, outputs=5, biases=0.0),
    Task("queries", 10, 5, 0),
)


def given(task: Task, seed: int) -> Given:
    """Unit rows, biases of that size, |readout| in [0.5, 1.5]; the same for every system."""
    rng = np.random.default_rng([seed, task.dim, task.width, task.samples])
    truth = _teacher(task, rng)
    x = rng.standard_normal((task.samples, task.dim))
    y = truth(x)
    if task.noise:
        y = y + task.noise * y.std(axis=0) * rng.standard_normal(y.shape)
    return Given(task, truth, x, y, seed)


def _teacher(task: Task, rng: Generator) -> lb.Network:
    rows = rng.standard_normal((task.width, task.dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    shape = (task.width,) if task.outputs == 1 else (task.width, task.outputs)
    readout = rng.uniform(0.5, 1.5, shape)
    if task.signed:
        readout = readout * rng.choice([-1.0, 1.0], shape)
    return lb.Network(lb.Layer(rows, task.biases * rng.standard_normal(task.width)), readout)


def of_parts(weights: Array, biases: Array, readout: Array, offset: Array | float = 0.0) -> lb.Network:
    """A ReLU network from arrays; one output has a readout of one dimension."""
    one = readout.ndim == 2 and readout.shape[1] == 1
    return lb.Network(
        lb.Layer(weights, biases), readout[:, 0] if one else readout, float(np.ravel(offset)[0]) if one else offset)

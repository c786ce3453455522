"""Repeat a randomised decomposition and keep the best."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from laybare.decomposition.components import Components, Decomposer
from laybare.errors import InvalidInput
from laybare.shapes import Array


@dataclass(frozen=True)
class BestOf:
    """Run `decompose` `tries` times and keep the smallest residual."""

    tries: int
    decompose: Decomposer

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise InvalidInput(
                f"{self.tries} tries were asked for.", "There must be one to keep.", "Give a positive number.", tries=self.tries)

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        return min((self.decompose(tensor, rank, rng=rng) for _ in range(self.tries)), key=lambda parts: parts.residual)


def best_of(tries: int, decompose: Decomposer) -> Decomposer:
    """A decomposition that runs another one several times and keeps the smallest residual."""
    return BestOf(tries, decompose)

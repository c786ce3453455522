"""What a decomposition accepts: stacks of symmetric slices, dense symmetric tensors, and a rank that they can have."""

from __future__ import annotations

import numpy as np

from laybare.decomposition.slices import project
from laybare.errors import InvalidInput, Unidentifiable
from laybare.shapes import Array

ASYMMETRY = 1e-8
"""Largest relative asymmetry that passes for rounding."""


def as_slices(tensor: Array, rank: int) -> Array:
    """The stack (s, k, k) in float64, exactly symmetric; refuses what is not one, and a rank outside 1..k."""
    slices = finite(tensor)
    if slices.ndim != 3 or slices.shape[1] != slices.shape[2] or 0 in slices.shape:
        raise InvalidInput(
            f"An array of shape {slices.shape} was given.", "A decomposition needs a stack of square slices.",
            "Give shape (slices, k, k); reshape a tensor of order 4 to (k², k, k).", shape=slices.shape)
    dim = slices.shape[1]
    if not 1 <= rank <= dim:
        raise InvalidInput(
            f"Rank {rank} was asked of slices of dimension {dim}.",
            "This decomposition finds at most as many parts as there are dimensions.",
            "Give a rank from 1 to the dimension, or use SubspacePower for more parts than dimensions.", rank=rank, dim=dim)
    size, gap = float(np.abs(slices).max()), float(np.abs(slices - slices.transpose(0, 2, 1)).max())
    if gap > ASYMMETRY * size:
        raise InvalidInput(
            f"The slices are not symmetric: entries differ from their transposes by up to {gap:.2g}, the largest is {size:.2g}.",
            "The parts are u uᵀ, and no sum of them is asymmetric.", "Symmetrise the estimate first, or check the order of axes.",
            asymmetry=gap, largest=size)
    return (slices + slices.transpose(0, 2, 1)) / 2


def as_tensor(tensor: Array, rank: int) -> Array:
    """A dense symmetric tensor of order 3 or 4 in float64; refuses anything else."""
    dense = finite(tensor)
    if dense.ndim not in (3, 4) or len(set(dense.shape)) != 1:
        raise InvalidInput(
            f"An array of shape {dense.shape} was given.", "This decomposition needs a symmetric tensor of order 3 or 4.",
            "Give shape (k, k, k) or (k, k, k, k).", shape=dense.shape)
    if not 1 <= rank <= dense.shape[0]:
        as_slices(dense.reshape(-1, *dense.shape[-2:]), rank)
    if not is_symmetric(dense):
        raise InvalidInput(
            "The tensor changes when its axes are exchanged.", "The parts are u⊗…⊗u, and no sum of them does.",
            "Symmetrise the estimate first, or give a stack of slices to a decomposition of stacks.", shape=dense.shape)
    project(dense.reshape(-1, *dense.shape[-2:]), rank)  # refuses a rank that its span does not have
    return dense


def is_symmetric(tensor: Array) -> bool:
    """Whether neighbouring axes can be exchanged (these exchanges generate all permutations)."""
    if len(set(tensor.shape)) != 1:
        return False
    limit = ASYMMETRY * np.abs(tensor).max()
    return all(bool(np.abs(tensor - tensor.swapaxes(axis, axis + 1)).max() <= limit) for axis in range(tensor.ndim - 1))


def finite(tensor: Array) -> Array:
    """The array in float64; refuses NaN, infinity, and an array of zeros."""
    array = np.asarray(tensor, dtype=float)
    bad = int(np.sum(~np.isfinite(array)))
    if bad:
        raise InvalidInput(
            f"{bad} of {array.size} entries are NaN or infinite.", "One of them spoils every part.",
            "Remove the samples that caused them.", bad=bad, size=array.size)
    if array.size and not np.any(array):
        raise Unidentifiable(
            "Every entry is zero.", "A moment that vanishes carries no information about the weights.",
            "Use a moment of another order.", size=array.size)
    return array

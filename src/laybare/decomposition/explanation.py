"""From directions to components: coefficients of a symmetric tensor, loadings of a stack, and what they leave unexplained.

A symmetric tensor of order 3 is its own stack of slices, with loadings λᵢ = cᵢuᵢ.
"""

from __future__ import annotations

import numpy as np

from laybare.decomposition.checks import is_symmetric
from laybare.decomposition.components import Components, in_canonical_form, powers, separation
from laybare.shapes import Array


def explain(tensor: Array, directions: Array) -> Components:
    """Components with these directions: least squares for the rest. A symmetric tensor gets coefficients, a stack loadings."""
    return explain_tensor(tensor, directions) if is_symmetric(tensor) else explain_stack(tensor, directions)


def explain_tensor(tensor: Array, directions: Array) -> Components:
    """Components of a dense symmetric tensor."""
    c = tensor_coefficients(tensor, directions)
    misfit = np.linalg.norm(tensor_misfit(tensor, directions, c)) / np.linalg.norm(tensor)
    apart = separation(directions, (c[:, None] * directions).T)
    return in_canonical_form(Components(c, directions, float(misfit), apart, tensor.ndim))


def explain_stack(stack: Array, directions: Array) -> Components:
    """Components of a stack of symmetric matrices or tensors; coefficients are the lengths of the loadings."""
    weights = loadings(stack, directions)
    order = stack.ndim - 1
    misfit = stack.reshape(len(stack), -1) - weights @ powers(directions, order)
    apart = separation(directions, weights, 1 if len(directions) <= directions.shape[1] else order)
    relative = float(np.linalg.norm(misfit) / np.linalg.norm(stack))
    return in_canonical_form(Components(np.linalg.norm(weights, axis=0), directions, relative, apart, order))


def tensor_coefficients(tensor: Array, directions: Array) -> Array:
    """c (r,) of the least-squares fit T ≈ Σᵢ cᵢ uᵢ^{⊗order}: (UUᵀ)^{∘order} c = T(uᵢ, …, uᵢ)."""
    return _solve_gram((directions @ directions.T) ** tensor.ndim, contract(tensor, directions, 0))


def loadings(stack: Array, directions: Array) -> Array:
    """λ (s, r) of the least-squares fit A_l ≈ Σᵢ λ_lᵢ uᵢ^{⊗q}, for a stack of matrices (q = 2) or of symmetric tensors."""
    rows = powers(directions, stack.ndim - 1)
    return _solve_gram(rows @ rows.T, rows @ stack.reshape(len(stack), -1).T).T


def tensor_misfit(tensor: Array, directions: Array, coefficients: Array) -> Array:
    """T − Σᵢ cᵢ uᵢ^{⊗order}."""
    half = tensor.ndim // 2
    left, right = powers(directions, half), powers(directions, tensor.ndim - half)
    misfit: Array = tensor - (left.T @ (coefficients[:, None] * right)).reshape(tensor.shape)
    return misfit


def contract(tensor: Array, directions: Array, keep: int) -> Array:
    """T(uᵢ, …, uᵢ, I, …) for every row of `directions`, with `keep` (0 or 1) axes left: (r,) or (r, k)."""
    out = tensor.reshape(-1, tensor.shape[-1]) @ directions.T
    out = out.reshape(*tensor.shape[:-1], len(directions))
    for _ in range(tensor.ndim - 1 - keep):
        out = np.einsum("...ar,ra->...r", out, directions)
    return out.T if keep else out


def _solve_gram(gram: Array, right: Array) -> Array:
    """Least squares, because equal directions make a Gram matrix singular."""
    solution: Array = np.linalg.lstsq(gram, right, rcond=None)[0]
    return solution

"""Torch modules: asked in evaluation mode, without gradients, in the module's own precision."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.targets.target import Target, digest


def is_module(given: Any) -> bool:
    """Whether it is a module of a torch that has been imported already."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)


def torch_module(module: Any) -> Target:
    """A module that maps (n, dim) to (n,) or (n, outputs); dim is that of its first linear layer."""
    import torch

    tensors = list(module.state_dict().values())
    first = next((tensor for tensor in tensors if tensor.is_floating_point()), torch.zeros(1))

    def ask(x: Array) -> Array:
        training = module.training
        module.eval()  # dropout would be noise
        try:
            with torch.no_grad():
                answer = module(torch.as_tensor(x, dtype=first.dtype, device=first.device))
        finally:
            module.train(training)
        if not isinstance(answer, torch.Tensor):
            raise InvalidInput(
                f"The torch module returned a {type(answer).__name__}.", "One tensor with a row for every input is needed.",
                "Wrap it in a function that returns that tensor.", returned=type(answer).__name__)
        return np.asarray((answer.double() if answer.is_floating_point() else answer).cpu().numpy())

    dims = (getattr(part, "in_features", None) for part in module.modules())
    name = f"{type(module).__name__} {digest(tensor.double().cpu().numpy() for tensor in tensors)}"
    return Target(ask, name, next((int(dim) for dim in dims if dim is not None), None))

"""The modules that PyTorch lacks: activations of ours, and a linear path beside the units. Imports PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

Tensor = Any


class Absolute(nn.Module):  # type: ignore[misc, unused-ignore]
    """|t|."""

    def forward(self, t: Tensor) -> Tensor:
        return torch.abs(t)


class Erf(nn.Module):  # type: ignore[misc, unused-ignore]
    """The error function."""

    def forward(self, t: Tensor) -> Tensor:
        return torch.erf(t)


class ModuleStep(nn.Module):  # type: ignore[misc, unused-ignore]
    """1 for t > 0, else 0; its gradient is 0."""

    def forward(self, t: Tensor) -> Tensor:
        return (t > 0).to(t.dtype)


class PowerReLU(nn.Module):  # type: ignore[misc, unused-ignore]
    """max(t, 0)^power."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power = power

    def forward(self, t: Tensor) -> Tensor:
        return torch.relu(t) ** self.power


class Exponential(nn.Module):  # type: ignore[misc, unused-ignore]
    """exp(rate · t)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, t: Tensor) -> Tensor:
        return torch.exp(self.rate * t)


class WithLinearPart(nn.Module):  # type: ignore[misc, unused-ignore]
    """Units and a linear map of the same inputs, side by side: units(x) + linear(x)."""

    def __init__(self, units: nn.Sequential, linear: nn.Linear) -> None:
        super().__init__()
        self.units = units
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        return self.units(x) + self.linear(x)

"""Networks from and to other libraries and formats. Each library is imported only when its function is called."""

from typing import TYPE_CHECKING

from laybare.export.onnx import from_onnx, to_onnx
from laybare.export.recovery_files import from_json, from_npz, to_json, to_npz
from laybare.export.sklearn import from_sklearn, to_sklearn
from laybare.export.torch import from_torch, to_torch
from laybare.numerics.lazy import on_demand

if TYPE_CHECKING:
    from laybare.export.warm_starts import initialise

__getattr__ = on_demand(__name__, {"initialise": "laybare.export.warm_starts"})

__all__ = [
    "from_json", "from_npz", "from_onnx", "from_sklearn", "from_torch", "initialise", "to_json", "to_npz", "to_onnx",
    "to_sklearn", "to_torch",
]

"""Writes api.md: every public name, first those of `lb`, then room by room. Run it (`python docs/api_page.py`) after changes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import laybare as lb
from laybare.activations import Activation

PAGE = Path(__file__).parent / "api.md"

HEAD = """# API

Everything here is imported as `import laybare as lb`. First come the names of `lb` itself, then the rooms, which are
reached as `lb.ROOM` without an import of their own. `python docs/api_page.py` writes this page, and a test compares it.
"""

GROUPS = {
    "Recovery": "recover refine recover_layer audit choose first_look Recovery Audit Certificate Claim",
    "Methods": (
        "Lines RandomStart TensorInit LandscapeDesign SymmetricInputs GeneralReLU HighThreshold Search Method Start"),
    "Networks": "Layer Network load compare Match simplify random_network",
    "Sources": "Samples open_samples Oracle DaskSamples Source Gaussian Symmetric Unknown",
    "Activations": (
        "Activation leaky_relu power_relu exponential relu absolute sigmoid tanh erf softplus gelu step"),
    "scikit-learn": "NetworkClassifier NetworkRecovery UnionOfHalfSpaces",
    "Exchange": "to_torch from_torch to_onnx from_onnx to_sklearn from_sklearn",
    "Errors": "LaybareError",
}
"""Names of `lb` by what they are for."""


def listing(module: str, names: list[str]) -> str:
    """What Sphinx makes a table of."""
    rows = "\n".join(f"   {name}" for name in names)
    head = f"```{{eval-rst}}\n.. currentmodule:: {module}\n\n.. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n"
    return f"{head}{rows}\n```\n"


def group(title: str, names: list[str]) -> str:
    """A part of `lb`: functions and classes as a table, activations by their names."""
    objects = [name for name in names if isinstance(getattr(lb, name), Activation)]
    sentence = ", ".join(f"`{name}`" for name in objects)
    note = f"\n{sentence} are objects of class `Activation`. These give more of them:\n" if objects else ""
    return f"## {title}\n{note}\n" + listing("laybare", [name for name in names if name not in objects])


def own_names(room: ModuleType) -> list[str]:
    """Public names of a room that `lb` does not have."""
    named = getattr(room, "__all__", None) or [
        name for name, value in vars(room).items() if getattr(value, "__module__", "") == room.__name__ and name[0] != "_"]
    found = [name for name in named if name not in lb.__all__]
    return sorted(name for name in found if callable(getattr(room, name)) and not isinstance(getattr(room, name), Activation))


def page() -> str:
    """The whole page."""
    parts = [HEAD, *(group(title, names.split()) for title, names in GROUPS.items())]
    for name in sorted(lb.ROOMS):
        room = import_module(f"laybare.{name}")
        if own_names(room):
            words = (room.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
            parts.append(f"## lb.{name}\n\n{words}\n\n" + listing(room.__name__, own_names(room)))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

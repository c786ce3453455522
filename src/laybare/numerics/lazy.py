"""Names that a package imports on first use (PEP 562), and old names that still work with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, homes: Mapping[str, str], renamed: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A module's `__getattr__`.

    `homes` maps a name to the module that defines it; a module that has its own name is that name. `renamed` maps an old name to
    the dotted path of the new one: it is found, with a DeprecationWarning that says the new name.
    """

    def find(name: str) -> Any:
        if renamed is not None and name in renamed:
            return _deprecated(package, name, renamed[name])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        found = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return find


def homes_of(names: Mapping[str, str]) -> dict[str, str]:
    """From {module: "its names, separated by blanks"} to {name: module}."""
    return {name: module for module, text in names.items() for name in text.split()}


def _deprecated(package: str, name: str, path: str) -> Any:
    warnings.warn(
        f"{package}.{name} is now {path}. The old name works until version 0.4.", DeprecationWarning, stacklevel=3)
    module, _, attribute = path.rpartition(".")
    return getattr(import_module(module), attribute)

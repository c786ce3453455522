"""Names that a package has but imports only when somebody asks for them (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def on_demand(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: `homes` says which module has which name; a module that has its own name is that name."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        found = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return find


def homes_of(names: dict[str, str]) -> dict[str, str]:
    """From modules with the names that they have, in one text, to names with their module."""
    return {name: module for module, text in names.items() for name in text.split()}

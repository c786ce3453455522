"""Options of a room with other numbers, for one test."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest


def change_options(monkeypatch: pytest.MonkeyPatch, module: ModuleType, instance: str, **fields: Any) -> None:
    """Set fields of a frozen options object that a module holds."""
    monkeypatch.setattr(module, instance, replace(getattr(module, instance), **fields))

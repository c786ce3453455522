"""Parameters inside of methods: `method__search__hops` reads and replaces a field of a field.

scikit-learn walks into parameters that have `get_params`. Methods are frozen dataclasses and have none: here their fields get
names with double underscores, and to set one is to replace the dataclasses on the way to it. So grids and pipelines reach every
choice of a method, and no method ever changes in place.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator

from laybare.activations import Activation
from laybare.errors import InvalidInput


class NestedChoices(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """An estimator whose parameters may be frozen dataclasses; their fields are parameters too."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep`, also the fields of methods, of their routes and searches, and so on."""
        own: dict[str, Any] = super().get_params(deep=False)
        return own | {name: value for key in own for name, value in inside(own[key], key).items()} if deep else own

    def set_params(self, **params: Any) -> NestedChoices:
        """Set parameters by name, whole methods first, then what is inside of them."""
        super().set_params(**{name: value for name, value in params.items() if "__" not in name})
        for name, value in params.items():
            key, _, path = name.partition("__")
            if path:
                super().set_params(**{key: replaced(self.get_params(deep=False).get(key), path, value, name)})
        return self


def inside(choice: Any, prefix: str) -> dict[str, Any]:
    """Fields of a choice, and of choices in it, by their paths. Activations are values, not choices."""
    if not _has_parts(choice):
        return {}
    found: dict[str, Any] = {}
    for field in fields(choice):
        name, value = f"{prefix}__{field.name}", getattr(choice, field.name)
        found |= {name: value} | inside(value, name)
    return found


def replaced(choice: Any, path: str, value: Any, name: str) -> Any:
    """The choice with another value at the end of a path; `name` is what the caller wrote."""
    first, _, rest = path.partition("__")
    known = [field.name for field in fields(choice)] if _has_parts(choice) else []
    if first not in known:
        what = f"{type(choice).__name__} has {', '.join(known)}" if known else f"{choice!r} has no parts"
        raise InvalidInput(
            f"The parameter is called {name!r}.", f"{what}.", "get_params() lists every name; give the method itself first.")
    return replace(choice, **{first: replaced(getattr(choice, first), rest, value, name) if rest else value})


def _has_parts(choice: Any) -> bool:
    return is_dataclass(choice) and not isinstance(choice, type | Activation)

"""Arguments in the conventions of scikit-learn: nested parameters, rows, seeds, threads, sample weights.

scikit-learn looks into parameters that have `get_params`. Methods are frozen dataclasses and have none: here their fields get
names with double underscores (`method__search__hops`), and setting one replaces the dataclasses on the way to it. So grids and
pipelines reach every choice of a method, and no method changes in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from numbers import Number
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from laybare.activations import Activation
from laybare.errors import InvalidInput, LaybareError
from laybare.numerics.checks import check_number, check_unmasked, show_value
from laybare.numerics.redaction import message_of
from laybare.numerics.shapes import Array
from laybare.source import Schedule


class NestedParameters(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """An estimator whose parameters may be frozen dataclasses; their fields are parameters too."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep`, also the fields of methods, of their routes and searches, and so on."""
        own: dict[str, Any] = super().get_params(deep=False)
        return own | {name: value for key in own for name, value in nested_parameters(own[key], key).items()} if deep else own

    def set_params(self, **params: Any) -> NestedParameters:
        """Set parameters by name, whole methods first, then what is inside of them."""
        super().set_params(**{name: value for name, value in params.items() if "__" not in name})
        for name, value in params.items():
            key, _, path = name.partition("__")
            if path:
                super().set_params(**{key: replace_nested(self.get_params(deep=False).get(key), path, value, name)})
        return self


def nested_parameters(choice: Any, prefix: str) -> dict[str, Any]:
    """Fields of a choice, and of choices in it, by their paths. Activations are values, not choices."""
    if not _is_nested(choice):
        return {}
    found: dict[str, Any] = {}
    for field in fields(choice):
        name, value = f"{prefix}__{field.name}", getattr(choice, field.name)
        found |= {name: value} | nested_parameters(value, name)
    return found


def replace_nested(choice: Any, path: str, value: Any, name: str) -> Any:
    """The choice with another value at the end of a path; `name` is what the caller wrote."""
    first, _, rest = path.partition("__")
    known = [field.name for field in fields(choice)] if _is_nested(choice) else []
    if first not in known:
        what = f"{type(choice).__name__} has {', '.join(known)}" if known else f"{choice!r} has no parts"
        raise InvalidInput(
            f"The parameter is called {name!r}.", f"{what}.", "get_params() lists every name; give the method itself first.")
    return replace(choice, **{first: replace_nested(getattr(choice, first), rest, value, name) if rest else value})


def _is_nested(choice: Any) -> bool:
    return is_dataclass(choice) and not isinstance(choice, type | Activation)


def generator_from(random_state: Any) -> np.random.Generator:
    """A generator from what scikit-learn calls a random state: None, a seed, or a RandomState, which moves on."""
    try:
        if isinstance(random_state, bool | np.bool_):
            raise ValueError("no seed")
        state = check_random_state(random_state)
    except Exception:
        raise InvalidInput(
            f"random_state is {show_value(random_state)}.", "It is the seed of all random draws.",
            "Give a whole number of at least 0, a numpy RandomState, or None.") from None
    return np.random.default_rng(state.randint(np.iinfo(np.int32).max))


def schedule_from(n_jobs: int | None) -> Schedule:
    """Threads for every pass; None and -1: one for each core. The result is the same for any number."""
    return Schedule(workers=None if isinstance(n_jobs, int) and n_jobs == -1 else n_jobs)


class NoNumbers(InvalidInput, TypeError):
    """What is no number at all; scikit-learn's conventions want a TypeError."""


@contextmanager
def in_own_words(what: str) -> Iterator[None]:
    """What scikit-learn, NumPy or the object itself says against an argument, as a sentence that has its words in it."""
    try:
        yield
    except LaybareError:
        raise
    except Exception as error:  # whatever an object raises when it is read
        kind = NoNumbers if isinstance(error, TypeError) else InvalidInput
        raise kind(f"{what} cannot be read: {message_of(error).rstrip('.')}.", "An estimator reads tables of finite numbers.",
                   "Give an array or a data frame, with one entry per row.") from None


def read_rows(estimator: Any, *given: Any, **options: Any) -> Any:
    """The rows of X, or rows and labels, checked and counted by scikit-learn."""
    for name, one in zip("Xy", given, strict=False):
        check_unmasked(name, one)
    with in_own_words(" or ".join("Xy"[: len(given)])):
        return validate_data(estimator, *given, dtype="float64", **options)


def check_weights(x: Array, sample_weight: Any) -> Array:
    """Weights of rows (n,): finite, not negative, and one of them above zero."""
    if isinstance(sample_weight, Number):
        check_number("sample_weight", sample_weight, 0.0)
    with in_own_words("sample_weight"):
        weights: Array = _check_sample_weight(sample_weight, x, ensure_non_negative=True)
    if not (weights > 0.0).any():
        raise InvalidInput(
            f"All {len(weights)} sample weights are zero.", "Rows without weight are left out.",
            "Give at least one row a weight above zero.")
    return weights


def rows_with_weight(x: Array, sample_weight: Any) -> Array:
    """Which rows count, (n,) of bools. Weights that are zero or equal mean that; others are refused, with the reason.

    Every number of the certificate (noise, standard errors, the tests for missing units) and the split into used and fresh rows
    take the rows to be alike. With unequal weights they would be wrong without a sign of it.
    """
    weights = check_weights(x, sample_weight)
    counted: Array = weights > 0.0
    kept = weights[counted]
    if kept.min() != kept.max():
        raise InvalidInput(
            f"The sample weights run from {kept.min():.3g} to {kept.max():.3g}.",
            "The certificate judges noise, error bars and fresh rows as if all rows were alike, so only weights that are zero or "
            "equal have a meaning here.",
            "Leave sample_weight out, give zeros for rows to drop, or draw rows in proportion to their weights.")
    return counted

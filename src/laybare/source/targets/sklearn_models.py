"""Fitted scikit-learn models, pipelines among them: `predict_proba` of a classifier, `predict` of anything else."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.targets.target import Target, digest


def is_estimator(given: Any) -> bool:
    """Whether it behaves as scikit-learn's estimators do; the library is not imported for that."""
    return not isinstance(given, type) and all(callable(getattr(given, name, None)) for name in ("fit", "predict", "get_params"))


def sklearn_model(model: Any) -> Target:
    """A model that was fitted; for hard classes there is nothing to read."""
    name = type(model).__name__
    dim = getattr(model, "n_features_in_", None)
    if dim is None:
        raise InvalidInput(f"The {name} has not been fitted.", "It has no weights yet.", "Call fit first.", model=name)
    classifies = hasattr(model, "classes_") or getattr(model, "_estimator_type", None) == "classifier"
    if classifies and not hasattr(model, "predict_proba"):
        raise InvalidInput(
            f"The {name} predicts classes and has no predict_proba.",
            "A class only tells on which side of a border an input lies; weights are read from how outputs change in between.",
            "Give its decision_function as the black box, or a model with probabilities.", model=name)
    return Target(_quiet(model.predict_proba if classifies else model.predict), f"{name} {digest(_parameters(model))}", int(dim))


def _quiet(predict: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Without the warning that rows without names were given to a model that was fitted with names."""

    def ask(x: Array) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*valid feature names.*")
            return predict(x)

    return ask


def _parameters(model: Any) -> list[Any]:
    """Arrays that make the model what it is: weights of all steps, means and scales."""
    steps = [step for _, step in getattr(model, "steps", [])] or [model]
    names = ("coefs_", "intercepts_", "coef_", "intercept_", "mean_", "scale_", "var_", "min_", "components_")
    found = []
    for step in steps:
        for name in names:
            value = getattr(step, name, None)
            found += value if isinstance(value, list) else [] if value is None else [value]
    return found

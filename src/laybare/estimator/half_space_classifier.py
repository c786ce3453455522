"""UnionOfHalfSpaces: a union of half-spaces as a classifier of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from laybare.certificate import Certificate
from laybare.errors import InvalidInput
from laybare.estimator.sklearn_conventions import NestedParameters, generator_from, in_own_words, read_rows, rows_with_weight
from laybare.lowest_layer import learn_union
from laybare.numerics.checks import show_value
from laybare.numerics.shapes import Array


class UnionOfHalfSpaces(ClassifierMixin, NestedParameters):  # type: ignore[misc, unused-ignore]
    """x is inside if w_i·x > t_i for some i: half-spaces from labels, by the active set of step units (Theorem 12).

    Labels tell the active set of the layer, so the half-spaces are all there is to learn; `certificate_` says whether it was.
    Inputs should be normal up to an affine map, and fewer than half of the rows inside: the start rests on it, the fit does not.

    Parameters
    ----------
    width : int, optional
        Number of half-spaces; counted if not given.
    inside : label, optional
        The class inside of the union; by default the rarer one.
    method : HighThreshold, optional
        By default HighThreshold(activation=step, baseline=0.0, top=None); its choices are parameters too: `method__repairs`.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : array (2,)
    weights_, thresholds_ : arrays (k, dim) of rows of length 1, and (k,)
    certificate_ : Certificate
    union_ : HalfSpaceUnion
    n_features_in_, feature_names_in_ : as in scikit-learn

    References
    ----------
    Goel and Panigrahy (2019), Theorem 12, appendix B.6.
    """

    def __init__(self, width: Any = None, inside: Any = None, method: Any = None, random_state: Any = None) -> None:
        self.width = width
        self.inside = inside
        self.method = method
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> UnionOfHalfSpaces:
        """Find the half-spaces from rows X (n, dim) and two kinds of labels y (n,); weights may be zero or equal."""
        x, y = read_rows(self, X, y, ensure_min_samples=2)
        with in_own_words("y"):
            check_classification_targets(y)
        if sample_weight is not None:
            counted = rows_with_weight(x, sample_weight)
            x, y = x[counted], y[counted]
        self.classes_, indices = np.unique(y, return_inverse=True)
        self._check_classes()
        self._sign = 1.0 if self._index_inside(indices) == 1 else -1.0
        within = (indices == 1) == (self._sign > 0)
        self.union_ = learn_union(x, within, self.width, method=self.method, rng=generator_from(self.random_state))
        return self

    def decision_function(self, X: Any) -> Array:
        """Distance to the nearest boundary from inside one half-space, negative outside all; signed for `classes_[1]`."""
        check_is_fitted(self)
        return self._sign * self.union_.decision(read_rows(self, X, reset=False))

    def predict(self, X: Any) -> Array:
        """Labels, (n,)."""
        indices = (self.decision_function(X) > 0.0).astype(int)
        return np.asarray(self.classes_[indices])

    @property
    def weights_(self) -> Array:
        """Rows of length 1, (k, dim)."""
        check_is_fitted(self)
        return self.union_.weights

    @property
    def thresholds_(self) -> Array:
        """t of w·x > t, (k,)."""
        check_is_fitted(self)
        return self.union_.thresholds

    @property
    def certificate_(self) -> Certificate:
        """Whether the union explains the labels."""
        check_is_fitted(self)
        return self.union_.certificate

    def _check_classes(self) -> None:
        if len(self.classes_) != 2:
            raise InvalidInput(
                f"The labels have {len(self.classes_)} class{'es' * (len(self.classes_) != 1)}.",
                "Only binary classification is supported: a row is inside the union or outside.",
                "Give labels of two classes, or one union for each class against the others.")
        plain = isinstance(self.inside, str | int | float | np.generic)
        known = self.inside is None or (plain and self.inside in self.classes_.tolist())
        if not known:
            raise InvalidInput(
                f"inside is {show_value(self.inside)}.", f"The labels are {self.classes_[0]!r} and {self.classes_[1]!r}.",
                "Give one of them.")

    def _index_inside(self, indices: Array) -> int:
        """Which class is inside: the given one, or the rarer one."""
        if self.inside is not None:
            return int(np.flatnonzero(self.classes_ == self.inside)[0])
        return int(2 * np.count_nonzero(indices == 1) <= len(indices))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

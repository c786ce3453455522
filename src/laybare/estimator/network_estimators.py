"""`recover` as estimators of scikit-learn: NetworkRecovery, a regressor whose hidden units are features for whatever comes after
it, and NetworkClassifier, whose log odds are a network's outputs; and `recover_layer` as one: UnionOfHalfSpaces, a classifier.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from laybare.certificate import Certificate
from laybare.errors import InvalidInput
from laybare.estimator.always_answer import Labelled, answer, recover_as, recover_rows, with_columns
from laybare.estimator.sklearn_conventions import NestedParameters, generator_from, in_own_words, read_rows, rows_with_weight
from laybare.lowest_layer import learn_union
from laybare.networks import Network
from laybare.numerics.checks import show_value
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery
from laybare.source import Source
from laybare.source.losses import Loss, as_loss
from laybare.source.protocol import is_source
from laybare.source.samples import column_names


class RecoveredNetwork(NestedParameters):
    """What a fitted estimator of networks has: the recovery, its network and its certificate."""

    recovery_: Recovery

    @property
    def network_(self) -> Network:
        """The recovered network, of log odds in a classifier; `network_.save(path)` keeps it without pickle."""
        check_is_fitted(self, "recovery_")
        return self.recovery_.network

    @property
    def certificate_(self) -> Certificate:
        """What is known about the network without the truth."""
        check_is_fitted(self, "recovery_")
        return self.recovery_.certificate

    def _keep(self, found: Recovery) -> None:
        self.recovery_ = found
        self.n_iter_ = max(1, sum(len(trace.rows) - 1 for trace in found.traces))


class NetworkRecovery(
    ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin, RecoveredNetwork,  # type: ignore[misc, unused-ignore]
):
    """The network behind samples, as a regressor: `fit`, `predict`, `score`; `transform` gives its hidden units.

    Parameters
    ----------
    method : Method, optional
        How to find the start, as in `recover`. Its choices are parameters too: `method__search__hops`.
    width : int, optional
        Largest number of hidden units; detected if not given. Where the rows do not support so many there are fewer, with a
        ConvergenceWarning. `recover`, and `fit` of a source, take a width as exact.
    activation : str or Activation
        Of the hidden units; a method brings its own, and may then only be contradicted by something else than "relu".
    loss : "squared", "huber", "poisson" or "bernoulli"
        How outputs scatter: alike, with heavy tails, as counts, as shares; as in `recover`.
    random_state : int, RandomState or None
        Same seed, same bits, whatever `n_jobs` is.
    law : Law or its name, optional
        What is assumed about the inputs: "gaussian" (by default), "symmetric", "unknown".
    n_jobs : int, optional
        Threads; by default one for each core.
    progress : callable or True, optional
        Told every step; True: a line on the screen, or in the notebook.

    Attributes
    ----------
    network_ : Network
    certificate_ : Certificate
    recovery_ : Recovery
        Network, certificate, start and steps together: `recovery_.report("report.html")`, `recovery_.plot.weights()`.
    n_iter_ : int
        Steps that the solver took.
    n_features_in_ : int
    feature_names_in_ : array of str
        If X was a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> import laybare as lb
    >>> truth = lb.random_network(4, 3, rng=0)
    >>> x = np.random.default_rng(0).normal(size=(300, 4))
    >>> model = lb.NetworkRecovery(random_state=0).fit(x, truth(x))
    >>> model.certificate_.verdict, model.network_.width
    ('verified', 3)
    """

    def __init__(
        self, method: Any = None, width: Any = None, activation: Any = "relu", loss: Any = "squared", random_state: Any = None, *,
        law: Any = None, n_jobs: Any = None, progress: Any = None,
    ) -> None:
        self.method = method
        self.width = width
        self.activation = activation
        self.loss = loss
        self.random_state = random_state
        self.law = law
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> NetworkRecovery:
        """Recover the network behind X (n, dim) and y, (n,) or (n, outputs); or behind a source, given in place of X.

        `sample_weight` scales the log-likelihood of every row; `groups` labels rows that may be dependent.
        """
        if is_source(X):
            self._keep(recover_as(self, self._given_source(X, y, sample_weight, groups), self.width))
        else:
            names = column_names(None, y).outputs
            x, y = read_rows(self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2)
            self._tail = y.shape[1:]
            rows = Labelled.of(x, y, sample_weight, groups, as_loss(self.loss))
            rows.loss.check(y)
            found = answer(rows, self.width, partial(recover_rows, self, rows))
            self._keep(with_columns(found, getattr(self, "feature_names_in_", ()), names))
        self._n_features_out = self.network_.widths[-1]
        return self

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Means of y at the rows of X, in the shape that y had; with `return_std`, also their standard errors (delta method)."""
        network, rows, loss = self.network_, self._rows(X), self.recovery_.loss
        means = loss.mean(network(rows)).reshape(len(rows), *self._tail)
        if not return_std:
            return means
        errors = self.recovery_.predict(rows).se.reshape(means.shape)
        return means, errors * loss.variance(means)  # canonical links: ∂ mean / ∂ output is the variance

    def transform(self, X: Any) -> Array:
        """Values of the hidden units (of the highest layer) at the rows of X, (n, width)."""
        return self.network_.features(self._rows(X))

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self, "recovery_")
        return np.asarray(read_rows(self, X, reset=False))

    def _given_source(self, source: Source, *beside: Any) -> Source:
        """A source as it is: it has its outputs, its law and its threads already."""
        if any(given is not None for given in (*beside, self.law, self.n_jobs)):
            raise InvalidInput(
                f"A {type(source).__name__} was given, and outputs, weights, groups, a law or n_jobs beside it.",
                "A source has all of them already.", "Give them to the source, or give arrays X and y.")
        self.n_features_in_ = source.dim
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._tail = () if source.outputs == 1 else (source.outputs,)
        return source

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


BERNOULLI = Loss("bernoulli")
"""The loss of labels."""

BLOCK_ROWS = 256
"""Rows that are answered at a time. Convention: a multiple of what the kernels of BLAS take at a time, some tens of kilobytes."""


def _in_equal_blocks(network: Network, rows: Array) -> Array:
    """Outputs (n, outputs) that do not depend on the rows beside them: BLAS adds up in another order for other numbers of rows,
    and where classes are separable large parts cancel, so that it shows."""
    padded = np.zeros((-(-len(rows) // BLOCK_ROWS) * BLOCK_ROWS, rows.shape[1]))
    padded[: len(rows)] = rows
    blocks = [np.asarray(network(block)) for block in padded.reshape(-1, BLOCK_ROWS, rows.shape[1])]
    return np.concatenate(blocks)[: len(rows)].reshape(len(rows), -1)


class NetworkClassifier(ClassifierMixin, RecoveredNetwork):  # type: ignore[misc, unused-ignore]
    """The network behind labels: its outputs are log odds, of the second of two classes or of each class against the rest.

    Several classes share their hidden units; probabilities are those of each class against the rest, divided by their sum.

    Parameters
    ----------
    method : RandomStart, optional
        Its search is used; only searches from random units serve labels.
    width : int, optional
        Largest number of hidden units; detected if not given. Where the rows do not support so many there are fewer, with a
        ConvergenceWarning. `recover` takes a width as exact.
    activation : str or Activation
        Of the hidden units.
    random_state : int, RandomState or None
        Same seed, same bits, whatever `n_jobs` is.
    law : Law or its name, optional
        What is assumed about the inputs: "gaussian" (by default), "symmetric", "unknown".
    n_jobs : int, optional
        Threads; by default one for each core.
    progress : callable or True, optional
        Told every step; True: a line on the screen, or in the notebook.

    Attributes
    ----------
    classes_ : array (classes,)
    network_ : Network
    certificate_ : Certificate
    recovery_ : Recovery
    n_iter_ : int
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> import laybare as lb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 2))
    >>> log_odds = 3.0 * np.maximum(x[:, 0] - x[:, 1], 0.0) - 1.0
    >>> y = np.where(rng.random(4000) < 1.0 / (1.0 + np.exp(-log_odds)), "ill", "well")
    >>> model = lb.NetworkClassifier(random_state=0).fit(x, y)
    >>> model.network_.width, model.predict([[2.0, 0.0], [0.0, 2.0]]).tolist()
    (1, ['ill', 'well'])
    """

    def __init__(
        self, method: Any = None, width: Any = None, activation: Any = "relu", random_state: Any = None, *, law: Any = None,
        n_jobs: Any = None, progress: Any = None,
    ) -> None:
        self.method = method
        self.width = width
        self.activation = activation
        self.random_state = random_state
        self.law = law
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> NetworkClassifier:
        """Recover the network behind rows X (n, dim) and labels y (n,); weights and groups as in NetworkRecovery."""
        names = column_names(None, y).outputs
        x, y = read_rows(self, X, y, ensure_min_samples=2)
        with in_own_words("y"):
            check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        columns = [1] if len(self.classes_) == 2 else list(range(len(self.classes_)))
        indicators = np.column_stack([numbers == one for one in columns]).astype(float)
        rows = Labelled.of(x, indicators, sample_weight, groups, BERNOULLI)
        found = answer(rows, self.width, partial(recover_rows, self, rows))
        outputs = names if len(columns) == 1 else tuple(map(str, self.classes_))
        self._keep(with_columns(found, getattr(self, "feature_names_in_", ()), outputs))
        return self

    def decision_function(self, X: Any) -> Array:
        """Log odds of `classes_[1]`, (n,), or of every class against the rest, (n, classes)."""
        check_is_fitted(self, "recovery_")
        rows = read_rows(self, X, reset=False)
        outputs = _in_equal_blocks(self.network_, rows)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of all classes, (n, classes)."""
        odds = self.decision_function(X)
        chances = BERNOULLI.mean(odds)
        if odds.ndim == 1:
            return np.column_stack([1.0 - chances, chances])
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of probabilities, (n, classes); those of two classes keep their digits down to underflow."""
        odds = self.decision_function(X)
        if odds.ndim == 1:
            return -np.column_stack([np.logaddexp(0.0, odds), np.logaddexp(0.0, -odds)])
        each = -np.logaddexp(0.0, -odds)
        return np.asarray(each - logsumexp(each, axis=1, keepdims=True))

    def predict(self, X: Any) -> Array:
        """The likeliest label of every row, (n,)."""
        odds = self.decision_function(X)
        numbers = (odds > 0.0).astype(int) if odds.ndim == 1 else np.argmax(odds, axis=1)
        return np.asarray(self.classes_[numbers])


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

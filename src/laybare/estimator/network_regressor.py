"""NetworkRecovery: `recover` as a regressor of scikit-learn, whose hidden units are features for whatever comes after it."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from laybare.certificate import Certificate
from laybare.errors import InvalidInput
from laybare.estimator.always_answer import Labelled, answer, recover_as, recover_rows, with_columns
from laybare.estimator.sklearn_conventions import NestedParameters, read_rows
from laybare.networks import Network
from laybare.numerics.shapes import Array
from laybare.source import Source
from laybare.source.arrays import column_names
from laybare.source.losses import as_loss
from laybare.source.protocol import is_source


class NetworkRecovery(
    ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin, NestedParameters,  # type: ignore[misc, unused-ignore]
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
            self.recovery_ = recover_as(self, self._given_source(X, y, sample_weight, groups), self.width)
        else:
            names = column_names(None, y).outputs
            x, y = read_rows(self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2)
            self._tail = y.shape[1:]
            rows = Labelled.of(x, y, sample_weight, groups, as_loss(self.loss))
            rows.loss.check(y)
            found = answer(rows, self.width, partial(recover_rows, self, rows))
            self.recovery_ = with_columns(found, getattr(self, "feature_names_in_", ()), names)
        self.n_iter_ = max(1, sum(len(trace.rows) - 1 for trace in self.recovery_.traces))
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

    @property
    def network_(self) -> Network:
        """The recovered network; `network_.save(path)` keeps it without pickle."""
        check_is_fitted(self, "recovery_")
        return self.recovery_.network

    @property
    def certificate_(self) -> Certificate:
        """What is known about the network without the truth."""
        check_is_fitted(self, "recovery_")
        return self.recovery_.certificate

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self, "recovery_")
        rows: Array = read_rows(self, X, reset=False)
        return rows

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

"""Link functions: from the answers of a black box to the outputs of its last layer. Probabilities become log-odds.

For logits z and p = softmax(z), log p_k - log p_0 = z_k - z_0: differences of logits are linear in the last hidden layer, as the
logits are, and a common shift of all logits, which probabilities do not show, cancels. One probability p = 1/(1 + exp(-z)) gives
z = log p - log(1 - p). So a classifier with K classes is a network with K - 1 outputs.

An error ε of p is an error ε / (p (1 - p)) of its log-odds: where p is 0 or 1 to rounding, they carry no information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.checks import show_value
from laybare.numerics.shapes import Array
from laybare.source.rounding import UNIT_ROUNDOFF


@dataclass(frozen=True, kw_only=True)
class LinkOptions:
    """When answers are recognised as probabilities."""

    sum_tol: float = 5e-3  # Largest |sum - 1| of a row of probabilities. Derived: three decimals of ten classes are within it.
    strict_sum_tol: float = 1e-6
    """The same if there are fewer than `min_rows` rows. Derived: float32 probabilities are within it, coincidences are not."""
    min_rows: int = 8
    """Rows from which `sum_tol` is used. Derived: eight rows sum to one within it by chance with probability below (1e-2)^8."""


LINKS = LinkOptions()


@runtime_checkable
class Link(Protocol):
    """A map from answers (n, columns) to outputs (n, outputs), NaN in rows that cannot be used."""

    @property
    def name(self) -> str | None:
        """Its name; None while undecided."""

    def __call__(self, given: Array) -> Array:
        """The outputs of the network behind these answers."""

    def inverse(self, y: Array) -> Array:
        """The answers for these outputs (without the first class, which is one minus the others)."""

    def explain(self, given: Array, query: int) -> InvalidInput:
        """The error for this one answer (columns,), which cannot be used."""


CLASSES_ARE_NOT_ENOUGH = (
    "A class only says on which side of a boundary an input lies; weights are read from how outputs change in between.")


class Identity(NamedTuple):
    """Answers are the outputs."""

    name: str = "identity"

    def __call__(self, given: Array) -> Array:
        return given

    def inverse(self, y: Array) -> Array:
        return y

    def explain(self, given: Array, query: int) -> InvalidInput:
        output = int(np.argmax(~np.isfinite(given)))
        return InvalidInput(
            f"The black box answered {given[output]} to query {query}, output {output} (counted from 0).",
            "Answers must be finite; those before it are kept.",
            "Correct the black box, or use the answers so far: take() the rows before this one.",
            row=query, output=output)


class Logit(NamedTuple):
    """Every column is a probability of its own; two columns that sum to one count as one."""

    name: str = "logit"

    def __call__(self, given: Array) -> Array:
        if given.shape[1] == 2 and _sum_to_one(given, LINKS.sum_tol).all():
            return Softmax()(given)
        p = np.where((given > 0) & (1.0 - given > 4 * _roundoff(given)), given, np.nan)
        return np.asarray(np.log(p) - np.log1p(-p))

    def inverse(self, y: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(y, -700.0, 700.0))))

    def explain(self, given: Array, query: int) -> InvalidInput:
        return _unusable_error(given, query, outside=bool(((given < 0) | (given > 1)).any()))


class Softmax(NamedTuple):
    """A row holds the probabilities of all classes; outputs are log-odds of each class against the first."""

    name: str = "softmax"

    def __call__(self, given: Array) -> Array:
        usable = _sum_to_one(given, LINKS.sum_tol) & (given > 0).all(axis=1) & (1.0 - given.max(axis=1) > 4 * _roundoff(given))
        logs = np.log(np.where(usable[:, None], given, np.nan))
        return np.asarray(logs[:, 1:] - logs[:, :1])

    def inverse(self, y: Array) -> Array:
        z = np.concatenate([np.zeros((len(y), 1)), y], axis=1)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p[:, 1:] / p.sum(axis=1, keepdims=True))

    def explain(self, given: Array, query: int) -> InvalidInput:
        return _unusable_error(given, query, outside=not _sum_to_one(given[None], LINKS.sum_tol).all())


class AutoLink:
    """Softmax if the first answers are rows of probabilities that sum to one, else Identity."""

    def __init__(self) -> None:
        self.link: Link | None = None

    @property
    def name(self) -> str | None:
        return None if self.link is None else self.link.name

    def __call__(self, given: Array) -> Array:
        if self.link is None and len(given):
            self.link = Softmax() if are_probabilities(given) else Identity()
        return (self.link or Identity())(given)

    def inverse(self, y: Array) -> Array:
        return (self.link or Identity()).inverse(y)

    def explain(self, given: Array, query: int) -> InvalidInput:
        return (self.link or Identity()).explain(given, query)


def are_probabilities(given: Array) -> bool:
    """Whether these answers (n, columns) are rows of probabilities of two or more classes."""
    within = LINKS.sum_tol if len(given) >= LINKS.min_rows else LINKS.strict_sum_tol
    return bool(given.shape[1] > 1 and len(given) and _sum_to_one(given, within).all())


def link_named(name: str | None) -> Link:
    """The link of that name; without a name, one that is decided by the first answers."""
    links: dict[str | None, Link] = {None: AutoLink(), "identity": Identity(), "logit": Logit(), "softmax": Softmax()}
    if name is not None and not (isinstance(name, str) and name in links):
        raise InvalidInput(
            f"The link is {show_value(name)}.", "It says what the answers are.",
            "Give 'identity' for outputs, 'logit' for one probability per column, 'softmax' for rows of probabilities, or leave "
            "it out.", link=name)
    return links[name]


def hard_label_error(given: Array) -> InvalidInput | None:
    """The error for answers that are class numbers or one-hot rows; None for others."""
    numbered = given.dtype.kind in "iu" and (given.ndim == 1 or given.shape[1:] == (1,))
    one_hot = given.ndim == 2 and given.shape[1] > 1 and len(given) >= LINKS.min_rows and bool(
        np.isin(given, (0, 1)).all() and (given.sum(axis=1) == 1).all())
    if not (numbered or one_hot):
        return None
    shown = f"whole numbers, such as {given.flat[0]}" if numbered else "rows of zeros with a single one"
    return InvalidInput(
        f"The black box answers {shown}: these look like classes, not outputs.",
        CLASSES_ARE_NOT_ENOUGH,
        "Ask for probabilities (predict_proba) or logits, and smaller inputs if these are probabilities of 0 or 1; if they are "
        "values of a function, give link='identity'.")


def describe(link: Link) -> str:
    """How the answers are used, for a report."""
    if link.name is None:
        return "Nothing has been asked yet."
    if link.name == "identity":
        return "Answers are taken as the outputs of the network."
    how = "recognised as" if isinstance(link, AutoLink) else "given as"
    how += " probabilities (rows in [0, 1] that add to one)" if link.name == "softmax" else " probabilities"
    return f"Answers are {how} and turned into log-odds" + (" against the first class." if link.name == "softmax" else ".")


def _sum_to_one(given: Array, within: float) -> Array:
    return np.asarray(((given >= 0) & (given <= 1)).all(axis=1) & (np.abs(given.sum(axis=1) - 1) <= within))


def _roundoff(given: Array) -> float:
    """Unit roundoff of the answers: that of float32 if all are float32 numbers."""
    single = np.array_equal(given, given.astype(np.float32), equal_nan=True)
    return UNIT_ROUNDOFF["float32" if single else "float64"]


def _unusable_error(given: Array, query: int, *, outside: bool) -> InvalidInput:
    shown = ", ".join(f"{number:.6g}" for number in given[:4]) + (", ..." if len(given) > 4 else "")
    if not np.isfinite(given).all():
        return Identity().explain(given, query)
    if outside:
        return InvalidInput(
            f"The black box answered ({shown}) to query {query}, which are not probabilities.",
            "They lie in [0, 1], and those of all classes sum to one.",
            "Give link='identity' if these are outputs, 'logit' if every column is a probability of its own.", row=query)
    return InvalidInput(
        f"The black box answered ({shown}) to query {query}: probabilities that are 0 or 1 to rounding.",
        "Their log-odds are infinite or noise and carry no information about weights; the answers before it are kept.",
        "Ask smaller inputs, for instance law=lb.Gaussian(0, 0.1), or in a box where no class is certain; hard labels (argmax) "
        "cannot be used.", row=query)

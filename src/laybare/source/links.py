"""From what a black box answers to what its last layer computed: probabilities become log-odds.

For logits z and p = softmax(z), log p_k - log p_0 = z_k - z_0: differences of logits are as linear in the last hidden layer as
the logits are, and a common shift of all logits, which no probability shows, drops out. One probability p = 1/(1 + exp(-z)) gives
z = log p - log(1 - p). So a classifier with K classes is a network with K - 1 outputs.

An error ε of p is an error ε / (p (1 - p)) of its log-odds: where p is 0 or 1 to rounding, nothing is left of them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.rounding import BINARY

ADDS_UP = 5e-3
"""How far rows of probabilities may be from adding to one: two decimals of a hundred are not; three of ten are."""

AT_A_GLANCE = 1e-6
"""The same where fewer than eight rows are seen, and a coincidence cannot be excluded otherwise; float32 keeps it."""

SURE = 8
"""Rows of which each adds to one within ADDS_UP: by chance in fewer than one of 1e16 cases."""


@runtime_checkable
class Link(Protocol):
    """What becomes of answers (n, columns): (n, outputs), NaN in rows that cannot be used, and why one cannot."""

    @property
    def name(self) -> str | None:
        """How it is called; None as long as that is not decided."""

    def __call__(self, given: Array) -> Array:
        """The outputs of the network behind these answers."""

    def back(self, y: Array) -> Array:
        """Answers that outputs came from (of the first class nothing is said: it is one minus the others)."""

    def why(self, given: Array, query: int) -> InvalidInput:
        """What is wrong with this one answer (columns,)."""


class Identity(NamedTuple):
    """Answers are the outputs."""

    name: str = "identity"

    def __call__(self, given: Array) -> Array:
        return given

    def back(self, y: Array) -> Array:
        return y

    def why(self, given: Array, query: int) -> InvalidInput:
        output = int(np.argmax(~np.isfinite(given)))
        return InvalidInput(
            f"The black box answered {given[output]} to query {query}, output {output} (counted from 0).",
            "Answers must be finite; those before it are kept.",
            "Mend the black box, or work with the answers that are there: take() the rows before this one.",
            row=query, output=output)


class Logit(NamedTuple):
    """Every column is a probability by itself; two columns that add to one are one."""

    name: str = "logit"

    def __call__(self, given: Array) -> Array:
        if given.shape[1] == 2 and _add_up(given, ADDS_UP).all():
            return Softmax()(given)
        p = np.where((given > 0) & (1.0 - given > 4 * _unit(given)), given, np.nan)
        return np.asarray(np.log(p) - np.log1p(-p))

    def back(self, y: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(y, -700.0, 700.0))))

    def why(self, given: Array, query: int) -> InvalidInput:
        return _unusable(given, query, outside=bool(((given < 0) | (given > 1)).any()))


class Softmax(NamedTuple):
    """A row holds the probabilities of all classes; outputs are log-odds of each class against the first."""

    name: str = "softmax"

    def __call__(self, given: Array) -> Array:
        usable = _add_up(given, ADDS_UP) & (given > 0).all(axis=1) & (1.0 - given.max(axis=1) > 4 * _unit(given))
        logs = np.log(np.where(usable[:, None], given, np.nan))
        return np.asarray(logs[:, 1:] - logs[:, :1])

    def back(self, y: Array) -> Array:
        z = np.concatenate([np.zeros((len(y), 1)), y], axis=1)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p[:, 1:] / p.sum(axis=1, keepdims=True))

    def why(self, given: Array, query: int) -> InvalidInput:
        return _unusable(given, query, outside=not _add_up(given[None], ADDS_UP).all())


class LinkFinding:
    """Decides at the first answers: rows of probabilities that add to one are taken as log-odds, anything else as it is."""

    def __init__(self) -> None:
        self.link: Link | None = None

    @property
    def name(self) -> str | None:
        return None if self.link is None else self.link.name

    def __call__(self, given: Array) -> Array:
        if self.link is None and len(given):
            self.link = Softmax() if are_probabilities(given) else Identity()
        return (self.link or Identity())(given)

    def back(self, y: Array) -> Array:
        return (self.link or Identity()).back(y)

    def why(self, given: Array, query: int) -> InvalidInput:
        return (self.link or Identity()).why(given, query)


def are_probabilities(given: Array) -> bool:
    """Whether these answers (n, columns) are rows of probabilities of two or more classes."""
    within = ADDS_UP if len(given) >= SURE else AT_A_GLANCE
    return bool(given.shape[1] > 1 and len(given) and _add_up(given, within).all())


def link_named(name: str | None) -> Link:
    """The link of that name; without one it is found out."""
    links: dict[str | None, Link] = {None: LinkFinding(), "identity": Identity(), "logit": Logit(), "softmax": Softmax()}
    if name not in links:
        raise InvalidInput(
            f"The link is {name!r}.", "It says what the answers are.",
            "Give 'identity' for outputs, 'logit' for one probability a column, 'softmax' for rows of probabilities, or leave it "
            "out.", link=name)
    return links[name]


def hard_labels(given: Array) -> InvalidInput | None:
    """A refusal if answers are class numbers or one-hot rows."""
    numbered = given.dtype.kind in "iu" and (given.ndim == 1 or given.shape[1:] == (1,))
    one_hot = given.ndim == 2 and given.shape[1] > 1 and len(given) >= SURE and bool(
        np.isin(given, (0, 1)).all() and (given.sum(axis=1) == 1).all())
    if not (numbered or one_hot):
        return None
    shown = f"whole numbers, such as {given.flat[0]}" if numbered else "rows of zeros with a single one"
    return InvalidInput(
        f"The black box answers {shown}: these look like classes, not outputs.",
        "A class only tells on which side of a border an input lies; weights are read from how outputs change in between.",
        "Ask for probabilities (predict_proba) or logits, and smaller inputs if these are probabilities that are 0 or 1; if they "
        "are values of a function, say link='identity'.")


def sentence(link: Link) -> str:
    """What was made of the answers, for a report."""
    if link.name is None:
        return "Nothing has been asked yet."
    if link.name == "identity":
        return "Answers are taken as the outputs of the network."
    how = "recognised as" if isinstance(link, LinkFinding) else "told to be"
    how += " probabilities (rows in [0, 1] that add to one)" if link.name == "softmax" else " probabilities"
    return f"Answers are {how} and turned into log-odds" + (" against the first class." if link.name == "softmax" else ".")


def _add_up(given: Array, within: float) -> Array:
    return np.asarray(((given >= 0) & (given <= 1)).all(axis=1) & (np.abs(given.sum(axis=1) - 1) <= within))


def _unit(given: Array) -> float:
    """Rounding of a number near one: that of float32 if all these numbers are such."""
    single = np.array_equal(given, given.astype(np.float32), equal_nan=True)
    return BINARY["float32" if single else "float64"]


def _unusable(given: Array, query: int, *, outside: bool) -> InvalidInput:
    shown = ", ".join(f"{number:.6g}" for number in given[:4]) + (", ..." if len(given) > 4 else "")
    if not np.isfinite(given).all():
        return Identity().why(given, query)
    if outside:
        return InvalidInput(
            f"The black box answered ({shown}) to query {query}, which are no probabilities.",
            "They lie in [0, 1], and those of all classes add to one.",
            "Say link='identity' if these are outputs, 'logit' if every column is a probability by itself.", row=query)
    return InvalidInput(
        f"The black box answered ({shown}) to query {query}: probabilities that are 0 or 1 to rounding.",
        "Their log-odds are infinite or noise, so that no weight can be read there; the answers before it are kept.",
        "Ask smaller inputs, for instance law=lb.Gaussian(0, 0.1), or in a box where no class is certain; classes (argmax) "
        "instead of probabilities cannot be used at all.", row=query)

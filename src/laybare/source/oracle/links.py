"""Link functions: from the answers of a black box to the outputs of its last layer. Probabilities become log-odds.

For logits z and p = softmax(z), log p_k - log p_0 = z_k - z_0: differences of logits are linear in the last hidden layer, as the
logits are, and a common shift of all logits, which probabilities do not show, cancels. One probability p = 1/(1 + exp(-z)) gives
z = log p - log(1 - p). So a classifier with K classes is a network with K - 1 outputs.

A floating-point number keeps its relative digits however small it is: probabilities of a softmax tell log-odds to rounding until
they underflow (1e-38 in float32, 1e-308 in float64). Where a class is computed as 1 - p, its digits end at the roundoff of 1,
and small multiples of it carry no information. Of two classes the smaller one tells the log-odds, point by point.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.checks import show_value
from laybare.numerics.shapes import Array
from laybare.source.rounding import UNIT_ROUNDOFF, Rounding, detect_grid


@dataclass(frozen=True, kw_only=True)
class LinkOptions:
    """When answers are recognised as probabilities."""

    sum_tol: float = 5e-3  # Largest |sum - 1| of a row of probabilities. Derived: three decimals of ten classes are within it.
    strict_sum_tol: float = 1e-6
    """The same if there are fewer than `min_rows` rows. Derived: float32 probabilities are within it, coincidences are not."""
    left_over: float = 64.0  # roundoffs: fewer are what 1 - p leaves. Derived: log-odds are then known to a per cent at best.
    small: float = 2.0**-6  # probabilities that show where digits end. Derived: a full one is a multiple by chance once in 16.
    finer: float = 4.0  # 1 - p and 1/2 + q end at roundoff over this. Derived: the last digit of numbers just below 1/2.
    min_small: int = 8  # of these that are no multiples of that. Derived: 16^-8 by chance.
    remembered: int = 512  # rows of answers that are looked at. Convention: half a block.
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
            "Correct the black box, or keep queries away from such inputs with box=(low, high).",
            row=query, output=output)


@dataclass(eq=False)
class Logit:
    """Every column is a probability of its own; two columns that sum to one count as one."""

    name: str = "logit"
    seen: list[Array] = field(default_factory=list)

    def __call__(self, given: Array) -> Array:
        if given.shape[1] == 2 and _sum_to_one(given, LINKS.sum_tol).all():
            return Softmax(seen=self.seen)(given)
        _remember(self.seen, given)
        other = 1.0 - given
        p = np.where(_has_digits(given) & _has_digits(other, _roundoff(given)), given, np.nan)
        return np.asarray(np.log(p) - np.log1p(-p))

    def inverse(self, y: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(y, -700.0, 700.0))))

    def explain(self, given: Array, query: int) -> InvalidInput:
        return _unusable_error(given, query, outside=bool((np.abs(given - 0.5) > 0.5 + LINKS.sum_tol).any()))


@dataclass(eq=False)
class Softmax:
    """A row holds the probabilities of all classes; outputs are log-odds of each class against the first."""

    name: str = "softmax"
    seen: list[Array] = field(default_factory=list)

    def __call__(self, given: Array) -> Array:
        if given.shape[1] == 1:
            raise InvalidInput(
                "The black box gives one answer to each input.", "A softmax has one probability for each of several classes.",
                "Give link='logit' if it is the probability of one class, 'identity' if it is an output.")
        _remember(self.seen, given)
        usable = _sum_to_one(given, LINKS.sum_tol) & _has_digits(given).all(axis=1)
        p = np.where(usable[:, None], given, np.nan)
        if given.shape[1] == 2:
            first = p[:, :1] < p[:, 1:]
            smaller = p.min(axis=1, keepdims=True)
            return np.asarray(np.where(first, -1.0, 1.0) * (np.log(smaller) - np.log1p(-smaller)))
        logs = np.log(p)
        return np.asarray(logs[:, 1:] - logs[:, :1])

    def inverse(self, y: Array) -> Array:
        z = np.concatenate([np.zeros((len(y), 1)), y], axis=1)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p[:, 1:] / p.sum(axis=1, keepdims=True))

    def explain(self, given: Array, query: int) -> InvalidInput:
        return _unusable_error(given, query, outside=not _sum_to_one(given[None], LINKS.sum_tol).all())


def resolution_of(link: Link) -> Rounding | None:
    """The grid of the probabilities seen so far, and on which sides small ones keep their digits; None for outputs."""
    chosen = link.link if isinstance(link, AutoLink) else link
    if not isinstance(chosen, Logit | Softmax) or not chosen.seen:
        return None
    p = np.vstack(chosen.seen)
    first, others = (1.0 - p, p) if p.shape[1] == 1 or (chosen.name == "logit" and p.shape[1] > 2) else (p[:, :1], p[:, 1:])
    lossy = _ends_at_roundoff(others, p), (isinstance(chosen, Logit) and p.shape[1] != 2) or _ends_at_roundoff(first, p)
    return replace(detect_grid(p[(p > 0.0) & (p < 1.0)][None]), log_odds=True, lossy=lossy)


def _remember(seen: list[Array], given: Array) -> None:
    if sum(map(len, seen)) < LINKS.remembered:
        seen.append(given[: LINKS.remembered])


def _has_digits(p: Array, roundoff: float | None = None) -> Array:
    """Whether probabilities are neither 0 nor below the normal numbers, nor a few roundoffs left over by 1 - p."""
    unit = _roundoff(p) if roundoff is None else roundoff
    tiny = float(np.finfo(np.float32 if unit > UNIT_ROUNDOFF["float64"] else np.float64).tiny)
    return np.asarray((p >= tiny) & ~_left_over(p, unit))


def _left_over(p: Array, unit: float) -> Array:
    """Whether they are so small and whole multiples of the roundoff: by chance one number in 2^18 is."""
    steps = p / (unit / LINKS.finer)
    return np.asarray((steps < LINKS.finer * LINKS.left_over) & (steps == np.round(steps)))


def _ends_at_roundoff(p: Array, all_p: Array) -> bool:
    """Whether small probabilities are whole multiples of the roundoff, as 1 - p is; also if too few are small to tell."""
    unit = _roundoff(all_p) / LINKS.finer
    small = p[(p > 0.0) & (p < LINKS.small)] / unit
    return bool(np.sum(small != np.round(small)) < LINKS.min_small)


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
            "Give link='identity' if these are outputs, 'logit' if every column is a probability of its own.", row=query,
            outside=True)
    return InvalidInput(
        f"The black box answered ({shown}) to query {query}: probabilities that are 0 or 1 to rounding.",
        "Their log-odds are infinite or noise and carry no information about weights; the answers before it are kept.",
        "Ask smaller inputs, for instance law=lb.Gaussian(0, 0.1), or in a box where no class is certain; hard labels (argmax) "
        "cannot be used.", row=query)

"""Lines: a piecewise linear network read out of a black box, at about one query per parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.errors import InvalidInput
from laybare.lines import LinesFound, Patience, Reader, read_network
from laybare.lines.deep import DeepFound, read_deep
from laybare.lines.search import Watch
from laybare.shapes import Progress, tell
from laybare.source import Oracle


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Hidden layers of ReLU-like units from queries at chosen points.

    On a line through the input space every unit bends the outputs exactly once, and the gradient jumps there by its weights times
    its readout: (width + 1)(dim + 1) queries for as many unknowns, and a few per unit to find the kinks. Further lines must show
    nothing new; Gauss-Newton on everything that was paid for gives the last digits. Needs a black box that answers without noise,
    and that is piecewise linear: anything else is recognised within a hundred queries and refused with the reason.

    With depth=None (or more than 1) the lowest layer is told from the others by following its kinks far away, read, and taken
    off; the rest is a black box on its features, one layer shorter (`laybare.lines.deep`). ReLU units, no box, no layer wider
    than its input; what cannot be had is said in the certificate, and the layers that are complete are a result.

    Parameters
    ----------
    depth : int or None
        Hidden layers: 1, at most so many, or None: as many as there are.
    activation : Activation or None
        relu, leaky_relu(slope) or absolute; None: found out.
    precision : float, optional
        Wanted accuracy of weights and biases; by default what the answers allow, down to about 1e-10.
    spread : float
        Scale of the inputs at which the network is used.
    patience : Patience, optional
        How many lines must show nothing new.

    References
    ----------
    Milli et al. (2019), Jagielski et al. (2020), Rolnick and Kording (2020), Carlini, Jagielski and Mironov (2020) for kinks and
    jumps; the economy of queries is ours (see `laybare.lines`).
    """

    depth: int | None = 1
    activation: Activation | None = relu
    precision: float | None = None
    spread: float = 1.0
    patience: Patience | None = None

    def read(
        self, oracle: Oracle, *, watch: Watch | None = None, rng: Generator, progress: Progress | None = None
    ) -> LinesFound:
        """The network behind the black box, or as much of it as the budget allows; `watch` may refuse it early."""
        check_activation(self.activation)
        tell(progress, "lines", oracle.spent, oracle.budget)
        reader = Reader(
            activation=self.activation, precision=self.precision, spread=self.spread, patience=self.patience, watch=watch,
            log_odds=oracle.spent > 0 and oracle.taken_as != "identity")
        box = None if oracle.box is None else (oracle.box.low, oracle.box.high)
        return read_network(
            oracle.ask, oracle.dim, reader, budget=oracle.budget - oracle.spent, box=box, purpose=oracle.purpose, rng=rng)

    def read_deep(self, oracle: Oracle, *, rng: Generator, progress: Progress | None = None) -> DeepFound:
        """The layers behind the black box, one after the other."""
        _check_deep(self, oracle)
        tell(progress, "lines", oracle.spent, oracle.budget)
        return read_deep(
            oracle.ask, oracle.dim, depth=self.depth, budget=oracle.budget - oracle.spent, spread=self.spread,
            purpose=oracle.purpose, rng=rng)

    def read_lowest(self, oracle: Oracle, *, rng: Generator, progress: Progress | None = None) -> DeepFound:
        """The lowest layer behind the black box alone."""
        return replace(self, depth=1).read_deep(oracle, rng=rng, progress=progress)


def deep_applies(activation: Activation | None, oracle: Oracle) -> bool:
    """Whether layers can be taken off one after the other."""
    return activation in (None, relu) and oracle.box is None


def _check_deep(method: Lines, oracle: Oracle) -> None:
    if not deep_applies(method.activation, oracle):
        raise InvalidInput(
            f"depth={method.depth} was given, for {method.activation.name if method.activation else 'unknown'} units"
            f"{'' if oracle.box is None else ' in a box'}.",
            "Several layers are read for ReLU units and without a box only.", "Use depth=1, or give no box.")
    if method.depth is not None and method.depth < 1:
        raise InvalidInput(
            f"depth={method.depth} was given.", "A network has at least one hidden layer.", "Give 1 or more, or None.")


def applies(activation: Activation | None) -> bool:
    """Whether units of this kind bend along lines and are straight elsewhere."""
    return activation is None or (activation.degree == 1 and bool(activation.kinks))


def check_activation(activation: Activation | None) -> None:
    """Refuse units that do not show as kinks."""
    if not applies(activation):
        raise InvalidInput(
            f"The activation is {activation.name if activation is not None else None}.",
            "Lines show kinks between straight pieces: ReLU, leaky ReLU and the absolute value have them.",
            "Use RandomStart(activation=...) on samples of the black box.")

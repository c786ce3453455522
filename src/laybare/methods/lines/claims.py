"""What a certificate says about a network that was read along lines. Nothing here needs the truth.

The proof that nothing is missing is statistical: every kink of the last lines, through fresh random points, was predicted, and so
were answers at random points that nothing else had seen.
"""

from __future__ import annotations

import numpy as np

from laybare.certificate import Certificate, Claim, StandardErrors
from laybare.lines import LinesFound
from laybare.lines.polishing import SURPRISE
from laybare.networks import Network
from laybare.shapes import Array

COARSE = 1e-2
"""Error bar beyond which a weight is not known: a hundredth of the length of its row."""


def lines_certificate(found: LinesFound, network: Network, width: int | None = None) -> Certificate:
    """Claims about what was read, with error bars of every number of `network`; `width` if it was told."""
    claims = (
        _complete(found), *_told(found, width), _quiet(found), _predicted(found), _known(found), _signs(found), *_notes(found))
    level = float(np.max(found.rounding.sd(np.zeros((1, network.dim)), np.ones((1, network.outputs)))))
    return Certificate(claims, error_bars(found.error_bar, network), level)


def error_bars(bar: float, network: Network) -> StandardErrors:
    """The largest error bar of the units, for every number of the lowest layer and the readout in proportion to its own size."""
    rows = np.linalg.norm(network.layer.weights, axis=1)
    biases = np.asarray(network.layer.biases)
    size = float(np.abs(network.readout).max(initial=0.0)) * float(rows.max(initial=1.0))
    weights: Array = bar * np.repeat(rows[:, None], network.dim, axis=1)
    return StandardErrors(
        weights, bar * np.maximum(rows, np.abs(biases)), bar * np.abs(network.readout),
        np.full(np.shape(network.offset), bar * size))


def _complete(found: LinesFound) -> Claim:
    spent = sum(found.queries.values())
    told = ", ".join(f"{count:,} for {purpose}" for purpose, count in found.queries.items())
    text = f"{spent:,} queries: {told}. Units that share a hyperplane and its active side are one: no query tells them apart."
    if not found.complete:
        text += f" They ended before the network was complete; about {found.needed or 2 * spent:,} would do."
    return Claim("units read", float(found.width), float(found.width), found.complete, "tested", text)


def _told(found: LinesFound, width: int | None) -> tuple[Claim, ...]:
    if width is None:
        return ()
    return (Claim(
        "width that was told", float(found.width), float(width), found.width == width, "tested",
        f"{found.width} units were read, {width} were told. Units on one hyperplane are one, and what never bends is no unit."),)


def _quiet(found: LinesFound) -> Claim:
    return Claim(
        "last lines that showed nothing new", float(found.quiet), 1.0, found.quiet >= 1, "tested",
        f"of {found.lines} lines through random points; every kink on them was predicted by a unit that was known. A unit that "
        "no line has met is not seen: those active far from all lines, or outside of the box.")


def _predicted(found: LinesFound) -> Claim:
    worst = float(found.fresh.max()) if len(found.fresh) else np.inf
    return Claim(
        "fresh answers against predictions", worst, SURPRISE, worst <= SURPRISE, "tested",
        f"largest difference at {len(found.fresh)} random points that nothing else used, in standard deviations of rounding and "
        "of the prediction; a larger one means that something is missing.", decisive=found.complete and len(found.fresh) > 0)


def _known(found: LinesFound) -> Claim:
    return Claim(
        "largest error bar of a unit", found.error_bar, COARSE, bool(found.error_bar < COARSE), "tested",
        f"standard deviation of a weight, a distance or a relative readout; the answers are resolved as {found.rounding.kind}.")


def _signs(found: LinesFound) -> Claim:
    text = "the gradients decide which side of every kink is the active one." if found.signs_unique else (
        "several choices of the active sides give the same function: no query can tell them apart." if found.signs_searched else
        f"which side of a kink is the active one was not looked for: {found.width} units beside {found.network.dim} inputs leave "
        "too many patterns. Hyperplanes, readouts and function are known; a linear part stands for what is open.")
    return Claim("sign patterns that fit", 1.0 if found.signs_unique else 2.0, 1.0, found.signs_unique, "proved", text)


def _notes(found: LinesFound) -> tuple[Claim, ...]:
    """What is to be said about the units, for the reader."""
    return tuple(Claim("remark", 0.0, 0.0, True, "tested", note) for note in found.notes)

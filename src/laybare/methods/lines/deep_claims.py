"""What a certificate says about a network of several layers that was read along lines. Nothing here needs the truth.

A layer is complete if every measured gradient is a combination of its rows that vanishes where they are off; a network, if it
predicts fresh answers. What neither test can see is a unit that was off wherever anything was asked.
"""

from __future__ import annotations

import numpy as np

from laybare.certificate import Certificate, Claim
from laybare.lines.deep import DeepFound
from laybare.lines.layers import LayerRead
from laybare.methods.lines.claims import COARSE, error_bars
from laybare.networks import Network

FITS = 30.0
"""Misfit of the polish, in standard deviations, beyond which something is wrong."""


def deep_certificate(found: DeepFound, network: Network, depth: int | None = None) -> Certificate:
    """Claims about every layer and about the whole; `depth` if it was told."""
    claims = (
        _complete(found), *_told(found, depth), *(layer_claim(read, level) for level, read in enumerate(found.reads)),
        *_sides(found), _predicted(found),
        *_fits(found), _known(found))
    level = float(np.max(found.rounding.sd(np.zeros((1, network.dim)), np.ones((1, network.outputs)))))
    return Certificate(claims, error_bars(found.error_bar, network), level)


def _complete(found: DeepFound) -> Claim:
    told = ", ".join(f"{count:,} for {purpose}" for purpose, count in found.queries.items())
    text = f"{sum(found.queries.values()):,} queries: {told}."
    if found.trouble:
        text += f" {found.trouble[0].upper()}{found.trouble[1:]}."
    if found.network.top is not None:
        text += " What lies above the layers that are known is the black box itself."
    known = sum(not read.trouble for read in found.reads)
    return Claim("layers read", float(known), float(len(found.reads)), found.complete, "tested", text)


def _told(found: DeepFound, depth: int | None) -> tuple[Claim, ...]:
    if depth is None:
        return ()
    known = sum(not read.trouble for read in found.reads)
    text = f"{known} layers were read, {depth} were told. A layer without a unit that bends is no layer."
    return (Claim("depth that was told", float(known), float(depth), known == depth, "tested", text),)


def layer_claim(read: LayerRead, level: int) -> Claim:
    """What the lines have told about one layer, and what they cannot."""
    seen = read.seen
    looked = f"{seen.lines} lines looked, the last {seen.quiet} brought no unit; {seen.bent} kinks belong to layers above."
    text = f"{_what(read, level)}{_folded(read)} {looked}" + (f" Incomplete: {read.trouble}." if read.trouble else "")
    width = float(len(read.biases))
    return Claim(f"units of layer {level + 1}", width, width, not read.trouble, "tested", text)


def _sides(found: DeepFound) -> tuple[Claim, ...]:
    untold = sum(read.untold for read in found.reads)
    if not untold:
        return ()
    return (Claim(
        "units whose active side is not told", float(untold), 0.0, False, "tested",
        "relu(z) = relu(-z) + z: beside units that never bend, either side gives the same function with as many units."),)


def _folded(read: LayerRead) -> str:
    if not read.folded:
        return ""
    stand = "1 unit that never bends stands" if read.folded == 1 else f"{read.folded} units that never bend stand"
    return f" {stand} for an affine map of the features: how many there were, and their biases, no answer tells."


def _what(read: LayerRead, level: int) -> str:
    folded = "Units that never bend where inputs can reach are part of what lies above"
    if level == 0:
        return "Coefficients of all gradients vanish where a unit is off. A unit that what lies above hides is not seen."
    if level == 1:
        return f"Lines along every feature meet each unit that bends anywhere, unless what lies above hides it. {folded}."
    if len(read.seen.floor.layers) == 1:
        return f"Lines went along every feature that inputs can reach alone, and to every weight that was not known. {folded}."
    return f"Read where all units below are active; what bends only elsewhere shows in fresh answers alone. {folded}."


def _predicted(found: DeepFound) -> Claim:
    worst = float(found.fresh.max()) if len(found.fresh) else np.inf
    return Claim(
        "fresh answers against predictions", worst, 1.0, worst <= 1.0, "tested",
        f"largest difference at {len(found.fresh)} random points that nothing else used, relative to what rounding and error "
        "bars allow; a larger one means that a unit is missing.")


def _fits(found: DeepFound) -> tuple[Claim, ...]:
    if not np.isfinite(found.misfit):
        return ()
    return (Claim(
        "misfit of the joint fit", found.misfit, FITS, found.misfit <= FITS, "tested",
        "root mean square over the answers that all layers together were fitted to, in standard deviations of rounding; where "
        "there are too many numbers for one fit, of rounding and of what their errors make of the answers."),)


def _known(found: DeepFound) -> Claim:
    return Claim(
        "largest error bar of a number", found.error_bar, COARSE, bool(found.error_bar < COARSE), "tested",
        f"standard deviation of a weight or bias; the answers are resolved as {found.rounding.kind}.")

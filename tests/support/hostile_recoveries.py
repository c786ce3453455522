"""Recoveries of single cases of the study `hostile`, and what their certificates say."""

from __future__ import annotations

import numpy as np

import laybare as lb
from laybare.studies.certificates import is_right, recover
from laybare.studies.hostile_cases import FAMILIES


def hostile(family: str, seed: int) -> tuple[lb.Recovery, bool]:
    """The case of the study `hostile` with that seed."""
    case = FAMILIES[family](np.random.default_rng([seed, sum(map(ord, family))]))
    found = recover(case.source, lb.RandomStart(activation=case.activation), case.width, rng=seed)
    return found, is_right(found, case)


def failed(found: lb.Recovery) -> set[str]:
    return {claim.name for claim in found.certificate.checks if not claim.passed}


def named(found: lb.Recovery, name: str) -> lb.Claim:
    return next(claim for claim in found.certificate.checks if claim.name == name)

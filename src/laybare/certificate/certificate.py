"""Claims with numbers, the limits they are held to, and the verdict they add up to.

A certificate of samples makes five statements, each the opposite of one way to be wrong: the function is not elsewhere, every
unit is needed, every parameter lies in its interval, no other minimum fits as well, rows are independent. A network is verified
if all five stand. Each rests on checks, which explain it (`Claim.explanations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from textwrap import fill
from typing import NamedTuple

import numpy as np

from laybare.networks import Network
from laybare.numerics.checks import check_number
from laybare.numerics.shapes import Array


class ClaimName:
    """Names of the statements and checks of a certificate of samples, and of other claims."""

    FUNCTION = "no other function predicts better"
    UNITS = "every unit is needed"
    INTERVALS = "every parameter lies in its interval"
    MINIMUM = "no other minimum fits as well"
    ROWS = "every row is like every other"

    EQUATIONS = "equations per unknown"
    FRESH_RESIDUAL = "fresh residual over used residual"
    CHALLENGERS = "what the best challenger gains"
    RESIDUAL_STRUCTURE = "structure left in the residual"
    RIVAL_ACTIVATION = "gain of another activation"
    ONE_UNIT_MORE = "gain of one more unit"
    ONE_UNIT_FEWER = "loss of one unit fewer"
    SMALLEST_VISIBLE_UNIT = "smallest unit that would have been seen"  # of fits by likelihood
    LARGEST_COSINE = "largest cosine of two units"  # of a lowest layer
    KINK_CROSSED = "samples beyond the least crossed kink"
    BETWEEN_KINKS = "samples between the two closest kinks"
    TIED_LABELS = "labels tied at their largest or smallest"
    RELATIVE_ERROR = "largest relative standard error of a unit"
    DISTANCE_TO_MINIMUM = "distance to the minimum in standard errors"
    OTHER_MINIMA = "loss of the best other minimum"
    RUN_AGREEMENT = "two runs ended at this fit"
    NEIGHBOURS = "residuals of neighbouring rows"
    DRIFT = "drift of the black box"
    REPEATS = "answers that differ when asked again"
    LACK_OF_FIT = "residual against the noise of repeats"
    FRESH_ANSWERS = "fresh answers against predictions"
    UNITS_READ = "units read"
    LAYERS_READ = "layers read"
    UNITS_OF_LAYER = "units of layer"  # and its number
    FIRST_LOOK = "queries of the first look"
    LINES_BEFORE = "queries of lines before samples"
    GIVEN_WIDTH = "width that was given"
    GIVEN_DEPTH = "depth that was given"
    QUIET_LINES = "last lines that showed nothing new"
    UNIT_ERROR_BAR = "largest error bar of a unit"
    PARAMETER_ERROR_BAR = "largest error bar of a number"
    UNDECIDED_SIDES = "units whose active side is undecided"
    JOINT_FIT = "misfit of the joint fit"
    OPEN_WEIGHTS = "weights that no answer has told"
    CERTIFICATE_FINISHED = "certificate finished"
    REFINEMENT_FINISHED = "refinement finished"
    TIME_LIMIT = "seconds until time ended"
    WORK_LIMIT = "counted seconds until work ended"
    SIGN_PATTERNS = "sign patterns that fit"
    METHODS_TRIED = "methods tried"
    TIED_ACTIVATIONS = "activations that fit as well"
    HIDDEN_UNITS = "hidden units that the rows support"
    COLUMNS_LEFT_OUT = "columns left out"


@dataclass(frozen=True, kw_only=True)
class CertificateRules:
    """Limits of the claims. Gains are doubled log-likelihood ratios; "penalty" is the BIC penalty of one unit (`evidence`)."""

    sigmas: float = 4.0
    """Standard deviations that chance is allowed in a test: one false alarm in 30,000. Checked by `laybare reproduce hostile`."""
    refuting_evidence: float = 4.5
    """-log10 of a chance beyond which a test refutes. Derived: the normal tail beyond `sigmas` standard deviations."""
    doubting_evidence: float = 2.0
    """-log10 of the chance beyond which residual structure makes a network doubtful; wrong activations that nothing else showed
    stood at 2.4 to 3.6. Checked by `laybare reproduce hostile`."""
    suspicious_evidence: float = 0.5
    """-log10 of the chance, all tests counted, from which the residual is tested further. Checked by
    `laybare reproduce hostile`."""

    min_equations_per_unknown: float = 1.2
    """For exact fits: a sixth of the equations is left to check the fit, ... Checked by `laybare reproduce hostile`."""
    enough_spare_equations: int = 16
    """... or this many. Derived: as `ProblemOptions.min_held_out`, a wrong unit that is off on half of the inputs meets them all
    with a chance of 2⁻¹⁶."""
    min_equations_per_unknown_noisy: float = 6.0
    """Where the residual may be noise or not. Checked by `laybare reproduce hostile`."""

    clear_unit_gain: float = 1.5
    """Penalties from which a unit is real: noise reaches 1.07, clearly visible units 2.8. Below it other places for a unit are
    tried. Checked by `laybare reproduce hostile`."""
    suspicious_unit_gain: float = 0.85
    """Penalties that noise does not reach: beside right networks a further unit gained 0.8 at most (a function that is no network
    0.97, two opposite units in place of four 0.88). From here on a unit that is there is needed, and one more beside a linear
    part suspicious. Checked by `laybare reproduce plain-noise`."""
    indispensable_unit_gain: float = 20.0
    """Penalties from which the second least important unit is not tried. Checked by `laybare reproduce plain-noise`."""
    dropped_units: int = 2
    """Units that are tried to leave out: those that look cheapest. Checked by `laybare reproduce plain-noise`."""

    nearly_parallel_cosine: float = 0.98
    """|cosine| from which two units trade weight along a curve, where a linear theory of errors fails earlier. Checked by
    `pytest tests/certificate/test_local_minima.py`."""
    noisy_kink_factor: int = 2
    """With noise, samples on the thinner side of a kink over dim + 2: on fewer a unit follows noise. Checked by
    `laybare reproduce hostile`."""
    max_steps_to_minimum: float = 1.0
    """Standard errors between the network and the nearest minimum of the squared error. Checked by
    `laybare reproduce coverage`."""

    max_tied_labels: int = 2
    """Labels that may tie at an extreme; more only where the network is flat. Checked by `laybare reproduce hostile`."""
    flat_spread: float = 0.25
    """The network is flat where its outputs spread by less than this many standard deviations of the noise ... Checked by
    `laybare reproduce hostile`."""
    flat_radius: float = 0.1
    """... and where, of all rows with outputs within this share of that spread, ... Checked by `laybare reproduce hostile`."""
    min_tied_share: float = 0.8  # ... at least this share ties. Checked by `laybare reproduce hostile`.

    other_minimum: float = 9.2
    """LR by which the next minimum must be worse. Derived: 2 log 100, so that it is no more than a hundredth as likely."""

    simultaneous_draws: int = 20_000
    """Draws of all parameters for simultaneous intervals. Derived: the quantile is then known to one per cent."""
    rounding_share: float = 1e-12
    """Share of the variance of y that the text calls rounding. Checked by `pytest tests/certificate`."""
    min_explained: float = 0.05
    """Share of the variance explained, unknowns counted, below which y is called noise. Checked by `pytest tests/certificate`."""
    few_label_values: int = 20
    """Different labels among thousands of rows that are called classes or steps. Checked by `pytest tests/certificate`."""

    @property
    def clear_gain(self) -> float:
        """Gain beyond which one network is clearly better: the square of `sigmas`."""
        return self.sigmas**2

    @property
    def max_relative_se(self) -> float:
        """Largest standard error of a row or readout over its length: `sigmas` standard errors from zero."""
        return 1.0 / self.sigmas

    @property
    def max_relative_se_parallel(self) -> float:
        """The same beside a nearly parallel unit."""
        return 0.5 / self.sigmas


RULES = CertificateRules()


@dataclass(frozen=True)
class Claim:
    """One thing that was checked: `passed` tells whether `value` is on the right side of `threshold`.

    `kind`: "proved" (follows from the numbers alone), "tested" (a statistical test could have failed), "assumed" (on trust).
    A `decisive` claim that fails refutes the network; any other failure makes it doubtful. A statement stands if all of its
    `explanations` hold. A claim `of_answers` of a black box fails where these are not predicted.
    """

    name: str
    value: float
    threshold: float
    passed: bool
    kind: str
    explanation: str
    decisive: bool = False
    explanations: tuple[Claim, ...] = ()
    of_answers: bool = False

    def __repr__(self) -> str:
        return "\n".join(_lines_of(self, ""))

    def not_decisive(self) -> Claim:
        """The same, as a claim that refutes nothing."""
        return replace(self, decisive=False, explanations=tuple(check.not_decisive() for check in self.explanations))

    @property
    def direction(self) -> str:
        """Which side of the threshold is right: "at most" or "at least"; empty for NaN. Yes is a 1 that is at least 1."""
        if self.value != self.value:
            return ""
        if self.passed and self.value == self.threshold == 1.0:
            return "at least"
        return "at most" if (self.value <= self.threshold) == self.passed else "at least"


REPR_WIDTH = 80
"""Characters of a line where an object shows itself. Convention: a terminal."""

WORDS = {
    ClaimName.FUNCTION: "the function is not elsewhere: nothing that was tried instead of this network fits or predicts better.",
    ClaimName.UNITS: "no unit can be left out, and rows show where each one bends.",
    ClaimName.INTERVALS: "standard errors are small enough to be a guide to every weight, bias and readout.",
    ClaimName.MINIMUM: "the search ended where it should, and other searches and refits from nearby end there as well.",
    ClaimName.ROWS: "rows are independent and of one law, and a black box has one answer for an input."}
"""What each statement says."""


def statement(name: str, checks: Sequence[Claim]) -> tuple[Claim, ...]:
    """The statement that rests on these checks; none where there are none."""
    if not checks:
        return ()
    failed = [check for check in checks if not check.passed]
    against = f"{len(failed)} of {len(checks)} checks speak against it: {', '.join(check.name for check in failed)}."
    return (Claim(
        name, float(len(failed)), 0.0, not failed, "tested", against if failed else WORDS[name],
        any(check.decisive for check in failed), tuple(checks)),)


class Findings(NamedTuple):
    """What was learnt that decides whether anything else is tried.

    `runs` until two ended at the same fit (0: none did; None: one is enough); whether a unit is clearly missing, one is not
    supported, every other activation is clearly worse, the residual has structure; whether the tests came to an end.
    """

    runs: int | None = None
    unit_missing: bool = False
    unit_unsupported: bool = False
    rivals_worse: bool = False
    structure_left: bool = False
    finished: bool = True


class SearchRecord(NamedTuple):
    """What a certificate is told: claims of the search, runs until two agreed (0: none did; None: one is enough), claims of the
    method about its assumptions, and how many other networks for the same data were certified before."""

    claims: tuple[Claim, ...] = ()
    runs: int | None = None
    assumptions: tuple[Claim, ...] = ()
    looks: int = 0


class StandardErrors(NamedTuple):
    """Asymptotic standard errors shaped as the weights, biases, readout and offset; NaN where they were not computed."""

    weights: Array
    biases: Array
    readout: Array
    offset: Array


class Assurance(NamedTuple):
    """What fresh answers of a black box show: at most this `share` of its inputs is answered otherwise, at this `level`.

    `where` completes "inputs ...", such as "like the 569 rows given"; empty for inputs of the law.
    """

    level: float
    share: float
    answers: int
    where: str = ""

    def __str__(self) -> str:
        inputs = f"inputs {self.where}" if self.where else "inputs"
        return (
            f"wrong on at most {100.0 * self.share:.2g} % of {inputs} ({100.0 * (1.0 - self.level):.3g} %): "
            f"{self.answers:,} fresh answers were predicted")


class Resolution(NamedTuple):
    """What challengers show: at this `level` none of so many is better by more than `bound`, in standard deviations of y; and the
    largest standard error of a row or readout, relative to its length."""

    level: float
    bound: float
    challengers: int
    largest_error: float

    def __str__(self) -> str:
        return (
            f"none of {self.challengers} challengers predicts better by more than {self.bound:.2g} of the spread of y "
            f"({100.0 * (1.0 - self.level):.3g} %); the largest standard error of a unit is {100.0 * self.largest_error:.2g} %")


@dataclass(frozen=True)
class Certificate:
    """What is known about a recovered network without knowing the truth.

    `noise` is the standard deviation of the residual, `explained` the share of the variance of y that the network explains,
    `visible` the smallest unit that would have been seen: the standard deviation of what it adds, relative to that of y.
    `held_out` is the mean square of the residual on held-out rows, relative to the variance of y, `held_out_error` its standard
    error. They are NaN where they were not measured (a single layer under an unknown top). `reason` is the likeliest reason of a
    refutation. `assurance` is what fresh answers of a black box show about its inputs; None for samples. `resolution` is what
    challengers show; None where nothing but rounding is left. `covariance` is that of
    all parameters, in the order (w, b) of every unit, then readout, offset and linear part (each for all outputs); None where it
    was not computed, or for more than a few hundred parameters. `findings` is what the next attempt is decided by.
    """

    claims: tuple[Claim, ...]
    standard_errors: StandardErrors
    noise: float
    explained: float = nan
    visible: float = nan
    held_out: float = nan
    held_out_error: float = nan
    reason: str = ""
    assurance: Assurance | None = None
    covariance: Array | None = None
    findings: Findings = Findings()
    resolution: Resolution | None = None

    @property
    def checks(self) -> tuple[Claim, ...]:
        """All single checks: those that the statements rest on, and claims that stand alone."""
        return tuple(check for claim in self.claims for check in (claim.explanations or (claim,)))

    def with_check(self, name: str, *checks: Claim) -> Certificate:
        """The same with checks added to the statement of that name, or as claims that stand alone if there is none."""
        old = next((claim for claim in self.claims if claim.name == name and claim.explanations), None)
        if old is None or not checks:
            return replace(self, claims=(*self.claims, *checks))
        (new,) = statement(name, (*old.explanations, *checks))
        return replace(self, claims=tuple(new if claim is old else claim for claim in self.claims))

    @property
    def verdict(self) -> str:
        """ "verified": every claim holds; "refuted": a decisive one failed; "doubtful": another one failed."""
        failed = [claim for claim in self.claims if not claim.passed]
        if not failed:
            return "verified"
        return "refuted" if any(claim.decisive for claim in failed) else "doubtful"

    @property
    def meaning(self) -> str:
        """What the verdict says and what it does not, in one or two sentences; empty where the network is not whole."""
        if self.explained != self.explained:
            return ""
        rest = 1.0 - self.explained
        left = "Nothing but rounding is left." if rest < RULES.rounding_share else (
            f"Noise or structure that no such unit explains makes up {rest:.2g} of the variance of y.")
        why = f" Most likely {self.reason}" if self.reason else ""
        if self.verdict == "refuted":
            return f"These are not the weights behind the data: see what failed. {left}{why}"
        if self.verdict == "doubtful":
            return f"The network fits, but not everything that would make its weights certain holds: see what failed. {left}{why}"
        return (
            "These are the weights of the best network of this width and activation, within their standard errors, and the data "
            f"support the width. {left} A unit that adds less than {self.visible:.2g} of the spread of y would not have been "
            "seen; nor are activations so alike as tanh and erf, or ReLU and a GELU of long rows, or errors in x, told apart.")

    def simultaneous(self, confidence: float = 0.95) -> float:
        """The number of standard errors that all parameters lie within at once, with this confidence: a quantile of the largest
        |z| of a normal law with their correlations. NaN without a covariance."""
        level = check_number("confidence", confidence, most=1.0 - 1e-9, above=0)
        if self.covariance is None:
            return nan
        errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        known = np.isfinite(errors) & (errors > 0.0)
        if not known.any():
            return nan
        correlation = self.covariance[np.ix_(known, known)] / np.multiply.outer(errors[known], errors[known])
        values, vectors = np.linalg.eigh(correlation)
        draws = np.random.default_rng(0).standard_normal((RULES.simultaneous_draws, len(values)))
        z = draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return float(np.quantile(np.abs(z).max(axis=1), level))

    def explain(self, *, failed_only: bool = False) -> str:
        """The verdict, the statements and what each rests on, with numbers; with `failed_only` checks that hold are counted."""
        known = str((self.resolution if self.assurance is None else self.assurance) or "")
        shown = f". {known[0].upper()}{known[1:]}." if known and self.verdict == "verified" else ""
        lines = [f"verdict: {self.verdict}{shown}", *([self.meaning] if self.meaning else [])]
        for claim in self.claims:
            if failed_only and claim.passed:
                continue
            if claim.explanations:
                lines.append(f"  {_mark(claim)} {claim.name}: {claim.explanation}")
            for check in claim.explanations or (claim,):
                if not (failed_only and check.passed):
                    lines += _lines_of(check, "    " if claim.explanations else "  ")
        held = sum(check.passed for check in self.checks)
        if failed_only and held:
            lines.append(f"  {held} of {len(self.checks)} checks hold (certificate.explain() lists them)")
        return "\n".join(lines)

    def __str__(self) -> str:
        return break_lines(self.explain())

    def __repr__(self) -> str:
        failed = [check.name for check in self.checks if not check.passed]
        held = f"{len(self.checks) - len(failed)} of {len(self.checks)} checks hold"
        shown = f"{held}; not: {', '.join(failed)}" if failed else held
        lines = [f"verdict: {self.verdict} ({shown}; print it to read them)", *([self.meaning] if self.meaning else [])]
        return break_lines("\n".join(lines))

    def _repr_html_(self) -> str:
        from laybare.report.notebook import certificate_html

        return certificate_html(self)


def break_lines(text: str, width: int = REPR_WIDTH) -> str:
    """Lines of an explanation broken at this width, with their indentation kept; the rest of a check stands below its name."""
    lines = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        further = indent + " " * 5 * line.strip().startswith(("ok ", "FAIL "))
        lines.append(fill(line.strip(), width, initial_indent=indent, subsequent_indent=further))
    return "\n".join(lines)


def _mark(claim: Claim) -> str:
    return "ok  " if claim.passed else "FAIL"


def _lines_of(check: Claim, indent: str) -> list[str]:
    side = check.direction or "threshold"
    return [
        f"{indent}{_mark(check)} {check.name}: {check.value:.3g} ({side} {check.threshold:.3g}, {check.kind})",
        f"{indent}     {check.explanation}"]


def unfinished_certificate(network: Network, claims: tuple[Claim, ...] = ()) -> Certificate:
    """The certificate of a network whose tests were interrupted: nothing is known, and it says so."""
    readout, biases = np.asarray(network.readout), np.asarray(network.layer.biases)
    errors = StandardErrors(*(np.full_like(part, nan, dtype=float) for part in (
        np.asarray(network.layer.weights), biases, readout, np.asarray(network.offset))))
    missing = Claim(
        ClaimName.CERTIFICATE_FINISHED, nan, nan, False, "proved",
        "The tests were interrupted: nothing speaks for these weights yet.")
    return Certificate((missing, *claims), errors, nan, findings=Findings(finished=False))

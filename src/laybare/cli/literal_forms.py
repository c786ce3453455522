"""What `--literal` stands for, method by method: the algorithms of the papers by name. The first of each is the default.

    `laybare recover DATA --method tensor-init --literal --form algorithm-1`            Zhong et al. (2017), Algorithm 1
    `laybare recover DATA --method tensor-init --literal --form algorithm-1-in-thirds`  Zhong et al. (2017), Algorithm 1
    `laybare recover DATA --method tensor-init --literal --form algorithm-2`            Zhong et al. (2017), Algorithm 2
    `laybare recover DATA --method tensor-init --literal --form section-7`              Zhong et al. (2017), Algorithm 2
    `laybare recover DATA --method landscape-design --literal --form F`                 Ge-Lee-Ma, Algorithm 2, Theorems C.4, C.5
    `laybare recover DATA --method landscape-design --literal --form G`                 Ge-Lee-Ma, Algorithm 1, Theorem 2.3
    `laybare recover DATA --method symmetric-inputs --literal --form algorithm-3`       Ge et al. (2019), Algorithms 1, 3 and 4
    `laybare recover DATA --method symmetric-inputs --literal --form algorithm-2`       Ge et al. (2019), Algorithm 2
    `laybare recover DATA --method symmetric-inputs --literal --form section-4`         Ge et al. (2019), Algorithm 4
    `laybare recover DATA --method general-relu --literal --form algorithm-6`           Awasthi et al. (2021), Algorithms 1-4, 6
    `laybare recover DATA --method general-relu --literal --form algorithm-5`           Awasthi et al. (2021), Algorithms 4, 5
    `laybare recover DATA --method general-relu --literal --form algorithm-5-order-3`   Awasthi et al. (2021), Algorithms 4, 5
    `laybare recover-layer DATA --literal --form one-by-one`       Goel and Panigrahy (2019), Algorithms 1, 2, Theorems 5, 9, 13
    `laybare recover-layer DATA --literal --activation 'exponential(0.5)'`   Goel and Panigrahy (2019), Algorithm 3, Theorem 7
    `laybare recover-layer DATA --literal --form activity`         Goel and Panigrahy (2019), Algorithms 1, 2
    `laybare recover-layer DATA --literal --form simultaneous`     Goel and Panigrahy (2019), Theorem 11, Appendix B.4
    `laybare recover-layer DATA --literal --form retained`         Goel and Panigrahy (2019), Theorem 13, Appendix B.7
    `laybare recover-layer DATA --literal --form delta`            Goel and Panigrahy (2019), Theorem 6, Corollary 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import laybare as lb
from laybare.errors import InvalidInput
from laybare.methods import GeneralReLU, LandscapeDesign, Method, PrintedReLU, SymmetricInputs, TensorInit

SECTION_7 = lb.solver.Descent(step=0.02, max_steps=6000)
"""Steps of the experiments of Zhong et al. (2017); their number is not stated."""

Form = Callable[[lb.Activation], Any]

FORMS: dict[str, dict[str, Form]] = {
    "general-relu": {
        "algorithm-6": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=1), search=None),
        "algorithm-5": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=2), search=None),
        "algorithm-5-order-3": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=3), search=None)},
    "landscape-design": {
        "F": LandscapeDesign.literal, "G": lambda units: LandscapeDesign.literal(units, orthogonal=True)},
    "symmetric-inputs": {
        "algorithm-3": lambda units: _with(SymmetricInputs.literal(), units),
        "algorithm-2": lambda units: _with(SymmetricInputs.literal(noise=False, halves=False), units),
        "section-4": lambda units: _with(SymmetricInputs.practical(), units)},
    "tensor-init": {
        "algorithm-1": TensorInit.literal, "algorithm-1-in-thirds": lambda units: TensorInit.literal(units, partition=True),
        "algorithm-2": lambda units: TensorInit.literal(units, descent=lb.solver.Descent(max_steps=1000)),
        "section-7": lambda units: TensorInit.literal(units, descent=SECTION_7, printed_step=False)},
}
"""Algorithm 4 of Ge et al. (2019) is what their others do where there are more outputs than units."""

LAYER_FORMS: dict[str, Mapping[str, Any]] = {
    "one-by-one": {}, "simultaneous": {"simultaneous": True}, "activity": {"activity": True}, "retained": {"biased": True},
    "delta": {"search": lb.lowest_layer.DeltaAscent()}}
"""Options of `HighThreshold.literal`; exponential and even units have one algorithm only."""


def literal_method(name: str, form: str | None, units: lb.Activation) -> Method:
    """The method of that name as its paper prints it."""
    if name not in FORMS:
        raise InvalidInput(
            f"--literal was given for {name}.", "No paper prints it: it is the control.", f"Use one of {', '.join(FORMS)}.")
    made: Method = FORMS[name][_known(name, form, tuple(FORMS[name]))](units)
    return made


def literal_layer(form: str | None, units: lb.Activation, threshold: float | None) -> lb.HighThreshold:
    """The same for the lowest layer."""
    return lb.HighThreshold.literal(units, threshold, **LAYER_FORMS[_known("the lowest layer", form, tuple(LAYER_FORMS))])


def check_literal(literal: bool, **told: object) -> None:
    """Refuse what only literal forms are told, for others."""
    for name, value in told.items():
        if value is not None and not literal:
            raise InvalidInput(
                f"--{name} {value} was given without --literal.", "Only the literal form is told it.", "Leave it out.")


def _known(name: str, form: str | None, known: tuple[str, ...]) -> str:
    if form is not None and form not in known:
        raise InvalidInput(f"--form {form} of {name}.", "Its paper prints no such form.", f"Use one of {', '.join(known)}.")
    return form or known[0]


def _with(method: SymmetricInputs, units: lb.Activation) -> SymmetricInputs:
    return SymmetricInputs(activation=units, route=method.route, search=method.search)

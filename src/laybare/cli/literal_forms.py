"""What `--literal` stands for, method by method: the algorithms of the papers by name. The first of each is the default.

    `laybare recover DATA --method tensor-init --literal --form algorithm-1`            Zhong et al. (2017), Algorithm 1
    `laybare recover DATA --method tensor-init --literal --form algorithm-1-all-samples`  Zhong et al. (2017), section 7
    `laybare recover DATA --method tensor-init --literal --form algorithm-2`            Zhong et al. (2017), Algorithm 2
    `laybare recover DATA --method tensor-init --literal --form algorithm-2-all-samples`  Zhong et al. (2017), section 7
    `laybare recover DATA --method tensor-init --literal --form section-7`              Zhong et al. (2017), Algorithm 2
    `laybare recover DATA --method landscape-design --literal --form F`                 Ge-Lee-Ma, Algorithm 2, Theorems C.4, C.5
    `laybare recover DATA --method landscape-design --literal --form G`                 Ge-Lee-Ma, Algorithm 1, Theorem 2.3
    `laybare recover DATA --method landscape-design --literal --form f-prime`           Ge-Lee-Ma, equation (2.5), Figure 3
    `laybare recover DATA --method symmetric-inputs --literal --form algorithm-3`       Ge et al. (2019), Algorithms 1, 3 and 4
    `laybare recover DATA --method symmetric-inputs --literal --form algorithm-1`       Ge et al. (2019), Algorithm 1
    `laybare recover DATA --method symmetric-inputs --literal --form algorithm-2`       Ge et al. (2019), Algorithm 2
    `laybare recover DATA --method symmetric-inputs --literal --form section-4`         Ge et al. (2019), Algorithm 4
    `laybare recover DATA --method general-relu --literal --form algorithm-6`           Awasthi et al. (2021), Algorithms 1-4, 6
    `laybare recover DATA --method general-relu --literal --form algorithm-5`           Awasthi et al. (2021), Algorithms 4, 5
    `laybare recover DATA --method general-relu --literal --form algorithm-5-order-1`   Awasthi et al. (2021), Algorithms 4, 5
    `laybare recover DATA --method general-relu --literal --form algorithm-5-order-3`   Awasthi et al. (2021), Algorithms 4, 5
    `laybare recover-layer DATA --literal --form one-by-one`       Goel and Panigrahy (2019), Algorithms 1, 2, Theorems 5, 9, 13
    `laybare recover-layer DATA --literal --activation 'exponential(0.5)'`   Goel and Panigrahy (2019), Algorithm 3, Theorem 7
    `laybare recover-layer DATA --literal --form activity`         Goel and Panigrahy (2019), Algorithms 1, 2
    `laybare recover-layer DATA --literal --form simultaneous`     Goel and Panigrahy (2019), Theorem 11, Appendix B.4
    `laybare recover-layer DATA --literal --form retained`         Goel and Panigrahy (2019), Theorem 13, Appendix B.7
    `laybare recover-layer DATA --literal --form section-3 --threshold T --width K`  Goel and Panigrahy (2019), Theorems 3, 6,
                                                                   Corollary 1, appendix C.1
    `laybare recover-layer DATA --literal --form delta`            Goel and Panigrahy (2019), section 3 after section 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import laybare as lb
from laybare.errors import InvalidInput
from laybare.lowest_layer import PrintedRoute
from laybare.methods import GeneralReLU, LandscapeDesign, Method, PrintedReLU, SymmetricInputs, TensorInit

SECTION_7 = lb.landscape.Descent(step=0.02, max_steps=6000)
"""Steps of the experiments of Zhong et al. (2017); their number is not stated."""

RESAMPLED = lb.landscape.Descent(max_steps=30, resample=True)
"""T = 30 steps of Algorithm 2, each on its own part of the samples; the paper's T is a polynomial that is not stated."""

Form = Callable[[lb.Activation], Any]

FORMS: dict[str, dict[str, Form]] = {
    "general-relu": {
        "algorithm-6": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=1), search=None),
        "algorithm-5": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=2), search=None),
        "algorithm-5-order-1": lambda units: GeneralReLU(activation=units, route=PrintedReLU(regression=True), search=None),
        "algorithm-5-order-3": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=3), search=None)},
    "landscape-design": {
        "F": LandscapeDesign.literal, "G": lambda units: LandscapeDesign.literal(units, orthogonal=True),
        "f-prime": LandscapeDesign.literal_risk},
    "symmetric-inputs": {
        "algorithm-3": lambda units: _with(SymmetricInputs.literal(), units),
        "algorithm-1": lambda units: _with(SymmetricInputs.literal_single(), units),
        "algorithm-2": lambda units: _with(SymmetricInputs.literal(noise=False, halves=False), units),
        "section-4": lambda units: _with(SymmetricInputs.practical(), units)},
    "tensor-init": {
        "algorithm-1": TensorInit.literal,
        "algorithm-1-all-samples": lambda units: TensorInit.literal(units, partition=False),
        "algorithm-2": lambda units: TensorInit.literal(units, descent=RESAMPLED),
        "algorithm-2-all-samples": lambda units: TensorInit.literal(
            units, partition=False, descent=lb.landscape.Descent(max_steps=1000)),
        "section-7": lambda units: TensorInit.literal(units, partition=False, descent=SECTION_7, printed_step=False)},
}
"""Algorithm 4 of Ge et al. (2019) is what their others do where there are more outputs than units."""

LAYER_FORMS: dict[str, PrintedRoute] = {
    "one-by-one": PrintedRoute(), "simultaneous": PrintedRoute(simultaneous=True), "activity": PrintedRoute(activity=True),
    "retained": PrintedRoute(biased=True), "section-3": PrintedRoute(search=lb.lowest_layer.DeltaSearch()),
    "delta": PrintedRoute(search=lb.lowest_layer.DeltaAscent())}
"""Routes of `HighThreshold.literal`; exponential and even units have one algorithm only."""


def literal_method(name: str, form: str | None, units: lb.Activation) -> Method:
    """The method of that name as its paper prints it."""
    if name not in FORMS:
        raise InvalidInput(
            f"--literal was given for {name}.", "No paper prints it: it is the control.", f"Use one of {', '.join(FORMS)}.")
    made: Method = FORMS[name][_known(name, form, tuple(FORMS[name]))](units)
    return made


def literal_layer(
    form: str | None, units: lb.Activation, threshold: float | None, search: Mapping[str, Any] = {}
) -> lb.HighThreshold:
    """The same for the lowest layer; `search` has options of the search, None where they are not given."""
    name = _known("the lowest layer", form, tuple(LAYER_FORMS))
    return lb.HighThreshold.literal(units, threshold, _route(name, search))


def _route(form: str, given: Mapping[str, Any]) -> PrintedRoute:
    """The route of the form, its search with these options; refused where it has none of them."""
    route = LAYER_FORMS[form]
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if not hasattr(route.search, name):
            raise InvalidInput(
                f"--{name} was given for --form {form}.", "Its search has no such option.", "Leave it out, or use section-3.")
    made: Any = route.search
    return replace(route, search=replace(made, **chosen)) if chosen else route


def check_literal(literal: bool, **stated: object) -> None:
    """Refuse options of literal forms for other forms."""
    for name, value in stated.items():
        if value is not None and not literal:
            raise InvalidInput(
                f"--{name} {value} was given without --literal.", "Only literal forms take it.", "Leave it out.")


def _known(name: str, form: str | None, known: tuple[str, ...]) -> str:
    if form is not None and form not in known:
        raise InvalidInput(f"--form {form} of {name}.", "Its paper prints no such form.", f"Use one of {', '.join(known)}.")
    return form or known[0]


def _with(method: SymmetricInputs, units: lb.Activation) -> SymmetricInputs:
    return SymmetricInputs(activation=units, route=method.route, search=method.search)

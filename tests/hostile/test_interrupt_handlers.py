"""An interrupt is one exception, no `except Exception` catches it, and every place that could swallow it is known by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import laybare
from laybare.errors import Interrupted
from laybare.pipeline.monitor import TimeLimitReached

SOURCE = Path(laybare.__file__).parent
WIDE = {"BaseException", "KeyboardInterrupt", "Interrupted", "FitInterrupt", "TimeLimitReached", "GeneratorExit"}

STOPS = {
    "cli/interrupts.py guarded.answer": "becomes the end of the budget, or is raised again",
    "cli/program.py CommandsOnDemand.invoke": "the program ends with the status of the interrupt",
    "cli/program.py run": "the program ends with the status of the interrupt",
    "lines/folds/coarse_network.py read_coarse": "the layers so far are returned, marked",
    "lines/folds/reader.py read_folds": "the layers so far are returned, marked",
    "auditing/budgets.py _AuditRun.measure": "the rows that are done are returned, and the audit is marked",
    "likelihood/judged_recovery.py recover_by_likelihood": "the network is returned with an unfinished certificate",
    "pipeline/main_loop.py _certify": "the network is returned with an unfinished certificate",
    "pipeline/main_loop.py _recover_from_samples": "the network before narrowing is returned",
    "pipeline/black_box.py fit_in_rounds": "the best round is returned",
    "pipeline/portfolio.py try_methods": "the best method is returned",
    "likelihood/width_search.py LikelihoodSearch.minimise": "the best fit is returned, marked",
    "search/network_fit.py fit_or_best": "the best fit is returned, marked",
    "studies/few_samples.py _call_arm": "the best until the time of a run ended, or raised again",
    "landscape/first_order.py _walk": "the best point is returned, marked",
    "solver/loop.py damped_descent": "thrown into the generator of the steps",
    "source/sums.py BackgroundTask._work": "raised where its result is needed",
    "source/sums.py ThreadTeam._evaluate": "raised where its result is needed",
}
"""Handlers of interrupts that do not raise them again, and what becomes of the interrupt."""


def handlers() -> Iterator[tuple[str, ast.AST]]:
    """All handlers and finally-blocks of the package, each with file and function."""

    def walk(node: ast.AST, where: tuple[str, ...], file: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            inside = (*where, child.name) if isinstance(child, ast.FunctionDef | ast.ClassDef) else where
            if isinstance(child, ast.ExceptHandler | ast.Try | ast.With):
                yield f"{file} {'.'.join(inside[-2:])}", child
            yield from walk(child, inside, file)

    for path in sorted(SOURCE.rglob("*.py")):
        yield from walk(ast.parse(path.read_text(encoding="utf-8")), (), path.relative_to(SOURCE).as_posix())


def caught(kind: ast.expr | None) -> set[str]:
    """Names of the exceptions of a handler."""
    if kind is None:
        return {"BaseException"}
    return {node.attr if isinstance(node, ast.Attribute) else node.id for node in ast.walk(kind)
            if isinstance(node, ast.Name | ast.Attribute)}


def always_raises(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def test_every_handler_that_could_swallow_an_interrupt_is_known() -> None:
    found = {where for where, node in handlers()
             if isinstance(node, ast.ExceptHandler) and caught(node.type) & WIDE and not always_raises(node.body)}
    assert found == set(STOPS), "a new handler: let it raise again, or add it above with what becomes of the interrupt"


def test_nothing_suppresses_interrupts_silently() -> None:
    for where, node in handlers():
        if isinstance(node, ast.With):
            for item in node.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and caught(call.func) & {"suppress"}:
                    assert not {name for argument in call.args for name in caught(argument)} & WIDE, where
        if isinstance(node, ast.Try):  # return, break and continue in a finally-block drop the exception
            leaving = (ast.Return, ast.Break, ast.Continue)
            assert not [one for part in node.finalbody for one in ast.walk(part) if isinstance(one, leaving)], where


def test_one_interrupt_that_is_no_exception() -> None:
    assert issubclass(Interrupted, KeyboardInterrupt) and not issubclass(Interrupted, Exception)
    assert issubclass(TimeLimitReached, KeyboardInterrupt)


@pytest.mark.parametrize("word", ["raise click.Abort", "raise KeyboardInterrupt(", "signal.signal("])
def test_signals_are_taken_in_one_file(word: str) -> None:
    """click.Abort is a RuntimeError: raised by a signal handler it would be caught as a failure of whatever was under way."""
    files = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if word in path.read_text(encoding="utf-8")}
    assert files <= {"cli/interrupts.py"}

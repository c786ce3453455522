"""`laybare extract TARGET` and `laybare audit TARGET`."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

import laybare as lb
from laybare.auditing.defences import STANDARD, parse_defence
from laybare.cli.interrupts import STATE, InterruptState, keep_on_interrupt, results_saved
from laybare.cli.output import NumberRange, Output, examples, output_options, print_path
from laybare.cli.program import MISUSE, import_from_here
from laybare.cli.results import NEW_FILE, WRITERS, ResultOptions, finish, open_network, result_options
from laybare.errors import LaybareError
from laybare.numerics.file_borders import check_whole_file_fits, reading
from laybare.numerics.shapes import Event, Progress
from laybare.report.audit_formats import form_of
from laybare.report.audit_words import audit_text
from laybare.report.drawings import check_matplotlib
from laybare.source import Endpoint, Target, as_target
from laybare.source.oracle.regions import read_rows
from laybare.source.sample_files import holds_samples

BUDGET = 100_000
"""Queries granted by default. Convention: the same as `lb.Oracle`."""


class RegionOptions(NamedTuple):
    """Where to ask, as it was typed; `keywords` has the arguments of an Oracle."""

    inputs: str | None
    box: tuple[str, ...]
    law: str | None

    def keywords(self) -> dict[str, Any]:
        """inputs, box and law, where they were given."""
        given = {"inputs": self.inputs, "box": self._box(), "law": None if self.law is None else _law(self.law)}
        return {name: value for name, value in given.items() if value is not None}

    def _box(self) -> tuple[Any, Any] | None:
        if not self.box:
            return None
        if any("=" in part for part in self.box):
            return self._named_box()
        parts = self.box[0].split(",")
        try:
            if len(self.box) != 1 or len(parts) != 2:
                raise ValueError
            low, high = ((_row_of(part) if holds_samples(part) else float(part)) for part in parts)
        except ValueError:
            raise click.BadParameter(BOX_FORMS, param_hint="--box") from None
        return low, high

    def _named_box(self) -> tuple[Any, Any]:
        """Ranges of single inputs, by name or number; all others have the range of the rows of --inputs."""
        if self.inputs is None:
            raise click.BadParameter("the other inputs need a range: give --inputs as well.", param_hint="--box")
        rows = read_rows(self.inputs, None)
        low, high = rows.x.min(axis=0), rows.x.max(axis=0)
        for part in self.box:
            name, _, ends = part.partition("=")
            try:
                at = rows.names.index(name) if name in rows.names else range(len(low)).index(int(name))
                low[at], high[at] = (float(end) for end in ends.split(":"))
            except ValueError:
                raise click.BadParameter(f"{part!r} names no input of {self.inputs}. {BOX_FORMS}", param_hint="--box") from None
        return low, high


BOX_FORMS = "Give LOW,HIGH as two numbers or two files of one row each, or NAME=LOW:HIGH, as often as needed."


def _row_of(path: str) -> Any:
    """The only row of a file. read_rows asks for two, so that a scale can be seen; a limit needs none."""
    return read_rows(path, None, least=1).x[0]


def _law(text: str) -> lb.Gaussian:
    """'normal:5,2' -> Gaussian(mean 5, standard deviation 2); 'normal' -> the standard one."""
    name, _, ends = text.partition(":")
    try:
        mean, deviation = (float(part) for part in ends.split(",")) if ends else (0.0, 1.0)
        if name not in ("normal", "gaussian") or not deviation > 0.0:
            raise ValueError
    except ValueError:
        raise click.BadParameter("give normal:MEAN,SD, for example normal:5,2.", param_hint="--law") from None
    return lb.Gaussian(mean, deviation * deviation)


class EndpointOptions(NamedTuple):
    """How an address is asked, as it was typed."""

    header: tuple[str, ...]
    request: str | None
    response: str | None
    batch: int | None
    rate: float | None
    retries: int | None
    timeout: float | None

    def target(self, text: str, progress: Progress) -> Any:
        """The target; an address becomes an Endpoint that shows what it waits for."""
        given = {name: value for name, value in self._asdict().items() if value is not None and name != "header"}
        if "://" not in text:
            if given or self.header:
                names = ", ".join(f"--{name}" for name in (*["header"] * bool(self.header), *given))
                raise click.BadParameter(f"{names}: only for an http(s) address.", param_hint="TARGET")
            if ":" in text:
                import_from_here()
            return text
        headers = tuple(_header(one) for one in self.header)

        def notify(what: str, attempt: int, attempts: int) -> None:
            progress(Event("waiting", attempt, attempts, f"{what}, try {attempt} of {attempts}"))

        return Endpoint(text, headers=headers, notify=notify, **given)


def _header(text: str) -> tuple[str, str]:
    """'NAME=VALUE' -> (NAME, VALUE); '@file' and '$VARIABLE' stand for what is in them."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter("give NAME=VALUE, NAME=@file or NAME=$VARIABLE.", param_hint="--header")
    if value.startswith("@"):
        try:
            check_whole_file_fits(value[1:])
            with reading(value[1:], "text", "Write the value alone into a file."):
                return name, Path(value[1:]).read_text(encoding="utf-8").strip()
        except lb.errors.InvalidInput as error:
            raise click.BadParameter(str(error), param_hint="--header") from None
    if value.startswith("$"):
        if value[1:] not in os.environ:
            raise click.BadParameter(f"the variable {value[1:]} is not set.", param_hint="--header")
        return name, os.environ[value[1:]].strip()
    return name, value


def _defences(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Names by commas; 'none', 'standard', or nothing for what the target allows."""
    if text is None or text in ("none", "standard"):
        return None if text is None else STANDARD if text == "standard" else ()
    try:
        return tuple(parse_defence(part).name for part in text.split(","))
    except lb.errors.InvalidInput as error:
        raise click.BadParameter(str(error), context, parameter) from None


def _budgets(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter("give numbers of queries, for example 100,300,1000.", context, parameter) from None


def _oracle_options(command: Any) -> Any:
    """Add TARGET and the options about how it is asked; the command gets dim, log and link as `**asking`, where to ask, and how
    an address is asked."""
    for option in reversed((
        click.argument("target"),
        click.option("--dim", type=click.IntRange(1), help="Number of inputs, where the target does not know it."),
        click.option("--log", type=click.Path(file_okay=False), help="Folder of answers: a later call repeats none of them."),
        click.option("--link", type=click.Choice(["identity", "logit", "softmax"]), help="What answers are; seen if left out."),
        click.option("--inputs", type=click.Path(dir_okay=False), metavar="FILE",
                     help="Rows of inputs (.csv, .parquet, .npy): their location, scale and range say where to ask."),
        click.option("--box", multiple=True, metavar="LOW,HIGH",
                     help="No query leaves it: two numbers (--box=-1,1), two files, or NAME=LOW:HIGH, as often as needed."),
        click.option("--law", metavar="normal:MEAN,SD", help="Law of the inputs, where no rows of them are given."),
        click.option("--activation", help="Units, for example tanh; found out if not given."),
        click.option("--header", multiple=True, metavar="NAME=VALUE",
                     help="Header of every request, as often as needed; NAME=@file or NAME=$VARIABLE for secrets."),
        click.option("--request", metavar="JSON", help="""Request with "$x" for the rows, or "$row" for one row per request."""),
        click.option("--response", metavar="PATH", help="Where the outputs are: predictions, data.0.y, data[*].score."),
        click.option("--batch", type=click.IntRange(1), help="Rows per request; 256 if not given."),
        click.option("--rate", type=NumberRange(0.0, min_open=True), help="Requests per second at most."),
        click.option("--retries", type=click.IntRange(0), help="Further attempts after 429, 5xx or a dropped connection; 5."),
        click.option("--timeout", type=NumberRange(0.0, min_open=True), help="Seconds until a whole answer is there; 30."),
    )):
        command = option(command)
    return command


@click.command("extract", epilog=examples(
    "laybare extract network.safetensors --budget 2000 --out copy.json --report page.html",
    "laybare extract sklearn_model:predict --dim 4 --log answers"))
@_oracle_options
@click.option("--budget", default=BUDGET, show_default=True, type=click.IntRange(2), help="Queries granted; rarely all spent.")
@click.option("--depth", default="all", show_default=True, help="Hidden layers; 'all': as many as there are.")
@result_options(*WRITERS)
def extract(
    target: str, *, activation: str | None, budget: int, depth: str, result: ResultOptions, inputs: str | None,
    box: tuple[str, ...], law: str | None, dim: int | None, log: str | None, link: str | None, **endpoint: Any,
) -> int:
    """Recover the network behind a black box, with no more queries than it takes.

    TARGET is a file .onnx, .safetensors, .json or .npz, 'module:function', or an http(s) address. Ctrl-C keeps what was found.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    Environment: LAYBARE_TOKEN is sent to an address as a bearer token; http_proxy, https_proxy, no_proxy.
    """
    units = None if activation is None else lb.activations.activation_named(activation)
    with result.output.bar() as progress, keep_on_interrupt(progress) as interrupts:
        where = RegionOptions(inputs, box, law).keywords()
        asked = _guarded(EndpointOptions(**endpoint).target(target, progress), interrupts)
        oracle = lb.Oracle(asked, dim, log=log, link=link, budget=budget, rng=result.seed, **where)
        try:
            found = lb.recover(
                oracle, method=_lines_method(depth, units), activation=units, rng=result.seed, progress=interrupts.progress)
        except LaybareError:
            if oracle.structure:
                result.output.remark(oracle.structure)
            raise
    return finish(found, result, remarks=oracle.remarks)


def _guarded(target: Any, interrupts: InterruptState) -> Target:
    """The black box, which answers until somebody wants to stop."""
    saved = isinstance(target, str) and target.endswith((".json", ".npz"))
    named = as_target(open_network(target) if saved else target)
    return replace(named, ask=interrupts.guarded(named.ask))


@click.command("audit", epilog=examples(
    "laybare audit network.safetensors --budgets 50,200 --defences round:2,label --report audit.html",
    "laybare audit network.safetensors --budgets 200 --defences none --format sarif"))
@_oracle_options
@click.option(
    "--budgets", default="100,300,1000,3000,10000", show_default=True, callback=_budgets, help="Numbers of queries, by commas.")
@click.option("--defences", callback=_defences, metavar="NAMES",
              help=f"By commas, or none, or standard: {','.join(STANDARD)}. Standard if not given; none for an address, where "
              "every defence asks again.")
@click.option("--check", default=1000, show_default=True, type=click.IntRange(2), help="Queries that judge the copies.")
@click.option("--format", "form", type=click.Choice(["html", "json", "md", "sarif"]),
              help="Of --report; by its ending if not given. Without --report: printed.")
@click.option("--report", help="Write the audit here.", **NEW_FILE)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
@output_options
def audit(
    target: str, *, activation: str | None, budgets: tuple[int, ...], defences: tuple[str, ...] | None, check: int,
    form: str | None, report: str | None, seed: int, output: Output, inputs: str | None, box: tuple[str, ...], law: str | None,
    dim: int | None, log: str | None, link: str | None, **endpoint: Any,
) -> None:
    """After how many queries an outsider holds a copy that answers like the model, and what defences change about it.

    TARGET is a file .onnx, .safetensors, .json or .npz, 'module:function', or an http(s) address.
    Ctrl-C keeps the rows that are done.
    Environment: LAYBARE_TOKEN is sent to an address as a bearer token; http_proxy, https_proxy, no_proxy.
    """
    written = form_of(report) if form is None and report is not None else form
    if written == "html":
        check_matplotlib()
    with output.bar() as progress, keep_on_interrupt(progress) as interrupts:
        where = RegionOptions(inputs, box, law).keywords()
        asked = _guarded(EndpointOptions(**endpoint).target(target, progress), interrupts)
        chosen = defences if defences is not None else () if "://" in target else STANDARD
        found = lb.audit(
            asked, budgets, dim=dim, log=log, link=link, activation=activation, defences=chosen, check=check, rng=seed,
            progress=interrupts.progress, command=output.command, **where)
    if report is not None:
        found.report(report, written)
    results_saved()
    printed = form is not None and report is None and output.in_text
    if printed:
        click.echo(found.render(form or "html"), nl=False)
    else:
        output.say(audit_text(found, output.width))
    output.emit_json(**found.to_dict(), seed=seed, report=report)
    if report is not None and output.in_text:
        print_path("report", report)
    if interrupts.wanted:
        click.echo("laybare: interrupted; the rows before that are above", err=True)
        click.get_current_context().exit(STATE.status)
    if found.failure:
        click.echo(f"laybare: the model answered no more; the rows before that are above. {found.failure}", err=True)
        click.get_current_context().exit(MISUSE)


def _lines_method(depth: str, units: lb.Activation | None) -> lb.Lines | None:
    """Lines of that depth; None for all layers, of which `recover` finds out whether lines apply and how many there are."""
    if depth == "all":
        return None
    if not re.fullmatch("0*[1-9][0-9]{0,8}", depth):
        raise click.BadParameter("give a number of hidden layers, or 'all'.", param_hint="--depth")
    return lb.Lines(activation=units, depth=int(depth))

"""The commands by name, and how a run of the program ends: with a status and a sentence, never with a traceback of an interrupt.

Commands are imported when they are called, so that `laybare --help` is quick.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from traceback import extract_tb
from types import ModuleType
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from laybare.cli.interrupts import STATE, end_at_once, leave_at_once
from laybare.errors import InvalidInput, LaybareError
from laybare.numerics.redaction import describe_error, redact

COMPLETION = "_LAYBARE_COMPLETE"
MISUSE, CLOSED_PIPE = 2, 141
"""Exit statuses. Convention: click's for misuse, 128 + SIGPIPE."""

COMMANDS = {
    "audit": ("black_box_commands", "After how many queries an outsider holds a copy of a model."),
    "check": ("checking", "Which assumptions the samples in a file hold, and which methods would be tried."),
    "completion": ("completion", "Print what makes your shell complete these commands."),
    "compare": ("results", "Compare two saved networks."),
    "demo": ("study_commands", "Recover a network trained on real data, as a demonstration."),
    "extract": ("black_box_commands", "Recover the network behind a black box."),
    "plan": ("checking", "Say what a recovery would take: passes, bytes, memory, time."),
    "recover": ("samples_commands", "Recover the network behind samples in a file."),
    "recover-layer": ("samples_commands", "Recover the lowest layer of a deeper network behind samples in a file."),
    "reproduce": ("study_commands", "Run a study and write its table."),
}
"""Commands, the files they stand in, and what the list of commands says about them."""


def suggest(typed: str, known: Iterable[str]) -> str:
    """A question that names what was meant, if anything is near."""
    near = get_close_matches(typed, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def import_from_here() -> None:
    """Modules of the current folder can be named, as uvicorn finds them."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _load(module: str) -> ModuleType:
    """The module; what a library below it cannot be imported for, such as a variable that it reads, in a sentence."""
    try:
        return import_module(module)
    except Exception as error:
        if STATE.number:
            raise
        last = extract_tb(error.__traceback__)[-1]
        raise InvalidInput(
            f"An import failed: {describe_error(error)}.", f"It failed in {last.filename}, line {last.lineno}.",
            "Correct what it objects to, such as a variable of the environment, or install laybare again.") from error


class CommandsOnDemand(click.Group):
    """Knows its commands by name, and imports one when it is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        """All of them."""
        return sorted(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of that name."""
        if name not in COMMANDS:
            return None
        return cast(click.Command, getattr(_load(f"laybare.cli.{COMMANDS[name][0]}"), name.replace("-", "_")))

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed; what is none is answered with the one that is suggest."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            context.fail(f"there is no command {args[0]!r}{suggest(args[0], COMMANDS)}; laybare --help lists them all.")
        return super().resolve_command(context, args)

    def invoke(self, context: click.Context) -> Any:
        """Run the command. An interrupt ends here: click would turn it into an exception of its own."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt as interrupt:
            return _say_interrupted(str(interrupt))

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands, without importing them."""
        known = (name for name in self.list_commands(context) if name.startswith(incomplete))
        own = [CompletionItem(name, help=COMMANDS[name][1]) for name in known]
        return own + click.Command.shell_complete(self, context, incomplete)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(context)])


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        import laybare

        click.echo(f"laybare {laybare.__version__}")
        context.exit()


@click.group(cls=CommandsOnDemand, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit.")
def commands() -> None:
    """Lay bare the hidden layer: recover neural networks from data or queries.

    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    Every command knows --help (with examples), --json, --quiet and --verbose.

    \b
    Environment:
      LAYBARE_THREADS  threads of a pass; all cores if not set
      LAYBARE_TOKEN    bearer token for an http(s) address
      http_proxy, https_proxy, no_proxy  how an address is reached
      OPENBLAS_NUM_THREADS, OMP_NUM_THREADS  threads inside of linear algebra
      NO_COLOR, COLUMNS  how text is printed
      _LAYBARE_COMPLETE  set by the shell while it completes a command
    """


def _run_commands() -> int:
    """What was typed; or what a shell asks to complete, which ends the program."""
    asked = os.environ.get(COMPLETION)
    try:
        return cast(int, commands(prog_name="laybare", standalone_mode=False, obj=sys.argv[1:]))
    except (SystemExit, KeyError, ValueError) as error:
        if not asked or error.args == (0,):
            raise
        raise InvalidInput(
            f"{COMPLETION} is {asked!r}.", "A shell sets it, with the words typed so far, and nothing of that can be completed.",
            "Unset it; `laybare completion SHELL` prints what a shell needs.") from None


def run() -> None:
    """Run the command line; a finding becomes a message and exit status 2, an interrupt 128 + its signal, a closed pipe 141."""
    try:
        status = _run_commands()
        sys.stdout.flush()
    except LaybareError as error:
        status = _print_error(str(error))
    except (click.Abort, KeyboardInterrupt) as interrupt:
        status = _say_interrupted(str(interrupt))
    except click.ClickException as error:
        vars(error)["message"] = redact(error.message)
        with suppress(OSError, ValueError):
            error.show()
        status = _print_json_error(error.format_message(), error.exit_code)
    except (SystemExit, GeneratorExit) as error:  # click ends commands in another way: these come out of a black box
        if os.environ.get(COMPLETION) and error.args == (0,):  # but a completion
            raise
        status = _print_error(f"What was called ended the program ({type(error).__name__} {error}). Nothing was found.")
    except BrokenPipeError:
        status = _close_quietly()
    except OSError as error:
        status = _print_error(f"{_place_of(error)} was not written or read: {error.strerror or error}.")
    except Exception:
        if not STATE.number:
            raise
        status = _say_interrupted("")  # an interrupt inside of a library may come out as any exception
    STATE.act = leave_at_once
    if STATE.number:
        end_at_once(status)
    sys.exit(status)


def _place_of(error: OSError) -> str:
    """The file; where the system names none, the current folder if that was removed, else standard output."""
    try:
        os.getcwd()
    except OSError:
        return "the current folder"
    return str(error.filename or "standard output")


def _say(message: str) -> None:
    """A sentence on standard error, if anybody reads it."""
    from laybare.cli.wording import for_standard_error

    with suppress(OSError, ValueError):
        click.echo(for_standard_error(f"laybare: {message}"), err=True)


def _say_interrupted(reason: str) -> int:
    message = "; ".join(filter(None, ("interrupted", reason)))
    _say(message)
    return _print_json_error(message, STATE.status)


def _print_error(message: str) -> int:
    """A finding in the words of the command line."""
    from laybare.cli.wording import in_command_line_words

    message = redact(in_command_line_words(message))
    _say(message)
    return _print_json_error(message, MISUSE)


def _print_json_error(message: str, status: int) -> int:
    """Whoever asked for an object gets one, and nothing if there is no room for it."""
    if "--json" in sys.argv:
        with suppress(OSError):
            print(json.dumps({"error": redact(message), "status": status}), flush=True)
    return status


def _close_quietly() -> int:
    """The reader has gone, as `head` does: no message, and nothing more into the closed pipe when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE

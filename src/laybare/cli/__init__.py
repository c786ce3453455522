"""The command line: `laybare recover DATA`, `extract TARGET`, `audit TARGET`, `compare A B` and others.

Exit status: 0 verified (or nothing to judge), 3 doubtful, 4 refuted, 2 misuse, 130 interrupted, 143 terminated, 141 closed pipe;
`compare --tol` has 1 for different. Importing this takes a few milliseconds, and signals are taken before anything else: an
interrupt is answered from then on, also while libraries are imported.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from laybare.cli.interrupts import listen
from laybare.numerics.lazy import homes_of, on_demand

__all__ = ["commands", "main"]

__getattr__ = on_demand(__name__, homes_of({
    "laybare.cli.output": "_pairs_table network_tables", "laybare.cli.program": "COMMANDS commands run suggest"}))


def main() -> None:
    """Run the command line."""
    _open_standard_streams()
    listen()
    from laybare.cli.program import run

    run()


def _open_standard_streams() -> None:
    """Whoever closes a standard stream (laybare ... >&-) wants nothing from it; and no file must be opened in its place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a letter that its encoding does not have, as on standard error


if __name__ == "__main__":
    main()

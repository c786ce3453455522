"""Recoveries without their certificate, which takes most of the time where there are many rows and is tested by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from laybare.certificate import unfinished_certificate
from laybare.pipeline import by_likelihood
from laybare.pipeline import main_loop as loop


@contextmanager
def without_certificate() -> Iterator[None]:
    """Inside, `recover` and `refine` say "doubtful" of what they found, as after Ctrl-C."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "certify", lambda network, problem, *, rng, extra, progress: unfinished_certificate(network, extra))
        patch.setattr(
            by_likelihood, "certify_likelihood",
            lambda network, problem, rows, *, rng, extra, progress: unfinished_certificate(network, extra))
        yield

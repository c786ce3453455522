"""Recoveries without their certificate, which takes most of the time where there are many rows and is tested by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from laybare.certificate import unfinished_certificate
from laybare.certificate.certificate import SearchRecord
from laybare.likelihood import judged_recovery
from laybare.pipeline import main_loop as loop


@contextmanager
def without_certificate() -> Iterator[None]:
    """Inside, `recover` and `refine` say "doubtful" of what they found, as after Ctrl-C."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((loop, "certify"), (judged_recovery, "certify_likelihood")):
            patch.setattr(module, name, lambda network, *given, search=SearchRecord(), **rest: unfinished_certificate(
                network, (*search.claims, *search.assumptions)))
        yield

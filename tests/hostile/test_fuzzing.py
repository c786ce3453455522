"""Numbers of every size end in a verdict or in a sentence, and whoever interrupts is answered within a second."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import numpy as np
import pytest

import laybare as lb
from laybare.studies.automatic import draw_case, fuzz_once

FEW, LONG = range(500, 512), 300.0
"""Seeds of the fast part; seconds of the long one."""

ANSWERED = 1.0
METHODS = [lb.RandomStart, lb.GeneralReLU, lb.TensorInit, lb.LandscapeDesign, lb.SymmetricInputs]


@pytest.mark.parametrize("seed", FEW)
def test_a_case_ends_without_a_traceback(seed: int) -> None:
    assert fuzz_once(60, seed).wrong == ""


def test_a_network_without_units_has_errors_too() -> None:
    """Found by five minutes of cases: errors of a constant were carried to the given inputs in a shape that zero units do not
    have."""
    assert fuzz_once(150, 207742594).wrong == ""


@pytest.mark.slow
def test_five_minutes_of_cases_end_without_a_traceback() -> None:
    """On seeds that depend on the day, printed; any that fails can be run again."""
    first = int(time.time()) // 86_400 * 10_000
    begun, seed, wrong = time.perf_counter(), first, {}
    while time.perf_counter() - begun < LONG:
        found = fuzz_once(150, seed)
        if found.wrong:
            wrong[seed] = found.wrong
        seed += 1
    print(f"seeds {first} to {seed - 1}: {len(wrong)} wrong")
    assert not wrong


def seconds_to_answer(call: Callable[[], object], after: float) -> float:
    """CPU seconds (other tests run beside this one) from an interrupt, so long after the beginning, to the return; negative if
    the call was over before."""
    sent: list[float] = []

    def interrupt(number: int, frame: object) -> None:
        sent.append(time.process_time())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        ended = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return ended - sent[0] if sent else -1.0


def noisy_call(kind: type, dim: int, width: int, rows: int) -> Callable[[], object]:
    """A recovery that takes seconds: too much noise to end early."""
    rng = np.random.default_rng(0)
    biases = 0.0 if kind is lb.SymmetricInputs else 0.5
    truth = lb.random_network(dim, width, biases=biases, readout="positive", rng=rng)
    x = rng.standard_normal((rows, dim))
    y = truth(x)
    lb.recover(lb.Samples(x[:400, :2], np.maximum(x[:400, 0], 0.0)), method=kind(), width=1, rng=0)  # everything is imported now
    source = lb.Samples(x, y + 0.3 * y.std() * rng.standard_normal(rows))
    return lambda: lb.recover(source, method=kind(), rng=0)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="interrupts by a timer are POSIX")
@pytest.mark.parametrize("kind", METHODS)
def test_an_interrupt_is_answered_within_a_second(kind: type) -> None:
    assert seconds_to_answer(noisy_call(kind, 12, 6, 3000), 0.4) < ANSWERED


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="interrupts by a timer are POSIX")
@pytest.mark.parametrize("kind", METHODS)
def test_interrupts_at_twenty_moments_are_answered_within_a_second(kind: type) -> None:
    call = noisy_call(kind, 30, 15, 40_000)
    answers = [seconds_to_answer(call, float(after)) for after in np.random.default_rng(1).uniform(0.1, 12.0, size=20)]
    print(f"{kind.__name__}: {max(answers):.2f} s at most, {sum(answer < 0 for answer in answers)} were over before")
    assert max(answers) < ANSWERED


def test_an_error_that_overflows_is_infinite_and_not_passed_over() -> None:
    """NaN stands for "not looked at": readouts of such a case had it, and the claim on open numbers passed."""
    rng = np.random.default_rng([207_730_763, 300])
    x, y = draw_case(rng, int(rng.integers(2, 150)))
    found = lb.recover(lb.Samples(x, y), rng=207_730_763, seconds=5.0)
    assert not any(np.isnan(np.asarray(part)).any() for part in found.certificate.standard_errors)
    assert found.certificate.verdict != "verified"

"""What the studies `caution` and `same-data` plant and count."""

import numpy as np
import pytest

import laybare as lb
from laybare.studies import caution
from laybare.studies.caution import CAUTION, SAME_DATA, CautionCell, CautionRun, SameDataCell, SameDataRun, disagreement, plant
from laybare.studies.certificates import right_and_verified


def test_rows_and_noise_are_those_of_the_cell():
    """1,700 rows: the noise has a standard deviation of 0.3, give or take 4 of its own, 0.3 / √(2 · 1700)."""
    case = plant(CautionCell(0.3, 100, (3, 3)), 0)
    x, y = case.source.read(0, case.source.size)
    clean = case.truth(x)
    assert len(x) == 100 * (3 * 5 + 1)
    assert abs(np.std(y.ravel() - clean) / clean.std() - 0.3) < 0.021


def test_right_and_wrong_ones_are_counted_apart():
    cell = CAUTION.cells(CAUTION.quick)[0]
    runs = [CautionRun("verified", True, 1.0), CautionRun("doubtful", True, 1.0), CautionRun("verified", False, 1.0),
            CautionRun("refused", False, 1.0)]
    counted = CAUTION.summary(CAUTION.quick, {cell: runs})
    (row,) = counted.rows
    assert (row.data_sets, row.right, row.right_and_verified, row.wrong_and_verified) == (4, 2, 1, 1)
    assert counted.sentence.startswith("noise 1%: 1 of 2 right ones verified, 1 wrong ones")


def test_a_clear_network_is_right_and_verified():
    assert right_and_verified(caution.judge_plain(CautionCell(0.01, 30, (3, 2)), 3))


def test_searches_of_the_same_rows_are_compared(monkeypatch):
    """A verdict that goes with the seed is seen, whatever makes it."""
    cell = SameDataCell(CautionCell(0.1, 30, (3, 2)), 4)
    honest = caution.search_again(cell, 0)
    assert honest.verified + honest.others == 4 and honest.networks == 1

    def fickle(source, method, rng):
        if rng % 2:
            raise lb.LaybareError("Seen.", "Why.", "What to do.")
        return lb.recover(source, method, 2, rng=0)

    monkeypatch.setattr(caution, "recover", fickle)
    assert caution.search_again(cell, 0) == SameDataRun(2, 2, 1)


def test_bits_say_how_much_the_seed_decides():
    assert disagreement([SameDataRun(8, 0, 1), SameDataRun(0, 8, 0)]) == 0.0
    assert disagreement([SameDataRun(4, 4, 1)]) == pytest.approx(1.0)
    runs = [SameDataRun(8, 0, 1), SameDataRun(7, 1, 1), SameDataRun(5, 3, 2)]
    counted = SAME_DATA.summary(SAME_DATA.quick, {SAME_DATA.cells(SAME_DATA.quick)[0]: runs})
    assert (counted.rows[0].all_the_same, counted.rows[0].all_but_one, counted.rows[0].different_networks) == (1, 2, 1)
    assert "1 of 3 data sets, all but one in 2; in 1 verified networks differ" in counted.sentence

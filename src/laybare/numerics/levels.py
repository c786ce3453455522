"""Levels of exactness, in one place: each is a multiple of the rounding of one number, or the square of such a multiple.

A relative *amplitude* compares numbers with numbers (a difference with what it is the difference of). A relative *loss* compares
sums of squares with sums of squares: it is the square of an amplitude, and the names below say which of the two they are. Fits of
noiseless data end below 1e-28 in relative loss, or above 1e-6, with nothing between. So only the order of these levels matters;
they are powers of two.

    amplitude        2^4   LAST_BITS     3.6e-15    the order of a sum moves it
    (of EPS)         2^7   DIGITS        2.8e-14    a solver that stops early leaves it
                     2^9   GRAM          1.1e-13    a Gram matrix, or a difference of two, knows no less
                     2^12  ROUNDING      9.1e-13    long computations leave it
                     2^22  NOISELESS     9.3e-10    far above all rounding, far below any noise: data without noise, fitted
                     2^32  SOLVED        9.5e-7     the last steps of the solver will bring the rest

Thresholds of statistics, of convergence and of certificates are no levels of exactness; they stand where they are used.
"""

from __future__ import annotations

from typing import Final

import numpy as np

EPS: Final = float(np.finfo(np.float64).eps)
"""Relative rounding of one number, 2.2e-16. Derived: rounding of a double."""

TINY: Final = float(np.finfo(np.float64).tiny)
"""The least number that keeps all digits: a divisor that is zero is replaced by it. Derived: range of a double."""

LAST_BITS: Final = 2.0**4 * EPS
"""Relative amplitude by which the order of a sum changes its result. Derived: a multiple of EPS."""

GRAM: Final = 2.0**9 * EPS
"""Eigenvalues of a Gram matrix below this share of the largest are rounding, and so is a difference of two such matrices.
Derived: a multiple of EPS."""

ROUNDING: Final = 2.0**12 * EPS
"""Relative amplitude below which a number is what a long computation left of zero. Derived: a multiple of EPS."""

NOISELESS: Final = 2.0**22 * EPS
"""Relative root mean square residual below which data have no noise and are fitted. Derived: an amplitude, squared."""

SOLVED: Final = 2.0**32 * EPS
"""Relative root mean square residual from which a solver reaches rounding if the data have no noise. Derived: a multiple of
EPS."""

FLOOR_LOSS: Final = 2.0 * EPS**2
"""Relative loss of a fit whose outputs are right to the last bit, 1e-31: nothing is left to gain. Derived: an amplitude,
squared."""

START_LOSS: Final = LAST_BITS**2
"""Relative loss, 1e-29, at which a start is exact: a step would only stir its last bits. Derived: an amplitude, squared."""

DIGITS_LOSS: Final = (2.0**7 * EPS) ** 2
"""Relative loss, 8e-28, at which weights have about 13 digits; a matrix-free solver pays much for the rest. Derived: a multiple
of EPS."""

GRAM_LOSS: Final = GRAM**2
"""Relative loss, 1e-26, that only an exact fit reaches; from here a step that gains less than tenfold is rounding. Derived: an
amplitude, squared."""

ROUNDING_LOSS: Final = ROUNDING**2
"""Relative loss, 8e-25, below which two fits are both exact: neither is better than the other. Derived: an amplitude, squared."""

NOISELESS_LOSS: Final = NOISELESS**2
"""Relative loss, 9e-19, below which data have no noise and are fitted. Derived: an amplitude, squared."""

SOLVED_LOSS: Final = SOLVED**2
"""Relative loss, 9e-13, at which a search over noiseless data has found the network: the rest is refinement. Derived: an
amplitude, squared."""

EPS_SINGLE: Final = float(np.finfo(np.float32).eps)
"""Relative rounding of one number in single precision, 1.2e-7. Derived: rounding of a single."""

SINGLE_LOSS: Final = (2.0**13 * EPS_SINGLE) ** 2
"""Relative loss, 1e-6, above which slopes in single precision will do: residuals are thousands of times their rounding.
Derived: a multiple of EPS."""

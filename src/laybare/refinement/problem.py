"""The problem, posed once: rows to fit and rows that nothing sees before the certificate, both white, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from laybare.networks import Network
from laybare.refinement.variation import total_variation
from laybare.shapes import Progress, tell
from laybare.source import Affine, Source
from laybare.source.whitening import whitening_map


@dataclass(frozen=True, eq=False)
class Problem:
    """What the loop works on.

    Attributes
    ----------
    used, fresh : Source
        White inputs by one map; kept in memory if they fit, else streamed.
    transform : Affine
        From the inputs as they were given to the white ones.
    variation : float
        Sum of squares of the used outputs about their mean: the unit of every relative loss.
    biases : bool
        Whether units have biases.
    """

    used: Source
    fresh: Source
    transform: Affine
    variation: float
    biases: bool

    @property
    def rows(self) -> int:
        """All rows, used and fresh."""
        return self.used.size + self.fresh.size

    @property
    def equations(self) -> int:
        """Numbers that are fitted."""
        return self.used.size * self.used.outputs

    def given(self, network: Network) -> Network:
        """A network on white inputs as one on the inputs that were given."""
        return self.transform.pull_back(network)

    def white(self, network: Network) -> Network:
        """A network on the given inputs as one on white inputs."""
        return self.transform.inverse().pull_back(network)


def pose(source: Source, *, biases: bool, rng: Generator, progress: Progress | None = None) -> Problem:
    """Split, whiten, keep, measure the variation: five readings at most, two of them to keep the rows."""
    tell(progress, "reading")
    used, fresh = source.split(1.0 - held_out(source.size) / source.size, rng=rng)
    return pose_parts(used, fresh, biases=biases)


def pose_parts(used: Source, fresh: Source, *, biases: bool) -> Problem:
    """The same for rows that are split already."""
    transform, law = whitening_map(used, centred=biases), used.law.white()
    white = used.mapped(transform, law).kept()
    return Problem(white, fresh.mapped(transform, law).kept(), transform, total_variation(white), biases)


def held_out(size: int) -> int:
    """Rows kept for the certificate: a tenth of few, a twentieth of many, never more than 20,000."""
    return max(1, min(20_000, max(size // 20, min(size // 10, 100))))

"""White inputs for fitting, and the way back to the inputs of the very source that was given."""

from __future__ import annotations

from laybare.source.laws import Symmetric
from laybare.source.protocol import Source
from laybare.source.views import View


def white_view(source: Source, *, centred: bool = True) -> View:
    """The rows of `source` with inputs of mean 0 and covariance I, or, without centring, of second moment I.

    Centring turns a unit without bias into one with a bias. A fit without biases therefore needs inputs that keep their mean.
    `transform` starts from the inputs of `source`, also if `source` is a view with a transform of its own.
    """
    transform = source.law.whitening(source)
    if not centred and transform.mean.any():
        transform = Symmetric().whitening(source)
    return View(source, range(source.size), transform, source.law.white(), source.schedule)

"""What may be asked: a function, a model of another library, a file, an address. Every kind becomes a `Target`."""

from laybare.source.targets.endpoint import Endpoint
from laybare.source.targets.kinds import as_target
from laybare.source.targets.target import Target

__all__ = ["Endpoint", "Target", "as_target"]

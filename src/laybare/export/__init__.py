"""Networks from and to other libraries. Each is imported only when its function is called."""

from laybare.export.sklearn import from_sklearn, to_sklearn

__all__ = ["from_sklearn", "to_sklearn"]

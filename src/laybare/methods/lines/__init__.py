"""A black box read along lines, at about one query per parameter."""

from laybare.methods.lines.method import Lines

__all__ = ["Lines"]

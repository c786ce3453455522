"""The version: it stands here and nowhere else."""

__version__ = "0.3.0"

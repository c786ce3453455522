"""From a rough start to machine precision, or to the statistical floor: streamed Gauss-Newton, over-wide search, pruning."""

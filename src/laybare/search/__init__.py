"""From a start to the best fit: runs with spare units, repairs, pruning, signs; a part of the rows first, then all."""

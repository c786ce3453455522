"""Where samples come from: arrays, files, a black box. Every pass over them is `source.sum(statistic)`."""

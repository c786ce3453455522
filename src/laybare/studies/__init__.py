"""One file a figure of a paper, or a worked case: settings -> table -> figure."""

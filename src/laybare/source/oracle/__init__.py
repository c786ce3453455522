"""A black box as a source: what can be asked, how queries are sent, paid for, kept and logged."""

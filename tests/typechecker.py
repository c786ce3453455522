"""The checker of shapes and types: beartype, with int where float is asked for (as mypy has it)."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))

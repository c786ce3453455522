"""Secrets stay out of messages, logs, reports and JSON: what is shown of an address, and of texts that may hold one.

An address may hold a password (https://user:password@host) or a key (?api_key=...). They are sent, and shown as ***. A value of
the query is a secret if its name says so, or if it looks like one: long, and letters and digits mixed. Other values are shown:
?model=b&version=3 says which model it is.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_plus

HIDDEN = "***"
"""What stands in the place of a secret."""

SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|auth|sig|cred|session|jwt|code|bearer|sas|access|user", re.IGNORECASE)
SECRET_VALUE = re.compile(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[\w\-+/=.~%]{20,}")
"""Convention: keys of services have at least 20 characters; names of models and versions rarely do."""

SHORTEST_SECRET = 4
"""Characters of a secret that is looked for inside other texts. Convention: shorter ones stand in every second word."""

_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.\-]*:/+)([^\s'\"<>]*)", re.IGNORECASE)  # a path of an address has one slash less
_CREDENTIAL = re.compile(r"\b(Token|(?i:Bearer|Basic)|token(?=\s+\S*[\d_]))\s+[^\s'\",;)}\]]+")  # not "the token and"
_ASSIGNED = re.compile(r"([?&;])([^=&;#\s'\"]+)=([^&;#\s'\"]*)")


def redact(text: str, *secrets: str) -> str:
    """The text without these secrets, without passwords and keys in addresses, without credentials of headers."""
    for secret in sorted(filter(lambda one: len(one) >= SHORTEST_SECRET, secrets), key=len, reverse=True):
        for form in {secret, quote(secret), quote(secret, safe=""), unquote_plus(secret), repr(secret)[1:-1]}:
            text = text.replace(form, HIDDEN)
    text = _ADDRESS.sub(lambda seen: redact_address(seen[0]), text)
    return _CREDENTIAL.sub(rf"\1 {HIDDEN}", text)


def describe_error(error: BaseException) -> str:
    """Kind and message of what the code of others raised, without secrets; its message may raise as well, or be a book."""
    text = message_of(error)
    return f"{type(error).__name__} ({text})" if text else type(error).__name__


def message_of(error: BaseException) -> str:
    """The message alone."""
    try:
        return redact(str(error)[:500]).strip()
    except Exception:
        return ""


def redact_address(address: str) -> str:
    """The address with *** for user, password and every secret value of its query; without its fragment, which is never sent."""
    scheme, rest = _split_scheme(address)
    place, ask, query = rest.partition("?")
    host, slash, path = place.partition("/")
    _, at, host = host.rpartition("@")
    shown = f"{HIDDEN}@{host}" if at else host
    return f"{scheme}{shown}{slash}{path}" + (_ASSIGNED.sub(_hide, ask + query) if ask else "")


def secrets_of(address: str) -> tuple[str, ...]:
    """What `redact_address` hides, so that it can be looked for elsewhere."""
    place, ask, query = _split_scheme(address)[1].partition("?")
    user = place.partition("/")[0].rpartition("@")[0]
    values = [seen[3] for seen in _ASSIGNED.finditer(ask + query) if _is_secret(seen[2], seen[3])]
    return tuple(filter(None, (*user.split(":", 1), *values)))


def _split_scheme(address: str) -> tuple[str, str]:
    """"https://" and the rest, without its fragment."""
    scheme = re.match(r"[^/?#]*:/+", address)
    end = 0 if scheme is None else scheme.end()
    return address[:end], address[end:].partition("#")[0]


def _hide(seen: re.Match[str]) -> str:
    return f"{seen[1]}{seen[2]}={HIDDEN if _is_secret(seen[2], seen[3]) else seen[3]}"


def _is_secret(name: str, value: str) -> bool:
    return bool(value) and bool(SECRET_NAME.search(unquote_plus(name)) or SECRET_VALUE.fullmatch(unquote_plus(value)))

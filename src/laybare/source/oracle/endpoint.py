"""A black box behind an http(s) address that speaks JSON.

    POST <url>     {"inputs": [[x00, x01, ...], [x10, ...], ...]}       Content-Type: application/json
    200            {"outputs": [[y00, ...], [y10, ...], ...]}           or one number per row: {"outputs": [y0, y1, ...]}

Servers that speak otherwise are described by `request` (how a server wants to be asked) and `response` (where its answer is):

    request     {"instances": "$x"}          rows in the place of "$x"; "$row" is one row, and then every row is a request
    response    predictions                  a field; fields of fields with dots, entries of lists by number: data.0.y, data[0].y
                data[*].score                the same field of every entry

Numbers are sent with all digits of float64. After a dropped connection, a timeout, 429 or 5xx the request is repeated after a
pause that doubles (or is what Retry-After says); anything else is an error at once, with what the server said. A host that was
never reached is given up after `contact` seconds. What is waited for is told to `notify`. Redirections are not followed: the
token must not be sent to another address. A connection is kept for the next request (`laybare.source.oracle.connections`).

A request runs on a thread of its own while the caller waits: names are looked up and servers drip by calls that nothing can
interrupt, and so the timeout holds for the whole answer, and Ctrl-C is answered at once.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from _thread import start_new_thread
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from laybare.errors import InvalidInput
from laybare.numerics.checks import check_instance, check_number, check_whole, show_value, with_article
from laybare.numerics.redaction import redact, redact_address, secrets_of
from laybare.numerics.shapes import Array
from laybare.source.oracle.connections import ConnectionPool, HttpRequest, RequestUnderWay, proxy_of
from laybare.version import __version__

ROWS, ROW = "$x", "$row"


@dataclass(frozen=True)
class RequestShape:
    """A template of JSON."""

    DEFAULT: ClassVar[str] = '{"inputs": "$x"}'
    template: str

    def __post_init__(self) -> None:
        try:
            places = _count(json.loads(self.template))
        except (ValueError, TypeError, RecursionError):
            places = 0
        if places != 1:
            raise InvalidInput(
                f"The request is {self.template!r:.80}.", "It must be JSON that has one place for the inputs.",
                f'Give a template such as {{"instances": "{ROWS}"}}, or "{ROW}" where a request has one row.')

    @property
    def single(self) -> bool:
        """Whether a request holds one row."""
        return f'"{ROW}"' in self.template

    def body(self, x: Array) -> bytes:
        """The request for these rows."""
        return json.dumps(_fill(json.loads(self.template), x.tolist())).encode()


def _count(shape: Any) -> int:
    if isinstance(shape, dict | list):
        return sum(map(_count, shape.values() if isinstance(shape, dict) else shape))
    return int(shape in (ROWS, ROW)) if isinstance(shape, str) else 0


def _fill(shape: Any, rows: list[Any]) -> Any:
    if isinstance(shape, dict):
        return {name: _fill(part, rows) for name, part in shape.items()}
    if isinstance(shape, list):
        return [_fill(part, rows) for part in shape]
    return rows if shape == ROWS else rows[0] if shape == ROW else shape


@dataclass(frozen=True)
class ResponsePath:
    """Names and numbers of fields, from the outside in."""

    DEFAULT: ClassVar[str] = "outputs"
    path: str

    def find(self, document: Any) -> Any:
        """What stands there; KeyError, IndexError, TypeError or ValueError if nothing does."""
        return _find(document, re.findall(r"[^.\[\]]+", self.path))


def _find(document: Any, steps: list[str]) -> Any:
    if not steps:
        return document
    step, *rest = steps
    if step == "*":
        if not isinstance(document, list):
            raise TypeError
        return [_find(part, rest) for part in document]
    return _find(document[int(step)] if isinstance(document, list) else document[step], rest)


SHOWN_CHARACTERS = 80
"""Characters of an answer in an error message. Convention: about one line on a screen."""

SHOWN_REASON = 300
"""Characters of what a server says about a request that it refuses. Convention: a few lines."""

PATIENT_SECONDS = 2.0
"""Seconds without an answer after which somebody is told, and between two such notes. Convention: as a person would ask."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Convention: a token of RFC 9110, section 5.6.2."""

READ_BYTES = 1 << 16
"""Bytes of an answer that are read at a time. Convention: the buffer of a socket."""


@dataclass(frozen=True)
class Endpoint:
    """An http(s) address that answers queries.

    Parameters
    ----------
    url : http or https; user:password@ is sent as basic authorization; secrets in it are neither shown nor logged
    batch : rows per request
    timeout : seconds until the whole answer must be there
    retries : further attempts after a failure that may be temporary
    pause : seconds before the first further attempt; doubled each time, up to the timeout
    token : name of an environment variable whose value is sent as a bearer token; it is neither shown nor logged
    contact : seconds within which the host must be reached for the first time
    largest : bytes of an answer at most
    headers : pairs (name, value), or a dict, that are sent with every request; values are neither shown nor logged
    request : JSON with "$x" in the place of the rows, or "$row" for one row per request; by default {"inputs": "$x"}
    response : where the outputs are, such as "predictions" or "data[*].score"; by default "outputs"
    rate : requests per second at most; None: as fast as they are answered
    notify : told (what, try, tries) whenever the endpoint waits; optional
    """

    url: str = field(repr=False)
    batch: int = 256
    timeout: float = 30.0
    retries: int = 5
    pause: float = 0.5
    token: str = "LAYBARE_TOKEN"
    contact: float = 2.5  # Convention: a connection takes a tenth of a second; a wrong name should be named within three.
    largest: int = 1 << 26  # Derived: 256 rows of 10,000 outputs of 25 characters.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    request: str = RequestShape.DEFAULT
    response: str = ResponsePath.DEFAULT
    rate: float | None = None
    notify: Callable[[str, int, int], None] | None = field(default=None, repr=False, compare=False)
    _reached: list[bool] = field(default_factory=list, repr=False, compare=False)
    _last: list[float] = field(default_factory=list, repr=False, compare=False)
    _connections: ConnectionPool = field(default_factory=ConnectionPool, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_address(self.url)
        object.__setattr__(self, "headers", _checked_headers(self.headers))
        for name, least in (("batch", 1), ("retries", 0), ("largest", 1)):
            check_whole(name, getattr(self, name), least)
        for name in ("timeout", "contact"):
            check_number(name, getattr(self, name), most=TIMEOUT_MAX, above=0.0)
        check_number("pause", self.pause, 0.0, TIMEOUT_MAX)
        if self.rate is not None:
            check_number("rate, in requests per second,", self.rate, 1.0 / TIMEOUT_MAX)
        check_instance("token", self.token, str, "Give the name of an environment variable.")
        check_instance("response", self.response, str, "Give a path of fields, such as data[*].score.")
        if self.notify is not None and not callable(self.notify):
            raise InvalidInput(
                f"notify is {show_value(self.notify)}.", "It is called whenever the endpoint waits.", "Give a function, or None.")
        if RequestShape(self.request).single:
            object.__setattr__(self, "batch", 1)

    @property
    def name(self) -> str:
        """The address without its secrets."""
        return redact_address(self.url)

    def ask(self, x: Array) -> Any:
        """Outputs for one batch, as received."""
        body, begun, attempt = RequestShape(self.request).body(x), time.monotonic(), 0
        headers, doubled = _headers(self), self.pause
        proxy_of(urlsplit(self.url))  # refused here: what fails inside of a request counts as the server's
        while True:
            self._keep_rate()
            answer = _request(self, headers, body)
            attempt += 1
            if answer.problem is None:
                return _outputs(self, answer.body)
            pause, doubled = min(max(doubled, answer.wait), max(self.pause, self.timeout)), 2.0 * doubled
            late = not self._reached and time.monotonic() - begun + pause > self.contact
            if not answer.temporary or attempt > self.retries or late:
                break
            self._say(f"waiting {pause:.3g} s, {answer.problem}", attempt + 1)
            time.sleep(pause)
        said = f" It said: {answer.said}" if answer.said else ""
        raise InvalidInput(
            f"{self.name} did not answer {len(x)} queries: {answer.problem}.{said}",
            f"{attempt} {'attempt was' if attempt == 1 else 'attempts were'} made; the answers so far are kept.",
            "Check the address, the token, the shape of the request and the server, and call again.",
            url=self.name, tries=attempt)

    def _keep_rate(self) -> None:
        """Wait until the next request is allowed."""
        if self.rate is None:
            return
        pause = (self._last[0] + 1.0 / self.rate - time.monotonic()) if self._last else 0.0
        if pause > 0.0:
            if pause > PATIENT_SECONDS:
                self._say(f"waiting {pause:.3g} s, {self.rate:g} requests per second", 1)
            time.sleep(pause)
        self._last[:] = [time.monotonic()]

    def _say(self, what: str, attempt: int) -> None:
        if self.notify is not None:
            self.notify(what, attempt, self.retries + 1)


def _check_address(url: Any) -> None:
    """Refuse what is no http(s) address before anything is asked."""
    problem = ""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme.lower() not in ("http", "https"):
            problem = "only http and https are supported"
        elif not parts.hostname:
            problem = "there is no host in it"
        elif any(not 32 < ord(letter) < 127 for letter in url):
            problem = "a blank, a control character or a letter outside of ASCII is in it; write %20 and the like"
        elif parts.port is not None and not 0 < parts.port < 1 << 16:
            problem = "its port is none"
        else:
            parts.hostname.encode("idna")
    except ValueError as error:
        problem = redact(str(error), *secrets_of(url))
    if problem:
        shown = redact_address(url) if isinstance(url, str) and "://" in url else redact(repr(url)).strip("'")
        raise InvalidInput(
            f"The address is {shown!r}.", f"Nothing can be asked there: {problem}.",
            "Give an address such as https://host:8000/predict.")


def _headers(endpoint: Endpoint) -> dict[str, str]:
    """Headers of a request; the token is stripped and checked here, because lower libraries print what they refuse."""
    chosen = {name.lower() for name, _ in endpoint.headers}
    ours = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": f"laybare/{__version__}"}
    headers = {name: value for name, value in ours.items() if name.lower() not in chosen} | dict(endpoint.headers)
    secret, parts = os.environ.get(endpoint.token, "").strip(), urlsplit(endpoint.url)
    if "authorization" in chosen:
        return headers
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    elif secret:
        wrong = next((place for place, letter in enumerate(secret) if not 32 <= ord(letter) < 127), None)
        if wrong is not None:
            raise InvalidInput(
                f"Character {wrong + 1} of the token in ${endpoint.token} is a control character or outside of ASCII.",
                "No header may hold it.", "Set the variable to the token alone.", token=endpoint.token)
        headers["Authorization"] = f"Bearer {secret}"
    return headers


def _secrets(endpoint: Endpoint) -> tuple[str, ...]:
    values = [part for _, value in endpoint.headers for part in (value, *value.split())]
    return (os.environ.get(endpoint.token, "").strip(), *secrets_of(endpoint.url), *values)


def _checked_headers(headers: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of name and value; what no header may hold is refused, without showing a value."""
    try:
        pairs = tuple((name, value) for name, value in (headers.items() if isinstance(headers, Mapping) else headers))
        texts = all(isinstance(part, str) for pair in pairs for part in pair)
    except Exception:  # whatever an object does when it is taken apart
        texts = False
    if not texts:
        raise InvalidInput(
            f"headers is {with_article(type(headers).__name__)}.", "It has the name and the value of every header, as text.",
            'Give pairs, such as headers=(("X-Api-Key", key),), or a dict.')
    for name, value in pairs:
        if not HEADER_NAME.fullmatch(name):
            raise InvalidInput(f"A header is called {name!r}.", "Names have letters, digits and -.", "Correct the name.")
        if not value or any(not 32 <= ord(letter) < 127 for letter in value):
            raise InvalidInput(
                f"The value of the header {name} is empty, or has a control character or a letter outside of ASCII.",
                "No header may hold it.", "Give the value alone.")
    return pairs


@dataclass(frozen=True)
class _Reply:
    """The body, or the problem, whether it may be temporary, how many seconds the server asks to wait, and what it said."""

    body: bytes = b""
    problem: str | None = None
    temporary: bool = True
    wait: float = 0.0
    said: str = ""


def _request(endpoint: Endpoint, headers: dict[str, str], body: bytes) -> _Reply:
    """One request within its time. An abandoned one is shut down, so that its thread ends."""
    replies: SimpleQueue[_Reply] = SimpleQueue()
    way = RequestUnderWay()

    def work() -> None:
        try:
            replies.put(_exchange(endpoint, headers, body, way))
        except Exception as error:  # whatever a server makes a library raise is an answer that cannot be used
            replies.put(_Reply(problem=type(error).__name__))

    start_new_thread(work, ())
    begun, answered = time.monotonic(), False
    try:
        while True:
            limit = endpoint.timeout if endpoint._reached else min(endpoint.timeout, endpoint.contact)
            left = begun + limit - time.monotonic()
            try:
                reply = replies.get(timeout=max(0.0, min(left, PATIENT_SECONDS)))
                answered = True
                return reply
            except Empty:
                if time.monotonic() < begun + limit:
                    host = urlsplit(endpoint.url).hostname
                    endpoint._say(f"waiting for {host}, {time.monotonic() - begun:.0f} s of {limit:g} s", 1)
                    continue
                if endpoint._reached and limit < endpoint.timeout:  # reached meanwhile: the longer limit holds
                    continue
                return _Reply(problem=_late(endpoint, limit))
    finally:
        if not answered:
            way.abandon()


def _late(endpoint: Endpoint, limit: float) -> str:
    host = urlsplit(endpoint.url).hostname
    return f"no answer within {limit:g} seconds" if endpoint._reached else f"{host} was not reached within {limit:g} seconds"


def _exchange(endpoint: Endpoint, headers: dict[str, str], body: bytes, way: RequestUnderWay) -> _Reply:
    request = HttpRequest(urlsplit(endpoint.url), headers, body, endpoint.timeout)

    def reached() -> None:
        endpoint._reached[:] = [True]

    try:
        reply: _Reply = endpoint._connections.exchange(request, partial(_read, endpoint), way, reached)
        return reply
    except TimeoutError:
        return _Reply(problem=_late(endpoint, endpoint.timeout))
    except (OSError, HTTPException) as error:
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return _Reply(problem=redact(text, *_secrets(endpoint))[: 2 * SHOWN_CHARACTERS])


def _read(endpoint: Endpoint, reply: HTTPResponse) -> _Reply:
    """The answer, or what is wrong with it."""
    if not HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return _refusal(endpoint, reply)
    parts, size = [], 0
    while part := reply.read(READ_BYTES):
        parts.append(part)
        size += len(part)
        if size > endpoint.largest:
            return _Reply(problem=f"its answer has more than {endpoint.largest:,} bytes (largest=)", temporary=False)
    if reply.length:
        return _Reply(problem=f"its answer ended {reply.length:,} bytes too early")
    return _Reply(b"".join(parts))


def _refusal(endpoint: Endpoint, reply: HTTPResponse) -> _Reply:
    """The status, and the beginning of what the server says about it, in one line. No redirection is followed."""
    said = b""
    with suppress(OSError, ValueError, HTTPException):
        said = reply.read(READ_BYTES)
    shown = redact(f"status {reply.status} ({reply.reason})", *_secrets(endpoint))
    line = " ".join(said.decode(errors="replace").split())[: 4 * SHOWN_REASON]  # cut again below: no half of a secret is shown
    return _Reply(
        problem=shown,
        temporary=reply.status == HTTPStatus.TOO_MANY_REQUESTS or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR,
        wait=_seconds_to_wait(reply.headers.get("Retry-After", "")), said=redact(line, *_secrets(endpoint))[:SHOWN_REASON])


def _seconds_to_wait(text: str) -> float:
    """What Retry-After says: seconds, or a date; 0 for anything else."""
    from email.utils import parsedate_to_datetime

    with suppress(ValueError):
        seconds = float(text)
        return seconds if 0.0 < seconds < math.inf else 0.0
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def _outputs(endpoint: Endpoint, body: bytes) -> Any:
    try:
        found = ResponsePath(endpoint.response).find(json.loads(body))
        return [found] if RequestShape(endpoint.request).single else found
    except (ValueError, LookupError, TypeError, RecursionError):
        shown = redact(body[:SHOWN_CHARACTERS].decode(errors="replace").strip(), *_secrets(endpoint))
        raise InvalidInput(
            f"{endpoint.name} answered {shown!r}{'...' if len(body) > SHOWN_CHARACTERS else ''}.",
            f'A JSON object with the field "{endpoint.response}" was expected.',
            'Answer {"outputs": [...]}, one row or number for every input, in their order, or say where they are: response=...',
            url=endpoint.name) from None

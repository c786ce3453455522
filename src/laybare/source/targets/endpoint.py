"""A black box behind an http(s) address that speaks JSON.

    POST <url>     {"inputs": [[x00, x01, ...], [x10, ...], ...]}       Content-Type: application/json
    200            {"outputs": [[y00, ...], [y10, ...], ...]}           or one number a row: {"outputs": [y0, y1, ...]}

Numbers travel with as many digits as float64 has. A dropped connection, a timeout, 429 and 5xx are tried again after a pause that
doubles (or as long as Retry-After says); anything else is refused at once. Redirections are not followed: a token must not
travel to another address.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.targets.target import Target

SHOWN = 80
"""Characters of an answer that an error message shows."""


@dataclass(frozen=True)
class Endpoint:
    """An address that answers queries.

    Parameters
    ----------
    url : http or https
    batch : rows in one request
    timeout : seconds to wait for an answer
    retries : further tries after the first, if the failure may pass
    pause : seconds before the first further try; doubled each time
    token : name of an environment variable; what it holds is sent as a bearer token, and is neither shown nor logged
    """

    url: str
    batch: int = 256
    timeout: float = 30.0
    retries: int = 5
    pause: float = 0.5
    token: str = "LAYBARE_TOKEN"

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InvalidInput(f"The address is {self.url!r}.", "Only http and https are spoken.", "Give such an address.")
        if self.batch < 1 or self.retries < 0 or not self.timeout > 0 or self.pause < 0:
            raise InvalidInput(
                f"The endpoint has batch {self.batch}, timeout {self.timeout}, retries {self.retries}, pause {self.pause}.",
                "Rows and seconds are positive.", "Give batch >= 1, timeout > 0, retries >= 0, pause >= 0.")

    def target(self) -> Target:
        """The black box behind the address."""
        return Target(self.ask, self.url, batch=self.batch)

    def ask(self, x: Array) -> Any:
        """Outputs for one batch, as they came."""
        body = json.dumps({"inputs": x.tolist()}).encode()
        problem = ""
        for attempt in range(self.retries + 1):
            answer = _request(self, body)
            if answer.problem is None:
                return _outputs(self.url, answer.body)
            problem = answer.problem
            if not answer.may_pass:
                break
            if attempt < self.retries:
                time.sleep(max(self.pause * 2**attempt, min(answer.wait, self.timeout)))
        raise InvalidInput(
            f"{self.url} did not answer {len(x)} queries: {problem}.",
            f"{attempt + 1} {'try was' if attempt == 0 else 'tries were'} made; the answers bought so far are kept.",
            "Check the address, the token and the server, and call again: no query is paid for twice.", url=self.url,
            tries=attempt + 1)


@dataclass(frozen=True)
class _Reply:
    """What came back: the body, or what went wrong, whether it may pass, and for how long the server asks us to wait."""

    body: bytes = b""
    problem: str | None = None
    may_pass: bool = True
    wait: float = 0.0


def _request(endpoint: Endpoint, body: bytes) -> _Reply:
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        """No other address than the one that was given."""

        def redirect_request(self, *details: Any) -> None:
            return None

    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    secret = os.environ.get(endpoint.token)
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    try:
        with build_opener(Stay).open(Request(endpoint.url, body, headers), timeout=endpoint.timeout) as reply:
            return _Reply(reply.read())
    except HTTPError as error:
        with error:
            waits = error.headers.get("Retry-After", "")
            return _Reply(
                problem=f"status {error.code} ({error.reason})", may_pass=error.code == 429 or error.code >= 500,
                wait=float(waits) if waits.isdigit() else 0.0)
    except TimeoutError:
        return _Reply(problem=f"no answer within {endpoint.timeout:g} seconds")
    except (URLError, OSError, HTTPException) as error:
        return _Reply(problem=f"{getattr(error, 'reason', None) or error or type(error).__name__}")


def _outputs(url: str, body: bytes) -> Any:
    try:
        return json.loads(body)["outputs"]
    except (ValueError, KeyError, TypeError):
        shown = body[:SHOWN].decode(errors="replace").strip()
        raise InvalidInput(
            f"{url} answered {shown!r}{'...' if len(body) > SHOWN else ''}.",
            'A JSON object with the field "outputs" was expected.',
            'Answer {"outputs": [...]}, one row or number for every input, in their order.', url=url) from None

"""A black box behind http, good and bad, in a process of its own: `python black_box_server.py` prints its port.

The path says how it behaves; GET /rows tells how many rows were answered in good order so far. Weights are fixed: see `answer`.
"""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "open sesame"


def answer(x: list[list[float]]) -> list[list[float]]:
    """Two outputs: |x0| + x1 and the sum, in plain Python."""
    return [[abs(row[0]) + row[1], sum(row)] for row in x]


class Box(BaseHTTPRequestHandler):
    """One request."""

    rows = calls = 0

    def do_GET(self) -> None:
        self._send({"rows": Box.rows, "calls": Box.calls})

    def do_POST(self) -> None:
        Box.calls += 1
        inputs = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
        behave = getattr(self, "at_" + self.path.strip("/"), None)
        if behave is None:
            self.send_error(404)
        else:
            behave(inputs)

    def at_good(self, x: list[list[float]]) -> None:
        Box.rows += len(x)
        self._send({"outputs": answer(x)})

    def at_flaky(self, x: list[list[float]]) -> None:
        """Drops two connections of three, or says that it is busy."""
        if Box.calls % 3 == 0:
            self.at_good(x)
        elif Box.calls % 3 == 1:
            self.connection.close()
        else:
            self.send_error(503)

    def at_breaks(self, x: list[list[float]]) -> None:
        """Answers three calls, then no more."""
        if Box.calls <= 3:
            self.at_good(x)
        else:
            self.send_error(500)

    def at_guarded(self, x: list[list[float]]) -> None:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            self.at_good(x)
        else:
            self.send_error(401)

    def at_slow(self, x: list[list[float]]) -> None:
        time.sleep(1.0)
        self._send({"outputs": answer(x)})

    def at_short(self, x: list[list[float]]) -> None:
        self._send({"outputs": answer(x)[:-1]})

    def at_nan(self, x: list[list[float]]) -> None:
        self._send({"outputs": [[float("nan"), 0.0] for _ in x]})

    def at_words(self, x: list[list[float]]) -> None:
        self._send({"outputs": ["cat" for _ in x]})

    def at_other(self, x: list[list[float]]) -> None:
        self._send({"predictions": answer(x)})

    def at_broken(self, x: list[list[float]]) -> None:
        self.send_error(500)

    def at_moved(self, x: list[list[float]]) -> None:
        self.send_response(302)
        self.send_header("Location", "/good")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def at_html(self, x: list[list[float]]) -> None:
        page = b"<html><body>Please log in to continue to this service, thank you for your patience, goodbye</body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""

    def _send(self, given: object) -> None:
        body = json.dumps(given).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Box)
    print(server.server_address[1], flush=True)
    server.serve_forever()

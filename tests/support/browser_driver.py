"""A real browser: Chromium through its driver, spoken to in plain HTTP (W3C WebDriver)."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen


class Browser:
    """One window."""

    def __init__(self, address: str) -> None:
        self.address = address

    def post(self, path: str, content: dict[str, Any]) -> Any:
        request = Request(f"{self.address}{path}", json.dumps(content).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]

    def open(self, page: Path, width: int = 1280, *, dark: bool = False, medium: str = "") -> None:
        """Show a file in a window of that width."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.command("Emulation.setEmulatedMedia", media=medium, features=scheme)
        self.post("/url", {"url": page.as_uri()})

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self.post("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def run(self, script: str) -> Any:
        """The value of a script."""
        return self.post("/execute/sync", {"script": f"return {script}", "args": []})

    def logged(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last call: 'browser' is the console, 'performance' the network."""
        entries: list[dict[str, Any]] = self.post("/se/log", {"type": kind})
        return entries

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last call; images inside of the page are none."""
        events = [json.loads(entry["message"])["message"] for entry in self.logged("performance")]
        asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [address for address in asked if not address.startswith("data:")]

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        shot = self.command("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def print(self, path: Path) -> int:
        """The page as PDF, on the paper that it asks for; the number of its pages."""
        paper = base64.b64decode(self.command("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
        path.write_bytes(paper)
        return len(re.findall(rb"/Type\s*/Page\b", paper))


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless window, gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        window = Browser(_session(f"http://127.0.0.1:{port}"))
        yield window
        with urlopen(Request(window.address, method="DELETE"), timeout=30):
            pass
    finally:
        driver.terminate()
        driver.wait(30)


def _session(address: str) -> str:
    options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
    until = time.monotonic() + 60.0
    while True:
        try:
            made = Browser(address).post("/session", {"capabilities": {"alwaysMatch": wanted}})
            return f"{address}/session/{made['sessionId']}"
        except URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)

"""Endpoints that break every rule: answered in time with a sentence, and no secret is shown anywhere."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hostile_server import HostileServer, hostile_server
from signalled_programs import ENVIRONMENT, PROGRAM

import laybare as lb
from laybare.errors import InvalidInput
from laybare.numerics.redaction import redact, redact_address, secrets_of
from laybare.source import Endpoint
from laybare.source.oracle.endpoint import _seconds_to_wait

pytestmark = pytest.mark.usefixtures("unchecked")

ONE = np.ones((1, 2))
SECRET = "s3cr3t-Passw0rd"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("LAYBARE_TOKEN", raising=False)
    with hostile_server() as one:
        yield one


def asked(url: str, **options: object) -> str:
    """The answer of one query as text, or the sentence."""
    try:
        return str(np.asarray(Endpoint(url, **{"retries": 0, "pause": 0.01, "timeout": 0.6, **options}).ask(ONE)).tolist())
    except InvalidInput as refusal:
        return str(refusal)


@pytest.mark.parametrize(("path", "sentence"), [
    ("good", "[1.0]"),
    ("drip", "no answer within 0.6 seconds"),
    ("drip_headers", "no answer within 0.6 seconds"),
    ("silent", "no answer within 0.6 seconds"),
    ("endless", "more than 1,000,000 bytes"),
    ("short", "ended 982 bytes too early"),
    ("garbage", "did not answer 1 queries: "),
    ("headers", "did not answer 1 queries: got more than 100 headers"),
    ("length", "[1.0]"),
    ("chunks", "did not answer 1 queries: IncompleteRead"),
    ("deep", 'field "outputs" was expected'),
    ("huge", 'field "outputs" was expected'),
    ("echo", "status 400"),
])
def test_servers_that_break_the_rules(server: HostileServer, path: str, sentence: str) -> None:
    begun = time.monotonic()
    assert sentence in asked(f"{server.url}/{path}", largest=1_000_000)
    assert time.monotonic() - begun < 4.0  # the timeout holds for the whole answer; the rest is a busy machine


@pytest.mark.parametrize("text", [
    "1", "0", "-5", "0.01", "1e400", "nan", "soon", "", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 99 Foo 2015", "9" * 400, "٣",
    "\xb2", "1_0", "0x10", "inf", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_retry_after_of_any_text(server: HostileServer, text: str) -> None:
    """A date or seconds, or anything: at most the timeout is waited for."""
    assert 0.0 <= _seconds_to_wait(text) < np.inf
    begun = time.monotonic()
    if text.isascii() and " " not in text:
        assert asked(f"{server.url}/busy?{text}", retries=1, timeout=0.3) in ("[1.0]", "")
    assert time.monotonic() - begun < 3.0


@pytest.mark.parametrize("address", [
    "http://", "http:///path", "http://host:port/", "http://host:99999/", "http://host:-1/", "http://[::1/", "http://ho st/",
    "http://host/a b", "http://host/\r\nX-Header: 1", "http://host/\u00e9", "http://h\u00f6st/", "http://host:0/", "https://:80/",
    "ftp://host", "://", "", "http:/host", "http://host\x00/", f"http://{'a' * 300}.com/", "http://a..b/", None, 7, b"http://host"])
def test_malformed_addresses_are_refused_at_once(address: object) -> None:
    begun = time.monotonic()
    with pytest.raises(InvalidInput):
        Endpoint(address)  # type: ignore[arg-type]
    assert time.monotonic() - begun < 0.5


@pytest.mark.parametrize("kind", ["refused", "unknown name", "no answer", "slow name"])
def test_a_dead_host_is_named_within_three_seconds(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    host = {"refused": "127.0.0.1:9", "unknown name": "no-such-host.invalid"}.get(kind, "slow.invalid")
    if kind == "slow name":
        monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **options: time.sleep(8.0))
    if kind == "no answer":  # as behind a firewall
        monkeypatch.setattr(socket, "create_connection", lambda *given, **options: time.sleep(8.0))
    begun = time.monotonic()
    with pytest.raises(InvalidInput, match=r"(did not answer|was not reached)") as refusal:
        Endpoint(f"http://{host}/x").ask(ONE)
    assert host.partition(":")[0] in str(refusal.value) and time.monotonic() - begun < 3.0


def test_pauses_double_up_to_the_timeout_however_often_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(time, "sleep", slept.append)
    endpoint = Endpoint("http://127.0.0.1:9/", retries=1100, pause=0.5, timeout=3.0)
    endpoint._reached[:] = [True]
    with pytest.raises(InvalidInput, match="1101 attempts"):
        endpoint.ask(ONE)
    assert slept[:4] == [0.5, 1.0, 2.0, 3.0] and set(slept[3:]) == {3.0}


def test_headers_may_be_a_dict(server: HostileServer) -> None:
    Endpoint(f"{server.url}/good", headers={"X-Api-Key": SECRET}).ask(ONE)  # type: ignore[arg-type]
    assert f"X-Api-Key: {SECRET}\r\n".encode() in server.requests[0]


def test_a_host_that_was_reached_once_is_waited_for(server: HostileServer) -> None:
    """A server that restarts in the middle of a run is no reason to give up after three seconds."""
    endpoint = Endpoint(f"{server.url}/good", retries=2, pause=0.01)
    assert endpoint.ask(ONE) == [1.0] and endpoint._reached == [True]


def test_abandoned_requests_leave_no_threads_behind(server: HostileServer) -> None:
    import threading

    before = threading.active_count()
    for _ in range(5):
        asked(f"{server.url}/drip", timeout=0.2)
    time.sleep(0.5)
    assert len(server.requests) == 5 and threading.active_count() - before <= 5  # those of the server


@pytest.mark.parametrize("proxy", [
    "::::", "http://127.0.0.1:abc", "http://[::1", "socks5://127.0.0.1:9", f"http://user:{SECRET}@:80", "http://",
    "127.0.0.1:99999", "file:///etc/passwd"])
def test_a_proxy_that_is_none_is_refused_before_anything_is_asked(
    server: HostileServer, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", proxy)
    said = asked(f"{server.url}/good")
    assert "of http_proxy cannot be used" in said and SECRET not in said and not server.requests


# secrets


@pytest.mark.parametrize("token", [f"{SECRET}\n", f"{SECRET}\r\n", f" {SECRET} ", f"{SECRET}\n\n"])
@pytest.mark.parametrize("path", ["good", "echo", "echo_body", "silent"])
def test_a_token_is_stripped_and_never_shown(
    server: HostileServer, token: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAYBARE_TOKEN", token)
    said = asked(f"{server.url}/{path}", timeout=0.3)
    assert SECRET not in said
    assert f"Authorization: Bearer {SECRET}\r\n".encode() in server.requests[0]


@pytest.mark.parametrize("token", [f"{SECRET}\nX: 1", f"{SECRET}\0", f"{SECRET}\u2026", f"a\r\n{SECRET}"])
def test_a_token_that_no_header_can_hold_is_refused_unseen(
    server: HostileServer, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", {"LAYBARE_TOKEN": token, "no_proxy": "*"})
    said = asked(f"{server.url}/good")
    assert "of the token in $LAYBARE_TOKEN is a control character" in said and SECRET not in said and not server.requests


@pytest.mark.parametrize("query", [
    f"?api_key={SECRET}", f"?model=b&token={SECRET}", f"?a=1;password={SECRET}", f"?X-Amz-Signature={SECRET}", f"?code={SECRET}",
    "?id=Zm9vYmFyMTIzNDU2Nzg5MA"])
@pytest.mark.parametrize("user", ["", f"user:{SECRET}@", f"{SECRET}@"])
def test_secrets_in_an_address_are_never_shown(server: HostileServer, user: str, query: str, tmp_path: Path) -> None:
    hidden = (SECRET, "Zm9vYmFyMTIzNDU2Nzg5MA")
    address = server.url.replace("http://", f"http://{user}") + "/good" + query
    oracle = lb.Oracle(address, 2, log=tmp_path)
    oracle.ask(ONE)
    assert query.encode() in server.requests[0] and (b"Authorization: Basic" in server.requests[0]) == bool(user)
    assert b"@" not in server.requests[0]
    shown = [repr(oracle), repr(Endpoint(address)), oracle.name, str(oracle.identity), (tmp_path / "log.json").read_text()]
    shown += [asked(address.replace("/good", f"/{path}"), timeout=0.3) for path in ("echo", "echo_body", "silent", "garbage")]
    shown.append(asked(address.replace("127.0.0.1", "127.0.0.1:x")))
    for text in shown:
        assert not any(one in text for one in hidden), text
    assert "model=b" in oracle.name or "model=b" not in query  # what says which model it is stays


def test_the_command_line_shows_no_secret(server: HostileServer, tmp_path: Path) -> None:
    address = server.url.replace("http://", f"http://user:{SECRET}@") + f"/good?api_key={SECRET}"
    for words in (
        ["extract", address, "--dim", "2", "--budget", "50", "--json", "--log", "log", "--report", "page.html"],
        ["extract", address, "--dim", "2", "--nonsense", address], ["extract", address, "--dim", "2", address],
        ["audit", address, "--dim", "2", "--budgets", "50,60", "--report", "page.html", "--verbose"],
        ["extract", address.replace("/good", "/echo"), "--dim", "2", "--json"], ["recover", address], ["extract", f"x{address}"],
    ):
        environment = {**ENVIRONMENT, "no_proxy": "*"}
        done = subprocess.run([*PROGRAM, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        files = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
        assert SECRET not in done.stdout + done.stderr + files, words
        assert "Traceback" not in done.stderr


def test_a_black_box_that_tells_its_address_is_redacted() -> None:
    def box(x: np.ndarray) -> np.ndarray:
        raise OSError(f"https://me:{SECRET}@host/x?key={SECRET} said no to Bearer {SECRET}")

    with pytest.raises(InvalidInput, match="raised OSError") as refusal:
        lb.Oracle(box, 2).ask(ONE)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(("address", "shown"), [
    ("https://host/path", "https://host/path"),
    ("https://host:80/path?model=b&version=3", "https://host:80/path?model=b&version=3"),
    ("https://u:p@host/path?apikey=1#part", "https://***@host/path?apikey=***"),
    ("http://u:p@w@host/", "http://***@host/"),
    ("https://host/?key=", "https://host/?key="),
    ("https://[::1]:8/?auth=x", "https://[::1]:8/?auth=***"),
])
def test_redacted_addresses(address: str, shown: str) -> None:
    assert redact_address(address) == shown == redact(address)
    assert redact(f"the path {address.replace('//', '/')} of") == f"the path {shown.replace('//', '/')} of"
    assert all(secret not in shown for secret in secrets_of(address) if len(secret) > 1)


@pytest.mark.parametrize(("text", "shown"), [
    ("Authorization: Bearer abc.def", "Authorization: Bearer ***"), ("basic dXNlcg==", "basic ***"), ("Token abc", "Token ***"),
    ("token ghp_a1b2", "token ***"), ("Check the token and the server.", "Check the token and the server.")])
def test_credentials_are_hidden_and_sentences_are_not(text: str, shown: str) -> None:
    assert redact(text) == shown


# what a failure costs


@pytest.mark.parametrize("logged", [False, True])
def test_the_sentence_about_queries_paid_twice_is_true(server: HostileServer, tmp_path: Path, logged: bool) -> None:
    log = tmp_path / "log" if logged else None
    oracle = lb.Oracle(Endpoint(f"{server.url}/echo", retries=0), 2, log=log)
    with pytest.raises(InvalidInput) as refusal:
        oracle.ask(ONE)
    assert ("repeats at most the call under way" in str(refusal.value)) == logged
    assert ("asks everything again" in str(refusal.value)) == (not logged)
    assert "paid for twice" not in str(refusal.value)


def test_the_same_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "boxes.py").write_text("def broken(x):\n    raise ValueError('no')\n")
    for words, sentence in (([], "There is no log (--log)"), (["--log", "log"], "The answers so far are in the log")):
        done = subprocess.run(
            [*PROGRAM, "extract", "boxes:broken", "--dim", "2", "--json", *words], cwd=tmp_path, env=ENVIRONMENT,
            capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and sentence in json.loads(done.stdout)["error"], done.stderr



"""The server of the live page: its token, hosts and origins, clients, ports, and what is lost."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import schedlang as sl
from schedlang.__main__ import main
from schedlang.errors import LiveError
from schedlang.live.session import Session
from schedlang.live_command import _leads_to
from tests.graphs import product

aiohttp = pytest.importorskip("aiohttp", reason='needs aiohttp: pip install "schedlang[live]"')
from schedlang.live.server import Client as Open  # noqa: E402
from schedlang.live.server import listen, new_token  # noqa: E402
from tests.live_background import Background  # noqa: E402

TITLE = '</title><script>alert(1)</script>"'


@pytest.fixture
def page() -> Iterator[Background]:
    session = Session(sl.schedule(product(16, 16, 16)[2]), TITLE, measure=False)
    served = Background(session)
    yield served
    served.close()
    session.close()


def answer(url: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    """Return the status, the text and the headers of an answer."""
    asked = Request(url, headers={name.replace("_", "-"): v for name, v in headers.items()})
    try:
        with urlopen(asked, timeout=20) as found:
            return found.status, found.read().decode(), dict(found.headers)
    except HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def test_the_page_has_a_policy_and_its_title_is_text(page: Background) -> None:
    status, text, headers = answer(page.url)
    assert status == 200 and "<title>&lt;/title&gt;&lt;script&gt;" in text
    assert "alert(1)</script>" not in text
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; " in policy and "frame-ancestors" in policy
    script = policy[policy.index("script-src") :].partition(";")[0]
    assert "unsafe" not in script
    assert headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
    assert answer(page.url + "live.js")[0] == answer(page.url + "live.css")[0] == 200


@pytest.mark.parametrize("path", ["", "live.js", "live.css", "ws", "other"])
def test_each_request_needs_the_token(page: Background, path: str) -> None:
    root = f"http://127.0.0.1:{page.port}"
    own = {"Origin": root}
    for wrong in ("", "x" * 32, page.url.split("/")[3][:-1], "%2e%2e", "é"):
        status, text, _ = answer(f"{root}/{wrong.encode('utf-8').hex() if wrong == 'é' else wrong}"
                                 f"/{path}", **own)  # fmt: skip
        assert status == 403 and "token is missing or wrong" in text
    assert answer(f"{root}/")[0] == 403


def test_other_hosts_and_origins_are_refused(page: Background) -> None:
    for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1", "127.0.0.1:1", ""):
        status, text, _ = answer(page.url, Host=host)
        assert status in (400, 403) and "live.js" not in text, host
    for origin in ("http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"):
        for path in ("", "ws"):
            assert answer(page.url + path, Origin=origin)[0] == 403, origin
    # a WebSocket without an origin does not come from a browser's page
    assert answer(page.url + "ws")[0] == 403
    assert answer(page.url, Host=f"localhost:{page.port}")[0] == 200
    assert answer(page.url + "other", Origin=f"http://127.0.0.1:{page.port}")[0] == 404


def test_it_listens_on_the_loopback_address_alone(page: Background) -> None:
    assert page._socket.getsockname()[0] == "127.0.0.1"


def test_a_port_in_use_is_a_sentence(page: Background) -> None:
    with pytest.raises(LiveError, match=f"--port {page.port}: the server cannot listen there: A"):
        listen(page.port)
    with pytest.raises(LiveError, match="a port is a number from 0 to 65535"):
        listen(-1)


def test_the_command_names_a_port_in_use(page: Background, tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    given = ["live", f"{script}:s", "--no-open", "--no-measure", "--port", str(page.port)]
    assert main(given) == 2
    error = capsys.readouterr().err
    assert f"--port {page.port}: the server cannot listen there" in error
    assert "Give another port, or leave --port out" in error and "Traceback" not in error


def test_the_token_is_no_argument_of_the_browser(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1/secret/"
    opened = _leads_to(url, tmp_path)
    assert "secret" not in opened
    path = tmp_path / "page.html"
    assert url in path.read_text() and path.stat().st_mode & 0o077 == 0


def test_tokens() -> None:
    assert len(new_token()) >= 32 and new_token() != new_token()
    assert new_token("a" * 16) == "a" * 16
    for given in ("short", "a" * 15 + "/", "é" * 16):
        with pytest.raises(LiveError, match="SCHEDLANG_LIVE_TOKEN: a token has at least 16"):
            new_token(given)


class Client:
    """A client of the page: it sends requests, and keeps what it is told."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.told: list[dict[str, Any]] = []

    async def ask(self, **message: Any) -> None:
        await self.socket.send_str(json.dumps(message))

    async def until(self, check: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Return the first message, from now on, that fits."""
        while True:
            message = await asyncio.wait_for(self.socket.receive(), 20)
            assert message.type == aiohttp.WSMsgType.TEXT, message
            self.told.append(json.loads(message.data))
            if check(self.told[-1]):
                return self.told[-1]


def clients(url: str, count: int, work: Callable[..., Awaitable[None]]) -> None:
    """Run ``work`` with some clients of a page."""
    origin = "/".join(url.split("/")[:3])

    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            sockets = [await session.ws_connect(url + "ws", origin=origin) for _ in range(count)]
            await work(*map(Client, sockets))
            for socket in sockets:
                await socket.close()

    asyncio.run(run())


def steps_of(number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda m: m["type"] == "view" and m["number"] == number and "steps" in m


def test_two_clients_see_one_history(page: Background) -> None:
    async def work(one: Client, other: Client) -> None:
        first = (await one.until(steps_of(0)))["steps"][0]
        await one.ask(do="take", number=0, step=0)
        tree = await other.until(lambda m: m["type"] == "tree" and m["current"] == 1)
        assert tree["states"][1]["label"] == f"{first['primitive']} · C"
        await other.until(steps_of(1))
        # a step of a state that is not the current one: a branch
        await other.ask(do="take", number=0, step=1)
        tree = await one.until(lambda m: m["type"] == "tree" and m["current"] == 2)
        assert [s["parent"] for s in tree["states"]] == [None, 0, 0]
        # a mistake is told to the client that made it
        await one.ask(do="edit", base=0, text="import os")
        found = await one.until(lambda m: m["type"] == "problem")
        assert found["line"] == 1 and "does not run imports" in found["text"]
        await other.ask(do="undo")
        await one.until(lambda m: m["type"] == "tree" and m["current"] == 0)
        await other.until(lambda m: m["type"] == "tree" and m["current"] == 0)
        assert not any(m["type"] == "problem" for m in other.told)

    clients(page.url, 2, work)


def test_what_is_told_early_follows_the_greeting() -> None:
    async def work() -> list[Any]:
        sent: list[Any] = []

        class Socket:
            async def send_str(self, text: str) -> None:
                sent.append(json.loads(text)["n"])

        client = Open(Socket())
        client.put({"n": 2})
        client.greet([{"n": 0}, {"n": 1}])
        client.put({"n": 3})
        writer = asyncio.create_task(client.write())
        while len(sent) < 4:
            await asyncio.sleep(0)
        writer.cancel()
        return sent

    assert asyncio.run(work()) == [0, 1, 2, 3]


def test_requests_that_are_no_json_are_answered(page: Background) -> None:
    async def work(one: Client) -> None:
        for text in ("{", "[" * 100_000, "null", '{"do": {}}'):
            await one.socket.send_str(text)
            assert "unknown here" in (await one.until(lambda m: m["type"] == "problem"))["text"]
        await one.ask(do="edit", base=0, text="#" * (2 << 20))
        while (await one.socket.receive()).type == aiohttp.WSMsgType.TEXT:
            pass
        # the message was too big
        assert one.socket.close_code == 1009

    clients(page.url, 1, work)
    # the session is as it was
    assert len(page.session.history.states) == 1 and answer(page.url)[0] == 200


def test_too_many_clients_are_told_so(page: Background, monkeypatch: Any) -> None:
    monkeypatch.setattr("schedlang.live.server.MOST_CLIENTS", 1)

    async def work(one: Client, other: Client) -> None:
        await one.until(lambda m: m["type"] == "tree")
        assert (await other.socket.receive()).type == aiohttp.WSMsgType.CLOSE
        assert other.socket.close_code == 1013

    clients(page.url, 2, work)


SCRIPT = """import schedlang as sl
A = sl.placeholder((8,), name="A")
s = sl.schedule(sl.compute((8,), lambda i: A[i] + 1, name="B"))
"""


@pytest.mark.slow
def test_the_command_serves_until_ctrl_c(tmp_path: Path) -> None:
    script, saved = tmp_path / "script.py", tmp_path / "saved.html"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "-m", "schedlang", "live", f"{script}:s", "--no-open", "--no-measure",
         "--save", str(saved)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "SCHEDLANG_LIVE_TOKEN": "a-token-of-my-own"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = re.findall(r"the page: (\S+)", process.stdout.readline())[0]
        assert url.endswith("/a-token-of-my-own/")
        assert "<title>s of script.py</title>" in answer(url)[1]
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0 and not error, error
    assert "s = sl.schedule(B)" in out and "the history: " in out
    assert "s of script.py" in saved.read_text()

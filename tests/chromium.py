"""A page in Chromium that a test drives: clicks, what it shows, its console and its requests.

It speaks the DevTools protocol over a WebSocket of aiohttp.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.browser import BROWSER, FLAGS

OPTIONS = tuple(f for f in FLAGS if f != "--dump-dom")


class Tab:
    """A page that is open. ``errors`` are what it wrote to the console, ``requests`` the URLs.

    Its methods may be called from the thread of the test only.
    """

    def __init__(self, address: str) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._address = address
        self._waiting: dict[int, Future[Any]] = {}
        self._number = 0
        self._loop = asyncio.new_event_loop()
        self._socket: Any = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(20), "the browser does not answer"
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._loop.close()

    async def _listen(self) -> None:
        import aiohttp

        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(self._address, max_msg_size=1 << 28) as self._socket:
                self._ready.set()
                async for message in self._socket:
                    self._heard(json.loads(message.data))

    def _heard(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._waiting.pop(message["id"]).set_result(message)
            return
        what, given = message["method"], message["params"]
        if what == "Runtime.exceptionThrown":
            found = given["exceptionDetails"]
            self.errors.append(found.get("exception", {}).get("description", found["text"]))
        elif what == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.errors.append(str([a.get("value") for a in given["args"]]))
        elif what == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
        elif what == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif what == "Network.webSocketCreated":
            self.requests.append(given["url"])

    def send(self, method: str, **given: Any) -> Any:
        """Send a command of the DevTools protocol and return its result."""
        self._number += 1
        self._waiting[self._number] = answer = Future()
        text = json.dumps({"id": self._number, "method": method, "params": given})
        asyncio.run_coroutine_threadsafe(self._socket.send_str(text), self._loop)
        found = answer.result(60)
        assert "error" not in found, found
        return found["result"]

    def open(self, url: str) -> None:
        """Load a page."""
        self.send("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """Return the value of an expression of the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True,
                          awaitPromise=True, userGesture=True)  # fmt: skip
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = 20.0) -> Any:
        """Wait until an expression of the page is true, and return its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(AssertionError):
                found = self.value(script)
                # an element of the page is an empty dict here
                if found or found == {}:
                    return found
            time.sleep(0.05)
        text = self.value("document.body.innerText")
        raise AssertionError(f"never true: {script}\n{self.errors}\n{text}")

    def click(self, selector: str) -> None:
        """Click the middle of an element as a mouse does."""
        where = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left",
                      clickCount=1)  # fmt: skip

    def point(self, selector: str) -> None:
        """Move the pointer to the middle of an element."""
        where = self._middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])

    def _middle(self, selector: str) -> Any:
        """Return the middle of an element that has stopped to move: what arrives shifts it."""
        before = None
        while before != (where := self._place(selector)):
            before = where
            time.sleep(0.1)
        return where

    def _place(self, selector: str) -> Any:
        return self.wait(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e || "
            "e.disabled) return null; e.scrollIntoView({block: 'center'}); "
            "const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + Math.min(r.height / 2, 12)]; })()"
        )

    def key(self, name: str, modifiers: int = 0) -> None:
        """Press and release a key; of ``modifiers``, 2 is Ctrl."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, modifiers=modifiers,
                      code=f"Key{name.upper()}" if len(name) == 1 else name)  # fmt: skip

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.send("Input.insertText", text=text)

    def screenshot(self, path: Path, width: int, height: int, whole: bool = False) -> None:
        """Write what the page shows at a size as a PNG."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        time.sleep(0.2)
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """Close the connection to the page."""
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._socket.close(), self._loop)
        self._thread.join(10)


class Browser:
    """A running Chromium."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.tabs: list[Tab] = []

    def tab(self) -> Tab:
        """Return a new, empty page."""
        from urllib.request import Request, urlopen

        asked = Request(f"http://127.0.0.1:{self._port}/json/new?about:blank", method="PUT")
        with urlopen(asked, timeout=20) as answer:
            self.tabs.append(Tab(json.loads(answer.read())["webSocketDebuggerUrl"]))
        return self.tabs[-1]


@contextmanager
def chromium(flags: Sequence[str] = ()) -> Iterator[Browser]:
    """Start Chromium without a window, and end it."""
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [BROWSER, *OPTIONS, "--remote-debugging-port=0", "--remote-allow-origins=*",
             f"--user-data-dir={profile}", "--window-size=1300,1000", *flags, "about:blank"],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        browser = None
        try:
            assert process.stderr is not None
            for line in process.stderr:
                found = re.search(r"DevTools listening on ws://127\.0\.0\.1:(\d+)/", line)
                if found:
                    break
            assert found is not None, "the browser did not start"
            # what it writes later is read, so that it never waits
            threading.Thread(target=process.stderr.read, daemon=True).start()
            browser = Browser(int(found[1]))
            yield browser
        finally:
            for tab in browser.tabs if browser is not None else ():
                tab.close()
            process.terminate()
            process.wait(20)

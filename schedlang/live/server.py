"""The live page in a browser: a small server on this machine alone.

It listens on the loopback address. Each request needs the token of the URL, and names the server as
its host, so that neither other users of the machine nor pages of other sites reach it: the server
does not answer to a name that an attacker's DNS points here ("DNS rebinding"). A page that is open
in several browsers shows one history.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedlang.errors import LiveError, MissingExtraError, explain, missing_extra
from schedlang.live.session import Message, Session, text_of
from schedlang.live.share import PAGE_STYLE, css, script
from schedlang.markup.text import escape

if TYPE_CHECKING:
    from aiohttp import web

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
# the variable that keeps the URL of a page over a restart, and the shortest token in it
TOKEN, SHORTEST = "SCHEDLANG_LIVE_TOKEN", 16
# bytes of a request, and pages that are open at the same time
MOST_BYTES, MOST_CLIENTS = 1 << 20, 32
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip
Handler = Callable[[Any], Awaitable[Any]]


def _library() -> Any:
    try:
        from aiohttp import web
    except ImportError:
        raise missing_library() from None
    return web


def missing_library() -> MissingExtraError:
    """Return the error for an installation without aiohttp."""
    return missing_extra("aiohttp", "live", "the page")


def new_token(given: str | None = None) -> str:
    """Return the token of a page: random, unless one is ``given``."""
    if given is None:
        return secrets.token_urlsafe(24)
    plain = given.isascii() and given.replace("-", "").replace("_", "").isalnum()
    if len(given) < SHORTEST or not plain:
        raise LiveError(
            f"{TOKEN}: a token has at least {SHORTEST} characters, of a-z, A-Z, 0-9, - and _"
        )
    return given


def listen(port: int) -> socket.socket:
    """Return a socket on the loopback address; port 0 is any free one.

    Raise :class:`~schedlang.errors.LiveError` if the port is in use or not allowed.
    """
    if not 0 <= port < 1 << 16:
        raise LiveError(f"--port {port}: a port is a number from 0 to 65535; 0 is any free one")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform == "win32":
        # there, SO_REUSEADDR would let another program take the port over
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        # so that a server can start again at once
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        # a second server may bind the address, too, but not listen
        listener.listen(16)
    except OSError as error:
        listener.close()
        raise LiveError(
            explain(
                f"--port {port}",
                f"the server cannot listen there: {error.strerror}",
                "Give another port, or leave --port out to take any free one.",
            )
        ) from None
    return listener


@dataclass(eq=False)
class Server:
    """A session, the socket it is served on, the token of its URL, and the clients it has.

    One thread drives the session, so that the event loop answers while a step is tried.
    """

    session: Session
    socket: socket.socket
    token: str
    clients: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="schedlang-live")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self.session.tell = self._tell

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    async def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until :meth:`stop` is called. ``ready`` is called when the page can be opened."""
        web = _library()
        self._loop = asyncio.get_running_loop()
        # cap on a body: no request has one

        @web.middleware
        async def guard(request: Any, handler: Handler) -> Any:
            return await self._guard(request, handler)

        app = web.Application(middlewares=[guard], client_max_size=1024)
        root = f"/{self.token}"
        app.router.add_get(f"{root}/", self._page)
        app.router.add_get(f"{root}/live.js", self._script)
        app.router.add_get(f"{root}/live.css", self._css)
        app.router.add_get(f"{root}/ws", self._connect)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        background = asyncio.create_task(self._background())
        try:
            await web.SockSite(runner, self.socket).start()
            self._wake.set()
            if ready is not None:
                ready()
            await self._stop.wait()
        finally:
            background.cancel()
            for client in list(self.clients):
                with suppress(Exception):
                    await client.socket.close(code=1001)
            await runner.cleanup()
            self._worker.shutdown(wait=True, cancel_futures=True)

    def stop(self) -> None:
        """End :meth:`run`; any thread may call this."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)

    # requests

    async def _guard(self, request: web.Request, handler: Handler) -> Any:
        """Answer requests that come from this page alone."""
        web = _library()
        hosts = {f"{name}:{self.port}" for name in NAMES}
        parts = request.path.split("/")
        token = parts[1] if len(parts) > 1 else ""
        origin = request.headers.get("Origin")
        # a browser names the page that opens a WebSocket
        asked = origin is not None or request.path.endswith("/ws")
        if request.headers.get("Host") not in hosts:
            return self._refused(403, "This server answers requests to 127.0.0.1 only.")
        if asked and origin not in {f"http://{host}" for host in hosts}:
            return self._refused(403, "This server answers requests of its own page only.")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return self._refused(
                403, "The token is missing or wrong: open the URL that the server printed."
            )
        try:
            response = await handler(request)
        except web.HTTPException:
            return self._refused(404, "There is no such page.")
        if not isinstance(response, web.WebSocketResponse):
            response.headers.update(HEADERS)
        return response

    def _refused(self, status: int, text: str) -> Any:
        return _library().Response(status=status, text=text, headers=HEADERS)

    async def _page(self, request: web.Request) -> web.Response:
        title = escape(self.session.title)
        text = (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
            f'<style>{PAGE_STYLE}</style><link rel="stylesheet" href="live.css"></head>'
            '<body><div id="live"></div><script type="module" src="live.js"></script></body>'
            "</html>\n"
        )
        return _library().Response(text=text, content_type="text/html")

    async def _script(self, request: web.Request) -> web.Response:
        text = f"{script()}\nserved();\n"
        return _library().Response(text=text, content_type="text/javascript")

    async def _css(self, request: web.Request) -> web.Response:
        return _library().Response(text=css(), content_type="text/css")

    async def _connect(self, request: web.Request) -> Any:
        web = _library()
        stream = web.WebSocketResponse(max_msg_size=MOST_BYTES, heartbeat=20.0)
        await stream.prepare(request)
        if len(self.clients) >= MOST_CLIENTS:
            await stream.close(code=1013)
            return stream
        client = Client(stream)
        # what happens from here on is told to the client after what it learns first
        self.clients.add(client)
        writer = asyncio.create_task(client.write())
        try:
            client.greet(await self._asked({"do": "hello"}))
            async for received in stream:
                if received.type != web.WSMsgType.TEXT:
                    break
                try:
                    request_data = json.loads(received.data)
                except (ValueError, RecursionError):
                    request_data = None
                answers = await self._asked(request_data)
                for message in [*answers, {"type": "done"}]:
                    client.put(message)
                self._wake.set()
        finally:
            self.clients.discard(client)
            writer.cancel()
        return stream

    async def _asked(self, message: object) -> list[Message]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, self.session.receive, message)

    # what happens beside requests

    async def _background(self) -> None:
        """Let the session work while it has something to do; requests come between two pieces."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while await loop.run_in_executor(self._worker, self.session.work):
                pass

    def _tell(self, message: Message) -> None:
        """Send a message to all clients, from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._broadcast, message)

    def _broadcast(self, message: Message) -> None:
        for client in self.clients:
            client.put(message)


class Client:
    """A page that is open: its socket, and the messages that wait to be sent.

    What it is told before it is greeted follows the greeting, which makes a page forget the rest.
    """

    def __init__(self, listener: Any) -> None:
        self.socket = listener
        self._waiting: asyncio.Queue[Message] = asyncio.Queue()
        self._early: list[Message] | None = []

    def put(self, message: Message) -> None:
        if self._early is None:
            self._waiting.put_nowait(message)
        else:
            self._early.append(message)

    def greet(self, messages: list[Message]) -> None:
        """Send the first messages, then what came before them."""
        early, self._early = self._early or [], None
        for message in [*messages, *early]:
            self._waiting.put_nowait(message)

    async def write(self) -> None:
        """Send messages in order, until the page is closed."""
        with suppress(ConnectionError, RuntimeError):
            while True:
                await self.socket.send_str(text_of(await self._waiting.get()))


def serve(
    session: Session,
    port: int = 0,
    token: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the page of a session until Ctrl-C, and close the session.

    ``ready`` is called with its URL. Raise :class:`~schedlang.errors.LiveError` for a port that
    cannot be used and for a token that is too short.
    """
    _library()
    try:
        with listen(port) as listener:
            asyncio.run(_served(session, listener, new_token(token), ready))
    finally:
        session.close()


async def _served(
    session: Session, listener: socket.socket, token: str, ready: Callable[[str], None] | None
) -> None:
    server = Server(session, listener, token)
    await server.run(lambda: ready(server.url) if ready is not None else None)

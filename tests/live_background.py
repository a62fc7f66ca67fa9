"""The server of a live page in a thread of its own."""

from __future__ import annotations

import asyncio
import threading

from schedlang.live.server import Server, listen, new_token
from schedlang.live.session import Session


class Background:
    """A server in a thread of its own: its URL, and its end."""

    def __init__(self, session: Session, port: int = 0, token: str | None = None) -> None:
        self.session = session
        self._socket = listen(port)
        self._token = new_token(token)
        self._ready = threading.Event()
        self._server: Server | None = None
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed

    @property
    def url(self) -> str:
        assert self._server is not None
        return self._server.url

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stop serving; the session stays as it is."""
        assert self._server is not None
        self._server.stop()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        async def main() -> None:
            self._server = Server(self.session, self._socket, self._token)
            await self._server.run(self._ready.set)

        try:
            asyncio.run(main())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()

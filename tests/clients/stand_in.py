"""A stand-in for a model on loopback: it asks a real client for the tool calls of a script, one
after the other, and keeps what the client sends back as their results."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from .reading import Answer, Call, Exchange
from .wires import Messages, Reply, ToolName, Wire

Script = Callable[[], Generator[Call, Answer, None]]
"""Yields calls and is sent the answers. It is run again from its start for each request, because a
client sends the whole conversation each time: with the same answers it asks for the same calls."""


class StandIn:
    """Plays a model for the time of a `with` block.

    Args:
        wire: The API that the client speaks.
        script: What to ask for.
    """

    def __init__(self, wire: Wire, script: Script) -> None:
        self.wire = wire
        self.offered: list[ToolName] = []
        """What the client last let its model call."""
        self.elsewhere: list[str] = []
        """Hosts that the client tried to reach through the proxy that this server also is."""
        self._script = script
        self._answers: list[Answer] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def exchanges(self) -> list[Exchange]:
        """The calls that were answered, with what the model would have read."""
        calls, _ = self._played(self._answers)
        return [Exchange(*pair) for pair in zip(calls, self._answers, strict=False)]

    @property
    def finished(self) -> bool:
        """Whether the whole script was answered."""
        return self._played(self._answers)[1] is None

    def __enter__(self) -> Self:
        serving = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        serving.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _turn(self, body: dict[str, Any]) -> Reply:
        """The model's next turn."""
        tools = self.wire.tools(body)
        answers = self.wire.answers(body)
        with self._lock:
            # As they were when they came: later a client may shorten what is long ago.
            self._answers += answers[len(self._answers) :]
            known = self._answers[: len(answers)]
            if tools:
                self.offered = tools
        _, call = self._played(known)
        return self.wire.reply(body, call)

    def _played(self, answers: Sequence[Answer]) -> tuple[list[Call], Call | None]:
        """The calls that these are the answers to, and the one to ask for now."""
        running = self._script()
        calls = [next(running)]
        try:
            for answer in answers:
                calls.append(running.send(answer))
        except StopIteration:
            return calls, None
        return calls[:-1], calls[-1]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                content = self.rfile.read(length)
                path = self.path.partition("?")[0]
                if stand_in.wire.serves(path):
                    self._send(stand_in._turn(json.loads(content)))
                elif isinstance(stand_in.wire, Messages) and path.endswith("/count_tokens"):
                    tokens = stand_in.wire.tokens(json.loads(content))
                    self._send(Reply.json({"input_tokens": tokens}))
                else:
                    self._unknown()

            def do_GET(self) -> None:
                self._unknown()

            def do_HEAD(self) -> None:
                self._unknown()

            def do_CONNECT(self) -> None:
                stand_in.elsewhere.append(self.path)
                self.send_error(403)
                self.close_connection = True

            def _unknown(self) -> None:
                if self.path.startswith("http"):  # to a proxy
                    stand_in.elsewhere.append(self.path)
                self._send(Reply.json({}), 404)

            def _send(self, reply: Reply, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", reply.kind)
                self.send_header("Content-Length", str(len(reply.content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.content)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                pass

        return Handler

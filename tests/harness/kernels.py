"""What people do with kernels: Jupyter's REST API, and a tab's WebSocket to a kernel."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self, cast

import httpx
import nbformat
import nbformat.reader
from websockets.asyncio.client import ClientConnection, connect

from .jupyter import JupyterProcess
from .waiting import until


class KernelApi:
    """Sessions and kernels of a server, as JupyterLab asks for them."""

    def __init__(self, server: JupyterProcess) -> None:
        self._http = httpx.AsyncClient(
            base_url=f"{server.url}api/",
            headers=server.headers,
            trust_env=False,
            verify=False,
            timeout=30,
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._http.__aexit__(*exception)

    async def open(
        self, path: str, name: str = "python3", kernel_id: str | None = None
    ) -> dict[str, Any]:
        """Open a notebook: its session is made, or is found.

        Args:
            kernel_id: Give it this kernel, which runs already, and not a new one.
        """
        kernel = {"name": name} if kernel_id is None else {"id": kernel_id}
        wanted = {"path": path, "name": path, "type": "notebook", "kernel": kernel}
        return cast("dict[str, Any]", await self._ask("POST", "sessions", wanted))

    async def sessions(self, path: str) -> list[dict[str, Any]]:
        """The sessions of one notebook."""
        return [s for s in await self._ask("GET", "sessions") if s["path"] == path]

    async def kernels(self) -> dict[str, dict[str, Any]]:
        """All kernels that run, by id."""
        return {kernel["id"]: kernel for kernel in await self._ask("GET", "kernels")}

    async def contents(self, path: str) -> dict[str, Any]:
        """A notebook as its file has it, between two of the moments in which Jupyter writes it.

        Asked for as a text: Jupyter may lose a notebook that it reads in such a moment.
        """
        async with asyncio.timeout(60):
            while True:
                model = await self._ask("GET", f"contents/{path}?type=file&format=text")
                try:
                    read: dict[str, Any] = nbformat.reads(model["content"], 4)  # type: ignore[no-untyped-call]
                    return read
                except nbformat.reader.NotJSONError:
                    await asyncio.sleep(0.01)

    async def notebook(self, path: str) -> dict[str, Any]:
        """A notebook that is not being written, with what Jupyter knows of its trust."""
        return cast("dict[str, Any]", (await self._ask("GET", f"contents/{path}"))["content"])

    async def restart(self, kernel_id: str) -> None:
        await self._ask("POST", f"kernels/{kernel_id}/restart")

    async def shut_down(self, kernel_id: str) -> None:
        await self._ask("DELETE", f"kernels/{kernel_id}")

    async def move(self, session_id: str, path: str) -> None:
        """Say that a notebook has another path now, as JupyterLab does after a rename."""
        await self._ask("PATCH", f"sessions/{session_id}", {"path": path})

    async def rename(self, path: str, new_path: str) -> None:
        """Rename a file, as JupyterLab's file browser does."""
        await self._ask("PATCH", f"contents/{path}", {"path": new_path})

    async def close(self, session_id: str) -> None:
        """End a session and its kernel."""
        await self._ask("DELETE", f"sessions/{session_id}")

    async def _ask(self, method: str, address: str, content: Any = None) -> Any:
        response = await self._http.request(method, address, json=content)
        response.raise_for_status()
        return response.json() if response.content else None


class Person:
    """Somebody who has a notebook open in JupyterLab and runs code in its kernel.

    Args:
        server: Where.
        path: The notebook; its session is made if there is none.
    """

    def __init__(self, server: JupyterProcess, path: str) -> None:
        self.path = path
        self.api = KernelApi(server)
        self.kernel_id = ""
        self.session_id = ""
        self._server = server
        self._client = uuid.uuid4().hex
        self._socket: ClientConnection | None = None
        self._messages: list[dict[str, Any]] = []
        self._lifetime = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.api)
            session = await self.api.open(self.path)
            self.session_id, self.kernel_id = session["id"], session["kernel"]["id"]
            address = self._server.url.replace("http", "ws", 1)
            self._socket = await stack.enter_async_context(
                connect(
                    f"{address}api/kernels/{self.kernel_id}/channels?session_id={self._client}",
                    additional_headers=self._server.headers,
                    max_size=None,
                    proxy=None,
                )
            )
            reader = asyncio.create_task(self._read(self._socket))
            stack.push_async_callback(_stop, reader)
            self._lifetime = stack.pop_all()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._lifetime.__aexit__(*exception)

    async def send(self, code: str) -> str:
        """Have code run, as a press on Shift+Enter does; returns the id of the request."""
        assert self._socket is not None
        request = uuid.uuid4().hex
        header = {
            "msg_id": request,
            "msg_type": "execute_request",
            "session": self._client,
            "username": "ana",
            "version": "5.4",
            "date": "",
        }
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": True,
        }
        message = {
            "channel": "shell",
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
            "buffers": [],
        }
        await self._socket.send(json.dumps(message))
        return request

    async def begun(self, request: str, timeout: float = 20) -> None:
        """Wait until the kernel works on a request."""
        await self._state(request, "busy", timeout)

    async def done(self, request: str, timeout: float = 20) -> dict[str, Any]:
        """Wait until the kernel is done with a request; returns its reply."""
        await self._state(request, "idle", timeout)
        await until(lambda: self._replies(request), timeout)
        return cast("dict[str, Any]", self._replies(request)[0]["content"])

    async def execute(self, code: str) -> dict[str, Any]:
        """Run code to its end; returns the kernel's reply."""
        return await self.done(await self.send(code))

    async def restart(self) -> None:
        """Restart the kernel; returns when it is back."""
        await self.api.restart(self.kernel_id)

    def printed(self, request: str) -> str:
        """What a request printed so far."""
        return "".join(
            message["content"]["text"]
            for message in self._of(request)
            if message["msg_type"] == "stream"
        )

    async def _state(self, request: str, state: str, timeout: float) -> None:
        await until(
            lambda: any(
                message["msg_type"] == "status" and message["content"]["execution_state"] == state
                for message in self._of(request)
            ),
            timeout,
        )

    def _replies(self, request: str) -> list[dict[str, Any]]:
        return [m for m in self._of(request) if m["msg_type"] == "execute_reply"]

    def _of(self, request: str) -> list[dict[str, Any]]:
        return [m for m in self._messages if m["parent_header"].get("msg_id") == request]

    async def _read(self, socket: ClientConnection) -> None:
        async for message in socket:
            self._messages.append(json.loads(message))


class Gate:
    """Something that code in a kernel waits for, so that a test decides how long it runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reached = path.with_suffix(".reached")

    @property
    def code(self) -> str:
        """Code that goes on when the gate is opened."""
        return (
            "import pathlib, time\n"
            f"pathlib.Path({str(self._reached)!r}).touch()\n"
            f"while not pathlib.Path({str(self.path)!r}).exists():\n"
            "    time.sleep(0.01)"
        )

    async def reached(self, timeout: float = 60) -> None:
        """Wait until some code is at the gate."""
        await until(self._reached.exists, timeout)

    def open(self) -> None:
        self.path.touch()

    def close(self) -> None:
        """Have the next code wait again."""
        self.path.unlink(missing_ok=True)
        self._reached.unlink(missing_ok=True)


async def eventually(look: Callable[[], Awaitable[Any]], holds: Callable[[Any], object]) -> Any:
    """Look again and again until what is seen is right; returns it.

    Raises:
        TimeoutError: With what was seen instead.
    """
    seen: Any = None
    try:
        async with asyncio.timeout(60):
            while not holds(seen := await look()):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise TimeoutError(f"Not what was waited for: {seen}") from None
    return seen


def install_kernel(
    home: Path, name: str, *argv: str, language: str = "python", display_name: str = ""
) -> None:
    """Put a kernelspec into a server's data directory."""
    directory = home / "data" / "kernels" / name
    directory.mkdir(parents=True)
    shown = display_name or name.title()
    spec = {"argv": [*argv], "display_name": shown, "language": language}
    (directory / "kernel.json").write_text(json.dumps(spec))


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

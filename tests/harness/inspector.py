"""The MCP Inspector, with which people try out MCP servers, by its command line alone."""

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .yjs import KEEP_COMPILED, NODE_DIRECTORY, find_node

Era = Literal["legacy", "modern"]

_PACKAGE = NODE_DIRECTORY / "node_modules" / "@modelcontextprotocol" / "inspector"
_LAUNCHER = _PACKAGE / "clients" / "launcher" / "build" / "index.js"


@dataclass(frozen=True)
class Inspection:
    """What one run of the Inspector showed."""

    exit_code: int
    """0; 3 if the server wants another credential, 5 if a tool answered with an error."""
    result: dict[str, Any]
    """The server's answer; empty if there was none."""
    complaints: str
    """What it wrote beside the answer."""

    @property
    def text(self) -> str:
        """All text in a tool's answer."""
        return "\n".join(part["text"] for part in self.result["content"] if part["type"] == "text")


class Inspector:
    """The Inspector for one server: each request is a run, with a connection of its own.

    Args:
        server: How to reach it: an entry of `mcpServers`, as in the files of MCP clients.
        home: An empty directory, its HOME.
    """

    def __init__(self, server: Mapping[str, Any], home: Path) -> None:
        self._home = home
        self._config = home / "mcp.json"
        self._config.write_text(json.dumps({"mcpServers": {"jupyter": server}}))

    async def call(self, tool: str, era: Era = "modern", **arguments: Any) -> Inspection:
        """Call a tool."""
        pairs = [f"{name}={json.dumps(value)}" for name, value in arguments.items()]
        given = ("--tool-arg", *pairs) if pairs else ()
        return await self.ask("tools/call", "--tool-name", tool, *given, era=era)

    async def ask(
        self, method: str, *arguments: str, era: Era = "modern", timeout: float = 60
    ) -> Inspection:
        """Send one request, and return what came of it.

        Raises:
            TimeoutError: It took too long, and was ended.
        """
        process = await asyncio.create_subprocess_exec(
            find_node(),
            _LAUNCHER,
            "--cli",
            *("--config", self._config),
            *("--server", "jupyter"),
            *("--protocol-era", era),
            *("--format", "json"),
            "--quiet",
            # Otherwise a refused token makes it look for somebody who logs in with a browser.
            "--stored-auth-only",
            *("--method", method),
            *arguments,
            cwd=self._home,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            # Nothing else of ours: it reads proxies and places of its files from variables.
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._home),
                "MCP_INSPECTOR_SECRET_STORE": "memory",
                **KEEP_COMPILED,
            },
        )
        try:
            async with asyncio.timeout(timeout):
                output, complaints = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        result = json.loads(output)["result"] if output else {}
        return Inspection(process.returncode, result, complaints.decode(errors="replace"))

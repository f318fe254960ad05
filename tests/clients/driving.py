"""Real clients from npm, each in an empty HOME with a clean environment, driven by a stand-in for
their model. They are configured with what `jupyter-collaboration-mcp config` prints."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_collaboration_mcp.standalone.clients import Endpoint, Launch, Server, configuration
from tests.harness.jupyter import REPOSITORY, JupyterProcess

from .reading import Exchange
from .stand_in import Script, StandIn
from .wires import GenerateContent, Messages, Responses, Wire

FOLDER = REPOSITORY / ".clients"

WAYS = ("extension", "stdio")

_TIME_LIMIT = 240.0


class NotInstalled(RuntimeError):
    """The client is not in its folder."""

    def __init__(self, client: str) -> None:
        super().__init__(f"{client} is not installed: run ./scripts/clients {client}")


@dataclass(frozen=True)
class Prepared:
    """How a client is started, once its files are in its HOME."""

    command: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Client:
    """A client that can be driven."""

    name: str
    """As `scripts/clients` and `config` know it."""
    title: str
    """With what is special about the way it is driven."""
    package: str
    """From npm."""
    program: str
    """Below the folder of its packages; a pattern."""
    wire: Callable[[], Wire]
    prepare: Callable[[Path, str, str, str], Prepared]
    """Writes its files into a HOME; takes that, its program, the URL of the stand-in, and the
    configuration that we print."""

    @property
    def _packages(self) -> Path:
        return FOLDER / self.name / "node_modules"

    @property
    def installed(self) -> bool:
        return (self._packages / self.package).is_dir()

    @property
    def version(self) -> str:
        """What is installed.

        Raises:
            NotInstalled: Nothing is.
        """
        if not self.installed:
            raise NotInstalled(self.name)
        described = json.loads((self._packages / self.package / "package.json").read_text())
        return str(described["version"])

    def program_path(self) -> str:
        found = sorted(self._packages.glob(self.program))
        if not found:
            raise NotInstalled(self.name)
        return str(found[0])


@dataclass(frozen=True)
class Session:
    """What came of driving a client."""

    title: str
    version: str
    way: str
    exchanges: list[Exchange]
    finished: bool
    """Whether all calls were answered."""
    tools: list[str]
    """What the client offered its model."""
    elsewhere: list[str]
    """Hosts other than loopback that the client tried to reach, in vain."""
    output: str
    """What the client printed."""


def reached(server: JupyterProcess, way: str) -> Server:
    """What a client is told of a server: its URL, or the command that joins it."""
    if way == "extension":
        return Endpoint(f"{server.url}mcp?agent=Ada")
    command = Path(sys.executable).with_name("jupyter-collaboration-mcp")
    return Launch.of(
        [str(command), "--server", server.url, "--agent-name", "Ada"],
        {"JUPYTER_TOKEN": server.token},
    )


async def drive(client: Client, server: JupyterProcess, way: str, script: Script) -> Session:
    """Let a client make the calls of a script.

    Raises:
        NotInstalled: The client is not in its folder.
        TimeoutError: It did not end in time.
    """
    version, program = client.version, client.program_path()
    printed = configuration(client.name, reached(server, way)).split("\n", 1)[1]
    with (
        tempfile.TemporaryDirectory(prefix="client-", ignore_cleanup_errors=True) as folder,
        StandIn(client.wire(), script) as stand_in,
    ):
        home = Path(folder) / "home"
        workspace = home / "workspace"
        workspace.mkdir(parents=True)
        prepared = client.prepare(home, program, stand_in.url, printed)
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
            "HOME": str(home),
            "TMPDIR": folder,
            "LANG": "C.UTF-8",
            "JUPYTER_TOKEN": server.token,
            # Whoever goes elsewhere is noticed, and gets nowhere.
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "https_proxy"), stand_in.url),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
            **prepared.environment,
        }
        output = await _run(prepared.command, workspace, environment)
        return Session(
            client.title,
            version,
            way,
            stand_in.exchanges,
            stand_in.finished,
            [tool.name for tool in stand_in.offered],
            stand_in.elsewhere,
            output,
        )


async def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_TIME_LIMIT):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return output.decode(errors="replace")


def _codex(home: Path, program: str, url: str, printed: str, model: str | None = None) -> Prepared:
    folder = home / ".codex"
    folder.mkdir()
    settings = {
        **({"model": model} if model else {}),
        "model_provider": "stand_in",
        "approval_policy": "never",
        "sandbox_mode": "read-only",
        "web_search": "disabled",
        "check_for_update_on_startup": False,
    }
    # Nobody is there to approve a call, and a model without our tools would end its turn.
    ours = {"default_tools_approval_mode": "approve", "required": True}
    provider = {"name": "stand-in", "base_url": f"{url}/v1", "wire_api": "responses"}
    lines = [
        *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
        "[analytics]",
        "enabled = false",
        # These look for what is new on the network.
        "[features]",
        *(f"{name} = false" for name in ("apps", "plugins", "remote_plugin")),
        "[model_providers.stand_in]",
        *(f"{name} = {json.dumps(value)}" for name, value in provider.items()),
        printed.rstrip(),
        *(f"{name} = {json.dumps(value)}" for name, value in ours.items()),
    ]
    (folder / "config.toml").write_text("\n".join(lines))
    return Prepared([program, "exec", "--skip-git-repo-check", "go"], {})


def _claude_code(home: Path, program: str, url: str, printed: str) -> Prepared:
    file = home / "mcp.json"
    file.write_text(printed)
    options = ["--mcp-config", str(file), "--strict-mcp-config", "--allowedTools", "mcp__jupyter"]
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }
    return Prepared([program, "-p", "go", *options], environment)


def _gemini_cli(home: Path, program: str, url: str, printed: str) -> Prepared:
    settings: dict[str, Any] = {
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": False},
        **json.loads(printed),
    }
    folder = home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings))
    environment = {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return Prepared([program, "--prompt", "go", "--approval-mode", "yolo"], environment)


CLIENTS = (
    Client("codex", "codex", "@openai/codex", ".bin/codex", Responses, _codex),
    # Codex lets its newer models call tools from programs that they write, and older ones directly.
    # It has to know the model: for others it cuts answers much earlier.
    Client(
        "codex",
        "codex with gpt-5.5",
        "@openai/codex",
        ".bin/codex",
        Responses,
        partial(_codex, model="gpt-5.5"),
    ),
    Client(
        "claude-code",
        "claude-code",
        "@anthropic-ai/claude-code",
        # Not the launcher, which does nothing until its package has run a script.
        "@anthropic-ai/claude-code-*/claude*",
        Messages,
        _claude_code,
    ),
    Client(
        "gemini-cli",
        "gemini-cli",
        "@google/gemini-cli",
        ".bin/gemini",
        GenerateContent,
        _gemini_cli,
    ),
)

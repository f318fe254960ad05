"""`./scripts/lab`: what it prints works, and goes on working at its next start."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.harness.agents import AgentClient
from tests.harness.jupyter import REPOSITORY
from tests.harness.standalone import environment

PANEL_FILES = ("package.json", "yarn.lock", ".yarnrc.yml", "tsconfig.json")


class Checkout:
    """A checkout in which everything is installed already: in the environment of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.token_file = self.folder / "work" / ".jupyter-token"
        self.home = folder
        shutil.copytree(REPOSITORY / "scripts", self.folder / "scripts")
        shutil.copytree(REPOSITORY / "jupyter-config", self.folder / "jupyter-config")
        shutil.copy(REPOSITORY / "pyproject.toml", self.folder)
        for name in ("src", "style", "schema", *PANEL_FILES):
            (self.folder / name).symlink_to(REPOSITORY / name)
        package = self.folder / "jupyter_collaboration_mcp"
        package.mkdir()
        (package / "labextension").symlink_to(REPOSITORY / package.name / "labextension")
        (self.folder / ".venv").mkdir()
        for part in Path(sys.prefix).iterdir():
            if not part.name.startswith(".stamp-"):
                (self.folder / ".venv" / part.name).symlink_to(part)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.token_file.parent.mkdir()
        self.setup('stamp pip-lab "$(digest pyproject.toml jupyter-config/*/*.json)"')
        self.setup('stamp panel "$(panel_digest)"')

    def setup(self, words: str) -> str:
        """What the functions that the scripts share say."""
        command = ["bash", "-euc", f"source scripts/_setup.sh; {words}"]
        ran = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    def kept_token(self) -> str:
        return self.setup(f"make_venv; kept_token {shlex.quote(str(self.token_file))}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """While it runs; gives what it printed before Jupyter did."""
        process = await asyncio.create_subprocess_exec(
            self.folder / "scripts" / "lab",
            "--no-browser",
            cwd=self.home,
            env=environment(self.home, PORT=str(self.port)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            said = b""
            while b"is running at" not in said:
                line = await asyncio.wait_for(process.stdout.readline(), 60)
                assert line, said.decode()
                said += line
            yield said.decode()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("lab"))


def test_the_token_is_made_once_and_only_its_owner_can_read_it(checkout: Checkout) -> None:
    first = checkout.kept_token()
    assert len(first) >= 32
    assert checkout.token_file.read_text().strip() == first
    checkout.token_file.chmod(0o644)  # as a copy of the folder may leave it
    assert checkout.kept_token() == first
    assert checkout.token_file.stat().st_mode & 0o777 == 0o600
    assert "/work/" in (REPOSITORY / ".gitignore").read_text().splitlines()


@pytest.mark.anyio
async def test_the_printed_command_and_the_kept_token_lead_to_the_lab(checkout: Checkout) -> None:
    yesterday = checkout.kept_token()
    async with checkout.running() as said:
        (token,) = re.findall(r"welcome\.ipynb\?token=(\w+)$", said, re.MULTILINE)
        assert token == yesterday
        (command,) = re.findall(r"^    (claude mcp add .+)$", said, re.MULTILINE)
        words = shlex.split(command)
        command, *arguments = words[words.index("--") + 1 :]
        parameters = StdioServerParameters(
            command=command, args=arguments, env=environment(checkout.home), cwd=checkout.home
        )
        async with Client(stdio_client(parameters)) as client:
            ada = AgentClient(client)
            (server,) = (await ada.ask("list_servers"))["servers"]
            assert server["url"] == checkout.url
            assert (await ada.ask("get_notebook", path="welcome.ipynb"))["cells"]
        headers = {"Authorization": f"Bearer {yesterday}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(
                streamable_http_client(f"{checkout.url}mcp?structured=true", http_client=http)
            ) as client,
        ):
            ada = AgentClient(client)
            files = await ada.say("list_documents")
            assert "welcome.ipynb" in files
            assert ".jupyter-token" not in files
            await ada.refused("get_document", path=".jupyter-token")

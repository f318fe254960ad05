"""What the documentation shows works: code, configuration, commands and links."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from jupyter_events import EventLogger
from jupyter_server.auth import IdentityProvider
from jupyter_server.serverapp import ServerApp
from jupyter_server_ydoc.app import YDocExtension
from jupyter_server_ydoc.stores import SQLiteYStore
from traitlets.config import Config, Configurable

from jupyter_collaboration_mcp.app import JupyterCollaborationMCP
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import REPOSITORY, JupyterProcess

PAGES = sorted(
    [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *REPOSITORY.glob("docs/*.md")]
)

#: The classes that configuration examples may name.
CONFIGURABLE: dict[str, type[Configurable]] = {
    kind.__name__: kind
    for kind in (
        JupyterCollaborationMCP,
        ServerApp,
        IdentityProvider,
        YDocExtension,
        SQLiteYStore,
        EventLogger,
    )
}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def _blocks() -> Iterator[Block]:
    for page in PAGES:
        content = page.read_text()
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", content, re.MULTILINE | re.DOTALL):
            line = content.count("\n", 0, match.start()) + 1
            name = str(page.relative_to(REPOSITORY))
            yield Block(name, line, match[1], match[2])


BLOCKS = list(_blocks())


def of(language: str, containing: str = "") -> list[Block]:
    return [b for b in BLOCKS if b.language == language and containing in b.text]


# -- reading them ----------------------------------------------------------------------------


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_json_parses(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", of("bash"), ids=str)
def test_shell_commands_parse_and_their_scripts_exist(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
    for script in re.findall(r"\./scripts/\w+", block.text):
        assert os.access(REPOSITORY / script, os.X_OK), script


def test_every_code_block_has_a_language_that_is_checked() -> None:
    assert {block.language for block in BLOCKS} <= {"python", "json", "bash", "mermaid", ""}


@pytest.mark.parametrize("block", of("python", "get_config()"), ids=str)
def test_a_configuration_example_names_settings_that_exist(block: Block) -> None:
    config = Config()
    exec(compile(block.text, str(block), "exec"), {"get_config": lambda: config})
    assert config
    check_configuration(config)


@pytest.mark.parametrize("block", of("json", "JupyterCollaborationMCP"), ids=str)
def test_a_json_configuration_example_names_settings_that_exist(block: Block) -> None:
    check_configuration(Config(json.loads(block.text)))


def check_configuration(config: Config) -> None:
    for name, section in config.items():
        kind = CONFIGURABLE[name]
        assert set(section) <= set(kind.class_traits(config=True)), name
        # The store asks for more than its configuration when it is made.
        if kind is not SQLiteYStore:
            made = kind(config=Config({name: section}))  # raises for a value that does not fit
            assert all(getattr(made, key) == value for key, value in section.items())


# -- addresses and links ---------------------------------------------------------------------


@pytest.mark.parametrize("block", [*of("bash", "claude mcp"), *of("bash", "curl")], ids=str)
def test_a_command_names_the_endpoint_and_sends_the_token_in_the_header(block: Block) -> None:
    words = shlex.split(block.text)
    if "--" in words:
        return  # a command that the client starts: there is no address
    (address,) = [word for word in words if "://" in word]
    assert urlsplit(address).path == "/mcp"
    assert words[words.index("--header") + 1] == "Authorization: Bearer TOKEN"


@pytest.mark.parametrize("block", of("json", "ervers"), ids=str)
def test_a_client_configuration_names_the_endpoint_and_sends_a_token(block: Block) -> None:
    content = json.loads(block.text)
    servers = content.get("mcpServers") or content["servers"]
    for server in servers.values():
        assert urlsplit(server["url"]).path == "/mcp"
        assert server["headers"]["Authorization"].startswith("Bearer ${")
    for name in re.findall(r"\$\{input:([\w-]+)\}", block.text):
        assert name in [asked["id"] for asked in content["inputs"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_between_pages_resolve(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if urlsplit(link).scheme:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    """Paths below the directories of the repository; others are examples."""
    for name in re.findall(r"`\.?/?((?:tests|scripts|docs|bench)/[\w./-]+\w)`", prose(page)):
        assert (REPOSITORY / name).exists(), name


# -- running them ----------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_example_of_the_readme_runs(server: JupyterProcess, tmp_path: Path) -> None:
    (example,) = of("python", "streamable_http_client")
    shutil.copy(REPOSITORY / "scripts" / "sample" / "welcome.ipynb", server.root)
    script = tmp_path / "example.py"
    script.write_text(example.text)
    address = {"JUPYTER_MCP_URL": f"{server.url}mcp?agent=Ada", "JUPYTER_TOKEN": server.token}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        script,
        env={**os.environ, **address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = (text.decode() for text in await process.communicate())
    assert process.returncode == 0, complaints
    outline, inserted, ran, undone = said.strip().split("\n\n")
    assert outline.startswith("welcome.ipynb: 5 cells")
    assert inserted.startswith("Inserted [")
    assert ran.startswith("result\n")
    assert "42" in ran
    assert undone.startswith("Undid 1 of your calls")


@pytest.mark.anyio
async def test_the_curl_command_gets_an_answer(server: JupyterProcess) -> None:
    (command,) = of("bash", "curl")
    words = shlex.split(command.text)
    given = [word.split(": ", 1) for flag, word in pairwise(words) if flag == "--header"]
    headers = {name: value.replace("TOKEN", server.token) for name, value in given}
    async with httpx2.AsyncClient(timeout=60) as http:
        body = words[words.index("--data") + 1]
        answer = await http.post(f"{server.url}mcp", headers=headers, content=body)
    assert answer.status_code == 200
    assert "jupyter-collaboration-mcp" in answer.text


@pytest.mark.anyio
async def test_the_authorizer_of_the_security_page_limits_agents(
    make_server: MakeServer, tmp_path: Path
) -> None:
    (example,) = of("python", "class ReportsOnly")
    config = tmp_path / "jupyter_server_config.py"
    config.write_text(example.text)
    async with make_server(f"--config={config}") as server:
        (server.root / "reports").mkdir()
        for path in ("plan.ipynb", "reports/june.ipynb"):
            notebooks.write(server.root / path, notebooks.numbered(1))
        async with agent(server) as ada:
            await ada.write("reports/june.ipynb", "cell-00000", "allowed")
            assert await ada.sources("plan.ipynb") == ["x = 0\n"]
            update = {"cell_id": "cell-00000", "content": "refused"}
            error = await ada.refused(
                "batch_update_notebook_cells", path="plan.ipynb", updates=[update], exec=False
            )
            assert error["code"] == "permission_refused"

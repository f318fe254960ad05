"""How to turn the extension off, and what stays on disk: as the deployment page says it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import httpx2
import pytest

from jupyter_collaboration_mcp.backends import in_process
from tests.conftest import EXTENSIONS
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import REPOSITORY, JupyterProcess
from tests.harness.standalone import StandaloneProcess
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

PAGE = (REPOSITORY / "docs" / "deployment.md").read_text()
LEAVING = PAGE[PAGE.index("## Disable and uninstall") : PAGE.index("## The standalone command")]

#: The files of the installation.
INSTALLED = REPOSITORY / "jupyter-config" / "server-config"

#: What a server leaves, where, and how the page calls it.
LEFT = {
    "data/collaboration-mcp/*/journal-0.db": "`collaboration-mcp/ROOT/`",
    "data/collaboration-mcp/*/panel.db": "`collaboration-mcp/ROOT/panel.db`",
    "data/collaboration-mcp/*/activity.db": "`collaboration-mcp/ROOT/activity.db`",
    "standalone-data/collaboration-mcp/remote-*/activity.db": (
        "`collaboration-mcp/remote-SERVER/activity.db`"
    ),
    "standalone-data/collaboration-mcp/remote-*/journal-0.db": (
        "`collaboration-mcp/remote-SERVER/journal-*.db`"
    ),
    "data/collaboration-mcp/*/outputs/*/*/0.text": "`collaboration-mcp/ROOT/outputs/`",
    "standalone-data/collaboration-mcp/remote-*/outputs/*/*/0.text": (
        "`collaboration-mcp/remote-SERVER/outputs/`"
    ),
    "root/.jupyter_ystore.db": "`.jupyter_ystore.db`",
    "root/.jupyter/collaboration_sessions.json": "`.jupyter/collaboration_sessions.json`",
    "root/.ipynb_checkpoints/*": "`.ipynb_checkpoints/`",
}


async def mcp_status(server: JupyterProcess) -> int:
    async with httpx2.AsyncClient(headers=server.headers, timeout=30) as http:
        assert (await http.get(f"{server.url}api/status")).status_code == 200
        return (await http.put(f"{server.url}mcp")).status_code


async def test_files_stay_where_the_page_says_and_disabling_removes_the_endpoint(
    tmp_path: Path,
) -> None:
    # Enabled by the file of the installation; but for a user, as all tests share the environment.
    others = {name: on for name, on in EXTENSIONS.items() if name != "jupyter_collaboration_mcp"}
    (tmp_path / "root").mkdir()
    users_first = {"JUPYTER_PREFER_ENV_PATH": "0"}
    server = JupyterProcess(tmp_path / "root", extensions=others, env=users_first)
    shutil.copytree(INSTALLED, server.home / "config" / "jupyter_server_config.d")
    try:
        await server.start()
        assert await mcp_status(server) == 405
        await work(server)
        await server.terminate()
        for place, words in LEFT.items():
            base = tmp_path if place.startswith("root") else server.home
            assert list(base.glob(place)), place
            assert words in LEAVING
        await disable(server)
        await server.start()
        assert await mcp_status(server) == 404
    finally:
        await server.stop()


async def work(server: JupyterProcess) -> None:
    """Agents print more than a notebook keeps, through the extension and through the command."""
    path = server.root / "big.ipynb"
    notebooks.write(path, notebooks.notebook([]))
    cell = {"cell_type": "code", "content": "print('x' * 1_100_000)"}
    async with StandaloneProcess([server]) as command:
        for door in (server, command):
            async with agent(door) as ada:
                await ada.ask("batch_insert_notebook_cells", path="big.ipynb", cells=[cell])
    await until(lambda: path.read_text().count("x" * 1000) >= 2)


async def disable(server: JupyterProcess) -> None:
    """By the command on the page."""
    command = "server extension disable jupyter_collaboration_mcp"
    assert f"jupyter {command}\n" in LEAVING
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jupyter", *command.split(), "--user"),
        env=server._environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await asyncio.wait_for(process.wait(), 60) == 0
    name = "jupyter_server_config.d/jupyter_collaboration_mcp.json"
    written = json.loads((server.home / "config" / name).read_text())
    assert written["ServerApp"]["jpserver_extensions"] == {"jupyter_collaboration_mcp": False}
    assert f"`etc/jupyter/{name}`" in LEAVING


def test_the_installation_puts_its_file_where_the_page_says() -> None:
    assert [file.name for file in INSTALLED.iterdir()] == ["jupyter_collaboration_mcp.json"]
    project = (REPOSITORY / "pyproject.toml").read_text()
    assert '"jupyter-config/server-config" = "etc/jupyter/jupyter_server_config.d"' in project


def test_file_names_on_the_page_match_the_code() -> None:
    code = "".join(
        (Path(in_process.__file__).parent / name).read_text()
        for name in ("../disk/aside.py", "journal_records.py", "recovery.py")
    )
    for name, said in (
        ('f"set-aside-', "`set-aside-*`"),
        ('f"unrecovered-', "`unrecovered-*`"),
        (".recovered-{stamp}", "`NAME.recovered-DATE.ipynb`"),
    ):
        assert name in code
        assert said in LEAVING
    assert "$work/.jupyter-token" in (REPOSITORY / "scripts" / "lab").read_text()
    assert "`work/.jupyter-token`" in LEAVING

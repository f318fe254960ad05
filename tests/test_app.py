"""The extension as Jupyter meets it: installed, enabled, light."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from jupyter_server.serverapp import ServerApp
from packaging.requirements import Requirement
from traitlets import TraitError

from jupyter_collaboration_mcp.app import JupyterCollaborationMCP
from jupyter_collaboration_mcp.assembly.journal import journal_directory
from tests.conftest import MakeServer
from tests.harness.agents import agent
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.waiting import until

_ROOT = Path(__file__).parents[1]


def run(*command: str) -> str:
    result = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, timeout=60
    )
    return result.stdout + result.stderr


def test_installing_the_package_enables_the_extension() -> None:
    listed = run("-m", "jupyter", "server", "extension", "list")
    ours = listed[listed.index("jupyter_collaboration_mcp") :].splitlines()
    assert "enabled" in ours[0]
    assert "OK" in ours[2]


def test_versions_that_would_never_save_are_excluded() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    wanted = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    for name, good, bad in (
        ("jupyter-collaboration", "5.0.4", ("5.1.0a0", "5.1.0", "5.2")),
        ("jupyter-server-ydoc", "3.0.4", ("3.1.0a0", "3.1.0", "3.2")),
    ):
        assert wanted[name].contains(good)
        assert not [one for one in bad if wanted[name].contains(one, prereleases=True)]


def test_loading_the_extension_does_not_load_the_mcp_sdk() -> None:
    code = (
        "import sys; from jupyter_collaboration_mcp import _jupyter_server_extension_points;"
        "_jupyter_server_extension_points();"
        "print({'mcp', 'mcp_types', 'starlette', 'httpx2'} & set(sys.modules))"
    )
    assert run("-c", code).strip() == "set()"


@pytest.mark.anyio
async def test_the_first_request_leaves_jupyters_logging_as_it_was(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        await ada.ask("list_notebooks")
        await ada.refused("get_notebook", path="missing.ipynb")
    # The SDK's own handler would print bare messages; Jupyter's lines have a level and a time.
    lines = server.log.splitlines()
    assert lines
    assert all(line.startswith(("[", " ", "/")) or "token" in line for line in lines), lines
    assert server.token not in server.log
    assert not list(Path(server.root).glob("*.log"))


def test_each_root_directory_has_its_own_journal_below_the_configured_directory(
    tmp_path: Path,
) -> None:
    """Servers may share `journal_dir`, and what earlier versions left there is still found."""
    directories = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        app = JupyterCollaborationMCP(journal_dir=str(tmp_path / "journals"))
        serverapp = ServerApp(root_dir=str(tmp_path / name))
        directories.append(journal_directory(app.configured(), serverapp.root_dir))
    assert {directory.parent for directory in directories} == {tmp_path / "journals"}
    assert directories[0] != directories[1]
    named = hashlib.sha256(str((tmp_path / "one").resolve()).encode()).hexdigest()[:16]
    assert directories[0].name == named


@pytest.mark.parametrize("setting", ["allowed_paths", "denied_paths"])
def test_a_list_written_as_a_single_glob_is_refused(setting: str) -> None:
    """It would fit nothing: what is denied would be allowed."""
    for wrong in ('["sub/*"]', "['a', 'b']"):
        with pytest.raises(TraitError, match="once for each"):
            JupyterCollaborationMCP(**{setting: [wrong]})
    JupyterCollaborationMCP(**{setting: ["sub/*", "[ab]*.ipynb"]})


@pytest.mark.anyio
async def test_an_idle_server_preloads_for_its_first_agent(make_server: MakeServer) -> None:
    settings = {"JupyterCollaborationMCP": {"preload": True}}
    async with make_server(config=settings, env=NOT_MEASURED, fork=False) as server:
        process = psutil.Process(server.pid)

        def is_ready() -> bool:
            return any("pydantic_core" in mapped.path for mapped in process.memory_maps())

        assert not is_ready()  # its start is not slowed down
        await until(is_ready, timeout=60)
        async with agent(server) as ada:
            await ada.ask("list_notebooks")

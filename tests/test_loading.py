"""What keeps the extension or the command from starting: one line, and Jupyter works without it."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import httpx2
import pytest
from packaging.requirements import Requirement

from jupyter_collaboration_mcp.app import JupyterCollaborationMCP
from jupyter_collaboration_mcp.requirements import BOUNDS, unmet_requirements
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import REPOSITORY, JupyterProcess
from tests.harness.standalone import environment
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

_FIX = 'Run `pip install "mcp>=2.3,<3"` in this environment'


def distribution(folder: Path, name: str, version: str) -> Path:
    """A package of that version, which comes first wherever the folder comes first."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"__version__ = {version!r}\n")
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


@pytest.fixture(scope="module")
def old_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What jupyter-ai brings."""
    return distribution(tmp_path_factory.mktemp("site-packages"), "mcp", "1.12.4")


async def assert_jupyter_works_without_us(server: JupyterProcess) -> str:
    """Returns the line that says why."""
    async with httpx2.AsyncClient(headers=server.headers, timeout=30) as http:
        assert (await http.get(f"{server.url}api/status")).status_code == 200
        assert (await http.get(f"{server.url}api/contents")).status_code == 200
        assert (await http.post(f"{server.url}mcp", json={})).status_code == 404
    assert "jupyter_server_ydoc | extension was successfully loaded" in server.log
    assert "jupyter_collaboration_mcp | extension was successfully loaded" not in server.log
    assert "Traceback" not in server.log
    (line,) = [line for line in server.log.splitlines() if "is not loaded" in line]
    assert line.startswith("[E ")
    return line


async def test_the_extension_is_not_loaded_with_an_incompatible_dependency(
    make_server: MakeServer, old_sdk: Path
) -> None:
    async with make_server(extra_path=[old_sdk]) as server:
        line = await assert_jupyter_works_without_us(server)
        assert await server.terminate() == 0
    assert "mcp 1.12.4 is installed and mcp>=2.3,<3 is needed. " + _FIX in line
    assert "from an environment of its own (pipx, uvx)" in line


async def test_the_extension_is_not_loaded_with_a_newer_jupyter_collaboration(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """With 5.1 an edit would be acknowledged and never saved."""
    for name, version in (("jupyter_collaboration", "5.1.0a0"), ("jupyter_server_ydoc", "3.1.0a0")):
        about = tmp_path / f"{name}-{version}.dist-info"
        about.mkdir()
        said = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        (about / "METADATA").write_text(said)
    async with make_server(extra_path=[tmp_path]) as server:
        line = await assert_jupyter_works_without_us(server)
    assert (
        "jupyter-collaboration 5.1.0a0 is installed and jupyter-collaboration>=5.0.4,<5.1" in line
    )
    assert "jupyter-server-ydoc 3.1.0a0 is installed and jupyter-server-ydoc>=3.0.4,<3.1" in line
    code, said, complaints = await run(tmp_path, tmp_path)
    assert (code, said) == (2, "")
    assert complaints.startswith("jupyter-collaboration-mcp: jupyter-collaboration 5.1.0a0 is")
    assert len(complaints.splitlines()) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"toolsets": "cor"}, "There is no toolset cor. Did you mean core?"),
        ({"permission": "reed"}, "'permission' trait"),
        ({"permision": "read"}, "no setting 'permision'. Did you mean permission?"),
        (
            {"disabled_workarounds": ["line_ending"]},
            "There is no workaround 'line_ending'. Did you mean line_endings?",
        ),
    ],
    ids=["toolset", "level", "name", "workaround"],
)
async def test_the_extension_is_not_loaded_with_an_invalid_setting(
    make_server: MakeServer, settings: dict[str, str], said: str
) -> None:
    """Jupyter would go on with the defaults, which allow everything."""
    async with make_server(config={"JupyterCollaborationMCP": settings}) as server:
        assert said in await assert_jupyter_works_without_us(server)


async def test_an_invalid_setting_in_its_own_file_does_not_stop_jupyter(
    make_server: MakeServer,
) -> None:
    server = make_server()
    file = server.home / "config" / "jupyter_collaboration_mcp_config.py"
    file.write_text("c.JupyterCollaborationMCP.permission = 'reed'\n")
    async with server:
        await assert_jupyter_works_without_us(server)
        assert "'permission' trait" in server.log


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("PERMISSION", "reed", "_PERMISSION: there is no permission level 'reed'"),
        ("PERMISSION", "work=read", "_PERMISSION: inside Jupyter there is one server"),
        ("PERMISION", "read", "no setting JUPYTER_COLLABORATION_MCP_PERMISION. Did you mean"),
    ],
    ids=["level", "alias", "name"],
)
async def test_the_extension_is_not_loaded_with_an_invalid_variable(
    make_server: MakeServer, variable: str, text: str, said: str
) -> None:
    async with make_server(env={f"JUPYTER_COLLABORATION_MCP_{variable}": text}) as server:
        assert said in await assert_jupyter_works_without_us(server)


async def test_a_variable_applies_if_nothing_else_is_configured(make_server: MakeServer) -> None:
    variables = {
        "JUPYTER_COLLABORATION_MCP_DENIED_PATHS": "private/*,*.md",
        "JUPYTER_COLLABORATION_MCP_MAX_CELLS_PER_CALL": "2",
        "JUPYTER_COLLABORATION_MCP_BEARER_TOKEN": "of the command",
    }
    config = {"JupyterCollaborationMCP": {"max_cells_per_call": 4}}
    async with make_server(config=config, env=variables) as server, agent(server) as ada:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        (server.root / "notes.md").write_text("text")
        error = await ada.refused("get_document", path="notes.md")
        assert error["code"] == "permission_refused"
        insert = {"path": "a.ipynb", "exec": False}
        await ada.ask("batch_insert_notebook_cells", cells=[{"content": "1"}] * 4, **insert)
        error = await ada.refused(
            "batch_insert_notebook_cells", cells=[{"content": "1"}] * 5, **insert
        )
        assert error["code"] == "too_large"


async def run(home: Path, path: Path, *arguments: str) -> tuple[int | None, str, str]:
    """The command in an environment in which another version comes first."""
    search = os.pathsep.join([str(path), str(REPOSITORY)])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jupyter_collaboration_mcp.cli", *arguments),
        env={**environment(home), "PYTHONPATH": search},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, said.decode(), complaints.decode()


@pytest.mark.parametrize("arguments", [[], ["doctor", "http://127.0.0.1:9/"]])
async def test_the_command_exits_with_one_line_for_an_incompatible_dependency(
    tmp_path: Path, old_sdk: Path, arguments: list[str]
) -> None:
    code, said, complaints = await run(tmp_path, old_sdk, *arguments)
    (line,) = complaints.splitlines()
    assert (code, said) == (2, "")
    assert line.startswith("jupyter-collaboration-mcp: mcp 1.12.4 is installed and mcp>=2.3,<3 is")
    assert _FIX in line


async def test_the_command_prints_its_version_whatever_is_installed(
    tmp_path: Path, old_sdk: Path
) -> None:
    code, said, _ = await run(tmp_path, old_sdk, "--version")
    assert (code, said) == (0, "0.1.0\n")


def test_all_unmet_requirements_are_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unmet_requirements() is None
    for name, version in (("mcp", "1.9.0"), ("pycrdt", "0.15.0"), ("websockets", "20.1rc1")):
        distribution(tmp_path / name, name, version)
        monkeypatch.syspath_prepend(tmp_path / name)
    line = unmet_requirements()
    assert line is not None
    assert "\n" not in line
    assert "mcp 1.9.0 is installed" in line
    assert "pycrdt 0.15.0 is installed and pycrdt>=0.14.10,<0.15 is needed" in line
    assert 'pip install "mcp>=2.3,<3" "pycrdt>=0.14.10,<0.15"`' in line
    assert "websockets" not in line


@pytest.mark.parametrize("version", ["3.1.0a0", "3.1.0", "4.0"])
def test_an_uninstalled_checkout_checks_the_important_bounds_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert unmet_requirements() is None
    distribution(tmp_path, "jupyter_server_ydoc", version)
    monkeypatch.syspath_prepend(tmp_path)
    line = unmet_requirements()
    assert line is not None
    assert f"jupyter-server-ydoc {version} is installed and jupyter-server-ydoc<3.1 is" in line


def test_the_bounds_match_the_metadata() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    required = {Requirement(line).name: Requirement(line) for line in project["dependencies"]}
    for line in BOUNDS:
        bound = Requirement(line)
        assert str(bound.specifier) in str(required[bound.name].specifier).split(",")


async def test_the_extensions_settings_can_be_printed_and_written_to_a_file_that_it_reads(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """Jupyter's own `--help-all` ends before any extension is loaded."""
    code, said, _ = await run(tmp_path, tmp_path, "--help-all")
    assert code == 0
    assert "--transport" in said
    settings = JupyterCollaborationMCP.class_own_traits(config=True)
    assert [name for name in settings if f"--JupyterCollaborationMCP.{name}=" not in said] == []
    assert (await run(tmp_path, tmp_path, "--generate-config"))[0] == 0
    (file,) = (tmp_path / "config").glob("*.py")
    text = file.read_text()
    assert [name for name in settings if f"# c.JupyterCollaborationMCP.{name} = " not in text] == []
    default = "# c.JupyterCollaborationMCP.url_path = 'mcp'"
    assert default in text
    server = make_server()
    changed = text.replace(default, "c.JupyterCollaborationMCP.url_path = 'elsewhere'")
    (server.home / "config" / file.name).write_text(changed)
    async with server:
        await until(lambda: f"MCP is served at {server.url}elsewhere" in server.log)

"""The commands and claims of the README and of the pages about the command hold."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from jupyter_collaboration_mcp.standalone.clients import CLIENTS
from jupyter_collaboration_mcp.standalone.options import command_parser, service_parser
from tests.harness import forking, notebooks
from tests.harness.agents import agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import REPOSITORY, JupyterProcess
from tests.harness.standalone import environment

PROGRAM = "jupyter-collaboration-mcp"
README = (REPOSITORY / "README.md").read_text()
PAGES = {name: (REPOSITORY / "docs" / name).read_text() for name in ("clients.md", "deployment.md")}
PAGES["README.md"] = README


def _commands() -> list[str]:
    """Each command that starts ours: a line of a block, or between backquotes."""
    found: list[str] = []
    for page in PAGES.values():
        for block in re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
            found += [line for line in block.splitlines() if line.startswith(f"{PROGRAM} ")]
        prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
        for span in re.findall(r"`([^`]+)`", prose):
            words = " ".join(span.split())
            if words.startswith("config ") and words not in ("config CLIENT",):
                words = f"{PROGRAM} {words}"
            if words.startswith(f"{PROGRAM} "):
                found.append(words)
    return sorted(set(found))


COMMANDS = _commands()


def test_the_commands_are_found() -> None:
    for expected in ("config claude-code", "doctor [URL]", "--transport http"):
        assert f"{PROGRAM} {expected}" in COMMANDS


@pytest.mark.anyio
@pytest.mark.parametrize("command", COMMANDS)
async def test_every_documented_command_works_or_at_least_parses(
    command: str, server: JupyterProcess, tmp_path: Path
) -> None:
    filled = command.replace("[URL]", server.url).replace("CLIENT", "cursor")
    filled = filled.replace("http://127.0.0.1:8888/", server.url).replace("URL", server.url)
    _, *words = shlex.split(filled)
    if words and words[0] == "hub-service":
        service_parser().parse_args(words[1:])
        return
    if words and words[0] not in ("config", "doctor", "servers", "token"):
        command_parser().parse_args(words)  # it would serve until it is ended
        return
    process = await asyncio.create_subprocess_exec(
        *(*forking.command("jupyter_collaboration_mcp.cli"), *words),
        env=environment(tmp_path, JUPYTER_RUNTIME_DIR=str(server.home / "runtime")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, complaints) == (0, b"")
    assert said


def test_every_client_is_named() -> None:
    for client in CLIENTS:
        assert re.search(rf"`(?:config )?{client}`|config {client}\n", README), client


def test_every_documented_option_exists() -> None:
    """Of our command; what has a capital letter, or stands behind another program, is another's."""
    known = {option for action in command_parser()._actions for option in action.option_strings}
    known |= {"--http", "--without-token"}
    for name, page in PAGES.items():
        others = r"^claude .*$|^curl (?:.*\\\n)*.*$|`(?:jupyter|uvx|\./scripts\/\w+) [^`]*`"
        ours = re.sub(others, "", page, flags=re.MULTILINE)
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*\b(?!\.)", ours)) <= known, name


def test_the_documented_versions_match_the_project() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = {Requirement(each).name: Requirement(each) for each in project["dependencies"]}
    collaboration = wanted["jupyter-collaboration"].specifier
    (least, below) = re.findall(
        r"\*\*jupyter-collaboration\*\* .*?(\d\S*) or newer,\s+but\s+below (\d+\.\d+)", README
    )[0]
    assert str(collaboration) in (f">={least},<{below}", f"<{below},>={least}")
    (lab,) = re.findall(r"\*\*JupyterLab\*\* is raised to (\S+) or newer", README)
    needed = map(Requirement, requires("jupyter-collaboration") or ())
    (jupyterlab,) = [each.specifier for each in needed if each.name == "jupyterlab"]
    assert Version(lab) in jupyterlab
    major, minor = lab.split(".")
    assert Version(f"{major}.{int(minor) - 1}.999") not in jupyterlab
    python = project["requires-python"].removeprefix(">=")
    assert f"Python {python} or newer" in README


@pytest.mark.anyio
async def test_a_cell_that_raises_is_a_result_and_not_an_error_of_the_call(
    server: JupyterProcess,
) -> None:
    assert "its error is the result" in " ".join(README.split())
    cells = [notebooks.code("bad", "1 / 0")]
    notebooks.write(server.root / "raises.ipynb", notebooks.notebook(cells))
    async with agent(server) as ada:
        result = await ada.call("execute_notebook_cell", path="raises.ipynb", cell_id="bad")
        assert not result.is_error
        assert "ZeroDivisionError" in text_of(result)
        assert "FAILED" in text_of(result)
        missing = await ada.call("execute_notebook_cell", path="raises.ipynb", cell_id="none")
        assert missing.is_error


@pytest.mark.anyio
async def test_a_person_sees_the_steps_that_the_readme_describes(
    server: JupyterProcess,
) -> None:
    for step in ("counts to ten", "line by line", '"Undo that."', "what you typed stays"):
        assert step in " ".join(README.split())
    shutil.copy(REPOSITORY / "scripts" / "sample" / "welcome.ipynb", server.root)
    path, go = "welcome.ipynb", server.root / "go"
    count = (
        "import pathlib, time\n"
        "for n in range(1, 11):\n"
        f"    while n == 5 and not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\n"
        "    print(n)"
    )
    async with (
        Collaborator(server.url, server.token, path, name="Ana") as ana,
        agent(server, "Ada") as ada,
    ):
        before = len(ana.sources())
        cells = [{"content": count}]
        inserting = asyncio.ensure_future(
            ada.ask("batch_insert_notebook_cells", path=path, cells=cells)
        )
        # The output comes as it is printed.
        await ana.until(lambda: len(ana.sources()) > before and _printed(ana) == "1\n2\n3\n4\n")
        ana.insert("circle", 0, "# typed meanwhile\n")
        await ana.flush()
        go.touch()
        inserted = await inserting
        assert inserted["runs"][0]["state"] == "completed"
        await ana.until(lambda: _printed(ana).split() == [str(n) for n in range(1, 11)])
        await ada.ask("undo_agent_changes", path=path)
        await ana.until(lambda: len(ana.sources()) == before)
        assert ana.source("circle").startswith("# typed meanwhile\n")


def _printed(ana: Collaborator) -> str:
    return "".join(output["text"] for output in ana.cell(-1)["outputs"])

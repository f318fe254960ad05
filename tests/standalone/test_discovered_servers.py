"""Servers that nobody named: each has an alias that says something, and one that is broken is told
of once."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jupyter_collaboration_mcp.cli import main
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import over_stdio
from tests.harness.http_proxy import SILENCE, Front
from tests.harness.jupyter import JupyterProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


class Machine(NamedTuple):
    """One with two servers: `front` is the good one by another way, as it is told to answer."""

    good: JupyterProcess
    front: Front
    runtime: Path
    here: Path
    """The folder of the good server."""


@pytest.fixture(scope="module")
async def machine(
    make_server: MakeServer, tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[Machine]:
    place = tmp_path_factory.mktemp("machine")
    here, runtime = place / "here", place / "runtime"
    here.mkdir()
    runtime.mkdir()
    notebooks.write(here / "work.ipynb", notebooks.numbered(1))
    async with (
        make_server(root=here, extensions={"jupyter_collaboration_mcp": False}) as good,
        Front(good.url, {}) as front,
    ):
        for number, (url, root) in enumerate(((good.url, here), (front.url, place / "thesis"))):
            written = {"pid": os.getpid(), "url": url, "root_dir": str(root), "token": good.token}
            (runtime / f"jpserver-{number}.json").write_text(json.dumps(written))
        yield Machine(good, front, runtime, here)


@pytest.mark.parametrize("broken", [500, SILENCE], ids=["broken", "silent"])
async def test_a_broken_discovered_server_is_reported_once_until_it_recovers(
    machine: Machine, tmp_path: Path, broken: int
) -> None:
    machine.front.answers = {"GET api": broken}
    runtime = str(machine.runtime)
    async with over_stdio(
        tmp_path, "--answer-timeout=1", cwd=machine.here, JUPYTER_RUNTIME_DIR=runtime
    ) as ada:
        first, *later = [
            await ada.say(tool)
            for tool in ("list_notebooks", "list_notebooks", "list_documents", "list_kernels")
        ]
        assert "work.ipynb" in first
        assert f"{machine.front.url} is left out of lists while it does not answer" in first
        assert "thesis: " in first
        for said in later:
            assert "thesis" not in said
            assert machine.front.url not in said
        facts = await ada.ask("list_notebooks")
        assert facts["complete"]
        assert "troubles" not in facts
        listed = (await ada.ask("list_servers"))["servers"]
        assert [server["alias"] for server in listed] == ["", "thesis"]
        assert [server["state"] == "ok" for server in listed] == [True, False]
        machine.front.answers = {}
        assert "thesis:work.ipynb" in await ada.say("list_notebooks")
        machine.front.answers = {"GET api": broken}
        again = await ada.say("list_notebooks")
        assert "is left out" in again
        assert "thesis:work.ipynb" not in again


async def test_doctor_without_a_url_checks_every_running_server(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(machine.runtime))
    monkeypatch.setenv("JUPYTER_TOKEN", "of another server")
    monkeypatch.chdir(machine.here)
    for answers, code in (({}, 0), ({"GET api": 500}, 1)):
        machine.front.answers = answers
        assert await asyncio.to_thread(main, ["doctor"]) == code
        said = capsys.readouterr().out
        good, _, other = said.partition(f"{machine.front.url}\n")
        assert good.startswith(f"{machine.good.url}\n")
        assert f"{machine.good.url} answers" in good
        assert "failed" not in good
        assert f"{machine.front.url} answers" in other
        assert ("failed" in other) is bool(answers)
    with pytest.raises(SystemExit):
        await asyncio.to_thread(main, ["doctor", "--token=x"])
    assert "--token needs the URL" in capsys.readouterr().err

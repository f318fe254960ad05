"""What could not be saved is saved as soon as it can be, without another edit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient
from tests.harness.collaborator import Collaborator
from tests.harness.disks import FULL
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served
from tests.tools.conftest import SAVE_SOON

pytestmark = pytest.mark.anyio

MANAGER = "--ServerApp.contents_manager_class=tests.harness.disks.FullDisk"


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    async with served(make_server, request.param, SAVE_SOON, MANAGER) as process:
        yield process


async def test_an_edit_is_saved_once_a_full_disk_has_space_again(
    server: JupyterProcess, ada: AgentClient
) -> None:
    root = Path(server.root)
    text, notebook = root / "a.md", root / "a.ipynb"
    text.write_text("text\n")
    notebooks.write(notebook, notebooks.notebook([notebooks.code("one", "1")]))
    await ada.ask("get_document", path="a.md")
    (root / FULL).touch()
    edit = {"old_text": "text", "new_text": "text and more"}
    await ada.ask("batch_update_document", path="a.md", operations=[edit])
    await ada.write("a.ipynb", "one", "1 + 1")
    await until(lambda: server.log.count("No space left on device") >= 2)
    assert (text.read_text(), notebooks.sources(notebook)) == ("text\n", ["1"])
    (root / FULL).unlink()
    await until(lambda: text.read_text() == "text and more\n")
    await until(lambda: notebooks.sources(notebook) == ["1 + 1"])
    facts = await ada.ask("get_document", path="a.md")
    assert facts["content"] == "text and more\n"


async def test_a_persons_edit_is_saved_once_a_full_disk_has_space_again(
    server: JupyterProcess, ada: AgentClient
) -> None:
    if server.standalone is not None:
        pytest.skip("nothing of ours is in that server")
    file = Path(server.root) / "typed.md"
    file.write_text("text\n")
    async with Collaborator(server.url, server.token, "typed.md", kind="file") as person:
        (Path(server.root) / FULL).touch()
        failed = server.log.count("No space left on device")
        person.insert(None, 0, "typed ")
        await until(lambda: server.log.count("No space left on device") > failed)
        (Path(server.root) / FULL).unlink()
        await until(lambda: file.read_text() == "typed text\n")

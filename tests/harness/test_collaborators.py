"""The people of the other tests, held to what real tabs do."""

from collections.abc import AsyncIterator

import anyio
import pytest

from tests.conftest import MakeServer

from .collaborator import Collaborator
from .jupyter import JupyterProcess
from .notebooks import markdown, notebook, sources, write
from .waiting import until
from .yjs import YjsClient

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server without our extension: these tests are about people only."""
    async with make_server(extensions={"jupyter_collaboration_mcp": False}) as process:
        yield process


@pytest.fixture
def path(server: JupyterProcess, request: pytest.FixtureRequest) -> str:
    """A notebook of the test's own, at a path that needs quoting."""
    cells = [markdown("accents", "aéç 😀 end"), markdown("empty", "")]
    file = server.root / "a folder" / f"é {request.node.name}.ipynb"
    file.parent.mkdir(exist_ok=True)
    write(file, notebook(cells))
    return str(file.relative_to(server.root))


async def test_two_people_type_into_one_cell_and_each_keeps_a_whole_run(
    server: JupyterProcess, path: str
) -> None:
    async with (
        Collaborator(server.url, server.token, path, "Ana") as ana,
        Collaborator(server.url, server.token, path, "Ben") as ben,
    ):
        async with anyio.create_task_group() as both:
            both.start_soon(ana.type, "accents", "aé", "[één 😀 ôô]")
            both.start_soon(ben.type, "accents", "😀", "[zwei 😀 ßß]")
            both.start_soon(ana.type, "empty", 0, "😀a")
            both.start_soon(ben.type, "empty", 0, "😀b")
        await ana.flush()
        await ben.flush()
        await ana.until(lambda: ana.source(1) in ("😀a😀b", "😀b😀a"))
        await ana.until(lambda: ana.source("accents") == "aé[één 😀 ôô]ç 😀[zwei 😀 ßß] end")
        await ben.until(lambda: ben.sources() == ana.sources())


async def test_a_person_sees_cells_come_and_go_and_who_is_there(
    server: JupyterProcess, path: str
) -> None:
    async with Collaborator(server.url, server.token, path, "Ana") as ana:
        async with Collaborator(server.url, server.token, path, "Ben") as ben:
            await ana.until(lambda: [user["name"] for user in ana.awareness_users()] == ["Ben"])
            ben.insert_cell(0, "# Top", "markdown", cell_id="top")
            last = ben.append_cell("x = 1")
            ben.delete_cell("empty")
            ben.delete("accents", 0, 4)
            await ana.until(lambda: ana.ids() == ["top", "accents", last])
            await ana.until(lambda: ana.sources() == ["# Top", "😀 end", "x = 1"])
            assert ana.cell(last)["outputs"] == []
        await ana.until(lambda: not ana.awareness_users())


async def test_saving_writes_all_that_was_typed_to_the_file(server: JupyterProcess) -> None:
    (server.root / "note.txt").write_text("né")
    async with Collaborator(server.url, server.token, "note.txt", kind="file") as ana:
        await ana.type(None, "é", "!")
        assert await ana.save() == "success"
        assert (server.root / "note.txt").read_text() == "né!"


async def test_a_timeout_shows_the_current_content(server: JupyterProcess, path: str) -> None:
    async with Collaborator(server.url, server.token, path) as ana:
        with pytest.raises(TimeoutError, match="aéç 😀 end"):
            await ana.until(lambda: "never" in ana.source("nowhere"), timeout=0.01)


@pytest.mark.node
async def test_pycrdt_and_yjs_see_each_other_before_and_after_a_crash(
    server: JupyterProcess, path: str
) -> None:
    async with (
        Collaborator(server.url, server.token, path, "Ana") as ana,
        YjsClient(server, path) as yjs,
    ):
        ana.insert("empty", 0, "from pycrdt; ")
        await yjs.wait("from pycrdt; ")
        await yjs.type("empty", "from yjs; ")
        await ana.until(lambda: ana.source("empty") == "from pycrdt; from yjs; ")
        # Saved is stored: Jupyter lets the file win over a store that lacks the last edits.
        file = server.root / path
        await until(lambda: "from yjs" in "".join(sources(file)))

        server.kill()
        await ana.until(lambda: not ana.connected)
        ana.insert("empty", len("from pycrdt; from yjs; "), "typed offline; ")
        await server.start()

        await ana.flush(timeout=30)
        assert await yjs.connections(2, timeout=30) == 2
        assert ana.connections == 2
        expected = "from pycrdt; from yjs; typed offline; "
        await yjs.wait(expected)
        await yjs.type("accents", "!")
        await yjs.flush()
        await ana.until(lambda: ana.source("accents") == "aéç 😀 end!")

        newcomer = await YjsClient.read(server, path)
        assert newcomer.cells == [("accents", "aéç 😀 end!"), ("empty", expected)]
        assert not newcomer.pending

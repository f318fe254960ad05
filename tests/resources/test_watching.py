"""Watching real documents: both ways to a server, and in both eras of the protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, TextResourceContents
from pycrdt import Map

from jupyter_collaboration_mcp.documents.addresses import Execution
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, agent, over_stdio
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, eventually
from tests.harness.lobby import Lobby
from tests.harness.standalone import StandaloneProcess
from tests.harness.subscribers import LIST, Heard, address, legacy, only, subscribed
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio

ERAS = [MODERN, LEGACY]

#: The code for what is not there, by era.
NOT_FOUND = {MODERN: INVALID_PARAMS, LEGACY: -32002}

CELL = "cell-00001"

DENIED = "secret/*"


@asynccontextmanager
async def careful(make_server: MakeServer, way: str) -> AsyncIterator[JupyterProcess]:
    """A server that agents reach that way, which ends unused rooms soon and keeps some secret."""
    options = (
        "--YDocExtension.document_cleanup_delay=0.2",
        "--ServerApp.authorizer_class=tests.harness.authorizers.KeepsPrivate",
    )
    async with served(
        make_server, way, *options, settings={"denied_paths": DENIED}, measured=True
    ) as process:
        (Path(process.root) / "secret").mkdir()
        yield process


@pytest.fixture(scope="module", params=WAYS)
async def server(
    request: pytest.FixtureRequest, make_server: MakeServer, anyio_backend: str
) -> AsyncIterator[JupyterProcess]:
    async with careful(make_server, request.param) as process:
        yield process


@pytest.fixture
def path(server: JupyterProcess, request: pytest.FixtureRequest) -> str:
    """A notebook of three cells."""
    return new(server, notebooks.name_for(request.node.name))


def new(server: JupyterProcess, name: str) -> str:
    path = f"{name}.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(3))
    return path


def through(server: JupyterProcess | StandaloneProcess, name: str = "Watcher") -> Any:
    def connect(mode: str, on_message: Any) -> Any:
        return agent(server, name, mode, on_message=on_message)

    return connect


def person(server: JupyterProcess, path: str, **more: Any) -> Collaborator:
    return Collaborator(server.url, server.token, path, **more)


class Both:
    """A client of each era that has subscribed to the same: each hears all that the other hears."""

    def __init__(self, *heard: Heard) -> None:
        self.each = heard

    def count(self, uri: str) -> list[int]:
        return [heard.count(uri) for heard in self.each]

    def has_more(self, uri: str, before: list[int]) -> bool:
        """Whether both have heard of something since then."""
        return all(now > then for now, then in zip(self.count(uri), before, strict=True))

    @asynccontextmanager
    async def hearing(self, uri: str) -> AsyncIterator[None]:
        """Something of which both have to hear."""
        async with AsyncExitStack() as stack:
            for heard in self.each:
                await stack.enter_async_context(heard.hearing(uri))
            yield


@asynccontextmanager
async def both(
    server: JupyterProcess, uris: Sequence[str], lists: bool = False, name: str = "Watcher"
) -> AsyncIterator[Both]:
    connect = through(server, name)
    async with (
        subscribed(connect, MODERN, uris, lists=lists) as modern,
        subscribed(connect, LEGACY, uris, lists=lists) as old,
    ):
        yield Both(modern, old)


async def settled(
    heard: Heard | Both, uri: str, typist: Collaborator, cell: str = "cell-00000"
) -> None:
    """Wait until what was due before has been sent: notifications of something else, in which
    somebody types, come after it."""
    for _ in range(3):
        async with heard.hearing(uri):
            typist.insert(cell, 0, "x")


async def test_subscribers_hear_what_people_and_agents_do(
    server: JupyterProcess, path: str
) -> None:
    document, cell = await address(server, path), await address(server, path, CELL)
    other = await address(server, path, "cell-00002")
    async with (
        person(server, path) as ana,
        agent(server, "Ada") as ada,
        both(server, [cell, other, document, f"{document}/json"]) as heard,
    ):
        async with heard.hearing(cell), heard.hearing(document), heard.hearing(f"{document}/json"):
            ana.insert(CELL, 0, "typed")
        async with heard.hearing(cell), heard.hearing(document):
            await ada.write(path, CELL, "print('from Ada')")
        async with heard.hearing(cell), heard.hearing(document):
            await ada.ask("execute_notebook_cell", path=path, cell_id=CELL)
        async with heard.hearing(document):
            ana.doc.get("meta", type=Map)["metadata"]["title"] = "New"
        await settled(heard, document, ana)
        before = heard.count(cell)
        await settled(heard, document, ana)
        assert heard.count(cell) == before
        async with heard.hearing(cell), heard.hearing(document):
            ana.delete_cell(CELL)
        assert heard.count(other) == [0, 0]
        assert not any("Watcher" in user["name"] for user in ana.awareness_users())


async def test_subscribers_hear_of_runs_that_no_cell_shows(
    server: JupyterProcess, path: str, tmp_path: Path
) -> None:
    document, gate = await address(server, path), Gate(tmp_path / "gate")
    async with agent(server, "Ada") as ada:
        code = f"print('begin', flush=True)\n{gate.code}\nprint('end', flush=True)"
        (run,) = (await ada.ask("run_code", path=path, code=code, timeout=0))["runs"]
        await gate.reached()
        session, notebook = document.removeprefix("notebook://").split("/")
        uri = Execution(session, notebook, run["run_id"]).format()
        async with both(server, [uri, document]) as heard:
            async with heard.hearing(uri):
                gate.open()
            await ada.ask("get_run", run_id=run["run_id"])
            for each in heard.each:
                last = (await each.client.read_resource(uri)).contents[0]
                assert '"status": "completed"' in last.model_dump_json().replace("\\", "")
            assert heard.count(document) == [0, 0]


async def test_subscribers_hear_of_text_files(server: JupyterProcess) -> None:
    path = "notes.txt"
    (Path(server.root) / path).write_text("one\n")
    uri = await address(server, path)
    async with (
        person(server, path, kind="file") as ana,
        both(server, [uri]) as heard,
        heard.hearing(uri),
    ):
        ana.insert(None, 0, "zero\n")


async def test_subscribers_hear_of_notebooks_that_agents_open_and_of_their_own_current_one(
    server: JupyterProcess, path: str
) -> None:
    uris = ["notebook://list", "notebook://current"]
    async with (
        both(server, uris, lists=True, name="Mover") as heard,
        agent(server, "Mover") as ada,
    ):
        async with heard.hearing(uris[0]), heard.hearing(uris[1]), heard.hearing(LIST):
            await ada.sources(path)
        async with heard.hearing(uris[1]):
            await ada.write(path, CELL, "changed")


@pytest.mark.parametrize("mode", ERAS)
async def test_what_cannot_be_subscribed_to_is_an_error_with_its_uri(
    server: JupyterProcess, path: str, mode: str
) -> None:
    document = await address(server, path)
    session, notebook = document.removeprefix("notebook://").split("/")
    bad = {
        "notebook://": INVALID_PARAMS,
        "notebook://list/../current": INVALID_PARAMS,
        f"{document}/nonsense": INVALID_PARAMS,
        f"{document}/cells/%2e%2e": INVALID_PARAMS,
        f"notebook://{session}/..%2Fx.ipynb": INVALID_PARAMS,
        f"notebook://nobody/{notebook}": NOT_FOUND[mode],
        f"notebook://{session}/none": NOT_FOUND[mode],
        f"{document}/cells/none": NOT_FOUND[mode],
        f"{document}/executions/none": NOT_FOUND[mode],
        "notebook://runs/none/0": NOT_FOUND[mode],
    }
    for uri, code in bad.items():
        with pytest.raises((MCPError, ExceptionGroup)) as refused:
            async with subscribed(through(server), mode, [uri]):
                pass
        error = only(refused.value)
        assert (uri, error.error.code, error.error.data) == (uri, code, {"uri": uri})


# -- who may hear what ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_a_document_that_may_not_be_read_cannot_be_subscribed_to(
    server: JupyterProcess, mode: str
) -> None:
    names = ["secret/plan"]
    if server.standalone is None:
        names.append("private")
    for name in names:
        uri = await address(server, new(server, name))
        with pytest.raises((MCPError, ExceptionGroup)) as refused:
            async with subscribed(through(server), mode, [uri]):
                pass
        assert only(refused.value).message.startswith("permission_refused: ")


async def test_a_document_that_is_moved_out_of_reach_is_not_heard_of(
    server: JupyterProcess, path: str
) -> None:
    await not_heard_when_moved(server, f"1-{path}", f"secret/{path}")
    if server.standalone is None:  # a command has no authorizer
        await not_heard_when_moved(server, f"2-{path}", f"unreadable.{path}")


async def not_heard_when_moved(server: JupyterProcess, path: str, hidden: str) -> None:
    here, other = new(server, path), new(server, f"other-{path}")
    uri, beside = await address(server, here), await address(server, other)
    async with (
        person(server, here) as ana,
        person(server, other) as bob,
        both(server, [uri, beside]) as heard,
    ):
        async with heard.hearing(uri):
            ana.insert(0, 0, "x")
        await _rename(server, here, hidden)
        await settled(heard, beside, bob)
        before = heard.count(uri)
        ana.insert(0, 0, "y")
        await ana.flush()
        await settled(heard, beside, bob)
        assert heard.count(uri) == before

        def heard_of_typing() -> bool:
            ana.insert(0, 0, "z")
            return heard.has_more(uri, before)

        await _rename(server, hidden, here)
        await until(heard_of_typing)  # a command learns a moment later where it is


@pytest.mark.parametrize("way", WAYS)
async def test_the_list_is_heard_to_change_only_for_what_may_be_read(
    make_server: MakeServer, way: str
) -> None:
    # A server of its own: in a shared one, what earlier tests have left is closed at any time, and
    # a command hears some seconds later what they have renamed.
    async with careful(make_server, way) as server:
        path, secret = new(server, "open"), new(server, "secret/plan")
        other = await address(server, path)
        uris = ["notebook://list", other]
        async with (
            person(server, path) as ana,
            both(server, uris, lists=True) as heard,
        ):
            await settled(heard, other, ana)
            before = heard.count(uris[0]), heard.count(LIST)
            async with tab(server, secret):
                await settled(heard, other, ana)
            await _rename(server, new(server, "closed"), "still-closed.ipynb")
            await settled(heard, other, ana)
            assert (heard.count(uris[0]), heard.count(LIST)) == before
            async with tab(server, new(server, "another")):
                await until(lambda: heard.has_more(uris[0], before[0]))
                await until(lambda: heard.has_more(LIST, before[1]))


async def _rename(server: JupyterProcess, path: str, new_path: str) -> None:
    async with httpx.AsyncClient(headers=server.headers, verify=False) as http:
        answer = await http.patch(f"{server.url}api/contents/{path}", json={"path": new_path})
        answer.raise_for_status()


# -- lifetimes -----------------------------------------------------------------------------------


async def test_the_list_changes_when_people_open_and_close_a_notebook(
    server: JupyterProcess, path: str
) -> None:
    uri = "notebook://list"

    async def listed(heard: Both) -> bool:
        (found,) = (await heard.each[0].client.read_resource(uri)).contents
        return path in found.model_dump_json()

    other = new(server, "beside")
    beside = await address(server, other)
    async with (
        person(server, other) as bob,
        both(server, [uri, beside], lists=True) as heard,
    ):
        async with tab(server, path):
            await eventually(partial(listed, heard), bool)
            await until(lambda: min(heard.count(uri) + heard.count(LIST)) >= 1)
            await settled(heard, beside, bob)
            before = heard.count(uri), heard.count(LIST)
        await eventually(partial(listed, heard), lambda found: not found)
        await until(lambda: heard.has_more(uri, before[0]) and heard.has_more(LIST, before[1]))


async def test_the_list_changes_when_a_notebook_is_renamed(
    server: JupyterProcess, path: str
) -> None:
    if server.standalone is not None:
        pytest.skip("from outside, a rename is noticed when the document is used again")
    async with person(server, path), both(server, [], lists=True) as heard, heard.hearing(LIST):
        await _rename(server, path, f"renamed-{path}")


async def test_a_document_that_is_deleted_is_heard_of_and_not_open_any_more(
    server: JupyterProcess, path: str
) -> None:
    document, cell = await address(server, path), await address(server, path, CELL)
    uris = [document, cell, "notebook://list"]
    async with agent(server, "Ada") as ada, both(server, uris) as heard:
        async with heard.hearing(document), heard.hearing("notebook://list"):
            await ada.write(path, CELL, "1")
        async with heard.hearing(document), heard.hearing(cell), heard.hearing("notebook://list"):
            await ada.ask("delete_document", path=path)


async def test_a_document_that_everybody_leaves_is_heard_of_when_it_is_opened_again(
    server: JupyterProcess, path: str
) -> None:
    uri = await address(server, path)
    async with both(server, [uri]) as heard:
        async with person(server, path) as ana, heard.hearing(uri):
            ana.insert(0, 0, "x")
        async with person(server, path) as bob, heard.hearing(uri):
            bob.insert(0, 0, "y")


async def test_subscribers_hear_again_after_the_server_of_a_command_was_restarted(
    make_server: MakeServer,
) -> None:
    async with served(make_server, "standalone") as server:
        path = new(server, "a")
        uri = await address(server, path)
        async with both(server, [uri]) as heard:
            async with heard.hearing(uri):  # it may have changed meanwhile
                server.kill()
                await server.start()
            async with person(server, path) as ana, heard.hearing(uri):
                ana.insert(0, 0, "x")


async def test_subscribers_hear_over_stdio(make_server: MakeServer, tmp_path: Path) -> None:
    async with make_server(extensions={"jupyter_collaboration_mcp": False}) as server:
        path = new(server, "a")
        uri, other = await address(server, path), await address(server, path, CELL)

        def connect(mode: str, on_message: Any) -> Any:
            arguments = ("--server", f"{server.url}?token={server.token}")
            return over_stdio(tmp_path, *arguments, mode=mode, on_message=on_message)

        async with (
            person(server, path) as ana,
            subscribed(connect, MODERN, [uri], lists=True) as modern,
            subscribed(connect, LEGACY, [uri, other], lists=True) as old,
        ):
            async with modern.hearing(uri), old.hearing(uri):
                ana.insert(0, 0, "x")
            async with tab(server, new(server, "b")):
                await until(lambda: LIST in modern.uris and LIST in old.uris)
            with legacy():
                await old.client.unsubscribe_resource(uri)
            before = old.count(uri)
            await settled(old, other, ana, CELL)
            assert old.count(uri) == before


# -- how soon, and how often ---------------------------------------------------------------------


async def test_a_thousand_edits_in_a_second_are_at_most_five_notifications_and_a_last_one(
    server: JupyterProcess, path: str
) -> None:
    uri = await address(server, path)
    async with person(server, path) as ana, both(server, [uri]) as clients:

        async def hears_more_than(heard: Heard, count: int) -> None:
            await until(lambda: heard.count(uri) > count)

        async def read_when_notified(heard: Heard) -> None:
            """Who reads after each notification, and at no other time, has all edits in the end."""
            read = 0
            while read < 1000:
                known = heard.count(uri)
                await hears_more_than(heard, known)
                read = await _count(heard, uri)

        reading = [asyncio.create_task(read_when_notified(each)) for each in clients.each]
        began = time.monotonic()
        for _ in range(1000):
            ana.insert("cell-00000", 0, "y")
            await asyncio.sleep(0.0005)
        await asyncio.gather(*reading)
        for heard in clients.each:
            assert heard.count(uri) <= 5 * (heard.times[-1] - began) + 2


async def _count(heard: Heard, uri: str) -> int:
    (content,) = (await heard.client.read_resource(f"{uri}/cells/cell-00000")).contents
    assert isinstance(content, TextResourceContents)
    return content.text.count("y")


@asynccontextmanager
async def tab(server: JupyterProcess, path: str) -> AsyncIterator[Collaborator]:
    """A person with JupyterLab: in the document, and in the lobby."""
    async with (
        Lobby(server, "Eve", f"notebook:{path}", [path]) as lobby,
        person(server, path, name="Eve") as eve,
    ):
        yield eve
        await lobby.leave()


async def test_a_room_is_left_when_nobody_watches_it_any_more(make_server: MakeServer) -> None:
    options = (
        "--JupyterCollaborationMCP.idle_timeout=1",
        "--YDocExtension.document_cleanup_delay=0.1",
    )
    async with make_server(*options) as server:
        uri = await address(server, new(server, "a"))
        async with both(server, [uri]) as heard:
            async with person(server, "a.ipynb") as ana, heard.hearing(uri):
                ana.insert(0, 0, "x")
            assert "Room json:notebook:" not in deleted(server)
        await until(lambda: "Room json:notebook:" in deleted(server))


def deleted(server: JupyterProcess) -> str:
    """The lines of the log about rooms that have ended."""
    return "\n".join(line for line in server.log.splitlines() if line.endswith(" deleted"))

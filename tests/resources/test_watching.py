"""Watching real documents: both ways to a server, and in both eras of the protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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


async def settled(heard: Heard, uri: str, typist: Collaborator, cell: str = "cell-00000") -> None:
    """Wait until what was due before has been sent: notifications of something else, in which
    somebody types, come after it."""
    for _ in range(3):
        async with heard.hearing(uri):
            typist.insert(cell, 0, "x")


@pytest.mark.parametrize("mode", ERAS)
async def test_subscribers_hear_what_people_and_agents_do(
    server: JupyterProcess, path: str, mode: str
) -> None:
    document, cell = await address(server, path), await address(server, path, CELL)
    other = await address(server, path, "cell-00002")
    async with (
        person(server, path) as ana,
        agent(server, "Ada") as ada,
        subscribed(through(server), mode, [cell, other, document, f"{document}/json"]) as heard,
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
        assert heard.count(other) == 0
        assert not any("Watcher" in user["name"] for user in ana.awareness_users())


@pytest.mark.parametrize("mode", ERAS)
async def test_subscribers_hear_of_runs_that_no_cell_shows(
    server: JupyterProcess, path: str, mode: str, tmp_path: Path
) -> None:
    document, gate = await address(server, path), Gate(tmp_path / "gate")
    async with agent(server, "Ada") as ada:
        code = f"print('begin', flush=True)\n{gate.code}\nprint('end', flush=True)"
        (run,) = (await ada.ask("run_code", path=path, code=code, timeout=0))["runs"]
        await gate.reached()
        session, notebook = document.removeprefix("notebook://").split("/")
        uri = Execution(session, notebook, run["run_id"]).format()
        async with subscribed(through(server), mode, [uri, document]) as heard:
            async with heard.hearing(uri):
                gate.open()
            await ada.ask("get_run", run_id=run["run_id"])
            last = (await heard.client.read_resource(uri)).contents[0]
            assert '"status": "completed"' in last.model_dump_json().replace("\\", "")
            assert heard.count(document) == 0


@pytest.mark.parametrize("mode", ERAS)
async def test_subscribers_hear_of_text_files(server: JupyterProcess, mode: str) -> None:
    path = f"notes-{mode}.txt"
    (Path(server.root) / path).write_text("one\n")
    uri = await address(server, path)
    async with (
        person(server, path, kind="file") as ana,
        subscribed(through(server), mode, [uri]) as heard,
        heard.hearing(uri),
    ):
        ana.insert(None, 0, "zero\n")


@pytest.mark.parametrize("mode", ERAS)
async def test_subscribers_hear_of_notebooks_that_agents_open_and_of_their_own_current_one(
    server: JupyterProcess, path: str, mode: str
) -> None:
    uris = ["notebook://list", "notebook://current"]
    name = f"Mover {mode}"
    async with (
        subscribed(through(server, name), mode, uris, lists=True) as heard,
        agent(server, name) as ada,
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


@pytest.mark.parametrize("mode", ERAS)
async def test_a_document_that_is_moved_out_of_reach_is_not_heard_of(
    server: JupyterProcess, path: str, mode: str
) -> None:
    await not_heard_when_moved(server, mode, f"1-{path}", f"secret/{path}")
    if server.standalone is None:  # a command has no authorizer
        await not_heard_when_moved(server, mode, f"2-{path}", f"unreadable.{path}")


async def not_heard_when_moved(server: JupyterProcess, mode: str, path: str, hidden: str) -> None:
    here, other = new(server, path), new(server, f"other-{path}")
    uri, beside = await address(server, here), await address(server, other)
    async with (
        person(server, here) as ana,
        person(server, other) as bob,
        subscribed(through(server), mode, [uri, beside]) as heard,
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
            return heard.count(uri) > before

        await _rename(server, hidden, here)
        await until(heard_of_typing)  # a command learns a moment later where it is


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ERAS)
async def test_the_list_is_heard_to_change_only_for_what_may_be_read(
    make_server: MakeServer, way: str, mode: str
) -> None:
    # A server of its own: in a shared one, what earlier tests have left is closed at any time.
    async with careful(make_server, way) as server:
        path, secret = new(server, "open"), new(server, "secret/plan")
        other = await address(server, path)
        uris = ["notebook://list", other]
        async with (
            person(server, path) as ana,
            subscribed(through(server), mode, uris, lists=True) as heard,
        ):
            await settled(heard, other, ana)
            before = heard.count(uris[0]), heard.count(LIST)
            async with tab(server, secret):
                await settled(heard, other, ana)
            assert (heard.count(uris[0]), heard.count(LIST)) == before
            async with tab(server, new(server, "another")):
                await until(
                    lambda: heard.count(uris[0]) > before[0] and heard.count(LIST) > before[1]
                )


async def _rename(server: JupyterProcess, path: str, new_path: str) -> None:
    async with httpx.AsyncClient(headers=server.headers, verify=False) as http:
        answer = await http.patch(f"{server.url}api/contents/{path}", json={"path": new_path})
        answer.raise_for_status()


# -- lifetimes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_the_list_changes_when_people_open_and_close_a_notebook(
    server: JupyterProcess, path: str, mode: str
) -> None:
    uri = "notebook://list"

    async def listed(heard: Heard) -> bool:
        (found,) = (await heard.client.read_resource(uri)).contents
        return path in found.model_dump_json()

    async with subscribed(through(server), mode, [uri], lists=True) as heard:
        async with tab(server, path):
            await eventually(partial(listed, heard), bool)
            assert min(heard.count(uri), heard.count(LIST)) >= 1
            before = heard.count(uri), heard.count(LIST)
        await eventually(partial(listed, heard), lambda found: not found)
        await until(lambda: heard.count(uri) > before[0] and heard.count(LIST) > before[1])


async def test_the_list_changes_when_a_notebook_is_renamed(
    server: JupyterProcess, path: str
) -> None:
    if server.standalone is not None:
        pytest.skip("from outside, a rename is noticed when the document is used again")
    async with (
        person(server, path),
        subscribed(through(server), MODERN, [], lists=True) as modern,
        subscribed(through(server), LEGACY, [], lists=True) as old,
        modern.hearing(LIST),
        old.hearing(LIST),
    ):
        await _rename(server, path, f"renamed-{path}")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_document_that_everybody_leaves_is_heard_of_when_it_is_opened_again(
    server: JupyterProcess, path: str, mode: str
) -> None:
    uri = await address(server, path)
    async with subscribed(through(server), mode, [uri]) as heard:
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
        async with (
            subscribed(through(server), MODERN, [uri]) as modern,
            subscribed(through(server), LEGACY, [uri]) as old,
        ):
            async with modern.hearing(uri), old.hearing(uri):  # it may have changed meanwhile
                server.kill()
                await server.start()
            async with person(server, path) as ana, modern.hearing(uri), old.hearing(uri):
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


@pytest.mark.parametrize("mode", ERAS)
async def test_a_thousand_edits_in_a_second_are_at_most_five_notifications_and_a_last_one(
    server: JupyterProcess, path: str, mode: str
) -> None:
    uri = await address(server, path)
    async with person(server, path) as ana, subscribed(through(server), mode, [uri]) as heard:

        async def hears_more_than(count: int) -> None:
            await until(lambda: heard.count(uri) > count)

        async def read_when_notified() -> None:
            """Who reads after each notification, and at no other time, has all edits in the end."""
            read = 0
            while read < 1000:
                known = heard.count(uri)
                await hears_more_than(known)
                read = await _count(heard, uri)

        reading = asyncio.create_task(read_when_notified())
        began = time.monotonic()
        for _ in range(1000):
            ana.insert("cell-00000", 0, "y")
            await asyncio.sleep(0.0005)
        await reading
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


@pytest.mark.parametrize("mode", ERAS)
async def test_a_room_is_left_when_nobody_watches_it_any_more(
    make_server: MakeServer, mode: str
) -> None:
    options = (
        "--JupyterCollaborationMCP.idle_timeout=1",
        "--YDocExtension.document_cleanup_delay=0.1",
    )
    async with make_server(*options) as server:
        uri = await address(server, new(server, "a"))
        async with subscribed(through(server), mode, [uri]) as heard:
            async with person(server, "a.ipynb") as ana, heard.hearing(uri):
                ana.insert(0, 0, "x")
            assert "Room json:notebook:" not in deleted(server)
        await until(lambda: "Room json:notebook:" in deleted(server))


def deleted(server: JupyterProcess) -> str:
    """The lines of the log about rooms that have ended."""
    return "\n".join(line for line in server.log.splitlines() if line.endswith(" deleted"))

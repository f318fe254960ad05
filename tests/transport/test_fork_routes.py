"""Forks over REST: who may ask, and who may say that a fork is theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from jupyter_collaboration_mcp.documents.members import agent_username
from tests.conftest import MakeServer
from tests.harness import forks, notebooks
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
async def guarded(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    authorizer = "--ServerApp.authorizer_class=tests.harness.authorizers.KeepsPrivate"
    async with make_server(authorizer) as process:
        yield process


class Rest:
    """Requests about forks."""

    def __init__(self, server: JupyterProcess, http: httpx2.AsyncClient) -> None:
        self._server = server
        self._http = http

    async def ask(self, method: str, fork_id: str = "", body: Any = None) -> httpx2.Response:
        url = f"{self._server.url}api/collaboration-mcp/forks/{fork_id}".rstrip("/")
        return await self._http.request(method, url, json=body)

    async def status(self, method: str, fork_id: str, body: Any = None) -> int:
        return (await self.ask(method, fork_id, body)).status_code

    async def author(self, fork_id: str) -> Any:
        return (await self.ask("GET", fork_id)).json()["info"]["author"]

    async def fork(self, path: str) -> str:
        """The id of a fork that a person makes of a new notebook."""
        file = self._server.root / path
        file.parent.mkdir(exist_ok=True)
        notebooks.write(file, notebooks.numbered(2))
        async with Collaborator(self._server.url, self._server.token, path):
            return await forks.create(self._server, path, title="Of a person")


@pytest.fixture
async def rest(guarded: JupyterProcess) -> AsyncIterator[Rest]:
    async with httpx2.AsyncClient(headers=guarded.headers, timeout=30, verify=False) as http:
        yield Rest(guarded, http)


def author(key: str) -> dict[str, Any]:
    return {"author": {"id": agent_username(key), "name": key, "is_agent": True}}


async def test_jupyters_authorizer_decides_by_the_path_of_the_root(rest: Rest) -> None:
    open_fork, locked = await rest.fork("open.ipynb"), await rest.fork("locked.ipynb")
    private, unreadable = await rest.fork("private/a.ipynb"), await rest.fork("unreadable.ipynb")
    assert (await rest.ask("GET", open_fork)).json()["base"]
    assert await rest.status("GET", locked) == 200
    assert await rest.status("PUT", locked, author("ada")) == 403
    for hidden in (private, unreadable):
        assert await rest.status("GET", hidden) == 403
    assert await rest.status("PUT", private, author("ada")) == 403
    listed = (await rest.ask("GET")).json()["forks"]
    assert {open_fork, locked} <= set(listed)
    assert not {private, unreadable} & set(listed)
    assert await rest.status("GET", "nothing") == 404
    assert await rest.status("PUT", "nothing", author("ada")) == 404


async def test_a_fork_is_credited_once_and_only_to_an_agent(rest: Rest) -> None:
    fork = await rest.fork("claimed.ipynb")
    person = {"author": {"id": "ana", "name": "Ana", "is_agent": True}}
    bodies: list[Any] = [None, [], {}, {"author": "Ada"}, person]
    for body in bodies:
        assert await rest.status("PUT", fork, body) == 400
    assert not (await rest.author(fork))["is_agent"]
    assert await rest.status("PUT", fork, author("ada")) == 204
    assert await rest.status("PUT", fork, author("bob")) == 409
    assert (await rest.author(fork))["name"] == "ada"

"""The history over REST: who may ask, and nonsensical requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jupyter_collaboration_mcp.documents.members import agent_username
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.jupyter import JupyterProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

EDIT = {
    "client": 5,
    "clock_from": 0,
    "clock_to": 3,
    "deletions": [],
    "id": agent_username("ada"),
    "name": "Ada",
    "is_agent": True,
    "call": "edit",
    "time": 1.0,
}


class Rest:
    """Requests about the history of documents."""

    def __init__(self, server: JupyterProcess, http: httpx2.AsyncClient) -> None:
        self._server = server
        self.http = http

    async def room(self, path: str) -> str:
        """The room of a new notebook."""
        file = Path(self._server.root) / path
        file.parent.mkdir(exist_ok=True)
        notebooks.write(file, notebooks.numbered(2))
        url = f"{self._server.url}api/collaboration/session/{path}"
        answer = await self.http.put(url, json={"format": "json", "type": "notebook"})
        return f"json:notebook:{answer.json()['fileId']}"

    async def ask(self, method: str, place: str, body: Any = None) -> httpx2.Response:
        url = f"{self._server.url}api/collaboration-mcp/history/{place}"
        return await self.http.request(method, url, json=body)

    async def status(self, method: str, place: str, body: Any = None) -> int:
        return (await self.ask(method, place, body)).status_code


@pytest.fixture(scope="module")
async def guarded(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    authorizer = "--ServerApp.authorizer_class=tests.harness.authorizers.KeepsPrivate"
    async with make_server(authorizer) as process:
        yield process


@pytest.fixture
async def rest(guarded: JupyterProcess) -> AsyncIterator[Rest]:
    async with httpx2.AsyncClient(headers=guarded.headers, timeout=30, verify=False) as http:
        yield Rest(guarded, http)


async def test_jupyters_authorizer_decides_by_the_path_of_the_document(rest: Rest) -> None:
    open_room = await rest.room("open.ipynb")
    locked, private = await rest.room("locked.ipynb"), await rest.room("private/a.ipynb")
    version = (await rest.ask("GET", f"{open_room}/current")).json()["id"]
    assert await rest.status("PUT", f"{open_room}/names/{version}", {"name": "one"}) == 204
    assert (await rest.ask("GET", f"{open_room}/names")).json() == {"one": version}
    version = (await rest.ask("GET", f"{locked}/current")).json()["id"]
    assert await rest.status("GET", f"{locked}/state/{version}") == 200
    assert await rest.status("PUT", f"{locked}/names/{version}", {"name": "one"}) == 403
    assert await rest.status("POST", f"{locked}/authors", {"authorships": [EDIT]}) == 403
    for place in ("", "/state/1", "/current", "/names", "/authors"):
        assert await rest.status("GET", f"{private}{place}") == 403
    rest.http.headers.pop("Authorization")
    rest.http.cookies.clear()
    assert await rest.status("GET", open_room) == 403


@pytest.mark.parametrize(
    ("method", "place", "body", "status"),
    [
        ("GET", "?limit=many", None, 400),
        ("GET", "?before=-1", None, 400),
        ("GET", "/state/12345", None, 410),
        ("GET", "/state/now", None, 404),
        ("PUT", "/names/12345", {"name": "x"}, 410),
        ("PUT", "/names/12345", {"name": 5}, 400),
        ("PUT", "/names/12345", {"name": "x" * 300}, 400),
        ("PUT", "/names/12345", ["name"], 400),
        ("POST", "/authors", None, 400),
        ("POST", "/authors", {"authorships": [EDIT] * 600}, 400),
        ("POST", "/authors", {"authorships": [{**EDIT, "id": "ana"}]}, 400),
        ("POST", "/authors", {"authorships": [{**EDIT, "client": -1}]}, 400),
        ("POST", "/authors", {"authorships": [{**EDIT, "deletions": ["xyz"]}]}, 400),
        ("POST", "/authors", {"authorships": ["Ada"]}, 400),
        ("POST", "/authors", {"authorships": [EDIT]}, 204),
    ],
)
async def test_nonsense_is_refused(
    rest: Rest, method: str, place: str, body: Any, status: int
) -> None:
    room = await rest.room("nonsense.ipynb")
    assert await rest.status(method, f"{room}{place}", body) == status


async def test_a_document_that_does_not_exist_has_no_history(rest: Rest) -> None:
    assert await rest.status("GET", "json:notebook:no-such-id") == 404
    assert await rest.status("GET", "nothing") == 400

"""Notebooks and their forks, for tests; and what people do with forks, over jupyter-collaboration's
own REST API."""

from __future__ import annotations

from typing import Any, cast

import httpx

from . import notebooks
from .agents import AgentClient
from .jupyter import JupyterProcess


def write(server: JupyterProcess, path: str, *sources: str) -> list[str]:
    """A notebook of code cells; returns their ids."""
    ids = [f"cell-{number}" for number in range(len(sources))]
    cells = list(map(notebooks.code, ids, sources))
    notebooks.write(server.root / path, notebooks.notebook(cells))
    return ids


async def fork_of(ada: AgentClient, path: str, **more: object) -> str:
    """Let an agent fork a document; returns the fork's path."""
    return str((await ada.ask("fork_document", path=path, title="Try", **more))["fork"])


async def root_room(server: JupyterProcess, path: str) -> str:
    """The room of a notebook."""
    session = await ask(
        server, "PUT", f"session/{path}", json={"format": "json", "type": "notebook"}
    )
    return f"json:notebook:{session['fileId']}"


async def ask(server: JupyterProcess, method: str, path: str, **more: Any) -> Any:
    """One request to the collaboration API; returns the JSON of its answer, if it has any."""
    async with httpx.AsyncClient(
        base_url=f"{server.url}api/collaboration/",
        headers=server.headers,
        trust_env=False,
        timeout=30,
    ) as http:
        response = await http.request(method, path, **more)
        response.raise_for_status()
        return response.json() if response.content else None


async def listed(server: JupyterProcess, path: str) -> dict[str, dict[str, Any]]:
    """The forks of a notebook, as JupyterLab lists them."""
    room = await root_room(server, path)
    return cast("dict[str, dict[str, Any]]", await ask(server, "GET", f"fork/{room}"))


async def create(server: JupyterProcess, path: str, **wanted: Any) -> str:
    """Fork a notebook that is open; returns the id."""
    room = await root_room(server, path)
    return str((await ask(server, "PUT", f"fork/{room}", json=wanted))["fork_roomid"])


async def delete(server: JupyterProcess, fork_id: str, merge: bool = False) -> None:
    """Delete a fork."""
    await ask(server, "DELETE", f"fork/{fork_id}", params={"merge": str(merge).lower()})

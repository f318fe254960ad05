"""Everything that the server offers, against everybody who may not have it: refused before anything
is done, with the right status and text.

What is offered comes from the registries, so nothing can be forgotten.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, PromptReference, ResourceTemplateReference

from jupyter_collaboration_mcp.documents.addresses import Document
from jupyter_collaboration_mcp.workspace.permissions import Level
from tests.conftest import MakeServer
from tests.harness import catalogue, notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, mcp_address, text_of
from tests.harness.catalogue import PROMPT_KINDS, RESOURCE_KINDS, Scene
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import KernelApi, eventually
from tests.harness.subscribers import address, legacy, only
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served
from tests.transport.conftest import HEADERS
from tests.transport.raw_streams import RawSession

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

#: A folder that agents may not touch, and words that are in it alone.
HUSH, WORDS = "hush", "unspeakable words"

TEXT = "one\ntwo\nthree\n"


class Stage(NamedTuple):
    """A server with something on it that agents may use, and something that they may not."""

    server: JupyterProcess
    standalone: bool
    allowed: Scene
    hidden: Scene
    api: KernelApi

    @asynccontextmanager
    async def agent(
        self, mode: str = MODERN, headers: dict[str, str] | None = None, **query: str
    ) -> AsyncIterator[AgentClient]:
        """Ada, who has used all that is there; with the tools of all toolsets."""
        url, own = mcp_address(self.server)
        asked = {"agent": "Ada", "structured": "true", "toolsets": "all", **query}
        address, sent = f"{url}?{urlencode(asked)}", {**own, **(headers or {})}
        async with (
            httpx2.AsyncClient(headers=sent, timeout=60, verify=False) as http,
            Client(streamable_http_client(address, http_client=http), mode=mode) as client,
        ):
            yield AgentClient(client)

    def tools(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Each tool with arguments about what agents may use."""
        for tool in catalogue.tools(self.standalone):
            yield tool, catalogue.arguments_of(tool, self.allowed)

    def witness(self) -> AbstractAsyncContextManager[AgentClient]:
        """Somebody who looks."""
        return self.agent(agent="Wit")

    async def state(self, witness: AgentClient) -> dict[str, Any]:
        """All that a call could have changed."""
        root, scene = Path(self.server.root), self.allowed
        files = {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(root.rglob("*"))
            if path.is_file() and not any(part[0] == "." for part in path.relative_to(root).parts)
        }
        kernels = await self.api.kernels()
        changes = await witness.ask("list_agent_changes", path=scene.notebook, agent=scene.user)
        return {
            "files": files,
            "kernels": {key: each["name"] for key, each in kernels.items()},
            "changes": changes["changes"],
            "versions": await _versions(witness, scene.notebook),
            "sources": await witness.sources(scene.notebook),
            "text": (await witness.ask("get_document", path=scene.text))["content"],
            "forks": (await witness.ask("list_document_forks"))["forks"],
        }

    @asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """Something that must have no effect."""
        async with self.witness() as witness:
            before = await self.state(witness)
            there = await _sessions(witness)
        yield
        async with self.witness() as witness:
            assert await self.state(witness) == before
            assert await _sessions(witness) <= there


async def _sessions(witness: AgentClient) -> set[str]:
    """Which agents are where; some may leave meanwhile."""
    found = await witness.ask("get_active_sessions")
    return {each["session_id"] for each in found["sessions"]}


async def _versions(agent: AgentClient, path: str) -> list[int]:
    """The versions of a document; none where the server keeps no history."""
    facts = (await agent.call("get_document_history", path=path, limit=3)).structured_content or {}
    return [each["version"] for each in facts.get("versions", ())]


async def _set_up(server: JupyterProcess, ada: AgentClient, api: KernelApi, place: str) -> Scene:
    """Something that agents may use, and have used."""
    notebook, text = f"{place}.ipynb", f"{place}.md"
    cells = [
        notebooks.code("cell-00000", f"print('{WORDS if place == 'moving' else 'said'}')"),
        notebooks.code("cell-00001", "x = 1"),
    ]
    notebooks.write(Path(server.root) / notebook, notebooks.notebook(cells))
    (Path(server.root) / text).write_text(TEXT if place != "moving" else f"{WORDS}\n{TEXT}")
    ran = await ada.ask("execute_notebook_cell", path=notebook, cell_id="cell-00000", timeout=60)
    await ada.write(notebook, "cell-00001", "x = 2")
    versions = await _versions(ada, notebook)
    fork = await ada.ask("fork_document", path=notebook, title=f"Of {place}")
    await ada.ask("connect_notebook", notebook_name=place, notebook_path=notebook)
    sessions = [(await ada.ask("create_notebook_session", path=notebook))["session_id"]]
    sessions.append((await ada.ask("create_document_session", path=text))["session_id"])
    found = Document.parse(await address(server, notebook))
    assert found is not None
    (user,) = (
        each["id"]
        for each in (await ada.ask("get_online_users"))["users"]
        if each["name"].startswith("Ada")
    )
    return Scene(
        *(notebook, text, f"{place}-new", place, found.session, found.notebook),
        run=ran["runs"][0]["run_id"],
        fork=fork["fork"],
        version=versions[-1] if versions else 1,
        sessions=(sessions[0], sessions[1]),
        user=user,
    )


@pytest.fixture(scope="module", params=WAYS)
async def stage(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    arguments = (
        "--ServerApp.authorizer_class=tests.harness.authorizers.Switched",
        "--YDocExtension.document_save_delay=0.1",
    )
    rules = {"denied_paths": f"{HUSH},{HUSH}/*"}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(
            served(make_server, request.param, *arguments, settings=rules, measured=True)
        )
        api = await enter(KernelApi(server))
        ada = Stage(server, request.param == "standalone", None, None, api)  # type: ignore[arg-type]
        async with ada.agent() as client:
            allowed = await _set_up(server, client, api, "open")
            moving = await _set_up(server, client, api, "moving")
        (Path(server.root) / HUSH).mkdir()
        ana = await enter(Collaborator(server.url, server.token, moving.notebook))
        await ana.synced()
        for path in (moving.notebook, moving.text):
            await api.rename(path, f"{HUSH}/{path}")
        hidden = replace(
            moving,
            notebook=f"{HUSH}/{moving.notebook}",
            text=f"{HUSH}/{moving.text}",
            new=f"{HUSH}/new",
        )
        made = ada._replace(allowed=allowed, hidden=hidden)
        async with made.agent() as client:  # whose edits they are
            for tool, path in (("get_notebook", allowed.notebook), ("get_document", allowed.text)):
                await eventually(partial(client.ask, tool, path=path), lambda said: said["saved"])
        for path in (allowed.notebook, hidden.notebook):
            await until(partial(_is_saved, Path(server.root) / path))
        yield made


def _is_saved(notebook: Path) -> bool:
    """Whether a notebook has on disk what the agent did last."""
    return "x = 2" in notebook.read_text()


#: Where Jupyter itself knows several credentials, and asks an authorizer.
extension = pytest.mark.parametrize("stage", ["extension"], indirect=True)


async def make_token(stage: Stage, **body: Any) -> dict[str, Any]:
    """A token of an agent."""
    url = f"{stage.server.url}api/collaboration-mcp/tokens"
    async with httpx2.AsyncClient(headers=stage.server.headers) as http:
        answer = await http.post(url, json={"agent": "Eve", **body})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made


async def revoke(stage: Stage, token_id: str) -> None:
    url = f"{stage.server.url}api/collaboration-mcp/tokens/{token_id}"
    async with httpx2.AsyncClient(headers=stage.server.headers) as http:
        assert (await http.delete(url)).status_code == 204


async def answers(
    stage: Stage, headers: dict[str, str], sessions: bool = False, everything: bool = True
) -> AsyncIterator[tuple[str, httpx2.Response]]:
    """What each request is answered with, and what else this address is asked for.

    Args:
        everything: Whether all is requested that the server offers; otherwise only lists.
    """
    url = mcp_address(stage.server)[0]
    async with httpx2.AsyncClient(headers={**HEADERS, **headers}, timeout=30, verify=False) as http:
        for request in catalogue.requests(stage.allowed, stage.standalone):
            if not (everything or request.method.endswith("/list")):
                continue
            more = {} if sessions else request.headers
            yield request.name, await http.post(url, json=request.body(sessions), headers=more)
        for method in ("GET", "DELETE"):
            yield method, await http.request(method, url)


# -- credentials -----------------------------------------------------------------------------


async def test_nothing_is_served_without_a_credential_that_is_good(stage: Stage) -> None:
    refused = [({}, "Send the"), ({"Authorization": "Bearer wrong"}, "Send the")]
    if not stage.standalone:
        expired = await make_token(stage, expires_in=0.001)
        revoked = await make_token(stage)
        await revoke(stage, revoked["id"])
        for made in (expired, revoked):
            sent = {"Authorization": f"Bearer {made['token']}"}
            refused.append((sent, "revoked, has expired, or never was one"))
    async with stage.unchanged():
        for headers, says in refused:
            async for name, answer in answers(stage, headers):
                assert answer.status_code == 401, (name, answer.text)
                assert "Bearer" in answer.headers["WWW-Authenticate"]
                assert says in answer.text, name


async def test_nothing_is_served_to_a_foreign_page(stage: Stage) -> None:
    headers = {**mcp_address(stage.server)[1], "Origin": "https://evil.example"}
    async with stage.unchanged():
        async for name, answer in answers(stage, headers):
            assert answer.status_code == 403, name
            assert "Requests from this Origin are not allowed" in answer.text
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_every_answer_tells_browsers_to_show_and_keep_nothing(stage: Stage) -> None:
    own = mcp_address(stage.server)[1]
    foreign = {**own, "Origin": "https://evil.example"}
    for headers in (own, {}, foreign):
        async for name, answer in answers(stage, headers, everything=False):
            said = answer.headers
            assert "default-src 'none'" in said["Content-Security-Policy"], name
            assert "frame-ancestors 'none'" in said["Content-Security-Policy"], name
            assert said["X-Content-Type-Options"] == "nosniff", name
            assert said["Referrer-Policy"] == "no-referrer", name
            assert "no-store" in said["Cache-Control"] or "no-cache" in said["Cache-Control"]


@extension
async def test_nothing_is_served_in_the_session_of_another_credential(stage: Stage) -> None:
    made = await make_token(stage)
    async with RawSession(*mcp_address(stage.server)) as ada, stage.unchanged():
        headers = {
            "Authorization": f"Bearer {made['token']}",
            "Mcp-Session-Id": ada.id,
            "MCP-Protocol-Version": ada.version,
        }
        async for name, answer in answers(stage, headers, sessions=True):
            assert answer.status_code == 404, (name, answer.text)
            assert "ession not found" in answer.text, name
        assert (await ada.ask("list_notebooks"))[-1].data  # nor has it ended
    await revoke(stage, made["id"])


@extension
async def test_a_session_cannot_be_named_twice(stage: Stage) -> None:
    """The SDK checks the first of two names; what is kept for clients must not go by the last."""
    made = await make_token(stage)
    url, own = mcp_address(stage.server)
    async with (
        RawSession(url, own) as ada,
        RawSession(url, {"Authorization": f"Bearer {made['token']}"}) as eve,
        ada.listen() as notifications,
    ):
        first = await notifications.next()
        for ids in ((eve.id, ada.id), (ada.id, eve.id)):
            for method in ("GET", "POST", "DELETE"):
                headers = [
                    ("Authorization", f"Bearer {made['token']}"),
                    *((name, value) for name, value in HEADERS.items()),
                    ("MCP-Protocol-Version", ada.version),
                    ("Last-Event-ID", first.id or ""),
                    *(("Mcp-Session-Id", each) for each in ids),
                ]
                async with httpx2.AsyncClient(timeout=10) as http:
                    answer = await http.request(method, ada.url, headers=headers)
                assert answer.status_code == 400, (method, answer.text)
                assert "more than once" in answer.text
        assert (await ada.ask("list_notebooks"))[-1].data
    await revoke(stage, made["id"])


@extension
async def test_a_token_that_is_revoked_while_its_request_waits_lets_nobody_in(
    stage: Stage, tmp_path: Path
) -> None:
    made, gate = await make_token(stage), tmp_path / "gate"
    url = f"{mcp_address(stage.server)[0]}?structured=true"
    update = {"cell_id": "cell-00000", "content": "too late"}
    arguments = {"path": stage.allowed.notebook, "updates": [update], "exec": False}
    params = {"name": "batch_update_notebook_cells", "arguments": arguments}
    request = catalogue.Request("late", "tools/call", params)
    headers = {
        **HEADERS,
        **request.headers,
        "Authorization": f"Bearer {made['token']}",
        "X-Wait": str(gate),
    }
    async with stage.unchanged(), httpx2.AsyncClient(timeout=30) as http:
        asking = asyncio.ensure_future(http.post(url, json=request.body(), headers=headers))
        await until(lambda: f"waiting for {gate}" in stage.server.log)
        await revoke(stage, made["id"])
        gate.touch()
        answer = await asking
        assert answer.status_code == 401
        assert "revoked" in answer.text


@extension
async def test_what_an_agent_reads_ends_when_its_token_expires(stage: Stage) -> None:
    made = await make_token(stage, expires_in=1.5)
    own = {"Authorization": f"Bearer {made['token']}"}
    async with RawSession(mcp_address(stage.server)[0], own) as eve, eve.listen() as notifications:
        await notifications.next()
        with pytest.raises(httpx2.RemoteProtocolError):  # it is cut
            await asyncio.wait_for(notifications.rest(), 10)
        async with eve.http.stream("GET", eve.url) as again:
            assert again.status_code == 401


# -- levels ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [Level.read, Level.write, Level.execute])
async def test_a_connection_sees_and_does_nothing_above_its_level(
    stage: Stage, level: Level
) -> None:
    async with stage.agent(permission=level.name) as ada, stage.unchanged():
        await _refuses_above(stage, ada, level)


@extension
@pytest.mark.parametrize("level", [Level.read, Level.write, Level.execute])
async def test_a_token_shows_and_does_nothing_above_its_level(stage: Stage, level: Level) -> None:
    made = await make_token(stage, permission=level.name)
    own = {"Authorization": f"Bearer {made['token']}"}
    async with stage.agent(headers=own, agent="Eve") as eve:
        await eve.ask("create_notebook_session", path=stage.allowed.notebook)
        async with stage.unchanged():
            await _refuses_above(stage, eve, level)
    await revoke(stage, made["id"])


async def _refuses_above(stage: Stage, ada: AgentClient, level: Level) -> None:
    listed = {tool.name for tool in (await ada.client.list_tools()).tools}
    count = 0
    for tool, given in stage.tools():
        needed = tool.declaration.level
        assert (tool.name in listed) is (needed <= level), tool.name
        calls = [(given, needed)]
        if needed <= level and (more := catalogue.more_of(tool, stage.allowed)) is not None:
            calls.append(more)
        for arguments, wanted in calls:
            if wanted <= level:
                continue
            count += 1
            error = await ada.refused(tool.name, **arguments)
            assert (error["code"], error["level"]) == ("permission_refused", wanted.name), tool.name
            said = f"needs the permission level {wanted.name}; this connection has {level.name}."
            assert said in error["message"], tool.name
    assert count or level is Level.execute
    # What belongs to another agent.
    async with stage.witness() as witness:
        session = await witness.ask("create_notebook_session", path=stage.allowed.notebook)
    for name, arguments in {
        "leave_session": {"session_id": session["session_id"]},
        "undo_agent_changes": {"path": stage.allowed.notebook, "agent": "Wit"},
        "list_agent_changes": {"path": stage.allowed.notebook, "agent": "Wit"},
    }.items():
        error = await ada.refused(name, **arguments)
        assert error["code"] == "permission_refused", name


# -- the authorizer --------------------------------------------------------------------------


@extension
async def test_an_authorizer_that_refuses_everything_is_not_passed_by(stage: Stage) -> None:
    said = "Jupyter's authorizer does not let you"
    async with stage.agent(headers={"X-Deny": "1"}) as ada, stage.unchanged():
        for tool, given in stage.tools():
            more = catalogue.more_of(tool, stage.allowed)
            for arguments in (given, *([more[0]] if more else [])):
                error = await ada.refused(tool.name, **arguments)
                if "fork" in given:  # a fork of what nobody may read is not there
                    assert error["code"] == "fork_not_found", (tool.name, error)
                    continue
                assert error["code"] == "permission_refused", (tool.name, error)
                assert said in error["message"], tool.name
        async for name, message in _refusals(ada, stage.allowed):
            assert f"permission_refused: {said}" in message, (name, message)
        for params in catalogue.completions(stage.allowed):
            assert set(await _completed(ada, params)) <= _FORMATS, params
        assert stage.allowed.notebook not in str(await ada.client.list_resources())
    async with stage.agent(LEGACY, {"X-Deny": "1"}) as ada:
        for kind in RESOURCE_KINDS.values():
            with legacy(), pytest.raises(MCPError, match="permission_refused"):
                await ada.client.subscribe_resource(catalogue.uri_of(kind, stage.allowed))


#: What is completed for everybody.
_FORMATS = {"srcmd", "json", "cells"}


async def _refusals(ada: AgentClient, scene: Scene) -> AsyncIterator[tuple[str, str]]:
    """What is said to who may not read a resource, subscribe to it, or use a prompt."""
    client = ada.client
    for name, kind in RESOURCE_KINDS.items():
        uri = catalogue.uri_of(kind, scene)
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
        yield f"read {name}", refused.value.error.message
        with pytest.raises((MCPError, BaseExceptionGroup)) as not_heard:
            async with client.listen(resource_subscriptions=[uri]):
                pass
        yield f"listen to {name}", only(not_heard.value).error.message
    for name, prompt in PROMPT_KINDS.items():
        with pytest.raises(MCPError) as refused:
            await client.get_prompt(name, catalogue.prompt_arguments(prompt, scene))
        yield name, refused.value.error.message


async def _completed(ada: AgentClient, params: dict[str, Any]) -> list[str]:
    kind = PromptReference if params["ref"]["type"] == "ref/prompt" else ResourceTemplateReference
    given = params["context"]["arguments"]
    found = await ada.client.complete(kind(**params["ref"]), params["argument"], given)
    return list(found.completion.values)


# -- paths -----------------------------------------------------------------------------------

#: How something that agents may not know of is refused.
_UNSEEN = {
    "permission_refused",
    "document_not_found",
    "fork_not_found",
    "run_not_found",
    "session_not_found",
}

#: Arguments that may be left out and name a path.
_PATHS = ("path", "document_path", "path_prefix", "root_path", "template")

#: Resources that are about no single document, or about what the agent used last.
_GENERAL = {"open notebooks", "current document", "template"}


async def test_nothing_leads_to_a_denied_path(stage: Stage) -> None:
    hidden = stage.hidden
    async with stage.agent() as ada, stage.unchanged():
        for tool in catalogue.tools(stage.standalone):
            plain = catalogue.arguments_of(tool, hidden)
            optional = [name for name in _PATHS if name in tool.schema["properties"]]
            calls = [plain, *({**plain, name: hidden.notebook} for name in optional)]
            if more := catalogue.more_of(tool, hidden):
                calls.append(more[0])
            for given in calls:
                result = await ada.call(tool.name, **given)
                said = f"{text_of(result)} {result.structured_content}"
                assert WORDS not in said, (tool.name, given)
                if given not in (catalogue.arguments_of(tool, stage.allowed), {}):
                    assert _code(result) in _UNSEEN, (tool.name, given, said)
                if HUSH not in str(given):
                    assert HUSH not in said, (tool.name, given, said)
        # Nor does what such a document has copied to.
        error = await ada.refused("create_document", path="stolen.ipynb", template=hidden.notebook)
        assert error["code"] == "permission_refused"


def _code(result: CallToolResult) -> str:
    facts = result.structured_content or {}
    return str(facts.get("error", {}).get("code", "")) if result.is_error else "ok"


async def test_no_resource_or_prompt_shows_a_denied_path(stage: Stage) -> None:
    hidden = stage.hidden
    async with stage.agent() as ada:
        for name in _GENERAL:
            uri = catalogue.uri_of(RESOURCE_KINDS[name], hidden)
            said = str(await ada.client.read_resource(uri))
            assert HUSH not in said
            assert WORDS not in said
    async with stage.agent() as ada, stage.unchanged():
        for name, kind in RESOURCE_KINDS.items():
            uri = catalogue.uri_of(kind, hidden)
            if name in _GENERAL:
                continue
            with pytest.raises(MCPError, match="|".join(_UNSEEN)):
                await ada.client.read_resource(uri)
            with pytest.raises((MCPError, BaseExceptionGroup)) as refused:
                async with ada.client.listen(resource_subscriptions=[uri]):
                    pass
            assert any(code in only(refused.value).error.message for code in _UNSEEN)
        for name, prompt in PROMPT_KINDS.items():
            with pytest.raises(MCPError, match="permission_refused"):
                await ada.client.get_prompt(name, catalogue.prompt_arguments(prompt, hidden))
        assert HUSH not in str(await ada.client.list_resources())
        for params in catalogue.completions(hidden):
            assert HUSH not in str(await _completed(ada, params)), params
            if "templates" not in str(params["ref"]) and "notebook" in str(params["context"]):
                assert set(await _completed(ada, params)) <= _FORMATS, params
    async with stage.agent(LEGACY) as ada:
        for name, kind in RESOURCE_KINDS.items():
            if name not in _GENERAL:
                with legacy(), pytest.raises(MCPError, match="|".join(_UNSEEN)):
                    await ada.client.subscribe_resource(catalogue.uri_of(kind, hidden))


@extension
async def test_a_token_for_other_paths_shows_and_opens_nothing(stage: Stage) -> None:
    scene = stage.allowed
    made = await make_token(stage, paths=["elsewhere*"])
    own = {"Authorization": f"Bearer {made['token']}"}
    about = {scene.notebook, scene.text, scene.run, scene.fork, scene.name, *scene.sessions}
    async with stage.agent(headers=own, agent="Eve") as eve, stage.unchanged():
        for tool in catalogue.tools(stage.standalone):
            plain = catalogue.arguments_of(tool, scene)
            optional = [name for name in _PATHS if name in tool.schema["properties"]]
            calls = [plain, *({**plain, name: scene.notebook} for name in optional)]
            if more := catalogue.more_of(tool, scene):
                calls.append(more[0])
            for given in calls:
                result = await eve.call(tool.name, **given)
                values = {str(value) for value in given.values()}
                if values & about or any(value.startswith(scene.new) for value in values):
                    # Names that an agent gives belong to it alone.
                    assert _code(result) in {*_UNSEEN, "notebook_unknown"}, (tool.name, given)
                if scene.notebook not in str(given):
                    said = f"{text_of(result)} {result.structured_content}"
                    assert scene.notebook not in said, (tool.name, given, said)
        for name, kind in RESOURCE_KINDS.items():
            uri = catalogue.uri_of(kind, scene)
            if name not in _GENERAL:
                with pytest.raises(MCPError, match="|".join(_UNSEEN)):
                    await eve.client.read_resource(uri)
        assert scene.notebook not in str(await eve.client.read_resource("notebook://list"))
        for name, prompt in PROMPT_KINDS.items():
            with pytest.raises(MCPError, match="permission_refused"):
                await eve.client.get_prompt(name, catalogue.prompt_arguments(prompt, scene))
        assert scene.notebook not in str(await eve.client.list_resources())
        for params in catalogue.completions(scene):
            assert scene.notebook not in str(await _completed(eve, params)), params
    await revoke(stage, made["id"])


# -- and who may -----------------------------------------------------------------------------

#: What the authorizer may be asked, as docs/security.md has it, and for which level.
_ASKED = {
    Level.read: "read contents",
    Level.write: "write contents",
    Level.execute: "execute kernels",
    Level.admin: "write contents",
}

#: These have no path to ask about, and act on nothing of the server's.
_LAST = ("delete_document", "rename_document", "leave_session", "end_nb_session")


async def test_the_same_requests_are_served_to_whoever_may(stage: Stage) -> None:
    """So what refuses them above is what the tests say, and not a mistake in them. Jupyter's
    authorizer is asked about each, with the path."""
    scene = stage.allowed
    url, own = mcp_address(stage.server)
    async with stage.agent() as ada:
        for name, kind in RESOURCE_KINDS.items():
            assert (await ada.client.read_resource(catalogue.uri_of(kind, scene))).contents, name
        for name, prompt in PROMPT_KINDS.items():
            given = catalogue.prompt_arguments(prompt, scene)
            if name != "summarize_changes" or not stage.standalone:  # there is no history
                assert (await ada.client.get_prompt(name, given)).messages
        assert scene.notebook in str(await ada.client.list_resources())
        for params in catalogue.completions(scene):
            await _completed(ada, params)
    async with httpx2.AsyncClient(headers={**HEADERS, **own}, timeout=60, verify=False) as http:
        ordered = sorted(stage.tools(), key=lambda each: each[0].name in _LAST)
        for tool, plain in ordered:
            given = plain
            if "fork" in plain:  # each call ends one
                async with stage.witness() as witness:
                    made = await witness.ask("fork_document", path=scene.notebook, title="Again")
                given = {**plain, "fork": made["fork"]}
            more = catalogue.more_of(tool, scene)
            for arguments, level in ((given, tool.declaration.level), *([more] if more else [])):
                request = catalogue.Request(
                    tool.name, "tools/call", {"name": tool.name, "arguments": arguments}
                )
                asked = {**request.headers, "X-Ask": f"{tool.name}-{level.name}"}
                address = f"{url}?agent=Ada&structured=true&toolsets=all"
                answer = await http.post(address, json=request.body(), headers=asked)
                result = _result(answer)
                error = (result.get("structuredContent") or {}).get("error", {}).get("code")
                assert error not in (
                    *("permission_refused", "invalid_argument", "internal_error"),
                ), (tool.name, arguments, result)
                if not stage.standalone:
                    _check_asked(stage.server.log, tool.name, level, arguments, scene)


def _result(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    text = answer.text
    if answer.headers["Content-Type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data: {")][-1][6:]
    found: dict[str, Any] = json.loads(text)["result"]
    return found


def _check_asked(
    log: str, name: str, level: Level, arguments: dict[str, Any], scene: Scene
) -> None:
    found = re.findall(rf"asked {name}-{level.name}: (\w+ \w+) (.*)", log)
    asked = [(what, path) for what, path in found if what != "read mcp"]
    assert {what for what, _ in asked} <= set(_ASKED.values()), name
    assert _ASKED[level] in {what for what, _ in asked} or level is Level.admin, (name, asked)
    for value in (scene.notebook, scene.text):
        if value in arguments.values():
            assert value in {path for _, path in asked}, (name, asked)

"""Tokens of agents as they are kept."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
import stat
import threading
import weakref
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.transport import agent_tokens
from jupyter_collaboration_mcp.transport.agent_tokens import AgentTokens, is_agent_token
from jupyter_collaboration_mcp.workspace.permissions import Level
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

log = logging.getLogger("tokens")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "tokens.json"


async def test_a_token_is_good_after_a_restart_and_is_never_stored(file: Path) -> None:
    made, token = await AgentTokens(file, log).create(
        "Ada", Level.write, ["reports/*"], 60.0, "ana", "Ana"
    )
    assert is_agent_token(token)
    assert len(token) > 50
    assert token not in file.read_text()
    assert token.rpartition("_")[2] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = AgentTokens(file, log)
    assert again.find(token) == made
    assert (made.level, made.rules.allowed) == (Level.write, ("reports/*",))
    assert "digest" not in made.described
    assert [each.id for each in again.all()] == [made.id]


async def test_nothing_but_the_token_itself_is_good(file: Path) -> None:
    tokens = AgentTokens(file, log)
    made, token = await tokens.create("Ada", Level.read)
    _, other = await tokens.create("Bob", Level.read)
    mixed = f"jcm_{made.id}_{other.rpartition('_')[2]}"
    for wrong in ("", "jcm_", f"jcm_{made.id}", f"jcm_{made.id}_", token[:-1], f"{token}x", mixed):
        assert tokens.find(wrong) is None
    assert tokens.find(token) == made


async def test_a_token_that_has_expired_or_was_revoked_is_worthless(file: Path) -> None:
    tokens = AgentTokens(file, log)
    ended: list[str] = []

    async def note(credential: str) -> None:
        ended.append(credential)

    tokens.on_revoked = note
    made, token = await tokens.create("Ada", Level.read)
    _, brief = await tokens.create("Bob", Level.read, expires_in=1e-6)
    assert tokens.find(brief) is None
    assert [each.expired for each in tokens.all()] == [False, True]
    assert await tokens.revoke("00000000") is None
    assert await tokens.revoke(made.id) == made
    assert tokens.find(token) is None
    assert AgentTokens(file, log).find(token) is None
    assert ended == [made.credential]


async def test_what_an_agent_does_ends_when_its_token_expires(file: Path) -> None:
    tokens = AgentTokens(file, log)
    ended: list[str] = []

    async def note(credential: str) -> None:
        ended.append(credential)

    tokens.on_revoked = note
    made, token = await tokens.create("Ada", Level.read, expires_in=0.2)
    _, lasting = await tokens.create("Bob", Level.read, expires_in=3600)
    assert tokens.find(token) == made  # somebody has used it
    assert tokens.find(lasting)
    assert tokens.is_good(made)
    await until(lambda: ended)
    assert ended == [made.credential]
    assert not tokens.is_good(made)
    await tokens.close()


async def test_servers_of_one_directory_share_their_tokens(file: Path) -> None:
    one, two = AgentTokens(file, log), AgentTokens(file, log)
    ended: list[str] = []

    async def note(credential: str) -> None:
        ended.append(credential)

    two.on_revoked = note
    made, token = await one.create("Ada", Level.read)
    _, other = await two.create("Bob", Level.read)
    for tokens in (one, two):
        assert tokens.find(token)
        assert tokens.find(other)
    await one.revoke(made.id)
    assert not two.is_good(made)
    assert two.find(token) is None
    await until(lambda: ended)
    assert ended == [made.credential]
    await two.create("Eve", Level.read)  # which brings nothing back
    assert one.find(token) is None
    file.unlink()
    assert one.find(other) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"agent": ""},
        {"agent": "x" * 201},
        {"agent": "a\0b"},
        {"paths": [""]},
        {"paths": ["x"] * 101},
        {"expires_in": 0.0},
        {"expires_in": -1.0},
        {"expires_in": float("inf")},
        {"expires_in": float("nan")},
    ],
)
async def test_a_token_that_makes_no_sense_is_refused(file: Path, wrong: dict[str, Any]) -> None:
    tokens = AgentTokens(file, log)
    with pytest.raises(InvalidArgument):
        await tokens.create(**{"agent": "Ada", "permission": Level.read, **wrong})
    assert not file.exists()


@pytest.mark.parametrize("content", ["{", "[1]", '[{"id": "a"}]', '{"a": 1}'])
async def test_where_the_file_is_broken_no_token_works_and_the_log_says_so(
    file: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    _, token = await AgentTokens(file, log).create("Ada", Level.read)
    file.write_text(content)
    assert AgentTokens(file, log).find(token) is None
    assert "No agent token works" in caplog.text
    await AgentTokens(file, log).create("Bob", Level.read)
    (aside,) = file.parent.glob("*.broken")
    assert aside.read_text() == content


async def test_servers_that_change_their_tokens_at_once_lose_none_and_bring_none_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = AgentTokens(file, log), AgentTokens(file, log)
    revoked, worthless = await one.create("Ada", Level.read)
    assert two.find(worthless)
    write, writing, go_on = agent_tokens._write, threading.Event(), threading.Event()

    def held(path: Path, text: str) -> None:
        """The first that writes has read the file, and is overtaken here, if it can be."""
        if not writing.is_set():
            writing.set()
            go_on.wait(0.3)
        write(path, text)

    monkeypatch.setattr(agent_tokens, "_write", held)
    making = asyncio.ensure_future(two.create("Bob", Level.read))
    await asyncio.to_thread(writing.wait, 10)
    made = await asyncio.gather(one.create("Eve", Level.read), one.revoke(revoked.id), making)
    for tokens in (one, two, AgentTokens(file, log)):
        assert tokens.find(worthless) is None
        assert {each.agent for each in tokens.all()} == {"Bob", "Eve"}
        assert tokens.find(made[0][1])
        assert tokens.find(made[2][1])
        await tokens.close()


async def test_a_file_that_cannot_be_read_for_a_while_is_left_where_it_is(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = AgentTokens(file, log)
    ended: list[str] = []

    async def note(credential: str) -> None:
        ended.append(credential)

    tokens.on_revoked = note
    _, token = await tokens.create("Ada", Level.read)
    _, other = await AgentTokens(file, log).create("Bob", Level.read)

    def fail(*_: Any, **__: Any) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as failing:
        failing.setattr(Path, "read_text", fail)
        for _ in range(2):
            assert tokens.find(token)
            assert tokens.find(other) is None
        assert caplog.text.count("Too many open files") == 1
        with pytest.raises(OSError, match="Too many"):  # or only this one would be left
            await tokens.create("Eve", Level.read)
    assert tokens.find(other)
    assert tokens.find(token)
    assert not ended
    assert not list(file.parent.glob("*.broken"))


async def test_revoking_holds_even_if_it_cannot_be_stored(file: Path) -> None:
    tokens = AgentTokens(file, log)
    made, token = await tokens.create("Ada", Level.read)
    shutil.rmtree(file.parent)
    file.parent.write_text("in the way")
    with pytest.raises(OSError, match=r"."):
        await tokens.revoke(made.id)
    assert tokens.find(token) is None


async def test_what_waits_for_a_token_to_expire_keeps_no_request(file: Path) -> None:
    """Jupyter has the handler of the present request in the context."""
    request: ContextVar[object] = ContextVar("request")
    tokens = AgentTokens(file, log)
    _, token = await tokens.create("Ada", Level.read, expires_in=60.0)
    handler, context = asyncio.Event(), copy_context()
    gone = weakref.ref(handler)
    context.run(request.set, handler)
    assert context.run(tokens.find, token) is not None
    del handler, context
    assert gone() is None
    await tokens.close()

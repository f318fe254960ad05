"""Private parts of the MCP SDK: checked once it is loaded, and left alone if they differ."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from mcp.server import streamable_http
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from sse_starlette import EventSourceResponse

from jupyter_collaboration_mcp.backends.upstream.mcp_sdk import (
    LowLevelServer,
    SessionAdmission,
    ToolLookup,
)
from jupyter_collaboration_mcp.backends.upstream.registry import Workarounds
from jupyter_collaboration_mcp.backends.upstream.stream_watchers import (
    StreamWatchers,
    end_watchers_quietly,
)
from jupyter_collaboration_mcp.transport.sessions import bound_sessions


def test_the_required_sdk_version_fits() -> None:
    for workaround in (
        LowLevelServer(),
        ToolLookup(),
        SessionAdmission(),
        StreamWatchers(),
    ):
        assert workaround.mismatches() == []


def test_sessions_are_left_alone_if_the_sdk_admits_them_differently(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def admit(self: Any, requestor: Any, limit: int) -> None: ...

    monkeypatch.setattr(StreamableHTTPSessionManager, "_admit_session", admit)
    manager = StreamableHTTPSessionManager(Server("test"))
    bound_sessions(manager)
    assert "_admit_session" not in vars(manager)
    (warning,) = caplog.messages
    assert "takes (requestor, limit) instead of (requestor)" in warning
    (problem,) = Workarounds([], logging.getLogger("sdk")).problems
    assert "session_admission does not fit mcp" in problem
    assert "sessions that clients leave open take memory" in problem


def test_answers_are_left_alone_if_they_are_watched_differently(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def ping(self: Any, send: Any, often: bool) -> None: ...

    monkeypatch.setattr(streamable_http, "EventSourceResponse", EventSourceResponse)
    monkeypatch.setattr(EventSourceResponse, "_ping", ping)
    end_watchers_quietly()
    assert vars(streamable_http)["EventSourceResponse"] is EventSourceResponse
    (warning,) = caplog.messages
    assert "takes (send, often) instead of (send)" in warning
    monkeypatch.undo()
    end_watchers_quietly()
    quiet = vars(streamable_http)["EventSourceResponse"]
    assert issubclass(quiet, EventSourceResponse)
    end_watchers_quietly()
    assert vars(streamable_http)["EventSourceResponse"] is quiet

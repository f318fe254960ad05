"""Who is behind a request is said by its transport, and never guessed in their favour."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_collaboration_mcp.server.caller import (
    SCOPE_KEY,
    Caller,
    ConnectionOptions,
    allow_all,
)
from jupyter_collaboration_mcp.server.gate import Gate, ServerOptions
from jupyter_collaboration_mcp.tools.parts import Extension, Parts
from jupyter_collaboration_mcp.tools.registry import all_tools
from jupyter_collaboration_mcp.workspace.permissions import Level
from jupyter_collaboration_mcp.workspace.sites import Sites


@pytest.fixture(scope="module")
def gate() -> Gate:
    sites = Sites()
    return Gate(ServerOptions(), all_tools(Parts(sites, None, Extension())), sites)


def over_http(**scope: Any) -> Any:
    return SimpleNamespace(request=SimpleNamespace(scope=scope))


def test_an_http_request_without_a_caller_is_refused(gate: Gate) -> None:
    with pytest.raises(RuntimeError, match="not said who calls"):
        gate.names(over_http())


def test_an_http_caller_sees_the_tools_of_its_connection(gate: Gate) -> None:
    options = ConnectionOptions(toolsets=("files",), permission=Level.read)
    caller = Caller("token:x", options, allow_all)
    names = gate.names(over_http(**{SCOPE_KEY: caller}))
    assert "document_exists" in names
    assert "delete_document" not in names
    assert "get_notebook" not in names


def test_a_stdio_agent_is_bound_to_its_process_and_an_http_agent_is_not(gate: Gate) -> None:
    session = SimpleNamespace(client_params=None)
    stdio: Any = SimpleNamespace(request=None, session=session)
    assert gate.request(stdio).agent.bound
    caller = Caller("token:x", ConnectionOptions(), allow_all)
    http = over_http(**{SCOPE_KEY: caller})
    http.session = session
    assert not gate.request(http).agent.bound

from __future__ import annotations

from typing import Any

import pytest

from jupyter_collaboration_mcp.documents.awareness import is_agent, people_in


def test_people_are_named_as_jupyterlab_names_them() -> None:
    bea = {"user": {"name": "b", "display_name": "Bea"}}
    states: dict[int, dict[str, Any]] = {1: bea, 2: {"user": {"name": "al"}}, 3: {}, 4: bea}
    states[5] = {"user": "odd"}
    assert people_in(states) == ["Bea", "al"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"user": {"username": "agent-0123456789abcdef"}}, True),
        ({"user": {"username": "ana", "name": "agent-ana"}}, False),
        ({"user": {"username": "my-agent-1"}}, False),
        ({"user": {"username": None}}, False),
        ({"user": "agent-1"}, False),
        ({"user": {}}, False),
        ({}, False),
    ],
)
def test_agents_are_known_by_their_user_names(state: dict[str, Any], expected: bool) -> None:
    assert is_agent(state) is expected

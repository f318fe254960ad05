from __future__ import annotations

from typing import Any

from jupyter_collaboration_mcp.documents.awareness import people_in


def test_people_are_named_as_jupyterlab_names_them() -> None:
    bea = {"user": {"name": "b", "display_name": "Bea"}}
    states: dict[int, dict[str, Any]] = {1: bea, 2: {"user": {"name": "al"}}, 3: {}, 4: bea}
    states[5] = {"user": "odd"}
    assert people_in(states) == ["Bea", "al"]

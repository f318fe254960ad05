"""Names that agents give to notebooks: each agent's own, and not without limit."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.errors import InvalidArgument, NotebookUnknown
from jupyter_collaboration_mcp.workspace.notebook_names import (
    NamedNotebook,
    NotebookNames,
    checked_name,
    require_free,
)

HERE, THERE = NamedNotebook("", None, "a.ipynb", "1"), NamedNotebook("", None, "b.ipynb", "2")


def test_a_name_belongs_to_the_agent_who_gave_it() -> None:
    names = NotebookNames()
    names.put("ada", "nb", HERE)
    names.put("bob", "nb", THERE)
    assert (names.get("ada", "nb"), names.get("bob", "nb")) == (HERE, THERE)
    assert list(names.of("ada")) == [("nb", HERE)]
    with pytest.raises(NotebookUnknown, match="connected: nb"):
        names.get("ada", "other")
    assert names.find("kim", "nb") is None


def test_the_names_that_were_not_used_for_longest_are_forgotten() -> None:
    names = NotebookNames()
    for n in range(100):
        names.put("ada", f"{n:03d}", HERE)
    names.get("ada", "000")
    names.put("ada", "more", HERE)
    assert names.find("ada", "000") is HERE
    assert names.find("ada", "001") is None
    for n in range(500):
        names.put(f"agent {n}", "nb", HERE)
    assert names.find("ada", "more") is None


@pytest.mark.parametrize("name", ["nb", "my notebook", "é" * 200])
def test_a_name_of_visible_characters_is_accepted(name: str) -> None:
    assert checked_name(name) == name


def test_a_name_is_free_unless_it_is_taken_without_the_agent_knowing() -> None:
    require_free(None, "nb", same=False, reconnect=False)
    require_free(HERE, "nb", same=True, reconnect=True)
    for same, reconnect in ((True, False), (False, False), (False, True)):
        with pytest.raises(InvalidArgument, match="Nothing was done"):
            require_free(HERE, "nb", same, reconnect)

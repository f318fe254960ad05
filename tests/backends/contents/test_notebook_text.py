"""A notebook that is read as a text: half of one is asked for again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_collaboration_mcp.backends.contents import notebook_text
from jupyter_collaboration_mcp.backends.contents.notebook_text import read_notebook
from jupyter_collaboration_mcp.errors import CorruptDocument
from tests.harness import notebooks

pytestmark = pytest.mark.anyio

NEW = notebooks.notebook([notebooks.code("one", "'new'")])


async def test_a_half_read_notebook_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_text, "_PAUSES", (0.0, 0.0))
    text = json.dumps(NEW)
    answers = [text[:20], "", text]

    async def ask() -> Any:
        return {"content": answers.pop(0)}

    assert (await read_notebook("n.ipynb", ask))["cells"][0]["source"] == "'new'"
    answers[:] = ["{", "[]", "null"]
    with pytest.raises(CorruptDocument, match=r"n\.ipynb"):
        await read_notebook("n.ipynb", ask)

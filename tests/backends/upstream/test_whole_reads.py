"""A notebook that is read while it is written: nobody sees half of it, and it stays."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from jupyter_collaboration_mcp.backends.upstream import whole_reads
from jupyter_collaboration_mcp.backends.upstream.whole_reads import (
    keep_readers_from_writers,
    read_notebook,
)
from jupyter_collaboration_mcp.errors import CorruptDocument
from tests.harness import notebooks
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

NEW = notebooks.notebook([notebooks.code("one", "'new'")])


@pytest.fixture
def contents(tmp_path: Path) -> Iterator[Any]:
    """Jupyter's own files, read and written whole."""
    contents: Any = AsyncLargeFileManager(root_dir=str(tmp_path))
    keep_readers_from_writers(contents)
    yield contents
    contents.notary.store.close()  # its database: Python 3.13 complains of one left open


class SlowPen:
    """Writes half of a notebook, and the rest when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.half_way = threading.Event()
        self.go_on = threading.Event()
        monkeypatch.setattr(nbformat, "write", self._write)

    def _write(self, notebook: Any, file: Any, **_: Any) -> None:
        text = json.dumps(notebook)
        file.write(text[: len(text) // 2])
        file.flush()
        self.half_way.set()
        assert self.go_on.wait(60)
        file.write(text[len(text) // 2 :])


async def test_who_reads_a_notebook_that_is_being_written_gets_all_of_it(
    contents: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "n.ipynb"
    notebooks.write(file, notebooks.notebook([notebooks.code("one", "'old'")]))
    pen = SlowPen(monkeypatch)
    model = {"type": "notebook", "format": "json", "content": NEW}
    saving = asyncio.create_task(contents.save(model, "n.ipynb"))
    await until(pen.half_way.is_set)
    reading = asyncio.create_task(contents.get("n.ipynb", type="notebook"))
    other = asyncio.create_task(contents.get("n.ipynb", content=False))
    await other  # who only looks need not wait
    await asyncio.wait([reading], timeout=0.2)
    assert not reading.done()
    pen.go_on.set()
    await saving
    assert (await reading)["content"]["cells"][0]["source"] == "'new'"
    assert notebooks.sources(file) == ["'new'"]
    assert [each.name for each in tmp_path.iterdir() if "invalid" in each.name] == []


async def test_a_notebook_that_a_crash_left_half_written_comes_back_as_before(
    contents: Any, tmp_path: Path
) -> None:
    """As Jupyter does it, from the copy; it reads a second time then."""
    file = tmp_path / "n.ipynb"
    notebooks.write(file, NEW)
    file.rename(tmp_path / ".~n.ipynb")
    file.write_text("{")
    async with asyncio.timeout(60):
        model = await contents.get("n.ipynb", type="notebook")
    assert model["content"]["cells"][0]["source"] == "'new'"


async def test_half_of_a_notebook_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_reads, "_PAUSES", (0.0, 0.0))
    text = json.dumps(NEW)
    answers = [text[:20], "", text]

    async def ask() -> Any:
        return {"content": answers.pop(0)}

    assert (await read_notebook("n.ipynb", ask))["cells"][0]["source"] == "'new'"
    answers[:] = ["{", "[]", "null"]
    with pytest.raises(CorruptDocument, match=r"n\.ipynb"):
        await read_notebook("n.ipynb", ask)

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

from jupyter_collaboration_mcp.backends.upstream.notebook_reads import keep_readers_from_writers
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


async def test_reading_a_notebook_during_a_write_returns_all_of_it(
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


async def test_jupyter_alone_moves_a_notebook_aside_that_is_read_during_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "n.ipynb"
    notebooks.write(file, notebooks.notebook([notebooks.code("one", "'old'")]))
    contents: Any = AsyncLargeFileManager(root_dir=str(tmp_path))
    pen = SlowPen(monkeypatch)
    model = {"type": "notebook", "format": "json", "content": NEW}
    saving = asyncio.create_task(contents.save(model, "n.ipynb"))
    await until(pen.half_way.is_set)
    await contents.get("n.ipynb", type="notebook")
    pen.go_on.set()
    await saving
    contents.notary.store.close()
    assert [each.name for each in tmp_path.iterdir() if "invalid" in each.name] == [
        "n.ipynb.invalid"
    ]


async def test_a_half_written_notebook_is_restored_after_a_crash(
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


async def test_without_the_workaround_a_half_written_notebook_is_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B23: if this fails, upstream has fixed it, and the workaround can be dropped."""
    contents: Any = AsyncLargeFileManager(root_dir=str(tmp_path))
    file = tmp_path / "n.ipynb"
    notebooks.write(file, notebooks.notebook([notebooks.code("one", "'old'")]))
    pen = SlowPen(monkeypatch)
    model = {"type": "notebook", "format": "json", "content": NEW}
    saving = asyncio.create_task(contents.save(model, "n.ipynb"))
    await until(pen.half_way.is_set)
    read = await contents.get("n.ipynb", type="notebook")  # the copy, put in its place
    assert read["content"]["cells"][0]["source"] == "'old'"
    pen.go_on.set()
    await asyncio.wait([saving])
    saving.exception()
    assert "n.ipynb.invalid" in [each.name for each in tmp_path.iterdir()]
    contents.notary.store.close()

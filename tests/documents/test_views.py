"""A cell is converted once, and again only after something has changed in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from pycrdt import Map

from jupyter_collaboration_mcp.documents import cell_mirror as module
from jupyter_collaboration_mcp.documents.cell_view import CellView
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell
from tests.harness.memory_room import MemoryRoom


def caught_up(room: MemoryRoom) -> Notebook:
    asyncio.run(room.peer.catch_up())
    return room.peer.notebook


@pytest.fixture
def room() -> MemoryRoom:
    return MemoryRoom(["a", "b", "c"])


def views(notebook: Notebook) -> list[CellView]:
    return list(notebook.views(range(len(notebook))))


def test_the_view_of_an_unchanged_cell_is_reused(room: MemoryRoom) -> None:
    notebook = caught_up(room)
    before = views(notebook)
    room.notebook.set_source(1, "of Ana")
    after = views(caught_up(room))
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert after[1].source == "of Ana"
    assert after[1].revision == notebook.revision(1) != before[1].revision


def test_a_change_is_read_at_once_in_the_transaction_that_makes_it(room: MemoryRoom) -> None:
    notebook = caught_up(room)
    views(notebook)
    with notebook.doc.transaction():
        notebook.set_source(1, "changed")
        assert (notebook.source(1), notebook.cell_type(1)) == ("changed", "code")
        written = notebook.revision(1)
        notebook.set_type(1, "markdown")
        assert (notebook.source(1), notebook.cell_type(1)) == ("changed", "markdown")
        assert notebook.revision(1) != written
    assert (notebook.source(1), notebook.cell_type(1)) == ("changed", "markdown")


def _append_output(notebook: Notebook) -> None:
    stream = {"output_type": "stream", "name": "stdout", "text": "1"}
    notebook.outputs(1).append(Map(stream))


@pytest.mark.parametrize(
    "change",
    [
        lambda notebook: notebook.set_metadata(1, {"tags": ["a"]}),
        lambda notebook: notebook.set_running(1, True),
        lambda notebook: notebook.end_run(1, 7, {}),
        _append_output,
        lambda notebook: notebook.set_type(1, "markdown"),
        lambda notebook: notebook.insert(0, [new_cell("code", "new")]),
        lambda notebook: notebook.delete([0]),
        lambda notebook: notebook.move([0], 3),
    ],
)
def test_a_view_matches_the_document_after_any_change(
    room: MemoryRoom, change: Callable[[Notebook], None]
) -> None:
    views(caught_up(room))
    with room.doc.transaction():
        change(room.notebook)
    notebook = caught_up(room)
    fresh = Notebook(room.peer.doc, follows=False)
    assert views(notebook) == views(fresh)


def test_changes_inside_an_output_invalidate_the_view(room: MemoryRoom) -> None:
    with room.doc.transaction():
        _append_output(room.notebook)
    assert views(caught_up(room))[1].outputs[0]["text"] == "1"
    with room.doc.transaction():
        room.notebook.outputs(1)[0]["text"] = "12"
    assert views(caught_up(room))[1].outputs[0]["text"] == "12"


def test_outputs_are_converted_only_on_request(room: MemoryRoom) -> None:
    with room.doc.transaction():
        _append_output(room.notebook)
    notebook = caught_up(room)
    assert notebook.view(1, outputs=False).outputs == []
    assert len(notebook.view(1).outputs) == 1


def test_a_short_id_is_as_long_as_it_needs_to_be(room: MemoryRoom) -> None:
    notebook = caught_up(room)
    with room.doc.transaction():
        cells = [{**new_cell("code", ""), "id": f"abcdefgh-{n}"} for n in (10, 20)]
        room.notebook.insert(0, cells)
    assert [view.short_id for view in views(caught_up(room))[:2]] == ["abcdefgh-1", "abcdefgh-2"]
    with room.doc.transaction():
        room.notebook.delete([1])
    assert views(caught_up(room))[0].handle == f"[0] abcdefgh@{notebook.revision(0)}"


def test_the_size_of_cached_views_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_VIEWS", 1_000)
    monkeypatch.setattr(module, "_LARGEST_VIEW", 500)
    room = MemoryRoom(["x" * 400] * 10 + ["y" * 600])
    notebook = caught_up(room)
    for _ in range(3):
        views(notebook)
        assert 0 < notebook._kept <= 1_000
    assert notebook._cells[-1].view is None

"""How the rooms of documents are named."""

import pytest

from jupyter_collaboration_mcp.backends.protocols.files import FileEntry
from jupyter_collaboration_mcp.backends.protocols.room_ids import LARGEST, RoomId, room_kind
from jupyter_collaboration_mcp.errors import NotANotebook, NotText, PathRefused, TooLarge


def entry(path: str, **more: object) -> FileEntry:
    return FileEntry(**{"path": path, "type": "file", **more})  # type: ignore[arg-type]


def test_a_room_id_has_its_three_parts() -> None:
    room = RoomId("text:markdown:a:b")
    assert (room.file_format, room.file_type, room.file_id) == ("text", "markdown", "a:b")
    assert room.kind == "file"
    assert room == "text:markdown:a:b"


@pytest.mark.parametrize("text", ["", "a", "json:notebook", "JupyterLab:globalAwareness"])
def test_an_id_without_a_document_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not name"):
        RoomId(text)


def test_room_names_match_jupyter_collaboration() -> None:
    assert RoomId.of("notebook", "1") == "json:notebook:1"
    assert RoomId.of("file", "1") == "text:file:1"
    assert RoomId.of("notebook", "1", "file") == "file:notebook:1"
    assert RoomId.of("notebook", "1").kind == "notebook"


def test_a_file_has_a_room_of_its_kind() -> None:
    assert room_kind(entry("a.ipynb", type="notebook"), None) == "notebook"
    assert room_kind(entry("a.ipynb", type="notebook"), "notebook") == "notebook"
    assert room_kind(entry("a.txt"), None) == "file"
    assert room_kind(entry("a.txt"), "file") == "file"


def test_a_file_has_no_room_of_another_kind() -> None:
    with pytest.raises(NotANotebook):
        room_kind(entry("a.txt"), "notebook")
    with pytest.raises(NotText):
        room_kind(entry("a.ipynb", type="notebook"), "file")
    with pytest.raises(NotText):
        room_kind(entry("a", type="directory"), None)
    with pytest.raises(PathRefused):
        room_kind(entry("a\\b.txt"), None)


def test_texts_above_the_size_limit_are_not_opened_live() -> None:
    assert room_kind(entry("a.txt", size=LARGEST), "file") == "file"
    assert room_kind(entry("a.ipynb", type="notebook", size=LARGEST + 1), None) == "notebook"
    with pytest.raises(TooLarge):
        room_kind(entry("a.txt", size=LARGEST + 1), "file")

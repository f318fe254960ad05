"""A live text: what a change says of its lines, and edits held to a plain string."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycrdt import Doc

from jupyter_collaboration_mcp.documents.differ import Edit
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.text_document import TextDocument
from jupyter_collaboration_mcp.errors import CollaborationError, InvalidArgument, TooLarge
from jupyter_collaboration_mcp.workspace import editing, text_editing
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.text_editing import TextChange, change_text
from tests.harness.growth import calls
from tests.harness.memory_room import TextRoom, perform

from .texts import scribble

#: One to four bytes each, some of them parts of one visible character.
LETTERS = "ab\né€日😀👩\u200d💻e\u0301שׁ\u202e"
TEXTS = st.text(st.sampled_from(LETTERS), max_size=30)

START = "first\nsecond line\n\nfourth\n"


def lines_of(content: str, *edits: Edit) -> list[str]:
    """The places that a change of a text names."""
    document = TextDocument(Doc())
    document.change([Edit(0, 0, content)], "")
    named: list[str] = []
    document.on_change = lambda changes: named.extend(change.cell_id for change in changes)
    with document.doc.transaction():
        document.change(edits, content)
    return named


@pytest.mark.parametrize(
    ("edits", "named"),
    [
        ([Edit(0, 0, "x")], ["line 1"]),
        ([Edit(START.index("line"), START.index("line") + 4, "row")], ["line 2"]),
        ([Edit(6, 6, "new\n")], ["line 2"]),
        ([Edit(6, 6, "new\n\n")], ["line 2", "line 3"]),
        ([Edit(6, 6, "😀\nné\n")], ["line 2", "line 3"]),
        ([Edit(0, 6, "")], ["line 1"]),
        ([Edit(0, 0, "x"), Edit(len(START), len(START), "end")], ["line 1", "line 5"]),
        ([Edit(0, 0, "1\n2\n3\n4\n5\n6\n7\n")], [f"line {n}" for n in range(1, 6)]),
    ],
    ids=["letter", "word", "line", "two lines", "beyond ASCII", "deleted", "two places", "many"],
)
def test_a_change_names_lines_by_their_new_numbers(edits: list[Edit], named: list[str]) -> None:
    assert lines_of(START, *edits) == named


def test_lines_are_counted_in_any_script() -> None:
    content = "é😀\n日本\nשלום\n👩\u200d💻 end"  # noqa: RUF001
    assert lines_of(content, Edit(len(content), len(content), "!")) == ["line 4"]
    place = content.index("ש")
    assert lines_of(content, Edit(place, place, "x")) == ["line 3"]


def test_a_revision_depends_on_the_text() -> None:
    room = TextRoom("one")
    before = room.peer.text.view()
    room.change(TextChange("!"))
    after = room.peer.text.view()
    assert (before.source, after.source) == ("one", "one!")
    assert before.revision != after.revision
    room.change(TextChange("", 3, 1))
    assert room.peer.text.view() == before


# -- edits, held to a plain string -----------------------------------------------------------


CHANGES = st.lists(
    st.builds(TextChange, TEXTS, st.integers(-2, 24), st.integers(-1, 6)), min_size=1, max_size=5
)


def model(old: str, changes: list[TextChange]) -> str | None:
    """What changes that all mean the text before the call make of it; None if they cannot."""
    edits = [Edit(c.position, c.position + c.length, c.content or "") for c in changes]
    edits = [Edit(len(old), len(old), e.text) if e[:2] == (-1, -1) else e for e in edits]
    if not all(0 <= edit.start <= edit.end <= len(old) for edit in edits):
        return None
    for number, one in enumerate(edits):
        for other in edits[:number]:
            both = max(one.start, other.start), min(one.end, other.end)
            empty = one.start == one.end or other.start == other.end
            if both[0] < both[1] or (empty and _inside(one, other)):
                return None
    new, place = "", 0
    while place <= len(old):
        new += "".join(edit.text for edit in edits if edit.start == edit.end == place)
        replaced = [edit for edit in edits if edit.start == place < edit.end]
        new += replaced[0].text if replaced else old[place : place + 1]
        place = replaced[0].end if replaced else place + 1
    return new


def _inside(one: Edit, other: Edit) -> bool:
    return one.start < other.start < one.end or other.start < one.start < other.end


@settings(max_examples=500, deadline=None)
@given(TEXTS, CHANGES)
def test_changes_act_as_on_a_plain_string_or_not_at_all(
    old: str, changes: list[TextChange]
) -> None:
    room = TextRoom(old)
    expected = model(old, changes)
    try:
        written = room.change(*changes)
    except InvalidArgument:
        assert expected is None
        assert str(room) == old
        assert not len(room.here.seat.undo)
        return
    assert str(room) == str(room.peer.text) == expected
    assert [place.length for place in written] == [len(change.content or "") for change in changes]
    for place, change in zip(written, changes, strict=True):
        content = change.content or ""
        assert str(room)[place.position : place.position + len(content)] == content
        assert place.line == str(room).count("\n", 0, place.position) + 1


@settings(max_examples=300, deadline=None)
@given(TEXTS, CHANGES, st.integers(0, 30), st.text("ÄÖ", min_size=1, max_size=3))
def test_undo_restores_the_text_and_keeps_what_a_person_typed(
    old: str, changes: list[TextChange], place: int, typed: str
) -> None:
    room = TextRoom(old)
    try:
        room.change(*changes)
    except InvalidArgument:
        return
    if not len(room.here.seat.undo):
        return  # they changed nothing
    now = str(room)
    room.type(min(place, len(now)), typed)
    before = str(room)
    asyncio.run(room.peer.catch_up())
    try:
        perform(room.here, editing.undo(room.here, 1, None, False))
    except CollaborationError:
        assert str(room) == before
        return
    assert str(room).replace("Ä", "").replace("Ö", "") == old
    assert typed in str(room)


def test_undoing_text_that_a_person_deleted_removes_nothing_else() -> None:
    room = TextRoom("top\nfirst()\n")
    room.change(TextChange(" second()", len("top\nfirst()")))
    room.type(len("top"), " of a person")
    written = str(room).encode().index(b" second()")
    del room.text[written : written + len(" second()")]
    asyncio.run(room.peer.catch_up())
    perform(room.here, editing.undo(room.here, 1, None, False))
    assert str(room) == "top of a person\nfirst()\n"


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS, st.integers(0, 30))
def test_an_edit_keeps_what_a_person_types_at_the_same_moment(
    old: str, new: str, place: int
) -> None:
    """The person's update is on its way when the agent's edit is made."""
    room = TextRoom(f"{old}\nmine")
    asyncio.run(room.peer.catch_up())
    room.type(len(old) + 1, "typed: ")
    perform(room.here, change_text(room.here, [TextChange(new, 0, len(old))], Limits()))
    asyncio.run(room.peer.catch_up())
    assert str(room) == str(room.peer.text) == f"{new}\ntyped: mine"


@pytest.mark.parametrize("content", ["\ufeffname,age\n", "\ufeff"])
def test_a_byte_order_mark_stays_the_first_character(content: str) -> None:
    room = TextRoom(content)
    room.change(TextChange("# top\n", 0))
    assert str(room) == f"\ufeff# top\n{content[1:]}"
    room.change(TextChange("new", 0, len(str(room))))
    assert str(room) == "\ufeffnew"
    room.change(TextChange("", 0, 2))
    assert str(room) == "\ufeffew"
    room.change(TextChange("\ufeffother", 0, 3))
    assert str(room) == "\ufeffother"


def test_a_byte_order_mark_that_is_deleted_alone_is_gone() -> None:
    room = TextRoom("\ufeffname,age\n")
    room.change(TextChange("", 0, 1))
    assert str(room) == "name,age\n"


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        ("a\nb\n", [TextChange("\r", 1), TextChange("\r", 3)]),
        ("a\rb\n", [TextChange("", 2, 1)]),
        ("a\rb\n", [TextChange("\n", 2)]),
        ("a\n", [TextChange("b\r\r\n")]),
    ],
    ids=["inserted", "joined", "line break", "twice"],
)
def test_an_edit_that_ends_a_line_with_a_carriage_return_is_refused(
    content: str, changes: list[TextChange]
) -> None:
    room = TextRoom(content)
    with pytest.raises(InvalidArgument, match="carriage return"):
        room.change(*changes)
    assert str(room) == content


def test_a_text_with_a_carriage_return_before_a_line_break_can_be_edited() -> None:
    room = TextRoom("a\r\nb\n")  # the file has two of them
    room.change(TextChange("B", 3, 1))
    assert str(room) == "a\r\nB\n"


def test_a_text_beyond_the_limit_can_still_be_shortened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_editing, "LARGEST", 10)
    room = TextRoom("0123456789abcdef")
    with pytest.raises(TooLarge, match="at most 10 are live"):
        room.change(TextChange("!"))
    assert str(room) == "0123456789abcdef"
    room.change(TextChange("", 0, 2))
    assert str(room) == "23456789abcdef"


def test_a_call_cannot_write_more_than_the_limit() -> None:
    room = TextRoom("0123456789abcdef")
    limits = Limits(source_length=10)
    with pytest.raises(TooLarge, match="12 characters in one call; at most 10"):
        room.change(TextChange("!" * 6, 0, 6), TextChange("?" * 6, 10, 6), limits=limits)
    assert str(room) == "0123456789abcdef"
    room.change(TextChange("!" * 6, 0, 6), limits=limits)
    assert str(room) == "!!!!!!6789abcdef"


def test_rewriting_many_lines_in_one_call_blocks_nobody() -> None:
    """A fifth of a second is compared, not a minute; and the same when it is taken back."""
    old = [scribble(1_900, seed) for seed in range(1, 101)]
    new = [scribble(1_900, 1_000 + seed) for seed in range(1, 101)]
    room = TextRoom("\n".join(old))
    changes = [TextChange(line, number * 1_901, 1_900) for number, line in enumerate(new)]
    assert calls(lambda: room.change(*changes)) < 3_000_000
    assert str(room) == "\n".join(new)
    assert calls(lambda: perform(room.here, editing.undo(room.here, 1, None, False))) < 3_000_000
    assert str(room) == "\n".join(old)


def test_searches_of_a_large_text_per_call_are_limited() -> None:
    room = TextRoom("word\n" * 500_000)
    changes = [TextChange(old_text=str(number), new_text="x") for number in range(401)]
    with pytest.raises(TooLarge, match=r"401 operations look for old_text .* at most 400 are"):
        room.change(*changes)


def test_operations_on_a_large_text_per_call_are_limited() -> None:
    room = TextRoom("word\n" * 1_600_000)
    changes = [TextChange("x", 10 * number) for number in range(626)]
    with pytest.raises(TooLarge, match=r"626 operations in a text of 8,000,000 .* at most 625 are"):
        room.change(*changes)


@pytest.mark.parametrize("kind", [Notebook, TextDocument])
def test_a_document_that_is_closed_is_freed(kind: type[Notebook] | type[TextDocument]) -> None:
    """B28: pycrdt keeps whatever observes it."""
    doc: Doc[Any] = Doc()
    document = kind(doc)
    freed = weakref.ref(document)
    document.close()
    del document, doc
    gc.collect()
    assert freed() is None

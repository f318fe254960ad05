"""Each process reapplies what it wrote itself, once, whoever else does the same."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycrdt import Doc, Map, Text

from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.remote.room_state import RoomState
from jupyter_collaboration_mcp.collaboration.changes import SourceChange
from jupyter_collaboration_mcp.collaboration.line_merge import MergedText, merge_lines
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.collaboration.presence import Profile
from jupyter_collaboration_mcp.collaboration.seats import Seat
from jupyter_collaboration_mcp.documents.differ import Edit, patch
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from jupyter_collaboration_mcp.workspace.text_editing import TextChange, change_text
from tests.harness.memory_room import MemoryLink, perform

from .test_overwrite import OverwrittenLink


def lines(*words: str) -> str:
    return "".join(f"{word}\n" for word in words)


def changed(*texts: str) -> list[SourceChange]:
    return [SourceChange("", texts[n], texts[n + 1]) for n in range(0, len(texts), 2)]


APPENDED = changed(lines("l1", "l2"), lines("l1", "l2", "one"))


@pytest.mark.parametrize(
    ("said", "current", "expected"),
    [
        (["l1", "l2", "one", "two"], ["l1", "l2", "disk"], ["l1", "l2", "one", "disk"]),
        (
            ["l1", "l2", "one", "two"],
            ["l1", "l2", "disk", "two"],
            ["l1", "l2", "disk", "one", "two"],
        ),
        (["l1", "l2", "one", "two"], ["l1", "l2", "one", "disk"], ["l1", "l2", "one", "disk"]),
        (["l1", "l2", "two", "one", "two"], ["l1", "l2"], ["l1", "l2", "one"]),
        (["l1", "l2", "two", "one", "two"], ["other"], ["other", "one"]),
        (["l2", "x", "one", "y", "l1"], ["l2", "x"], ["l2", "x", "one"]),
        (["l1", "l2"], ["l1", "disk"], ["l1", "disk"]),
    ],
    ids=[
        "another's is lost too",
        "another has reapplied theirs",
        "the file has it",
        "between what another lost",
        "nothing is left around it",
        "others moved what is around it",
        "somebody had deleted it",
    ],
)
def test_only_the_process_own_lines_are_restored(
    said: list[str], current: list[str], expected: list[str]
) -> None:
    result = merge_lines(APPENDED, lines(*said), lines(*current))
    assert (result.text, result.clash) == (lines(*expected), False)


def test_only_the_own_line_that_the_file_lacks_is_written() -> None:
    made = [
        *APPENDED,
        *changed(lines("l1", "l2", "one", "x"), lines("l1", "l2", "one", "x", "two")),
    ]
    result = merge_lines(
        made, lines("l1", "l2", "one", "x", "two"), lines("l1", "l2", "one", "disk")
    )
    assert result.text == lines("l1", "l2", "one", "disk", "two")
    assert result.there == 1


def test_a_change_within_a_line_survives_the_loss_of_another() -> None:
    made = changed("x = 1  # of Bob", "x = 2  # of Bob")
    assert merge_lines(made, "x = 2  # of Bob", "x = 1").text == "x = 2"


@pytest.mark.parametrize("current", ["y = 3", "x = 1, and more", ""])
def test_a_change_to_a_line_that_the_file_changed_is_reported(current: str) -> None:
    result = merge_lines(changed("x = 1", "x = 2"), "x = 2", current)
    assert (result.text, result.clash) == (current, True)


def rows(text: str) -> str:
    """A text whose lines are separated by bars."""
    return text.replace("|", "\n")


def merged(before: str, after: str, current: str, said: str | None = None) -> MergedText:
    """A change, merged into a file; nobody else wrote into the room, unless `said` is given."""
    step = SourceChange("", rows(before), rows(after))
    result = merge_lines([step], rows(after if said is None else said), rows(current))
    assert patch(rows(current), result.edits) == result.text
    return result


def test_a_file_that_has_everything_needs_no_edit() -> None:
    assert merged("a", "a|x", current="a|x") == MergedText("a\nx", [], 1, False)


@pytest.mark.parametrize(
    ("before", "after", "current", "expected"),
    [
        ("a|b", "x|a|b", "a|b|disk", "x|a|b|disk"),
        ("a", "a|x|y", "a", "a|x|y"),
        ("a|b", "a|b|x", "disk|b", "disk|b|x"),
        ("", "x|y", "", "x|y"),
        ("a|b|c|d|e", "a|b|x|c|d|e", "a|e", "a|x|e"),
        ("a|b|c|d|e", "a|b|c|x|d|e", "a|disk|c|e", "a|disk|c|x|e"),
        ("a|b|c|d", "a|b|x|c|d", "disk|c|other", "disk|x|c|other"),
        ("a|b|c|d", "a|b|c|x|d", "disk|b|other|d", "disk|b|other|x|d"),
        ("a|b|c", "a|z|b|y|c", "a|c", "a|z|y|c"),
        ("a|b|c|d", "a|x|b|c|y|d", "a|b|c|d", "a|x|b|c|y|d"),
        ("a|b|c|d", "a|b|x|c|d", "a|disk|b|c|more|d", "a|disk|b|x|c|more|d"),
    ],
)
def test_a_new_line_finds_a_place_near_its_old_neighbours(
    before: str, after: str, current: str, expected: str
) -> None:
    result = merged(before, after, current)
    assert (result.text, result.clash, result.there) == (rows(expected), False, 0)


@pytest.mark.parametrize(
    ("before", "after", "current", "expected"),
    [
        ("a|b|c", "a|c", "a|b|c|disk", "a|c|disk"),
        ("a|b", "a", "disk|a|b", "disk|a"),
        ("a|b|c", "a", "disk|a|b|c", "disk|a"),
        ("a|b|c", "c", "a|b|c|disk", "c|disk"),
        ("a|b", "", "a|b", ""),
        ("a|b|c|d", "a|d", "a|b|disk|c|d", "a|disk|d"),
        ("a|b|c|d", "d", "a|disk|b|c|d", "disk|d"),
    ],
)
def test_a_deleted_line_that_the_file_brought_back_is_deleted_again(
    before: str, after: str, current: str, expected: str
) -> None:
    result = merged(before, after, current)
    assert (result.text, result.clash, result.there) == (rows(expected), False, 0)


@pytest.mark.parametrize(
    ("before", "after", "current", "expected"),
    [
        ("a|x = 1|c", "a|x = 2|c", "new|a|x = 1|c", "new|a|x = 2|c"),
        ("a|x = 1|y = 1|c", "a|x = 2|y = 2|c", "new|a|x = 1|y = 1|c", "new|a|x = 2|y = 2|c"),
        ("a|x = 1|c", "a|x = 2|y|c", "disk|x = 1|c", "disk|x = 2|y|c"),
        ("a|b|c", "d|e|f", "a|b|c", "d|e|f"),
        ("a|x = 1|c", "a|x = 2|c", "top|a|x = 1|c|bottom", "top|a|x = 2|c|bottom"),
    ],
)
def test_a_changed_line_is_changed_again_if_it_is_still_there(
    before: str, after: str, current: str, expected: str
) -> None:
    result = merged(before, after, current)
    assert (result.text, result.clash, result.there) == (rows(expected), False, 0)


@pytest.mark.parametrize(
    ("before", "after", "current", "expected"),
    [
        ("a|x = 1  # of Bob|c", "a|x = 2  # of Bob|c", "new|a|x = 1|c", "new|a|x = 2|c"),
        ("x = 1, of Bob, y = 2", "x = 5, of Bob, y = 7", "x = 1, y = 2", "x = 5, y = 7"),
        ("a|x = 1 + 2", "a|x = 1 + 2  # sum", "a|x = 1", "a|x = 1  # sum"),
        (
            "a|x = 1  # Bob|y = 1  # Bob|c",
            "a|x = 2  # Bob|y = 2  # Bob|c",
            "new|a|x = 1|y = 1|c",
            "new|a|x = 2|y = 2|c",
        ),
    ],
)
def test_a_changed_line_is_changed_again_without_what_the_file_lost_of_it(
    before: str, after: str, current: str, expected: str
) -> None:
    result = merged(before, after, current)
    assert (result.text, result.clash, result.there) == (rows(expected), False, 0)


@pytest.mark.parametrize("current", ["a|c", "a|x = 3|c", "a||c", "new|a|x = 1, y = 1|c"])
def test_a_changed_line_that_the_file_changed_or_lost_is_reported(current: str) -> None:
    result = merged("a|x = 1|c", "a|x = 2|c", current)
    assert (result.text, result.clash) == (rows(current), True)


def test_a_deleted_line_that_the_file_changed_is_reported() -> None:
    result = merged("a|x = 1|y = 2|c", "a|c", "a|x = 12|y = 2|c")
    assert (result.text, result.clash) == (rows("a|x = 12|c"), True)


def test_a_deleted_line_that_the_file_does_not_have_either_is_not_missed() -> None:
    result = merged("a|b|c", "a|c", "a|something else|c")
    assert (result.text, result.clash) == (rows("a|something else|c"), False)


def test_edits_leave_the_lines_around_them_alone() -> None:
    def edits(before: str, after: str, current: str) -> list[Edit]:
        return merged(before, after, current).edits

    assert edits("a|a", "a|a|a", "disk|a|a") == [Edit(8, 8, "\na")]
    assert edits("a|b", "a|b|x", "disk|b") == [Edit(6, 6, "\nx")]
    assert edits("a|b|c", "a|c", "a|b|c|disk") == [Edit(2, 4, "")]
    assert edits("a|b", "a", "disk|a|b") == [Edit(6, 8, "")]
    assert edits("a|b|", "", "a|b") == [Edit(0, 3, "")]
    assert edits("a|x = 1", "a|x = 2", "disk|a|x = 1") == [Edit(11, 12, "2")]
    assert edits("a|b|c", "a|z|b|y|c", "a|c") == [Edit(2, 2, "z\ny\n")]


def test_lines_that_the_second_of_two_steps_put_back_in_order_stay_in_order() -> None:
    steps = changed(rows("a|b|c"), rows("c|b|a"), rows("c|b|a"), rows("a|b|c"))
    result = merge_lines(steps, rows("a|b|c"), rows("c|b|a"))
    assert (result.text, result.there, result.clash) == (rows("a|b|c"), 1, False)


class TestManySteps:
    """Thirteen lines that an agent appended, one by one."""

    @staticmethod
    def steps(*, others: str = "") -> list[SourceChange]:
        """Others may write after the first step."""
        text, made = "a", []
        for number in range(1, 14):
            made += changed(rows(text), rows(f"{text}|{number}"))
            text += f"|{number}{others if number == 1 else ''}"
        return made

    @pytest.mark.parametrize("there", [0, *range(3, 14)])
    def test_the_file_has_as_many_as_make_the_text_most_like_it(self, there: int) -> None:
        steps = self.steps()
        texts = [steps[0].before, *(step.after for step in steps)]
        result = merge_lines(steps, texts[-1], texts[there])
        assert (result.text, result.there, result.clash) == (texts[-1], there, False)

    def test_what_others_wrote_after_the_first_one_is_not_restored(self) -> None:
        steps = self.steps(others="|of Bob")
        result = merge_lines(steps, steps[-1].after, "a")
        assert result.text == self.steps()[-1].after
        assert not result.clash


class TestLargeText:
    """A file with more lines than are compared, in which the first and the last line changed."""

    BASE = tuple(f"line {number}" for number in range(10_001))

    def place(self, line: int, *inside: str) -> tuple[str | None, str | None]:
        """The neighbours of a line that was inserted before a line of the base, if the file has
        some lines."""
        own = [*self.BASE[:line], "new", *self.BASE[line:]]
        step = SourceChange("", "\n".join(self.BASE), "\n".join(own))
        result = merge_lines([step], step.after, "\n".join(["top", *inside, "bottom"]))
        text = result.text.split("\n")
        assert not result.clash
        assert text.count("new") == 1
        assert [line for line in text if line != "new"] == ["top", *inside, "bottom"]
        found = text.index("new")
        return text[found - 1], text[found + 1] if found + 1 < len(text) else None

    def test_a_new_line_follows_the_line_before_it(self) -> None:
        inside = (*self.BASE[1:5001], "disk", *self.BASE[5001:])
        assert self.place(5001, *inside) == ("line 5000", "disk")
        assert self.place(1, "line 0", "disk", "line 1") == ("line 0", "disk")

    def test_a_new_line_precedes_the_line_after_it_if_the_one_before_it_is_gone(self) -> None:
        inside = (*self.BASE[1:5000], "disk", *self.BASE[5001:])
        assert self.place(5001, *inside) == ("disk", "line 5001")
        assert self.place(1, "disk", "line 1") == ("disk", "line 1")

    def test_a_new_line_stays_near_lines_further_away(self) -> None:
        inside = (*self.BASE[1:4997], "disk", *self.BASE[5010:])
        assert self.place(5000, *inside) == ("line 4996", "disk")
        inside = (*self.BASE[1:4990], "disk", *self.BASE[5003:])
        assert self.place(5000, *inside) == ("disk", "line 5003")

    def test_a_line_that_the_file_has_twice_says_nothing_about_the_place(self) -> None:
        inside = ("line 5000", "disk", "line 5000", "more", "line 5001", "line 5001", "line 5002")
        assert self.place(5001, *inside) == ("line 5001", "line 5002")

    def test_a_new_line_stands_last_if_nothing_is_left_near_it(self) -> None:
        assert self.place(5001, "disk", *self.BASE[7000:7010]) == ("bottom", None)


def test_others_deletions_among_new_lines_are_respected() -> None:
    assert merged("", "c|d", said="c", current="").text == "c"
    assert merged("a", "a|c|d", said="a|c", current="a").text == rows("a|c")
    assert merged("b", "c|b|b", said="b|c", current="disk").text == rows("disk|c")


@pytest.mark.parametrize(
    ("before", "after", "said", "current"),
    [
        ("a|x = 1|b|c", "a|x = 2|b|c", "a|b|c|x = 2", "a|b|c|x = 1"),
        ("a|x = 1|y = 1|c", "a|x = 2|y = 2|c", "a|y = 2|x = 2|c", "a|y = 1|x = 1|c"),
        ("a|b|c", "a|x|b|c", "a|b|c|x", "a|b|c"),
    ],
)
def test_a_line_that_others_moved_is_changed_where_it_is_now(
    before: str, after: str, said: str, current: str
) -> None:
    result = merged(before, after, said=said, current=current)
    assert (result.text, result.clash, result.there) == (rows(said), False, 0)


def test_a_new_line_that_others_changed_is_reported_if_the_file_lost_their_version() -> None:
    before, after, said = "a", "a|total = 1", "a|total = 12"
    assert merged(before, after, said=said, current="a").clash
    assert merged(before, after, said=said, current="disk").clash
    kept = merged(before, after, said=said, current="a|total = 12|disk")
    assert (kept.text, kept.clash) == (rows("a|total = 12|disk"), False)


def test_a_line_that_others_rewrote_is_reported_if_the_file_lost_their_version() -> None:
    before, after, said = "a|x = 1|b", "a|x = 2|b", "a|y = 7|b"
    assert merged(before, after, said=said, current="a|x = 1|b").clash
    kept = merged(before, after, said=said, current="disk|a|y = 7|b")
    assert (kept.text, kept.clash) == (rows("disk|a|y = 7|b"), False)


def test_an_own_line_that_lost_what_others_added_to_it_is_no_clash() -> None:
    result = merged("a|x = 1", "a|x = 2", said="a|x = 2  # of Bob", current="a|x = 2")
    assert (result.text, result.clash) == (rows("a|x = 2"), False)


@pytest.mark.parametrize(
    ("before", "after", "current", "expected"),
    [
        ("a|b|c|d", "a|d|x", "a|b|c|d|x", "a|d|x"),
        ("a|b|c|d", "a|d|x|y", "a|b|c|d|other|x|y", "a|d|other|x|y"),
        ("a|b|c|d|e|y", "a|e|z", "a|b|c|d|e|z", "a|e|z"),
        ("a|b|c|d", "a|d|x|y", "a|b|c|d|x|other", "a|d|x|other|x|y"),  # not all of it
    ],
)
def test_a_line_that_somebody_has_written_into_the_file_is_not_written_twice(
    before: str, after: str, current: str, expected: str
) -> None:
    result = merged(before, after, current)
    assert (result.text, result.clash, result.there) == (rows(expected), False, 0)


def test_a_deleted_line_that_came_back_beside_later_edits_is_reported() -> None:
    steps = changed(rows("a|b|c"), rows("a|c"), rows("a|c"), rows("a|c|1|2|3"))
    result = merge_lines(steps, rows("a|c|1|2|3"), rows("a|b|c|1|2|3"))
    assert (result.text, result.clash, result.there) == (rows("a|b|c|1|2|3"), True, 2)


def test_a_new_line_stays_behind_what_the_file_has_instead_of_its_neighbours() -> None:
    assert merged("b", "b|x", said="b|x|of Bob", current="disk").text == rows("disk|x")


@pytest.mark.parametrize("current", ["a|b|e|d", "a|b|d", "a|b|disk|c|d|more"])
def test_a_changed_block_that_the_file_has_in_part_is_reported(current: str) -> None:
    result = merged("a|b|c|d", "a|x|y|d", current)
    assert (result.text, result.clash) == (rows(current), True)


def test_a_block_that_the_file_replaced_only_in_part_is_reported() -> None:
    result = merged("a|b|c|d|e|f", "a|x|f", "a|b|c|d|x|f")
    assert (result.text, result.clash) == (rows("a|b|c|d|x|f"), True)


class Process:
    """One of several, each with an agent that writes into the same text."""

    def __init__(self, name: str, room: Doc[Any]) -> None:
        self.name = name
        self.link = OverwrittenLink(room)
        self.peer = RoomPeer(self.link)
        self.seat = Seat(Profile(f"{name} <test>", name))
        self.kept: list[str] = []

    def look(self) -> None:
        asyncio.run(self.peer.catch_up())

    def write(self, number: int) -> None:
        """Insert a line somewhere."""
        self.look()
        text = str(self.peer.text)
        starts = [0, *(found.end() for found in re.finditer("\n", text))]
        mark = f"<{self.name}.{len(self.kept)}>"
        self.kept.append(mark)
        here = OpenDocument("memory.md", self.peer, self.seat, "test")
        change = TextChange(f"{mark}\n", starts[number % len(starts)])
        perform(here, change_text(here, [change], Limits()))
        asyncio.run(self.peer.wait_acknowledged())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "look", "disk"]), st.integers(0, 2), st.integers(0, 30))
    )
)
def test_edits_of_three_processes_appear_once_in_any_order(history: Any) -> None:
    room: Doc[Any] = Doc()
    text: Text = room.get("source", type=Text)
    file = lines("l1", "l2", "l3")
    text += file
    processes = [Process(name, room) for name in ("ada", "bob", "eve")]
    for count, (kind, who, number) in enumerate(history):
        if kind == "write":
            processes[who].write(number)
        elif kind == "look":
            processes[who].look()
        else:
            file += f"[disk-{count}]\n"
            for process in processes:
                process.link.note_overwrite()
            processes[0].link.overwrite(file)
    for process in processes:
        process.look()
    for process in processes:
        for mark in process.kept:
            count = str(text).count(mark)
            assert count == 1 or (not count and "could not be" in " ".join(process.peer.notes))
    assert all(re.fullmatch(r"<\w+\.\d+>|\[disk-\d+\]|l\d", line) for line in str(text).split())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_edits_that_two_processes_reapply_after_a_restart_appear_once(
    order: tuple[int, int],
) -> None:
    """The server has begun another history, of a file that has none of it."""
    room: Doc[Any] = Doc()
    text: Text = room.get("source", type=Text)
    text += lines("l1", "l2")
    processes = [Process("ada", room), Process("bob", room)]
    for number in (2, 2, 1):
        for process in processes:
            process.write(number)
    for process in processes:
        process.look()
    after: Doc[Any] = Doc()
    begun: Text = after.get("source", type=Text)
    begun += lines("l1", "l2", "disk")

    class Link(MemoryLink):
        room_id = RoomId("text:file:memory")

    peers = [RoomPeer(Link(after)) for _ in processes]
    for number in order:
        asyncio.run(peers[number].catch_up())
        peers[number].inherit(processes[number].peer)
    marks = sorted(mark for process in processes for mark in process.kept)
    assert sorted(re.findall(r"<\w+\.\d+>", str(begun))) == marks


class TestSigns:
    """What a server says in the document about its file."""

    def test_an_overwrite_and_a_save_in_one_update_do_not_count_as_saved(self) -> None:
        server: Doc[Any] = Doc()
        mine: Doc[Any] = Doc()
        state = RoomState(mine, "a.md")
        map_: Map[Any] = server.get("state", type=Map)
        text: Text = server.get("source", type=Text)
        text += "one\n"
        mine.apply_update(server.get_update())
        before = server.get_state()
        map_["dirty"], map_["hash"] = False, "1"
        mine.apply_update(server.get_update(before))
        assert state.saved
        before = server.get_state()
        text.clear()
        text += "from disk\n"
        map_["dirty"] = False
        map_["dirty"], map_["hash"] = False, "2"
        mine.apply_update(server.get_update(before))
        assert not state.saved
        assert state.overwritten() is not None


def test_undone_text_that_the_file_brought_back_in_a_line_changed_by_others_is_reported() -> None:
    ours, theirs = 'print("⟦ours-13⟧")', 'print("⟦theirs-14⟧")'
    steps = changed('print("")', ours, ours, 'print("")')  # and taken back
    assert merge_lines(steps, theirs, ours).clash

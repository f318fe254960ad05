"""The index of the history: which rows are one version, whose it is, and what it says."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pycrdt import Doc

from jupyter_collaboration_mcp.backends.in_process.history.credits import Credit, credits_of
from jupyter_collaboration_mcp.backends.in_process.history.retention import Retention
from jupyter_collaboration_mcp.backends.protocols.history_messages import AuthorshipMessage
from jupyter_collaboration_mcp.documents.members import Member
from jupyter_collaboration_mcp.documents.updates import decode_state, deletion_key
from jupyter_collaboration_mcp.errors import HistoryError, UnknownVersion

from .stored import ADA, ANA, BOB, NOON, StoredHistory, Writer


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredHistory]:
    history = StoredHistory(tmp_path)
    yield history
    history.close()


@pytest.fixture
def text(tmp_path: Path) -> Iterator[StoredHistory]:
    history = StoredHistory(tmp_path, "file")
    yield history
    history.close()


def insert(cell: int, words: str, at: int = 0) -> Any:
    return lambda document: document.ycells[cell]["source"].insert(at, words)


def names(stored: StoredHistory) -> list[str]:
    return [each.author.name if each.author else each.source for each in stored.versions()]


def test_rows_of_one_author_without_a_pause_are_one_version(stored: StoredHistory) -> None:
    stored.load_cells(2)
    stored.credit(7, ANA)
    stored.credit(8, ADA, "edit")
    ana, ada = Writer(stored, 7), Writer(stored, 8)
    for second in range(5):
        ana.do(insert(0, "a"), NOON + 60 + second)
    paused = ana.do(insert(0, "b"), NOON + 60 + 4 + 31)
    by_ada = ada.do(insert(1, "c"), NOON + 60 + 40)
    last = ana.do(insert(1, "d"), NOON + 60 + 41)
    assert names(stored) == ["file", "Ana", "Ana", "Ada", "Ana"]
    assert [each.id for each in stored.versions()][2:] == [paused, by_ada, last]
    assert [each.calls for each in stored.versions()] == [(), (), (), ("edit",), ()]


def test_a_version_lasts_ten_minutes_at_most(stored: StoredHistory) -> None:
    stored.load_cells(1)
    stored.credit(7, ANA)
    ana = Writer(stored, 7)
    for number in range(61):
        ana.do(insert(0, "a"), NOON + 60 + 20 * number)
    assert [each.id // 1000 - NOON - 60 for each in stored.versions()[1:]] == [600, 1200]


def test_rows_that_change_no_content_are_no_versions(stored: StoredHistory) -> None:
    stored.load_cells(2)
    before = stored.versions()
    writer = Writer(stored, 7)
    writer.do(lambda document: setattr(document, "dirty", True), NOON + 1)
    writer.do(lambda document: setattr(document, "hash", "abc"), NOON + 100)
    assert stored.versions() == before
    assert stored.written == 3


def test_a_version_counts_what_it_changed_in_the_end(stored: StoredHistory) -> None:
    stored.load_cells(5)
    stored.credit(7, ANA)
    ana = Writer(stored, 7)

    def work(document: Any) -> None:
        cells = document.ycells
        cells[0]["source"].insert(0, "one\ntwo\n")
        cells[1]["execution_count"] = 3
        del cells[3]
        document.append_cell({"cell_type": "code", "source": "new", "metadata": {}, "id": "new"})

    ana.do(work, NOON + 60)
    ana.do(insert(2, "gone"), NOON + 61)
    ana.do(lambda document: document.ycells[2]["source"].__delitem__(slice(0, 4)), NOON + 62)
    key = deletion_key(ana.updates[-1])
    stored.credits.append((stored.room, Credit.of_deletion(key, "person", ANA, NOON + 62)))
    loaded, counted = (each.counts for each in stored.versions())
    assert (loaded.added, loaded.lines_added) == (5, 5)
    assert (counted.added, counted.edited, counted.deleted, counted.outputs) == (1, 1, 1, 1)
    assert (counted.lines_added, counted.lines_removed) == (3, 1)


def test_an_index_that_grows_row_by_row_is_the_same_as_one_made_at_once(
    stored: StoredHistory,
) -> None:
    stored.load_cells(3)
    stored.credit(7, ANA)
    stored.credit(8, ADA, "edit")
    writers = [Writer(stored, 7), Writer(stored, 8)]
    for number in range(40):
        writer = writers[number // 7 % 2]
        writer.do(insert(number % 3, f"{number}\n"), NOON + 60 + 9 * number)
        stored.versions()
    grown = stored.versions(), stored.index.authors(stored.rows(), stored.room)
    stored.index.storage.database.execute("UPDATE documents SET format = 0")
    again = stored.versions(), stored.index.authors(stored.rows(), stored.room)
    assert again == grown
    assert len(grown[0]) == 7


def test_every_version_says_what_was_seen(stored: StoredHistory) -> None:
    """And so does every row, whether a version ends with it or not."""
    stored.recording = True
    stored.load_cells(3)
    for client, who in ((7, ANA), (8, ADA), (9, BOB)):
        stored.credit(client, who)
    writers = [Writer(stored, client) for client in (7, 8, 9)]
    for number in range(700):
        at = NOON + 60 + 0.7 * number
        writers[number // 10 % 3].do(insert(number % 3, f"{number} "), at)
    listed = stored.versions()
    assert [stored.says(each.id) for each in listed] == [stored.seen[each.id] for each in listed]
    for version in list(stored.seen)[::50]:
        assert stored.says(version) == stored.seen[version]
    with pytest.raises(UnknownVersion):
        stored.says(int(NOON * 1000) + 1)


def test_ten_thousand_rows_are_indexed_once_with_few_checkpoints(stored: StoredHistory) -> None:
    stored.load_cells(10)
    stored.credit(7, ANA)
    ana = Writer(stored, 7)
    ana.updates.clear()
    for number in range(10_000):
        insert(number % 10, "x")(ana.document)
    stored.execute("BEGIN")
    for number, update in enumerate(ana.updates):
        stored.execute(
            "INSERT INTO yupdates VALUES (?, ?, ?, ?)", stored.key, update, b"", NOON + 60 + number
        )
    stored.execute("COMMIT")
    assert len(stored.versions()) == 1 + 10_000 // 601 + 1
    query = "SELECT count(*), sum(size), max(row) FROM checkpoints"
    count, size, last = stored.index.storage.database.execute(query).fetchone()
    assert count <= 16
    assert size <= 32_000_000
    assert last >= 9_500
    reads: list[str] = []
    stored.index.storage.database.set_trace_callback(reads.append)
    assert len(stored.versions(10)) == 10
    assert not [each for each in reads if each.startswith(("INSERT", "UPDATE", "BEGIN"))]


def test_a_deletion_is_its_agents_rather_than_the_only_persons(stored: StoredHistory) -> None:
    stored.load_cells(3)
    writer = Writer(stored, 7)
    writer.do(lambda document: document.ycells.__delitem__(0), NOON + 60)
    writer.do(lambda document: document.ycells.__delitem__(0), NOON + 100)
    assert names(stored) == ["file", "unknown", "unknown"]
    with stored.rows() as rows:
        first, second = (deletion_key(row.update) for row in rows.after(1))
    for key, source, who in ((first, "person", ANA), (first, "agent", ADA), (second, "agent", BOB)):
        credit = Credit.of_deletion(key, source, who, NOON + 60)  # type: ignore[arg-type]
        stored.index.credit(stored.room, [credit])
    assert names(stored) == ["file", "Ada", "Bob"]


def test_authors_that_are_known_late_are_put_in_later(stored: StoredHistory) -> None:
    stored.load_cells(1)
    writer = Writer(stored, 7)
    for number in range(3):
        writer.do(insert(0, "x"), NOON + 60 + 40 * number)
    assert names(stored) == ["file", "unknown", "unknown", "unknown"]
    credit = Credit(7, 1, 2, b"", "agent", ADA.id, ADA.name, "edit", NOON + 100)
    stored.index.credit(stored.room, [credit])
    assert names(stored) == ["file", "unknown", "Ada", "unknown"]


def test_restores_merges_and_undone_calls_stand_alone_and_keep_what_was_before(
    stored: StoredHistory,
) -> None:
    stored.load_cells(2)
    calls = ["edit", "edit", "restore_version", "undo", "edit", "merge_fork"]
    ada = Writer(stored, 8)
    for number, call in enumerate(calls):
        ada.do(insert(0, "x"), NOON + 60 + number)
        credit = Credit(8, number, number + 1, b"", "agent", ADA.id, ADA.name, call, NOON + number)
        stored.credits.append((stored.room, credit))
    versions = stored.versions()
    assert [each.calls for each in versions] == [
        (),
        ("edit",),
        ("restore_version",),
        ("undo",),
        ("edit",),
        ("merge_fork",),
    ]
    assert [each.kept for each in versions] == [
        "before the first edit of the day by Ada",
        "before a restore",
        None,
        None,
        "before a merge",
        None,
    ]


def test_a_row_for_several_authors_credits_each_with_their_cells(stored: StoredHistory) -> None:
    """As a merge of a fork writes it."""
    stored.load_cells(3)
    ada = Writer(stored, 8)
    before, ends = 0, []

    def merge(document: Any) -> None:
        for number, who in enumerate((ADA, ANA, BOB)):
            insert(number, f"by {who.name} ", 2)(document)
            ends.append(decode_state(document.ydoc.get_state()).get(8, 0))

    ada.do(merge, NOON + 60)
    for end, who in zip(ends, (ADA, ANA, BOB), strict=True):
        source = "agent" if who.is_agent else "person"
        made = Credit(8, before, end, b"", source, who.id, who.name, "merge", NOON)  # type: ignore[arg-type]
        stored.credits.append((stored.room, made))
        before = end
    merged = stored.versions()[-1]
    assert (merged.source, merged.calls) == ("several", ("merge",))
    authors = stored.index.authors(stored.rows(), stored.room)
    assert [authors[f"cell-{number:05d}"].author for number in range(3)] == [ADA, ANA, BOB]


def test_all_rows_of_one_large_call_are_one_version(stored: StoredHistory) -> None:
    """It is applied in slices; what it deletes is recorded when all of them are there."""
    stored.load_cells(4)
    ada = Writer(stored, 8)
    for call in range(2):
        at = NOON + 60 + 3 * call
        began = decode_state(ada.doc.get_state()).get(8, 0)
        ada.do(lambda document: document.ycells.__delitem__(0), at)
        key = deletion_key(ada.updates[-1])
        for number in range(3):
            ada.do(insert(0, "x"), at + 0.1 + number / 10)
        ended = decode_state(ada.doc.get_state())[8]
        made = Credit(8, began, ended, b"", "agent", ADA.id, ADA.name, "restore", at)
        deleted = Credit.of_deletion(key, "agent", ADA, at + 0.5, "restore")
        stored.credits += [(stored.room, made), (stored.room, deleted)]
    _loaded, first, second = stored.versions()
    assert (first.counts.deleted, first.counts.edited) == (1, 1)
    assert first.kept == "before a restore"
    assert second.counts == first.counts


def test_the_state_before_an_agents_first_edit_of_each_day_is_kept(stored: StoredHistory) -> None:
    stored.load_cells(1)
    stored.credit(8, ADA)
    ada = Writer(stored, 8)
    midnight = NOON + 43_200
    for at in (midnight - 10, midnight - 5, midnight + 5, midnight + 10):
        ada.do(insert(0, "x"), at)
    kept = [each.kept for each in stored.versions()]
    assert kept == ["before the first edit of the day by Ada"] * 2 + [None]


def test_a_store_that_was_replaced_or_squashed_is_indexed_again(stored: StoredHistory) -> None:
    stored.load_cells(2)
    ana = Writer(stored, 7)
    for number in range(5):
        ana.do(insert(0, "x"), NOON + 60 + 40 * number)
    assert len(stored.versions()) == 6
    state = stored.doc.get_update()
    stored.execute("DELETE FROM yupdates")
    stored.execute("INSERT INTO yupdates VALUES (?, ?, ?, ?)", stored.key, state, b"", NOON + 300)
    (only,) = stored.versions()
    assert only.id == int((NOON + 300) * 1000)
    assert stored.says(only.id) == stored.now()


def test_rows_of_other_documents_are_not_read(stored: StoredHistory) -> None:
    stored.load_cells(1)
    for number in range(20):
        stored.append(b"not an update", NOON + number, key=".notebook:other.y")
    Writer(stored, 7).do(insert(0, "x"), NOON + 100)
    assert len(stored.versions()) == 2


def test_a_broken_index_is_set_aside_and_made_again(stored: StoredHistory) -> None:
    stored.load_cells(1)
    before = stored.versions()
    stored.index.close()
    stored.index_path.write_bytes(b"no database at all" * 100)
    for other in stored.index_path.parent.glob("*-wal"):
        other.unlink()
    stored.index = stored.new_index()
    assert stored.versions() == before
    assert len([*stored.index_path.parent.glob("history*")]) > 1


def test_two_processes_share_one_index(stored: StoredHistory) -> None:
    stored.load_cells(1)
    stored.credit(7, ANA)
    ana = Writer(stored, 7)
    other = stored.new_index()
    for number in range(6):
        ana.do(insert(0, "x"), NOON + 60 + 40 * number)
        mine = other if number % 2 else stored.index
        assert len(mine.list(stored.rows(), stored.room, 100, None).versions) == number + 2
    other.close()


def test_a_text_file_has_one_author_and_counts_lines(text: StoredHistory) -> None:
    text.load("one\ntwo\n", NOON)
    text.credit(7, ANA)
    ana = Writer(text, 7)
    ana.do(lambda document: document._ysource.insert(4, "three\nfour\n"), NOON + 60)
    ana.do(lambda document: document._ysource.__delitem__(slice(0, 4)), NOON + 61)
    key = deletion_key(ana.updates[-1])
    text.credits.append((text.room, Credit.of_deletion(key, "person", ANA, NOON + 61)))
    loaded, edited = text.versions()
    assert (loaded.counts.lines_added, loaded.counts.added) == (2, 0)
    assert (edited.counts.lines_added, edited.counts.lines_removed) == (2, 1)
    assert text.index.authors(text.rows(), text.room)[""].author == ANA
    assert text.says(loaded.id) == "one\ntwo\n"
    assert text.says(edited.id) == "three\nfour\ntwo\n"


# -- retention


def test_retention_keeps_named_kept_and_recent_versions_exactly(stored: StoredHistory) -> None:
    day = 86_400.0
    stored.recording = True
    stored.load_cells(4)
    for client, who in ((7, ANA), (8, ADA)):
        stored.credit(client, who)
    ana, ada = Writer(stored, 7), Writer(stored, 8)
    for number in range(40):
        at = NOON + day * number
        writer = ada if number % 10 == 5 else ana
        for second in range(12):
            cells = stored.document.ycells
            if second == 6 and len(cells) > 2:
                writer.do(lambda document: document.ycells.__delitem__(0), at + second)
            else:
                writer.do(insert(1, f"{number}.{second} "), at + second)
    versions = stored.versions()
    named = versions[7].id
    stored.index.name(stored.rows(), stored.room, named, "seven")
    before, rows = stored.versions(), stored.count()
    kept = [each.id for each in before if each.kept]
    retention = Retention(stored.index, _days_since(NOON + 20 * day))
    assert retention.documents(stored.path) == [stored.room]
    removed = retention.thin(stored.rows(), stored.room)
    assert stored.count() == rows - removed
    assert removed > rows // 3
    after = stored.versions()
    listed = [each.id for each in after]
    old = [each.id for each in before if each.id < (NOON + 20 * day) * 1000]
    expected = {named, *[each for each in kept if each in old], old[-1]}
    assert set(listed) == expected | {each.id for each in before if each.id not in old}
    assert [stored.says(each) for each in listed] == [stored.seen[each] for each in listed]
    assert retention.thin(stored.rows(), stored.room) == 0
    # Whatever is lost of the index, the same versions are listed and kept.
    stored.index.storage.database.execute("UPDATE documents SET format = 0")
    again = stored.versions()
    assert [each.id for each in again if each.id in expected] == sorted(expected)
    assert {each.id for each in again if each.kept} >= {each for each in kept if each in old}


def test_retention_leaves_a_store_alone_in_which_something_is_missing(
    stored: StoredHistory,
) -> None:
    stored.load_cells(1)
    lost = Writer(stored, 7)
    lost.updates.clear()
    for number in range(5):
        insert(0, f"{number}")(lost.document)
    for number, update in enumerate(lost.updates[1:]):  # B1: the first one was never stored
        stored.execute(
            "INSERT INTO yupdates VALUES (?, ?, ?, ?)", stored.key, update, b"", NOON + 60 + number
        )
    Writer(stored, 9).do(insert(0, "x"), NOON + 200)
    rows = stored.count()
    assert Retention(stored.index, 1).thin(stored.rows(), stored.room) == 0
    assert stored.count() == rows


def test_a_document_loads_from_a_thinned_store_as_before(stored: StoredHistory) -> None:
    stored.load_cells(3)
    ana = Writer(stored, 7)
    for number in range(50):
        ana.do(insert(number % 3, "x"), NOON + 60 + number)
    assert Retention(stored.index, 1).thin(stored.rows(), stored.room) > 0
    doc: Doc[Any] = Doc()
    database = sqlite3.connect(stored.path)
    for (update,) in database.execute("SELECT yupdate FROM yupdates ORDER BY timestamp"):
        doc.apply_update(update)
    database.close()
    assert doc.get_state() == stored.doc.get_state()
    assert stored.now() == stored.says(stored.versions()[-1].id)


def test_an_index_in_memory_names_nothing_and_thins_nothing(stored: StoredHistory) -> None:
    stored.load_cells(2)
    writer = Writer(stored, 7)
    for minute in range(1, 5):
        writer.do(insert(0, "x"), NOON + 60 * minute)
    latest = stored.versions()[-1]
    stored.index.storage.lasting = False  # as on a disk that is full
    with pytest.raises(HistoryError, match="Nothing was named"):
        stored.index.name(stored.rows(), stored.room, latest.id, "mine")
    assert Retention(stored.index, 1).thin(stored.rows(), stored.room) == 0


def test_credits_of_another_process_say_who_is_an_agent() -> None:
    agent = Member("agent-0123456789abcdef", "Ada", True)
    edits = [
        AuthorshipMessage(1, 0, 3, [b"gone"], agent, "tool", 1.0),
        AuthorshipMessage(2, 5, 5, [], Member("ana", "Ana"), "", 2.0),
        AuthorshipMessage(2, 5, 6, [], Member("ana", "Ana"), "", 3.0),
    ]
    found = [(c.source, c.client, c.clock_to, c.deletion) for c in credits_of(edits)]
    assert found == [("agent", 1, 3, b""), ("agent", -1, 0, b"gone"), ("person", 2, 6, b"")]


def test_a_name_of_half_a_character_harms_nothing(stored: StoredHistory) -> None:
    stored.load_cells(1)
    stored.credit(7, Member("ana", "Ana \ud83d"))
    Writer(stored, 7).do(insert(0, "x"), NOON + 60)
    assert names(stored) == ["file", "Ana ?"]


def _days_since(moment: float) -> float:
    return (time.time() - moment) / 86_400

"""Random histories: each version says what was seen, and whose it is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from tests.harness import notebooks
from tests.harness.examples import examples

from .stored import ADA, ANA, BOB, NOON, StoredHistory, Writer

AUTHORS = {7: ANA, 8: ADA, 9: BOB}

STEPS = some.lists(
    some.tuples(
        some.sampled_from(sorted(AUTHORS)),
        some.sampled_from(["type", "type", "add", "delete", "move", "run", "save", "look", "lose"]),
        some.integers(0, 20),
        some.sampled_from([0.05, 1.0, 20.0, 31.0, 700.0, 50_000.0]),
    ),
    max_size=40,
)


def _change(document: Any, action: str, number: int, step: int) -> None:
    cells = document.ycells
    at = number % len(cells) if len(cells) else 0
    if action == "save":
        document.dirty = bool(step % 2)
    elif action == "add" or not len(cells):
        cell = notebooks.code(f"new-{step}", f"added {step}")
        document.ycells.insert(at, document.create_ycell(cell))
    elif action == "type":
        cells[at]["source"].insert(0, f"{step}\n")
    elif action == "delete":
        del cells[at]
    elif action == "move":
        cell = document.get_cell(at)
        del cells[at]
        document.ycells.insert(number % (len(cells) + 1), document.create_ycell(cell))
    else:
        cells[at]["execution_count"] = step


@given(STEPS)
@examples(60, 400)
def test_every_version_says_what_was_seen_and_whose_it_is(
    steps: list[tuple[int, str, int, float]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        stored = StoredHistory(Path(directory))
        stored.recording = True
        try:
            _check(stored, steps)
        finally:
            stored.close()


def _check(stored: StoredHistory, steps: list[tuple[int, str, int, float]]) -> None:
    stored.load_cells(3)
    for client, who in AUTHORS.items():
        stored.credit(client, who)
    writers = {client: Writer(stored, client) for client in AUTHORS}
    authors: dict[int, str] = {}
    at = NOON + 60
    for step, (client, action, number, pause) in enumerate(steps):
        at += pause
        if action == "look":
            stored.versions(3)
            continue
        if action == "lose":
            stored.index.storage.database.execute("UPDATE documents SET format = 0")
            continue
        version = writers[client].do(
            lambda document: _change(document, action, number, step),  # noqa: B023
            at,
        )
        stored.credit_deletions(writers[client], AUTHORS[client], at)
        if action != "save":
            authors[version] = AUTHORS[client].name
    listed = stored.versions()
    assert [stored.says(each.id) for each in listed] == [stored.seen[each.id] for each in listed]
    begin = 0
    for each in listed[1:]:
        whose = {name for version, name in authors.items() if begin < version <= each.id}
        assert whose == {each.author.name if each.author else each.source}
        begin = each.id
    assert stored.says(listed[-1].id) == stored.now()

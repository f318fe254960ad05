"""Random edits by two agents and a person: every version that is listed says what a recorder saw at
that time, and who wrote it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.examples import examples
from tests.harness.jupyter import JupyterProcess

from ..conftest import MakeServer
from .conftest import SAVE_SOON

pytestmark = pytest.mark.anyio

AGENTS = ("Ada", "Bob")
PERSON = "Ana"

Content = list[tuple[str, str, str]]
"""Each cell: its id, its type and its source."""


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server(SAVE_SOON) as process:
        yield process


@pytest.fixture(scope="module")
async def agents(server: JupyterProcess) -> AsyncIterator[dict[str, AgentClient]]:
    async with agent(server, AGENTS[0]) as ada, agent(server, AGENTS[1]) as bob:
        yield dict(zip(AGENTS, (ada, bob), strict=True))


@dataclass(frozen=True)
class Deed:
    """Something that somebody does; numbers choose among the cells that are there."""

    who: str
    kind: str
    number: int
    word: str


DEEDS = st.builds(
    Deed,
    st.sampled_from([*AGENTS, PERSON]),
    st.sampled_from(["write", "write", "insert", "delete", "move", "cut"]),
    st.integers(0, 99),
    st.sampled_from(["x = 1", "é😀", "# a\n", "print('hi')\n\n"]),
)


@dataclass
class Recorder:
    """What the person's tab has shown after each deed, and whose it was."""

    ana: Collaborator
    versions: list[tuple[str, Content]] = field(default_factory=list)
    writers: dict[str, str] = field(default_factory=dict)
    """By cell, who changed it last."""

    def content(self) -> Content:
        with self.ana.doc.transaction():
            return [
                (str(cell["id"]), str(cell["cell_type"]), str(cell["source"]))
                for cell in self.ana.notebook.ycells
            ]

    def older(self, who: str) -> list[str]:
        """The cells that were there before this author's turn, so that no turn undoes itself."""
        last = self.versions[-1]
        before = self.versions[-2][1] if last[0] == who else last[1]
        now = {cell_id for cell_id, _, _ in last[1]}
        return [cell_id for cell_id, _, _ in before if cell_id in now]

    def record(self, who: str) -> None:
        before, now = self.versions[-1][1], self.content()
        if now == before:
            return
        known = {cell[0]: cell for cell in before}
        for cell in now:
            if known.get(cell[0]) != cell:
                self.writers[cell[0]] = who
        if self.versions[-1][0] == who:
            self.versions.pop()
        self.versions.append((who, now))


@examples(6, 40)
@given(deeds=st.lists(DEEDS, min_size=3, max_size=10))
async def test_every_version_says_what_was_seen_then_and_whose_it_is(
    server: JupyterProcess, agents: dict[str, AgentClient], deeds: list[Deed]
) -> None:
    path = f"recorded-{next(_NUMBERS)}.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(3))
    async with Collaborator(server.url, server.token, path, PERSON) as ana:
        recorder = Recorder(ana)
        await ana.flush()
        recorder.versions.append(("", recorder.content()))
        for deed in deeds:
            if deed.who == PERSON:
                _as_person(recorder, deed)
            else:
                await _as_agent(recorder, agents[deed.who], path, deed)
            await ana.flush()
            recorder.record(deed.who)

        ada = agents[AGENTS[0]]
        listed = (await ada.ask("get_document_history", path=path, limit=100))["versions"]
        authors = [version["author"] or "" for version in reversed(listed)]
        assert authors == [who for who, _ in recorder.versions]
        await _check_writers(recorder, ada, path)

        for version, (_, seen) in zip(listed, reversed(recorder.versions), strict=True):
            await ada.ask("restore_document_version", path=path, version=version["version"])
            await ana.flush()
            assert recorder.content() == seen
        # To restore a version is in the history, too, and nothing of what was there is gone.
        await ada.ask("restore_document_version", path=path, version=listed[0]["version"])
        await ana.flush()
        assert recorder.content() == recorder.versions[-1][1]


async def _check_writers(recorder: Recorder, ada: AgentClient, path: str) -> None:
    authors = (await ada.ask("get_notebook", path=path, authors=True))["authors"]
    there = {cell_id for cell_id, _, _ in recorder.content()}
    named = {cell_id: authors[cell_id]["author"] for cell_id in recorder.writers.keys() & there}
    assert named == {cell_id: recorder.writers[cell_id] for cell_id in named}


def _as_person(recorder: Recorder, deed: Deed) -> None:
    ana, older = recorder.ana, recorder.older(deed.who)
    there = [cell_id for cell_id, _, _ in recorder.content()]
    chosen = older[deed.number % len(older)] if older else None
    match deed.kind:
        case "write" if there:
            target = there[deed.number % len(there)]
            ana.insert(target, deed.number % (len(ana.source(target)) + 1), _new(deed.word))
        case "delete" if chosen and len(there) > 1:
            ana.delete_cell(chosen)
        case "cut" if chosen and ana.source(chosen):
            ana.delete(chosen, 0, 1)
        case _:
            ana.insert_cell(deed.number % (len(there) + 1), _new(deed.word))


async def _as_agent(recorder: Recorder, who: AgentClient, path: str, deed: Deed) -> None:
    older = recorder.older(deed.who)
    there = [cell_id for cell_id, _, _ in recorder.content()]
    chosen = older[deed.number % len(older)] if older else None
    match deed.kind:
        case "write" if there:
            await who.write(path, there[deed.number % len(there)], _new(deed.word))
        case "cut" if chosen and (source := recorder.ana.source(chosen)):
            await who.write(path, chosen, source[1:])
        case "delete" if chosen and len(there) > 1:
            await _ask(who, "batch_delete_notebook_cells", path, cell_ids=[chosen])
        case "move" if chosen and there[-1] != chosen and not _moved_by(recorder, deed.who):
            await _ask(who, "move_notebook_cells", path, cell_ids=[chosen], to_index=len(there))
        case _:
            cells = [{"content": _new(deed.word), "cell_type": "markdown"}]
            position = deed.number % (len(there) + 1)
            await _ask(
                who,
                "batch_insert_notebook_cells",
                path,
                cells=cells,
                start_position=position,
                exec=False,
            )


def _moved_by(recorder: Recorder, who: str) -> bool:
    """Whether it is the author's turn already: a second move might undo the first."""
    return recorder.versions[-1][0] == who


async def _ask(who: AgentClient, tool: str, path: str, **arguments: Any) -> None:
    await who.ask(tool, path=path, **arguments)


def _new(word: str) -> str:
    """A text that nobody has written before."""
    return f"{word}{next(_NUMBERS)}"


def _numbers() -> Iterator[int]:
    return count(1)


_NUMBERS = _numbers()

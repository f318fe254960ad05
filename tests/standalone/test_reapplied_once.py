"""Several of our processes at one document whose file is changed on disk: each reapplies its own.

Each round is another history: one of each kind, two with `--all`. `REAPPLY_ROUNDS=50` plays fifty.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import MakeServer, Times
from tests.harness.agents import AgentClient, agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.outside_writes import SOON, Form, NotebookRound, Round, TextRound, Writer
from tests.harness.standalone import StandaloneProcess

#: Rounds of each kind, if that many are wanted; the seed of the first; how many are played at once.
ROUNDS = int(os.environ.get("REAPPLY_ROUNDS", "0"))
FIRST = int(os.environ.get("REAPPLY_SEED", "0"))
AT_ONCE = 4

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120 + 30 * max(ROUNDS, 2))]


@dataclass(frozen=True)
class Place:
    """A server, and agents that come to it from processes of their own."""

    server: JupyterProcess
    agents: dict[str, AgentClient]

    def writers(self, count: int) -> list[Writer]:
        return [Writer(name, self.agents[name]) for name in ("Ada", "Bob", "Eve")[:count]]

    def reader(self) -> Writer:
        return Writer("Reader", self.agents["Reader"])


@pytest.fixture(scope="module", params=["commands", "extension and commands"])
async def place(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[Place]:
    """Three who write, each in a process of their own, and in a fourth one who reads."""
    extension = request.param != "commands"
    enabled = {"jupyter_collaboration_mcp": extension}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(make_server(extensions=enabled, config=SOON))
        agents = {}
        for name in ("Ada", "Bob", "Eve", "Reader"):
            way: JupyterProcess | StandaloneProcess = server
            if not (extension and name == "Ada"):
                way = await stack.enter_async_context(StandaloneProcess([server]))
            agents[name] = await stack.enter_async_context(agent(way, name))
        yield Place(server, agents)


@pytest.mark.parametrize("form", [TextRound(), NotebookRound()], ids=["text", "notebook"])
@pytest.mark.parametrize("writers", [2, 3])
async def test_edits_of_each_process_appear_once_or_are_reported_to_its_agent(
    place: Place, form: Form, writers: int, times: Times
) -> None:
    rounds = ROUNDS or times(1, 2)
    turn = asyncio.Semaphore(AT_ONCE)

    async def play(seed: int) -> list[str]:
        async with turn:
            agents = place.writers(writers), [place.reader()]
            return await Round(place.server, form, 10 * seed + writers, *agents).play()

    seeds = range(FIRST, FIRST + rounds)
    found = await asyncio.gather(*map(play, seeds))
    bad = {seed: "\n".join(wrong) for seed, wrong in zip(seeds, found, strict=True) if wrong}
    report = "\n\n".join(f"Round {seed}:\n{wrong}" for seed, wrong in bad.items())
    assert not bad, f"{len(bad)} of {rounds} rounds are bad.\n\n{report}"


# -- what counts as a bad round ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("notice", "text", "bad"),
    [
        ("", "<Ada.0>\n[disk-1]\n一", []),
        ("", "[disk-1]\n一", ["<Ada.0> is lost, and its agent was not told"]),
        (
            "these could not be reapplied: in cell log somebody wrote at the same place",
            "[disk-1]\n一",
            [],
        ),
        (
            "these could not be reapplied: in cell lines somebody wrote at the same place",
            "[disk-1]\n一",
            ["<Ada.0> is lost, and its agent was not told"],
        ),
        ("", "<Ada.0>\n一", ["[disk-1] was there, and is lost"]),
        ("", "<Ada.0>\n[disk-1]", ["一 was there, and is lost"]),
    ],
)
async def test_a_round_fails_if_something_is_lost_without_a_notice_about_its_place(
    tmp_path: Path, notice: str, text: str, bad: list[str]
) -> None:
    nobody: Any = None
    server: Any = SimpleNamespace(root=tmp_path, url="http://nowhere.invalid/", token="")
    writer = Writer("Ada", nobody)
    writer.notices = ["these could not be reapplied: cell log is gone"]  # about what came before
    writer.keep("<Ada.0>", "cell log", told=1)
    writer.notices += [notice]
    game = Round(server, NotebookRound(), 1, [writer])
    game._there = {"[disk-1]", "一"}
    assert game._judge(text)[: len(bad) or 1] == bad

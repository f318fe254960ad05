"""Listing a large tree and a large folder, inside a server and through the command beside it.

The floor is `os.walk` of the same and a no-op tool together. There is no goal for the command: it
asks the server for each file that it tells of, and elsewhere, which means not on the disk that it
sees, for each folder.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.harness.agents import AgentClient, agent
from tests.harness.standalone import StandaloneProcess

from .bare import NOOP
from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import asking, connect, jupyter

GOAL, WORST = Goal(1.5), Goal(100)

_FOLDERS = 200
_TREE, _FLAT = "tree", "flat"


async def run(sizes: Sizes) -> list[Row]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(jupyter())
        _plant(server.root / _TREE, sizes.files)
        _fill(server.root / _FLAT, sizes.files)
        ada = await stack.enter_async_context(connect(server.url, server.token))
        beside = StandaloneProcess([server], near=True)
        near = await stack.enter_async_context(agent(await stack.enter_async_context(beside)))
        apart = StandaloneProcess([server])
        far = await stack.enter_async_context(agent(await stack.enter_async_context(apart)))

        async def walk(folder: str) -> None:
            for _folder in os.walk(server.root / folder):
                pass
            await ada.call(NOOP)

        floors: dict[str, Call] = {folder: partial(walk, folder) for folder in (_TREE, _FLAT)}
        inside, outside = _calls("", ada), _calls(", command", near)
        few = replace(sizes, calls=max(5, sizes.calls // 5))
        # Apart: who asks all the time would slow down the server, and not the floor.
        times = await interleave({**floors, **inside, **outside}, few)
        async with asking(server) as status:
            await interleave(inside, few)
        async with asking(server) as status_outside:
            await interleave(outside, few)
        fewest = replace(sizes, calls=3, warm_up=0)
        times |= await interleave(_calls(", elsewhere", far), fewest)
    compared = [
        Row.compare("listing", case, times[case.partition(":")[0]], taken, _goal(case, inside))
        for case, taken in times.items()
        if case not in floors
    ]
    return [
        *compared,
        Row.absolute("listing", "worst /api/status", [max(status)], WORST, "ms"),
        Row.absolute("listing", "the same, command", [max(status_outside)], WORST, "ms"),
    ]


def _goal(case: str, inside: dict[str, Call]) -> Goal | None:
    return GOAL if case in inside else None


def _calls(way: str, client: AgentClient) -> dict[str, Call]:
    """What is asked for; the name of each begins with the folder that it is in."""
    tree = partial(client.ask, "list_documents", path=_TREE)
    flat = partial(client.ask, "list_documents", path=_FLAT)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "tree: 50 notebooks": partial(client.ask, "list_notebooks", path_prefix=_TREE),
        "tree: the only csv": partial(tree, file_type="csv"),
        "tree: a name that is not there": partial(tree, path_filter="nowhere"),
        "tree: 50 of all files": partial(tree, file_type="file"),
        "flat: one level": flat,
        "flat: 50 notebooks": partial(flat, file_type="notebook"),
    }
    return {f"{case}{way}": call for case, call in calls.items()}


def _plant(tree: Path, files: int) -> None:
    """Folders in folders; most files are no notebooks, and what is looked for comes last."""
    for number in range(_FOLDERS):
        folder = tree / f"project-{number % 20:02d}" / f"part-{number:03d}"
        _fill(folder, files // _FOLDERS)
    (folder / "z.csv").write_text("1")


def _fill(folder: Path, files: int) -> None:
    folder.mkdir(parents=True)
    for place in range(files):
        ending = "ipynb" if place % 50 == 0 else "txt"
        (folder / f"file-{place:05d}.{ending}").write_text("{}")

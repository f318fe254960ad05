"""Listing a large tree, beside `os.walk` and a no-op; and how long others wait meanwhile."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from .bare import NOOP
from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import asking, connect, jupyter

GOAL, WORST = Goal(1.5), Goal(100)

_FOLDERS = 200


async def run(sizes: Sizes) -> list[Row]:
    async with jupyter() as server, connect(server.url, server.token) as ada:
        _plant(server.root, sizes.files)

        async def walk() -> None:
            for _folder in os.walk(server.root):
                pass
            await ada.call(NOOP)

        calls: dict[str, Call] = {
            "floor": walk,
            "50 notebooks": partial(ada.ask, "list_notebooks"),
            "the only csv": partial(ada.ask, "list_documents", file_type="csv"),
            "a name that is not there": partial(ada.ask, "list_documents", path_filter="nowhere"),
            "50 of all files": partial(ada.ask, "list_documents", file_type="file"),
        }
        few = replace(sizes, calls=max(5, sizes.calls // 5))
        # Apart: who asks all the time would slow down the server, and not the floor.
        times = await interleave(calls, few)
        async with asking(server) as status:
            await interleave({name: calls[name] for name in calls if name != "floor"}, few)
    floor = times.pop("floor")
    return [
        *(Row.compare("listing", case, floor, taken, GOAL) for case, taken in times.items()),
        Row.absolute("listing", "worst /api/status", [max(status)], WORST, "ms"),
    ]


def _plant(root: Path, files: int) -> None:
    """Folders in folders; most files are no notebooks, and what is looked for comes last."""
    for number in range(_FOLDERS):
        folder = root / f"project-{number % 20:02d}" / f"part-{number:03d}"
        folder.mkdir(parents=True)
        for place in range(files // _FOLDERS):
            ending = "ipynb" if place % 50 == 0 else "txt"
            (folder / f"file-{place:04d}.{ending}").write_text("{}")
    (folder / "z.csv").write_text("1")

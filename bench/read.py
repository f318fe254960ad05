"""Reading: outlines of 500 cells, and one cell of few or very many, against a no-op.

The outline also against that of jupyter-mcp-server, if `bench day` has made its environment.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from tests.harness.agents import AgentClient, text_of

from .bare import NOOP
from .day.places import has_peer, peers
from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import connect, jupyter, make_notebook, saved, source
from .tokens import CHARACTERS_PER_TOKEN

#: Cells of the notebook whose outline is read.
CELLS = 500

#: What the outline of the same notebook costs with jupyter-mcp-server, in tokens.
PEERS_TOKENS = 5_536

_OUTLINE, _CHANGING = "outline.ipynb", "changing.ipynb"


async def run(sizes: Sizes) -> list[Row]:
    few, many = sizes.cells[0], sizes.cells[-1]
    async with (
        jupyter() as server,
        connect(server.url, server.token, structured="false") as ada,
        connect(server.url, server.token, "Bob") as bob,
        AsyncExitStack() as stack,
    ):
        for path, cells in ((_OUTLINE, CELLS), (_CHANGING, CELLS), ("few", few), ("many", many)):
            make_notebook(Path(server.root), _named(path), cells)
            await ada.call("create_notebook_session", path=_named(path))
        await saved(bob, _named("many"))
        step = iter(range(1 << 30))

        async def change() -> None:
            await bob.write(_CHANGING, "cell-00007", source(next(step)))

        async def changed() -> object:
            return await ada.call("get_notebook", path=_CHANGING, format="outline")

        theirs = {"peer": await _peers_outline(stack)} if has_peer() else {}
        times = await interleave(
            {
                **theirs,
                "no-op": partial(ada.call, NOOP),
                "outline": partial(ada.call, "get_notebook", path=_OUTLINE, format="outline"),
                "change": change,
                "changed": changed,
                "few": partial(_one, ada, "few"),
                "many": partial(_one, ada, "many"),
                "few as resource": await _cell(ada, "few"),
                "many as resource": await _cell(ada, "many"),
            },
            sizes,
        )
        answer = await ada.call("get_notebook", path=_OUTLINE, format="outline")
    floor = times["no-op"]
    tokens = len(text_of(answer)) / CHARACTERS_PER_TOKEN
    compare = partial(Row.compare, "read")
    rows = [
        compare(f"outline, {CELLS} cells, one changed", floor, times["changed"], Goal(3)),
        compare(f"outline, {CELLS} cells, unchanged", floor, times["outline"], Goal(2)),
        compare(
            f"one cell of {many:,}, against one of {few}", times["few"], times["many"], Goal(1.2)
        ),
        compare(
            f"the same as resources, {many:,} against {few}",
            times["few as resource"],
            times["many as resource"],
            Goal(1.2),
        ),
        Row.absolute("read", f"outline, {CELLS} cells", [tokens], Goal(PEERS_TOKENS), "tokens"),
    ]
    if "peer" in times:
        case = f"outline, {CELLS} cells, one changed, against the peer's"
        rows.append(compare(case, times["peer"], times["changed"], Goal(0.4)))
    return rows


async def _peers_outline(stack: AsyncExitStack) -> Call:
    """How the peer reads the same outline, in a notebook that it has activated."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
    make_notebook(root, _OUTLINE, CELLS)
    place = await stack.enter_async_context(peers(root))
    name = _OUTLINE.removesuffix(".ipynb")
    client = place.side.client
    await client.call_tool("use_notebook", {"notebook_name": name, "notebook_path": _OUTLINE})
    return partial(client.call_tool, "read_notebook", {"notebook_name": name, "limit": 0})


async def _one(client: AgentClient, path: str) -> object:
    return await client.call("get_notebook", path=_named(path), cell_ids=["cell-00003"])


async def _cell(client: AgentClient, path: str) -> Call:
    """How a client reads a cell as a resource."""
    joined = await client.call("create_notebook_session", path=_named(path))
    room = re.search(r"session (\S+), room json:notebook:([^,]+),", text_of(joined))
    assert room is not None, text_of(joined)
    uri = f"notebook://{room[1]}/{room[2]}/cells/cell-00003"
    return partial(client.client.read_resource, uri)


def _named(path: str) -> str:
    return path if path.endswith(".ipynb") else f"{path}.ipynb"

"""Work in a notebook of a hundred cells."""

from __future__ import annotations

from ..corpus import SALES
from ..sides import Answer, Illegal, Ours, Peer, handles
from .intent import (
    Intent,
    at,
    cell,
    cells_with,
    details,
    edit,
    find,
    overview,
    replace,
    run,
)


async def _orient_ours(ours: Ours, path: str) -> None:
    (await ours.call("list_notebooks")).line_with(path)
    await ours.call("get_notebook", path=path, format="outline")


async def _orient_peer(peer: Peer, path: str) -> None:
    (await peer.call("list_files", pattern="*.ipynb")).line_with(path)
    assert len(await overview(peer, path)) == 100


async def _failing_ours(ours: Ours, path: str) -> None:
    shown = await find(ours, path, "Error")
    shown.line_with("KeyError: 'price'")
    failing = handles(shown.text)[0]
    await ours.update(path, replace(failing, "'price'", "'amount'"), exec=False)


async def _failing_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    for line in shown:
        if line.type == "code":
            answer = await peer.call("read_cell", cell_index=line.index)
            if "KeyError: 'price'" in answer.text:
                await edit(peer, path, line.index, "'price'", "'amount'", line.first)
                return
    raise Illegal("no cell fails")


async def _run_all_ours(ours: Ours, path: str) -> None:
    answer = await ours.call("batch_execute_notebook_cells", path=path, timeout=120)
    assert "FAILED" not in answer.text


async def _run_all_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    await run(peer, *(line.index for line in shown if line.type == "code"))


async def _rename_ours(ours: Ours, path: str) -> None:
    found = await find(ours, path, "discount")
    updates = [
        replace(handle, old, old.replace("discount", "rebate"))
        for handle in handles(found.text)
        for old in _quotable(_lines_of(found, handle.id))
    ]
    await ours.update(path, *updates)


def _quotable(sources: list[str]) -> list[str]:
    """As little of each line as is in the cell only once."""
    whole = "\n".join(sources)
    found = []
    for source in sources:
        start = source.index("discount")
        short = source[max(0, start - 8) : start + len("discount") + 1]
        found.append(short if whole.count(short) == 1 else source)
    return found


def _lines_of(answer: Answer, cell_id: str) -> list[str]:
    """The lines below one cell that a search has found."""
    found: list[str] = []
    ours = False
    for line in answer.text.splitlines():
        if line.startswith("["):
            ours = cell_id in line
        elif ours and line.startswith("  ") and line[2:3].isdigit():
            found.append(line.split(": ", 1)[1])
    return found


async def _rename_peer(peer: Peer, path: str) -> None:
    indexes = cells_with(await details(peer, path), "discount")
    for index in indexes:
        await peer.call(
            "edit_cell_source",
            cell_index=index,
            old_string="discount",
            new_string="rebate",
            replace_all=True,
        )
    await run(peer, *indexes)


async def _section_ours(ours: Ours, path: str) -> None:
    found = await find(ours, path, "lakeside")
    first = cell(found, "orders_lakeside = ")
    last = cell(found, "def forecast_lakeside")
    answer = await ours.update(path, replace(last, "window=6", "window=4"), exec=False)
    moved = next((handle.index for handle in handles(answer.text)), last.index)
    await ours.call(
        "batch_execute_notebook_cells",
        path=path,
        start_index=first.index + moved - last.index,
        end_index=moved + 1,
    )


async def _section_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    first, last = at(shown, "orders_lakeside = "), at(shown, "def forecast_lakeside")
    moved = await edit(peer, path, last, "window=6", "window=4", "def forecast_lakeside")
    await run(peer, *range(first + moved - last, moved + 1))


async def _table_ours(ours: Ours, path: str) -> None:
    shown = await ours.look(
        "get_notebook", path=path, query="months_valley = ", include_outputs=True
    )
    shown.line_with("2026-12")


async def _table_peer(peer: Peer, path: str) -> None:
    index = at(await overview(peer, path), "months_valley = ")
    (await peer.call("read_cell", cell_index=index)).line_with("2026-12")


async def _explain_ours(ours: Ours, path: str) -> None:
    (await find(ours, path, "def forecast_winslow")).line_with("totals.append")


async def _explain_peer(peer: Peer, path: str) -> None:
    index = at(await overview(peer, path), "def forecast_winslow")
    shown = await peer.call("read_cell", cell_index=index, include_outputs=False)
    shown.line_with("totals.append")


async def _scratch_ours(ours: Ours, path: str) -> None:
    found = handles((await find(ours, path, "# scratch")).text)
    assert len(found) == 5
    await ours.call(
        "batch_delete_notebook_cells",
        path=path,
        cell_ids=[handle.id for handle in found],
    )


async def _scratch_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    wanted = [line.index for line in shown if line.first.startswith("# scratch")]
    if not peer.wary:
        await peer.call("delete_cell", cell_indices=wanted, include_source=False)
        return
    answer = await peer.call("delete_cell", cell_indices=wanted)
    deleted = answer.text.split("\n---\n")[: len(wanted)]
    wrong = [
        (index, part)
        for index, part in zip(wanted, deleted, strict=True)
        if "deleted cell source:\n# scratch" not in part
    ]
    if not wrong:
        return
    # Cells have moved, and others are gone instead: bring them back, then delete the right ones.
    for index, part in sorted(wrong):
        kind = "markdown" if "(markdown)" in part else "code"
        source = part.split("deleted cell source:\n", 1)[1].rstrip("\n")
        await peer.call("insert_cell", cell_index=index, cell_type=kind, cell_source=source)
    shown = await overview(peer, path)
    again = [line.index for line in shown if line.first.startswith("# scratch")]
    await peer.call("delete_cell", cell_indices=again)


SECTION = "## Summary\n\nWhat two regions leave after tax."
SUMMARY = "print(f'{net_harbour + net_upland:.2f} {currency}')"


async def _summary_ours(ours: Ours, path: str) -> None:
    cells = [{"content": SECTION, "cell_type": "markdown"}, {"content": SUMMARY}]
    (await ours.call("batch_insert_notebook_cells", path=path, cells=cells)).line_with(" EUR")


async def _summary_peer(peer: Peer, path: str) -> None:
    await peer.use(path)
    await peer.call("insert_cell", cell_index=-1, cell_type="markdown", cell_source=SECTION)
    answer = await peer.call(
        "insert_execute_code_cell", cell_index=-1, cell_source=SUMMARY, stream=False
    )
    answer.line_with(" EUR")


INTENTS = (
    Intent(
        "find a notebook and its parts",
        SALES,
        "Find the notebook about sales, sales.ipynb, and tell me what is in it.",
        _orient_ours,
        _orient_peer,
    ),
    Intent(
        "find the failing cell and fix it",
        SALES,
        "Somewhere in sales.ipynb a cell shows an error. Find it and fix the code.",
        _failing_ours,
        _failing_peer,
        floods="no search, and outputs come only cell by cell",
    ),
    Intent(
        "run everything",
        SALES,
        "Run all of sales.ipynb and tell me if something fails.",
        _run_all_ours,
        _run_all_peer,
    ),
    Intent(
        "rename a variable everywhere",
        SALES,
        "Rename discount to rebate in all of sales.ipynb, and rerun the cells you change.",
        _rename_ours,
        _rename_peer,
        floods="no search: the source of all cells",
    ),
    Intent(
        "change a cell and rerun what depends on it",
        SALES,
        "In the Lakeside section of sales.ipynb forecast with window=4, not window=6, and rerun "
        "the section.",
        _section_ours,
        _section_peer,
        contested="def forecast_lakeside",
    ),
    Intent(
        "read a table",
        SALES,
        "What does the table of months_valley in sales.ipynb say about December?",
        _table_ours,
        _table_peer,
    ),
    Intent(
        "explain a cell",
        SALES,
        "Explain forecast_winslow in sales.ipynb.",
        _explain_ours,
        _explain_peer,
    ),
    Intent(
        "delete the scratch cells",
        SALES,
        "Delete the cells of sales.ipynb that begin with `# scratch`.",
        _scratch_ours,
        _scratch_peer,
        contested="def net(",
    ),
    Intent(
        "add a section",
        SALES,
        "Add a section Summary at the end of sales.ipynb: net_harbour and net_upland together, "
        "in currency.",
        _summary_ours,
        _summary_peer,
    ),
)

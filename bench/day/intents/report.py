"""Work in a notebook of prose and small computations."""

from __future__ import annotations

import re

from ..corpus import REPORT
from ..sides import Illegal, Ours, Peer, handles, newer
from .intent import Intent, Line, at, cell, cells_with, details, edit, find, overview, replace, run

#: How an answer of ours says that others have added or removed cells.
_SHIFTED = re.compile(r"^Since you last looked.*(inserted|deleted|moved)", re.MULTILINE)


async def _understand_ours(ours: Ours, path: str) -> None:
    (await ours.call("get_notebook", path=path)).line_with("growth = ")


async def _understand_peer(peer: Peer, path: str) -> None:
    (await details(peer, path)).line_with("growth = ")


NOTE = "The figures of the south"


async def _convert_ours(ours: Ours, path: str) -> None:
    named = {"cell_id": "text:figures of the south", "cell_type": "markdown"}
    await ours.update(path, named, exec=False)


async def _convert_peer(peer: Peer, path: str) -> None:
    index = at(await overview(peer, path), NOTE)
    source = await _delete(peer, index)
    if not source.startswith(NOTE):
        # Cells have moved, and another one is gone instead.
        kind = "markdown" if source.startswith("#") else "code"
        await peer.call("insert_cell", cell_index=index, cell_type=kind, cell_source=source)
        index = at(await overview(peer, path), NOTE)
        source = await _delete(peer, index)
    await peer.call("insert_cell", cell_index=index, cell_type="markdown", cell_source=source)


async def _delete(peer: Peer, index: int) -> str:
    """Delete a cell at the peer, and return its source."""
    answer = await peer.call("delete_cell", cell_indices=[index])
    return answer.text.split("deleted cell source:\n", 1)[1].split("\n\n---", 1)[0]


#: What the computations of the report find, in part.
FINDING = "+6.4%"


async def _run_all_ours(ours: Ours, path: str) -> None:
    answer = await ours.call("batch_execute_notebook_cells", path=path)
    assert "FAILED" not in answer.text
    if FINDING not in answer.text:
        # Many runs are answered in few lines: read the outputs that they name.
        named = answer.line_with("With output: ")
        cells = [int(index) for index in re.findall(r"\[(\d+)\]", named)]
        answer = await ours.call("get_notebook", path=path, cell_ids=cells, include_outputs=True)
    answer.line_with(FINDING)


async def _run_all_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    await run(peer, *(line.index for line in shown if line.type == "code"))


async def _plot_ours(ours: Ours, path: str) -> None:
    named = ["text:plot(totals)"]
    answer = await ours.call("get_notebook", path=path, cell_ids=named, include_outputs=True)
    assert answer.images == 1


async def _plot_peer(peer: Peer, path: str) -> None:
    index = at(await overview(peer, path), "plot(totals)")
    answer = await peer.call("read_cell", cell_index=index)
    assert answer.images == 1


async def _typo_ours(ours: Ours, path: str) -> None:
    found = handles((await find(ours, path, "recieve")).text)
    assert len(found) == 4
    updates = [replace(handle, "recieve", "receive") for handle in found]
    await ours.update(path, *updates, exec=False)


async def _typo_peer(peer: Peer, path: str) -> None:
    for index in cells_with(await details(peer, path), "recieve"):
        change = {"old_string": "recieve", "new_string": "receive"}
        answer = await peer.attempt("edit_cell_source", cell_index=index, **change)
        if answer.is_error or "successfully" not in answer.text:
            await _typo_peer(peer, path)
            return


async def _title_ours(ours: Ours, path: str) -> None:
    change = {"index": 0, "old_text": "Yearly report", "new_text": "Report for 2026"}
    answer = await ours.attempt(
        "batch_update_notebook_cells", path=path, updates=[change], exec=False
    )
    if answer.is_error:
        title = handles((await find(ours, path, "Yearly report")).text)[0]
        await ours.update(path, replace(title, "Yearly report", "Report for 2026"), exec=False)


async def _title_peer(peer: Peer, path: str) -> None:
    await peer.use(path)
    await edit(peer, path, 0, "Yearly report", "Report for 2026", "Yearly report")


async def _move_ours(ours: Ours, path: str) -> None:
    found = await find(ours, path, "## ")
    conclusion, title = cell(found, "## Conclusion"), cell(found, "## Load")
    answer = await ours.call(
        "move_notebook_cells", path=path, cell_ids=[conclusion.id], to_index=title.index
    )
    if _SHIFTED.search(answer.text):
        # An index has no guard: look where the cell has come to stand.
        found = await find(ours, path, "## ")
        title = cell(found, "## Load")
        if cell(found, "## Conclusion").index != title.index - 1:
            await ours.call(
                "move_notebook_cells", path=path, cell_ids=[conclusion.id], to_index=title.index
            )


async def _move_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    source, target = at(shown, "## Conclusion"), at(shown, "## Load")
    answer = await peer.call("move_cell", source_index=source, target_index=target)
    if f"{target}\tmarkdown\tN/A\t## Conclusion" not in answer.text:
        # Cells have moved, and another one was taken.
        await peer.call("move_cell", source_index=target, target_index=source)
        shown = await overview(peer, path)
        source, target = at(shown, "## Conclusion"), at(shown, "## Load")
        await peer.call("move_cell", source_index=source, target_index=target)


#: What each computation of the report begins with, and what is to be said before it.
NOTES = {
    "north, south = ": "Two regions stand for all.",
    "by_month = ": "One row for each month.",
    "best = ": "The five best customers of the north.",
    "totals = ": "Positive means growth.",
    "returned = ": "Small orders come back most often.",
}


async def _notes_ours(ours: Ours, path: str) -> None:
    shown = await ours.call("get_notebook", path=path, format="outline")
    before = [cell(shown, first).index for first in NOTES]
    cells = [{"content": note, "cell_type": "markdown"} for note in NOTES.values()]
    answer = await ours.call(
        "batch_insert_notebook_cells", path=path, cells=cells, positions=before, exec=False
    )
    if _SHIFTED.search(answer.text):
        # Somebody has inserted or deleted cells: look where the notes stand, and do it again.
        shown = await ours.call("get_notebook", path=path, format="outline")
        found = [cell(shown, first).index for first in NOTES]
        ours_now = [cell(shown, note).index for note in NOTES.values()]
        if [index - 1 for index in found] == ours_now:
            return
        await ours.call("undo_agent_changes", path=path)
        before = [index - number - 1 for number, index in enumerate(found)]
        await ours.call(
            "batch_insert_notebook_cells", path=path, cells=cells, positions=before, exec=False
        )


async def _notes_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    # From the last to the first, so that what is still to come stays where it is.
    for first, note in reversed(NOTES.items()):
        index = at(shown, first)
        answer = await peer.call(
            "insert_cell", cell_index=index, cell_type="markdown", cell_source=note
        )
        if not _stands_before(answer.text, index, first):
            await peer.call("delete_cell", cell_indices=[index], include_source=False)
            shown = await overview(peer, path)
            await peer.call(
                "insert_cell",
                cell_index=at(shown, first),
                cell_type="markdown",
                cell_source=note,
            )


def _stands_before(text: str, index: int, first: str) -> bool:
    return any(line.startswith(f"{index + 1}\t") and first in line for line in text.splitlines())


async def _undo_ours(ours: Ours, path: str) -> None:
    await ours.call("undo_agent_changes", path=path)


async def _undo_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    notes = [at(shown, note) for note in NOTES.values()]
    await peer.call("delete_cell", cell_indices=notes, include_source=False)


FUNCTION = (
    "def growth(totals):\n"
    '    """From the first half of a year to the second."""\n'
    "    return sum(totals[6:]) / sum(totals[:6]) - 1\n\n"
    "totals = by_month.column('total')\n"
    "print(f'{growth(totals):+.1%}')"
)


async def _function_ours(ours: Ours, path: str) -> None:
    read = cell(await find(ours, path, "growth"), "growth = ")
    update = {"cell_id": read.guarded, "content": FUNCTION}
    answer = await ours.attempt("batch_update_notebook_cells", path=path, updates=[update])
    if answer.is_error:
        content = "\n".join([FUNCTION, *_added(answer.text)])
        await ours.update(path, {"cell_id": newer(answer, read.guarded), "content": content})


async def _function_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    index = at(shown, "totals = ")
    source = (await peer.call("read_cell", cell_index=index, include_outputs=False)).text
    answer = await peer.call("overwrite_cell_source", cell_index=index, cell_source=FUNCTION)
    gone = [line[1:] for line in answer.text.splitlines() if line.startswith("-")][1:]
    unread = [line for line in gone if line not in source]
    if unread == gone:
        # Another cell was overwritten. The diff has all of it.
        await peer.call("overwrite_cell_source", cell_index=index, cell_source="\n".join(gone))
        index = at(await overview(peer, path), "totals = ")
        await peer.call("overwrite_cell_source", cell_index=index, cell_source=FUNCTION)
    elif unread:
        content = "\n".join([FUNCTION, *unread])
        await peer.call("overwrite_cell_source", cell_index=index, cell_source=content)
    await run(peer, index)


def _added(text: str) -> list[str]:
    """What somebody has added, in the diff of a refused edit."""
    added = [line[1:] for line in text.splitlines() if line.startswith("+")]
    if not added:
        raise Illegal(f"no diff in {text}")
    return added


async def _tidy_ours(ours: Ours, path: str) -> None:
    await ours.call("clear_notebook_outputs", path=path)


async def _tidy_peer(peer: Peer, path: str) -> None:
    shown: list[Line] = await overview(peer, path)
    for line in shown:
        if line.type == "code":
            await peer.call("clear_cell_output", cell_index=line.index)


INTENTS = (
    Intent(
        "understand a notebook",
        REPORT,
        "Read report.ipynb and tell me what it does.",
        _understand_ours,
        _understand_peer,
    ),
    Intent(
        "change a title",
        REPORT,
        "Change the title of report.ipynb from `Yearly report` to `Report for 2026`.",
        _title_ours,
        _title_peer,
        contested="Yearly report",
    ),
    Intent(
        "turn code into Markdown",
        REPORT,
        "In report.ipynb the cell about the figures of the south is no code; make it Markdown.",
        _convert_ours,
        _convert_peer,
        contested=NOTE,
    ),
    Intent(
        "run a small notebook",
        REPORT,
        "Run all of report.ipynb and sum up what it finds.",
        _run_all_ours,
        _run_all_peer,
    ),
    Intent(
        "look at a plot",
        REPORT,
        "Look at the result of plot(totals) in report.ipynb and describe it.",
        _plot_ours,
        _plot_peer,
    ),
    Intent(
        "correct a word everywhere",
        REPORT,
        "In report.ipynb somebody writes `recieve` for `receive`. Correct it everywhere.",
        _typo_ours,
        _typo_peer,
        contested="Who did recieve",
    ),
    Intent(
        "move a section",
        REPORT,
        "Put the cell Conclusion of report.ipynb before Load.",
        _move_ours,
        _move_peer,
        contested="## Conclusion",
    ),
    Intent(
        "explain each step",
        REPORT,
        "Add a sentence in Markdown before each computation in report.ipynb.",
        _notes_ours,
        _notes_peer,
        contested="best = ",
    ),
    Intent(
        "take it back",
        REPORT,
        "Take back the sentences you have just added to report.ipynb: " + " ".join(NOTES.values()),
        _undo_ours,
        _undo_peer,
    ),
    Intent(
        "rewrite a cell",
        REPORT,
        "Make growth in report.ipynb a function with a docstring, and run it.",
        _function_ours,
        _function_peer,
        contested="totals = by_month",
    ),
    Intent(
        "tidy outputs",
        REPORT,
        "Clear all outputs of report.ipynb, so that I can commit it.",
        _tidy_ours,
        _tidy_peer,
    ),
)

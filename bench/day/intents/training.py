"""Work with a kernel: errors, long runs, large outputs, plots, a new notebook."""

from __future__ import annotations

from ..corpus import TRAINING
from ..sides import Ours, Peer, handles, newer
from .intent import Intent, at, cell, edit, find, overview, replace, run

NEW = "checks.ipynb"


async def _resume_ours(ours: Ours, path: str) -> None:
    fit = cell(await find(ours, path, "## Fit"), "## Fit")
    answer = await ours.call(
        "batch_execute_notebook_cells", path=path, start_index=0, end_index=fit.index
    )
    answer.line_with("NameError: name 'colum' is not defined")
    failed = cell(answer, "FAILED")
    answer = await ours.update(path, replace(failed, "len(colum)", "len(column)"))
    answer.line_with("60 means")


async def _resume_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    for line in shown[: at(shown, "## Fit")]:
        if line.type == "code":
            [answer] = await run(peer, line.index)
            if "Traceback" in answer.text:
                answer.line_with("NameError: name 'colum' is not defined")
                await edit(peer, path, line.index, "len(colum)", "len(column)", line.first)
                [answer] = await run(peer, line.index)
                answer.line_with("60 means")


async def _follow_ours(ours: Ours, path: str) -> None:
    loop = cell(await find(ours, path, "epoch"), "epoch")
    answer = await ours.call("execute_notebook_cell", path=path, cell_id=loop.id, timeout=60)
    answer.line_with("epoch 120/120")


async def _follow_peer(peer: Peer, path: str) -> None:
    index = at(await overview(peer, path), "import time")
    [answer] = await run(peer, index)
    answer.line_with("epoch 120/120")


async def _losses_ours(ours: Ours, path: str) -> None:
    answer = await ours.call("execute_notebook_cell", path=path, cell_id="text:plot(losses)")
    assert answer.images == 1


async def _losses_peer(peer: Peer, path: str) -> None:
    index = at(await overview(peer, path), "plot(losses)")
    [answer] = await run(peer, index)
    assert answer.images == 1


async def _log_ours(ours: Ours, path: str) -> None:
    answer = await ours.call("execute_notebook_cell", path=path, cell_id="text:gradient")
    answer.line_with("finished: 4000 steps, 0 skipped")


async def _log_peer(peer: Peer, path: str) -> None:
    index = at(await overview(peer, path), "for step in range")
    [answer] = await run(peer, index)
    answer.line_with("finished: 4000 steps, 0 skipped")


async def _wide_ours(ours: Ours, path: str) -> None:
    found = cell(await find(ours, path, "data"), "data", ends=True)
    answer = await ours.call("execute_notebook_cell", path=path, cell_id=found.id)
    answer.line_with("feature_00")


async def _wide_peer(peer: Peer, path: str) -> None:
    shown = await overview(peer, path)
    [index] = [line.index for line in shown if line.first == "data"]
    [answer] = await run(peer, index)
    answer.line_with("feature_00")


async def _variables_ours(ours: Ours, path: str) -> None:
    (await ours.call("inspect_variables", path=path)).line_with("losses")


async def _variables_peer(peer: Peer, path: str) -> None:
    await peer.use(path)
    (await peer.call("execute_code", code="%whos")).line_with("losses")


async def _try_ours(ours: Ours, path: str) -> None:
    answer = await ours.call("run_code", path=path, code="sum(losses[-10:]) / 10")
    answer.line_with("0.186")


async def _try_peer(peer: Peer, path: str) -> None:
    await peer.use(path)
    (await peer.call("execute_code", code="sum(losses[-10:]) / 10")).line_with("0.186")


OLD, NEWER = "'best loss', best", "f'best loss {best} after {len(losses)} epochs'"


async def _stale_ours(ours: Ours, path: str) -> None:
    found = cell(await find(ours, path, "best loss"), "best loss")
    update = replace(found, OLD, NEWER)
    answer = await ours.attempt("batch_update_notebook_cells", path=path, updates=[update])
    [old, new] = (text.replace("best loss", "lowest loss") for text in (OLD, NEWER))
    answer.line_with(old)
    now = newer(answer, found.guarded)
    await ours.update(path, {"cell_id": now, "old_text": old, "new_text": new})


async def _stale_peer(peer: Peer, path: str) -> None:
    index = at(await overview(peer, path), "best = min(losses)")
    shown = await peer.call("read_cell", cell_index=index, include_outputs=False)
    shown.line_with(OLD)
    answer = await peer.attempt(
        "edit_cell_source", cell_index=index, old_string=OLD, new_string=NEWER
    )
    assert answer.is_error or "successfully" not in answer.text
    [old, new] = (text.replace("best loss", "lowest loss") for text in (OLD, NEWER))
    shown = await peer.call("read_cell", cell_index=index, include_outputs=False)
    shown.line_with(old)
    await peer.call("edit_cell_source", cell_index=index, old_string=old, new_string=new)
    await run(peer, index)


CHECKS = (
    ("markdown", "# Checks"),
    ("code", "from shop import orders"),
    ("code", "table = orders('Harbour')\nlen(table)"),
    ("code", "amounts = table.column('amount')\nmin(amounts), max(amounts)"),
    ("markdown", "## Result"),
    ("code", "assert all(amount >= 0 for amount in amounts)\nprint('all amounts are positive')"),
)


async def _create_ours(ours: Ours, path: str) -> None:
    await ours.call("create_document", path=NEW, type="notebook")
    answer = await ours.call(
        "batch_insert_notebook_cells",
        path=NEW,
        cells=[
            {"content": source, **({"cell_type": kind} if kind != "code" else {})}
            for kind, source in CHECKS
        ],
    )
    answer.line_with("all amounts are positive")
    if [handle.index for handle in handles(answer.text)][:1] == [1]:
        # A new notebook has an empty cell, which nobody has asked for.
        await ours.call("batch_delete_notebook_cells", path=NEW, start_index=0)


async def _create_peer(peer: Peer, path: str) -> None:
    used = await peer.use(NEW, mode="create")
    assert used is not None
    # It puts a cell of its own into a new notebook, which is the first one of ours.
    (_, first), *rest = CHECKS
    await peer.call("overwrite_cell_source", cell_index=0, cell_source=first)
    for kind, source in rest:
        if kind == "code":
            answer = await peer.call(
                "insert_execute_code_cell", cell_index=-1, cell_source=source, stream=False
            )
        else:
            answer = await peer.call(
                "insert_cell", cell_index=-1, cell_type=kind, cell_source=source
            )
    answer.line_with("all amounts are positive")


async def _repair_ours(ours: Ours, path: str) -> None:
    answer = await ours.call(
        "batch_insert_notebook_cells", path=path, cells=[{"content": "mean(losses)"}]
    )
    answer.line_with("NameError")
    made = handles(answer.text)[0]
    content = "sum(losses) / len(losses)"
    answer = await ours.update(path, {"cell_id": made.guarded, "content": content})
    answer.line_with("0.341")


async def _repair_peer(peer: Peer, path: str) -> None:
    await peer.use(path)
    answer = await peer.call(
        "insert_execute_code_cell", cell_index=-1, cell_source="mean(losses)", stream=False
    )
    answer.line_with("NameError")
    # The answer does not say where the cell is.
    index = at(await overview(peer, path), "mean(losses)")
    await peer.call(
        "overwrite_cell_source", cell_index=index, cell_source="sum(losses) / len(losses)"
    )
    [answer] = await run(peer, index)
    answer.line_with("0.341")


INTENTS = (
    Intent(
        "go on after an error",
        TRAINING,
        "Run training.ipynb up to Fit. Last time it stopped with an error; fix that.",
        _resume_ours,
        _resume_peer,
    ),
    Intent(
        "follow a long run",
        TRAINING,
        "Run the cell of training.ipynb that trains for some epochs; how does it end?",
        _follow_ours,
        _follow_peer,
    ),
    Intent(
        "make a plot",
        TRAINING,
        "Run plot(losses) in training.ipynb and look at it.",
        _losses_ours,
        _losses_peer,
    ),
    Intent(
        "run what prints a lot",
        TRAINING,
        "Run the cell of training.ipynb that prints the gradient of each step; how does it end?",
        _log_ours,
        _log_peer,
        floods="printed text comes whole",
    ),
    Intent(
        "read a wide table",
        TRAINING,
        "Run the cell of training.ipynb that shows `data`: is feature_00 scaled?",
        _wide_ours,
        _wide_peer,
    ),
    Intent(
        "what is in the kernel",
        TRAINING,
        "Which variables does the kernel of training.ipynb have?",
        _variables_ours,
        _variables_peer,
    ),
    Intent(
        "try an expression",
        TRAINING,
        "What is the mean of the last ten losses in training.ipynb? Do not add a cell.",
        _try_ours,
        _try_peer,
    ),
    Intent(
        "add a cell that fails, and fix it",
        TRAINING,
        "Add the mean of losses at the end of training.ipynb.",
        _repair_ours,
        _repair_peer,
    ),
    Intent(
        "recover from a stale edit",
        TRAINING,
        "In training.ipynb print the best loss with the number of epochs.",
        _stale_ours,
        _stale_peer,
        overtaken=("best loss", "lowest loss"),
    ),
    Intent(
        "start a new notebook",
        NEW,
        f"Make {NEW}, which checks that no amount of Harbour is negative, and run it.",
        _create_ours,
        _create_peer,
    ),
)

"""What an agent does in a round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import nbformat
from mcp_types import CallToolResult

from tests.harness.lines import Line

from .ledger import WORD, Fate, Outcome, Word
from .places import Cell, cell_text, mark
from .stage import NOTEBOOK, TEXT, Stage

#: How often each is done, out of all.
REPERTOIRE: dict[str, float] = {
    "write": 8,
    "write_two": 3,
    "rewrite": 4,
    "replace": 3,
    "remove": 2,
    "supersede": 2,
    "insert": 3,
    "delete": 2,
    "move": 3,
    "retype": 2,
    "undo": 5,
    "run": 3,
    "restart_kernel": 0.5,
    "rename": 0.7,
    "copy": 0.7,
    "write_text": 6,
    "append_text": 3,
    "replace_text": 3,
    "delete_text": 2,
    "undo_text": 2,
}

FEWEST_CELLS = 4

KINDS = ("code", "markdown", "raw")


@dataclass
class Step:
    """A call that can be undone, as the agent remembers it."""

    adds: Sequence[Word] = ()
    removes: Sequence[Word] = ()
    cells: Sequence[Cell] = ()
    inserted: Sequence[Cell] = ()
    types: dict[Cell, frozenset[str]] = field(default_factory=dict)
    """What cells were before that it deleted, or gave another type."""


class AgentActor:
    """An agent that edits, through the extension or the command."""

    def __init__(self, stage: Stage, line: Line, survives: bool) -> None:
        self.stage, self.line, self.name = stage, line, line.name
        self._survives = survives
        """Whether its process, and so what it can undo, outlives a killed server."""
        self._steps: dict[str, list[Step]] = {NOTEBOOK: [], TEXT: []}
        self._kills = 0

    async def perform(self, operation: str, dice: Random) -> None:
        """One of the repertoire, if it is possible now."""
        await getattr(self, f"_{operation}")(dice)
        await self.stage.step()

    # -- calls -------------------------------------------------------------------------------

    async def _ask(self, what: str, tool: str, **arguments: Any) -> CallToolResult | None:
        self._forget_steps()
        result = await self.line.call(tool, **arguments)
        self._forget_steps()
        return result

    def _forget_steps(self) -> None:
        if not self._survives and self._kills != self.stage.kills:
            self._kills = self.stage.kills
            for steps in self._steps.values():
                steps.clear()

    async def _edit(
        self,
        document: str,
        tool: str,
        what: str,
        step: Step,
        undo: bool = False,
        **arguments: Any,
    ) -> tuple[Outcome, dict[str, Any]]:
        """A call that changes a document, with all that follows from its answer."""
        ledger, stage = self.stage.ledger, self.stage
        what = f"{tool} {what}"
        edit = ledger.begin(self.name, what, step.adds, step.removes)
        before, down = stage.kills, stage.down
        result = await self._ask(what, tool, path=stage.paths[document], **arguments)
        killed = down or stage.kills > before
        facts: dict[str, Any] = (result.structured_content or {}) if result is not None else {}
        if result is not None and result.is_error and "cells" in facts:
            outcome, said = Outcome.done, f"not run: {facts['error']['code']}"
        else:
            outcome, said = stage.read(self.name, what, result, killed)
        ledger.end(edit, outcome, said)
        steps = self._steps[document]
        if outcome is Outcome.unknown:
            steps.clear()
        elif outcome is Outcome.done and undo:
            del steps[-1:]
        elif outcome is Outcome.done and (self._survives or not killed):
            steps.append(step)
        return outcome, facts

    # -- words in cells ----------------------------------------------------------------------

    def _pick(self, dice: Random, alone: bool = False, runs: bool = False) -> Cell | None:
        free = self.stage.cells.free(alone, runs)
        return dice.choice(free) if free else None

    async def _update(self, updates: list[dict[str, Any]], step: Step, what: str) -> None:
        await self._edit(
            NOTEBOOK,
            "batch_update_notebook_cells",
            what,
            step,
            updates=updates,
            exec=False,
        )

    def _insertion(self, cell: Cell, word: Word, dice: Random) -> dict[str, Any]:
        at = mark(self.name)
        if dice.random() < 0.5:
            old, new = at, f"{word.text}{at}"
        else:
            old = f"# {self.name}:"
            new = f"{old}{word.text}"
        return {"cell_id": cell.id, "old_text": old, "new_text": new}

    async def _write(self, dice: Random) -> None:
        cell = self._pick(dice)
        if cell is None:
            return
        word = self.stage.ledger.new(self.name, cell.id)
        with self.stage.cells.share([cell]):
            step = Step([word], cells=[cell])
            await self._update([self._insertion(cell, word, dice)], step, cell.id)

    async def _write_two(self, dice: Random) -> None:
        free = self.stage.cells.free(alone=False)
        if len(free) < 2:
            return
        cells = dice.sample(free, 2)
        words = [self.stage.ledger.new(self.name, cell.id) for cell in cells]
        with self.stage.cells.share(cells):
            updates = [self._insertion(c, w, dice) for c, w in zip(cells, words, strict=True)]
            await self._update(updates, Step(words, cells=cells), f"{[c.id for c in cells]}")

    async def _rewrite(self, dice: Random) -> None:
        """Read a cell, and write its whole text with the revision that was read."""
        cell = self._pick(dice)
        if cell is None:
            return
        with self.stage.cells.share([cell]):
            path = self.stage.paths[NOTEBOOK]
            read = await self._ask("read", "get_notebook", path=path, cell_ids=[cell.id])
            if read is None or read.is_error:
                return
            (shown,) = read.structured_content["cells"]
            source = str(shown["source"])
            mine = [
                word
                for word in self.stage.ledger.removable(cell.id, self.name)
                if word.text in source
            ]
            word = self.stage.ledger.new(self.name, cell.id)
            removed = [dice.choice(mine)] if mine and dice.random() < 0.5 else []
            if removed:
                content = source.replace(removed[0].text, word.text)
            else:
                content = source.replace(mark(self.name), f"{word.text}{mark(self.name)}")
            update = {
                "cell_id": cell.id,
                "content": content,
                "if_revision": shown["revision"],
            }
            await self._update([update], Step([word], removed, [cell]), f"{cell.id} whole")

    async def _replace(self, dice: Random, remove: bool = False) -> None:
        cell = self._pick(dice)
        if cell is None:
            return
        mine = self.stage.ledger.removable(cell.id, self.name)
        if not mine:
            return
        old = dice.choice(mine)
        new = [] if remove else [self.stage.ledger.new(self.name, cell.id)]
        with self.stage.cells.share([cell]):
            await self._swap(cell, old, new)

    async def _remove(self, dice: Random) -> None:
        await self._replace(dice, remove=True)

    async def _supersede(self, dice: Random) -> None:
        """Write over somebody else's word."""
        cell = self._pick(dice, alone=True)
        if cell is None:
            return
        words = self.stage.ledger.removable(cell.id)
        if not words:
            return
        with self.stage.cells.take([cell]):
            await self._swap(cell, dice.choice(words), [self.stage.ledger.new(self.name, cell.id)])

    async def _swap(self, cell: Cell, old: Word, new: list[Word]) -> None:
        update = {
            "cell_id": cell.id,
            "old_text": old.text,
            "new_text": "".join(word.text for word in new),
        }
        await self._update([update], Step(new, [old], [cell]), cell.id)

    # -- cells -------------------------------------------------------------------------------

    async def _insert(self, dice: Random) -> None:
        count = dice.choice([1, 1, 2])
        words = [self.stage.ledger.new(self.name, "") for _ in range(count)]
        types = [dice.choice(["code", "markdown"]) for _ in words]
        new = []
        for word, cell_type in zip(words, types, strict=True):
            text = cell_text(self.stage.cells.name(self.name))
            text = text.replace(mark(self.name), f"{word.text}{mark(self.name)}")
            new.append({"content": text, "cell_type": cell_type})
        where: dict[str, Any] = {}
        cell = self._pick(dice)
        if cell is not None and dice.random() < 0.6:
            where = {"after_cell_id": cell.id}
        elif dice.random() < 0.5:
            where = {"start_position": 0}
        step = Step(words)
        outcome, facts = await self._edit(
            NOTEBOOK,
            "batch_insert_notebook_cells",
            f"{where}",
            step,
            cells=new,
            exec=False,
            **where,
        )
        if outcome is not Outcome.done:
            return
        inserted = []
        for word, shown, cell_type in zip(words, facts["cells"], types, strict=True):
            inserted.append(self.stage.cells.add(shown["id"], cell_type))
            word.place = shown["id"]
        step.cells = step.inserted = inserted

    async def _delete(self, dice: Random) -> None:
        cell = self._pick(dice, alone=True)
        if cell is None or len(self.stage.cells.free(alone=False)) <= FEWEST_CELLS:
            return
        words = self.stage.ledger.removable(cell.id)
        step = Step((), words, [cell], types={cell: cell.types})
        with self.stage.cells.take([cell]):
            outcome, _ = await self._edit(
                NOTEBOOK, "batch_delete_notebook_cells", cell.id, step, cell_ids=[cell.id]
            )
            if outcome is Outcome.done:
                cell.types = frozenset()
            elif outcome is Outcome.unknown:
                self._doubt(cell)

    def _doubt(self, cell: Cell) -> None:
        cell.maybe_deleted = True
        for word in self.stage.ledger.words.values():
            if word.place == cell.id and word.fate is Fate.there:
                word.fate = Fate.maybe
                self.stage.ledger.note(f"{cell.id} may be deleted", word)

    async def _move(self, dice: Random) -> None:
        cell = self._pick(dice, alone=True)
        if cell is None:
            return
        with self.stage.cells.take([cell]):
            await self._edit(
                NOTEBOOK,
                "move_notebook_cells",
                cell.id,
                Step(cells=[cell]),
                cell_ids=[cell.id],
                to_index=dice.choice([0, 1, 3, -1]),
            )

    async def _retype(self, dice: Random) -> None:
        cell = self._pick(dice, alone=True)
        if cell is None or len(cell.types) == len(KINDS):
            return
        # To become what it is already would be no step to undo.
        wanted = dice.choice([kind for kind in KINDS if kind not in cell.types])
        before = cell.types
        with self.stage.cells.take([cell]):
            outcome, _ = await self._edit(
                NOTEBOOK,
                "batch_update_notebook_cells",
                f"{cell.id} to {wanted}",
                Step(cells=[cell], types={cell: before}),
                updates=[{"cell_id": cell.id, "cell_type": wanted}],
                exec=False,
            )
            if outcome is Outcome.done:
                cell.types = frozenset({wanted})
            elif outcome is Outcome.unknown:
                cell.types = before | {wanted}

    # -- undo --------------------------------------------------------------------------------

    async def _undo(self, dice: Random) -> None:
        self._forget_steps()
        steps = self._steps[NOTEBOOK]
        if not steps:
            return
        step, stage = steps[-1], self.stage
        back = [word for word in step.removes if word.fate is Fate.gone]
        away = [word for word in step.adds if word.fate is not Fate.gone]
        cells = list(step.cells)
        if any(word.claimed for word in [*back, *away]) or any(
            cell.alone or cell.shared for cell in cells
        ):
            return
        deleted = [cell for cell in cells if cell.deleted]
        returning = [cell for cell in deleted if cell in step.types]
        staying = {cell.id for cell in cells if not cell.deleted or cell in returning}
        back = [word for word in back if word.place in staying]
        with stage.cells.take(cells):
            outcome, _ = await self._edit(
                NOTEBOOK, "undo_agent_changes", "", Step(back, away), undo=True
            )
            if outcome is Outcome.done:
                for cell, types in step.types.items():
                    if cell in returning or not cell.deleted:
                        # Somebody may have given it another type since; then it keeps that.
                        cell.types = types if cell in returning else cell.types | types
                for cell in step.inserted:
                    cell.types = frozenset()
            elif outcome is Outcome.unknown:
                for cell, types in step.types.items():
                    cell.types |= types
                for cell in [*step.inserted, *returning]:
                    self._doubt(cell)

    async def _undo_text(self, dice: Random) -> None:
        self._forget_steps()
        steps = self._steps[TEXT]
        if not steps:
            return
        step = steps[-1]
        back = [word for word in step.removes if word.fate is Fate.gone]
        away = [word for word in step.adds if word.fate is not Fate.gone]
        if any(word.claimed for word in [*back, *away]):
            return
        await self._edit(TEXT, "undo_agent_changes", "", Step(back, away), undo=True)

    # -- kernels -----------------------------------------------------------------------------

    async def _run(self, dice: Random) -> None:
        cell = self._pick(dice, alone=True, runs=True)
        if cell is None:
            return
        stage = self.stage
        word = stage.ledger.new(self.name, cell.id)
        step = Step([word], stage.ledger.removable(cell.id), [cell])
        update = {"cell_id": cell.id, "content": f'print("{word.text}")'}
        with stage.cells.take([cell]):
            cell.output = None
            writes = stage.disk_writes
            outcome, facts = await self._edit(
                NOTEBOOK,
                "batch_update_notebook_cells",
                f"{cell.id} and run",
                step,
                updates=[update],
                exec=True,
                timeout=20,
            )
            states = [run["state"] for run in facts.get("runs", ())]
            stage.ledger.note(f"{self.name} ran {cell.id}: {states}")
            if outcome is Outcome.done and states == ["completed"] and writes == stage.disk_writes:
                cell.output = f"{word.text}\n"

    async def _restart_kernel(self, dice: Random) -> None:
        stage = self.stage
        before, down = stage.kills, stage.down
        result = await self._ask("restart", "restart_notebook_kernel", path=stage.paths[NOTEBOOK])
        stage.read(self.name, "restart", result, down or stage.kills > before)

    # -- files -------------------------------------------------------------------------------

    async def _rename(self, dice: Random) -> None:
        document = dice.choice([NOTEBOOK, TEXT])
        stage = self.stage
        async with stage.files:
            old = stage.paths[document]
            stem, _, ending = old.rpartition(".")
            new = f"{stem.partition('~')[0]}~{dice.randrange(10**6)}.{ending}"
            stage.renaming[document] = (old, new)
            before, down = stage.kills, stage.down
            stage.ledger.note(f"{self.name} renames {old} to {new}")
            result = await self._ask("rename", "rename_document", path=old, newPath=new)
            outcome, _ = stage.read(
                self.name, f"rename {old}", result, down or stage.kills > before
            )
            if outcome is Outcome.unknown:
                await stage.up()
            stage.find_renamed()
            del stage.renaming[document]
            if outcome is Outcome.done and stage.paths[document] != new:
                stage.ledger.complain(f"{old} was not renamed to {new}")
            stage.ledger.note(f"{self.name} renamed: {outcome.value}, {stage.paths[document]}")

    async def _copy(self, dice: Random) -> None:
        document = dice.choice([NOTEBOOK, TEXT])
        stage = self.stage
        async with stage.files:
            old = stage.paths[document]
            stem, _, ending = old.rpartition(".")
            new = f"copy-{stem}-{dice.randrange(10**6)}.{ending}"
            before, down = stage.kills, stage.down
            settled = stage.ledger.settled()
            result = await self._ask("copy", "copy_document", path=old, copyPath=new)
            killed = down or stage.kills > before
            outcome, _ = stage.read(self.name, f"copy {old}", result, killed)
            stage.ledger.note(f"{self.name} copied {old}: {outcome.value}")
            if outcome is Outcome.done:
                self._check_copy(document, new, stage.ledger.unchanged(settled))

    def _check_copy(self, document: str, name: str, words: list[Word]) -> None:
        stage = self.stage
        file = stage.file(document).with_name(name)
        text = file.read_text()
        if document == NOTEBOOK:
            whole = nbformat.reads(text, 4)  # type: ignore[no-untyped-call]
            nbformat.validate(whole)
            text = "\n".join(cell["source"] for cell in whole["cells"])
        found = WORD.findall(text)
        for word in words:
            if (word.place == TEXT) is (document == TEXT) and found.count(word.text) != 1:
                stage.ledger.complain(
                    f"{name} has {word.text} {found.count(word.text)} times: {word.history}"
                )

    # -- text --------------------------------------------------------------------------------

    async def _change_text(self, operation: dict[str, Any], step: Step) -> None:
        await self._edit(TEXT, "batch_update_document", "", step, operations=[operation])

    async def _write_text(self, dice: Random) -> None:
        word = self.stage.ledger.new(self.name, TEXT)
        at = mark(self.name)
        old, new = (at, f"{word.text}{at}")
        if dice.random() < 0.5:
            old, new = f"{self.name}:", f"{self.name}:{word.text}"
        await self._change_text({"old_text": old, "new_text": new}, Step([word]))

    async def _append_text(self, dice: Random) -> None:
        word = self.stage.ledger.new(self.name, TEXT)
        await self._change_text({"content": f"{word.text}\n"}, Step([word]))

    async def _replace_text(self, dice: Random) -> None:
        mine = self.stage.ledger.removable(TEXT, self.name)
        if mine:
            old, new = dice.choice(mine), self.stage.ledger.new(self.name, TEXT)
            operation = {"old_text": old.text, "new_text": new.text}
            await self._change_text(operation, Step([new], [old]))

    async def _delete_text(self, dice: Random) -> None:
        """Read the text, and delete a word at its place there."""
        read = await self._ask("read", "get_document", path=self.stage.paths[TEXT])
        if read is None or read.is_error:
            return
        facts = read.structured_content
        mine = [
            word
            for word in self.stage.ledger.removable(TEXT, self.name)
            if word.text in facts["content"]
        ]
        if not mine:
            return
        word = dice.choice(mine)
        place = {"position": facts["content"].index(word.text), "length": len(word.text)}
        await self._edit(
            TEXT,
            "batch_delete_text",
            "",
            Step((), [word]),
            operations=[place],
            if_revision=facts["revision"],
        )


async def play(
    stage: Stage,
    actor: Any,
    plan: Sequence[tuple[str, int]],
    pause: Callable[[Random], float],
) -> None:
    """Do what was planned, one after another."""
    for operation, seed in plan:
        dice = Random(seed)
        await actor.perform(operation, dice)
        await asyncio.sleep(pause(dice))

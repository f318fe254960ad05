"""What people do in a round: one with pycrdt and one with yjs, in tabs that they never close."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random

from tests.harness.collaborator import Collaborator
from tests.harness.yjs import YjsClient

from .ledger import Outcome, Word
from .places import Cell, cell_text, mark
from .stage import TEXT, Stage

ANA: dict[str, float] = {
    "type": 6,
    "paste": 4,
    "remove": 2,
    "insert": 1,
    "delete": 1,
    "type_text": 4,
    "paste_text": 2,
    "remove_text": 1,
}
YURI: dict[str, float] = {"type": 5, "paste": 5, "remove": 2}

#: Operations between two moments in which the server must have everything.
BURST = 3


class PersonActor:
    """Somebody who writes into cells. Subclasses know how."""

    name = ""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._seen = 0
        """Cells that were written anew until then are known."""

    async def perform(self, operation: str, dice: Random) -> None:
        """One of the repertoire, if it is possible now; some words, then the server has them."""
        async with self.stage.people.active():
            await getattr(self, f"_{operation}")(dice)
        await self.stage.step()

    async def flush(self) -> None:
        raise NotImplementedError

    async def put(self, cell: Cell, word: Word, at_once: bool) -> bool:
        raise NotImplementedError

    async def cut(self, cell: Cell, word: Word) -> bool:
        raise NotImplementedError

    async def _up_to_date(self, cell: Cell) -> None:
        """Have a cell as it was last written anew: what is typed into the old one is lost."""
        if cell.rebuilt > self._seen:
            seen = self.stage.cells.rebuilt
            await self.flush()
            self._seen = seen

    async def _into_cells(
        self, dice: Random, act: Callable[[Cell], Awaitable[None]], count: int
    ) -> None:
        free = self.stage.cells.free(alone=False)
        cells = dice.sample(free, min(count, len(free)))
        with self.stage.cells.share(cells), self._unsent():
            for cell in cells:
                await self._up_to_date(cell)
                await act(cell)
            await self.flush()

    @contextmanager
    def _unsent(self) -> Iterator[None]:
        """What is written meanwhile surely is in the room only afterwards."""
        known = set(self.stage.ledger.words)
        try:
            yield
        finally:
            for text, word in self.stage.ledger.words.items():
                if word.author == self.name and text not in known:
                    word.claimed = False

    async def _type(self, dice: Random, at_once: bool = False) -> None:
        async def act(cell: Cell) -> None:
            word = self.stage.ledger.new(self.name, cell.id)
            word.claimed = True
            how = "pastes" if at_once else "types"
            self.stage.ledger.note(f"{self.name} {how} {word.text} into {cell.id}", word)
            done = await self.put(cell, word, at_once)
            if done:
                self.stage.ledger.typed(word, f"{self.name} {how} into {cell.id}")
            else:
                self.stage.ledger.complain(f"{self.name} does not see {cell.id}")

        await self._into_cells(dice, act, dice.randint(1, BURST))

    async def _paste(self, dice: Random) -> None:
        await self._type(dice, at_once=True)

    async def _remove(self, dice: Random) -> None:
        async def act(cell: Cell) -> None:
            mine = self.stage.ledger.removable(cell.id, self.name)
            if mine:
                word = dice.choice(mine)
                edit = self.stage.ledger.begin(self.name, f"remove from {cell.id}", (), [word])
                done = await self.cut(cell, word)
                if not done:
                    self.stage.ledger.complain(f"{self.name} does not see {word.text}")

                self.stage.ledger.end(edit, Outcome.done)

        await self._into_cells(dice, act, 1)


class Ana(PersonActor):
    """In the notebook and in the text."""

    name = "ana"

    def __init__(self, stage: Stage, notebook: Collaborator, text: Collaborator) -> None:
        super().__init__(stage)
        self.notebook, self.text = notebook, text

    async def flush(self) -> None:
        await self.notebook.flush(60)

    async def put(self, cell: Cell, word: Word, at_once: bool) -> bool:
        if cell.id not in self.notebook.ids():
            return False
        position = self.notebook.source(cell.id).index(mark(self.name))
        if at_once:
            self.notebook.insert(cell.id, position, word.text)
        else:
            await self.notebook.type(cell.id, position, word.text, delay=0.004)
        return True

    async def cut(self, cell: Cell, word: Word) -> bool:
        source = self.notebook.source(cell.id)
        if word.text not in source:
            return False
        self.notebook.delete(cell.id, source.index(word.text), len(word.text))
        return True

    async def _insert(self, dice: Random) -> None:
        ledger, cells = self.stage.ledger, self.stage.cells
        word = ledger.new(self.name, "")
        text = cell_text(cells.name(self.name)).replace(
            mark(self.name), f"{word.text}{mark(self.name)}"
        )
        index = dice.randint(0, len(self.notebook.ids()))
        kind = dice.choice(["code", "markdown"])
        word.place = self.notebook.insert_cell(index, text, kind)
        word.claimed = True
        ledger.typed(word, f"ana inserts {word.place}")
        await self.flush()
        word.claimed = False
        cells.add(word.place, kind)

    async def _delete(self, dice: Random) -> None:
        free = self.stage.cells.free(alone=True)
        if len(free) <= 5:
            return
        cell = dice.choice(free)
        ledger = self.stage.ledger
        with self.stage.cells.take([cell]):
            await self._up_to_date(cell)
            await self.flush()
            edit = ledger.begin(self.name, f"delete {cell.id}", (), ledger.removable(cell.id))
            self.notebook.delete_cell(cell.id)
            cell.types = frozenset()

            ledger.end(edit, Outcome.done)
            await self.flush()

    async def _type_text(self, dice: Random, at_once: bool = False) -> None:
        word = self.stage.ledger.new(self.name, TEXT)
        word.claimed = True
        self.stage.ledger.note(f"ana types {word.text}", word)
        position = self.text.source().index(mark(self.name))
        if at_once:
            self.text.insert(None, position, word.text)
        else:
            await self.text.type(None, position, word.text, delay=0.004)
        self.stage.ledger.typed(word, "ana types into the text")
        await self.text.flush(60)
        word.claimed = False

    async def _paste_text(self, dice: Random) -> None:
        await self._type_text(dice, at_once=True)

    async def _remove_text(self, dice: Random) -> None:
        ledger = self.stage.ledger
        mine = ledger.removable(TEXT, self.name)
        if mine:
            word = dice.choice(mine)
            edit = ledger.begin(self.name, "remove from the text", (), [word])
            self.text.delete(None, self.text.source().index(word.text), len(word.text))
            ledger.end(edit, Outcome.done)
            await self.text.flush(60)


class Yuri(PersonActor):
    """In the notebook, with the real yjs."""

    name = "yuri"

    def __init__(self, stage: Stage, tab: YjsClient) -> None:
        super().__init__(stage)
        self.tab = tab

    async def flush(self) -> None:
        await self.tab.flush(60)

    async def put(self, cell: Cell, word: Word, at_once: bool) -> bool:
        for part in [word.text] if at_once else word.text:
            if not await self.tab.write(cell.id, mark(self.name), part):
                return False
        return True

    async def cut(self, cell: Cell, word: Word) -> bool:
        return await self.tab.cut(cell.id, word.text)

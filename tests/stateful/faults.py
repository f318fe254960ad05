"""What happens to the others in a round: the file is written on disk, and the server is killed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.harness.jupyter import JupyterProcess
from tests.harness.lines import Line
from tests.harness.waiting import until

from .ledger import Word
from .people import Ana, Yuri
from .stage import DISK, NOTEBOOK, TEXT, Stage


class Outsider:
    """Somebody who writes the files on disk, as an editor or git does.

    What people typed and nobody saved is lost then, as documented. So they pause and save first;
    agents go on. The server stands still while the file is read and written, so that nothing is
    saved in between; a save that it was just about to make may still win, and the file is then
    written again.
    """

    name = "disk"

    def __init__(self, stage: Stage, ana: Ana, yuri: Yuri, readers: list[Line]) -> None:
        self.stage, self.ana, self.yuri, self.readers = stage, ana, yuri, readers

    async def perform(self, operation: str, dice: Random) -> None:
        stage = self.stage
        await stage.progress(dice.randint(10, 40))
        if stage.over:
            return
        document = NOTEBOOK if operation == "overwrite_notebook" else TEXT
        async with stage.alive, stage.files, stage.people.paused():
            self._forget_outputs()
            word = stage.ledger.new(self.name, DISK if document == NOTEBOOK else TEXT)
            await self._save(document)
            replacing = dice.random() < 0.5
            for _ in range(5):
                stage.ledger.note(f"disk writes {word.text} into {stage.paths[document]}", word)
                await self._write(document, word, replacing)
                if await self._taken_over(document, word):
                    break
            self._forget_outputs()
            stage.ledger.typed(word, "disk: the room has it")
            for line in self.readers:
                await self._read(line, document)
            await self.ana.flush()
            await self.ana.text.flush()
            await self.yuri.flush()

    def _forget_outputs(self) -> None:
        """What a cell has printed is the file's afterwards: it is not reapplied."""
        self.stage.disk_writes += 1
        for cell in self.stage.cells.all.values():
            cell.output = None

    async def _save(self, document: str) -> None:
        """Wait until the file has all that people wrote."""
        tab = self.ana.notebook if document == NOTEBOOK else self.ana.text
        async with asyncio.timeout(30):
            while not self._saved(document):
                await tab.save()

    def _saved(self, document: str) -> bool:
        content = self.stage.content(document)
        places = {w.text: w.place for w in self.stage.ledger.words.values()}
        there, gone = self.stage.words_of("ana", "yuri")
        return bool(content) and all(
            (word in content) is wanted
            for words, wanted in ((there, True), (gone, False))
            for word in words
            if (places[word] == TEXT) is (document == TEXT)
        )

    async def _write(self, document: str, word: Word, replacing: bool) -> None:
        async with asyncio.timeout(30):
            while True:
                with stopped(self.stage.server):
                    if self._write_now(document, word, replacing):
                        return
                await asyncio.sleep(0.01)

    def _write_now(self, document: str, word: Word, replacing: bool) -> bool:
        """False if the server is just writing."""
        file = self.stage.file(document)
        text = file.read_text()
        if document == TEXT:
            if not text:
                return False
            changed = text.replace("disk:", f"disk:{word.text}", 1)
        else:
            try:
                whole = json.loads(text)
            except ValueError:
                return False
            (cell,) = [cell for cell in whole["cells"] if cell["id"] == DISK]
            cell["source"] = "".join(cell["source"]) + word.text
            changed = json.dumps(whole, indent=1)
        if replacing:
            beside = file.with_name("written-beside")
            beside.write_text(changed)
            beside.replace(file)
        else:
            file.write_text(changed)
        return True

    async def _taken_over(self, document: str, word: Word) -> bool:
        """Wait until the room has it; False if the server has saved over it."""
        tab = self.ana.notebook if document == NOTEBOOK else self.ana.text

        def seen() -> bool:
            return word.text in (tab.source(DISK) if document == NOTEBOOK else tab.source())

        def lost() -> bool:
            content = self.stage.content(document)
            return bool(content) and word.text not in content

        await until(lambda: seen() or lost(), 30)
        return seen()

    async def _read(self, line: Line, document: str) -> None:
        tool = "get_notebook" if document == NOTEBOOK else "get_document"
        path = self.stage.paths[document]
        result = await line.call(tool, path=path)
        self.stage.read(line.name, f"read {path}", result, False)


class Killer:
    """Kills the server, and starts it again."""

    name = "killer"

    def __init__(self, stage: Stage, rename: Callable[[], Awaitable[None]]) -> None:
        self.stage, self._rename = stage, rename

    async def perform(self, operation: str, dice: Random) -> None:
        stage = self.stage
        await stage.progress(dice.randint(15, 60))
        await asyncio.sleep(dice.uniform(0, 0.05))
        if stage.over:
            return
        async with stage.alive:
            stage.ledger.note("KILL")
            stage.went_down()
            stage.server.kill()
            if keep := os.environ.get("STATEFUL_KEEP"):
                self._keep(Path(keep) / f"{stage.name}-{stage.kills}")
            stage.find_renamed()
            await self._rename()
            await asyncio.sleep(dice.uniform(0, 0.5))  # tabs notice it, or do not
            await stage.server.start()
            stage.came_up()
            stage.ledger.note("the server is back")
            for kept in Path(stage.server.root).glob(f"{stage.name}*.recovered-*"):
                stage.ledger.complain(f"{kept.name}: nobody else wrote that file")

    def _keep(self, target: Path) -> None:
        """Keep what the server left, to see later what it could know at its next start."""
        shutil.copytree(self.stage.server.root, target / "root", dirs_exist_ok=True)
        shutil.copytree(self.stage.server.home / "data", target / "data", dirs_exist_ok=True)


@contextmanager
def stopped(server: JupyterProcess) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)

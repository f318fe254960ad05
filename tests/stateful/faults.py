"""What happens to the others in a round: the file is written on disk, and the server is killed."""

from __future__ import annotations

import asyncio
import contextlib
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

from .ledger import Broken, Fate, Word
from .people import Ana, Yuri
from .stage import DISK, NOTEBOOK, TEXT, Stage


class Outsider:
    """Somebody who writes the files on disk, as an editor or git does; once at least.

    What people typed and nobody saved is lost then, as documented. So they pause and save first;
    agents go on. The server stands still while the file is read and written, so that nothing is
    saved in between. A save that it was just about to make may still win; and a change that comes
    right after it wrote the file, and before it looked at the time of that, it takes for its own.
    The file is then written again.
    """

    name = "disk"

    def __init__(self, stage: Stage, ana: Ana, yuri: Yuri, readers: list[Line]) -> None:
        self.stage, self.ana, self.yuri, self.readers = stage, ana, yuri, readers

    async def perform(self, operation: str, dice: Random) -> None:
        stage = self.stage
        await stage.progress(dice.randint(10, 40))
        if stage.over and stage.disk_writes:
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
            else:
                raise Broken(f"the room of {stage.paths[document]} does not take over {word.text}")
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
        try:
            async with asyncio.timeout(30):
                while self._unsaved(document):
                    await tab.save()
        except TimeoutError:
            stage = self.stage
            wrong = [
                f"{word.text} of {word.place} is {word.fate.value}, but not for the file"
                + word.told
                for word in self._unsaved(document)
            ]
            said = [f"{stage.paths[document]} says {stage.content(document)!r}", f"{tab.name} sees"]
            seen = tab.sources() if document == NOTEBOOK else tab.source()
            raise Broken("\n".join([*wrong, *said, repr(seen)])) from None

    def _unsaved(self, document: str) -> list[Word]:
        """What people typed that the file lacks, and what they removed that it has."""
        content = self.stage.content(document)
        return [
            word
            for word in self.stage.ledger.words.values()
            if word.author in ("ana", "yuri")
            and (word.place == TEXT) is (document == TEXT)
            and word.fate is not Fate.maybe
            and (not content or (word.text in content) is not (word.fate is Fate.there))
        ]

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
        new = "" if json.dumps(word.text)[1:-1] in text or word.text in text else word.text
        if document == TEXT:
            if not text:
                return False
            changed = text.replace("disk:", f"disk:{new}", 1)
        else:
            try:
                whole = json.loads(text)
            except ValueError:
                return False
            (cell,) = [cell for cell in whole["cells"] if cell["id"] == DISK]
            cell["source"] = "".join(cell["source"]) + new
            changed = json.dumps(whole, indent=1)
        if replacing:
            beside = file.with_name("written-beside")
            beside.write_text(changed)
            beside.replace(file)
        else:
            file.write_text(changed)
        return True

    async def _taken_over(self, document: str, word: Word) -> bool:
        """Wait until the room has it; False if the server has saved over it, or seen no change."""
        tab = self.ana.notebook if document == NOTEBOOK else self.ana.text

        def seen() -> bool:
            return word.text in (tab.source(DISK) if document == NOTEBOOK else tab.source())

        def lost() -> bool:
            content = self.stage.content(document)
            return bool(content) and word.text not in content

        with contextlib.suppress(TimeoutError):
            await until(lambda: seen() or lost(), 6)  # it looks every second
        return seen()

    async def _read(self, line: Line, document: str) -> None:
        tool = "get_notebook" if document == NOTEBOOK else "get_document"
        path = self.stage.paths[document]
        result = await line.call(tool, path=path)
        self.stage.read(line.name, f"read {path}", result, False)


class Killer:
    """Kills the server, once at least, and starts it again."""

    name = "killer"

    def __init__(self, stage: Stage, rename: Callable[[], Awaitable[None]]) -> None:
        self.stage, self._rename = stage, rename

    async def perform(self, operation: str, dice: Random) -> None:
        stage = self.stage
        await stage.progress(dice.randint(15, 60))
        await asyncio.sleep(dice.uniform(0, 0.05))
        if stage.over and stage.kills:
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

"""Rounds in which agents of several processes and a person write in one document, while somebody
changes its file on disk.

Every word is written once and looks like no other, so that one sees what was lost or doubled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mcp_types import CallToolResult

from jupyter_collaboration_mcp.documents.handles import brief_id

from . import notebooks
from .agents import AgentClient, text_of
from .collaborator import Collaborator
from .jupyter import JupyterProcess
from .waiting import until

#: Servers that save and look at the file soon, so that a round takes little longer than its words.
SOON = {"YDocExtension": {"document_save_delay": 0.4, "file_poll_interval": 0.2}}

#: Seconds over which a round is spread, and for which its end has to stay as it is.
_LENGTH, _STEADY = 1.5, 0.8

#: What a person types: each letter another one.
_FIRST_LETTER = 0x4E00

Style = Literal["append", "move", "checkout"]
STYLES: tuple[Style, ...] = ("append", "move", "checkout")


class Kept(NamedTuple):
    """A mark that an agent was promised."""

    mark: str
    place: str
    """What a notice calls the place where it is."""
    told: int
    """Notices that came before it, and are not about it."""


class Writer:
    """An agent that writes, what it was promised, and what it was told since."""

    def __init__(self, name: str, client: AgentClient) -> None:
        self.name, self.client = name, client
        self.kept: list[Kept] = []
        self.uncertain: list[str] = []
        self.notices: list[str] = []

    def keep(self, mark: str, place: str, told: int) -> None:
        self.kept.append(Kept(mark, place, told))

    def knows_lost(self, kept: Kept) -> bool:
        """Whether it was told since that something in that place may be lost."""
        lost = re.compile(rf"could not be.*\b{re.escape(kept.place)}\b")
        return any(map(lost.search, self.notices[kept.told :]))

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        result = await self.client.call(tool, **arguments)
        facts = result.structured_content or {}
        self.notices += [said for said in facts.get("notices", ()) if "has not saved" not in said]
        return result


class TextRound:
    """A Markdown file with a line for each writer, a log for all of them, and one for a person."""

    kind: Literal["notebook", "file"] = "file"
    ending = ".md"

    def start(self, names: Sequence[str]) -> str:
        lines = [f"of-{name}:" for name in names]
        return "\n".join(["# notes", "", *lines, "person:", "", "# log", "# end", ""])

    def with_line(self, content: str, line: str, top: bool) -> str:
        return f"{line}\n{content}" if top else f"{content}{line}\n"

    async def write(self, writer: Writer, path: str, mark: str, how: int) -> CallToolResult:
        operations: list[dict[str, Any]] = [
            {"content": f"{mark}\n"},
            {"old_text": "# end\n", "new_text": f"{mark}\n# end\n"},
            {"old_text": f"of-{writer.name}:", "new_text": f"of-{writer.name}:{mark}"},
        ]
        return await writer.call("batch_update_document", path=path, operations=[operations[how]])

    def place(self, how: int, result: CallToolResult) -> str:
        """What a notice would call the place of what was written."""
        return "the text"

    async def read(self, writer: Writer, path: str) -> str:
        result = await writer.call("get_document", path=path)
        assert not result.is_error, text_of(result)
        return str(result.structured_content["content"])

    def seen_by(self, person: Collaborator) -> str:
        return person.source()

    def on_disk(self, file: Path) -> str:
        return file.read_text()

    def type(self, person: Collaborator, letter: str) -> None:
        if (place := person.source().find("person:")) >= 0:
            person.insert(None, place + len("person:"), letter)


class NotebookRound:
    """The same in the cells of a notebook."""

    kind: Literal["notebook", "file"] = "notebook"
    ending = ".ipynb"

    def start(self, names: Sequence[str]) -> str:
        lines = [f"of-{name}:" for name in names]
        cells = [
            notebooks.markdown("lines", "\n".join([*lines, "person:"])),
            notebooks.code("log", "# log\n# end"),
        ]
        return json.dumps(notebooks.notebook(cells), indent=1)

    def with_line(self, content: str, line: str, top: bool) -> str:
        notebook = json.loads(content)
        if top:
            for cell in notebook["cells"]:
                if cell["id"] in ("log", "lines"):
                    source = "".join(cell["source"])
                    cell["source"] = f"{line}\n{source}"
                    break
        else:
            notebook["cells"].append(notebooks.markdown(re.sub(r"\W", "", line), line))
        return json.dumps(notebook, indent=1, ensure_ascii=False)

    async def write(self, writer: Writer, path: str, mark: str, how: int) -> CallToolResult:
        if how == 0:
            cells = [{"content": mark, "cell_type": "markdown"}]
            return await writer.call(
                "batch_insert_notebook_cells", path=path, cells=cells, exec=False
            )
        update = [
            {"cell_id": "log", "old_text": "# end", "new_text": f"{mark}\n# end"},
            {
                "cell_id": "lines",
                "old_text": f"of-{writer.name}:",
                "new_text": f"of-{writer.name}:{mark}",
            },
        ][how - 1]
        return await writer.call(
            "batch_update_notebook_cells", path=path, updates=[update], exec=False
        )

    def place(self, how: int, result: CallToolResult) -> str:
        if how:
            return ("cell log", "cell lines")[how - 1]
        cells = result.structured_content["cells"]
        # The file may have overwritten it before the answer.
        return f"cell {brief_id(cells[0]['id'])}" if cells else "cell "

    async def read(self, writer: Writer, path: str) -> str:
        result = await writer.call("get_notebook", path=path)
        assert not result.is_error, text_of(result)
        return _joined([cell["source"] for cell in result.structured_content["cells"]])

    def seen_by(self, person: Collaborator) -> str:
        return _joined(person.sources())

    def on_disk(self, file: Path) -> str:
        return _joined(notebooks.sources(file))

    def type(self, person: Collaborator, letter: str) -> None:
        for cell, source in zip(person.ids(), person.sources(), strict=True):
            if (place := source.find("person:")) >= 0:
                person.insert(cell, place + len("person:"), letter)
                return


Form = TextRound | NotebookRound


class Round:
    """One document that many write in at once; `play` returns what went wrong.

    Args:
        writers: Agents; each may be one of another process.
        readers: Agents that only look.
        styles: How the file may be changed on disk.
        typing: Whether a person types meanwhile.
    """

    def __init__(
        self,
        server: JupyterProcess,
        form: Form,
        seed: int,
        writers: Sequence[Writer],
        readers: Sequence[Writer] = (),
        styles: Sequence[Style] = STYLES,
        typing: bool = True,
    ) -> None:
        self._form, self._random = form, random.Random(seed)
        self._writers, self._readers, self._styles = writers, readers, styles
        self._typing = typing
        self._file = Path(server.root) / f"round-{seed}{form.ending}"
        self._start = form.start([writer.name for writer in writers])
        self._person = Collaborator(server.url, server.token, self._file.name, kind=form.kind)
        self._removed: set[str] = set()
        self._there: set[str] = set()
        """What was typed and saved, or written to the file and taken over, and nobody removed."""
        self._letters = 0
        self._writes = 0
        self._over = asyncio.Event()
        self._log: list[str] = []
        """What happened, for who looks into a bad round."""

    def _tell(self, what: str) -> None:
        self._log.append(f"{time.time() % 1000:.3f} {what}")

    async def play(self) -> list[str]:
        self._file.write_text(self._start)
        everybody = [*self._writers, *self._readers]
        for agent in everybody:
            await self._form.read(agent, self._file.name)
        async with self._person:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._write(writer)) for writer in self._writers]
                tasks.append(group.create_task(self._change_file()))
                for reader in self._readers:
                    group.create_task(self._look(reader))
                if self._typing:
                    group.create_task(self._type())
                await asyncio.wait(tasks)
                self._over.set()
            bad = await self._settle(everybody)
            if not bad:
                bad = await self._last_change(everybody)
            if self._typing and not bad:
                bad = await self._last_word(everybody)
        return bad

    # -- what everybody does ------------------------------------------------------------------

    async def _write(self, writer: Writer) -> None:
        for number in range(self._random.randint(3, 7)):
            await self._pause()
            mark = f"<{writer.name}.{number}>"
            how = self._random.randrange(3)
            told = len(writer.notices)
            result = await self._form.write(writer, self._file.name, mark, how)
            if result.is_error:
                writer.uncertain.append(mark)
            else:
                writer.keep(mark, self._form.place(how, result), told)
            self._look_at_file()
            self._tell(f"{mark} {('appended', 'in the log', 'in a line')[how]}: {text_of(result)}")

    async def _look(self, reader: Writer) -> None:
        while not self._over.is_set():
            text = await self._form.read(reader, self._file.name)
            self._there |= {mark for mark in _DISK.findall(text) if mark not in self._removed}
            self._look_at_file()
            await self._pause()

    def _look_at_file(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._there |= set(_LETTER.findall(self._file.read_text()))

    async def _type(self) -> None:
        while not self._over.is_set():
            self._type_letter()
            await asyncio.sleep(self._random.uniform(0.01, 0.1))

    def _type_letter(self) -> str:
        letter = chr(_FIRST_LETTER + self._letters)
        self._letters += 1
        self._form.type(self._person, letter)
        return letter

    async def _change_file(self) -> None:
        for _ in range(self._random.randint(1, 3)):
            await self._pause()
            await self._pause()
            self._writes += 1
            style = self._random.choice(self._styles)
            self._tell(f"{style} [disk-{self._writes}]")
            self._change(style, f"[disk-{self._writes}]")

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.uniform(0, _LENGTH / 4))

    def _change(self, style: Style, mark: str) -> None:
        form, file = self._form, self._file
        top = self._random.random() < 0.5
        if style == "append" and form.kind == "file":
            with file.open("a") as opened:
                opened.write(f"{mark}\n")
            self._tell(f"append {mark}, beside {_marks(file.read_text())}")
            return
        content = self._start if style == "checkout" else file.read_text()
        try:
            written = form.with_line(content, mark, top)
        except ValueError:  # Jupyter is writing it
            return
        old = self._random.random() < 0.5
        if style == "move":
            beside = file.with_name(f"beside-{file.name}")
            beside.write_text(written)
            if old:
                os.utime(beside, (1_700_000_000, 1_700_000_000))
            self._note_removed(written)
            beside.replace(file)
        else:
            self._note_removed(written)
            if style == "checkout":
                file.unlink()
            file.write_text(written)

    def _note_removed(self, written: str) -> None:
        """What was saved, and is removed by whoever writes the file, is theirs to remove."""
        had, has = _marks(self._file.read_text()), _marks(written)
        before = {f"[disk-{number}]" for number in range(1, self._writes)}
        self._removed |= (set(had) - set(has)) | (before - set(_DISK.findall(written)))
        self._there &= {*_LETTER.findall(written), *_DISK.findall(written)}
        self._tell(f"the file had {had}, has {has}")

    # -- what is true in the end --------------------------------------------------------------

    async def _settle(self, agents: Sequence[Writer]) -> list[str]:
        """Wait until all read the same and the file says it too, and it stays so."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 90
        since, last = loop.time(), ""
        while loop.time() - since < _STEADY:
            said = sum(len(agent.notices) for agent in agents)
            texts = [await self._form.read(agent, self._file.name) for agent in agents]
            await self._person.flush()
            texts += [self._form.seen_by(self._person), self._form.on_disk(self._file)]
            quiet = said == sum(len(agent.notices) for agent in agents)
            if set(texts) != {last} or not quiet:
                since, last = loop.time(), texts[0]
            if loop.time() > deadline:
                return [f"they do not agree: {texts}"]
            await asyncio.sleep(0.05)
        return self._judge(last)

    def _judge(self, text: str) -> list[str]:
        bad = []
        for writer in self._writers:
            for kept in writer.kept:
                count = text.count(kept.mark)
                if count > 1:
                    bad.append(f"{kept.mark} is there {count} times")
                elif not count and kept.mark not in self._removed and not writer.knows_lost(kept):
                    bad.append(f"{kept.mark} is lost, and its agent was not told")
            bad += [f"{mark} is doubled" for mark in writer.uncertain if text.count(mark) > 1]
        for number in range(1, self._writes + 1):
            if text.count(f"[disk-{number}]") > 1:
                bad.append(f"[disk-{number}] is doubled")
        for letter in map(chr, range(_FIRST_LETTER, _FIRST_LETTER + self._letters)):
            if text.count(letter) > 1:
                bad.append(f"the typed letter {letter} is doubled")
        bad += [f"{token} was there, and is lost" for token in self._there if token not in text]
        for line in _LETTER.sub("", text).splitlines():  # a person's may be astray, as without us
            if not _LINE.fullmatch(line):
                bad.append(f"a torn line: {line!r}")
        for line in self._form_lines():
            if text.splitlines().count(line) > 1:
                bad.append(f"the line {line!r} is doubled")
        notices = [f"{writer.name} was told {writer.notices}" for writer in self._writers]
        return [*bad, *self._log, *notices, text] if bad else []

    def _form_lines(self) -> list[str]:
        return ["# notes", "# log", "# end"]

    async def _last_change(self, agents: Sequence[Writer]) -> list[str]:
        """What somebody writes to the file when all is quiet stays, beside all that was there."""
        there = self._form.on_disk(self._file)
        self._there |= {*_LETTER.findall(there), *_DISK.findall(there)}
        self._removed -= set(_marks(there))
        self._writes += 1
        mark = f"[disk-{self._writes}]"
        self._change("append", mark)
        with contextlib.suppress(TimeoutError):
            await until(lambda: mark in self._form.seen_by(self._person), timeout=20)
        self._there.add(mark)
        return await self._settle(agents)

    async def _last_word(self, agents: Sequence[Writer]) -> list[str]:
        """What a person types after it stays."""
        letter = self._type_letter()
        await self._person.flush()
        if "person:" not in self._form.seen_by(self._person):
            return []
        bad = await self._settle(agents)
        text = self._form.seen_by(self._person)
        return bad if text.count(letter) == 1 else [*bad, f"the last letter is not there: {text}"]


_LETTER = re.compile(r"[\u4e00-\u9fff]")
_DISK = re.compile(r"\[disk-\d+\]")
_MARK = r"<\w+\.\d+>"
_LINE = re.compile(rf"|# \w+|({_MARK})|(of-\w+:({_MARK})*)|(person:)|(\[disk-\d+\])|---")


def _marks(text: str) -> list[str]:
    return re.findall(_MARK, text)


def _joined(sources: Sequence[str]) -> str:
    return "\n---\n".join(sources)

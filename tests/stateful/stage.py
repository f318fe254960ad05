"""Where a round takes place: a server that may die, a notebook and a text that may be renamed."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult

from tests.harness import notebooks
from tests.harness.agents import text_of
from tests.harness.jupyter import JupyterProcess

from .ledger import Fate, Ledger, Outcome
from .places import AUTHORS, Cells, Pause, cell_text

NOTEBOOK, TEXT = "notebook", "text"

#: What an answer says of a deletion that a change of the file has undone, and of a place in which
#: edits may be lost because others wrote there.
_BACK = re.compile(r"cell (\S+), which was deleted, is back")
_CLASH = re.compile(r"in (?:cell (\S+)|the text) somebody wrote at the same place")

#: Whose edits may be lost if that is reported. What people typed never is.
_AGENTS = frozenset({"ada", "bob", "cleo"})

#: A call that was answered so has changed nothing.
REFUSALS = frozenset(
    {
        "stale_revision",
        "text_mismatch",
        "cell_not_found",
        "document_not_found",
        "undo_refused",
        "nothing_to_undo",
        "kernel_unavailable",
    }
)

#: The cells whose words only a writer of the file changes, and the cells that are run.
DISK, RUNS = "disk", ("run-0", "run-1")


class Stage:
    """What all actors of a round share.

    Args:
        server: With our extension.
        name: The beginning of all file names of this round.
    """

    def __init__(self, server: JupyterProcess, name: str) -> None:
        self.server, self.name = server, name
        self.ledger = Ledger()
        self.cells = Cells()
        self.paths = {NOTEBOOK: f"{name}.ipynb", TEXT: f"{name}.md"}
        self.renaming: dict[str, tuple[str, str]] = {}
        """Names that documents may have soon: from, to."""
        self.people = Pause()
        """People's typing."""
        self.files = asyncio.Lock()
        """Held by whoever renames, copies or writes a file."""
        self.alive = asyncio.Lock()
        """Held by whoever needs the server to live on."""
        self.kills = 0
        self.disk_writes = 0
        self._up = asyncio.Event()
        self._up.set()
        self._progress = asyncio.Condition()
        self._steps = 0

    def write(self) -> None:
        """The files as they are in the beginning."""
        cells: list[dict[str, Any]] = []
        for number in range(6):
            kind = ("code", "markdown")[number % 2]
            make = notebooks.code if kind == "code" else notebooks.markdown
            cells.append(make(f"cell-{number}", cell_text(f"cell-{number}")))
            self.cells.add(f"cell-{number}", kind)
        for cell_id in RUNS:
            cells.append(notebooks.code(cell_id, 'print("")'))
            self.cells.add(cell_id, runs=True)
        cells.append(notebooks.markdown(DISK, "disk:"))
        notebooks.write(self.file(NOTEBOOK), notebooks.notebook(cells))
        lines = ["disk:", "", *(f"{author}::{author}\n" for author in AUTHORS), "end"]
        self.file(TEXT).write_text("\n".join(lines) + "\n")

    def file(self, document: str) -> Path:
        return Path(self.server.root) / self.paths[document]

    def content(self, document: str) -> str:
        """The text on disk; of a notebook the sources one below the other. Empty while it is
        being written."""
        try:
            text = self.file(document).read_text()
            if document == NOTEBOOK:
                return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        except (ValueError, FileNotFoundError):
            return ""
        return text

    # -- a server that dies ------------------------------------------------------------------

    async def up(self) -> None:
        """Wait until the server can be reached."""
        await self._up.wait()

    def went_down(self) -> None:
        self.kills += 1
        self._up.clear()

    def came_up(self) -> None:
        self._up.set()

    @property
    def down(self) -> bool:
        return not self._up.is_set()

    def find_renamed(self) -> None:
        """Look under which name a file is whose renaming nobody has acknowledged."""
        for document, (old, new) in self.renaming.items():
            there = [name for name in (old, new) if (Path(self.server.root) / name).exists()]
            if len(there) != 1:
                self.ledger.complain(f"renaming {old} to {new} left {there}")
            self.paths[document] = there[-1] if there else old

    # -- progress ----------------------------------------------------------------------------

    async def step(self) -> None:
        """Somebody has done something."""
        async with self._progress:
            self._steps += 1
            self._progress.notify_all()

    async def progress(self, steps: int) -> None:
        """Wait until others have done something."""
        async with self._progress:
            goal = self._steps + steps
            await self._progress.wait_for(lambda: self._steps >= goal or self.over)

    over = False

    async def end(self) -> None:
        async with self._progress:
            self.over = True
            self._progress.notify_all()

    def _believe(self, notice: str) -> None:
        """What a change of the file has undone is not wrong if it is reported."""
        for beginning in _BACK.findall(notice):
            for cell_id in self._named(beginning):
                self.cells.all[cell_id].maybe_deleted = True
                self.ledger.doubt(cell_id, f"{cell_id} is reported to be back", {Fate.gone})
        for beginning in _CLASH.findall(notice):
            for place in self._named(beginning) if beginning else [TEXT]:
                self.ledger.doubt(place, "reported to be lost, perhaps", set(Fate), _AGENTS)

    def _named(self, beginning: str) -> list[str]:
        """The cells that an answer may mean: it shows the beginning of their ids."""
        return [cell_id for cell_id in self.cells.all if cell_id.startswith(beginning)]

    # -- answers -----------------------------------------------------------------------------

    def read(
        self, who: str, what: str, result: CallToolResult | None, killed: bool
    ) -> tuple[Outcome, str]:
        """What an answer means. Without a kill, every call is answered, and nothing of it is
        unknown."""
        if result is None:
            code, said = "no answer", ""
        elif not result.is_error:
            for notice in result.structured_content.get("notices", ()):
                self.ledger.note(f"{who} is told: {notice}")
                self._believe(notice)
            return Outcome.done, ""
        else:
            content = result.structured_content or {}
            code = content["error"]["code"] if "error" in content else "no code"
            said = text_of(result)[:300]
        if code in REFUSALS:
            return Outcome.refused, code
        if code == "internal_error" or not killed:
            self.ledger.complain(f"{who} {what}: {code} {said}")
        return Outcome.unknown, code

"""One round: all act at once by a plan that follows from a seed, and then all must agree."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import nbformat

from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.lines import Line
from tests.harness.standalone import StandaloneProcess
from tests.harness.yjs import YjsClient

from .agents import REPERTOIRE, AgentActor, play
from .faults import Killer, Outsider
from .ledger import WORD, Broken
from .people import ANA, YURI, Ana, Yuri
from .places import AUTHORS, bare, cell_text
from .stage import DISK, NOTEBOOK, RUNS, TEXT, Stage
from .witness import Witness

#: How many operations each does.
LENGTHS = {
    "ada": 32,
    "bob": 32,
    "cleo": 32,
    "ana": 30,
    "yuri": 30,
    "disk": 3,
    "killer": 2,
}

_log = logging.getLogger(__name__)

Plan = dict[str, list[tuple[str, int]]]


def plan_of(seed: str, without: frozenset[str] = frozenset()) -> Plan:
    """Who does what in which order. The number is the seed of all else that is left to chance."""
    dice = Random(seed)
    repertoires: dict[str, dict[str, float]] = {
        **dict.fromkeys(("ada", "bob", "cleo"), REPERTOIRE),
        "ana": ANA,
        "yuri": YURI,
        "disk": {"overwrite_notebook": 1, "overwrite_text": 1},
        "killer": {"kill": 1},
    }
    plan: Plan = {}
    for actor, length in LENGTHS.items():
        chosen = {
            name: weight
            for name, weight in repertoires[actor].items()
            if not {name, f"{actor}.{name}"} & without
        }
        names = dice.choices(list(chosen), list(chosen.values()), k=length) if chosen else []
        plan[actor] = [(name, dice.randrange(2**32)) for name in names]
    return plan


class Round:
    """One notebook and one text, with all who work on them."""

    def __init__(self, server: JupyterProcess, command: StandaloneProcess, seed: str) -> None:
        self.server, self.command, self.seed = server, command, seed
        self.stage = Stage(server, f"round-{seed.replace('/', '-')}")

    async def play(self, plan: Plan) -> None:
        stage = self.stage
        stage.write()
        if not self.server.running:  # a round before this one was broken
            await self.server.start()
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            address = (self.server.url, self.server.token)
            lines = {
                "ada": await enter(Line(self.server, "ada", stage.up)),
                "bob": await enter(Line(self.server, "bob", stage.up)),
                "cleo": await enter(Line(self.command, "cleo", stage.up)),
                "reader": await enter(Line(self.server, "reader", stage.up)),
                "outside": await enter(Line(self.command, "outside", stage.up)),
            }
            notebook = await enter(Collaborator(*address, stage.paths[NOTEBOOK], "Ana"))
            text = await enter(Collaborator(*address, stage.paths[TEXT], "Ana", kind="file"))
            for watched in (notebook, text):
                await watched.flush()
                Witness(stage.ledger, watched)
            tab = await enter(YjsClient(self.server, stage.paths[NOTEBOOK]))
            self.ana, self.yuri, self.lines = Ana(stage, notebook, text), Yuri(stage, tab), lines
            actors: dict[str, Any] = {
                name: AgentActor(stage, lines[name], survives=name == "cleo")
                for name in ("ada", "bob", "cleo")
            }
            actors |= {"ana": self.ana, "yuri": self.yuri}
            faults: dict[str, Any] = {
                "disk": Outsider(stage, self.ana, self.yuri, [lines["reader"], lines["outside"]]),
                "killer": Killer(stage, self._follow_renames),
            }
            try:
                await self._act(actors, faults, plan)
                _log.info("%s %s", self.seed, stage.ledger.summary())
                await self._check()
            except BaseException as error:
                self._explain(error)
                raise

    async def _act(self, actors: dict[str, Any], faults: dict[str, Any], plan: Plan) -> None:
        stage = self.stage
        following = asyncio.create_task(self._keep_following())
        disturbing = [
            asyncio.create_task(play(stage, actor, plan[name], lambda dice: 0))
            for name, actor in faults.items()
        ]
        acting = [
            asyncio.create_task(
                play(stage, actor, plan[name], lambda dice: dice.uniform(0, 0.05)), name=name
            )
            for name, actor in actors.items()
        ]
        async with asyncio.timeout(120):
            done, waiting = await asyncio.wait(acting, return_when=asyncio.FIRST_EXCEPTION)
            if not waiting:
                await stage.end()
                await asyncio.gather(*disturbing)
        for task in [*waiting, *disturbing, following]:
            task.cancel()
        await asyncio.gather(*waiting, *disturbing, following, return_exceptions=True)
        for task in done:
            task.result()

    async def _keep_following(self) -> None:
        while True:
            await self._follow_renames()
            await asyncio.sleep(0.05)

    async def _follow_renames(self) -> None:
        """Tabs look for their document under the name that it has now."""
        path = self.stage.paths[NOTEBOOK]
        if self.ana.notebook.path != path:
            self.ana.notebook.path = path
            await self.yuri.tab.rename(path)
        self.ana.text.path = self.stage.paths[TEXT]

    # -- the end -----------------------------------------------------------------------------

    async def _check(self) -> None:
        stage = self.stage
        cells = await self._agreement()
        wrong = list(stage.ledger.complaints)
        texts = {cell["id"]: cell["source"] for cell in cells}
        if len(texts) != len(cells):
            wrong.append(f"ids are not unique: {[cell['id'] for cell in cells]}")
        texts[TEXT] = self.ana.text.source()
        wrong += stage.ledger.judge(texts, "in the end")
        wrong += self._skeleton(cells, texts[TEXT])
        wrong += self._cells(cells)
        if wrong:
            raise Broken("\n".join(wrong))

    async def _agreement(self) -> list[dict[str, Any]]:
        """Wait until all replicas and the files agree; returns the cells."""
        stage = self.stage
        seen: dict[tuple[str, str], Any] = {}
        try:
            async with asyncio.timeout(30):
                while True:
                    seen = await self._replicas()
                    notebooks = [view for name, view in seen.items() if name[0] == NOTEBOOK]
                    texts = [view for name, view in seen.items() if name[0] == TEXT]
                    if all(view == notebooks[0] for view in notebooks) and all(
                        view == texts[0] for view in texts
                    ):
                        break
                    await asyncio.sleep(0.2)
        except TimeoutError:
            views = {document: seen[document, "ada"] for document in (NOTEBOOK, TEXT)}
            said = "\n".join(
                f"{name}: {'the same' if view == views[name[0]] and name[1] != 'ada' else view}"
                for name, view in seen.items()
            )
            raise Broken("\n".join([*stage.ledger.complaints, "no agreement:", said])) from None
        mine = [self.ana.notebook.cell(cell_id) for cell_id in self.ana.notebook.ids()]
        whole = nbformat.reads(stage.file(NOTEBOOK).read_text(), 4)  # type: ignore[no-untyped-call]
        nbformat.validate(whole)
        saved = [_plain(cell) for cell in whole["cells"]]
        if saved != (room := [_plain(cell) for cell in mine]):
            raise Broken(f"file and room differ:\n{saved}\n{room}")
        return mine

    async def _replicas(self) -> dict[tuple[str, str], Any]:
        """What everybody sees: the id and text of each cell, and the text."""
        ana, stage = self.ana, self.stage
        seen: dict[tuple[str, str], Any] = {}
        for name, line in self.lines.items():
            result = await line.call("get_notebook", path=stage.paths[NOTEBOOK])
            stage.read(name, "read", result, False)
            seen[NOTEBOOK, name] = result and [
                (cell["id"], cell["source"]) for cell in result.structured_content.get("cells", ())
            ]
            result = await line.call("get_document", path=stage.paths[TEXT])
            stage.read(name, "read", result, False)
            seen[TEXT, name] = result and result.structured_content.get("content")
        await ana.flush()
        await ana.text.flush()
        await self.yuri.flush()
        seen[NOTEBOOK, "ana"] = list(zip(ana.notebook.ids(), ana.notebook.sources(), strict=True))
        seen[TEXT, "ana"] = ana.text.source()
        view = await self.yuri.tab.view()
        seen[NOTEBOOK, "yuri"] = "pending" if view.pending else view.cells
        try:
            whole = json.loads(stage.file(NOTEBOOK).read_text())
            seen[NOTEBOOK, "file"] = [(c["id"], "".join(c["source"])) for c in whole["cells"]]
        except ValueError:
            seen[NOTEBOOK, "file"] = "is being written"
        seen[TEXT, "file"] = stage.file(TEXT).read_text()
        return seen

    def _skeleton(self, cells: list[dict[str, Any]], text: str) -> list[str]:
        """Between the words there is only what was there in the beginning."""
        wrong = []
        for cell in cells:
            left = WORD.sub("", cell["source"])
            if cell["id"] in RUNS:
                right = left == 'print("")'
            elif cell["id"] == DISK:
                right = left == "disk:"
            else:
                right = bare(left) == bare(cell_text(""))
            if not right:
                wrong.append(f"{cell['id']} reads {cell['source']!r}")
        lines = [line for line in WORD.sub("", text).splitlines() if line]
        if lines != ["disk:", *(f"{author}::{author}" for author in AUTHORS), "end"]:
            wrong.append(f"the text reads {text!r}")
        return wrong

    def _cells(self, cells: list[dict[str, Any]]) -> list[str]:
        """Each cell is there or not, is of its type, and shows what it printed."""
        wrong = []
        found = {cell["id"]: cell for cell in cells}
        for cell in self.stage.cells.all.values():
            there = found.pop(cell.id, None)
            if there is None:
                if not (cell.deleted or cell.maybe_deleted):
                    wrong.append(f"{cell.id} is missing")
            elif cell.deleted and not cell.maybe_deleted:
                wrong.append(f"{cell.id} was deleted, and is there")
            elif cell.types and there["cell_type"] not in cell.types:
                wrong.append(f"{cell.id} is {there['cell_type']}, not {set(cell.types)}")
            elif cell.output is not None:
                printed = "".join(output.get("text", "") for output in there["outputs"])
                if printed != cell.output:
                    wrong.append(f"{cell.id} shows {printed!r}, not {cell.output!r}")
        if DISK not in found:
            wrong.append(f"{DISK} is missing")
        return wrong

    def _explain(self, error: BaseException) -> None:
        history = "\n".join(self.stage.ledger.events[-400:])
        error.add_note(f"STATEFUL_SEED={self.seed.partition('/')[0]}, round {self.seed}")
        error.add_note(f"The history:\n{history}")
        error.add_note(f"The command's log:\n{self.command.log[-3000:]}")


def _plain(cell: dict[str, Any]) -> dict[str, Any]:
    """What file and room must have in common."""
    outputs = [
        {**output, "text": "".join(output["text"])} if "text" in output else dict(output)
        for output in cell.get("outputs", ())
    ]
    return {
        "id": cell["id"],
        "cell_type": cell["cell_type"],
        "source": cell["source"],
        "outputs": json.loads(json.dumps(outputs)),
        "count": int(cell["execution_count"]) if cell.get("execution_count") else None,
    }

"""The same requests while a person edits: what it takes to recover, and what is lost."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Awaitable, Callable
from difflib import SequenceMatcher
from pathlib import Path

from ..measuring import Row
from .intents import INTENTS
from .intents.intent import Intent
from .places import Place
from .sides import Peer

SEED = 7

#: What the person does after the agent has read and before it changes anything.
QUIET, ELSEWHERE, ABOVE, SAME = "nobody", "another cell", "a cell above", "the same cell"
_KINDS = (QUIET, ELSEWHERE, ABOVE, SAME)

#: What the person writes, with a number.
_MARK = re.compile(r"\n?# Ana \d+")

CONTESTED = tuple(intent for intent in INTENTS if intent.contested)


def _copy(start: Path, root: Path) -> None:
    """Notebooks for each kind, so that all begin alike."""
    for path in {intent.path for intent in CONTESTED}:
        for kind in _KINDS:
            shutil.copy(start / path, root / _path(path, kind))


def _path(path: str, kind: str) -> str:
    return path.replace(".ipynb", f"-{kind.replace(' ', '-')}.ipynb")


async def disturbed(here: Place, there: Place, start: Path) -> list[Row]:
    """Rows about each kind of disturbance; `start` has the notebooks as they were."""
    for place in (here, there):
        _copy(start, place.server.root)
    rows = []
    quiet_calls: dict[Place, int] = {}
    quiet_cells: dict[tuple[Place, str], list[str]] = {}
    for kind in _KINDS:
        counts = []
        for place in (there, here):
            calls, marks = await _afternoon(place, kind)
            lost = damaged = 0
            for path in sorted({intent.path for intent in CONTESTED}):
                sources = [cell["source"] for cell in await place.cells(_path(path, kind))]
                cleaned = _without_marks(sources)
                if kind == QUIET:
                    quiet_cells[place, path] = cleaned
                lost -= sum(len(_MARK.findall(source)) for source in sources)
                damaged += _differences(quiet_cells[place, path], cleaned)
            quiet_calls.setdefault(place, calls)
            counts.append((calls - quiet_calls[place], lost + marks, damaged))
        if kind != QUIET:
            for name, theirs, mine in zip(
                ("recovery calls", "lost edits of the person", "wrong cells at the end"),
                *counts,
                strict=True,
            ):
                rows.append(_row(f"a person edits {kind}: {name}", theirs, mine))
    return rows


def _row(case: str, theirs: int, mine: int) -> Row:
    return Row("day", case, len(CONTESTED), "", theirs, None, mine, None, mine, None)


async def _afternoon(place: Place, kind: str) -> tuple[int, int]:
    """Work through what is contested; how many calls, and how many edits of the person."""
    calls = marks = 0
    plan = random.Random(SEED)
    for number, intent in enumerate(CONTESTED):
        path = _path(intent.path, kind)
        place.side.begin(intent.request)
        if isinstance(place.side, Peer):
            place.side.wary = True
        if kind != QUIET:
            place.side.before_change = _act(place, path, intent, kind, number, plan.random())
            marks += 1
        await intent.fulfil(place.side, path)
        calls += place.side.cost.calls
    return calls, marks


def _act(
    place: Place, path: str, intent: Intent, kind: str, number: int, chance: float
) -> Callable[[], Awaitable[None]]:
    async def act() -> None:
        async with place.person(path) as ana:
            sources = ana.sources()
            target = next(n for n, source in enumerate(sources) if intent.contested in source)
            if kind == ABOVE:
                ana.insert_cell(0, f"# Ana {number}", "markdown")
            else:
                others = [n for n in range(len(sources)) if n != target]
                chosen = target if kind == SAME else others[int(chance * len(others))]
                ana.insert(chosen, len(sources[chosen]), f"\n# Ana {number}")
            await ana.flush()

    return act


def _without_marks(sources: list[str]) -> list[str]:
    cleaned = ((source, _MARK.sub("", source)) for source in sources)
    return [clean for source, clean in cleaned if clean or not source]


def _differences(wanted: list[str], found: list[str]) -> int:
    """How many cells are missing, changed, misplaced or too many."""
    matcher = SequenceMatcher(None, wanted, found, autojunk=False)
    return sum(max(b - a, d - c) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal")

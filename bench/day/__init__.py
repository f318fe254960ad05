"""An agent's working day in tokens: thirty requests, here and at jupyter-mcp-server.

Both do the same work, each with the fewest tokens that its tools allow, and both leave the same
notebooks behind. Part of the day is then repeated with a person who edits meanwhile.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from ..measuring import Goal, Row, Sizes
from ..tokens import CHARACTERS_PER_TOKEN
from . import corpus
from .agreement import agree
from .intents import INTENTS
from .intents.intent import Intent
from .meanwhile import disturbed
from .places import Place, has_peer, make_peer, our_client, ours, peers
from .sides import Cost, Ours, Side

ALL_TOKENS, CALM_TOKENS, CALLS = Goal(0.2), Goal(0.6), Goal(0.2)

#: Names a file that gets all calls and answers, for whoever wants to make answers shorter.
TRANSCRIPT = "DAY_TRANSCRIPT"


async def run(sizes: Sizes) -> list[Row]:
    intents = INTENTS[: sizes.intents]
    whole = len(intents) == len(INTENTS)
    if whole:
        make_peer()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        start = Path(folder) / "start"
        start.mkdir()
        corpus.make(start)
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(ours(_copy(start, "ours")))
            core = await stack.enter_async_context(our_client(here.server, toolsets="core"))
            schemas = {"default": await here.side.schemas(), "core": await Ours(core).schemas()}
            if not has_peer():
                mine = [await _spend(here, intent) for intent in intents]
                return _lone_rows(intents, mine, schemas)
            there = await stack.enter_async_context(peers(_copy(start, "peer")))
            schemas["peer"] = await there.side.schemas()
            mine, theirs = [], []
            for intent in intents:
                mine.append(await _spend(here, intent))
                theirs.append(await _spend(there, intent))
                await agree([here, there], intent.path)
            rows = _rows(intents, mine, theirs, schemas)
            return rows + (await disturbed(here, there, start) if whole else [])


def _copy(start: Path, name: str) -> Path:
    return Path(shutil.copytree(start, start.parent / name))


async def _spend(place: Place, intent: Intent) -> Cost:
    """What a request costs at a place."""
    side = place.side
    side.begin(intent.request)
    if intent.overtaken is not None:
        side.before_change = place.overtake(intent.path, *intent.overtaken)
    await intent.fulfil(side, intent.path)
    if name := os.environ.get(TRANSCRIPT):
        _record(Path(name), intent, side)
    return side.cost


def _record(path: Path, intent: Intent, side: Side) -> None:
    with path.open("a") as file:
        file.write(f"\n##### {intent.name}: {side.name}, {side.cost.tokens:.0f} tokens\n")
        for sent, answer in side.log:
            file.write(f"\n>>> {sent}\n{answer.text}\n[{answer.images} images]\n")


def _lone_rows(
    intents: Sequence[Intent], mine: Sequence[Cost], schemas: dict[str, float]
) -> list[Row]:
    named = [
        (f"{intent.name} ({cost.calls} calls)", cost.tokens)
        for intent, cost in zip(intents, mine, strict=True)
    ]
    named += [("schemas", schemas["default"]), ("schemas of core", schemas["core"])]
    return [Row.absolute("day", name, [tokens], None, "tokens") for name, tokens in named]


def _rows(
    intents: Sequence[Intent],
    mine: Sequence[Cost],
    theirs: Sequence[Cost],
    schemas: dict[str, float],
) -> list[Row]:
    pairs = list(zip(intents, mine, theirs, strict=True))
    calm = [pair for pair in pairs if not pair[0].floods]
    our_day, their_day = sum(mine, Cost()), sum(theirs, Cost())
    rows = [
        beside(
            f"{intent.name} ({a.calls}:{b.calls} calls){' FLOOD' if intent.floods else ''}",
            b.tokens,
            a.tokens,
        )
        for intent, a, b in pairs
    ]
    both = schemas["peer"], schemas["default"]
    rows += [
        beside("schemas", *both),
        beside("schemas of core", schemas["peer"], schemas["core"]),
        beside(
            f"all {len(pairs)} and schemas",
            their_day.tokens + both[0],
            our_day.tokens + both[1],
            ALL_TOKENS,
        ),
        beside(
            f"the {len(calm)} that do not flood, and schemas",
            sum(b.tokens for _, _, b in calm) + both[0],
            sum(a.tokens for _, a, _ in calm) + both[1],
            CALM_TOKENS,
        ),
        beside(
            "the same, if the agent still knows where cells are",
            sum(b.tokens_if_known for _, _, b in calm) + both[0],
            sum(a.tokens_if_known for _, a, _ in calm) + both[1],
        ),
        beside(f"all {len(pairs)}", their_day.calls, our_day.calls, CALLS, "calls"),
        beside(f"all {len(pairs)} without schemas", their_day.tokens, our_day.tokens),
        beside(
            f"all {len(pairs)}, what the model writes",
            their_day.written / CHARACTERS_PER_TOKEN,
            our_day.written / CHARACTERS_PER_TOKEN,
        ),
        beside(f"all {len(pairs)}, pictures", their_day.images, our_day.images, unit="pictures"),
        beside(f"all {len(pairs)}", their_day.size / 1e3, our_day.size / 1e3, unit="KB"),
        beside(f"all {len(pairs)}", their_day.seconds, our_day.seconds, unit="s"),
    ]
    return rows


def beside(
    case: str, theirs: float, mine: float, goal: Goal | None = None, unit: str = "tokens"
) -> Row:
    """The peer's figure as the floor, ours, and their ratio."""
    ratio = mine / theirs if theirs else float(mine > 0)
    return Row("day", case, 1, unit, theirs, None, mine, None, ratio, goal)

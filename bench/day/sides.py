"""The two servers of the day, and what each costs a model that works with it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from mcp import Client
from mcp_types import ImageContent, TextContent

from ..tokens import CHARACTERS_PER_TOKEN, compact

#: What a model pays for one picture, whichever server sends it. A picture that comes as base64
#: text counts as text.
IMAGE_TOKENS = 1_000

#: Arguments that quote a notebook. An agent has read them, or the person has said them.
_QUOTED = ("cell_id", "cell_ids", "after_cell_id", "old_text", "old_string", "run_id")

BeforeChange = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Cost:
    """What some calls cost."""

    calls: int = 0
    written: int = 0
    """Characters of the calls, as a model writes them."""
    read: int = 0
    """Characters of the answers, as a model reads them."""
    images: int = 0
    size: int = 0
    """Bytes of the answers, as they come over the wire."""
    seconds: float = 0
    looking: int = 0
    """Characters, of all these, for where a cell is, which an agent may still know."""

    @property
    def tokens(self) -> float:
        return (self.written + self.read) / CHARACTERS_PER_TOKEN + self.images * IMAGE_TOKENS

    @property
    def tokens_if_known(self) -> float:
        """Without the calls that only tell where a cell is."""
        return self.tokens - self.looking / CHARACTERS_PER_TOKEN

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.calls + other.calls,
            self.written + other.written,
            self.read + other.read,
            self.images + other.images,
            self.size + other.size,
            self.seconds + other.seconds,
            self.looking + other.looking,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model reads of an answer."""

    text: str
    is_error: bool
    images: int = 0

    def line_with(self, wanted: str) -> str:
        """The first line that has a text."""
        for line in self.text.splitlines():
            if wanted in line:
                return line
        raise Illegal(f"{wanted!r} is not in the answer: {self.text[:2_000]}")


class Illegal(Exception):
    """A script of the day uses what its agent cannot know, or what is not so."""


class Side:
    """An agent at one server, whose calls are counted.

    It may only quote what it has read since the request, or what is in the request.
    """

    name = ""
    #: Tools that change a notebook or run it.
    changing: frozenset[str] = frozenset()

    def __init__(self, client: Client) -> None:
        self.client = client
        self.cost = Cost()
        self.log: list[tuple[str, Answer]] = []
        """Calls since the request, with their answers."""
        self.before_change: BeforeChange | None = None
        """Called once, before the first change of an intent: the person's moment."""
        self._known = ""

    def begin(self, request: str) -> None:
        """Forget what was read: somebody asks for something else."""
        self.cost = Cost()
        self.log = []
        self.before_change = None
        self._known = request

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Make a call that succeeds."""
        answer = await self.attempt(tool, **arguments)
        if answer.is_error:
            raise Illegal(f"{self.name}: {tool} {arguments}: {answer.text}")
        return answer

    async def look(self, tool: str, **arguments: Any) -> Answer:
        """Make a call that tells where cells are."""
        before = self.cost.written + self.cost.read
        answer = await self.call(tool, **arguments)
        self.cost.looking += self.cost.written + self.cost.read - before
        return answer

    async def attempt(self, tool: str, **arguments: Any) -> Answer:
        """Make a call that may be refused."""
        self._check(arguments)
        if tool in self.changing and self.before_change is not None:
            act, self.before_change = self.before_change, None
            await act()
        began = perf_counter()
        result = await self.client.call_tool(tool, arguments)
        seconds = perf_counter() - began
        texts = [part.text for part in result.content if isinstance(part, TextContent)]
        images = sum(isinstance(part, ImageContent) for part in result.content)
        answer = Answer("\n".join(texts), bool(result.is_error), images)
        sent = compact({"name": tool, "arguments": arguments})
        size = len(result.model_dump_json(by_alias=True, exclude_none=True).encode())
        self.cost += Cost(1, len(sent), sum(map(len, texts)), images, size, seconds)
        self.log.append((sent, answer))
        self._known += "\n" + answer.text
        return answer

    async def schemas(self) -> float:
        """Tokens of what a model reads before it does anything."""
        tools = (await self.client.list_tools()).tools
        shown = [[tool.name, tool.description, tool.input_schema] for tool in tools]
        instructions = self.client.instructions or ""
        return (sum(len(compact(tool)) for tool in shown) + len(instructions)) / (
            CHARACTERS_PER_TOKEN
        )

    def _check(self, arguments: Mapping[str, Any]) -> None:
        for text in _quotes(arguments):
            if text not in self._known:
                raise Illegal(f"{self.name} quotes what it has not read: {text!r}")


def _quotes(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _QUOTED:
                for text in inner if isinstance(inner, list) else [inner]:
                    said = str(text).removeprefix("text:")
                    yield from said.split("@") if "cell" in name else [said]
            else:
                yield from _quotes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _quotes(inner)


@dataclass(frozen=True, slots=True)
class Handle:
    """A cell as our answers show it."""

    index: int
    id: str
    revision: str
    line: str = field(compare=False)

    @property
    def guarded(self) -> str:
        """What to name it with, so that nothing happens to it if it has changed."""
        return f"{self.id}@{self.revision}"


#: `[3] 8f2c41d0 r:9ab1c2`, and `[3] 8f2c41d0@9ab1c2`.
_HANDLE = re.compile(r"\[(\d+)\] ([\w-]+)(?:@| r:)([0-9a-f]{6})\b[^\n]*")


def handles(text: str) -> list[Handle]:
    """The cells that an answer of ours shows."""
    return [Handle(int(found[1]), found[2], found[3], found[0]) for found in _HANDLE.finditer(text)]


class Ours(Side):
    """An agent at this project's server."""

    name = "ours"
    changing = frozenset(
        {
            "batch_update_notebook_cells",
            "batch_insert_notebook_cells",
            "batch_delete_notebook_cells",
            "move_notebook_cells",
            "execute_notebook_cell",
            "batch_execute_notebook_cells",
            "clear_notebook_outputs",
        }
    )

    async def update(self, path: str, *updates: Mapping[str, Any], **more: Any) -> Answer:
        """Change cells that were read; where somebody was faster, see what they did and repeat."""
        tool = "batch_update_notebook_cells"
        answer = await self.attempt(tool, path=path, updates=list(updates), **more)
        tries = 0
        while answer.is_error and tries < len(updates):
            updates = tuple(_renewed(update, answer) for update in updates)
            answer = await self.attempt(tool, path=path, updates=list(updates), **more)
            tries += 1
        if answer.is_error:
            raise Illegal(answer.text)
        return answer


def _renewed(update: Mapping[str, Any], answer: Answer) -> Mapping[str, Any]:
    cell_id, _, revision = str(update["cell_id"]).partition("@")
    if not revision or cell_id not in answer.text:
        return update
    return {**update, "cell_id": newer(answer, str(update["cell_id"]))}


def newer(answer: Answer, guarded: str) -> str:
    """A cell that somebody has changed, as it is now, from the error that shows it."""
    if "stale_revision" not in answer.text:
        raise Illegal(answer.text)
    cell_id, _, revision = guarded.partition("@")
    found = re.finditer(r"(?:r:|@|if_revision\W+)([0-9a-f]{6})\b", answer.text)
    now = next(other[1] for other in found if other[1] != revision)
    return f"{cell_id}@{now}"


class Peer(Side):
    """An agent at jupyter-mcp-server."""

    name = "peer"
    changing = frozenset(
        {
            "insert_cell",
            "overwrite_cell_source",
            "edit_cell_source",
            "execute_cell",
            "insert_execute_code_cell",
            "delete_cell",
            "clear_cell_output",
            "move_cell",
        }
    )

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.notebook = ""
        """The one that is activated."""
        self.wary = False
        """Whether others may be editing: then it asks to see what it deletes."""

    async def use(self, path: str, **more: Any) -> Answer | None:
        """Activate a notebook, unless it is; the answer shows its first cells."""
        if self.notebook == path:
            return None
        answer = await self.call(
            "use_notebook", notebook_name=path.removesuffix(".ipynb"), notebook_path=path, **more
        )
        self.notebook = path
        return answer

"""What goes back to a client: text, images and links, bounded; errors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ResourceLink,
    TextContent,
)

from ..documents.text import clip_bytes, size
from ..errors import CollaborationError
from ..remedies import Intent
from ..tools.limits import Echoes
from ..tools.registry import MOST_LENGTH, Answer

_log = logging.getLogger(__name__)

#: Bytes that are left for what stands beside a text that programs parse.
_LEAST = 1_000


def add_news(answer: Answer, news: Sequence[str]) -> Answer:
    """Tell an agent what happened to the server itself; with its next answer, whatever that is."""
    if not news:
        return answer
    said = answer.text if answer.beside is None else answer.beside
    text = "\n".join([*filter(None, [said]), *news, "Tell the person who runs the server."])
    facts = {**answer.facts, "notices": [*answer.facts.get("notices", ()), *news]}
    if answer.beside is None:
        return replace(answer, text=text, facts=facts)
    return replace(answer, beside=text, facts=facts)


def success(answer: Answer, echoes: Echoes, wording: Mapping[Intent, str]) -> CallToolResult:
    """The result of a tool that has answered, also where it reports an error."""
    text, facts, failed = answer.text, answer.facts, False
    if answer.error is not None:
        failed = True
        text = echoes.cut(error_text(answer.error, wording)) + f"\n{text}"
        facts = {**_error_facts(answer.error, echoes, wording), **facts}
    # What a document says is never cut here, even where it is what the caller looked for.
    content: list[ContentBlock] = [TextContent(type="text", text=_bounded(text))]
    if answer.beside:
        room = max(_LEAST, MOST_LENGTH - size(text))
        content.append(TextContent(type="text", text=_bounded(answer.beside, room)))
    content += [
        ImageContent(type="image", data=picture.data, mime_type=picture.mime)
        for picture in answer.pictures
    ]
    content += [
        ResourceLink(type="resource_link", uri=link.uri, name=link.name, mime_type=link.mime)
        for link in answer.links
    ]
    return CallToolResult(content=content, structured_content=facts, is_error=failed)


def failure(
    error: CollaborationError, echoes: Echoes, wording: Mapping[Intent, str]
) -> CallToolResult:
    """The result of a tool that has raised an error."""
    text = _bounded(echoes.cut(error_text(error, wording)))
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=_error_facts(error, echoes, wording),
        is_error=True,
    )


def fault(what: str, data: Mapping[str, Any] | None = None) -> MCPError:
    """The error for a fault of ours, which is logged and not shown."""
    _log.exception("Could not %s", what)
    said = "internal_error: Internal error in this server; its log says more."
    return MCPError(code=INTERNAL_ERROR, message=said, data=data)


def error_text(error: CollaborationError, wording: Mapping[Intent, str]) -> str:
    """What a model reads of an error."""
    return f"{error.code}: {error.said_in(wording)}"


def compute(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts with those that are only made if somebody asks."""
    return {name: fact() if callable(fact) else fact for name, fact in facts.items()}


def _bounded(text: str, most: int = MOST_LENGTH) -> str:
    """What a client would not show is not sent. Tools keep below that by themselves."""
    if size(text) <= most:
        return text
    first = f"Of {len(text):,} characters, some in the middle are left out. Ask for less.\n"
    return first + clip_bytes(text, most - len(first))


def _error_facts(
    error: CollaborationError, echoes: Echoes, wording: Mapping[Intent, str]
) -> dict[str, Any]:
    facts = {
        "code": error.code,
        "message": error.happened,
        "next_step": error.step_in(wording),
        **error.detail,
    }
    return {"error": echoes.cut_all(facts)}

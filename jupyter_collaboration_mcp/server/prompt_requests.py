"""Requests about prompts: listing them, and filling one in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ContentBlock,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    ListPromptsResult,
    PaginatedRequestParams,
    PromptArgument,
    PromptMessage,
    TextContent,
    TextResourceContents,
)
from mcp_types import Prompt as ListedPrompt

from ..documents.foreign_text import NAME, did_you_mean, listed, quoted
from ..errors import CollaborationError, InternalError, InvalidArgument, ServerError
from ..panics import contained
from ..prompts.kinds import Embedded, Message, Prompt
from ..tools import limits
from ..tools.limits import Echoes
from .gate import Gate
from .resource_requests import LASTING, Context
from .results import error_text, fault

#: Filling in a prompt is a call, too; it has no tool.
GET = "prompts/get"


class PromptRequests:
    """Answers requests about some prompts."""

    def __init__(self, gate: Gate, prompts: Sequence[tuple[str, Prompt]]) -> None:
        self._gate = gate
        self._prompts = dict(prompts)

    async def list_all(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """All prompts. They differ for no caller and never change."""
        prompts = [
            ListedPrompt(
                name=name,
                title=prompt.title,
                description=prompt.description,
                arguments=[
                    PromptArgument(
                        name=each.name, description=each.description, required=each.required
                    )
                    for each in prompt.arguments
                ],
            )
            for name, prompt in self._prompts.items()
        ]
        return ListPromptsResult(prompts=prompts, ttl_ms=LASTING)

    async def get(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """The messages of a prompt.

        Raises:
            MCPError: There is no such prompt, or it cannot be filled in with these arguments.
        """
        arguments = params.arguments or {}
        try:
            with contained():
                limits.check(arguments, self._gate.most_items)
                prompt = self._find(params.name)
                messages = await self._fill_in(ctx, prompt, _checked(prompt, arguments))
        except CollaborationError as error:
            is_ours = isinstance(error, ServerError | InternalError)
            raise MCPError(
                code=INTERNAL_ERROR if is_ours else INVALID_PARAMS,
                message=Echoes(arguments).cut(error_text(error, self._gate.wording(ctx))),
            ) from error
        except Exception as error:
            raise fault(f"fill in the prompt {params.name[:100]}") from error
        return GetPromptResult(
            description=prompt.description,
            messages=[PromptMessage(role="user", content=_content(each)) for each in messages],
        )

    async def _fill_in(
        self, ctx: Context, prompt: Prompt, given: Mapping[str, str]
    ) -> Sequence[Message]:
        await self._gate.ready()
        async with self._gate.following(ctx, GET, given.get("path", "")) as call:
            return await prompt.messages(call, given, frozenset(self._gate.names(ctx)))

    def _find(self, name: str) -> Prompt:
        if name not in self._prompts:
            raise InvalidArgument(
                f"There is no prompt {quoted(name, NAME)}; there are: {listed(self._prompts)}.",
                f"{did_you_mean(name, self._prompts)}Choose one of them.",
            )
        return self._prompts[name]


def _checked(prompt: Prompt, arguments: Mapping[str, str]) -> dict[str, str]:
    """Arguments without empty ones, which clients send for a field that was not filled in."""
    names = [each.name for each in prompt.arguments]
    if unknown := [name for name in arguments if name not in names]:
        known = f"It has {listed(names)}." if names else "It has none."
        raise InvalidArgument(
            f"This prompt has no argument {quoted(unknown[0], NAME)}. {known}",
            f"{did_you_mean(unknown[0], names)}Leave the others out.",
        )
    given = {name: value.strip() for name, value in arguments.items() if value.strip()}
    missing = [each.name for each in prompt.arguments if each.required and each.name not in given]
    if missing:
        raise InvalidArgument(
            f"The argument {' and '.join(missing)} is missing.",
            "Pick the prompt again and fill it in.",
        )
    return given


def _content(message: Message) -> ContentBlock:
    if isinstance(message, str):
        return TextContent(type="text", text=message)
    if isinstance(message, Embedded):
        contents = TextResourceContents(uri=message.uri, text=message.text, mime_type=message.mime)
        return EmbeddedResource(type="resource", resource=contents)
    return ImageContent(type="image", data=message.data, mime_type=message.mime)

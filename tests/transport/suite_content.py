"""The resources and prompts that the conformance suite reads, served as ours are."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence

from jupyter_collaboration_mcp.documents.images import Picture
from jupyter_collaboration_mcp.prompts.kinds import Argument, Embedded, Message
from jupyter_collaboration_mcp.resources.kinds import Content, Kind, Watch
from jupyter_collaboration_mcp.workspace.permits import Call

_PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class SuiteResources(Kind):
    """`test://...`."""

    template = "test://template/{id}/data"
    description = "What the conformance suite reads."

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        match uri.removeprefix("test://").split("/"):
            case ["static-text"] | ["watched-resource"] | ["example-resource"]:
                return [Content("text/plain", "This is static text.")]
            case ["static-binary"]:
                return [Content("image/png", base64.b64decode(_PICTURE))]
            case ["template", name, "data"]:
                return [Content("application/json", f'{{"id": "{name}"}}')]
        return None

    async def watch(self, call: Call, uri: str, tell: Callable[[], None]) -> Watch | None:
        return _Watch() if uri == "test://watched-resource" else None


class _Watch:
    async def may_read(self, call: Call) -> bool:
        return True

    def close(self) -> None:
        pass


class _SuitePrompt:
    title = "Of the suite"
    description = "What the conformance suite picks."
    arguments: Sequence[Argument] = ()

    def __init__(self, *arguments: str) -> None:
        self.arguments = [Argument(name, name, required=True) for name in arguments]

    async def messages(
        self, call: Call, given: Mapping[str, str], tools: Collection[str]
    ) -> Sequence[Message]:
        return [*self.before(given), f"Prompt with arguments: {dict(given)}"]

    def before(self, given: Mapping[str, str]) -> Sequence[Message]:
        return []

    async def complete(
        self, call: Call, argument: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        return [f"{beginning}ing"]


class _WithResource(_SuitePrompt):
    def before(self, given: Mapping[str, str]) -> Sequence[Message]:
        return [Embedded(given["resourceUri"], "Embedded text.")]


class _WithPicture(_SuitePrompt):
    def before(self, given: Mapping[str, str]) -> Sequence[Message]:
        return [Picture("image/png", _PICTURE, 1, 1, None)]


SUITE_PROMPTS = (
    ("test_simple_prompt", _SuitePrompt()),
    ("test_prompt_with_arguments", _SuitePrompt("arg1", "arg2")),
    ("test_prompt_with_embedded_resource", _WithResource("resourceUri")),
    ("test_prompt_with_image", _WithPicture()),
)

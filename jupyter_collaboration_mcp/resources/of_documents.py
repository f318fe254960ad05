"""What all resources of documents have in common: completion of their URIs, and watching them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..tools.parts import Parts
from ..workspace.permits import Call
from .documents import Documents
from .kinds import Kind, Watch
from .variables import Variables
from .watching import watch


class OfDocuments(Kind):
    """Resources that belong to documents."""

    def __init__(self, parts: Parts) -> None:
        self._sites = parts.sites
        self._documents = Documents(parts.sites)
        self._variables = Variables(parts.sites)

    async def complete(
        self, call: Call, variable: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        return await self._variables.complete(call, variable, beginning, given)

    async def watch(self, call: Call, uri: str, tell: Callable[[], None]) -> Watch | None:
        return await watch(self._documents, call, uri, tell)

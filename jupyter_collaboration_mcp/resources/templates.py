"""Templates of notebooks as resources: the notebooks that are made of them, with defaults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ..documents.addresses import Template as Address
from ..documents.template import Template
from ..errors import DocumentNotFound, PermissionRefused
from ..tools.parts import Parts
from ..workspace.permissions import Level
from ..workspace.permits import Call
from .kinds import Content, Kind, Listed


class Templates(Kind):
    """`notebook://templates/{name}`."""

    template = Address.TEMPLATE
    description = "A template of notebooks, as Markdown with its default parameters."
    mime = "text/markdown"

    def __init__(self, parts: Parts) -> None:
        self._templates = parts.templates

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = Address.parse(uri)
        if address is None:
            return None
        await call.authorize(Level.read)
        template = await self._templates.find(address.name)
        if template is None:
            names = ", ".join(each.name for each in await self._templates.all())
            raise DocumentNotFound(
                f"There is no template {address.name[:100]!r}.", f"Templates: {names}."
            )
        lasting = self._templates.lasting
        return [Content(self.mime, template.preview, _meta(template), lasting=lasting)]

    async def listed(self, call: Call) -> AsyncIterator[Listed]:
        try:
            await call.authorize(Level.read)
        except PermissionRefused:
            return
        for each in await self._templates.all():
            yield Listed(
                *(Address(each.name).format(), each.name, each.purpose, self.mime),
                title=f"Template: {each.title}",
                meta=_meta(each),
            )

    async def complete(
        self, call: Call, variable: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        await call.authorize(Level.read)
        return [e.name for e in await self._templates.all() if e.name.startswith(beginning)]


def _meta(template: Template) -> dict[str, Any]:
    """What is known about a template beside its text."""
    return {
        "pattern": template.name,
        "parameters": [
            {"name": each.name, "type": each.type, "default": each.default}
            for each in template.parameters
        ],
    }

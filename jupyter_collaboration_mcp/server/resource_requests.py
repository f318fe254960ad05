"""Requests about resources: listing them page by page, their templates, and reading one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Annotations,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..errors import CollaborationError, InternalError, InvalidArgument, PathRefused, ServerError
from ..panics import contained
from ..remedies import Intent
from ..resources.kinds import Content, Listed, ResourceKind
from ..workspace.permits import Call
from .gate import Gate
from .results import error_text, fault

Context = ServerRequestContext[Any, Any]

#: A read is a call, too; it has no tool.
READ = "resources/read"

#: Resources on one page of a list.
_PAGE = 100

#: Milliseconds for which a client may keep what stays the same.
LASTING = 3_600_000

#: The code for a resource that is not there; the newer era uses that of invalid parameters.
_NOT_FOUND = -32002


class ResourceRequests:
    """Answers requests about resources of some kinds."""

    def __init__(self, gate: Gate, kinds: Sequence[tuple[str, ResourceKind]]) -> None:
        self._gate = gate
        self._kinds = kinds

    async def list_page(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """A page of all resources that the caller may read."""
        call = self._gate.call(self._gate.request(ctx), "resources/list")
        start, last = _parse_cursor(None if params is None else params.cursor)
        page: list[Listed] = []
        position = 0
        with contained():
            await self._gate.ready()
            async for each in self._listed(call):
                if len(page) == _PAGE:
                    resources, cursor = [*map(_resource, page)], _cursor(position, page[-1].uri)
                    return ListResourcesResult(resources=resources, next_cursor=cursor)
                position += 1
                if each.uri == last:  # wherever it is by now: others have come or gone before it
                    start = position
                    page.clear()
                elif position > start:
                    page.append(each)
        return ListResourcesResult(resources=[*map(_resource, page)])

    async def _listed(self, call: Call) -> AsyncIterator[Listed]:
        for _, kind in self._kinds:
            async for each in kind.listed(call):
                yield each

    async def list_templates(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """All forms of URIs. They differ for no caller and never change."""
        templates = [
            ResourceTemplate(
                uri_template=kind.template,
                name=name,
                description=kind.description,
                mime_type=kind.mime,
            )
            for name, kind in self._kinds
            if "{" in kind.template
        ]
        return ListResourceTemplatesResult(resource_templates=templates, ttl_ms=LASTING)

    async def read(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """What is at a URI.

        Raises:
            MCPError: Nothing is there, or the caller may not see it.
        """
        uri = str(params.uri)
        try:
            with contained():
                await self._gate.ready()
                contents = await self._read(ctx, uri)
        except CollaborationError as error:
            raise refusal(error, uri, ctx.protocol_version, self._gate.wording(ctx)) from error
        except MCPError:
            raise
        except Exception as error:  # clients of the older era would be told what it says
            raise fault(f"read {uri[:300]}", {"uri": uri}) from error
        lasting = bool(contents) and all(each.lasting for each in contents)
        return ReadResourceResult(
            contents=[_contents(each.uri or uri, each) for each in contents],
            ttl_ms=LASTING if lasting else 0,
        )

    async def _read(self, ctx: Context, uri: str) -> Sequence[Content]:
        async with self._gate.following(ctx, READ, uri) as call:
            for _, kind in self._kinds:
                contents = await kind.read(call, uri)
                if contents is not None:
                    return contents
            raise self.unknown(uri)

    def unknown(self, uri: str) -> InvalidArgument:
        """The error for a URI that has no known form."""
        templates = ", ".join(kind.template for _, kind in self._kinds)
        return InvalidArgument(
            f"{uri[:300]!r} is not the address of a resource.", f"Addresses are {templates}."
        )


def refusal(
    error: CollaborationError, uri: str, protocol_version: str, wording: Mapping[Intent, str]
) -> MCPError:
    """An error about a resource, as a version of the protocol has it."""
    if isinstance(error, InvalidArgument | PathRefused):
        code = INVALID_PARAMS
    elif isinstance(error, ServerError | InternalError):
        code = INTERNAL_ERROR
    else:
        code = INVALID_PARAMS if protocol_version in MODERN_PROTOCOL_VERSIONS else _NOT_FOUND
    return MCPError(code=code, message=error_text(error, wording), data={"uri": uri})


def _resource(each: Listed) -> Resource:
    modified = each.last_modified
    return Resource(
        uri=each.uri,
        name=each.name,
        title=each.title,
        description=each.description,
        mime_type=each.mime,
        annotations=None if modified is None else Annotations(last_modified=modified),
        _meta=_meta(each.meta),
    )


def _contents(uri: str, each: Content) -> TextResourceContents | BlobResourceContents:
    if isinstance(each.body, bytes):
        blob = base64.b64encode(each.body).decode()
        return BlobResourceContents(uri=uri, blob=blob, mime_type=each.mime, _meta=_meta(each.meta))
    return TextResourceContents(
        uri=uri, text=each.body, mime_type=each.mime, _meta=_meta(each.meta)
    )


def _meta(meta: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if meta is None else dict(meta)


def _cursor(position: int, uri: str) -> str:
    return base64.urlsafe_b64encode(f"{position}:{uri}".encode()).decode()


def _parse_cursor(cursor: str | None) -> tuple[int, str]:
    """How many resources were listed before, and the last of them."""
    if cursor is None:
        return 0, ""
    try:
        position, colon, uri = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
        if colon and position.isdecimal() and len(position) < 10:
            return int(position), uri
    except (binascii.Error, ValueError):
        pass
    raise MCPError(
        code=INVALID_PARAMS, message="There is no such page. List again without a cursor."
    )

"""Secrets that are masked before a model sees them; documents keep what they have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import ErrorData

#: What stands in the place of a secret.
MASK = "[masked]"

_NOTE = f"Secrets are shown as {MASK}; the document has them. Do not write the mask into it."

#: What the results of these requests quote of documents.
_QUOTING = ("tools/call", "resources/read", "resources/list", "prompts/get", "completion/complete")

#: Variables whose values are secrets, by their names; shorter values would be found everywhere.
_SECRET = re.compile(r"TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY", re.I)
_SHORTEST = 8

#: Blocks of content that have no text but `data`.
_PICTURES = ("image", "audio")


class Redactor:
    """Masks values and what fits patterns.

    Args:
        values: Secrets as they are.
        patterns: Regular expressions; of one with a group only the group is masked.
    """

    def __init__(self, values: Iterable[str] = (), patterns: Sequence[str] = ()) -> None:
        # In JSON they may stand escaped; the longest first, in case one contains another.
        forms = {form for value in values for form in (value, json.dumps(value)[1:-1])}
        ordered = sorted(forms, key=len, reverse=True)
        self._patterns = [re.compile("|".join(map(re.escape, ordered)))] if ordered else []
        self._patterns += [re.compile(pattern) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def mask(self, text: str) -> tuple[str, int]:
        """A text without secrets, and how many there were."""
        found = 0
        for pattern in self._patterns:
            text, count = pattern.subn(_masked, text)
            found += count
        return text, found

    def mask_all(self, value: Any, names: bool = False) -> tuple[Any, int]:
        """The same for all texts in a result.

        Args:
            names: Whether names of fields come from documents, too.
        """
        if isinstance(value, str):
            return self.mask(value)
        found = 0
        if isinstance(value, dict):
            masked = {}
            for name, each in value.items():
                own, count = self.mask(name) if names else (name, 0)
                masked[own], more = (
                    (each, 0)
                    if _is_plain(value, name, names)
                    else (self.mask_all(each, names or name in _OF_DOCUMENTS))
                )
                found += count + more
            return masked, found
        if isinstance(value, list):
            pairs = [self.mask_all(each, names) for each in value]
            return [each for each, _ in pairs], sum(count for _, count in pairs)
        return value, 0


#: Fields whose values come from documents as they are.
_OF_DOCUMENTS = ("structuredContent", "metadata")


def _is_plain(value: Mapping[str, Any], name: str, of_document: bool) -> bool:
    """Whether a field of a result, and not of what a document has, is no text of a document."""
    if of_document:
        return False
    return name in ("type", "mimeType", "blob") or (
        name == "data" and value.get("type") in _PICTURES
    )


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """The values of environment variables that look like secrets."""
    return [
        value
        for name, value in environment.items()
        if _SECRET.search(name) and len(value) >= _SHORTEST
    ]


class Redaction:
    """Middleware that masks secrets in everything that quotes documents, errors included."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        try:
            result = await call_next(ctx)
        except MCPError as error:
            message, found = self._redactor.mask(error.error.message)
            if not found:
                raise
            known, _ = self._redactor.mask_all(error.error.data, names=True)
            data = ErrorData(code=error.error.code, message=message, data=known)
            raise MCPError(**data.model_dump()) from None
        if ctx.method not in _QUOTING or not isinstance(result, dict):
            return result
        masked, found = self._redactor.mask_all(result)
        if found:
            _tell(masked)
        return dict(masked)


def _tell(result: dict[str, Any]) -> None:
    """Say in a result that something was masked."""
    if isinstance(content := result.get("content"), list):
        content.append({"type": "text", "text": _NOTE})
    result["_meta"] = {**(result.get("_meta") or {}), "masked": True}


def _masked(found: re.Match[str]) -> str:
    if not found.re.groups or found[1] is None:
        return MASK
    start, end = found.start(1) - found.start(), found.end(1) - found.start()
    return f"{found[0][:start]}{MASK}{found[0][end:]}"

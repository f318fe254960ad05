"""A prompt about the past: what changed in a document since a version."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from ..documents.content_diff import compare
from ..documents.text import clip_bytes
from ..tools.answers import how_many
from ..tools.version_lines import fitting, moment, version_line
from ..workspace import completion
from ..workspace.history import content_at, content_now, find_version
from ..workspace.permits import Call
from ..workspace.sites import SiteDocument
from .documents import DATA, MOST_EMBEDDED, Abilities, DocumentPrompt, embedded
from .kinds import Argument, Message

#: Versions that are named, and bytes that they and the first lines take of what is embedded.
_VERSIONS, _FRAME = 20, 4_000


class SummarizeChanges(DocumentPrompt):
    """Embeds the differences between a version and now, and who made them."""

    title = "Summarise what changed"
    description = "Summarise what people and agents changed in a document since a version of it."
    arguments = (
        Argument("since", "Id or name of the version to compare with.", required=True),
        Argument("path", "Path of the document; if left out, the one that the agent used last."),
    )
    kind = None

    async def messages(
        self, call: Call, given: Mapping[str, str], tools: Collection[str]
    ) -> Sequence[Message]:
        here = await self._given(call, given)
        abilities = Abilities.at(call, here, tools)
        versions = here.site.workspace.versions
        since = await find_version(versions, here, given["since"])
        before, after = await content_at(versions, here, since), await content_now(here)
        parts = await asyncio.to_thread(compare, before, after)
        shown = await asyncio.to_thread(fitting, parts, MOST_EMBEDDED - _FRAME)
        diff = "\n".join([await self._who(here, since), *shown])
        more = ""
        if len(shown) < len(parts):
            more = f" The differences of {how_many(len(parts) - len(shown))} are left out."
            more += abilities.using(
                "diff_document_versions",
                f"diff_document_versions with from_version={since} and start_index={len(shown)} "
                "goes on.",
            )
        text = (
            f"Summarise what changed in {here.label} since version {since} of "
            f"{moment(since / 1000)}. {DATA}{more}\n"
            "Say what was done and by whom, in the order of importance. Name cells by their index "
            "and id. Point out what may break or contradicts something else. Change nothing."
        )
        return [embedded(here, clip_bytes(diff, MOST_EMBEDDED)), text]

    async def _who(self, here: SiteDocument, since: int) -> str:
        """The versions after one, newest first."""
        latest = await here.site.workspace.versions.list(here.peer.link.room_id, _VERSIONS)
        newer = [version_line(each) for each in latest.versions if each.id > since]
        lines = newer or ["There is no newer version."]
        head = f"{here.label}: versions after {since}, newest first, then the differences"
        return clip_bytes("\n".join([head, *lines]), _FRAME - 200)

    async def complete(
        self, call: Call, argument: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        if argument == "since":
            return await completion.version_names(await self._given(call, given), beginning)
        return await super().complete(call, argument, beginning, given)

"""A prompt that starts something new: an analysis of a data file, in a notebook."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..documents.text_view import cut
from ..errors import DocumentNotFound, InvalidArgument, NotText, TooLarge
from ..tools.places import Place, SiteTools
from ..workspace import completion
from ..workspace.permissions import Level
from ..workspace.permits import Call
from .documents import DATA, MOST_EMBEDDED, Abilities, embedded
from .kinds import Argument, Embedded, Message

#: Bytes up to which a file is opened to show its beginning: a room keeps all of its text.
_LARGEST = 2_000_000


class StartAnalysis(SiteTools):
    """Embeds the beginning of a data file, if it is text."""

    title = "Start an analysis"
    description = "Create a notebook that loads, checks and explores a data file, step by step."
    arguments = (
        Argument("file", "Path of the data file, such as sales.csv.", required=True),
        Argument("goal", "What you want to find out."),
    )

    async def messages(
        self, call: Call, given: Mapping[str, str], tools: Collection[str]
    ) -> Sequence[Message]:
        place = await self._named(call, Level.read, given["file"])
        site, permit = place.site, place.permit
        try:
            entry = await site.workspace.filing.look(permit)
        except DocumentNotFound as error:
            raise self._sites.unknown(given["file"], error) from error
        label = site.label_of(entry.path)
        if entry.type != "file":
            raise InvalidArgument(f"{label} is a {entry.type}, not a data file.", "Name a file.")
        size = "" if entry.size is None else f" ({entry.size:,} bytes)"
        head, shown = None, " Its content is not embedded: it is too large, or not text."
        if entry.size is None or entry.size <= _LARGEST:
            head, shown = await self._head(place, shown)
        abilities = Abilities(tools, min(call.allowed, site.level))
        goal = given.get("goal")
        text = (
            f"Start an analysis of the data file {label}{size} in a notebook beside it.{shown}"
            f"{f' {DATA}' if head else ''}\n{_how(abilities)}"
        )
        text += f"\nThe person wants to find out: {goal}" if goal else ""
        return [text] if head is None else [head, text]

    async def _head(self, place: Place, otherwise: str) -> tuple[Embedded | None, str]:
        """The beginning of the file as it is now, and what to say about it."""
        try:
            here = await place.site.open(place.permit, "file")
            await here.peer.refresh()
        except (NotText, TooLarge):
            return None, otherwise
        lines = cut(here.peer.text.view().source, None, None, None, MOST_EMBEDDED)
        shown = f" Only its first {lines.last:,} lines are embedded." if lines.partial else ""
        return embedded(here, lines.content), shown

    async def complete(
        self, call: Call, argument: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        if argument != "file":
            return ()
        return await completion.file_paths(call, self._sites, beginning, "data")


def _how(abilities: Abilities) -> str:
    """What to do with what the connection may do."""
    steps = (
        "load the data, check types, missing and duplicate values, describe the columns, plot what "
        "matters, and write down in markdown what you find"
    )
    if not abilities.may_edit:
        return f"This connection may only read: show the person the code of each step: {steps}."
    create = abilities.using("create_document", "Create it with create_document (type=notebook).")
    add = abilities.using(
        "batch_insert_notebook_cells", "Add cells with batch_insert_notebook_cells"
    )
    if not abilities.may_run:
        add = f"{add}, exec=false." if add else ""
        return (
            f"Steps: {steps}.{create}{add} This connection may not run code: ask the person to run "
            "the cells, and read their outputs before you conclude anything."
        )
    add = f"{add}; it also runs them." if add else ""
    return (
        f"Steps: {steps}.{create}{add} Add a few cells at a time, and look at their output before "
        "you go on."
    )

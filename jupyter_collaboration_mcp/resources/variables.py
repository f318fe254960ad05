"""Values of the variables in URIs of resources, for clients that complete what a person types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..documents.addresses import FORMATS
from ..errors import InvalidArgument
from ..workspace import completion
from ..workspace.permits import Call
from ..workspace.sites import SiteDocument, Sites
from .documents import Documents
from .listing import open_documents


class Variables:
    """Knows the values of all variables that templates of notebooks have."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._documents = Documents(sites)

    async def complete(
        self, call: Call, variable: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Values of a variable that begin in some way, given those of others."""
        match variable:
            case "session":
                found = await self._sessions(call, given.get("notebook"))
            case "notebook":
                return await completion.file_paths(call, self._sites, beginning, "notebook")
            case "format":
                found = list(FORMATS)
            case "cell" | "name":
                return completion.cell_ids(await self._open(call, given), beginning)
            case "run":
                here = await self._open(call, given)
                found = self._runs(here)
            case "n":
                found = await self._outputs(call, given)
            case _:
                found = []
        return [value for value in found if value.startswith(beginning)][: completion.MOST]

    async def _sessions(self, call: Call, notebook: str | None) -> list[str]:
        """Sessions of the servers, and those of the caller."""
        if notebook is not None:
            here = await (await self._documents.find(call, notebook)).open()
            return [here.peer.link.session_id, here.seat.session]
        found = [each.meta["sessionId"] async for each in open_documents(self._sites, call)]
        return list(dict.fromkeys(found))

    def _runs(self, here: SiteDocument) -> list[str]:
        """The runs of a notebook that are remembered, newest first."""
        runs, room_id = here.site.runs.remembered.values(), here.peer.link.room_id
        return [run.id for run in reversed(runs) if run.room_id == room_id]

    async def _outputs(self, call: Call, given: Mapping[str, str]) -> list[str]:
        if "cell" in given:
            notebook = (await self._open(call, given)).peer.notebook
            count = len(notebook.view(notebook.find(given["cell"])).outputs)
        else:
            _, run = self._sites.run(given.get("run", ""))
            await self._documents.find(call, run.room_id.file_id)
            count = len(run.log.outputs())
        return [str(number) for number in range(count)]

    async def _open(self, call: Call, given: Mapping[str, str]) -> SiteDocument:
        notebook = given.get("notebook")
        if notebook is None:
            raise InvalidArgument("The notebook is not chosen yet.", "Choose it first.")
        return await (await self._documents.find(call, notebook)).open("notebook")

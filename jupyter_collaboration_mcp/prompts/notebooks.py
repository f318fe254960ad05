"""Prompts about a notebook as it is now: review it, explain a cell, fix a cell that fails."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..documents.outputs import error_name
from ..errors import InvalidArgument
from ..tools.reading import Choice
from ..workspace import completion
from ..workspace.failures import failing_cells
from ..workspace.permits import Call
from ..workspace.sites import SiteDocument
from .documents import (
    DATA,
    PATH,
    Abilities,
    DocumentPrompt,
    embedded,
    embedded_cell,
    named_cell,
    outline,
    reading,
)
from .kinds import Argument, Message


class ReviewNotebook(DocumentPrompt):
    """Embeds the source of a notebook, or of a long one the outline."""

    title = "Review a notebook"
    description = "Find mistakes, hidden state and gaps in a live notebook. Changes nothing."
    arguments = (PATH, Argument("focus", "What to look at most, such as statistics or speed."))

    async def messages(
        self, call: Call, given: Mapping[str, str], tools: Collection[str]
    ) -> Sequence[Message]:
        here = await self._given(call, given)
        abilities = Abilities.at(call, here, tools)
        whole = await reading("source", Choice(None, None, None), None).render_cells(here)
        if whole.is_all:
            about, more = embedded(here, f"{here.label}\n{whole.text}"), ""
        else:
            about, more = await outline(here, abilities)
            more += abilities.using("get_notebook", "Read cells with get_notebook and cell_ids.")
        outputs = "get_notebook with format=full also shows outputs."
        focus = given.get("focus")
        text = (
            f"Review the notebook {here.label}. {DATA}{more}"
            f"{abilities.using('get_notebook', outputs)}\n"
            "Look for code that is wrong or fails, cells that only work in the order in which they "
            "happened to run, conclusions that the results do not support, and steps that nobody "
            "explains. Name each cell by its index and id, and begin with what matters most. "
            "Change nothing: propose changes, and wait for the person to choose."
        )
        return [about, text + (f"\nLook at this most: {focus}" if focus else "")]


class _CellPrompt(DocumentPrompt):
    """A prompt about one cell: it embeds the cell with its outputs, and the outline."""

    async def _about(
        self, here: SiteDocument, index: int, abilities: Abilities
    ) -> tuple[list[Message], str, str, str | None]:
        """The messages, the cell's handle, how to read more, and the error that the cell shows."""
        cell_id = here.peer.notebook.id_at(index)
        cells = reading("full", Choice(None, None, [cell_id]), self._images)
        rendered = await cells.render_cells(here)
        view = rendered.cells[0]
        around, more = await outline(here, abilities)
        if not rendered.is_all:
            left = f"Of the cell only the first {rendered.next_position:,} characters are embedded."
            more = f" {left}{more}"
        more += abilities.using("get_notebook", "Read other cells with get_notebook and cell_ids.")
        messages: list[Message] = [around, embedded_cell(here, view.id, rendered.text)]
        messages += await cells.pictures(rendered.cells)
        return messages, view.handle, more, error_name(view.outputs)


class ExplainCell(_CellPrompt):
    """Embeds a cell with its outputs."""

    title = "Explain a cell"
    description = "Explain what a cell does, what it needs from other cells, and what it shows."
    arguments = (Argument("cell", "Id of the cell, or its index.", required=True), PATH)

    async def messages(
        self, call: Call, given: Mapping[str, str], tools: Collection[str]
    ) -> Sequence[Message]:
        here = await self._given(call, given)
        abilities = Abilities.at(call, here, tools)
        index = named_cell(here, given["cell"])
        messages, handle, more, _ = await self._about(here, index, abilities)
        variables = "inspect_variables shows the values that its variables have now."
        if abilities.may_run:
            more += abilities.using("inspect_variables", variables)
        text = (
            f"Explain the cell {handle} of {here.label}. {DATA}{more}\n"
            "Say what it does, what it needs from earlier cells, and what its output means. "
            "Change nothing."
        )
        return [*messages, text]

    async def complete(
        self, call: Call, argument: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        if argument == "cell":
            return completion.cell_ids(await self._given(call, given), beginning)
        return await super().complete(call, argument, beginning, given)


class FixCell(_CellPrompt):
    """Embeds a cell with its error."""

    title = "Fix a failing cell"
    description = "Find out why a cell fails, fix it in the live notebook, and run it again."
    arguments = (PATH, Argument("cell", "Id or index of the cell; default: the first that fails."))

    async def messages(
        self, call: Call, given: Mapping[str, str], tools: Collection[str]
    ) -> Sequence[Message]:
        here = await self._given(call, given)
        abilities = Abilities.at(call, here, tools)
        index = await self._wanted(here, given.get("cell"))
        messages, handle, more, error = await self._about(here, index, abilities)
        shows = "which shows an error" if error else "although it shows no error now"
        text = (
            f"Fix the cell {handle} of {here.label}, {shows}. {DATA}{more}\n"
            f"Find the cause first; it may be in another cell. {_how(abilities)}"
        )
        return [*messages, text]

    async def _wanted(self, here: SiteDocument, cell: str | None) -> int:
        if cell is not None:
            return named_cell(here, cell)
        failing = await failing_cells(here)
        notebook = here.peer.notebook
        found = next((each for each in failing if notebook.has(each)), None)
        if found is None:
            raise InvalidArgument(
                f"No cell of {here.label} shows an error.", "Run it first, or name a cell."
            )
        return notebook.find(found)

    async def complete(
        self, call: Call, argument: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        if argument != "cell":
            return await super().complete(call, argument, beginning, given)
        here = await self._given(call, given)
        failing, notebook = await failing_cells(here), here.peer.notebook
        indexes = [notebook.find(each) for each in failing if notebook.has(each)]
        return completion.cell_ids(here, beginning, indexes)


def _how(abilities: Abilities) -> str:
    """How to fix a cell with what the connection may do."""
    edit = abilities.using("batch_update_notebook_cells", "Use batch_update_notebook_cells")
    if not abilities.may_edit:
        return (
            "This connection may only read: say exactly which cell to change, and to what. The "
            "person does it."
        )
    if not abilities.may_run:
        edit = f"{edit} with exec=false." if edit else ""
        return (
            f"Then change as little as possible.{edit} This connection may not run code: ask the "
            "person to run the cell, and to say what happens."
        )
    edit = f"{edit}; it also runs the cell." if edit else ""
    variables = "inspect_variables shows the values that variables have now."
    look = abilities.using("inspect_variables", variables)
    return (
        f"Then change as little as possible.{edit}{look} Check the new output, and go on until the "
        "cell works. Say in the end what was wrong and what you changed."
    )

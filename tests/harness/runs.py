"""What a test asks of runs, and what it sees of them."""

from __future__ import annotations

from typing import Any

from .agents import AgentClient
from .collaborator import Collaborator
from .kernels import Gate, eventually


async def run(client: AgentClient, path: str, cell: str | int, **more: Any) -> dict[str, Any]:
    """Run a cell; what the answer says of the run."""
    facts = await client.ask("execute_notebook_cell", path=path, cell_id=cell, **more)
    (told,) = facts["runs"]
    return dict(told)


async def run_cells(client: AgentClient, path: str, **more: Any) -> list[dict[str, Any]]:
    facts = await client.ask("batch_execute_notebook_cells", path=path, **more)
    return list(facts["runs"])


async def start(client: AgentClient, path: str, cell: str | int, gate: Gate) -> str:
    """Run a cell that waits at a gate, and come back when it does; returns the run's id."""
    told = await run(client, path, cell, timeout=0)
    await gate.reached()
    await works(client, told["run_id"])
    return str(told["run_id"])


async def works(client: AgentClient, run_id: str) -> None:
    """Wait until the server knows that the kernel works on a run."""

    async def look() -> dict[str, Any]:
        return await client.ask("get_run", run_id=run_id, wait=0)

    await eventually(look, lambda facts: facts["state"] == "working")


async def busy_for_a_person(client: AgentClient, path: str) -> str:
    """Wait until an agent sees that a person keeps the kernel busy; returns what it reads."""

    async def look() -> str:
        return await client.say("get_notebook_status", path=path)

    return str(await eventually(look, lambda text: "no agent started" in text))


async def finish(client: AgentClient, run_id: str) -> dict[str, Any]:
    """Wait for the end of a run that must not have an error of ours."""
    return await client.ask("get_run", run_id=run_id, wait=20)


def outputs_of(person: Collaborator, cell: str | int) -> list[dict[str, Any]]:
    return list(person.cell(cell)["outputs"])


def printed_in(person: Collaborator, cell: str | int) -> str:
    return "".join(output.get("text", "") for output in outputs_of(person, cell))


def states_of(runs: list[dict[str, Any]]) -> list[str]:
    return [told["state"] for told in runs]


def printed(told: dict[str, Any]) -> str:
    """What an answer shows of a run's output."""
    return "".join(output["text"] for output in told["outputs"])


async def shows(person: Collaborator, cell: str | int, said: str) -> None:
    """Wait until a person sees that a cell has printed just this."""
    await person.until(lambda: printed_in(person, cell) == said)

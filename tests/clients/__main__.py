"""`python -m tests.clients [CLIENT ...]`, which `scripts/clients` runs once they are installed."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import EXTENSIONS
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess

from . import scenario
from .driving import CLIENTS, WAYS, Client, NotInstalled, Session, drive

_NAMES = list(dict.fromkeys(client.name for client in CLIENTS))
_SHOWN = 1200


def main(arguments: Sequence[str] | None = None) -> None:
    """Drive clients through the scenario and print each call with its answer."""
    parser = argparse.ArgumentParser(
        prog="scripts/clients",
        description="Shows what a model reads of our answers: drives real MCP clients, which it "
        "installs from npm, with a stand-in for the model. Names come before options.",
    )
    parser.add_argument("clients", nargs="*", metavar="|".join(_NAMES), default=["codex"])
    parser.add_argument("--way", choices=WAYS, action="append", help="only this one")
    parser.add_argument(
        "--characters", type=int, default=_SHOWN, help=f"to print of each text; default: {_SHOWN}"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.clients) - set(_NAMES):
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    try:
        wanted = [client for client in CLIENTS if client.name in options.clients]
        finished = asyncio.run(_show(wanted, options.way or WAYS, options.characters))
    except NotInstalled as error:
        sys.exit(str(error))
    sys.exit(0 if finished else 1)


async def _show(clients: Sequence[Client], ways: Sequence[str], characters: int) -> bool:
    """Print every session; whether all of them went through the whole scenario."""
    finished = True
    for client in clients:
        for way in ways:
            session = await driven(client, way)
            print(_shown(session, characters), flush=True)
            finished = finished and session.finished
    return finished


async def driven(client: Client, way: str) -> Session:
    """Drive a client through the scenario, against a server of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        scenario.write_files(root)
        extensions = {**EXTENSIONS, "jupyter_collaboration_mcp": way == "extension"}
        async with JupyterProcess(root, extensions=extensions, env=NOT_MEASURED) as server:
            return await drive(client, server, way, scenario.script)


def _shown(session: Session, characters: int) -> str:
    title = f"{session.title}, version {session.version}, {session.way}"
    lines = [
        f"{title}\n{'=' * len(title)}",
        f"{len(session.tools)} tools are offered to the model.",
    ]
    for number, exchange in enumerate(session.exchanges, 1):
        answer = exchange.answer
        lines += [
            f"\n--- {number}. {exchange.call}",
            f"    {len(answer.text):,} characters, {len(answer.pictures)} images,"
            f" {len(answer.links)} links",
            answer.abridged(characters),
        ]
    if session.elsewhere:
        lines.append(f"\nTried to reach: {', '.join(sorted(set(session.elsewhere)))}")
    if not session.finished:
        lines.append(f"\nThe client ended before the scenario did. It printed:\n{session.output}")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()

"""Two agents of the extension, one of the command and two people do everything at once.

They write, move, retype, undo, run, rename, copy and restart kernels by a plan that follows from a
seed, while the server is killed at random moments. Afterwards all replicas are equal, the file is
what the room is, ids are unique, the notebook is valid, every acknowledged edit is there or was
superseded by a later one, nothing is there twice, and no word that a person typed is lost
(`ledger.py` says what follows from which answer).

What is documented to be lost does not happen here: nobody types into a cell that is being moved,
retyped or deleted, or into one of whose move a tab has not heard yet (`places.py`); people pause
and save before the file is written on disk; and the server is not killed between such a write and
the moment when all have taken it over (`faults.py`). No two write at one position: each has a line.

    STATEFUL_ROUNDS=20 STATEFUL_SEED=7 python -m pytest tests/stateful

plays twenty rounds of another seed; `STATEFUL_WITHOUT=run,cleo.rename` leaves operations out, and
`STATEFUL_KEEP=DIRECTORY` keeps what each killed server left. A failure shows the seed, the history
of each word that is not as it should be, and the history of the round. The plan is the same for the
same seed; the timing is not.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tests.conftest import MakeServer
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.standalone import StandaloneProcess

from .rounds import Round, plan_of

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(240)]

SEED = os.environ.get("STATEFUL_SEED", "1")
ROUNDS = int(os.environ.get("STATEFUL_ROUNDS", "2"))
WITHOUT = frozenset(filter(None, os.environ.get("STATEFUL_WITHOUT", "").split(",")))


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    config = {"YDocExtension": {"document_save_delay": 0.3}}
    async with make_server(env=NOT_MEASURED, config=config) as process:
        yield process


@pytest.fixture(scope="module")
async def command(server: JupyterProcess) -> AsyncIterator[StandaloneProcess]:
    async with StandaloneProcess([server]) as process:
        yield process


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_nothing_is_lost_or_duplicated_whatever_everybody_does(
    server: JupyterProcess, command: StandaloneProcess, number: int
) -> None:
    seed = f"{SEED}/{number}"
    await Round(server, command, seed).play(plan_of(seed, WITHOUT))
